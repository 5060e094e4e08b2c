"""The blocks of a predicate in classes: what each value of `arg!` adds to the counts.

The atoms of a block share their unmarked arguments, and at most (or exactly) one is true. Given
all other blocks, value v has probability proportional to exp(w · D(v)), where

    D(v) = n(only v is true in the block) − n(the block is empty).

So the likelihood of a block depends on the multiset of its candidates' vectors D and the vector of
its observed value. `find_block_classes` lists the distinct combinations.

Candidates are counted as atoms are (`argument_classes`), with one more function that identifies the
block. Blocks that no function over both marked and unmarked arguments mentions differ only in
functions of their own arguments; equal ones are merged before their candidates are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import (
    Function,
    count_signatures,
    evaluate_function,
)
from lapis.counting.differences.atom_differences import (
    AtomDifferences,
    ListedDifferences,
    build_flip_target,
    evaluate_differences,
    list_differences,
    list_tuples,
)
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    number_vectors,
    split_column,
    stack_vectors,
)
from lapis.data.keys import contains, number_rows
from lapis.errors import TooLarge
from lapis.language.model import Predicate
from lapis.problem.problem import Problem
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.factor import Factor, join_factors

MAX_BLOCKS = 20_000_000
MAX_LISTED = 5_000_000  # candidates evaluated one by one


@dataclass(frozen=True)
class BlockClasses:
    """Class c has the candidates j with class_start[c] ≤ j < class_start[c + 1].

    Candidate j represents `candidate_count[j]` values, each with vector `candidate_vector[j]`:
    difference[i] at weight_id[i] for vector_start[k] ≤ i < vector_start[k + 1]. A predicate whose
    blocks may be empty has the empty block, D = 0, as a further candidate that is not listed.

    `hard[k]` is D of the hard rules together. If the data satisfy the hard rules, the values that
    satisfy them are those with the same `hard` as the observed value.
    """

    predicate: str
    exactly_one: bool
    num_weights: int
    vector_start: np.ndarray  # int64[num_vectors + 1]
    weight_id: np.ndarray  # int64[num_entries], increasing within a vector
    difference: np.ndarray  # int64[num_entries], nonzero; object if 64 bits do not suffice
    hard: np.ndarray  # int64[num_vectors]
    class_start: np.ndarray  # int64[num_classes + 1]
    candidate_vector: np.ndarray  # int64[num_candidates]
    candidate_count: np.ndarray  # int64[num_candidates]
    observed: np.ndarray  # int64[num_classes], the observed candidate j; −1 for an empty block
    multiplicity: np.ndarray  # int64[num_classes], blocks in the class
    broken_blocks: int  # blocks in the data with too many or too few true atoms
    violated_rules: tuple[int, ...]  # hard rules that the data violate

    def __len__(self) -> int:
        return len(self.multiplicity)

    @property
    def vectors(self) -> SparseVectors:
        return SparseVectors(self.vector_start, self.weight_id, self.difference)


class BlockCandidates(NamedTuple):
    """Some candidates of some blocks: `multiplicity` values with the same vector and truth."""

    block: np.ndarray  # int64[n], a number for each block or merged blocks
    vectors: SparseVectors  # of each entry
    truth: np.ndarray  # bool[n]
    multiplicity: np.ndarray  # int64[n], values of the block
    num_blocks: np.ndarray  # int64[largest block number + 1], merged blocks


def find_block_classes(
    problem: Problem, predicate: str, world: Mapping[str, np.ndarray] | None = None
) -> BlockClasses:
    """Group all blocks of a predicate with marked arguments; `world` replaces the data.

    >>> import lapis
    >>> model = lapis.parse('''
    ... page = {P1, P2}
    ... topic = {Logic, Music}
    ... Topic(page, topic!)
    ... Links(page, page)
    ... 2 Topic(p,t) ^ Links(p,q) => Topic(q,t)
    ... ''')
    >>> data = lapis.Database.parse("Topic(P1,Logic) Topic(P2,Logic) Links(P1,P2)")
    >>> found = find_block_classes(lapis.build_problem(model, data), "Topic")
    >>> found.multiplicity.tolist(), found.candidate_count.tolist()
    ([1, 1], [1, 1, 1, 1])
    """
    target = build_flip_target(problem, predicate)._replace(clears_block=True)
    is_direct = all(
        literal.predicate == predicate or not target.touches(literal.predicate)
        for feature in problem.normal_form.features
        for clause in feature.clauses
        for literal in clause.literals
    )
    if is_direct:
        differences = evaluate_differences(problem, target, world)
        keys, violated = differences.keys, differences.violated
        if isinstance(differences, AtomDifferences):
            candidates = count_candidates(differences)
        else:
            candidates = differences.count_candidates()
    else:
        listed = list_differences(problem, target, world)
        keys, violated = listed.keys, listed.violated
        candidates = _list_block_candidates(listed)
    return _group_blocks(candidates, target.predicate, keys.num_weights, violated)


def count_candidates(differences: AtomDifferences) -> BlockCandidates:
    """Count the candidates of all blocks; merge equal blocks that no crossing function mentions."""
    predicate = differences.target.predicate
    marked = predicate.block
    unmarked = tuple(place for place in range(predicate.arity) if place not in marked)
    sizes = differences.sizes
    true_rows = differences.true_rows
    truth = Function(tuple(range(len(sizes))), true_rows, np.ones(len(true_rows), np.int64))
    functions = [*differences.when_false.functions, truth]
    crossing = [
        number
        for number, function in enumerate(functions)
        if set(function.axes) & set(marked) and set(function.axes) & set(unmarked)
    ]
    own = [n for n, function in enumerate(functions) if set(function.axes) <= set(unmarked)]

    blocks = _list_blocks([sizes[place] for place in unmarked])
    full = np.zeros((len(blocks), len(sizes)), np.int32)
    full[:, list(unmarked)] = blocks
    columns = [evaluate_function(functions[number], full) for number in own]
    is_alone = np.zeros(len(blocks), bool)
    for number in crossing:
        is_alone |= _has_rows_in_block(functions[number], unmarked, full)
    identity = np.where(is_alone, np.arange(1, len(blocks) + 1), 0)
    first, block = number_rows([*columns, identity], len(blocks))

    names = tuple(map(str, unmarked))
    numbered = Factor(
        (*names, "block"),
        np.concatenate([blocks[first], np.arange(len(first), dtype=np.int32)[:, None]], axis=1),
        np.ones(len(first), np.int64),
    ).take(is_alone[first])
    axis_of = {place: 1 + number for number, place in enumerate(marked)}
    counted = [Function((0,), np.arange(len(first))[:, None], np.arange(1, len(first) + 1))]
    places: list[int | None] = []  # the counted function of each function; None for `own`
    for number, function in enumerate(functions):
        if number in own:
            places.append(None)
            continue
        places.append(len(counted))
        if number in crossing:
            counted.append(_renumber(function, numbered, axis_of))
        else:
            axes = tuple(axis_of[place] for place in function.axes)
            counted.append(function._replace(axes=axes))
    signatures = count_signatures(counted, [len(first), *(sizes[place] for place in marked)])

    owner = signatures.value[:, 0] - 1
    values = np.empty((len(owner), len(functions)), np.int64)
    for number, place in enumerate(places):
        if place is None:
            values[:, number] = columns[own.index(number)][first][owner]
        else:
            values[:, number] = signatures.value[:, place]
    vectors = differences.when_false.at_signatures(values[:, :-1])
    is_true = values[:, -1] > 0
    num_blocks = np.bincount(block, minlength=len(first))
    return BlockCandidates(owner, vectors, is_true, signatures.multiplicity, num_blocks)


def _list_blocks(sizes: Sequence[int]) -> np.ndarray:
    total = prod(sizes)
    if total > MAX_BLOCKS:
        raise TooLarge(
            f"a predicate with marked arguments has {total:,} blocks",
            code="too-many-blocks",
            hint="give its unmarked arguments smaller types",
        )
    return list_tuples(tuple(sizes))


def _has_rows_in_block(
    function: Function, unmarked: tuple[int, ...], full: np.ndarray
) -> np.ndarray:
    """Return bool[num_tuples], whether the function has a row in the block of each tuple."""
    shared = [place for place in function.axes if place in unmarked]
    points = function.rows[:, [function.axes.index(place) for place in shared]]
    first, _ = number_rows([points[:, column] for column in range(len(shared))], len(points))
    return contains(points[first], np.ascontiguousarray(full[:, shared]))


def _renumber(function: Function, numbered: Factor, axis_of: Mapping[int, int]) -> Function:
    """Return the function over the axis of block numbers and the marked axes."""
    factor = Factor(tuple(map(str, function.axes)), function.rows, function.value)
    marked = [place for place in function.axes if place in axis_of]
    extra = tuple(name for name in factor.variables if name not in numbered.variables)
    product = join_factors(numbered, factor, (*numbered.variables, *extra))
    rows = product.columns(("block", *map(str, marked)))
    return Function((0, *(axis_of[place] for place in marked)), rows, product.value)


def _list_block_candidates(listed: ListedDifferences) -> BlockCandidates:
    predicate = listed.target.predicate
    num_atoms = listed.interpretation.num_atoms(predicate.name)
    if num_atoms > MAX_LISTED:
        raise TooLarge(
            f"{num_atoms:,} values of '{predicate.name}' would have to be evaluated one by one",
            code="too-many-atoms",
            hint="avoid quantifiers over a predicate with marked arguments",
        )
    unmarked = [place for place in range(predicate.arity) if place not in predicate.block]
    blocks = list_tuples(tuple(listed.sizes[place] for place in unmarked))
    values = list_tuples(tuple(listed.sizes[place] for place in predicate.block))
    atoms = np.empty((len(values), predicate.arity), np.int32)
    atoms[:, list(predicate.block)] = values
    parts: list[SparseVectors] = []
    truths: list[np.ndarray] = []
    for arguments in blocks:
        atoms[:, unmarked] = arguments
        vectors, truth = listed.at_cleared_block(atoms)
        parts.append(vectors)
        truths.append(truth)
    none = add_entries(0, *[np.empty(0, np.int64)] * 3)
    return BlockCandidates(
        np.repeat(np.arange(len(blocks)), len(values)),
        stack_vectors([none, *parts]),
        np.concatenate([np.empty(0, bool), *truths]),
        np.ones(len(blocks) * len(values), np.int64),
        np.ones(len(blocks), np.int64),
    )


def _group_blocks(
    candidates: BlockCandidates, predicate: Predicate, num_weights: int, violated: tuple[int, ...]
) -> BlockClasses:
    """Merge equal candidates of a block, then equal blocks."""
    num_blocks = len(candidates.num_blocks)
    first, vector = number_vectors(candidates.vectors)
    soft, hard = split_column(candidates.vectors.take(first), num_weights)
    members = add_entries(num_blocks, candidates.block, vector, candidates.multiplicity)
    is_true = candidates.truth
    num_true = np.zeros(num_blocks, np.int64)
    np.add.at(num_true, candidates.block[is_true], candidates.multiplicity[is_true])
    observed_vector = np.full(num_blocks, -1)
    observed_vector[candidates.block[is_true]] = vector[is_true]
    is_broken = (num_true > 1) | ((num_true == 0) & predicate.exactly_one)

    some, number = number_vectors(members, observed_vector, is_broken.astype(np.int64))
    multiplicity = np.bincount(number, candidates.num_blocks, len(some)).astype(np.int64)
    chosen = members.take(some)
    is_observed = chosen.column == observed_vector[some][chosen.row]
    observed = np.full(len(some), -1)
    observed[chosen.row[is_observed]] = np.flatnonzero(is_observed)
    return BlockClasses(
        predicate.name,
        predicate.exactly_one,
        num_weights,
        soft.start,
        soft.column,
        soft.value,
        hard,
        chosen.start,
        chosen.column,
        narrow_integers(chosen.value),
        observed,
        multiplicity,
        int(candidates.num_blocks[is_broken].sum()),
        violated,
    )
