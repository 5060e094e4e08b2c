"""The differences d(g) = n(g = 1) − n(g = 0) of all ground atoms of a predicate.

The closed form of `signed_conjunctions` applies if every rule allows it (`AtomDifferences`). A
signed conjunction, summed over all variables but the kept ones, is a product of groups

    coefficient · Π_j G_j(kept variables of group j),

one for each part that is connected through summed variables. Multiplying the groups over all kept
variables would be a large cross product, so they stay separate. A group is a function of some
argument positions; its values are sparse vectors over plus variables (numbers, without them). All
groups over the same positions form one integer-valued `Function`: the number of the combination of
their values. The tuple of these numbers is the atom's signature and determines its vector

    d(g)[w] = Σ_terms coefficient · Π_groups G(g's arguments)[plus constants of w].

Vectors are computed once for each distinct signature.

Formulas whose quantifiers have no closed form are evaluated atom by atom (`ListedDifferences`): a
`FlippingWorld` gives each difference exactly, in time proportional to the atom's neighbourhood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from lapis.counting.complete_world import add_derived, base_world
from lapis.counting.differences.argument_classes import Function, evaluate_function
from lapis.counting.differences.signed_conjunctions import (
    FlipTarget,
    SignedConjunctions,
    clause_difference,
    is_direct,
    num_levels,
)
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    number_vectors,
    place_vectors,
    stack_vectors,
)
from lapis.counting.flipping_world import FlippingWorld
from lapis.counting.totals import WeightKey, WeightKeys, find_violated_rules, number_weights
from lapis.data.keys import contains, number_rows, pack
from lapis.logic.clauses import Feature
from lapis.problem.problem import Problem
from lapis.relational.factor import Factor, multiply_factors, sort_rows
from lapis.relational.interpretation import Interpretation, run_plans
from lapis.relational.numbers import fold_numbers, require_numbers
from lapis.relational.plan_compiler import PlanOutput, compile_plan

if TYPE_CHECKING:
    from lapis.counting.differences.block_classes import BlockCandidates


class Differences(Protocol):
    """The differences of one predicate's atoms, by either method."""

    @property
    def target(self) -> FlipTarget: ...

    @property
    def interpretation(self) -> Interpretation: ...

    @property
    def keys(self) -> WeightKeys: ...

    @property
    def violated(self) -> tuple[int, ...]:
        """The hard rules that the data violate."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The domain size of each argument."""

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """Return the difference vectors of atoms int32[n, arity], and their truth values.

        Column `keys.hard` counts all hard rules together.
        """


class CountedDifferences(Differences, Protocol):
    """Differences that are counted inside a store."""

    def count_atoms(self) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
        """Return vectors, truth values and the number of atoms that have them, not merged."""

    def count_candidates(self) -> BlockCandidates:
        """Return the candidates of all blocks."""


@runtime_checkable
class DifferenceSource(Protocol):
    """A world that computes differences itself, such as one in a store."""

    def differences(
        self, target: FlipTarget, features: Sequence[Feature], keys: WeightKeys
    ) -> CountedDifferences:
        """Return the differences of features that all are direct."""


@dataclass(frozen=True)
class AtomDifferences:
    """Differences of every ground atom of a predicate, for atoms true and false in the data."""

    target: FlipTarget
    interpretation: Interpretation
    keys: WeightKeys
    when_false: AtomVectors
    when_true: AtomVectors
    violated: tuple[int, ...]  # hard rules that the data violate

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    @property
    def true_rows(self) -> np.ndarray:
        """The atoms that are true in the data, int32[num_true, arity]."""
        return self.interpretation.relations[self.target.predicate.name].tuples

    def truth(self, atoms: np.ndarray) -> np.ndarray:
        """Return bool[num_atoms], whether each atom is true in the data."""
        return contains(self.true_rows, atoms)

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        truth = self.truth(atoms)
        sides = (self.when_false, np.flatnonzero(~truth)), (self.when_true, np.flatnonzero(truth))
        parts = [(members, vectors.at_rows(atoms[members])) for vectors, members in sides]
        return place_vectors(len(atoms), parts), truth


def open_differences(
    problem: Problem, predicate: str, world: Mapping[str, np.ndarray] | None = None
) -> AtomDifferences | ListedDifferences | CountedDifferences:
    """Return the differences of one predicate's atoms."""
    target = build_flip_target(problem, predicate)
    features = problem.normal_form.features
    if all(is_direct(clause, target) for feature in features for clause in feature.clauses):
        return evaluate_differences(problem, target, world)

    return list_differences(problem, target, world)


def evaluate_differences(
    problem: Problem, target: FlipTarget, world: Mapping[str, np.ndarray] | None
) -> AtomDifferences | CountedDifferences:
    """Evaluate the difference terms of features that all are direct."""
    features = problem.normal_form.features
    known = base_world(problem, world)
    require_numbers(problem, known, [target.predicate.name])
    interpretation = add_derived(known, problem.normal_form.definitions, num_levels(target))
    keys = number_weights(problem)
    if isinstance(interpretation, DifferenceSource):
        return interpretation.differences(target, features, keys)
    return evaluate_in_memory(interpretation, target, features, keys)


def evaluate_in_memory(
    world: Interpretation, target: FlipTarget, features: Sequence[Feature], keys: WeightKeys
) -> AtomDifferences:
    """Evaluate the differences in a world in memory, for features that all are direct."""
    when_false: list[DifferenceTerm] = []
    when_true: list[DifferenceTerm] = []
    for feature in features:
        for clause in feature.clauses:
            difference = clause_difference(clause, feature.variables, target)
            key = keys.of_rule[feature.rule]
            terms = evaluate_difference(difference, target, key, world)
            when_false += terms[0]
            when_true += terms[1]
    vectors = build_atom_vectors(when_false, when_true, target.positions)
    return AtomDifferences(target, world, keys, *vectors, find_violated_rules(features, world))


def build_flip_target(problem: Problem, predicate: str) -> FlipTarget:
    return FlipTarget(
        problem.model.predicates[predicate], problem.normal_form.derived, problem.domains
    )


EMPTY_VECTOR = SparseVectors(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class _Group(NamedTuple):
    """A factor as a function of positions whose values are numbered vectors; 0 is the empty one.

    A vector's column is the mixed-radix value of the constants of `plus`.
    """

    positions: tuple[int, ...]
    rows: np.ndarray  # int32[num_rows, len(positions)], unique
    vector: np.ndarray  # int64[num_rows]
    plus: tuple[str, ...]
    vectors: SparseVectors


class TermGroup(NamedTuple):
    """A group of a term: a function of the atom, and the vector of each function value."""

    function: int  # −1 for a group without positions
    vector_of: np.ndarray  # int64[largest function value + 1]
    plus: tuple[str, ...]
    vectors: SparseVectors


@dataclass(frozen=True)
class AtomVectors:
    """Difference vectors of all atoms of a predicate."""

    functions: tuple[Function, ...]
    terms: tuple[tuple[int, tuple[TermGroup, ...], WeightKey], ...]

    def at_signatures(self, signatures: np.ndarray) -> SparseVectors:
        """Return the vector of each signature int64[n, num_functions]."""
        num_signatures = len(signatures)
        every, parts_found = np.arange(num_signatures), []
        for coefficient, parts, key in self.terms:
            chosen = [
                part.vector_of[signatures[:, part.function]]
                if part.function >= 0
                else np.ones(num_signatures, np.int64)
                for part in parts
            ]
            first, number = number_rows(chosen, num_signatures)
            product = _multiply_groups(
                coefficient, parts, [column[first] for column in chosen], key
            )
            start = np.searchsorted(product.column("@row"), np.arange(len(first) + 1))
            weight = key.offset + _pack_columns(product, key.plus, key.shape)
            parts_found.append((every, SparseVectors(start, weight, product.value).take(number)))
        return place_vectors(num_signatures, parts_found)

    def at_rows(self, atoms: np.ndarray) -> SparseVectors:
        """Return the vector of each atom int32[n, arity]."""
        columns = [evaluate_function(function, atoms) for function in self.functions]
        first, number = number_rows(columns, len(atoms))
        distinct = np.empty((len(first), len(columns)), np.int64)
        for position, column in enumerate(columns):
            distinct[:, position] = column[first]
        return self.at_signatures(distinct).take(number)


def build_atom_vectors(
    when_false: Sequence[DifferenceTerm],
    when_true: Sequence[DifferenceTerm],
    positions: tuple[str, ...],
) -> tuple[AtomVectors, AtomVectors]:
    """Number the values of the terms' groups, for false and for true atoms.

    Factors are compared by identity: terms that were evaluated together share them.
    """
    groups: dict[int, _Group] = {}
    for term in (*when_false, *when_true):
        for factor in term.groups:
            if id(factor) not in groups:
                groups[id(factor)] = _number_group(factor, positions, term.key)
    vectors = _build_vectors(when_false, groups)
    return vectors, vectors if when_false == when_true else _build_vectors(when_true, groups)


def _build_vectors(terms: Sequence[DifferenceTerm], groups: Mapping[int, _Group]) -> AtomVectors:
    by_positions: dict[tuple[int, ...], dict[int, _Group]] = {}
    for term in terms:
        for factor in term.groups:
            group = groups[id(factor)]
            by_positions.setdefault(group.positions, {})[id(factor)] = group
    functions: list[Function] = []
    parts: dict[int, TermGroup] = {}
    for axes, members in by_positions.items():
        if axes:
            function, tables = _combine_groups(axes, list(members.values()))
            number = len(functions)
            functions.append(function)
        else:
            number, tables = -1, [np.arange(2) for _ in members]
        for (name, group), table in zip(members.items(), tables, strict=True):
            parts[name] = TermGroup(number, table, group.plus, group.vectors)
    return AtomVectors(
        tuple(functions),
        tuple(
            (term.coefficient, tuple(parts[id(factor)] for factor in term.groups), term.key)
            for term in terms
        ),
    )


def _number_group(factor: Factor, positions: tuple[str, ...], key: WeightKey) -> _Group:
    axes = tuple(number for number, name in enumerate(positions) if name in factor.variables)
    plus = tuple(name for name in key.plus if name in factor.variables)
    shape = tuple(size for name, size in zip(key.plus, key.shape, strict=True) if name in plus)
    points = factor.columns([positions[number] for number in axes])
    columns = [points[:, column] for column in range(len(axes))]
    first, row = number_rows(columns, len(points))
    vectors = add_entries(len(first), row, _pack_columns(factor, plus, shape), factor.value)
    some, number = number_vectors(vectors)
    return _Group(
        axes, points[first], number + 1, plus, stack_vectors([EMPTY_VECTOR, vectors.take(some)])
    )


def _combine_groups(
    axes: tuple[int, ...], groups: Sequence[_Group]
) -> tuple[Function, list[np.ndarray]]:
    """Return one function for groups over the same positions, and each group's vector by value."""
    points = np.concatenate([group.rows for group in groups])
    first, row = number_rows([points[:, column] for column in range(len(axes))], len(points))
    columns = []
    begin = 0
    for group in groups:
        column = np.zeros(len(first), np.int64)
        column[row[begin : begin + len(group.rows)]] = group.vector
        columns.append(column)
        begin += len(group.rows)
    some, number = number_rows(columns, len(first))
    function = Function(axes, points[first], number + 1)
    return function, [np.concatenate([[0], column[some]]) for column in columns]


def _multiply_groups(
    coefficient: int, parts: Sequence[TermGroup], chosen: Sequence[np.ndarray], key: WeightKey
) -> Factor:
    """Return coefficient · Π parts as a factor over "@row" and the plus variables, by row."""
    num_rows = len(chosen[0]) if chosen else 1
    sizes = {"@row": num_rows, **dict(zip(key.plus, key.shape, strict=True))}
    rows = np.arange(num_rows, dtype=np.int32)[:, None]
    product = Factor(("@row",), rows, np.ones(num_rows, np.int64)).scale(coefficient)
    for part, column in zip(parts, chosen, strict=True):
        picked = part.vectors.take(column)
        shape = [sizes[name] for name in part.plus]
        digits = np.unravel_index(picked.column, shape) if shape else ()
        columns = [picked.row, *digits]
        values = np.stack(columns, axis=1).astype(np.int32)
        product = multiply_factors(product, Factor(("@row", *part.plus), values, picked.value))
    return sort_rows(product.reorder(("@row", *key.plus)))


def _pack_columns(factor: Factor, variables: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return int64[num_rows], the key of the variables' constants."""
    return pack([factor.column(name) for name in variables], shape, len(factor))


class DifferenceTerm(NamedTuple):
    """A summand coefficient · Π groups of the weight that `key` selects."""

    coefficient: int
    groups: tuple[Factor, ...]
    key: WeightKey


def evaluate_difference(
    difference: SignedConjunctions, target: FlipTarget, key: WeightKey, world: Interpretation
) -> tuple[list[DifferenceTerm], list[DifferenceTerm]]:
    """Return the terms of d(g) for false and for true atoms, over positions and plus variables.

    Equal groups are the same factor object.
    """
    selecting = (*key.plus, *key.values)
    wanted = PlanOutput((*target.positions, *selecting), selecting, True, difference.determined)
    variables = tuple(difference.variables.items())
    plans = [
        compile_plan(side, variables, world, wanted)
        for side in (difference.when_false, difference.when_true)
    ]
    folded: dict[int, tuple[Factor, Factor]] = {}  # by identity, with what keeps it alive

    def fold(factor: Factor) -> Factor:
        if id(factor) not in folded:
            folded[id(factor)] = factor, fold_numbers(factor, key.values)
        return folded[id(factor)][1]

    when_false, when_true = (
        [
            DifferenceTerm(answer.scale, tuple(map(fold, answer.factors)), key)
            for answer in answers
            if answer.scale and all(map(len, answer.factors))
        ]
        for answers in run_plans(plans, world)
    )
    return when_false, when_true


@dataclass(frozen=True)
class ListedDifferences:
    """Differences computed atom by atom in a `FlippingWorld`."""

    target: FlipTarget
    interpretation: Interpretation  # of the base predicates
    keys: WeightKeys
    world: FlippingWorld
    violated: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        found = self.world.look([(self.target.predicate.name, atoms)])
        return self.world.vectors(found), found.truth

    def at_cleared_block(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """Return the same for all atoms of one block, computed with all of them false."""
        name = self.target.predicate.name
        truth = self.world.look([(name, atoms)]).truth
        self.world.flip_all([(name, atoms[truth])])
        vectors, _ = self.at_rows(atoms)
        self.world.flip_all([(name, atoms[truth])])
        return vectors, truth


def list_differences(
    problem: Problem, target: FlipTarget, world: Mapping[str, np.ndarray] | None
) -> ListedDifferences:
    flips = FlippingWorld(problem, world=world)
    return ListedDifferences(
        target, base_world(problem, world), number_weights(problem), flips, flips.violated_rules
    )


def list_tuples(sizes: tuple[int, ...]) -> np.ndarray:
    """Return int32[Π sizes, len(sizes)], all tuples in lexicographic order."""
    return np.ascontiguousarray(np.indices(sizes, np.int32).reshape(len(sizes), prod(sizes)).T)
