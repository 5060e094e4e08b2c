"""Join plans as SQL on an embedded DuckDB.

A component becomes one statement. The joins and the domains of unbound variables are listed in
FROM with their equalities in WHERE, which leaves the order to DuckDB's optimiser; anti-joins
follow as ANTI JOINs, and the rows are grouped by the outputs unless every variable is one.
Relations are copied into tables when a plan first names them, so that the optimiser has
statistics; tables of different engines on one connection are told apart by a prefix.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import TooLarge
from lapis.relational.join_plan import (
    Bindings,
    Comparison,
    JoinPlan,
    Source,
    run_by_components,
)
from lapis.relational.relation_store import RelationStore, estimate_rows

if TYPE_CHECKING:
    import duckdb

_thread = threading.local()
_prefixes = itertools.count()


def _connection() -> duckdb.DuckDBPyConnection:
    """One connection per thread, opened on first use."""
    if not hasattr(_thread, "connection"):
        import duckdb

        _thread.connection = duckdb.connect()
        # Without this DuckDB would spill into a folder it makes in the working directory.
        _thread.connection.execute("SET temp_directory = ''")
    connection: duckdb.DuckDBPyConnection = _thread.connection
    return connection


class DuckDBEngine:
    def __init__(self, store: RelationStore | None = None, max_memory: int | None = None) -> None:
        self.store = store if store is not None else RelationStore()
        self._prefix = f"e{next(_prefixes)}_"
        self._tables: dict[tuple[str, str], str] = {}
        # The connection outlives the engine, so the limit is set by each.
        if max_memory is None:
            _connection().execute("RESET memory_limit")
        else:
            _connection().execute(f"SET memory_limit = '{max(max_memory, 2**26)}B'")

    def create_relation(self, name: str, rows: np.ndarray) -> None:
        self.store.create(name, rows)

    def create_values(self, name: str, values: np.ndarray) -> None:
        self.store.values[name] = values

    def fetch(self, plan: JoinPlan) -> Bindings:
        return run_by_components(plan, self.fetch_component)

    def estimate_rows(self, plan: JoinPlan) -> float:
        return estimate_rows(self.store, plan)

    def close(self) -> None:
        for table in self._tables.values():
            _connection().execute(f"DROP TABLE {table}")
        self._tables.clear()

    def fetch_component(self, part: JoinPlan) -> Bindings:
        import duckdb

        try:
            columns = _connection().execute(self.compile(part)).fetchnumpy()
        except duckdb.OutOfMemoryException as error:
            raise TooLarge(
                "a join does not fit in the memory given",
                code="too-large",
                hint="raise the memory limit, or give more evidence",
            ) from error
        outputs = {
            name: np.asarray(columns[f"o{position}"]) for position, name in enumerate(part.outputs)
        }
        if part.listed:
            return Bindings(outputs, np.ones(len(next(iter(outputs.values())))))
        count = np.asarray(columns["count"], np.float64)
        if not outputs and count[0] == 0.0:  # a total over no rows is still one row in SQL
            count = np.empty(0)
        return Bindings(outputs, count)

    def compile(self, part: JoinPlan) -> str:
        """The SQL text of a component; tables it needs are created."""
        place: dict[str, str] = {}  # variable → the column that binds it
        tables, conditions = [], []
        for number, source in enumerate(part.joins):
            tables.append(f"{self._relation_table(source.relation)} AS r{number}")
            for position, column in enumerate(source.columns):
                here = f"r{number}.c{position}"
                if not isinstance(column, str):
                    conditions.append(f"{here} = {column}")
                elif column in place:
                    conditions.append(f"{here} = {place[column]}")
                else:
                    place[column] = here
        for number, (name, size) in enumerate(part.variables):
            if name not in place:
                tables.append(f"(SELECT range::INTEGER AS c FROM range({size})) AS d{number}")
                place[name] = f"d{number}.c"
        for number, comparison in enumerate(part.comparisons):
            conditions.append(self._compile_comparison(comparison, number, place, tables))
        names = [name for name, _ in part.variables]
        column_of = {name: f"v{position}" for position, name in enumerate(names)}
        bound = ", ".join(f"{place[name]} AS {column_of[name]}" for name in names) or "1"
        text = f"SELECT {bound}"
        if tables:
            text += f" FROM {', '.join(tables)}"
        if conditions:
            text += f" WHERE {' AND '.join(conditions)}"
        antis = " ".join(
            self._compile_anti(source, number, column_of)
            for number, source in enumerate(part.antis)
        )
        listed = [f"q.{column_of[name]} AS o{i}" for i, name in enumerate(part.outputs)]
        if part.listed:
            ending = " ORDER BY ALL"
        else:
            listed.append("count(*) AS count")
            ending = " GROUP BY ALL ORDER BY ALL" if part.outputs else ""
        return f"SELECT {', '.join(listed)} FROM ({text}) AS q {antis}{ending}"

    def _compile_anti(self, source: Source, number: int, column_of: dict[str, str]) -> str:
        matches = " AND ".join(
            f"a{number}.c{position} = "
            + (f"q.{column_of[column]}" if isinstance(column, str) else str(column))
            for position, column in enumerate(source.columns)
        )
        table = self._relation_table(source.relation)
        return f"ANTI JOIN {table} AS a{number} ON {matches or 'TRUE'}"

    def _compile_comparison(
        self, comparison: Comparison, number: int, place: dict[str, str], tables: list[str]
    ) -> str:
        sides, joined = [], []
        for side, name, values in (
            ("l", comparison.left, comparison.left_values),
            ("r", comparison.right, comparison.right_values),
        ):
            if values is None:
                sides.append(place[name])
                continue
            alias = f"{side}{number}v"
            tables.append(f"{self._value_table(values)} AS {alias}")
            joined.append(f"{alias}.code = {place[name]}")
            sides.append(f"{alias}.value")
        operator = "<>" if comparison.operator == "!=" else comparison.operator
        offset = f" + {comparison.offset!r}" if comparison.offset else ""
        # What is not a number is stored as NULL: a comparison with it does not hold.
        holds = f"coalesce({sides[0]} {operator} {sides[1]}{offset}, FALSE)"
        wanted = holds if comparison.holds else f"NOT {holds}"
        return " AND ".join([*joined, wanted])

    def _relation_table(self, name: str) -> str:
        rows = self.store.rows[name]
        # A nullary relation has a column of zeros, so that it can hold its one row.
        columns = {f"c{i}": np.ascontiguousarray(rows[:, i]) for i in range(rows.shape[1])}
        return self._table("relation", name, columns or {"nullary": np.zeros(len(rows), np.int32)})

    def _value_table(self, name: str) -> str:
        values = self.store.values[name]
        codes = np.arange(len(values), dtype=np.int32)
        return self._table("values", name, {"code": codes, "value": values})

    def _table(self, kind: str, name: str, columns: dict[str, np.ndarray]) -> str:
        key = (kind, name)
        if key not in self._tables:
            table = f"{self._prefix}{len(self._tables)}"
            connection = _connection()
            connection.register(f"{table}_new", columns)
            select = "code, CASE WHEN isnan(value) THEN NULL ELSE value END AS value"
            connection.execute(
                f"CREATE TEMP TABLE {table} AS "
                f"SELECT {select if kind == 'values' else '*'} FROM {table}_new"
            )
            connection.unregister(f"{table}_new")
            self._tables[key] = table
        return self._tables[key]
