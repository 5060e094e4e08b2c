"""Write files and folders atomically."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lapis.errors import LapisError


@contextmanager
def whole_path(path: Path, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same directory that replaces `path` if the block succeeds."""
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise unwritable(path, error.strerror) from None
    try:
        content = temporary / path.name
        if folder:
            content.mkdir()
        yield content
        try:
            os.replace(content, path)
        except OSError as error:
            raise unwritable(path, error.strerror) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with whole_path(Path(path)) as place:
        place.write_text(text, encoding="utf-8")


def require_writable(path: Path | None) -> None:
    """Raise if a result cannot be written, before the work that computes it."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise unwritable(path, "it is a folder" if path.is_dir() else f"no folder {path.parent}")


def unwritable(path: Path, reason: str | None) -> LapisError:
    return LapisError(f"{path}: cannot be written: {reason}", code="unwritable")
