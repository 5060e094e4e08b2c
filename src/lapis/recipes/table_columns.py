"""Columns of a table as arrays, from a CSV or Parquet file or a frame.

Missing values are None, also empty texts. A column of a CSV file whose values are all numbers or
all truths becomes one of these, unless numbers begin with a zero (postcodes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from lapis.data.formats.duckdb_tables import csv_header, open_duckdb, select_file, sql_errors
from lapis.errors import LapisError, suggestion

if TYPE_CHECKING:
    from lapis.data.formats.table_files import Frame

TableLike: TypeAlias = Union[str, Path, "Frame"]
ColumnArrays = Mapping[str, np.ndarray]  # object[num_rows] or numbers

NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?([eE][-+]?\d+)?")
TRUTHS = {"true": True, "false": False}
SUFFIXES = (".csv", ".csv.gz", ".parquet")


def read_columns(source: TableLike, label: str = "table") -> dict[str, np.ndarray]:
    """Read a table: its columns by name, in order."""
    with open_duckdb() as connection:
        if isinstance(source, str | Path):
            path = Path(source)
            if not path.name.endswith(SUFFIXES):
                raise LapisError(
                    f"{path}: a table is a .csv, .csv.gz or .parquet file", code="data-table"
                )
            if not path.exists():
                raise LapisError(f"{path}: no such file", code="missing-file")
            header = [] if path.name.endswith(".parquet") else csv_header(path)
            query, label = select_file(path), str(path)
        else:
            if type(source).__module__.partition(".")[0] not in ("pandas", "polars", "pyarrow"):
                raise LapisError(
                    f"{label}: a {type(source).__name__} is not a table",
                    code="data-table",
                    hint="use a path, or a frame of pandas, polars or Arrow",
                )
            header, query = [], "SELECT * FROM lapis_source"
            with sql_errors(label):
                connection.register("lapis_source", source)
        with sql_errors(label):
            found = connection.execute(query)
            names = header or [str(entry[0]) for entry in found.description or ()]
            arrays = list(found.fetchnumpy().values())
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise LapisError(f"{label}: two columns are called {twice!r}", code="recipe-column")
    pairs = zip(names, arrays, strict=True)
    return {name: as_column(values, guess=bool(header)) for name, values in pairs}


def as_column(values: np.ndarray, *, guess: bool) -> np.ndarray:
    """Return the values with None where they are missing; numbers without gaps stay numbers."""
    missing = np.ma.getmaskarray(values)
    plain = np.ma.getdata(values)
    if plain.dtype.kind in "biuf" and not missing.any():
        return plain
    found = plain.astype(object)
    for row, value in enumerate(found.tolist()):
        if missing[row] or value is None or value != value or value == "":
            found[row] = None
    return guess_column(found) if guess else found


def guess_column(texts: np.ndarray) -> np.ndarray:
    """Convert a column of texts that are all numbers or all truths."""
    known = [text for text in texts.tolist() if text is not None]
    if known and all(NUMBER.fullmatch(text) for text in known):
        return np.array([None if text is None else float(text) for text in texts], object)
    if known and all(text.lower() in TRUTHS for text in known):
        return np.array([None if t is None else TRUTHS[t.lower()] for t in texts], object)
    return texts


def require_column(columns: ColumnArrays, name: str, label: str) -> np.ndarray:
    """Return a column; raise if there is none of this name."""
    if name not in columns:
        raise LapisError(
            f"{label} has no column {name!r}",
            code="recipe-column",
            hint=suggestion(name, columns, f"the columns are {', '.join(columns)}"),
        )
    return columns[name]


def refuse_gaps(column: np.ndarray, name: str, label: str) -> None:
    """Raise if a value is missing."""
    gaps = [row for row, value in enumerate(column.tolist()) if value is None]
    if gaps:
        raise LapisError(
            f"{label}: row {gaps[0] + 1} has no value in column {name!r}", code="recipe-column"
        )


def pair_columns(columns: ColumnArrays, label: str) -> tuple[Sequence[object], Sequence[object]]:
    """Return the first two columns of a table of pairs."""
    if len(columns) < 2:
        raise LapisError(f"{label} needs two columns, and has {len(columns)}", code="recipe-column")
    first, second = list(columns)[:2]
    for name in (first, second):
        refuse_gaps(columns[name], name, label)
    return columns[first].tolist(), columns[second].tolist()
