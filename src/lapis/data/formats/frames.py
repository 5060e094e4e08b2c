"""Databases from and to pandas, polars and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

import numpy as np

from lapis.data.database import Database
from lapis.data.formats.duckdb_tables import connect, sql_errors
from lapis.data.formats.table_files import encode_database, table_columns
from lapis.errors import LapisError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Frame: TypeAlias = Union["pandas.DataFrame", "polars.DataFrame", "pyarrow.Table"]


def from_frames(frames: Mapping[str, Frame]) -> Database:
    with connect() as connection:
        queries = {}
        for number, (name, frame) in enumerate(frames.items()):
            view = f"lapis_frame_{number}"
            with sql_errors(name):
                connection.register(view, frame)
            queries[name] = f"SELECT * FROM {view}"
        return encode_database(connection, queries, ())


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
