"""Read text files, plain or compressed, with located errors."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Literal

from lapis.errors import LapisError, Source, Span

READ_ERRORS = (OSError, EOFError, zlib.error)


def read_error(path: Path, error: Exception, what: str = "file") -> LapisError:
    """Return the error of a path that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return LapisError(f"{path}: there is no such {what}", code="no-such-file")
    reason = getattr(error, "strerror", None) or str(error)
    return LapisError(f"{path}: cannot be read: {reason}", code="unreadable-file")


def read_source(path: Path, errors: Literal["strict", "replace"] = "strict") -> Source:
    """Read a UTF-8 text, decompressed if its suffix is .gz; bytes of other texts are `errors`."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except READ_ERRORS as error:
        raise read_error(path, error) from None
    return decode_source(str(path), content, errors)


def decode_source(
    name: str, content: bytes, errors: Literal["strict", "replace"] = "strict"
) -> Source:
    """Decode a UTF-8 text; the error of other bytes is located at the first of them."""
    try:
        return Source(name, content.decode("utf-8-sig", errors))
    except UnicodeDecodeError as error:
        text = content.decode("utf-8-sig", "replace")
        start = len(content[: error.start].decode("utf-8-sig", "replace"))
        raise LapisError(
            "the file is not UTF-8 text",
            code="data-encoding",
            span=Span(Source(name, text), start, start + 1),
            hint="save the file as UTF-8",
        ) from None
