"""Databases and clusters: facts stay there, and grounding, counting and inference run there."""

from lapis.stores.store import Store, Table, fetch_all, fetch_number
from lapis.stores.store_engine import StoreEngine
from lapis.stores.stored_database import open_tables
from lapis.stores.urls import open_store

__all__ = [
    "Store",
    "StoreEngine",
    "Table",
    "fetch_all",
    "fetch_number",
    "open_store",
    "open_tables",
]
