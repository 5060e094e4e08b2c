"""What every relational engine can do, and the choice between them.

`AutoEngine` is the default: it holds the relations once, runs small plans on numpy arrays and
hands a plan to DuckDB when its joins are estimated to be larger than starting a query is worth.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

import numpy as np

from lapis.errors import TooLarge
from lapis.relational.engines.duckdb import DuckDBEngine
from lapis.relational.engines.join_tables import MemoryEngine
from lapis.relational.join_plan import Bindings, JoinPlan, run_by_components
from lapis.relational.relation_store import RelationStore, estimate_join, estimate_rows, total_rows

MEMORY_ROWS = 200_000  # below this a DuckDB query costs more to start than numpy takes in all


class Engine(Protocol):
    def create_relation(self, name: str, rows: np.ndarray) -> None:
        """Store unique rows, int32[num_rows, arity], under a name not used yet."""

    def create_values(self, name: str, values: np.ndarray) -> None:
        """Store the numeric value of each code of a domain, float64[size], for comparisons."""

    def fetch(self, plan: JoinPlan) -> Bindings:
        """Run a plan. Rows come sorted by the outputs, so every engine answers alike."""

    def estimate_rows(self, plan: JoinPlan) -> float:
        """About how many rows `fetch` would give, without running it."""

    def close(self) -> None:
        """Forget the relations."""


class AutoEngine:
    """Numpy for small plans, DuckDB for large ones."""

    def __init__(self, max_memory: int | None = None) -> None:
        self.store = RelationStore()
        self._memory = MemoryEngine(self.store, 20 * MEMORY_ROWS)
        self._max_memory = max_memory
        self._duckdb: DuckDBEngine | None = None

    def create_relation(self, name: str, rows: np.ndarray) -> None:
        self.store.create(name, rows)

    def create_values(self, name: str, values: np.ndarray) -> None:
        self.store.values[name] = values

    def fetch(self, plan: JoinPlan) -> Bindings:
        return run_by_components(plan, self._fetch_component)

    def estimate_rows(self, plan: JoinPlan) -> float:
        return estimate_rows(self.store, plan)

    def close(self) -> None:
        if self._duckdb is not None:
            self._duckdb.close()
            self._duckdb = None

    def _fetch_component(self, part: JoinPlan) -> Bindings:
        sources = [source.relation for source in (*part.joins, *part.antis)]
        work = total_rows(self.store, sources) + estimate_join(self.store, part)
        if work <= MEMORY_ROWS:
            # On skewed data the estimate may be far too low; then DuckDB takes over.
            with contextlib.suppress(TooLarge):
                return self._memory.fetch_component(part)
        if self._duckdb is None:
            self._duckdb = DuckDBEngine(self.store, self._max_memory)
        return self._duckdb.fetch_component(part)
