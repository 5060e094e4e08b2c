"""Write files and folders atomically, and check that they can be written before the work starts.

A file is written under another name in its folder and then renamed. The target of a symbolic link
is replaced, not the link. A device or a FIFO is written to, not replaced; `/dev/stdout` is the
standard output of the process, whatever it is redirected to. An existing file keeps its mode.

`save_path` writes results: if that fails, they are written to the folder for temporary files, which
the error names. `replace_path` writes what can be computed again: caches and checkpoints.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lapis.errors import LapisError
from lapis.runtime.limits import limits_suspended

Write = Callable[[Path], object]  # writes a file, or into an empty folder

PROBE_BYTES = 4096  # a block of most file systems
STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    save_path(Path(path), lambda place: place.write_text(text, encoding="utf-8"))


def save_path(path: Path, write: Write, folder: bool = False) -> None:
    """Write a result atomically; if that fails, to the folder for temporary files.

    The limits of the call are suspended, since a result that is not written is lost.
    """
    with limits_suspended():
        try:
            replace_path(path, write, folder)
        except LapisError as error:
            if error.code == "unwritable":
                error.hint = save_elsewhere(path, write, folder)
            raise


def save_elsewhere(path: Path, write: Write, folder: bool) -> str | None:
    """Write to the folder for temporary files; return where, None if that fails too."""
    place = None
    try:
        place = Path(tempfile.mkdtemp(prefix="lapis-"))
        write(new_content(place, path, folder))
    except OSError:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        return None
    return f"saved as {place / path.name}"


def replace_path(path: Path, write: Write, folder: bool = False) -> None:
    """Write a file or a folder atomically; raise LapisError if that fails."""
    with refused(path):
        if is_stream(path):
            write_stream(path, write)
            return
        target = follow_links(path)
        with tempfile.TemporaryDirectory(
            prefix=".lapis-", dir=target.parent, ignore_cleanup_errors=True
        ) as place:
            content = new_content(Path(place), target, folder)
            write(content)
            if target.is_file():
                shutil.copymode(target, content)
            os.replace(content, target)


def follow_links(path: Path) -> Path:
    """Return the path that a symbolic link leads to."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise unwritable(path, "it is a link to itself")
    return target


def new_content(place: Path, path: Path, folder: bool) -> Path:
    """Return a path of the same name in an empty folder; create it if it is a folder."""
    content = place / path.name
    if folder:
        content.mkdir()
    return content


def write_stream(path: Path, write: Write) -> None:
    """Write a file to a device, a FIFO or an open descriptor."""
    with tempfile.TemporaryDirectory(prefix="lapis-", ignore_cleanup_errors=True) as place:
        content = Path(place) / path.name
        write(content)
        with content.open("rb") as file, open_stream(path) as stream:
            shutil.copyfileobj(file, stream)


def open_stream(path: Path) -> BinaryIO:
    number = stream_descriptor(path)
    if number is None:
        return path.open("wb")
    for own in (sys.stdout, sys.stderr):  # what was printed before comes first
        own.flush()
    return os.fdopen(os.dup(number), "wb")


def is_stream(path: Path) -> bool:
    """Whether a path is a device, a FIFO or an open descriptor."""
    if stream_descriptor(path) is not None:
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def stream_descriptor(path: Path) -> int | None:
    """Return the number of the descriptor that a path names, None for other paths."""
    name = os.path.abspath(path)
    found = DESCRIPTOR.fullmatch(name)
    return int(found[1]) if found else STANDARD_STREAMS.get(name)


def require_writable(path: Path | None) -> None:
    """Raise if a result cannot be written, before the work that computes it."""
    if path is None:
        return
    with refused(path):
        target = follow_links(path)
        if is_stream(path):
            check_stream(path)
        elif target.is_dir():
            raise unwritable(path, "it is a folder")
        elif not target.parent.is_dir():
            raise unwritable(
                path, f"no folder {target.parent if path.is_symlink() else path.parent}"
            )
        else:
            if target.exists() and not os.access(target, os.W_OK):
                raise unwritable(path, "the file is write-protected")
            with tempfile.TemporaryFile(dir=target.parent, buffering=0) as probe:
                probe.write(bytes(PROBE_BYTES))


def check_stream(path: Path) -> None:
    number = stream_descriptor(path)
    if number is not None:
        os.fstat(number)
    elif not os.access(path, os.W_OK):
        raise unwritable(path, "permission denied")


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Convert errors of the system to LapisError with the path."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from None


def unwritable(path: Path, reason: str | None) -> LapisError:
    return LapisError(f"{path}: cannot be written: {reason}", code="unwritable")
