"""Databases to files. A file or folder appears whole or not at all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from lapis.data.atomic_write import whole_path
from lapis.data.database import Database, Domain, Relation
from lapis.data.formats.assembly import known_types
from lapis.data.formats.duckdb_tables import write_tables
from lapis.data.formats.facts import PREDICATE
from lapis.data.formats.table_files import table_columns
from lapis.errors import LapisError
from lapis.language.names import format_constant

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
            f"{path}: do not know how to write this",
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
    with whole_path(path) as temporary, temporary.open("wb") as raw:
        # No name and no time in the header, so that the same data gives the same bytes.
        zipped = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(zipped, "utf-8", newline="\n") as stream:
            stream.writelines(_lines(database))


def _lines(database: Database) -> Iterator[str]:
    for name, constants in known_types(database).items():
        yield f"{name} = {{{', '.join(map(format_constant, constants))}}}\n"
    written = {name: _written(domain) for name, domain in database.domains.items()}
    for relation in database.relations.values():
        names = [written[type_name] for type_name in relation.types]
        for sign, rows in (("", relation.true), ("!", relation.false), ("?", relation.unknown)):
            for start in range(0, len(rows), ROWS_AT_ONCE):
                yield from _format_rows(relation, sign, names, rows[start : start + ROWS_AT_ONCE])


def _written(domain: Domain) -> np.ndarray:
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
            hint="a folder of tables is written to a new place, so that no old table stays in it",
        )
    with whole_path(path, folder=True) as temporary:
        write_tables(temporary, table_columns(database), format)
