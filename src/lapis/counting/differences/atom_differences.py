"""The differences of all ground atoms of a predicate, ready to be asked for.

`open_differences` takes the closed form of `counting.differences` where every rule allows
it, and the atom-by-atom path of `lapis.counting.differences.listed_differences` otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from lapis.counting.complete_world import add_derived, base_world
from lapis.counting.differences.atom_vectors import AtomVectors, build_atom_vectors
from lapis.counting.differences.difference_terms import Term, evaluate_difference
from lapis.counting.differences.differences import Target, clause_difference, is_direct, num_levels
from lapis.counting.differences.sparse_vectors import SparseVectors, place_vectors
from lapis.counting.weight_keys import WeightKeys, number_weights, violated_rules
from lapis.data.keys import contains
from lapis.logic.clauses import Feature
from lapis.problem.problem import Problem
from lapis.relational.interpretation import Interpretation

if TYPE_CHECKING:
    from lapis.counting.differences.block_classes import Candidates
    from lapis.counting.differences.listed_differences import ListedDifferences


class Differences(Protocol):
    """What both ways offer."""

    @property
    def target(self) -> Target: ...

    @property
    def interpretation(self) -> Interpretation: ...

    @property
    def keys(self) -> WeightKeys: ...

    @property
    def violated(self) -> tuple[int, ...]:
        """The hard rules that the data breaks."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain size of each argument."""

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """The difference vectors of atoms int32[n, arity], and their truth values.

        The entry in column `keys.hard` counts all hard rules together.
        """


class CountedDifferences(Differences, Protocol):
    """Differences that are counted where the data is, as in a database."""

    def count_atoms(self) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
        """Vectors, truth values and how many atoms have them; not yet grouped."""

    def count_candidates(self) -> Candidates:
        """The values of all blocks."""


@runtime_checkable
class DifferenceSource(Protocol):
    """A world that finds differences by itself."""

    def differences(
        self, target: Target, features: Sequence[Feature], keys: WeightKeys
    ) -> CountedDifferences:
        """The differences of features that all are direct."""


@dataclass(frozen=True)
class AtomDifferences:
    """d(g) of every ground atom g of a predicate, for g true and for g false in the data."""

    target: Target
    interpretation: Interpretation
    keys: WeightKeys
    when_false: AtomVectors
    when_true: AtomVectors
    violated: tuple[int, ...]  # hard rules that the data breaks

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    @property
    def true_rows(self) -> np.ndarray:
        """int32[num_true, arity], the atoms that are true in the data."""
        return self.interpretation.relations[self.target.predicate.name].tuples

    def truth(self, atoms: np.ndarray) -> np.ndarray:
        """bool[len(atoms)]."""
        return contains(self.true_rows, atoms)

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        truth = self.truth(atoms)
        sides = (self.when_false, np.flatnonzero(~truth)), (self.when_true, np.flatnonzero(truth))
        parts = [(members, vectors.at_rows(atoms[members])) for vectors, members in sides]
        return place_vectors(len(atoms), parts), truth


def open_differences(
    problem: Problem, predicate: str, world: Mapping[str, np.ndarray] | None = None
) -> AtomDifferences | ListedDifferences | CountedDifferences:
    """The differences of one predicate's atoms."""
    target = flip_target(problem, predicate)
    features = problem.normal_form.features
    if all(is_direct(clause, target) for feature in features for clause in feature.clauses):
        return evaluate_differences(problem, target, world)
    from lapis.counting.differences.listed_differences import listed_differences

    return listed_differences(problem, target, world)


def evaluate_differences(
    problem: Problem, target: Target, world: Mapping[str, np.ndarray] | None
) -> AtomDifferences | CountedDifferences:
    """Evaluates the difference terms of features that all are direct, where the world is."""
    features = problem.normal_form.features
    interpretation = add_derived(
        base_world(problem, world), problem.normal_form.definitions, num_levels(target)
    )
    keys = number_weights(problem)
    if isinstance(interpretation, DifferenceSource):
        return interpretation.differences(target, features, keys)
    return differences_in(interpretation, target, features, keys)


def differences_in(
    world: Interpretation, target: Target, features: Sequence[Feature], keys: WeightKeys
) -> AtomDifferences:
    """The differences in a world in memory, of features that all are direct."""
    when_false: list[Term] = []
    when_true: list[Term] = []
    for feature in features:
        for clause in feature.clauses:
            difference = clause_difference(clause, feature.variables, target)
            key = keys.of_rule[feature.rule]
            terms = evaluate_difference(difference, target, key, world)
            when_false += terms[0]
            when_true += terms[1]
    vectors = build_atom_vectors(when_false, when_true, target.positions)
    return AtomDifferences(target, world, keys, *vectors, violated_rules(features, world))


def flip_target(problem: Problem, predicate: str) -> Target:
    return Target(problem.model.predicates[predicate], problem.normal_form.derived, problem.domains)
