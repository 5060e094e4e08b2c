"""Read databases from paths: one world from all of them, or a world from each.

Texts of facts are read a chunk at a time. Every name of a text is interned once. Each fact
keeps its place in the text, and constants are put in the order of their places at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from lapis.data.binding import merge
from lapis.data.database import Database
from lapis.data.formats.assembly import FactGroup, build_database
from lapis.data.formats.diagnosis import raise_syntax_errors
from lapis.data.formats.facts import Declaration, Fact, Unfinished, scan_facts
from lapis.data.formats.sources import (
    READ_ERRORS,
    Origin,
    open_origin,
    source_text,
    table_suffix,
    unreadable,
)
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
    return replace(_read_tables_or_text(path), name=str(path))


def _read_tables_or_text(path: Path) -> Database:
    if not path.is_dir() and not table_suffix(path):
        return read_text(path)
    from lapis.data.formats.table_files import read_folder, read_tables

    return read_folder(path) if path.is_dir() else read_tables([path])


CHUNK_BYTES = 1 << 18
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_text(origin: Origin, *, chunk_bytes: int = CHUNK_BYTES) -> Database:
    """The database that a text of facts states."""
    found = _Collected()
    try:
        with open_origin(origin) as stream:
            _collect_stream(found, stream, chunk_bytes)
    except READ_ERRORS as error:
        raise unreadable(Path(str(origin)), error) from None
    except (_Malformed, UnicodeDecodeError):
        if (source := source_text(origin)) is not None:
            raise_syntax_errors(source)
        raise
    names = list(map(bytes.decode, found.index))
    return build_database(names, found.groups(), found.declared, (origin,))


class _Malformed(Exception):
    """There is a mistake; a second reading finds and explains all of them."""


def _collect_stream(found: _Collected, stream: BinaryIO, chunk_bytes: int) -> None:
    offset, carried = 0, b""
    for chunk in _line_chunks(stream, chunk_bytes):
        chunk = carried + chunk
        text = chunk.decode()
        unfinished = _collect_text(found, text, offset)
        used = len(chunk) if unfinished is None else len(text[:unfinished].encode())
        offset += used
        carried = chunk[used:]
    if carried:
        raise _Malformed


def _line_chunks(stream: BinaryIO, chunk_bytes: int) -> Iterator[bytes]:
    """The stream in pieces that end with a newline."""
    start = stream.read(len(BYTE_ORDER_MARK))
    tail = b"" if start == BYTE_ORDER_MARK else start
    while block := stream.read(chunk_bytes):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield tail + block[:cut]
            tail = block[cut:]
        else:
            tail += block
    if tail:
        yield tail + b"\n"


Kind = tuple[int, str, bool, int]  # truth, predicate, function, arity


@dataclass
class _Collected:
    """Names interned and facts coded so far."""

    index: defaultdict[bytes, int] = field(default_factory=defaultdict)
    coded: dict[Kind, list[tuple[np.ndarray, np.ndarray]]] = field(default_factory=dict)
    declared: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index.default_factory = self.index.__len__

    def intern(self, names: list[bytes]) -> np.ndarray:
        return np.fromiter(map(self.index.__getitem__, names), np.int32, len(names))

    def add(self, kind: Kind, rows: np.ndarray, places: np.ndarray) -> None:
        self.coded.setdefault(kind, []).append((rows, places))

    def groups(self) -> list[FactGroup]:
        """The facts by kind, kinds in the order of their first facts."""
        groups = []
        for kind, parts in self.coded.items():
            rows, places = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            groups.append(FactGroup(*kind, rows, places))
        return sorted(groups, key=lambda group: int(group.places.min()))


def _collect_text(found: _Collected, text: str, offset: int) -> int | None:
    """Collect what a text at an offset states.

    Returns the character at which something begins that the text leaves unfinished.
    """
    names: list[bytes] = []
    starts: dict[Kind, list[int]] = {}
    places: dict[Kind, list[int]] = {}
    unfinished = None
    for item in scan_facts(text):
        if isinstance(item, Fact):
            kind = (item.truth, item.predicate, item.function, len(item.constants))
            starts.setdefault(kind, []).append(len(names))
            places.setdefault(kind, []).append(offset + item.start)
            names.extend(map(str.encode, item.constants))
        elif isinstance(item, Declaration):
            known = found.declared.get(item.type, ())
            found.declared[item.type] = tuple(dict.fromkeys((*known, *item.constants)))
        elif isinstance(item, Unfinished):
            unfinished = item.start
        else:
            raise _Malformed
    codes = found.intern(names)
    for kind, first in starts.items():
        rows = codes[np.array(first)[:, None] + np.arange(kind[3])]
        found.add(kind, rows, np.array(places[kind], np.int64))
    return unfinished
