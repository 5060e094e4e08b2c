"""The ground network: clauses as flat arrays with tied weights, its parts and its files."""

from lapis.network.network import AtomTable, Network

__all__ = ["AtomTable", "Network"]
