"""Random products of tables, small enough to enumerate."""

from __future__ import annotations

import itertools

import numpy as np

from lapis.circuits.factor_graph import FactorGraph, graph_of_tables


def random_graph(rng: np.random.Generator, num_variables: int = 6) -> FactorGraph:
    """Return tables over up to three variables, with zeros, equal entries and constant axes."""
    sizes = rng.integers(1, 4, num_variables)
    tables = []
    for _ in range(int(rng.integers(1, 2 * num_variables))):
        scope = rng.permutation(num_variables)[: rng.integers(0, 4)]
        table = rng.choice([0.0, 1.0, 1.0, 0.5, float(rng.random())], sizes[scope])
        if len(scope) and rng.random() < 0.5:
            table[0] = table[0].flat[0]  # given this state the others do not matter
        if len(scope) and not table.any():
            table += 1.0
        with np.errstate(divide="ignore"):
            tables.append((scope.tolist(), np.log(table if len(scope) else table + 0.1)))
    names = [f"v{v}" for v in range(num_variables)]
    return graph_of_tables(names, [[str(s) for s in range(n)] for n in sizes], tables)


def all_rows(graph: FactorGraph) -> np.ndarray:
    """int32[num_worlds, num_variables], all worlds."""
    return np.array(list(itertools.product(*(range(n) for n in graph.size))), np.int32)


def enumerate_marginals(graph: FactorGraph) -> tuple[float, np.ndarray]:
    """Return log Z and the probability of every state, by enumeration."""
    rows = all_rows(graph)
    weight = np.exp(graph.log_score(rows))
    first = np.cumsum([0, *graph.size])
    marginal = np.zeros(first[-1])
    for v in range(graph.num_variables):
        np.add.at(marginal, first[v] + rows[:, v], weight)
    return float(np.log(weight.sum())), marginal / weight.sum()
