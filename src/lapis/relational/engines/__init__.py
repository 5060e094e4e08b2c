"""Relational engines behind one small protocol; plans are values that any of them can run."""

from lapis.relational.engines.duckdb import DuckDBEngine
from lapis.relational.engines.engine import AutoEngine, Engine, MakeEngine
from lapis.relational.engines.memory import MemoryEngine

__all__ = ["AutoEngine", "DuckDBEngine", "Engine", "MakeEngine", "MemoryEngine"]
