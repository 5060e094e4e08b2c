"""What every relational engine can do, and the choice between them.

`AutoEngine` is the default: it runs plans on sparse factors, and hands one to DuckDB when its
joins are estimated, or turn out, to be larger than that is made for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lapis.errors import TooLarge
from lapis.relational.answers import Product
from lapis.relational.interpretation import Interpretation
from lapis.relational.memory import MemoryEngine
from lapis.relational.plan import Plan
from lapis.stores.duckdb import DuckDBEngine

MEMORY_ROWS = 50_000_000  # touched; below this sparse factors are faster than a database


class Engine(Protocol):
    """Runs plans on one world, whose relations may grow in number."""

    def run(self, plan: Plan) -> list[Product]:
        """The answer to each term."""

    def close(self) -> None:
        """Forget the world."""


MakeEngine = Callable[[Interpretation], Engine]


class AutoEngine:
    """Sparse factors for most plans, DuckDB for the largest."""

    def __init__(self, world: Interpretation, max_memory: int | None = None) -> None:
        self.world = world
        self._memory = MemoryEngine(world)
        self._max_memory = max_memory
        self._duckdb: DuckDBEngine | None = None

    def run(self, plan: Plan) -> list[Product]:
        if plan.cost <= MEMORY_ROWS:
            # On skewed data the estimate may be far too low; then DuckDB takes over.
            try:
                return self._memory.run(plan)
            except TooLarge:
                pass
        if self._duckdb is None:
            self._duckdb = DuckDBEngine(self.world, self._max_memory)
        return self._duckdb.run(plan)

    def close(self) -> None:
        if self._duckdb is not None:
            self._duckdb.close()
            self._duckdb = None
