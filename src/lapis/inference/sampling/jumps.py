"""Jumps: proposals that flip a small set of atoms together, between local modes.

A large network may have small groups of atoms with two stable patterns, such as a village of
smokers between non-smokers. Single flips and cluster moves rarely change such a pattern, and every
chain has other patterns in other places, so modes of the whole are not the right picture. In
warm-up, sets of atoms that differ persistently between two chains are found, divided into connected
groups. A jump flips all atoms of a set and is accepted with probability

    min(1, exp(score after − score before))

which leaves the model's distribution unchanged, because a second jump undoes the first. For clauses
of two literals only the boundary of a set and its fields change the score, so that jumps are
accepted about as often as the patterns' weights allow. The sets are fixed before sampling begins.

Atoms of blocks, and atoms that auxiliary atoms depend on, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.clause_graph import clear_change, flip
from lapis.inference.sampling.tally import Tally
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.runtime.kernels import inner

DIFFERENT = 0.15  # product of the differences of two chains in both halves of a window
MAX_SETS, MAX_ATOMS = 256, 2_000  # sets, and atoms of a set


class Jumps(NamedTuple):
    """Sets of atoms, as CSR."""

    start: np.ndarray  # int64[num_sets + 1]
    atom: np.ndarray  # int32[...]


def no_jumps() -> Jumps:
    return Jumps(np.zeros(1, np.int64), np.empty(0, np.int32))


def find_jumps(network: Network, tallies: Sequence[Tally], present: Jumps) -> Jumps:
    """Add the sets in which two chains differ persistently; the same ones if there are none."""
    full, length, _ = tallies[0].cursor.tolist()
    half = full // 2
    if half == 0:
        return present
    scale = half * length
    first = [tally.batch_sum[:half].sum(axis=0) / scale for tally in tallies]
    last = [tally.batch_sum[full - half : full].sum(axis=0) / scale for tally in tallies]
    plain = np.ones(network.num_base_atoms, bool)
    plain[network.block_atom] = False
    plain[[a for a in np.abs(network.definition_literal) - 1 if a < len(plain)]] = False
    found = {part.tobytes(): part for part in np.split(present.atom, present.start[1:-1])}
    for one, other in combinations(range(len(tallies)), 2):
        product = (first[one] - first[other]) * (last[one] - last[other])
        apart = np.flatnonzero((product > DIFFERENT) & plain)
        if len(apart) > 1:
            found |= {part.tobytes(): part for part in connected_sets(network, apart)}
    sets = [part for part in found.values() if 1 < len(part) <= MAX_ATOMS][-MAX_SETS:]
    if not sets:
        return present
    return Jumps(row_starts(np.array([len(part) for part in sets])), np.concatenate(sets))


def connected_sets(network: Network, atoms: np.ndarray) -> list[np.ndarray]:
    """Divide atoms into groups that clauses between them connect, int32[...] each."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    place = np.full(network.num_atoms, -1, np.int64)
    place[atoms] = np.arange(len(atoms))
    own = place[np.abs(network.literal) - 1]
    used = np.flatnonzero(own >= 0)
    clause = np.searchsorted(network.clause_start, used, "right") - 1
    _, row = np.unique(clause, return_inverse=True)
    nodes = len(atoms) + int(row.max(initial=-1)) + 1
    edges = coo_array((np.ones(len(used), np.int8), (own[used], len(atoms) + row)), (nodes, nodes))
    _, label = connected_components(edges, directed=False)
    order = np.argsort(label[: len(atoms)], kind="stable")
    sizes = np.unique(label[: len(atoms)], return_counts=True)[1]
    return np.split(atoms[order].astype(np.int32), np.cumsum(sizes)[:-1])


@inner
def make_jumps(graph, jumps, world, rng):  # type: ignore[no-untyped-def]
    """Propose every jump once; return the number of atoms that changed."""
    changed = 0
    for number in range(len(jumps.start) - 1):
        begin, end = jumps.start[number], jumps.start[number + 1]
        clear_change(world)
        for at in range(begin, end):
            flip(graph, graph.weight, world, np.int64(jumps.atom[at]))
        gain = world.change[0]
        if world.change[1] > 0 or (gain < 0 and np.log(uniform(rng)) >= gain):
            for at in range(begin, end):
                flip(graph, graph.weight, world, np.int64(jumps.atom[at]))
        else:
            changed += end - begin
    return changed
