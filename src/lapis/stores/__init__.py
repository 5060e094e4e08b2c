"""Grounding, counting and inference inside DuckDB, PostgreSQL or Spark, where the facts are."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.stores.store import Store, StoredTable, fetch_all, fetch_number, open_store
    from lapis.stores.store_engine import StoreEngine
    from lapis.stores.stored_database import open_tables

__all__ = [
    "Store",
    "StoreEngine",
    "StoredTable",
    "fetch_all",
    "fetch_number",
    "open_store",
    "open_tables",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use: most commands need few of these modules."""
    if name not in __all__:
        raise AttributeError(f"module 'lapis.stores' has no attribute {name!r}")
    module = {"StoreEngine": "store_engine", "open_tables": "stored_database"}.get(name, "store")
    return getattr(import_module(f"lapis.stores.{module}"), name)
