"""Read and write databases: files of facts, files and folders of tables.

A text of facts is read in chunks. Every name is interned once. Each fact keeps its offset in the
text, and at the end constants are ordered by their first offset. Files are written atomically.
"""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from lapis.data.atomic_write import save_path
from lapis.data.binding import merge
from lapis.data.database import Database, Domain, Relation
from lapis.data.formats.build_database import FactGroup, build_database, known_types
from lapis.data.formats.diagnosis import raise_syntax_errors
from lapis.data.formats.duckdb_tables import write_tables
from lapis.data.formats.facts import (
    PREDICATE,
    Declaration,
    Fact,
    Origin,
    Unfinished,
    open_origin,
    scan_facts,
    source_text,
    table_suffix,
)
from lapis.data.formats.table_files import table_columns
from lapis.errors import LapisError, misplaced_file_error
from lapis.language.names import format_constant
from lapis.runtime.text_files import READ_ERRORS, read_error


def read_paths(paths: Sequence[Path]) -> Database:
    """Read all paths as one world."""
    worlds = [_read_path(path) for path in paths]
    return worlds[0] if len(worlds) == 1 else merge(worlds)


def read_worlds(paths: Iterable[str | Path]) -> list[Database]:
    """Read each path as a world with its own constants."""
    return [_read_path(Path(path)) for path in paths]


def _read_path(path: Path) -> Database:
    if path.suffix in (".mln", ".rrf"):
        raise misplaced_file_error(path, "a model", "data")
    return replace(_read_tables_or_text(path), name=str(path))


def _read_tables_or_text(path: Path) -> Database:
    if not path.is_dir() and not table_suffix(path):
        return read_fact_text(path)
    from lapis.data.formats.table_files import read_folder, read_tables

    return read_folder(path) if path.is_dir() else read_tables([path])


CHUNK_BYTES = 1 << 18
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_fact_text(origin: Origin, *, chunk_bytes: int = CHUNK_BYTES) -> Database:
    """Read a text of facts."""
    found = _Collected()
    try:
        with open_origin(origin) as stream:
            _collect_stream(found, stream, chunk_bytes)
    except READ_ERRORS as error:
        raise read_error(Path(str(origin)), error, "file or folder") from None
    except (_Malformed, UnicodeDecodeError):
        if (source := source_text(origin)) is not None:
            raise_syntax_errors(source)
        raise
    names = list(map(bytes.decode, found.index))
    return build_database(names, found.groups(), found.declared, (origin,))


class _Malformed(Exception):
    """The text has errors; a second reading finds and explains all of them."""


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
    """Yield the stream in pieces that end with a newline."""
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
    """The interned names and coded facts so far."""

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
        """Return the facts by kind, in the order of the first fact of each kind."""
        groups = []
        for kind, parts in self.coded.items():
            rows, places = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            groups.append(FactGroup(*kind, rows, places))
        return sorted(groups, key=lambda group: int(group.places.min()))


def _collect_text(found: _Collected, text: str, offset: int) -> int | None:
    """Add the facts of a text that starts at `offset`.

    Returns the position of a comment or declaration that the text does not finish, or None.
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


ROWS_AT_ONCE = 1 << 16


def write_database(
    database: Database, path: Path, format: Literal["csv", "parquet"] | None = None
) -> None:
    if format in ("csv", "parquet"):
        _write_folder(database, path, format)
    elif format is None and path.name.endswith((".db", ".db.gz")):
        _write_text(database, path)
    else:
        raise LapisError(
            f"{path}: unknown file format",
            code="unknown-format",
            hint="write to a .db or .db.gz file, or give format='csv' or format='parquet'",
        )


def _write_text(database: Database, path: Path) -> None:
    for relation in database.relations.values():
        if not PREDICATE.fullmatch(relation.predicate):
            raise LapisError(
                f"{relation.predicate!r} cannot be written as a predicate of a .db file",
                code="data-name",
                hint="write a folder of tables, or rename the predicate",
            )

    def write(place: Path) -> None:
        with place.open("wb") as raw:
            # No file name and time in the header: the same data gives the same bytes.
            zipped = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
            with io.TextIOWrapper(zipped, "utf-8", newline="\n") as stream:
                stream.writelines(_lines(database))

    save_path(path, write)


def _lines(database: Database) -> Iterator[str]:
    for name, constants in known_types(database).items():
        yield f"{name} = {{{', '.join(map(format_constant, constants))}}}\n"
    written = {name: _format_constants(domain) for name, domain in database.domains.items()}
    for relation in database.relations.values():
        names = [written[type_name] for type_name in relation.types]
        for sign, rows in (("", relation.true), ("!", relation.false), ("?", relation.unknown)):
            for start in range(0, len(rows), ROWS_AT_ONCE):
                yield from _format_rows(relation, sign, names, rows[start : start + ROWS_AT_ONCE])


def _format_constants(domain: Domain) -> np.ndarray:
    written = np.empty(len(domain), object)
    written[:] = [format_constant(constant) for constant in domain.constants]
    return written


def _format_rows(
    relation: Relation, sign: str, names: list[np.ndarray], rows: np.ndarray
) -> Iterator[str]:
    columns = [column[rows[:, argument]].tolist() for argument, column in enumerate(names)]
    head = f"{sign}{relation.predicate}"
    if relation.function:
        for *arguments, value in zip(*columns, strict=True):
            yield f"{sign}{value} = {relation.predicate}({','.join(arguments)})\n"
    elif columns:
        for constants in zip(*columns, strict=True):
            yield f"{head}({','.join(constants)})\n"
    else:
        yield from [f"{head}\n"] * len(rows)


def _write_folder(database: Database, path: Path, format: Literal["csv", "parquet"]) -> None:
    if path.exists():
        raise LapisError(
            f"{path}: exists already",
            code="file-exists",
            hint="write a folder of tables to a new path",
        )
    tables = table_columns(database)
    save_path(path, lambda folder: write_tables(folder, tables, format), folder=True)
