"""Bayesian and Markov networks as models, whose predicates are the variables.

A variable is a predicate of one argument, its state, of which exactly one is true; its type has its
name and its states. The tables are factors of the model (`StateTable`). So a network is queried,
observed, planned and solved as any other model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lapis.circuits.factor_files import read_factor_file
from lapis.circuits.factor_graph import FactorGraph
from lapis.language.model import Model, Predicate, StateTable


def read_network(path: str | Path) -> Model:
    """Read the network of a .bif, .uai or .tbn file as a model."""
    return network_model(read_factor_file(path), str(path))


def network_model(graph: FactorGraph, name: str = "<network>") -> Model:
    """Return a network as a model.

    >>> from lapis.circuits.factor_files import parse_uai
    >>> network_model(parse_uai("MARKOV 1 2 1 1 0 2 0.5 1.5"))
    <Model <network>: 1 variable, 1 table of 2 numbers
     x0: 0, 1>
    """
    return Model(
        types=dict(zip(graph.names, graph.states, strict=True)),
        predicates={
            variable: Predicate(variable, (variable,), block=(0,), variable=True)
            for variable in graph.names
        },
        rules=(),
        tables=tuple(state_table(graph, scope, table) for scope, table in graph.tables),
        name=name,
    )


def state_table(graph: FactorGraph, scope: list[int], table: np.ndarray) -> StateTable:
    """Return a table with entries of at most 1; the scale is that of its largest entry."""
    largest = float(table.max(initial=-np.inf))
    scale = largest if np.isfinite(largest) and largest > 0 else 0.0
    return StateTable(tuple(graph.names[v] for v in scope), table - scale, scale)
