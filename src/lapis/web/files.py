"""Paths inside the folder of the workbench.

A path of a request is relative, has no `..` and no hidden part, and leads to a place below the
folder after all symbolic links are followed. Files appear whole: they are written to the hidden
folder `.lapis` and renamed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from lapis.errors import LapisError
from lapis.web.contract import FileCard, FileKind

HIDDEN = ".lapis"
MAX_PATH, MAX_PARTS = 400, 12  # characters, folders
MAX_LISTED, MAX_DEPTH = 2000, 4  # files and folders of a listing
DATA = (".db", ".db.gz", ".csv", ".csv.gz", ".parquet", ".tsv", ".nt", ".evid", ".npy")
NETWORKS = (".bif", ".uai", ".tbn", ".pl", ".problog", ".bif.gz", ".uai.gz")
KINDS: dict[FileKind, tuple[str, ...]] = {
    "model": (".mln",), "field": (".rrf",), "network": NETWORKS, "data": DATA
}  # fmt: skip


def wrong_path(path: str, reason: str) -> LapisError:
    return LapisError(f"{path[:80]!r}: {reason}", code="path")


class Folder:
    """The folder that the server was started in; nothing outside is read or written."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)
        self.hidden = self.root / HIDDEN
        if self.hidden.is_symlink():
            raise LapisError(f"{self.hidden} is a symbolic link", code="path", hint="delete it")
        for name in ("runs", "tmp"):
            (self.hidden / name).mkdir(parents=True, exist_ok=True)

    def locate(self, path: str) -> Path:
        """Return the absolute path of a file or folder below the root.

        Parameters
        ----------
        path
            A path relative to the root, as the page writes it.

        Returns
        -------
        Path
            The path, symbolic links followed.

        Raises
        ------
        LapisError
            If it is malformed, hidden or leads out of the folder.
        """
        check_spelling(path)
        try:
            found = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):
            raise wrong_path(path, "cannot be read") from None
        if not found.is_relative_to(self.root) or found.is_relative_to(self.hidden):
            raise wrong_path(path, "leads out of the folder of the workbench")
        return found

    def existing(self, path: str) -> Path:
        """Return the path of a file or folder that exists, whose entries stay in the folder."""
        found = self.locate(path)
        if not found.exists():
            raise LapisError(f"there is no file {path!r}", code="no-file")
        if found.is_dir():
            for entry in found.iterdir():
                if not entry.resolve().is_relative_to(self.root):
                    raise wrong_path(f"{path}/{entry.name}", "leads out of the folder")
        elif not found.is_file():
            raise wrong_path(path, "is no ordinary file")
        return found

    def relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    async def write(self, path: str, chunks: AsyncIterator[bytes], limit: int) -> int:
        """Write a file from pieces; raise if it is larger than the limit."""
        target = self.locate(path)
        if target.exists() and not target.is_file():
            raise wrong_path(path, "is a folder")
        place = self.hidden / "tmp" / secrets.token_hex(8)
        size = 0
        try:
            with place.open("wb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > limit:
                        raise too_big(limit)
                    file.write(chunk)
            self.put(place, path)
        except OSError as error:
            reason = error.strerror or "cannot be written"
            raise LapisError(f"{path[:80]!r}: {reason}", code="unwritable") from None
        finally:
            place.unlink(missing_ok=True)
        return size

    def put(self, place: Path, path: str) -> None:
        """Move a finished file to its place; missing folders are made."""
        target = self.locate(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(place, self.locate(path))

    def write_text(self, path: str, text: str) -> None:
        place = self.hidden / "tmp" / secrets.token_hex(8)
        place.write_text(text, encoding="utf-8")
        self.put(place, path)

    def delete(self, path: str) -> None:
        target = self.locate(path)
        if not target.is_file():
            raise LapisError(f"there is no file {path!r}", code="no-file")
        target.unlink()

    def copy_tree(self, source: Path, path: str, omitted: Sequence[str] = ()) -> None:
        """Copy the files of a folder of ours below the root; existing files are kept."""
        target = self.locate(path)
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(source.iterdir()):
            is_new = file.is_file() and not (target / file.name).exists()
            if is_new and file.name not in omitted:
                shutil.copyfile(file, target / file.name)

    def listed(self) -> list[FileCard]:
        """List the files that are not hidden."""
        found: list[FileCard] = []
        for path in self.walk(self.root, 0):
            card: FileCard = {
                "path": self.relative(path),
                "size": path.stat().st_size,
                "kind": kind_of_file(path.name),
            }
            found.append(card)
            if len(found) == MAX_LISTED:
                break
        return sorted(found, key=lambda card: card["path"])

    def walk(self, folder: Path, depth: int) -> Iterator[Path]:
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.name.startswith("."):
                continue
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                yield from self.walk(Path(entry.path), depth + 1)


def check_spelling(path: str) -> None:
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or len(parts) > MAX_PARTS:
        raise wrong_path(path, "is empty or too long")
    if any(not char.isprintable() or char == "\\" for char in path):
        raise wrong_path(path, "has characters that are not allowed")
    if any(not part or part.startswith(".") for part in parts):
        raise wrong_path(path, "must be relative, without hidden folders and '..'")


def too_big(limit: int) -> LapisError:
    return LapisError(
        f"the upload is larger than {limit // 2**20:,} MiB",
        code="too-large",
        hint="raise --max-upload, or copy the file into the folder",
    )


def kind_of_file(name: str) -> FileKind:
    """Return what a file holds, by its name."""
    low = name.lower()
    return next((kind for kind, endings in KINDS.items() if low.endswith(endings)), "other")
