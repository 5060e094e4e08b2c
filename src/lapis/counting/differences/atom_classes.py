"""The ground atoms of a predicate in classes, and the pseudo-log-likelihood from classes.

Pseudo-likelihood learning (Besag 1975; Kok & Domingos 2005) sees a ground atom only through its
truth value and d(g) = n(g = 1) − n(g = 0), one number for each weight. `find_difference_classes`
lists the distinct pairs and how many atoms share each:

- the true atoms are listed (they are rows of the data);
- the false ones are counted by `argument_classes`, minus the true ones, so that time and memory do
  not depend on their number.

If a formula's quantifiers have no closed form (`signed_conjunctions.is_direct`), the atoms are
evaluated one by one in a `FlippingWorld`, up to `MAX_LISTED` of them.

The pseudo-log-likelihood evaluates each class once:

    Σ_classes multiplicity · log P(value in the data | everything else)

For an atom the log-odds of being true are w · d, so P = σ(m · w) with the margin vector m = d for
a true atom and −d for a false one. For a block, P(v) ∝ exp(w · D(v)) over its values v. If a hard
rule excludes all other values, the probability is 1; if the data violate a hard rule or a block,
the pseudo-log-likelihood is −∞.

`stack_atoms` and `stack_blocks` merge the classes of any number of worlds into one matrix. The
value, gradient and curvature (minus the Hessian, the covariance of the counts) at weights w need a
few products with that matrix:

    atoms    gradient   Mᵀ (c · σ(−Mw))            curvature  Mᵀ diag(c · σ(Mw) σ(−Mw)) M
    blocks   gradient   Σ_c c (D(data) − E[D])     curvature  Σ_c c Cov[D]

A small matrix is dense, which saves importing scipy.sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from lapis.counting.differences.argument_classes import Function, count_signatures
from lapis.counting.differences.atom_differences import (
    AtomDifferences,
    Differences,
    ListedDifferences,
    list_tuples,
    open_differences,
)
from lapis.counting.differences.block_classes import BlockClasses
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    number_vectors,
    split_column,
    stack_vectors,
    widen_integers,
)
from lapis.errors import TooLarge
from lapis.problem.problem import Problem
from lapis.relational.exact_sums import narrow_integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAX_LISTED = 5_000_000  # atoms evaluated one by one


@dataclass(frozen=True)
class DifferenceClasses:
    """Class c has difference[j] at weight_id[j] for class_start[c] ≤ j < class_start[c + 1].

    If the data satisfy the hard rules, `hard_true_violations` is the number of hard groundings that
    are violated if the atom is true, and `hard_false_violations` that if it is false. An atom whose
    other value violates some is forced: its conditional probability is 1.
    """

    predicate: str
    num_weights: int
    class_start: np.ndarray  # int64[num_classes + 1]
    weight_id: np.ndarray  # int64[num_entries], increasing within a class
    difference: np.ndarray  # int64[num_entries], nonzero; object if 64 bits do not suffice
    truth: np.ndarray  # bool[num_classes], the atoms' value in the data
    multiplicity: np.ndarray  # int64[num_classes]; object if 64 bits do not suffice
    hard_true_violations: np.ndarray  # int64[num_classes]
    hard_false_violations: np.ndarray  # int64[num_classes]
    violated_rules: tuple[int, ...]  # hard rules that the data violate

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def vectors(self) -> SparseVectors:
        return SparseVectors(self.class_start, self.weight_id, self.difference)

    @property
    def is_forced(self) -> np.ndarray:
        """Whether the hard rules exclude the other value, bool[num_classes]."""
        return np.where(self.truth, self.hard_false_violations > 0, self.hard_true_violations > 0)


def find_difference_classes(problem: Problem, predicate: str) -> DifferenceClasses:
    """Group all ground atoms of a predicate by difference vector and truth value.

    Raise `TooLarge` if there are too many classes.

    >>> import lapis
    >>> model = lapis.parse('''
    ... person = {Anna, Bob, Cid}
    ... Smokes(person)
    ... Friends(person, person)
    ... 1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
    ... ''')
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob)")
    >>> found = find_difference_classes(lapis.build_problem(model, data), "Friends")
    >>> for number in range(len(found)):
    ...     start, end = found.class_start[number : number + 2]
    ...     print(found.multiplicity[number], found.truth[number], found.difference[start:end])
    7 False []
    1 False [-1]
    1 True [-1]
    """
    differences = open_differences(problem, predicate)
    if isinstance(differences, AtomDifferences):
        vectors, truth, count = _count_atoms(differences)
    elif isinstance(differences, ListedDifferences):
        num_atoms = differences.interpretation.num_atoms(predicate)
        if num_atoms > MAX_LISTED:
            raise TooLarge(
                f"{num_atoms:,} atoms of '{predicate}' would have to be evaluated one by one",
                code="too-many-atoms",
                hint="avoid nested quantifiers, or use a sample of the atoms",
            )
        atoms = list_tuples(differences.sizes)
        vectors, truth = differences.at_rows(atoms)
        count = np.ones(len(atoms), np.int64)
    else:
        vectors, truth, count = differences.count_atoms()
    return _group_atoms(differences, vectors, truth, count)


def _count_atoms(
    differences: AtomDifferences,
) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
    """Return vectors, truth values and the number of atoms that have them, not merged."""
    true_rows = differences.true_rows
    functions = differences.when_false.functions
    axes = tuple(range(len(differences.sizes)))
    if axes:
        truth = Function(axes, true_rows, np.ones(len(true_rows), np.int64))
        signatures = count_signatures([*functions, truth], differences.sizes)
        chosen = signatures.value[:, -1] == 0
        values, count = signatures.value[chosen, :-1], signatures.multiplicity[chosen]
    else:
        values = np.zeros((1 - len(true_rows), len(functions)), np.int64)
        count = np.ones(len(values), np.int64)
    when_false = differences.when_false.at_signatures(values)
    when_true = differences.when_true.at_rows(true_rows)
    return (
        stack_vectors([when_false, when_true]),
        np.repeat([False, True], [len(count), len(true_rows)]),
        np.concatenate([count, np.ones(len(true_rows), np.int64)]),
    )


def _group_atoms(
    differences: Differences, vectors: SparseVectors, truth: np.ndarray, count: np.ndarray
) -> DifferenceClasses:
    num_weights = differences.keys.num_weights
    first, number = number_vectors(vectors, truth.astype(np.int64))
    multiplicity = np.zeros(len(first), widen_integers(count).dtype)
    np.add.at(multiplicity, number, count)
    soft, hard = split_column(vectors.take(first), num_weights)
    return DifferenceClasses(
        differences.target.predicate.name,
        num_weights,
        soft.start,
        soft.column,
        soft.value,
        truth[first],
        narrow_integers(multiplicity),
        np.maximum(-hard, 0),
        np.maximum(hard, 0),
        differences.violated,
    )


Matrix: TypeAlias = "np.ndarray | csr_array"

DENSE_ENTRIES = 1_000_000  # up to this size a matrix is dense
DENSE_RATIO = 4  # beyond it, dense if at least one entry in four is not zero


class ClassLikelihood(NamedTuple):
    value: float
    gradient: np.ndarray  # float64[num_weights]; zero if the value is −∞


def pseudo_log_likelihood(
    classes: DifferenceClasses | BlockClasses, weights: np.ndarray
) -> ClassLikelihood:
    """Compute value and gradient at weights float64[num_weights]."""
    if classes.violated_rules or (isinstance(classes, BlockClasses) and classes.broken_blocks):
        return ClassLikelihood(-np.inf, np.zeros(classes.num_weights))
    found = (
        stack_blocks([classes], classes.num_weights).at(weights)
        if isinstance(classes, BlockClasses)
        else stack_atoms([atom_rows(classes)], classes.num_weights).at(weights)
    )
    return ClassLikelihood(found.value, found.gradient)


class AtomRows(NamedTuple):
    """Atoms, or classes of atoms, that the hard rules do not force."""

    vectors: SparseVectors  # d of each; floats if differences are estimates
    truth: np.ndarray  # bool[num_rows]
    multiplicity: np.ndarray  # float64[num_rows]


def atom_rows(classes: DifferenceClasses) -> AtomRows:
    """Return the classes that are not forced; the others have probability 1 at any weights."""
    kept = np.flatnonzero(~classes.is_forced)
    return AtomRows(
        classes.vectors.take(kept),
        classes.truth[kept],
        classes.multiplicity[kept].astype(np.float64),
    )


@dataclass(frozen=True)
class AtomStack:
    """Class c: `multiplicity[c]` atoms whose value in the data has log-odds margin[c] · w."""

    margin: Matrix  # float64[num_classes, num_weights]
    multiplicity: np.ndarray  # float64[num_classes]

    def __len__(self) -> int:
        return len(self.multiplicity)

    def at(self, weights: np.ndarray) -> AtomsAt:
        return AtomsAt(self, self.margin @ weights)

    @cached_property
    def margin_squared(self) -> Matrix:
        return self.margin * self.margin


@dataclass(frozen=True)
class AtomsAt:
    """A stack of atoms at some weights."""

    stack: AtomStack
    log_odds: np.ndarray  # float64[num_classes], of the value in the data

    @property
    def value(self) -> float:
        return -float(self.stack.multiplicity @ np.logaddexp(0.0, -self.log_odds))

    @property
    def gradient(self) -> np.ndarray:
        missing = np.exp(-np.logaddexp(0.0, self.log_odds))  # σ(−log-odds), without overflow
        return self.stack.margin.T @ (self.stack.multiplicity * missing)

    @cached_property
    def spread(self) -> np.ndarray:
        """float64[num_classes], multiplicity · σ(z) σ(−z)."""
        both = np.logaddexp(0.0, self.log_odds) + np.logaddexp(0.0, -self.log_odds)
        return self.stack.multiplicity * np.exp(-both)

    def curvature_diagonal(self) -> np.ndarray:
        return self.stack.margin_squared.T @ self.spread

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return self.stack.margin.T @ (self.spread * (self.stack.margin @ direction))


def stack_atoms(parts: Sequence[AtomRows], num_weights: int) -> AtomStack:
    """Merge the atoms of all parts; a true atom with d and a false one with −d are equal."""
    vectors = stack_vectors([part.vectors for part in parts])
    truth = np.concatenate([part.truth for part in parts])
    multiplicity = np.concatenate([part.multiplicity for part in parts])
    sign = np.where(truth, 1, -1)[vectors.row]
    signed = vectors._replace(value=vectors.value * sign)
    first, number = number_vectors(signed)
    return AtomStack(
        to_matrix(signed.take(first), num_weights), np.bincount(number, multiplicity, len(first))
    )


@dataclass(frozen=True)
class BlockStack:
    """Class c chooses among the candidates j with class_start[c] ≤ j < class_start[c + 1].

    Candidate j represents `candidate_count[j]` values with vector D = vector[candidate_vector[j]].
    The values that hard rules exclude are left out; the empty block, where allowed, has D = 0.
    """

    vector: Matrix  # float64[num_vectors, num_weights]
    class_start: np.ndarray  # int64[num_classes + 1], no class without candidates
    candidate_vector: np.ndarray  # int64[num_candidates]
    candidate_count: np.ndarray  # float64[num_candidates]
    observed_vector: np.ndarray  # int64[num_classes], of the value in the data
    multiplicity: np.ndarray  # float64[num_classes]

    def __len__(self) -> int:
        return len(self.multiplicity)

    @cached_property
    def owner(self) -> np.ndarray:
        """int64[num_candidates], the class of each."""
        return np.repeat(np.arange(len(self)), np.diff(self.class_start))

    @cached_property
    def vector_squared(self) -> Matrix:
        return self.vector * self.vector

    def sum_by_class(self, values: np.ndarray) -> np.ndarray:
        """float64[num_classes], Σ over each class's candidates."""
        return np.add.reduceat(values, self.class_start[:-1])

    def sum_by_vector(self, values: np.ndarray) -> np.ndarray:
        """float64[num_vectors], Σ over the candidates with each vector."""
        return np.bincount(self.candidate_vector, values, self.vector.shape[0])

    def at(self, weights: np.ndarray) -> BlocksAt:
        score_of = self.vector @ weights
        score = score_of[self.candidate_vector] + np.log(self.candidate_count)
        top = np.maximum.reduceat(score, self.class_start[:-1])
        share = np.exp(score - top[self.owner])
        total = self.sum_by_class(share)
        log_likelihood = score_of[self.observed_vector] - top - np.log(total)
        return BlocksAt(self, log_likelihood, share / total[self.owner])


@dataclass(frozen=True)
class BlocksAt:
    """A stack of blocks at some weights."""

    stack: BlockStack
    log_likelihood: np.ndarray  # float64[num_classes]
    probability: np.ndarray  # float64[num_candidates], of all values of a candidate together

    @property
    def value(self) -> float:
        return float(self.stack.multiplicity @ self.log_likelihood)

    @property
    def gradient(self) -> np.ndarray:
        stack = self.stack
        data = np.bincount(stack.observed_vector, stack.multiplicity, stack.vector.shape[0])
        return stack.vector.T @ (data - stack.sum_by_vector(self.expected))

    @cached_property
    def expected(self) -> np.ndarray:
        """float64[num_candidates], blocks in which each candidate is expected."""
        return self.stack.multiplicity[self.stack.owner] * self.probability

    @cached_property
    def mean_vector(self) -> Matrix:
        """float64[num_classes, num_weights], E[D] of each class."""
        from scipy.sparse import csr_array

        stack = self.stack
        shape = (len(stack), stack.vector.shape[0])
        choice = csr_array((self.probability, stack.candidate_vector, stack.class_start), shape)
        return choice @ stack.vector

    def curvature_diagonal(self) -> np.ndarray:
        """Σ c (E[D²] − E[D]²)."""
        square = self.stack.vector_squared.T @ self.stack.sum_by_vector(self.expected)
        mean = self.mean_vector
        # Rounding must not make a variance negative.
        return np.maximum(square - (mean * mean).T @ self.stack.multiplicity, 0.0)

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        """Σ c E[D (D·v − E[D·v])]."""
        stack = self.stack
        along = (stack.vector @ direction)[stack.candidate_vector]
        deviation = along - stack.sum_by_class(self.probability * along)[stack.owner]
        return stack.vector.T @ stack.sum_by_vector(self.expected * deviation)


def stack_blocks(parts: Sequence[BlockClasses], num_weights: int) -> BlockStack:
    """The blocks of all parts, which must all be whole in the data and keep the hard rules."""
    nothing = SparseVectors(np.zeros(2, np.int64), *[np.empty(0, np.int64)] * 2)
    vectors = stack_vectors([nothing, *(part.vectors for part in parts)])
    first, number = number_vectors(vectors)
    owner, vector, count, observed = [], [], [], []
    first_class, first_vector = 0, 1
    for part in parts:
        own_number = number[first_vector : first_vector + len(part.hard)]
        is_empty = part.observed < 0
        own = np.full(len(part), -1)
        own[~is_empty] = part.candidate_vector[part.observed[~is_empty]]
        own_hard = np.append(part.hard, 0)[own]  # the empty block breaks nothing more
        classes = np.arange(len(part))
        candidate_class = np.repeat(classes, np.diff(part.class_start))
        allowed = part.hard[part.candidate_vector] == own_hard[candidate_class]
        may_be_empty = classes[(own_hard == 0) & (not part.exactly_one)]
        owner += [first_class + candidate_class[allowed], first_class + may_be_empty]
        vector += [
            own_number[part.candidate_vector[allowed]],
            np.full(len(may_be_empty), number[0]),
        ]
        count += [part.candidate_count[allowed], np.ones(len(may_be_empty), np.int64)]
        observed.append(np.append(own_number, number[0])[own])
        first_class += len(part)
        first_vector += len(part.hard)
    members = add_entries(
        first_class, np.concatenate(owner), np.concatenate(vector), np.concatenate(count)
    )
    observed_vector = np.concatenate(observed)
    some, class_number = number_vectors(members, observed_vector)
    multiplicity = np.concatenate([part.multiplicity for part in parts]).astype(np.float64)
    chosen = members.take(some)
    return BlockStack(
        to_matrix(vectors.take(first), num_weights),
        chosen.start,
        chosen.column,
        chosen.value.astype(np.float64),
        observed_vector[some],
        np.bincount(class_number, multiplicity, len(some)),
    )


def to_matrix(vectors: SparseVectors, num_columns: int) -> Matrix:
    """float64[num_vectors, num_columns]."""
    shape = (len(vectors.start) - 1, num_columns)
    value = vectors.value.astype(np.float64)
    if shape[0] * shape[1] <= max(DENSE_ENTRIES, DENSE_RATIO * len(value)):
        dense = np.zeros(shape)
        dense[vectors.row, vectors.column] = value
        return dense
    from scipy.sparse import csr_array

    return csr_array((value, vectors.column, vectors.start), shape)
