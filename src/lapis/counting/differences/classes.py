"""The ground atoms of a predicate in classes: equal difference vector, equal truth value.

Pseudo-likelihood learning (Besag 1975; Kok & Domingos 2005) sees a ground atom only through its
truth value and d(g) = n(g = 1) − n(g = 0), one number for each weight. `difference_classes` lists
the distinct pairs and how many atoms share each:

- the true atoms are listed as they are (they are rows of the data);
- the false ones are counted by `argument_classes`, minus the true ones, so their number never
  shows in time or memory.

Where a formula's quantifiers rule the closed form out (`differences.is_direct`), the atoms are
gone through one by one in an incremental `World`, up to `MAX_LISTED` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.counting.differences.argument_classes import Function, count_signatures
from lapis.counting.differences.atom_differences import (
    AtomDifferences,
    Differences,
    open_differences,
)
from lapis.counting.differences.listed_differences import ListedDifferences, list_atoms
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    number_vectors,
    split_column,
    stack_vectors,
    widen,
)
from lapis.errors import TooLarge
from lapis.problem.problem import Problem
from lapis.relational.exact_sums import narrow

MAX_LISTED = 5_000_000  # atoms gone through one by one


@dataclass(frozen=True)
class DifferenceClasses:
    """Class c has difference[j] at weight_id[j] for class_start[c] ≤ j < class_start[c + 1].

    Where the data keeps the hard rules, `hard_true_violations` is the number of hard groundings
    that the atom being true violates, and `hard_false_violations` the same for false. An atom of
    a class in which the other value violates any is forced: its conditional probability is 1.
    """

    predicate: str
    num_weights: int
    class_start: np.ndarray  # int64[num_classes + 1]
    weight_id: np.ndarray  # int64[num_entries], increasing within a class
    difference: np.ndarray  # int64[num_entries], nonzero; object where 64 bits do not suffice
    truth: np.ndarray  # bool[num_classes], the atoms' value in the data
    multiplicity: np.ndarray  # int64[num_classes]; object where 64 bits do not suffice
    hard_true_violations: np.ndarray  # int64[num_classes]
    hard_false_violations: np.ndarray  # int64[num_classes]
    violated_rules: tuple[int, ...]  # hard rules that the data breaks: no world has probability 0

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def vectors(self) -> SparseVectors:
        return SparseVectors(self.class_start, self.weight_id, self.difference)

    @property
    def is_forced(self) -> np.ndarray:
        """bool[num_classes], whether the hard rules leave the atoms only their value."""
        return np.where(self.truth, self.hard_false_violations > 0, self.hard_true_violations > 0)


def difference_classes(problem: Problem, predicate: str) -> DifferenceClasses:
    """All ground atoms of a predicate, in classes.

    Raises `TooLarge` where the atoms fall into too many classes to be listed.

    >>> import lapis
    >>> model = lapis.parse('''
    ... person = {Anna, Bob, Cid}
    ... Smokes(person)
    ... Friends(person, person)
    ... 1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
    ... ''')
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob)")
    >>> found = difference_classes(lapis.build_problem(model, data), "Friends")
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
                f"{num_atoms:,} atoms of '{predicate}' would have to be gone through one by one",
                code="too-many-atoms",
                hint="nested quantifiers rule classes out here: use a sample of the atoms",
            )
        atoms = list_atoms(differences.sizes)
        vectors, truth = differences.at_rows(atoms)
        count = np.ones(len(atoms), np.int64)
    else:
        vectors, truth, count = differences.count_atoms()
    return _group(differences, vectors, truth, count)


def _count_atoms(
    differences: AtomDifferences,
) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
    """Vectors, truth values and how many atoms have them; not yet grouped."""
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


def _group(
    differences: Differences, vectors: SparseVectors, truth: np.ndarray, count: np.ndarray
) -> DifferenceClasses:
    num_weights = differences.keys.num_weights
    first, number = number_vectors(vectors, truth.astype(np.int64))
    multiplicity = np.zeros(len(first), widen(count).dtype)
    np.add.at(multiplicity, number, count)
    soft, hard = split_column(vectors.take(first), num_weights)
    return DifferenceClasses(
        differences.target.predicate.name,
        num_weights,
        soft.start,
        soft.column,
        soft.value,
        truth[first],
        narrow(multiplicity),
        np.maximum(-hard, 0),
        np.maximum(hard, 0),
        differences.violated,
    )
