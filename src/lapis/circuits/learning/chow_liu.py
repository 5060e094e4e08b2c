"""The tree that explains variables best by pairs (Chow and Liu, 1968).

A spanning tree of largest total mutual information, hung up at its middle so that it is shallow.
Pairs are counted from the rows that show both variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lapis.circuits.circuit import state_starts

CHUNK = 8192  # rows that are counted together


def one_hot(rows: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float32[num_rows, num_states], 1 for the state of each variable that is not missing."""
    first = state_starts(states)
    found = np.zeros((len(rows), first[-1]), np.float32)
    at, variable = np.nonzero(rows >= 0)
    found[at, first[variable] + rows[at, variable]] = 1.0
    return found


def pair_counts(data: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_states, num_states], how often two states occur together."""
    num_states = int(state_starts(states)[-1])
    found = np.zeros((num_states, num_states))
    for first in range(0, len(data), CHUNK):
        part = one_hot(data[first : first + CHUNK], states)
        found += part.T @ part
    return found


def marginals(counts: np.ndarray, states: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The distribution of each variable, with a count of 1 in total added."""
    first = state_starts(states)
    own = [np.diag(counts)[a:b] + 1 / (b - a) for a, b in pairwise(first)]
    return [one / one.sum() for one in own]


def information(counts: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_variables, num_variables], mutual information, from rows that show both."""
    first = state_starts(states)[:-1]
    size = np.array([len(own) for own in states])
    joint = counts + 0.1 / np.outer(np.repeat(size, size), np.repeat(size, size))
    rows = np.add.reduceat(joint, first, axis=1)  # state × variable
    total = np.repeat(np.repeat(np.add.reduceat(rows, first, axis=0), size, 0), size, 1)
    expected = np.repeat(rows, size, axis=1) * np.repeat(rows, size, axis=1).T / total
    parts = joint / total * np.log(joint / expected)
    return np.asarray(np.add.reduceat(np.add.reduceat(parts, first, axis=0), first, axis=1))


def spanning_tree(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The heaviest spanning tree: nodes from its middle outwards, and the parent of each."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree, shortest_path

    most = float(weight.max(initial=0.0)) + 1.0
    tree = minimum_spanning_tree(csr_matrix(np.triu(most - weight, 1)))
    distance = shortest_path(tree, directed=False, unweighted=True)
    root = int(np.argmin(distance.max(axis=1)))
    order, parent = breadth_first_order(tree, root, directed=False)
    return order.astype(np.int64), np.where(parent < 0, -1, parent).astype(np.int64)
