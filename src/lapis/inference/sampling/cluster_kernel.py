"""Kernels of Swendsen–Wang moves, and of Gibbs sweeps on couplings.

Given the world, a satisfied pair (J·s·s' > 0) is bonded with probability 1 − exp(−2|J|). Given the
bonds, a world in which all bonded pairs are satisfied has probability ∝ exp(Σ h_i s_i) · (factor of
the other clauses), so a cluster flips with

    P(flip) = 1 / (1 + exp(2 Σ_{i in cluster} h_i s_i − change of the other clauses' score))

and never if a hard clause would be violated. Clusters that no other clause touches are decided by
their fields. The others are tried one after the other, except those whose random number excludes a
flip for every possible change of the other clauses (typical of clusters of nearly all atoms).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import as_uniform, next_state, uniform
from lapis.inference.sampling.clause_graph import clear_change, flip
from lapis.inference.sampling.gibbs_kernel import sweep
from lapis.inference.sampling.jumps import make_jumps
from lapis.inference.sampling.tally import record_sample
from lapis.network.components import find_root
from lapis.runtime.kernels import entry, inner

FREE, TRIED, HELD = 0, 1, 2  # a cluster flips by its fields, by trial, never
BUFFER = 1024  # pairs drawn together
MEASURED_FROM, MEASURED_TO = 16, 32  # samples of a chain in which moves are compared with sweeps
SWEEPS = 3  # sweeps per move if moves change fewer atoms than sweeps


class PairCouplings(NamedTuple):
    """Couplings and fields (`cluster.py`)."""

    one: np.ndarray  # int32[num_pairs], the smaller atom
    other: np.ndarray  # int32[num_pairs]
    coupling: np.ndarray  # float64[num_pairs], J
    field: np.ndarray  # float64[num_base_atoms], h
    rest: np.ndarray  # float64[num_clauses], the weights of all other clauses
    plain: np.ndarray  # bool[num_base_atoms], in no clause of the rest, block or definition
    slack: np.ndarray  # float64[num_base_atoms], largest gain of a flip by soft clauses of the rest
    in_block: np.ndarray  # bool[num_base_atoms], cannot flip alone


class Neighbours(NamedTuple):
    """The couplings by atom."""

    start: np.ndarray  # int64[num_base_atoms + 1]
    atom: np.ndarray  # int32[2 · num_pairs]
    coupling: np.ndarray  # float64[2 · num_pairs], J


class Clusters(NamedTuple):
    """Working arrays of one chain."""

    root: np.ndarray  # int32[num_base_atoms], union–find; roots are the smallest atoms
    gain: np.ndarray  # float64[num_base_atoms], of a root: gain by fields minus the drawn threshold
    slack: np.ndarray  # float64[num_base_atoms], of a root: the largest gain by other clauses
    kind: np.ndarray  # uint8[num_base_atoms], of a root: FREE, TRIED or HELD
    head: np.ndarray  # int32[num_base_atoms], of a TRIED root: the last atom of its cluster
    following: np.ndarray  # int32[num_base_atoms], the atom before in the same cluster, or −1
    bonded: np.ndarray  # int32[BUFFER], pairs
    # int64[3]: samples so far; atoms changed by moves and by sweeps in the measured samples
    pace: np.ndarray


def new_clusters(num_atoms: int) -> Clusters:
    root, head, following = np.zeros((3, num_atoms), np.int32)
    gain, slack = np.zeros((2, num_atoms))
    kind, bonded = np.zeros(num_atoms, np.uint8), np.zeros(BUFFER, np.int32)
    return Clusters(root, gain, slack, kind, head, following, bonded, np.zeros(3, np.int64))


def no_pairs() -> PairCouplings:
    """Return empty couplings, for a sampler without cluster moves."""
    atoms, numbers, flags = np.empty(0, np.int32), np.empty(0), np.empty(0, bool)
    return PairCouplings(atoms, atoms, numbers, numbers, numbers, flags, numbers, flags)


def no_neighbours() -> Neighbours:
    return Neighbours(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))


@inner
def _bond(pairs, freeze, value, root, bonded, rng):  # type: ignore[no-untyped-def]
    """Bond satisfied pairs at random; return the number of bonds.

    Bonds are unpredictable branches, so pairs are drawn first and united later.
    """
    bonds = 0
    one, two, three, four = rng[0], rng[1], rng[2], rng[3]
    for begin in range(0, len(freeze), len(bonded)):
        count = 0
        for pair in range(begin, min(begin + len(bonded), len(freeze))):
            word, one, two, three, four = next_state(one, two, three, four)
            same = value[pairs.one[pair]] == value[pairs.other[pair]]
            bonded[count] = pair
            count += as_uniform(word) < (freeze[pair] if same else -freeze[pair])
        for at in range(count):
            pair = bonded[at]
            low = np.int64(find_root(root, np.int64(pairs.one[pair])))
            high = np.int64(find_root(root, np.int64(pairs.other[pair])))
            if low < high:
                root[high] = low
            else:
                root[low] = high
        bonds += count
    rng[0], rng[1], rng[2], rng[3] = one, two, three, four
    return bonds


@inner
def move_clusters(graph, pairs, freeze, world, clusters, rng):  # type: ignore[no-untyped-def]
    """Make one move; return the numbers of bonds, clusters and changed atoms."""
    root = clusters.root
    for atom in range(len(root)):
        root[atom] = atom
    bonds = _bond(pairs, freeze, world.value, root, clusters.bonded, rng)
    _score_clusters(pairs, world.value, clusters)
    number, tried = _draw_decisions(clusters, rng)
    moved = 0
    for atom in range(len(root)):
        if clusters.kind[root[atom]] == FREE:
            flip(graph, pairs.rest, world, np.int64(atom))
            moved += 1
    if tried > 0:
        moved += _try_clusters(graph, pairs, world, clusters)
    return bonds, number, moved


@inner
def _score_clusters(pairs, value, clusters):  # type: ignore[no-untyped-def]
    """Find the cluster of each atom, and the gain of flipping it."""
    root, gain, slack, kind = clusters.root, clusters.gain, clusters.slack, clusters.kind
    for atom in range(len(root)):
        top = root[root[atom]]  # the roots of smaller atoms, such as root[atom], are final
        root[atom] = top
        if top == atom:
            gain[atom] = 0.0
            slack[atom] = 0.0
            kind[atom] = FREE
        gain[top] += -2.0 * pairs.field[atom] if value[atom] == 1 else 2.0 * pairs.field[atom]
        slack[top] += pairs.slack[atom]
        if pairs.in_block[atom]:
            kind[top] = HELD
        elif not pairs.plain[atom]:
            kind[top] = max(kind[top], TRIED)


@inner
def _draw_decisions(clusters, rng):  # type: ignore[no-untyped-def]
    """Draw for each cluster; mark as HELD those that cannot flip whatever other clauses gain.

    With u uniform, a cluster flips if u < 1 / (1 + exp(−gain)), so if gain > log u/(1 − u).
    Returns the number of clusters, and of those to be tried.
    """
    root, gain, kind = clusters.root, clusters.gain, clusters.kind
    number, tried = 0, 0
    for cluster in range(len(root)):
        if root[cluster] != cluster:
            continue
        number += 1
        if kind[cluster] == HELD:
            continue
        drawn = uniform(rng)
        gain[cluster] -= np.log(drawn / (1.0 - drawn))
        if gain[cluster] + clusters.slack[cluster] <= 0.0:
            kind[cluster] = HELD
        elif kind[cluster] == TRIED:
            clusters.head[cluster] = -1
            tried += 1
    return number, tried


@inner
def _try_clusters(graph, pairs, world, clusters):  # type: ignore[no-untyped-def]
    """Flip the TRIED clusters one after the other, and back if the gain is too small.

    Returns the number of atoms that changed.
    """
    root, kind, moved = clusters.root, clusters.kind, 0
    for atom in range(len(root)):
        top = root[atom]
        if kind[top] == TRIED:
            clusters.following[atom] = clusters.head[top]
            clusters.head[top] = atom
    for cluster in range(len(root)):
        if root[cluster] != cluster or kind[cluster] != TRIED:
            continue
        clear_change(world)
        atoms = _flip_cluster(graph, pairs.rest, world, clusters, cluster)
        if world.change[1] > 0 or clusters.gain[cluster] + world.change[0] <= 0.0:
            _flip_cluster(graph, pairs.rest, world, clusters, cluster)
        else:
            moved += atoms
    return moved


@inner
def _flip_cluster(graph, weight, world, clusters, top):  # type: ignore[no-untyped-def]
    """Flip all atoms of a cluster one by one; return their number."""
    atom = np.int64(clusters.head[top])
    atoms = 0
    while atom >= 0:
        flip(graph, weight, world, atom)
        atoms += 1
        atom = np.int64(clusters.following[atom])
    return atoms


@inner
def sweep_plain(graph, field, near, plain, world, estimate, rng):  # type: ignore[no-untyped-def]
    """Resample atoms that depend on fields and couplings only; return the number of changes.

    Three times as fast as `sweep`, with the same distribution: couplings are consecutive in
    memory, while the counters of clauses are scattered.
    """
    value = world.value
    one, two, three, four = rng[0], rng[1], rng[2], rng[3]
    changes = 0
    for place in range(len(plain)):
        atom = np.int64(plain[place])
        total = field[atom]
        for at in range(near.start[atom], near.start[atom + 1]):
            total += near.coupling[at] if value[near.atom[at]] == 1 else -near.coupling[at]
        chance = 1.0 / (1.0 + np.exp(-2.0 * total))
        estimate[atom] = chance
        word, one, two, three, four = next_state(one, two, three, four)
        if (as_uniform(word) < chance) != (value[atom] == 1):
            flip(graph, graph.weight, world, atom)
            changes += 1
    rng[0], rng[1], rng[2], rng[3] = one, two, three, four
    return changes


@entry
def run_clusters(
    graph, units, jumps, pairs, near, plain, order, freeze, world, estimate, rng, score, digit,
    clusters, tallies, num_samples,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Run cluster moves, jumps and Gibbs sweeps; record the probabilities of each sweep.

    Without pairs there are only sweeps: the Gibbs sampler uses the same compiled kernel.
    """
    bonds, number, turned, updates, changes = 0, 0, 0, 0, 0
    for _ in range(num_samples):
        moved = 0
        if _has_move(clusters.pace):
            some_bonds, some, moved = move_clusters(graph, pairs, freeze, world, clusters, rng)
            bonds += some_bonds
            number += some
        if len(jumps.atom) > 0:
            make_jumps(graph, jumps, world, rng)
        some_updates, changed = sweep(
            graph, units, graph.weight, 1.0, score[:0], world, order, estimate, rng, score, digit
        )
        changed += sweep_plain(graph, pairs.field, near, plain, world, estimate, rng)
        _count_changes(clusters.pace, moved, changed)
        turned += moved
        updates += some_updates
        changes += changed
        record_sample(tallies, estimate, world.count, world.value)
    return bonds, number, turned, updates, changes


@inner
def _has_move(pace):  # type: ignore[no-untyped-def]
    """Test whether the next sample has a move: all do, unless sweeps change more atoms."""
    samples, turned, changed = pace[0], pace[1], pace[2]
    return samples < MEASURED_TO or turned >= changed or (samples - MEASURED_TO) % SWEEPS == 0


@inner
def _count_changes(pace, turned, changed):  # type: ignore[no-untyped-def]
    if MEASURED_FROM <= pace[0] < MEASURED_TO:
        pace[1] += turned
        pace[2] += changed
    pace[0] += 1
