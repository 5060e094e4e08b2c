"""Files and folders that appear whole or not at all."""

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
    """A temporary place in the same directory that takes the path's name once all went well."""
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
    """A file of a text."""
    with whole_path(Path(path)) as place:
        place.write_text(text, encoding="utf-8")


def require_writable(path: Path | None) -> None:
    """Refuse a place for a result that cannot be written: now, not after hours."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise unwritable(path, "it is a folder" if path.is_dir() else f"no folder {path.parent}")


def unwritable(path: Path, reason: str | None) -> LapisError:
    return LapisError(f"{path}: cannot be written: {reason}", code="unwritable")
