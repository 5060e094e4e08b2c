"""The ground network: clauses as flat arrays with tied weights, its parts and its files."""

from importlib import import_module
from typing import TYPE_CHECKING

from lapis.network.network import AtomTable, Network

if TYPE_CHECKING:
    from lapis.network.export import write_network

# Resolved on first use: writing brings in more than a Network needs.
_HOMES = {"write_network": "lapis.network.export"}

__all__ = ["AtomTable", "Network", "write_network"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lapis.network' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
