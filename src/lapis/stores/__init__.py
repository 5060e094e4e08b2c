"""Relational engines behind one small protocol; plans are values that any of them can run."""

from lapis.relational.memory import MemoryEngine
from lapis.stores.duckdb import DuckDBEngine
from lapis.stores.engine import AutoEngine, Engine, MakeEngine
from lapis.stores.store import Store, Table, fetch_all, fetch_number
from lapis.stores.store_engine import StoreEngine
from lapis.stores.stored_database import open_tables
from lapis.stores.urls import open_store

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
