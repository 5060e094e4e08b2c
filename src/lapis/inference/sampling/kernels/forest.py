"""One draw of an induced forest given all other atoms: filter towards the roots, sample from them.

With H_i the field of atom i, its neighbours outside the forest and the messages of its children,
and J the coupling with its parent, in s = ±1,

    message to the parent     ½ log [cosh(H_i + J) / cosh(H_i − J)]
    P(s_i = 1 | parent s)     1 / (1 + exp(−2 (H_i + J s)))

so that two passes draw the whole forest from its joint distribution and give each atom's
probability in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import below, uniform
from lapis.inference.sampling.kernels.clause_graph import flip
from lapis.inference.sampling.kernels.cluster import sweep_plain
from lapis.inference.sampling.kernels.gibbs import sweep
from lapis.inference.sampling.kernels.tally import record_sample
from lapis.network.components import find_root
from lapis.runtime.kernels import entry, inner


class Forest(NamedTuple):
    """Working arrays of one chain."""

    order: np.ndarray  # int32[num_eligible], the atoms that may be in a forest, shuffled
    root: np.ndarray  # int32[num_base_atoms], union–find; −1 outside the forest
    seen: np.ndarray  # int32[num_base_atoms], the last atom that met this root, + 1
    queue: np.ndarray  # int32[num_base_atoms], the forest, parents before children
    parent: np.ndarray  # int32[num_base_atoms], −1 for roots, −2 before it has its place
    tie: np.ndarray  # float64[num_base_atoms], coupling with the parent
    total: np.ndarray  # float64[num_base_atoms], H


def new_forest(eligible: np.ndarray, num_atoms: int) -> Forest:
    root, seen, queue, parent = np.zeros((4, num_atoms), np.int32)
    tie, total = np.zeros((2, num_atoms))
    return Forest(eligible.astype(np.int32), root, seen, queue, parent, tie, total)


@inner
def _grow(near, forest, rng):  # type: ignore[no-untyped-def]
    """A random set of atoms without a cycle among them, whatever the world."""
    order, root, seen = forest.order, forest.root, forest.seen
    for item in range(len(root)):
        root[item] = -1
        seen[item] = 0
    for place in range(len(order)):
        chosen = place + below(rng, len(order) - place)
        atom = np.int64(order[chosen])
        order[chosen] = order[place]
        order[place] = atom
        joins = True
        for at in range(near.start[atom], near.start[atom + 1]):
            other = np.int64(near.atom[at])
            if root[other] >= 0:
                top = np.int64(find_root(root, other))
                if seen[top] == atom + 1:
                    joins = False  # two neighbours of one tree: a cycle
                    break
                seen[top] = atom + 1
        if not joins:
            continue
        root[atom] = atom
        for at in range(near.start[atom], near.start[atom + 1]):
            other = np.int64(near.atom[at])
            if root[other] >= 0:
                root[find_root(root, other)] = atom


@inner
def _arrange(near, forest):  # type: ignore[no-untyped-def]
    """Put parents before their children, breadth first; the number of atoms in the forest."""
    root, queue, parent = forest.root, forest.queue, forest.parent
    for item in range(len(root)):
        parent[item] = -2
    size, done = 0, 0
    for first in range(len(root)):
        if root[first] < 0 or parent[first] != -2:
            continue
        parent[first] = -1
        queue[size] = first
        size += 1
        while done < size:
            atom = np.int64(queue[done])
            done += 1
            for at in range(near.start[atom], near.start[atom + 1]):
                other = np.int64(near.atom[at])
                if root[other] >= 0 and parent[other] == -2:
                    parent[other] = atom
                    forest.tie[other] = near.coupling[at]
                    queue[size] = other
                    size += 1
    return size


@inner
def _log_cosh(number):  # type: ignore[no-untyped-def]
    """log cosh + log 2, without overflow."""
    return abs(number) + np.log1p(np.exp(-2.0 * abs(number)))


@inner
def _chance(field):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + np.exp(-2.0 * field))


@inner
def draw_forest(graph, field, near, world, forest, estimate, rng):  # type: ignore[no-untyped-def]
    """Draw the atoms of a random forest; its size and the atoms that changed."""
    value = world.value
    _grow(near, forest, rng)
    size = _arrange(near, forest)
    root, queue, parent, tie, total = (
        forest.root, forest.queue, forest.parent, forest.tie, forest.total,
    )  # fmt: skip
    for place in range(size):
        atom = np.int64(queue[place])
        outside = field[atom]
        for at in range(near.start[atom], near.start[atom + 1]):
            other = np.int64(near.atom[at])
            if root[other] < 0:
                outside += near.coupling[at] if value[other] == 1 else -near.coupling[at]
        total[atom] = outside
    for place in range(size - 1, -1, -1):
        atom = np.int64(queue[place])
        if parent[atom] >= 0:
            gain = _log_cosh(total[atom] + tie[atom]) - _log_cosh(total[atom] - tie[atom])
            total[parent[atom]] += 0.5 * gain
    changes = 0
    for place in range(size):
        atom = np.int64(queue[place])
        above = np.int64(parent[atom])
        if above < 0:
            chance = _chance(total[atom])
            estimate[atom] = chance
        else:
            true, false = _chance(total[atom] + tie[atom]), _chance(total[atom] - tie[atom])
            estimate[atom] = estimate[above] * true + (1.0 - estimate[above]) * false
            chance = true if value[above] == 1 else false
        if (uniform(rng) < chance) != (value[atom] == 1):
            flip(graph, graph.weight, world, atom)
            changes += 1
    return size, changes


@entry
def run_forests(
    graph, units, field, near, plain, order, world, estimate, rng, score, digit, forest, tallies,
    num_samples,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Gibbs sweeps, each followed by the draw of a forest; both have their say in tallies."""
    drawn, turned, changes = 0, 0, 0
    for _ in range(num_samples):
        _, changed = sweep(
            graph, units, graph.weight, 1.0, world, order, estimate, rng, score, digit
        )
        changes += changed
        changes += sweep_plain(graph, field, near, plain, world, estimate, rng)
        size, some = draw_forest(graph, field, near, world, forest, estimate, rng)
        drawn += size
        turned += some
        record_sample(tallies, estimate, world.count, world.value)
    return drawn, turned, changes
