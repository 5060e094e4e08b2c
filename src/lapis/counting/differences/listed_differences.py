"""Differences atom by atom, for formulas whose quantifiers have no closed form.

An incremental `World` gives each atom's difference exactly, in time proportional to its
neighbourhood; it just has to be asked for every atom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from lapis.counting.complete_world import base_world
from lapis.counting.differences.differences import Target
from lapis.counting.differences.sparse_vectors import SparseVectors
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
        found = self.world.look([(self.target.predicate.name, atoms)])
        return SparseVectors(found.start, found.column, narrow(found.value)), found.truth

    def at_cleared_block(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """The same for all atoms of one block, with every one of them false meanwhile."""
        name = self.target.predicate.name
        truth = self.world.look([(name, atoms)]).truth
        self.world.flip_all([(name, atoms[truth])])
        vectors, _ = self.at_rows(atoms)
        self.world.flip_all([(name, atoms[truth])])
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
    return np.ascontiguousarray(np.indices(sizes, np.int32).reshape(len(sizes), prod(sizes)).T)
