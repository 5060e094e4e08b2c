"""Relational engines behind one small protocol; plans are values that any of them can run."""

from lapis.relational.engines.duckdb import DuckDBEngine
from lapis.relational.engines.engine import AutoEngine, Engine
from lapis.relational.engines.join_tables import MemoryEngine
from lapis.relational.join_plan import Bindings, Comparison, JoinPlan, Source

__all__ = [
    "AutoEngine",
    "Bindings",
    "Comparison",
    "DuckDBEngine",
    "Engine",
    "JoinPlan",
    "MemoryEngine",
    "Source",
]
