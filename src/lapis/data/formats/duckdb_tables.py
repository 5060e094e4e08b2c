"""Encode columns of tables as integers with DuckDB, and write tables.

Constants are interned inside DuckDB: the distinct values of a column, numbered by their first row,
are a table, and joining it back gives the codes. Only the distinct names become Python strings,
which is 2.5 times faster than interning in Python.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from lapis.data.database import TRUE, TRUTH_WORDS
from lapis.errors import LapisError
from lapis.runtime.text_files import READ_ERRORS, read_error

if TYPE_CHECKING:
    import duckdb

FACTS = "lapis_facts"  # temporary tables, dropped after use
NAMES = "lapis_names_{}"

EXACT = 2**53  # below it, floats represent integers exactly
MAX_COLUMNS = 1000  # of a CSV file
NULLARY_COLUMN = "()"  # the only column of a table without arguments


class EncodedTable(NamedTuple):
    """A table whose columns are interned separately."""

    constants: list[tuple[str, ...]]  # for each column, in order of first appearance
    first_row: list[np.ndarray]  # for each column, int64[num_constants], where each appears first
    codes: np.ndarray  # int32[num_rows, arity]
    truth: np.ndarray  # int64[num_rows]


def open_duckdb() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(":memory:")


@contextmanager
def sql_errors(about: str) -> Iterator[None]:
    """Convert errors of DuckDB to LapisError, with the name of the table."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        # The first part of the message, without our SQL and options of DuckDB.
        message = re.split(r"\n+(?:LINE \d|Possible fixes:)", str(error))[0]
        raise LapisError(f"{about}: {message}", code="data-table") from None


def encode_tables(
    connection: duckdb.DuckDBPyConnection, predicate: str, selects: Sequence[tuple[int, str]]
) -> EncodedTable:
    """Read queries, each with the truth value of its rows, as one table of codes."""
    with sql_errors(predicate):
        tables = [_column_types(connection, query) for _, query in selects]
        arities = [0 if list(found) == [NULLARY_COLUMN] else len(found) for found in tables]
        if len(set(arities)) > 1:
            raise LapisError(
                f"the tables of {predicate} have different numbers of columns: "
                + ", ".join(map(str, arities)),
                code="data-arity",
            )
        arity = arities[0]
        union = " UNION ALL ".join(
            _select_texts(query, truth, list(found.values()))
            for (truth, query), found in zip(selects, tables, strict=True)
        )
        try:
            connection.execute(f"CREATE TEMP TABLE {FACTS} AS {union}")
            return _encode(connection, predicate, arity)
        finally:
            for name in (FACTS, *(NAMES.format(column) for column in range(arity))):
                connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


def _column_types(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """Return the SQL type of each column."""
    described = connection.execute(f"DESCRIBE SELECT * FROM ({query})").fetchall()
    return {name: kind for name, kind, *_ in described}


def _select_texts(query: str, truth: int, kinds: Sequence[str]) -> str:
    """Return SQL that selects the rows of a query as texts in columns c0, c1, …."""
    columns = [f"c{column}" for column in range(len(kinds))]
    texts = [f"{_as_text(name, kind)} AS {name}" for name, kind in zip(columns, kinds, strict=True)]
    return f"SELECT {truth} AS truth, {', '.join(texts)} FROM ({query}) AS t({', '.join(columns)})"


def _as_text(column: str, kind: str) -> str:
    """Return SQL that converts a value to a constant; whole floats become integers.

    Pandas converts integers to floats if one is missing. NaN is missing, too.
    """
    text = f"CAST({column} AS VARCHAR)"
    if kind not in ("FLOAT", "DOUBLE"):
        return text
    whole = f"{column} = trunc({column}) AND abs({column}) < {EXACT}"
    integer = f"CAST(CAST({column} AS BIGINT) AS VARCHAR)"
    return f"CASE WHEN isnan({column}) THEN NULL WHEN {whole} THEN {integer} ELSE {text} END"


def _encode(connection: duckdb.DuckDBPyConnection, predicate: str, arity: int) -> EncodedTable:
    constants, first_row = [], []
    for column in range(arity):
        _refuse_missing(connection, predicate, column)
        names = NAMES.format(column)
        connection.execute(
            f"CREATE TEMP TABLE {names} AS SELECT name, first, "
            "CAST(row_number() OVER (ORDER BY first) - 1 AS INTEGER) AS code "
            f"FROM (SELECT c{column} AS name, min(rowid) AS first FROM {FACTS} GROUP BY 1)"
        )
        found = connection.execute(f"SELECT name, first FROM {names} ORDER BY code").fetchnumpy()
        constants.append(tuple(found["name"].tolist()))
        first_row.append(np.asarray(found["first"], np.int64))
    names_of = [f"n{column}.code AS a{column}" for column in range(arity)]
    joins = [
        f"JOIN {NAMES.format(column)} AS n{column} ON c{column} = n{column}.name"
        for column in range(arity)
    ]
    query = f"SELECT {', '.join(['truth', *names_of])} FROM {FACTS} {' '.join(joins)}"
    table = connection.execute(query).fetchnumpy()
    truth = np.asarray(table["truth"], np.int64)
    codes = np.empty((len(truth), arity), np.int32)
    for column in range(arity):
        codes[:, column] = table[f"a{column}"]
    return EncodedTable(constants, first_row, codes, truth)


def _refuse_missing(connection: duckdb.DuckDBPyConnection, predicate: str, column: int) -> None:
    """Raise at the first table with missing values in a column."""
    query = (
        f"SELECT truth, count(*) - count(c{column}) AS missing, "
        f"min(rowid) FILTER (c{column} IS NULL) - min(rowid) FROM {FACTS} "
        "GROUP BY truth HAVING missing > 0 ORDER BY min(rowid)"
    )
    for truth, missing, row in connection.execute(query).fetchall():
        table = predicate if truth == TRUE else f"{predicate}.{TRUTH_WORDS[truth]}"
        raise LapisError(
            f"{table}: column {column + 1} has {missing} missing value{'s' * (missing != 1)}, "
            f"the first in row {row + 1}",
            code="data-missing",
            hint='every argument needs a constant; an empty one is written "" in CSV',
        )


def select_file(path: Path) -> str:
    """Return SQL that reads all columns of a CSV or Parquet file."""
    name = _literal(str(path))
    if path.name.endswith(".parquet"):
        return f"SELECT * FROM read_parquet({name})"
    # The header is read here, because DuckDB would guess whether there is one.
    header = csv_header(path)
    columns = ", ".join(f"'c{column}': 'VARCHAR'" for column in range(len(header)))
    nullary = f' AS t("{NULLARY_COLUMN}")' if header == [NULLARY_COLUMN] else ""
    return (
        f"SELECT * FROM read_csv({name}, columns={{{columns}}}, auto_detect=false, header=true, "
        f"delim=',', quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false){nullary}"
    )


def csv_header(path: Path) -> list[str]:
    """Return the column names of a CSV file."""
    opening = gzip.open if path.name.endswith(".gz") else open
    try:
        with opening(path, "rt", encoding="utf-8-sig", newline="") as stream:
            header = next(csv.reader(stream), None)
    except (*READ_ERRORS, UnicodeDecodeError, csv.Error) as error:
        raise read_error(path, error, "file or folder") from None
    if not header:
        raise LapisError(
            f"{path}: a CSV file needs a header row that names its columns", code="data-table"
        )
    if len(header) > MAX_COLUMNS:
        raise LapisError(
            f"{path}: {len(header):,} columns, which are the arguments of a predicate; at most "
            f"{MAX_COLUMNS:,} are supported",
            code="data-table",
        )
    for sign, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and sign in header[0]:
            raise LapisError(
                f"{path}: the header has {word}, but columns are separated by commas",
                code="data-table",
            )
    return header


def write_tables(
    folder: Path, tables: Mapping[str, Mapping[str, np.ndarray]], format: Literal["csv", "parquet"]
) -> None:
    """Write tables of strings (object arrays), each to a file of its name."""
    options = "FORMAT parquet"
    if format == "csv":
        options = "FORMAT csv, HEADER true, DELIMITER ',', QUOTE '\"', ESCAPE '\"', NULL ''"
    with open_duckdb() as connection:
        for name, columns in tables.items():
            path = folder / f"{name}.{format}"
            names = [_identifier(column) for column in columns]
            listed = ", ".join(f"CAST({column} AS VARCHAR) AS {column}" for column in names)
            with sql_errors(str(path)):
                connection.register(FACTS, dict(columns))
                connection.execute(
                    f"COPY (SELECT {listed} FROM {FACTS}) TO {_literal(str(path))} ({options})"
                )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
