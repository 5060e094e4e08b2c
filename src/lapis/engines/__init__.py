"""Relational engines behind one small protocol; plans are values that any of them can run."""

from lapis.engines.duckdb import DuckDBEngine
from lapis.engines.engine import AutoEngine, Engine
from lapis.engines.memory import MemoryEngine
from lapis.engines.plan import Bindings, Comparison, JoinPlan, Source

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
