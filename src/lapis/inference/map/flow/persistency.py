"""Atoms that a minimum cut settles: all of an attractive network, a part of any other.

Roof duality (Hammer, Hansen & Simeone 1984; Boros & Hammer 2002). Each literal is a node; what two
literals pay together, a·u·v, is an arc u → v̄ and its mirror v → ū of capacity a; what one pays
comes from the source or goes to the sink. A minimum cut of this double cover is twice the best
bound that the linear program of the pairs has, and it settles atoms: where x is on the source's
side and x̄ is not, some most likely world has x true, all such atoms at once (persistency).

A component that attracts after changing the signs of some atoms falls apart, in the double cover,
into two mirrored halves. One of them is kept: its minimum cut is the minimum cut of Greig,
Porteous & Seheult (1989), and settles every atom.

Atoms that neither source nor sink reaches are ties of the bound. Any set of literals that no
residual arc leaves is a minimum cut too, so of x and x̄ the one is taken that comes later in the
order of strongly connected components, as for clauses of two literals; only atoms with x and x̄ in
one component are left open (Kolmogorov & Rother 2007).

What rounding does: the cut is minimal for whole-number weights, which no world's cost misses by
more than `error`; so the world that follows costs at most 2·error more than the best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lapis.inference.map.flow.couplings import Couplings, find_couplings
from lapis.inference.map.flow.maximum_flow import Residual, build_residual, saturate
from lapis.inference.map.objective import Objective
from lapis.network.components import find_root, number_trees
from lapis.runtime.kernels import allocating_entry


class Persistent(NamedTuple):
    """Values that some most likely world has, all of them together."""

    value: np.ndarray  # int8[num_atoms], 1 true, 0 false, −1 open
    gap: float  # what the best world with these values may cost more than the best


class Cover(NamedTuple):
    """The double cover, with one half of each component that has two."""

    literal: np.ndarray  # int64[num_cover_nodes], the code of each node
    is_whole: np.ndarray  # bool[num_cover_nodes], the node of the negation is there too
    residual: Residual
    excess: np.ndarray  # int64[num_cover_nodes], from the source, or to the sink if negative


def find_persistent(
    objective: Objective, component: np.ndarray, should_stop: Callable[[], bool]
) -> Persistent:
    """What cuts settle of the components, int32[num_atoms] labels, that are made of pairs."""
    couplings = find_couplings(objective, component)
    nothing = np.full(objective.num_atoms, -1, np.int8)
    if not couplings.taken.any():
        return Persistent(nothing, 0.0)
    cover = double_cover(couplings)
    reached = saturate(cover.residual, cover.excess, should_stop)
    if reached is None:
        return Persistent(nothing, 0.0)
    value = settle(cover, reached, len(couplings.field))[: objective.num_atoms]
    value = np.where(couplings.taken, value, nothing)
    return Persistent(value, 2.0 * couplings.error if (value >= 0).any() else 0.0)


def double_cover(couplings: Couplings) -> Cover:
    """Nodes for literals, edges for pairs and their mirrors, without the second halves."""
    first, second = 2 * couplings.first, 2 * couplings.second + couplings.repels
    size = 2 * len(couplings.field)
    label = _label_halves(size, first, second)
    own, mirror = label, label.reshape(-1, 2)[:, ::-1].reshape(-1)
    literal = np.flatnonzero(own <= mirror)
    number = np.full(size, -1, np.int32)
    number[literal] = np.arange(len(literal), dtype=np.int32)
    upright, mirrored = number[first] >= 0, number[first ^ 1] >= 0
    forward, backward = couplings.forward, couplings.backward
    residual = build_residual(
        len(literal),
        np.concatenate((number[first[upright]], number[first[mirrored] ^ 1])),
        np.concatenate((number[second[upright]], number[second[mirrored] ^ 1])),
        np.concatenate((forward[upright], backward[mirrored])),
        np.concatenate((backward[upright], forward[mirrored])),
    )
    field = couplings.field[literal >> 1]
    excess = np.where(literal & 1, field, -field)
    return Cover(literal, own[literal] == mirror[literal], residual, excess)


def settle(cover: Cover, reached: np.ndarray, num_nodes: int) -> np.ndarray:
    """int8[num_nodes], the values that follow from what the source reaches."""
    value = np.full(num_nodes, -1, np.int8)
    atom, is_negated = cover.literal >> 1, cover.literal & 1
    half = ~cover.is_whole
    value[atom[half]] = reached[half] ^ is_negated[half]
    value[atom[reached]] = 1 - is_negated[reached]
    tied = np.flatnonzero(cover.is_whole & (value[atom] < 0))
    if len(tied):
        chosen = cover.literal[tied][later_literals(cover, tied)]
        value[chosen >> 1] = 1 - (chosen & 1)
    return value


def later_literals(cover: Cover, tied: np.ndarray) -> np.ndarray:
    """bool[num_tied], nodes in a later strongly connected component than their negations."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    residual = cover.residual
    number = np.full(len(cover.literal), -1, np.int32)
    number[tied] = np.arange(len(tied), dtype=np.int32)
    tail = np.repeat(np.arange(len(number)), np.diff(residual.start))
    inner = (number[tail] >= 0) & (number[residual.to] >= 0) & (residual.capacity > 0)
    tail, head = number[tail[inner]], number[residual.to[inner]]
    graph = csr_array((np.ones(len(tail), np.int8), (tail, head)), shape=(len(tied), len(tied)))
    _, order = connected_components(graph, connection="strong")
    if (order[tail] < order[head]).any():  # not numbered from the last to the first
        return np.zeros(len(tied), bool)
    # Both nodes of an atom are tied, and stand next to each other: codes 2·atom and 2·atom + 1.
    mirror = order.reshape(-1, 2)[:, ::-1].reshape(-1)
    return order < mirror


@allocating_entry
def _label_halves(size, first, second):  # type: ignore[no-untyped-def]
    """int32[size], connected component of each literal in the double cover."""
    root = np.arange(size).astype(np.int32)
    for pair in range(len(first)):
        for side in range(2):
            one, other = find_root(root, first[pair] ^ side), find_root(root, second[pair] ^ side)
            if one < other:
                root[other] = one
            else:
                root[one] = other
    return number_trees(root)
