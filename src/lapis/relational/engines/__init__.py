"""Relational engines behind one small protocol; plans are values that any of them can run."""

from lapis.relational.engines.duckdb import DuckDBEngine
from lapis.relational.engines.engine import AutoEngine, Engine, MakeEngine
from lapis.relational.engines.engine_urls import open_store
from lapis.relational.engines.interning import open_tables
from lapis.relational.engines.memory import MemoryEngine
from lapis.relational.engines.store import Store, Table, fetch_all, fetch_number
from lapis.relational.engines.stored import StoreEngine

__all__ = [
    "AutoEngine",
    "DuckDBEngine",
    "Engine",
    "MakeEngine",
    "MemoryEngine",
    "Store",
    "StoreEngine",
    "Table",
    "fetch_all",
    "fetch_number",
    "open_store",
    "open_tables",
]
