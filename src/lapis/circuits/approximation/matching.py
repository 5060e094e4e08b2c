"""G: shares that match expectations under the model, estimated from Gibbs samples (AC², step 2).

The likeliest member of a family for some worlds takes child c at sum n as often as they do:

    π(n, c) = (Σ_worlds P(c taken at n, n reached) + α π_F(n, c)) / (Σ_worlds [n reached] + α)

so no optimisation is needed where shares are untied; α worlds' weight of the family's own shares
stands in where worlds are few. Rao–Blackwellised: a sum decides a variable v, and whether it is
reached does not depend on v; so it counts P(x_v | all others) for the children's states in the
place of the state drawn.

A world in which v would not have been drawn as it was after its neighbours is used all the same:
the conditionals are those of the sweep that made the world.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import Family, hold
from lapis.circuits.approximation.samples import GibbsSamples
from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry

PRIOR = 2.0  # worlds that the shares of F count for


class Decisions(NamedTuple):
    """For each edge of a sum the states of the variable that the sum decides."""

    edge_start: np.ndarray  # int64[num_edges + 1]
    state: np.ndarray  # int32[...], states of all variables, numbered


def match_samples(family: Family, samples: GibbsSamples) -> Family:
    """The family with the shares that samples have."""
    decisions = find_decisions(family)
    counts = np.zeros(len(family.child))
    num_nodes = len(family.kind)
    holds = np.empty(num_nodes, np.bool_)
    reached = np.empty(num_nodes, np.bool_)
    _count(family, decisions, samples.rows, samples.conditional, holds, reached, counts)
    of_sum = np.repeat(family.kind == SUM, np.diff(family.start))
    number = np.repeat(np.arange(num_nodes), np.diff(family.start))
    shares = np.where(of_sum, counts + PRIOR * np.exp(family.log_share), 1.0)
    total = np.bincount(number, weights=shares, minlength=num_nodes)[number]
    return family._replace(log_share=np.where(of_sum, np.log(shares / total), 0.0))


def find_decisions(family: Family) -> Decisions:
    """The states that tell the children of each sum apart."""
    num_states = int(family.state_start[-1])
    words = (num_states + 63) // 64
    below = np.zeros((len(family.kind), words), np.uint64)
    _gather_states(family, below)
    lists: list[np.ndarray] = [np.empty(0, np.int32)] * len(family.child)
    for node in np.flatnonzero(family.kind == SUM).tolist():
        edges = slice(family.start[node], family.start[node + 1])
        packed = below[family.child[edges]].view(np.uint8)
        bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :num_states]
        clashes = np.add.reduceat((bits.sum(axis=0) > 1), family.state_start[:-1])
        mentioned = np.logical_or.reduceat(bits.any(axis=0), family.state_start[:-1])
        decided = np.flatnonzero(mentioned & (clashes == 0))
        first, last = family.state_start[decided[0]], family.state_start[decided[0] + 1]
        for offset in range(len(bits)):
            lists[family.start[node] + offset] = first + np.flatnonzero(bits[offset, first:last])
    return Decisions(
        row_starts([*map(len, lists)]),
        np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32),
    )


@entry
def _gather_states(family, below):  # type: ignore[no-untyped-def]
    for n in range(len(family.kind)):
        if family.kind[n] == INDICATOR:
            state = family.leaf[n]
            below[n, state >> 6] |= np.uint64(1) << np.uint64(state & 63)
        for e in range(family.start[n], family.start[n + 1]):
            for w in range(below.shape[1]):
                below[n, w] |= below[family.child[e], w]


@entry
def _count(family, decisions, rows, conditional, holds, reached, counts):  # type: ignore[no-untyped-def]
    kind, start, child = family.kind, family.start, family.child
    root = len(kind) - 1
    for r in range(len(rows)):
        hold(family, rows[r], holds)
        reached[:] = False
        if root >= 0:
            reached[root] = True
        for n in range(root, -1, -1):
            if not reached[n]:
                continue
            for e in range(start[n], start[n + 1]):
                if kind[n] == PRODUCT:
                    reached[child[e]] = True
                else:
                    if holds[child[e]]:
                        reached[child[e]] = True
                    for at in range(decisions.edge_start[e], decisions.edge_start[e + 1]):
                        counts[e] += conditional[r, decisions.state[at]]
