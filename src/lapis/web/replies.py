"""Errors and warnings as JSON, with places that an editor can mark."""

from __future__ import annotations

import re

from lapis.errors import LapisError, LapisErrors, Span, Warning
from lapis.web.contract import ErrorReply, SourceMark

MAX_MARKS = 200
PROPOSAL = re.compile(r"did you mean '([^']+)'")


def as_units(text: str, offset: int) -> int:
    """Return an offset in UTF-16 units, as browsers count.

    >>> as_units("a∧b", 2), as_units("𝛼b", 1)
    (2, 2)
    """
    return offset + sum(ord(character) > 0xFFFF for character in text[:offset])


def error_reply(error: LapisError, name: str | None = None) -> ErrorReply:
    """Describe an error; marks are those in the text of this name."""
    parts = error.errors if isinstance(error, LapisErrors) else (error,)
    return {
        "code": error.code,
        "message": error.message if len(parts) == 1 else f"{len(parts)} mistakes",
        "hint": error.hint,
        "text": str(error),
        "marks": [mark_error(each, name) for each in parts[:MAX_MARKS]],
    }


def plain_error(code: str, message: str, hint: str | None = None) -> ErrorReply:
    return {"code": code, "message": message, "hint": hint, "text": message, "marks": []}


def mark_error(error: LapisError, name: str | None) -> SourceMark:
    notes = "".join(f"; {note.message}" for note in error.notes)
    return new_mark("error", error.message + notes, error.hint, error.code, error.span, name)


def mark_warning(warning: Warning, name: str | None) -> SourceMark:
    return new_mark(
        "warning", warning.message, warning.hint, warning.code, warning.span, name
    )  # fmt: skip


def new_mark(
    severity: str, message: str, hint: str | None, code: str, span: Span | None, name: str | None
) -> SourceMark:
    """Build a mark; a mistake in another text is marked at the first character."""
    start, end, line = 0, 0, 1
    if span is not None:
        source, offset = span.source.locate(span.start)
        if name is None or source.name == name:
            start = as_units(source.text, offset)
            end = as_units(source.text, min(offset + span.end - span.start, len(source.text)))
            line = source.line_column(offset)[0]
        else:
            message = f"{span}: {message}"
    fix = PROPOSAL.search(hint or "")
    return {
        "start": start,
        "end": end,
        "line": line,
        "severity": "error" if severity == "error" else "warning",
        "message": message,
        "hint": hint,
        "code": code,
        "fix": fix[1] if fix else None,
    }
