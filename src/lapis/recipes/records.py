"""Records of one or two tables: a row for each record, columns of texts, numbers or dates.

Tables are CSV or Parquet files or frames (pandas, polars, Arrow); DuckDB reads all of them. A
column of texts that are all ISO dates becomes one of dates; of a CSV file, where every column is of
texts, one of numbers too, unless they begin with a zero (postcodes, telephones). Empty texts are
missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import numpy as np

from lapis.data.formats.duckdb_tables import open_duckdb, select_file, sql_errors
from lapis.errors import LapisError, suggestion

if TYPE_CHECKING:
    import duckdb

    from lapis.data.formats.table_files import Frame

TableLike: TypeAlias = Union[str, Path, "Frame"]
Kind = Literal["text", "number", "date"]

NUMBER = r"^-?(0|[1-9]\d{0,14})(\.\d+)?$"  # texts that are numbers, without leading zeros
ISO_DATE = r"^\d{4}-\d{2}-\d{2}$"
SQL_KINDS: Mapping[str, Kind] = {"DATE": "date", "TIMESTAMP": "date"}
SQL_NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL", "HUGE")


@dataclass(frozen=True)
class RecordColumn:
    """A column as codes of its distinct values."""

    name: str
    kind: Kind
    codes: np.ndarray  # int32[num_records], −1: missing
    values: np.ndarray  # object (texts), float64 or datetime64[D], [num_values]

    @cached_property
    def texts(self) -> np.ndarray:
        """object[num_values], the values as texts."""
        return np.array([self.show(value) for value in self.values], object)

    def show(self, value: Any) -> str:  # noqa: ANN401  (a text, a number or a date)
        return f"{value:g}" if self.kind == "number" and value == int(value) else str(value)

    @cached_property
    def frequency(self) -> np.ndarray:
        """int64[num_values], the number of records with each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def cell(self, row: int) -> str | None:
        """Return the text of a record's value; None if it is missing."""
        code = self.codes[row]
        return None if code < 0 else str(self.texts[code])

    def as_texts(self) -> np.ndarray:
        """Return object[num_records], the texts of all records, "" where they are missing."""
        found: np.ndarray = np.append(self.texts, np.array([""], object))[self.codes]
        return found


@dataclass(frozen=True)
class Records:
    """The records of one table, or of two: the first `num_left` rows are those of the left one."""

    ids: np.ndarray  # object[num_records], texts
    columns: Mapping[str, RecordColumn]
    num_left: int | None = None  # None: one table

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_pairs(self) -> int:
        """The number of pairs that could be compared."""
        if self.num_left is not None:
            return self.num_left * (len(self) - self.num_left)
        return len(self) * (len(self) - 1) // 2

    @cached_property
    def names(self) -> np.ndarray:
        """object[num_records], the constants of the records: their ids, made different."""
        if self.num_left is None or len(set(self.ids.tolist())) == len(self):
            return self.ids
        sides = np.where(np.arange(len(self)) < self.num_left, "left ", "right ")
        return sides.astype(object) + self.ids

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """The row of each record by its name; of one table, by its id."""
        return {name: row for row, name in enumerate(self.names.tolist())}

    def row(self, name: object) -> int:
        """Return the row of a record; raise if there is none of this id."""
        found = self.rows.get(str(name))
        if found is None:
            raise LapisError(
                f"no record has the id {name!r}",
                code="record-id",
                hint=suggestion(str(name), self.rows),
            )
        return found

    def column(self, name: str, purpose: str) -> RecordColumn:
        """Return a column; raise if there is none of this name."""
        if name not in self.columns:
            raise no_column(name, purpose, self.columns)
        return self.columns[name]

    def without(self, names: Sequence[str]) -> Records:
        """Return the records without some columns."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return Records(self.ids, kept, self.num_left)

    def register(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Create a table of the records in DuckDB: the number of the row, then the columns."""
        data: dict[str, object] = {ROW: np.arange(len(self))}
        data |= {name: as_duckdb(column) for name, column in self.columns.items()}
        names = ", ".join(map(quote, data))
        connection.register(f"{table}_arrays", data)
        connection.execute(f"CREATE TABLE {table} AS SELECT {names} FROM {table}_arrays")
        connection.unregister(f"{table}_arrays")


ROW = "lapis_row"


def as_duckdb(column: RecordColumn) -> np.ndarray:
    """Return a column as an array of which DuckDB reads missing values as NULL."""
    if column.kind == "text":
        return np.append(column.values, np.array([None], object))[column.codes]
    if column.kind == "date":
        return np.append(column.values, np.datetime64("NaT"))[column.codes].astype("M8[us]")
    return np.append(column.values, np.nan)[column.codes]


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def no_column(name: str, purpose: str, known: Mapping[str, object]) -> LapisError:
    """Return the error for a column that no table has."""
    return LapisError(
        f"{purpose}: there is no column {name!r}",
        code="record-column",
        hint=suggestion(name, known, f"the columns are {', '.join(known)}"),
    )


def read_records(
    left: TableLike, right: TableLike | None = None, *, id_column: str = "id"
) -> Records:
    """Read one or two tables; columns that only one of two tables has are left out."""
    with open_duckdb() as connection:
        tables = [read_table(connection, left, "left table")]
        if right is not None:
            tables.append(read_table(connection, right, "right table"))
        label = "the table" if right is None else "both tables"
        ids = [table_ids(table, id_column) for table in tables]
        names = [name for name in tables[0] if all(name in table for table in tables)]
        names.remove(id_column)
        if not names:
            raise LapisError(f"{label} have no column but {id_column!r}", code="record-column")
        columns = {name: join_column(name, [table[name] for table in tables]) for name in names}
    return Records(np.concatenate(ids), columns, None if right is None else len(ids[0]))


RawColumn: TypeAlias = tuple[Kind, np.ndarray, np.ndarray]  # kind, values, whether missing


def read_table(
    connection: duckdb.DuckDBPyConnection, source: TableLike, label: str
) -> dict[str, RawColumn]:
    """Read the columns of a table by name."""
    if isinstance(source, str | Path):
        label, path = str(source), Path(source)
        if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
            raise LapisError(
                f"{path}: a table is a .csv, .csv.gz or .parquet file", code="unknown-format"
            )
        if not path.exists():
            raise LapisError(f"{path}: no such file", code="missing-file")
        query = select_named(path)
    else:
        check_frame(source)
        connection.register("lapis_source", source)
        query = "SELECT * FROM lapis_source"
    with sql_errors(label):
        found = connection.execute(query)
        described = {str(entry[0]): str(entry[1]) for entry in found.description or ()}
        kinds = {name: kind_of_sql(sql_type) for name, sql_type in described.items()}
        casts = ", ".join(
            f"CAST({quote(n)} AS {CASTS[kind]}) AS {quote(n)}" for n, kind in kinds.items()
        )
        arrays = connection.execute(f"SELECT {casts} FROM ({query})").fetchnumpy()
    is_text = isinstance(source, str | Path) and not str(source).endswith(".parquet")
    return {n: as_raw(arrays[n], kind, guess=is_text) for n, kind in kinds.items()}


CASTS: Mapping[Kind, str] = {"text": "VARCHAR", "number": "DOUBLE", "date": "DATE"}


def select_named(path: Path) -> str:
    """Return SQL that reads a file; the columns of a CSV file have the names of its header."""
    from lapis.data.formats.duckdb_tables import csv_header

    query = select_file(path)
    if path.name.endswith(".parquet"):
        return query
    header = csv_header(path)
    twice = [name for number, name in enumerate(header) if name in header[:number]]
    if twice:
        raise LapisError(f"{path}: two columns are called {twice[0]!r}", code="record-column")
    named = ", ".join(f"c{number} AS {quote(name)}" for number, name in enumerate(header))
    return f"SELECT {named} FROM ({query})"


def check_frame(source: object) -> None:
    """Raise if an object is no frame."""
    if type(source).__module__.partition(".")[0] not in ("pandas", "polars", "pyarrow"):
        raise LapisError(
            f"a {type(source).__name__} is not a table",
            code="data-table",
            hint="use a path, or a frame of pandas, polars or Arrow",
        )


def kind_of_sql(sql_type: str) -> Kind:
    name = sql_type.upper()
    for prefix, kind in SQL_KINDS.items():
        if name.startswith(prefix):
            return kind
    return "number" if any(word in name for word in SQL_NUMBERS) else "text"


def as_raw(values: np.ndarray, kind: Kind, *, guess: bool) -> RawColumn:
    """Return the kind, the values and whether they are missing; empty texts are missing."""
    missing = np.ma.getmaskarray(values).copy()
    plain = np.ma.getdata(values)
    if kind == "number":
        plain = plain.astype(np.float64)
        return kind, plain, missing | np.isnan(plain)
    if kind == "date":
        return kind, plain.astype("M8[D]"), missing | np.isnat(plain)
    texts = np.array(
        ["" if gone else str(v).strip() for v, gone in zip(plain, missing, strict=True)], object
    )
    missing |= texts == ""
    return guess_raw(texts, missing, numbers=guess)


def guess_raw(texts: np.ndarray, missing: np.ndarray, *, numbers: bool) -> RawColumn:
    """Convert a column of texts that are all dates; one of numbers, if these are to be found."""
    known = texts[~missing]
    if numbers and len(known) and all(re.match(NUMBER, text) for text in known):
        values = np.full(len(texts), np.nan)
        values[~missing] = known.astype(np.float64)
        return "number", values, missing
    if len(known) and all(re.match(ISO_DATE, text) for text in known):
        dates = np.full(len(texts), "NaT", "M8[D]")
        try:
            dates[~missing] = known.astype("M8[D]")
        except ValueError:  # the 31st of February
            return "text", texts, missing
        return "date", dates, missing
    return "text", texts, missing


def table_ids(table: Mapping[str, RawColumn], id_column: str) -> np.ndarray:
    """Return the ids of a table as texts; raise if one is missing or occurs twice."""
    if id_column not in table:
        raise no_column(id_column, "ids", table)
    kind, values, missing = table[id_column]
    if missing.any():
        row = int(np.argmax(missing))
        raise LapisError(f"column {id_column!r}: row {row + 1} has no id", code="record-id")
    column = encode_column(id_column, kind, values, missing)
    ids: np.ndarray = column.texts[column.codes]
    if len(column.values) < len(ids):
        twice = int(np.argmax(column.frequency > 1))
        rows = np.flatnonzero(column.codes == twice)[:2] + 1
        raise LapisError(
            f"column {id_column!r}: {ids[rows[0] - 1]!r} is the id of rows {rows[0]} and {rows[1]}",
            code="record-id",
            hint="every record needs an id of its own",
        )
    return ids


def join_column(name: str, parts: Sequence[RawColumn]) -> RecordColumn:
    """Join the columns of one name; kinds that differ become texts."""
    kinds = {kind for kind, _, _ in parts}
    if len(kinds) > 1:
        parts = [
            ("text", encode_column(name, *part).as_texts(), part[2]) if part[0] != "text" else part
            for part in parts
        ]
    values = np.concatenate([values for _, values, _ in parts])
    return encode_column(name, parts[0][0], values, np.concatenate([gone for _, _, gone in parts]))


def encode_column(name: str, kind: Kind, values: np.ndarray, missing: np.ndarray) -> RecordColumn:
    """Encode a column; the values are sorted."""
    distinct, inverse = np.unique(values[~missing], return_inverse=True)
    codes = np.full(len(values), -1, np.int32)
    codes[~missing] = inverse
    return RecordColumn(name, kind, codes, distinct)
