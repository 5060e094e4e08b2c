"""Rows of stored answers: sorted, filtered and paged by DuckDB, a million at a time.

The order of the rows of a view (a filter and a column to sort by) is computed once and kept, so
that scrolling fetches rows by their numbers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError, check_word
from lapis.web.contract import CalibrationBin, FiguresReply, RowsReply, RowsRequest
from lapis.web.inspection import Kept, quote_name, quote_text

if TYPE_CHECKING:
    import duckdb

    from lapis.data.database import Database

MAX_PAGE = 2000  # rows
BINS = 20
FORMATS = {"csv": "FORMAT csv, HEADER true", "parquet": "FORMAT parquet", "json": "FORMAT json"}


class AnswerTable:
    """The rows of one answer in a DuckDB table."""

    def __init__(self, path: Path) -> None:
        from lapis.data.formats.duckdb_tables import open_duckdb

        self.connection: duckdb.DuckDBPyConnection = open_duckdb()
        self.connection.execute("SET threads = 2")
        self.connection.execute(
            f"CREATE TABLE answer AS SELECT * FROM read_parquet({quote_text(str(path))})"
        )
        described = self.connection.execute("DESCRIBE answer").fetchall()
        self.kinds = {name: kind for name, kind, *_ in described if name != "row"}
        self.columns = list(self.kinds)
        self.listed = ", ".join(map(quote_name, self.columns))
        self.orders = Kept(6)

    def rows(self, request: RowsRequest) -> RowsReply:
        """Return a page of a view."""
        began = time.perf_counter()
        order = self.order(request)
        offset = max(0, min(request["offset"], len(order)))
        page = order[offset : offset + max(0, min(request["limit"], MAX_PAGE))]
        return {
            "total": len(order),
            "offset": offset,
            "columns": self.columns,
            "rows": self.fetch(page),
            "seconds": time.perf_counter() - began,
        }

    def fetch(self, page: np.ndarray) -> list[list[Any]]:
        if not len(page):
            return []
        numbers = ", ".join(map(str, page.tolist()))
        near = f"row BETWEEN {page.min()} AND {page.max()}"
        found = self.connection.execute(
            f"SELECT row, {self.listed} FROM answer WHERE {near} AND row IN ({numbers})"
        ).fetchall()
        by_row = {row[0]: list(row[1:]) for row in found}
        return [by_row[row] for row in page.tolist()]

    def order(self, request: RowsRequest) -> np.ndarray:
        """Return int64[num_rows], the numbers of the rows of a view in its order."""
        where, values = self.conditions(request)
        sort = "row"
        if request["sort"] is not None:
            check_word("column", request["sort"], self.columns, code="request")
            way = "DESC" if request["descending"] else "ASC"
            sort = f"{quote_name(request['sort'])} {way} NULLS LAST, row"

        def find() -> np.ndarray:
            query = f"SELECT row FROM answer{where} ORDER BY {sort}"
            found: np.ndarray = self.connection.execute(query, values).fetchnumpy()["row"]
            return np.asarray(found, np.int64)

        return self.orders.find((where, sort, *values), find)

    def conditions(self, request: RowsRequest) -> tuple[str, list[Any]]:
        """Return the SQL of the filter, and its values."""
        parts: list[str] = []
        values: list[Any] = []
        if request["predicate"] and "predicate" in self.kinds:
            parts.append("predicate = ?")
            values.append(request["predicate"])
        texts = {**request["arguments"], self.columns[0]: request["text"]}
        for name, text in texts.items():
            if not text:
                continue
            check_word("column", name, self.columns, code="request")
            parts.append(f"contains(lower(CAST({quote_name(name)} AS VARCHAR)), lower(?))")
            values.append(text)
        measured = next((n for n in ("probability", "weight", "value") if n in self.kinds), None)
        for bound, operator in ((request["low"], ">="), (request["high"], "<=")):
            if bound is not None and measured is not None:
                parts.append(f"{quote_name(measured)} {operator} ?")
                values.append(bound)
        return (" WHERE " + " AND ".join(parts)) if parts else "", values

    def export(self, kind: str, path: Path) -> None:
        """Write all rows in the order of the answer."""
        check_word("format", kind, FORMATS, code="request")
        self.connection.execute(
            f"COPY (SELECT {self.listed} FROM answer ORDER BY row) TO {quote_text(str(path))} "
            f"({FORMATS[kind]})"
        )

    def bins(self, predicate: str | None, truth: Database | None) -> FiguresReply:
        """Return the distribution of the probabilities, with the truth if there is data of it."""
        if "probability" not in self.kinds:
            raise LapisError("this answer has no probabilities", code="request")
        where, values = (" WHERE predicate = ?", [predicate]) if predicate else ("", [])
        found = self.connection.execute(
            f"SELECT atom, probability FROM answer{where}", values
        ).fetchnumpy()
        probability = np.ma.filled(np.ma.asarray(found["probability"], np.float64), 0.0)
        if truth is None:
            true = None
        else:
            facts = true_facts(truth)
            true = np.fromiter((a in facts for a in found["atom"]), bool, len(probability))
        return count_bins(probability, true)


def true_facts(truth: Database) -> set[str]:
    """Return the true facts of data as they are written."""
    from lapis.language.names import format_atom

    return {
        format_atom(relation.predicate, constants, function=relation.function)
        for relation in truth.relations.values()
        for constants in truth.decode(relation, relation.true)
    }


def count_bins(probability: np.ndarray, true: np.ndarray | None) -> FiguresReply:
    from lapis.evaluation.metrics import calibration_curve

    guessed = np.zeros(len(probability), bool) if true is None else true
    curve = calibration_curve(probability, guessed, BINS if true is None else 10)
    bins: list[CalibrationBin] = []
    numbers = zip(curve.num_atoms, curve.predicted, curve.observed, strict=True)
    for place, (count, predicted, observed) in enumerate(numbers):
        filled = count > 0
        bins.append(
            {
                "low": float(curve.edge[place]),
                "high": float(curve.edge[place + 1]),
                "count": int(count),
                "predicted": float(predicted) if filled else None,
                "observed": float(observed) if filled and true is not None else None,
            }
        )
    error = None if true is None else float(curve.error)
    return {"bins": bins, "error": error, "chains": [], "slowest": None}


class AnswerTables:
    """The tables of the last answers that were looked at."""

    def __init__(self) -> None:
        self.kept = Kept(3)

    def open(self, path: Path) -> AnswerTable:
        if not path.is_file():
            raise LapisError("this run has no answer", code="no-answer")
        return self.kept.find((str(path), path.stat().st_mtime_ns), lambda: AnswerTable(path))
