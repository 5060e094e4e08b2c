"""Read facts from tables, and convert databases to tables.

A table is a CSV or Parquet file, a frame (pandas, polars, Arrow; Spark and ibis are fetched as
Arrow) or a query. It is named after its predicate, and its columns are the arguments in order:

    P             true facts of P
    P.false       negated facts
    P.unknown     unknown facts
    f.function    facts of a function; the last column is its value
    P.probability soft evidence on P; the last column is a probability
    t.type        constants of the type t, in one column

A predicate without arguments has one column called "()" and is true if there is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, Union

import numpy as np

from lapis.data.database import TRUE, TRUTH_WORDS, Database, Domain, Relation
from lapis.data.formats.build_database import (
    build_relation,
    check_consistent,
    is_provisional,
    known_types,
    provisional_type,
)
from lapis.data.formats.duckdb_tables import (
    NULLARY_COLUMN,
    csv_header,
    encode_tables,
    open_duckdb,
    select_file,
    sql_errors,
)
from lapis.data.formats.facts import Origin, table_suffix
from lapis.errors import LapisError, Warning, issue_warnings
from lapis.language.names import read_number

if TYPE_CHECKING:
    import duckdb
    import ibis
    import pandas
    import polars
    import pyarrow
    import pyspark.sql


Frame: TypeAlias = Union["pandas.DataFrame", "polars.DataFrame", "pyarrow.Table"]
RemoteFrame: TypeAlias = Union["pyspark.sql.DataFrame", "ibis.Table"]
RemoteConnection: TypeAlias = Union["pyspark.sql.SparkSession", "ibis.BaseBackend"]


def from_frames(frames: Mapping[str, Frame | RemoteFrame]) -> Database:
    with open_duckdb() as connection:
        queries = {}
        for number, (name, frame) in enumerate(frames.items()):
            view = f"lapis_frame_{number}"
            with sql_errors(name):
                connection.register(view, _local(name, frame))
            queries[name] = f"SELECT * FROM {view}"
        return encode_database(connection, queries, ())


def is_remote(given: object) -> bool:
    """Return whether an object is of Spark or ibis, without importing these."""
    return type(given).__module__.partition(".")[0] in ("pyspark", "ibis")


def run_queries(queries: Mapping[str, str], connection: RemoteConnection) -> Database:
    """Read facts from queries that Spark or a backend of ibis runs."""
    frames: dict[str, RemoteFrame] = {}
    for name, query in queries.items():
        with _remote_errors(name):
            frames[name] = connection.sql(query)
    return from_frames(frames)


def _local(name: str, frame: Frame | RemoteFrame) -> Frame:
    """Return a frame that DuckDB can read; fetch one of Spark or ibis."""
    # Not a frame: None, a list, a dict, or an array, whose rows DuckDB would take for columns.
    is_plain = type(frame).__module__ in ("builtins", "numpy")
    if not is_plain and not is_remote(frame):
        return frame
    fetch = getattr(frame, "toArrow", None) or getattr(frame, "to_pyarrow", None)
    if fetch is None:
        raise LapisError(
            f"{name}: a {type(frame).__name__} is not a frame",
            code="data-table",
            hint="use a frame of pandas, polars, Arrow, Spark or ibis",
        )
    with _remote_errors(name):
        return fetch()


@contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    """Convert errors of Spark, ibis or an engine behind it to LapisError."""
    try:
        yield
    except Exception as error:
        message = str(error).strip().partition("\n")[0]
        raise LapisError(f"{name}: {message}", code="data-table") from error


def to_frames(
    database: Database, kind: Literal["pandas", "polars", "arrow"] = "pandas"
) -> dict[str, Frame]:
    if kind not in ("pandas", "polars", "arrow"):
        raise LapisError(
            f"unknown kind of frames {kind!r}",
            code="unknown-option",
            hint="use pandas, polars or arrow",
        )
    return {name: _frame(columns, kind) for name, columns in table_columns(database).items()}


def _frame(columns: Mapping[str, np.ndarray], kind: str) -> Frame:
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(dict(columns), dtype=str)
    if kind == "polars":
        import polars

        return polars.DataFrame(
            [polars.Series(name, cells.tolist(), polars.String) for name, cells in columns.items()]
        )
    import pyarrow

    return pyarrow.table(
        {name: pyarrow.array(values, pyarrow.string()) for name, values in columns.items()}
    )


TYPE_MARK = ".type"
PROBABILITY_MARK = ".probability"


def is_probability(name: object) -> bool:
    """Return whether a table P.probability is named: its last column is a probability of P.

    >>> is_probability("Class.probability"), is_probability("Class"), is_probability("a.b.c")
    (True, False, False)
    """
    return isinstance(name, str) and name.count(".") == 1 and name.endswith(PROBABILITY_MARK)


class TableName(NamedTuple):
    predicate: str
    truth: int = TRUE
    function: bool = False

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse `P`, `P.false`, `f.function`, `f.function.unknown` or `P.probability`.

        Probabilities are the values of a function of this name.
        """
        if is_probability(text):
            return cls(text, TRUE, True)
        predicate, *marks = text.split(".") if isinstance(text, str) else [""]
        function = marks[:1] == ["function"]
        truths = marks[function:]
        if truths in ([], ["false"], ["unknown"]) and predicate:
            return cls(predicate, TRUTH_WORDS.index(truths[0]) if truths else TRUE, function)
        raise LapisError(
            f"{text!r} does not name a table of facts",
            code="data-table",
            hint="tables are called P, P.false or P.unknown for a predicate P, f.function for a "
            "function f, P.probability for soft evidence on P, t.type for a type t",
        )

    def __str__(self) -> str:
        is_marked = self.function and not is_probability(self.predicate)
        function = ".function" if is_marked else ""
        return (
            self.predicate
            + function
            + ("" if self.truth == TRUE else f".{TRUTH_WORDS[self.truth]}")
        )


def read_folder(folder: Path) -> Database:
    """Read all tables of a folder."""
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    tables = [path for path in paths if table_suffix(path)]
    strays = [path for path in paths if path.name.endswith((".db", ".db.gz"))]
    if strays:
        raise LapisError(
            f"{strays[0]}: a folder of tables holds CSV and Parquet files only",
            code="data-table",
            hint="read the .db files by themselves, or give both paths",
        )
    if not tables:
        raise LapisError(f"{folder}: there is no CSV or Parquet file here", code="data-table")
    return read_tables(tables)


def read_tables(paths: Sequence[Path]) -> Database:
    """Read CSV and Parquet files, each named after its predicate."""
    files: dict[str, Path] = {}
    for path in paths:
        name = path.name.removesuffix(table_suffix(path) or "")
        other = files.setdefault(name, path)
        if other != path:
            raise LapisError(f"{other} and {path} are both tables of {name}", code="data-table")
    with open_duckdb() as connection:
        queries = {name: select_file(path) for name, path in files.items()}
        found = encode_database(connection, queries, tuple(paths))
    issue_warnings(_suspicious_headers(files, found))
    return found


def _suspicious_headers(files: Mapping[str, Path], found: Database) -> Iterator[Warning]:
    """Yield a warning for each CSV file whose header has constants or numbers."""
    for name, path in files.items():
        if path.name.endswith(".parquet") or name.endswith(TYPE_MARK):
            continue
        relation = found.relations[TableName.parse(name).predicate]
        domains = [found.domains[type_name] for type_name in relation.types]
        for cell in csv_header(path):
            if read_number(cell) == read_number(cell) or any(cell in d.index for d in domains):
                yield Warning(
                    f"{path}: the first row is read as a header, though {cell!r} is "
                    + ("a constant" if any(cell in d.index for d in domains) else "a number"),
                    "header",
                    hint="if it is a fact, put a row that names the columns before it",
                )
                break


def from_sql(
    queries: Mapping[str, str],
    connection: duckdb.DuckDBPyConnection | RemoteConnection | None = None,
) -> Database:
    if connection is not None:
        if is_remote(connection):
            return run_queries(queries, connection)
        return encode_database(connection, queries, ())
    with open_duckdb() as own:
        return encode_database(own, queries, ())


def encode_database(
    connection: duckdb.DuckDBPyConnection, queries: Mapping[str, str], origins: tuple[Origin, ...]
) -> Database:
    """Build a database from a query for each table name."""
    selects: dict[str, list[tuple[int, str]]] = {}
    is_function: dict[str, bool] = {}
    declared: dict[str, tuple[str, ...]] = {}
    for text, query in queries.items():
        query = query.strip().rstrip(";")
        if isinstance(text, str) and text.endswith(TYPE_MARK):
            declared[text.removesuffix(TYPE_MARK)] = _type_constants(connection, text, query)
            continue
        table = TableName.parse(text)
        selects.setdefault(table.predicate, []).append((table.truth, query))
        if is_function.setdefault(table.predicate, table.function) != table.function:
            raise LapisError(
                f"{table.predicate} is used both as a function and as a predicate",
                code="data-function",
            )
    domains = {name: Domain(name, constants) for name, constants in (declared or {}).items()}
    relations: dict[str, Relation] = {}
    first_seen: dict[str, np.ndarray] = {}
    num_cells = 0
    for predicate, parts in selects.items():
        found = encode_tables(connection, predicate, parts)
        arity = found.codes.shape[1]
        if is_function[predicate] and not arity:
            raise LapisError(f"{predicate} needs a column for its value", code="data-arity")
        types = tuple(provisional_type(predicate, argument) for argument in range(arity))
        for argument, type_name in enumerate(types):
            domains[type_name] = Domain(type_name, found.constants[argument])
            first_seen[type_name] = num_cells + found.first_row[argument] * arity + argument
        num_cells += found.codes.size
        relations[predicate] = build_relation(
            predicate, types, found.codes, found.truth, is_function[predicate]
        )
    database = Database(
        domains, relations, declared=declared, origins=origins, first_seen=first_seen
    )
    check_consistent(database)
    return database


def _type_constants(
    connection: duckdb.DuckDBPyConnection, name: str, query: str
) -> tuple[str, ...]:
    found = encode_tables(connection, name, [(TRUE, query)])
    if found.codes.shape[1] != 1:
        raise LapisError(f"{name} needs one column, the constants of the type", code="data-arity")
    return found.constants[0]


def table_columns(database: Database) -> dict[str, dict[str, np.ndarray]]:
    """Return the tables of a database: columns object[num_facts] of constants, by name.

    A predicate without facts has an empty table, so that it is not lost.
    """
    tables: dict[str, dict[str, np.ndarray]] = {}
    for type_name, constants in known_types(database).items():
        tables[type_name + TYPE_MARK] = {type_name: Domain(type_name, constants).names}
    for relation in database.relations.values():
        silent = not any(len(rows) for _, rows in relation.stated())
        for truth, rows in relation.stated():
            if len(rows) or (silent and truth == TRUE):
                name = TableName(relation.predicate, truth, relation.function)
                tables[str(name)] = _relation_columns(database, relation, rows)
    return tables


def _relation_columns(
    database: Database, relation: Relation, rows: np.ndarray
) -> dict[str, np.ndarray]:
    if not relation.arity:
        return {NULLARY_COLUMN: np.full(len(rows), "true", object)}
    names: dict[str, None] = {}
    for argument, type_name in enumerate(relation.types):
        plain = f"argument{argument + 1}" if is_provisional(type_name) else type_name
        names[plain if plain not in names else f"{plain}_{argument + 1}"] = None
    return dict(zip(names, database.columns(relation, rows), strict=True))
