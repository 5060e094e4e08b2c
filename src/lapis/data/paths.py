"""Paths to databases: one world from all of them, or a world from each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from lapis.data.database import Database
from lapis.data.formats.fact_text import read_text
from lapis.data.formats.sources import table_suffix
from lapis.data.formats.table_files import read_folder, read_tables
from lapis.data.merging import merge
from lapis.errors import misplaced


def read_paths(paths: Sequence[Path]) -> Database:
    """All paths as one world."""
    worlds = [_read_path(path) for path in paths]
    return worlds[0] if len(worlds) == 1 else merge(worlds)


def read_worlds(paths: Iterable[str | Path]) -> list[Database]:
    """Each path as a world of its own, with its own constants."""
    return [_read_path(Path(path)) for path in paths]


def _read_path(path: Path) -> Database:
    if path.suffix in (".mln", ".rrf"):
        raise misplaced(path, "a model", "data")
    if path.is_dir():
        database = read_folder(path)
    elif table_suffix(path):
        database = read_tables([path])
    else:
        database = read_text(path)
    return replace(database, name=str(path))
