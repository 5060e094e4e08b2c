"""Where data comes from, and how to read it again when something in it must be shown."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO

from lapis.errors import LapisError, Source, Span

# A file of facts or of a table, or a text of facts that was never in a file.
Origin = Path | Source

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def table_suffix(path: Path) -> str | None:
    """The ending that makes a file a table of facts."""
    return next((suffix for suffix in TABLE_SUFFIXES if path.name.endswith(suffix)), None)


def open_origin(origin: Origin) -> BinaryIO:
    """The bytes of a text of facts, decompressed."""
    if isinstance(origin, Source):
        return io.BytesIO(origin.text.encode())
    try:
        if origin.suffix == ".gz":
            return gzip.open(origin, "rb")  # type: ignore[return-value]
        return origin.open("rb")
    except OSError as error:
        raise unreadable(origin, error) from None


def unreadable(path: Path, error: Exception) -> LapisError:
    if isinstance(error, FileNotFoundError):
        return LapisError(f"{path}: there is no such file or folder", code="no-such-file")
    reason = getattr(error, "strerror", None) or str(error)
    return LapisError(f"{path}: cannot be read: {reason}", code="unreadable-file")


READ_ERRORS = (OSError, EOFError, zlib.error)


def source_text(origin: Origin) -> Source | None:
    """The whole text of an origin, to point into; None if it is a table, not a text."""
    if isinstance(origin, Source):
        return origin
    if table_suffix(origin):
        return None
    try:
        with open_origin(origin) as stream:
            content = stream.read()
    except READ_ERRORS as error:
        raise unreadable(origin, error) from None
    try:
        return Source(str(origin), content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        text = content.decode("utf-8-sig", errors="replace")
        start = len(content[: error.start].decode("utf-8-sig"))
        raise LapisError(
            "this is not UTF-8 text",
            code="data-encoding",
            span=Span(Source(str(origin), text), start, start + 1),
            hint="save the file as UTF-8",
        ) from None
