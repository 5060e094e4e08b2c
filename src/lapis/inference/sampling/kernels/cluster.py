"""One move of Swendsen and Wang: bonds at random, then whole clusters flip.

Given the world, a pair whose coupling is content (J·s·s' > 0) is bonded with probability
1 − exp(−2|J|). Given the bonds, a world in which all bonded pairs are content has the probability
∝ exp(Σ h_i s_i) · (what the other clauses say), so each cluster is turned over with

    P(turn) = 1 / (1 + exp(2 Σ_{i in cluster} h_i s_i − change of the other clauses' score))

and not at all where a hard clause would break. Clusters of atoms that no other clause touches
decide by their fields alone, the others one after the other, by trying; unless the number drawn
would say no whatever the other clauses gained, as it does where a cluster holds nearly all atoms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.compiled import entry, inner
from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.kernels.clause_graph import clear_change, flip
from lapis.inference.sampling.kernels.gibbs import sweep
from lapis.inference.sampling.kernels.tally import record_sample
from lapis.network.components import find_root

FREE, TRIED, HELD = 0, 1, 2  # by its fields alone, by trying, never


class Clusters(NamedTuple):
    """Working arrays of one chain."""

    root: np.ndarray  # int32[num_base_atoms], union–find; roots are the smallest atoms
    gain: np.ndarray  # float64[num_base_atoms], of a root: what turning gains by fields
    slack: np.ndarray  # float64[num_base_atoms], of a root: the most it can gain otherwise
    kind: np.ndarray  # uint8[num_base_atoms], of a root: FREE, TRIED or HELD
    head: np.ndarray  # int32[num_base_atoms], of a root: the last atom of its cluster
    following: np.ndarray  # int32[num_base_atoms], the atom before in the same cluster, or −1


def new_clusters(num_atoms: int) -> Clusters:
    root, head, following = np.zeros((3, num_atoms), np.int32)
    gain, slack = np.zeros((2, num_atoms))
    return Clusters(root, gain, slack, np.zeros(num_atoms, np.uint8), head, following)


@inner
def _bond(pairs, freeze, value, root, rng):  # type: ignore[no-untyped-def]
    """Join content pairs at random; the number of bonds."""
    bonds = 0
    for pair in range(len(freeze)):
        one, other = np.int64(pairs.one[pair]), np.int64(pairs.other[pair])
        if (value[one] == value[other]) != (pairs.coupling[pair] > 0.0):
            continue
        if uniform(rng) >= freeze[pair]:
            continue
        bonds += 1
        one, other = np.int64(find_root(root, one)), np.int64(find_root(root, other))
        if one < other:
            root[other] = one
        else:
            root[one] = other
    return bonds


@inner
def move_clusters(graph, pairs, freeze, world, clusters, rng):  # type: ignore[no-untyped-def]
    """One move; returns the bonds, the clusters and the atoms that changed."""
    value = world.value
    root, gain, slack, kind = clusters.root, clusters.gain, clusters.slack, clusters.kind
    for atom in range(len(root)):
        root[atom] = atom
        gain[atom] = 0.0
        slack[atom] = 0.0
        kind[atom] = FREE
        clusters.head[atom] = -1
    bonds = _bond(pairs, freeze, value, root, rng)
    for atom in range(len(root)):
        top = np.int64(find_root(root, np.int64(atom)))
        root[atom] = top
        gain[top] += -2.0 * pairs.field[atom] if value[atom] == 1 else 2.0 * pairs.field[atom]
        slack[top] += pairs.slack[atom]
        if pairs.in_block[atom]:
            kind[top] = HELD
        elif not pairs.plain[atom]:
            kind[top] = max(kind[top], TRIED)
        clusters.following[atom] = clusters.head[top]
        clusters.head[top] = atom
    number, moved = 0, 0
    for cluster in range(len(root)):
        if root[cluster] != cluster:
            continue
        number += 1
        if kind[cluster] == HELD:
            continue
        drawn = uniform(rng)
        if drawn >= 1.0 / (1.0 + np.exp(-gain[cluster] - slack[cluster])):
            continue
        clear_change(world)
        atoms = _turn(graph, pairs.rest, world, clusters, cluster)
        if kind[cluster] == TRIED:
            delta = gain[cluster] + world.change[0]
            if world.change[1] > 0 or drawn >= 1.0 / (1.0 + np.exp(-delta)):
                _turn(graph, pairs.rest, world, clusters, cluster)
                continue
        moved += atoms
    return bonds, number, moved


@inner
def _turn(graph, weight, world, clusters, top):  # type: ignore[no-untyped-def]
    """Flip all atoms of a cluster; their number.

    Their clauses are counted anew one by one: a cluster of nearly all atoms rarely turns.
    """
    atom = np.int64(clusters.head[top])
    atoms = 0
    while atom >= 0:
        flip(graph, weight, world, atom)
        atoms += 1
        atom = np.int64(clusters.following[atom])
    return atoms


@inner
def sweep_plain(graph, field, near, plain, world, estimate, rng):  # type: ignore[no-untyped-def]
    """Resample atoms that only fields and couplings touch; the number that changed.

    Couplings lie in a row and values in a few kilobytes, where the counters of clauses are all
    over the memory: three times as fast as `sweep`, with the same distribution.
    """
    value = world.value
    changes = 0
    for place in range(len(plain)):
        atom = np.int64(plain[place])
        total = field[atom]
        for at in range(near.start[atom], near.start[atom + 1]):
            total += near.coupling[at] if value[near.atom[at]] == 1 else -near.coupling[at]
        chance = 1.0 / (1.0 + np.exp(-2.0 * total))
        estimate[atom] = chance
        if (uniform(rng) < chance) != (value[atom] == 1):
            flip(graph, graph.weight, world, atom)
            changes += 1
    return changes


@entry
def run_clusters(
    graph, units, pairs, near, plain, order, freeze, world, estimate, rng, score, digit, clusters,
    tallies, num_samples,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Cluster moves, each followed by a Gibbs sweep whose probabilities are tallied."""
    bonds, number, moved, changes = 0, 0, 0, 0
    for _ in range(num_samples):
        some_bonds, some, some_moved = move_clusters(graph, pairs, freeze, world, clusters, rng)
        bonds += some_bonds
        number += some
        moved += some_moved
        _, changed = sweep(
            graph, units, graph.weight, 1.0, world, order, estimate, rng, score, digit
        )
        changes += changed
        changes += sweep_plain(graph, pairs.field, near, plain, world, estimate, rng)
        record_sample(tallies, estimate, world.count, world.value)
    return bonds, number, moved, changes
