"""Databases and clusters: facts stay there, and grounding, counting and inference run there."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.stores.store import Store, StoredTable, fetch_all, fetch_number
    from lapis.stores.store_engine import StoreEngine
    from lapis.stores.stored_database import open_tables
    from lapis.stores.urls import open_store

PLACES = {
    "Store": "store",
    "StoredTable": "store",
    "fetch_all": "store",
    "fetch_number": "store",
    "StoreEngine": "store_engine",
    "open_tables": "stored_database",
    "open_store": "urls",
}

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
    """Import on first use: most commands need one module of a store, or none."""
    if name not in PLACES:
        raise AttributeError(f"module 'lapis.stores' has no attribute {name!r}")
    return getattr(import_module(f"lapis.stores.{PLACES[name]}"), name)
