"""Databases from and to frames: pandas, polars, Arrow; from Spark and ibis, fetched as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

import numpy as np

from lapis.data.database import Database
from lapis.data.formats.duckdb_tables import connect, sql_errors
from lapis.data.formats.table_files import encode_database, table_columns
from lapis.errors import LapisError

if TYPE_CHECKING:
    import ibis
    import pandas
    import polars
    import pyarrow
    import pyspark.sql

Frame: TypeAlias = Union["pandas.DataFrame", "polars.DataFrame", "pyarrow.Table"]
RemoteFrame: TypeAlias = Union["pyspark.sql.DataFrame", "ibis.Table"]
RemoteConnection: TypeAlias = Union["pyspark.sql.SparkSession", "ibis.BaseBackend"]


def from_frames(frames: Mapping[str, Frame | RemoteFrame]) -> Database:
    with connect() as connection:
        queries = {}
        for number, (name, frame) in enumerate(frames.items()):
            view = f"lapis_frame_{number}"
            with sql_errors(name):
                connection.register(view, _local(name, frame))
            queries[name] = f"SELECT * FROM {view}"
        return encode_database(connection, queries, ())


def is_remote(given: object) -> bool:
    """Whether something belongs to Spark or ibis; neither is loaded to find out."""
    return type(given).__module__.partition(".")[0] in ("pyspark", "ibis")


def run_queries(queries: Mapping[str, str], connection: RemoteConnection) -> Database:
    """Facts from queries that Spark or a backend of ibis runs."""
    frames: dict[str, RemoteFrame] = {}
    for name, query in queries.items():
        with _remote_errors(name):
            frames[name] = connection.sql(query)
    return from_frames(frames)


def _local(name: str, frame: Frame | RemoteFrame) -> Frame:
    """The rows, here."""
    # None, a list, a dict; the rows of an array are columns to DuckDB.
    is_plain = type(frame).__module__ in ("builtins", "numpy")
    if not is_plain and not is_remote(frame):
        return frame
    fetch = getattr(frame, "toArrow", None) or getattr(frame, "to_pyarrow", None)
    if fetch is None:
        raise LapisError(
            f"{name}: a {type(frame).__name__} is no frame",
            code="data-table",
            hint="frames are of pandas, polars, Arrow, Spark or ibis",
        )
    with _remote_errors(name):
        return fetch()


@contextmanager
def _remote_errors(name: str) -> Iterator[None]:
    """What Spark or ibis, or an engine behind it, has to say, as an error about the table."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().partition("\n")[0]
        raise LapisError(f"{name}: {said}", code="data-table") from error


def to_frames(
    database: Database, kind: Literal["pandas", "polars", "arrow"] = "pandas"
) -> dict[str, Frame]:
    if kind not in ("pandas", "polars", "arrow"):
        raise LapisError(
            f"there is no kind of frames {kind!r}",
            code="unknown-option",
            hint="kinds are pandas, polars and arrow",
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
