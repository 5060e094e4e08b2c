"""Errors and warnings for users.

A `LapisError` is something that the user can fix; any other exception is a bug. It has a stable
code, the span of the source text and a hint. `str(error)` shows all of them::

    smoking.mln:4:5: unknown predicate 'Smoks'
        1.5 Smoks(x) => Cancer(x)
            ^^^^^
        did you mean 'Smokes', declared at smoking.mln:1:1?
"""

from __future__ import annotations

import difflib
import linecache
import logging
import re
import sys
import traceback
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from types import TracebackType
from typing import Any

logger = logging.getLogger("lapis")  # of warnings, and of stages (`runtime/progress_bars.py`)
logger.addHandler(logging.NullHandler())
MAX_SHOWN = 400  # characters of a source line in an error
MAX_ERRORS = 20  # shown together


@dataclass(frozen=True)
class Source:
    """A named text that spans point into."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the one-based line and column of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        start = self.line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def locate(self, offset: int) -> tuple[Source, int]:
        """Return the file of a character, and its offset there."""
        return self, offset


@dataclass(frozen=True)
class JoinedSource(Source):
    """A text put together from pieces of files: a file with its includes."""

    # For each piece: its start in this text, its file and its start there.
    pieces: tuple[tuple[int, Source, int], ...] = field(repr=False)

    def locate(self, offset: int) -> tuple[Source, int]:
        place = bisect_right(self.pieces, offset, key=itemgetter(0)) - 1
        begin, source, start = self.pieces[place]
        return source.locate(offset - begin + start)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` (inclusive) to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    def __str__(self) -> str:
        source, start = self.source.locate(self.start)
        line, column = source.line_column(start)
        return f"{source.name}:{line}:{column}"

    def underlined(self) -> list[str]:
        """Return the source line, and a line of carets below the span."""
        source, start = self.source.locate(self.start)
        line, column = source.line_column(start)
        text, before = source.line_text(line), column - 1
        width = max(1, min(self.end - self.start, len(text) - before))
        if len(text) > MAX_SHOWN:  # generated files may have very long lines
            begin = max(0, min(before - MAX_SHOWN // 4, len(text) - MAX_SHOWN))
            end = begin + MAX_SHOWN
            text = "…" * (begin > 0) + text[begin:end] + "…" * (end < len(text))
            before += (begin > 0) - begin
            width = max(1, min(width, len(text) - before))
        lead = "".join("\t" if c == "\t" else " " for c in text[:before])
        return [text, lead + "^" * width]


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that an error shows."""

    message: str
    span: Span | None = None

    def lines(self) -> list[str]:
        head = f"{self.span}: {self.message}" if self.span else self.message
        return [head, *("    " + row for row in self.span.underlined())] if self.span else [head]


class LapisError(Exception):
    """An error that the user can fix. `code` is stable and names its kind."""

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

    @property
    def codes(self) -> list[str]:
        """The codes of what is shown, each once."""
        return [self.code]

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, so that a worker's error is raised again with all fields."""
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

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows: the caller's line and the message.

        `%tb Verbose` and `%xmode Verbose` show the whole traceback.
        """
        if ipython_mode() == "Verbose":
            return "".join(traceback.format_exception(self)).splitlines()
        found = [f"  line {line}: {code}" for line, code in caller_lines(self.__traceback__)]
        return [
            "Traceback (your code; %tb Verbose shows all):",
            *found,
            *f"{type(self).__name__}: {self}".splitlines(),
        ]


def ipython_mode() -> str | None:
    """Return how IPython shows tracebacks, None outside IPython."""
    package = sys.modules.get("IPython")
    shell = package.get_ipython() if package else None
    return getattr(getattr(shell, "InteractiveTB", None), "mode", None)


def caller_lines(frames: TracebackType | None) -> list[tuple[int, str]]:
    """Return the number and text of the lines, outside the library, that led into it."""
    found: list[tuple[int, str]] = []
    for frame, line in traceback.walk_tb(frames):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == __name__.partition(".")[0]:
            break
        if package != "IPython":
            code = linecache.getline(frame.f_code.co_filename, line).strip()
            found.append((line, code))
    return found


def rebuild_error(
    kind: type[LapisError], arguments: tuple[Any, ...], fields: dict[str, Any]
) -> LapisError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


class LapisErrors(LapisError):
    """All errors of an input, reported together."""

    def __init__(self, errors: Sequence[LapisError], num_omitted: int = 0) -> None:
        super().__init__(errors[0].message, code=errors[0].code, span=errors[0].span)
        self.errors = tuple(errors)
        self.num_omitted = num_omitted  # errors that were counted only

    @property
    def codes(self) -> list[str]:
        return list(dict.fromkeys(error.code for error in self.errors[:MAX_ERRORS]))

    def __str__(self) -> str:
        more = max(0, len(self.errors) - MAX_ERRORS) + self.num_omitted
        rest = [f"and {more:,} more"] if more else []
        return "\n".join([*map(str, self.errors[:MAX_ERRORS]), *rest])


class TooLarge(LapisError):
    """The work exceeds the limits; the message has an estimate, the hint an alternative."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Warning:
    """A legal construct that is probably a mistake."""

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
    """The Python warning of a `Warning`."""

    def __init__(self, warning: Warning) -> None:
        super().__init__(str(warning).removeprefix("warning: "))
        self.warning = warning


def issue_warnings(found: Iterable[Warning]) -> None:
    """Issue Python warnings that point to the line outside the library that called it; log them.

    Frames of other packages may lie between those of the library, such as contextlib.
    """
    package = __name__.partition(".")[0]
    frame, level, outside = sys._getframe(1), 1, 1
    while frame.f_back:
        if frame.f_globals.get("__name__", "").partition(".")[0] == package:
            outside = level + 1
        frame, level = frame.f_back, level + 1
    for warning in found:
        logger.warning("%s", str(warning).removeprefix("warning: "))
        warnings.warn(LapisWarning(warning), stacklevel=outside + 1)


def raise_all(errors: Sequence[LapisError], num_omitted: int = 0) -> None:
    """Raise the errors together, if there are any."""
    if len(errors) == 1 and not num_omitted:
        raise errors[0]
    if errors:
        raise LapisErrors(errors, num_omitted)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a name, None if none is similar."""
    candidates = list(known)
    folded = {candidate.lower(): candidate for candidate in candidates}
    if name.lower() in folded:
        return folded[name.lower()]
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
    return close[0] if close else None


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """Return a hint with the most similar name, or `otherwise` if none is similar."""
    close = did_you_mean(name, known)
    return f"did you mean {close!r}?" if close else otherwise


def misplaced_file_error(path: object, found: str, wanted: str) -> LapisError:
    """Return the error for a model file given as data, or data as a model."""
    return LapisError(
        f"{path}: this is {found}, not {wanted}",
        code="misplaced",
        hint="the model (.mln) comes first, then the data (.db, or tables)",
    )


def check_word(what: str, word: str, known: Iterable[str], code: str) -> None:
    """Raise if a word is not among the known ones.

    >>> check_word("method", "gibs", ["exact", "gibbs"], code="unknown-method")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown method 'gibs'
        did you mean 'gibbs'?
    """
    choices = list(known)
    if word not in choices:
        hint = suggestion(word, choices, f"choose one of {', '.join(choices)}")
        raise LapisError(f"unknown {what} {word!r}", code=code, hint=hint)
