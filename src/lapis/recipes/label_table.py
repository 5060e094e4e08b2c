"""Labelled pairs: a table with two ids and whether they are the same."""

from __future__ import annotations

import numpy as np

from lapis.data.formats.duckdb_tables import open_duckdb
from lapis.errors import LapisError
from lapis.recipes.records import RawColumn, TableLike, encode_column, no_column, read_table

TRUTHS = {"1": 1, "0": 0, "true": 1, "false": 0, "True": 1, "False": 0, "yes": 1, "no": 0}


def read_label_table(labels: TableLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the left ids, the right ids, and int64[num_labels], 1 for same and 0 for different."""
    with open_duckdb() as connection:
        table = read_table(connection, labels, "labels")
    left, right, same = (column_texts(table, name) for name in ("left", "right", "same"))
    wrong = [text for text in same if text not in TRUTHS]
    if wrong:
        raise LapisError(
            f"labels: {wrong[0]!r} in column 'same'", code="labels", hint="1 for same, 0 for not"
        )
    return left, right, np.array([TRUTHS[text] for text in same], np.int64)


def column_texts(table: dict[str, RawColumn], name: str) -> np.ndarray:
    """Return the texts of a column; raise if one is missing."""
    if name not in table:
        raise no_column(name, "labels", table)
    kind, values, missing = table[name]
    if missing.any():
        raise LapisError(
            f"labels: row {int(np.argmax(missing)) + 1} has no {name!r}", code="labels"
        )
    column = encode_column(name, kind, values, missing)
    return column.as_texts()
