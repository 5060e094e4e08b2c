r"""Arithmetic circuits: learning, compilation, approximation, queries.

>>> import lapis
>>> coin = lapis.circuits.parse("(2)\nv 0 0\nv 0 1\nn 1\nn 3\n* 0 2\n* 1 3\n+ 4 5\nEOF")
>>> lapis.circuits.query(coin, "x0")
<CircuitAnswer: log probability 0 (probability 1), exact>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.circuits.circuit import Circuit
    from lapis.circuits.circuit_files import draw
    from lapis.circuits.circuit_files import parse_ac as parse
    from lapis.circuits.circuit_files import save_circuit as save
    from lapis.circuits.circuit_results import (
        CircuitAnswer,
        CircuitFigures,
        CircuitScore,
        LearnedCircuit,
        ModelMarginals,
        RowAnswers,
        Samples,
    )
    from lapis.circuits.construction import approximate, learn
    from lapis.circuits.construction import compile as compile
    from lapis.circuits.factor_graph import FactorGraph
    from lapis.circuits.inputs import read
    from lapis.circuits.queries import info, marginals, query, query_rows, sample, score
    from lapis.circuits.tree_networks.tree_network import TreeNetwork

# The module of each name, imported on first use: exact inference loads parts of this package.
_HOMES = {
    "Circuit": "circuit",
    "CircuitAnswer": "circuit_results",
    "CircuitFigures": "circuit_results",
    "CircuitScore": "circuit_results",
    "FactorGraph": "factor_graph",
    "LearnedCircuit": "circuit_results",
    "ModelMarginals": "circuit_results",
    "RowAnswers": "circuit_results",
    "Samples": "circuit_results",
    "TreeNetwork": "tree_networks.tree_network",
    "approximate": "construction",
    "compile": "construction",
    "draw": "circuit_files",
    "info": "queries",
    "learn": "construction",
    "marginals": "queries",
    "parse": "circuit_files:parse_ac",
    "query": "queries",
    "query_rows": "queries",
    "read": "inputs",
    "sample": "queries",
    "save": "circuit_files:save_circuit",
    "score": "queries",
}

# `compile` is left out, so that `from lapis.circuits import *` hides no builtin.
__all__ = [
    "Circuit", "CircuitAnswer", "CircuitFigures", "CircuitScore", "FactorGraph", "LearnedCircuit",
    "ModelMarginals", "RowAnswers", "Samples", "TreeNetwork", "approximate", "draw", "info",
    "learn", "marginals", "parse", "query", "query_rows", "read", "sample", "save", "score",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home, _, attribute = _HOMES[name].partition(":")
    value: object = getattr(import_module(f"{__name__}.{home}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
