"""Everything a user can fix is a `LapisError`; anything else that escapes is a bug.

An error knows where it is (a span of a source text), what kind it is (a stable code),
and what to do about it (a hint). `str(error)` is what the user reads::

    smoking.mln:4:5: unknown predicate 'Smoks'
        1.5 Smoks(x) => Cancer(x)
            ^^^^^
        did you mean 'Smokes', declared at smoking.mln:1:1?
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

WIDEST = 400  # characters of a line that an error shows


@dataclass(frozen=True)
class Source:
    """A named text that spans point into."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line_column(self, offset: int) -> tuple[int, int]:
        """One-based line and column of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` (inclusive) to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    def __str__(self) -> str:
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"

    def underlined(self) -> list[str]:
        """The source line and a row of carets below the span's part of it."""
        line, column = self.source.line_column(self.start)
        text, before = self.source.line_text(line), column - 1
        width = max(1, min(self.end - self.start, len(text) - before))
        if len(text) > WIDEST:  # a line of a generated file may be as long as the file
            begin = max(0, min(before - WIDEST // 4, len(text) - WIDEST))
            end = begin + WIDEST
            text = "…" * (begin > 0) + text[begin:end] + "…" * (end < len(text))
            before += (begin > 0) - begin
            width = max(1, min(width, len(text) - before))
        lead = "".join("\t" if c == "\t" else " " for c in text[:before])
        return [text, lead + "^" * width]


@dataclass(frozen=True, slots=True)
class Note:
    """A second place worth showing with an error."""

    message: str
    span: Span | None = None

    def lines(self) -> list[str]:
        head = f"{self.span}: {self.message}" if self.span else self.message
        return [head, *("    " + row for row in self.span.underlined())] if self.span else [head]


class LapisError(Exception):
    """Something the user can mend. `code` is stable and names the kind of mistake."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        span: Span | None = None,
        hint: str | None = None,
        notes: Sequence[Note] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.span = span
        self.hint = hint
        self.notes = tuple(notes)

    def __reduce__(self) -> tuple[Any, ...]:
        """An error of another process is raised here as it was there."""
        return rebuild_error, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        lines = [f"{self.span}: {self.message}" if self.span else self.message]
        if self.span:
            lines += ["    " + row for row in self.span.underlined()]
        if self.hint:
            lines.append("    " + self.hint)
        for note in self.notes:
            lines += note.lines()
        return "\n".join(lines)


def rebuild_error(
    kind: type[LapisError], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> LapisError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


class LapisErrors(LapisError):
    """All mistakes of an input, reported in one go."""

    def __init__(self, errors: Sequence[LapisError]) -> None:
        super().__init__(errors[0].message, code=errors[0].code, span=errors[0].span)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class TooLarge(LapisError):
    """The work does not fit the limits given; carries an estimate and what to do instead."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Warning:
    """Something legal that is probably not meant."""

    message: str
    code: str
    span: Span | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [
            f"{self.span}: warning: {self.message}" if self.span else f"warning: {self.message}"
        ]
        if self.span:
            lines += ["    " + row for row in self.span.underlined()]
        if self.hint:
            lines.append("    " + self.hint)
        return "\n".join(lines)


class LapisWarning(UserWarning):
    """How a `Warning` reaches the callers of the library; the command line prints it."""

    def __init__(self, warning: Warning) -> None:
        super().__init__(str(warning).removeprefix("warning: "))
        self.warning = warning


def issue_warnings(found: Iterable[Warning]) -> None:
    """Warn, as Python does, at the line outside the library that called it.

    Others may stand between functions of the library, as contextlib does.
    """
    package = __name__.partition(".")[0]
    frame, level, outside = sys._getframe(1), 1, 1
    while frame.f_back:
        if frame.f_globals.get("__name__", "").partition(".")[0] == package:
            outside = level + 1
        frame, level = frame.f_back, level + 1
    for warning in found:
        warnings.warn(LapisWarning(warning), stacklevel=outside + 1)


def raise_all(errors: Sequence[LapisError]) -> None:
    """Raise nothing, the one error, or all of them together."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise LapisErrors(errors)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to a misspelt one, if any is close."""
    candidates = list(known)
    folded = {candidate.lower(): candidate for candidate in candidates}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint at the name that may have been meant; another one where none is close."""
    close = did_you_mean(name, known)
    return f"did you mean {close!r}?" if close else otherwise


def misplaced_file_error(path: object, found: str, wanted: str) -> LapisError:
    """A file that its name tells to be something else; read as what it is not, it might pass."""
    return LapisError(
        f"{path}: this is {found}, not {wanted}",
        code="misplaced_file_error",
        hint="the model (.mln) comes first, then the data (.db, or tables)",
    )


def check_word(what: str, word: str, known: Iterable[str], code: str) -> None:
    """Refuse a word that is not among those known.

    >>> check_word("method", "gibs", ["exact", "gibbs"], code="unknown-method")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown method 'gibs'
        did you mean 'gibbs'?
    """
    choices = list(known)
    if word not in choices:
        hint = suggestion(word, choices, f"choose one of {', '.join(choices)}")
        raise LapisError(f"unknown {what} {word!r}", code=code, hint=hint)
