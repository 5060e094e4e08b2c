"""Differences atom by atom, for formulas whose quantifiers have no closed form.

An incremental `World` gives each atom's difference exactly, in time proportional to its
neighbourhood; it just has to be asked for every atom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lapis.counting.complete_world import base_world
from lapis.counting.differences.differences import Target
from lapis.counting.differences.sparse_vectors import SparseVectors, add_entries
from lapis.counting.flipping_world import World
from lapis.counting.weight_keys import WeightKeys, number_weights
from lapis.problem.problem import Problem
from lapis.relational.exact_sums import narrow
from lapis.relational.interpretation import Interpretation


@dataclass(frozen=True)
class ListedDifferences:
    """d(g) by asking a world; the same offer as `AtomDifferences`."""

    target: Target
    interpretation: Interpretation  # of the base predicates
    keys: WeightKeys
    world: World
    violated: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        name = self.target.predicate.name
        truth = np.empty(len(atoms), bool)
        rows: list[int] = []
        weights: list[int] = []
        values: list[int] = []
        for number, atom in enumerate(atoms.tolist()):
            truth[number] = self.world.is_true(name, atom)
            sign = -1 if truth[number] else 1
            change = self.world.delta(name, atom)
            weights += (*change.weight_id, self.keys.hard)
            values += (sign * count for count in (*change.difference, -change.violations))
            rows += [number] * (len(change.weight_id) + 1)
        vectors = add_entries(
            len(atoms),
            np.array(rows, np.int64),
            np.array(weights, np.int64),
            narrow(np.array(values, dtype=object)),
        )
        return vectors, truth

    def at_cleared_block(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """The same for all atoms of one block, with every one of them false meanwhile."""
        name = self.target.predicate.name
        truth = np.array([self.world.is_true(name, atom) for atom in atoms.tolist()], bool)
        for atom in atoms[truth].tolist():
            self.world.flip(name, atom)
        vectors, _ = self.at_rows(atoms)
        for atom in atoms[truth].tolist():
            self.world.flip(name, atom)
        return vectors, truth


def listed_differences(
    problem: Problem, target: Target, world: Mapping[str, np.ndarray] | None
) -> ListedDifferences:
    flips = World(problem, world=world)
    return ListedDifferences(
        target, base_world(problem, world), number_weights(problem), flips, flips.violated_rules
    )


def list_atoms(sizes: tuple[int, ...]) -> np.ndarray:
    """int32[Π sizes, len(sizes)], all tuples in lexicographic order."""
    total = 1
    for size in sizes:
        total *= size
    return np.ascontiguousarray(np.indices(sizes, np.int32).reshape(len(sizes), total).T)
