"""The differences that a ground atom makes to all clauses of a path, from shared counts.

Let a path have atoms A_1 … A_k, and let U be a set of them that unify with the ground atom g
together (mostly a single atom). For S among the other atoms write N_U,S(g) for the number of
groundings in which the atoms of U are g and those in S are true. By Möbius inversion over
supersets, as for total counts (`lapis.counting.totals`),

    F_U,p(g) = Σ_{S ⊇ p} (−1)^{|S∖p|} N_U,S(g)

is the number of groundings in which, of the other atoms, exactly those in p are true. These are the
groundings in which a clause whose negated literals are p is false apart from U. So the number of
true groundings of the clause with g true, minus that with g false, is

    d(g) = − Σ_U (1 − 2·truth(g))^{|U|+1} · Π_{i∈U} δ_i · F_U,p(g)

with δ_i = −1 where literal i is positive and 1 where it is negated (`counting.differences` has the
derivation). N_U,S is a product over the parts of S that are connected outside g's arguments. Each
part is a sparse function of some arguments, computed by one join and shared by all paths that
contain it. So a few numbers define the class of an atom, classes are counted without listing atoms
(`argument_classes`), and all 2^k clauses of the path use the same classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from lapis.counting.differences.argument_classes import Function, count_signatures
from lapis.data.keys import number_rows
from lapis.relational.algebra import Expression, Tuples
from lapis.relational.contraction import Contraction, group_connected, plan_contraction
from lapis.relational.factor import Factor, indicator_factor, sort_rows
from lapis.relational.interpretation import Evaluation, Extension, Interpretation
from lapis.runtime.progress import check_time
from lapis.structure.candidates import Path, PathAtom, variable_types
from lapis.structure.training_data import TrainingData

F = TypeVar("F")  # a factor in memory, or a table of a store


class AtomClasses(NamedTuple):
    """Classes of a predicate's atoms with equal differences; in `at`, single atoms."""

    failing: dict[tuple[int, ...], np.ndarray]  # U → float64[num_classes, 2^others], F_U,p
    truth: np.ndarray  # bool[num_classes]
    multiplicity: np.ndarray  # float64[num_classes]

    def differences(self, positive: int, num_literals: int) -> np.ndarray:
        """Return float64[num_classes], d of the clause whose positive literals are the set bits."""
        sign = 1.0 - 2.0 * self.truth
        found = np.zeros(len(self.truth))
        for unified, failing in self.failing.items():
            others = [bit for bit in range(num_literals) if bit not in unified]
            negated = sum(1 << place for place, bit in enumerate(others) if not positive >> bit & 1)
            odd = sum(positive >> bit & 1 for bit in unified) % 2
            power = sign if len(unified) % 2 == 0 else 1.0
            found -= (-1.0 if odd else 1.0) * power * failing[:, negated]
        return found


class PathColumn(NamedTuple, Generic[F]):
    """A sparse function of some arguments of the target's atoms."""

    axes: tuple[int, ...]
    factor: F  # over the axes


class ColumnProduct(NamedTuple):
    """scale · Π columns."""

    columns: tuple[int, ...]
    scale: np.ndarray  # float64[num_worlds], the factors that do not depend on the arguments


class Unified(NamedTuple):
    """The atoms U, and N_U,S as products of columns."""

    members: tuple[int, ...]
    products: tuple[ColumnProduct, ...]  # for each S


class Joins(ABC, Generic[F]):
    """Joins of the data, in memory or on a store; each is computed once."""

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self.known: dict[tuple[tuple[PathAtom, ...], int], F] = {}

    @abstractmethod
    def differences(self, path: Path, predicate: str) -> PathDifferences:
        """Return the differences of one predicate's atoms."""

    def column(self, atoms: Sequence[PathAtom], kept: Sequence[int]) -> F:
        """Return Π atoms, which are connected, summed over the variables not kept."""
        key = rename_atoms(atoms, kept), len(kept)
        if key not in self.known:
            self.known[key] = self.join(*key)
        return self.known[key]

    @abstractmethod
    def join(self, atoms: tuple[PathAtom, ...], num_kept: int) -> F:
        """Return Π atoms, summed over all variables but the first `num_kept`."""

    @abstractmethod
    def diagonal(self, predicate: str, axes: tuple[int, int]) -> F:
        """Return the factor that is 1 if two arguments are equal."""

    @abstractmethod
    def totals(self, atoms: Sequence[PathAtom], name: int, type_name: str) -> np.ndarray:
        """Return float64[num_worlds], Σ of Π atoms; `name` is one of their variables."""


class PartSums(Joins[Factor]):
    """Joins in memory; their rows are sorted."""

    def __init__(self, data: TrainingData) -> None:
        super().__init__(data)
        self.world = Interpretation(
            {}, {n: Extension(p.types, data.tuples[n]) for n, p in data.predicates.items()}
        )

    def differences(self, path: Path, predicate: str) -> PathDifferences:
        return MemoryPath(self.data, path, predicate, *build_columns(self, path, predicate))

    def join(self, atoms: tuple[PathAtom, ...], num_kept: int) -> Factor:
        plan = plan_join(atoms, num_kept, self.world)
        found = Evaluation(self.world, {}, frozenset()).run(plan)
        return sort_rows(found.reorder(tuple(map(str, range(num_kept)))))

    def diagonal(self, predicate: str, axes: tuple[int, int]) -> Factor:
        type_name = self.data.predicates[predicate].types[axes[0]]
        every = np.arange(self.data.offset[type_name][-1], dtype=np.int32)
        return indicator_factor(("0", "1"), np.stack([every, every], axis=1))

    def totals(self, atoms: Sequence[PathAtom], name: int, type_name: str) -> np.ndarray:
        factor = self.column(atoms, [name])
        begin = np.searchsorted(factor.rows[:, 0], self.data.offset[type_name])
        sums = np.concatenate([[0.0], np.cumsum(factor.value.astype(np.float64))])[begin]
        return np.diff(sums)


def rename_atoms(atoms: Sequence[PathAtom], kept: Sequence[int]) -> tuple[PathAtom, ...]:
    """Order and rename the atoms, so that equal joins have equal keys."""
    number = {name: place for place, name in enumerate(kept)}
    renamed = []
    for atom in sorted(atoms, key=lambda a: (a.predicate, [number.get(v, 99) for v in a[1]])):
        names = tuple(number.setdefault(name, len(number)) for name in atom.variables)
        renamed.append(PathAtom(atom.predicate, names))
    return tuple(renamed)


def plan_join(atoms: Sequence[PathAtom], num_kept: int, world: Interpretation) -> Expression:
    """Plan the join of atoms, summed over all variables but the first `num_kept`."""
    leaves = []
    for atom in atoms:
        terms = tuple(map(str, atom.variables))
        shape = world.relations[atom.predicate].shape(terms)
        leaves.append(Contraction(Tuples(atom.predicate, terms), shape, 0.0))
    return plan_contraction(leaves, (), tuple(map(str, range(num_kept)))).expression


@dataclass(frozen=True, eq=False)
class PathDifferences(ABC):
    """The differences that atoms of one predicate make to all clauses of a path."""

    data: TrainingData
    path: Path
    predicate: str
    unified: tuple[Unified, ...]

    def classes(self) -> AtomClasses:
        """Return the classes of all atoms of all worlds."""
        if not self.data.predicates[self.predicate].arity:
            every = np.arange(self.data.num_worlds)
            return self.at(np.zeros((len(every), 0), np.int32), every)
        return stack_classes(
            [
                self.assemble(*self.count_values(world), world)
                for world in range(self.data.num_worlds)
                if 0 not in self.data.sizes(self.predicate, world)
            ]
        )

    @abstractmethod
    def count_values(self, world: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns' values, float64[num_classes, num_columns], and class sizes.

        They are of the atoms of one world, in which no domain is empty.
        """

    @abstractmethod
    def values_at(self, rows: np.ndarray) -> np.ndarray:
        """Return float64[n, num_columns], columns at atoms int32[n, arity]; truth is the last."""

    def at(self, rows: np.ndarray, world: np.ndarray) -> AtomClasses:
        """Return single atoms, int32[n, arity], of worlds int64[n] in increasing order."""
        if rows.shape[1]:
            values = self.values_at(rows)
        else:
            values = self.data.holds(self.predicate)[world, None]
        begin = np.searchsorted(world, np.arange(self.data.num_worlds + 1))
        if not len(rows):
            return AtomClasses({}, np.zeros(0, bool), np.zeros(0))
        return stack_classes(
            [
                self.assemble(values[a:b], np.ones(b - a), number)
                for number, (a, b) in enumerate(pairwise(begin.tolist()))
                if b > a
            ]
        )

    def assemble(self, values: np.ndarray, multiplicity: np.ndarray, world: int) -> AtomClasses:
        """Compute F_U,p from the columns' values float64[n, num_columns] in one world."""
        failing: dict[tuple[int, ...], np.ndarray] = {}
        for members, products in self.unified:
            counts = np.empty((len(values), len(products)))
            for subset, product in enumerate(products):
                counts[:, subset] = product.scale[world]
                for column in product.columns:
                    counts[:, subset] *= values[:, column]
            for bit in range(len(products).bit_length() - 1):
                for subset in range(len(products)):
                    if not subset >> bit & 1:
                        counts[:, subset] -= counts[:, subset | 1 << bit]
            failing[members] = counts
        return AtomClasses(failing, values[:, -1] > 0, multiplicity)


@dataclass(frozen=True, eq=False)
class MemoryPath(PathDifferences):
    """Differences whose columns are factors in memory, with sorted rows."""

    columns: tuple[PathColumn[Factor], ...]  # the last one is truth

    def count_values(self, world: int) -> tuple[np.ndarray, np.ndarray]:
        return count_values(self.data, self.predicate, self.columns, world)

    def values_at(self, rows: np.ndarray) -> np.ndarray:
        values = np.zeros((len(rows), len(self.columns)))
        for number, (axes, factor) in enumerate(self.columns):
            values[:, number] = _evaluate_factor(factor, rows[:, list(axes)])
        return values


def count_values(
    data: TrainingData, predicate: str, columns: Sequence[PathColumn[Factor]], world: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns' values, float64[num_classes, num_columns], and class sizes in a world.

    Rows of factors are sorted, and no domain is empty.
    """
    functions, tables = zip(*_build_functions(data, predicate, columns, world), strict=True)
    found = count_signatures(functions, data.sizes(predicate, world))
    values = np.empty((len(found.value), len(columns)))
    for number, (members, table) in enumerate(tables):
        values[:, members] = table[found.value[:, number]]
    return values, found.multiplicity.astype(np.float64)


def _build_functions(
    data: TrainingData, predicate: str, columns: Sequence[PathColumn[Factor]], world: int
) -> Iterator[tuple[Function, tuple[list[int], np.ndarray]]]:
    """Yield the columns of the same axes as one function, with a table of the columns' values."""
    types = data.predicates[predicate].types
    for axes, members in group_columns(columns).items():
        shift = np.array([data.offset[types[a]][world] for a in axes], np.int32)
        parts, values = [], []
        for number in members:
            factor = columns[number].factor
            bounds = data.offset[types[axes[0]]][world : world + 2]
            begin, end = np.searchsorted(factor.rows[:, 0], bounds)
            parts.append(factor.rows[begin:end] - shift)
            values.append(factor.value[begin:end])
        yield _merge_columns(axes, members, parts, values)


def group_columns(columns: Sequence[PathColumn[F]]) -> dict[tuple[int, ...], list[int]]:
    """Return the numbers of the columns by their axes."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, column in enumerate(columns):
        groups.setdefault(column.axes, []).append(number)
    return groups


def build_columns(
    joins: Joins[F], path: Path, predicate: str
) -> tuple[tuple[Unified, ...], tuple[PathColumn[F], ...]]:
    """Return the sets U of one predicate's atoms, as products of columns, and the columns."""
    columns: dict[tuple[tuple[int, ...], int], tuple[int, PathColumn[F]]] = {}

    def add(axes: tuple[int, ...], factor: F) -> int:
        key = axes, id(factor)
        return columns.setdefault(key, (len(columns), PathColumn(axes, factor)))[0]

    own = [bit for bit, atom in enumerate(path) if atom.predicate == predicate]
    types = variable_types(path, joins.data.predicates)
    diagonals: dict[tuple[int, ...], F] = {}
    unified = []
    for size in range(1, len(own) + 1):
        for members in combinations(own, size):
            check_time("scoring clauses")
            names = _unify_variables([path[bit].variables for bit in members])
            merged = [
                PathAtom(atom.predicate, tuple(names.get(v, v) for v in atom.variables))
                for bit, atom in enumerate(path)
                if bit not in members
            ]
            target = tuple(names.get(v, v) for v in path[members[0]].variables)
            repeated = _find_repeated(target)
            for axes in repeated:
                if axes not in diagonals:
                    diagonals[axes] = joins.diagonal(predicate, axes)
            always = tuple(add(axes, diagonals[axes]) for axes in repeated)
            left = {names.get(v, v): t for v, t in types.items()}
            products = []
            for subset in range(1 << len(merged)):
                chosen = [atom for bit, atom in enumerate(merged) if subset >> bit & 1]
                found = _build_product(chosen, target, left, joins, add)
                products.append(found._replace(columns=always + found.columns))
            unified.append(Unified(members, tuple(products)))
    arity = len(path[own[0]].variables)
    if not arity:  # `PathDifferences.at` adds the column of truth
        return tuple(unified), tuple(column for _, column in columns.values())
    truth = joins.column([PathAtom(predicate, tuple(range(arity)))], range(arity))
    every = (*(column for _, column in columns.values()), PathColumn(tuple(range(arity)), truth))
    return tuple(unified), every


def _build_product(
    atoms: Sequence[PathAtom],
    target: tuple[int, ...],
    types: Mapping[int, str],
    joins: Joins[F],
    add: Callable[[tuple[int, ...], F], int],
) -> ColumnProduct:
    """Return N_U,S of the atoms in S: columns of the target's arguments, times a scale."""
    numbers = []
    scale = np.ones(joins.data.num_worlds)
    for atom in atoms:
        if not atom.variables:
            scale *= joins.data.holds(atom.predicate)
    bound = [atom for atom in atoms if atom.variables]
    for part in group_connected(bound, lambda atom: set(atom.variables).difference(target)):
        inside = dict.fromkeys(name for atom in part for name in atom.variables)
        kept = [name for name in dict.fromkeys(target) if name in inside]
        if kept:
            axes = tuple(target.index(name) for name in kept)
            numbers.append(add(axes, joins.column(part, kept)))
        else:
            name = next(iter(inside))
            scale *= joins.totals(part, name, types[name])
    mentioned = {*target, *(name for atom in atoms for name in atom.variables)}
    for name, type_name in types.items():
        if name not in mentioned:
            scale *= np.diff(joins.data.offset[type_name])
    return ColumnProduct(tuple(numbers), scale)


def _unify_variables(tuples: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Unify the variables at equal positions: map each to the least that it equals."""
    names: dict[int, int] = {}

    def find(name: int) -> int:
        while name in names:
            name = names[name]
        return name

    for other in tuples[1:]:
        for left, right in zip(tuples[0], other, strict=True):
            low, high = sorted((find(left), find(right)))
            if low != high:
                names[high] = low
    return {name: find(name) for name in names}


def _find_repeated(target: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the pairs of positions with the same variable."""
    return [
        (target.index(name), place)
        for place, name in enumerate(target)
        if target.index(name) < place
    ]


def _merge_columns(
    axes: tuple[int, ...],
    members: list[int],
    parts: Sequence[np.ndarray],
    values: Sequence[np.ndarray],
) -> tuple[Function, tuple[list[int], np.ndarray]]:
    points = np.concatenate(parts)
    first, row = number_rows([points[:, column] for column in range(len(axes))], len(points))
    table = np.zeros((len(first), len(members)), np.int64)
    begin = 0
    for place, value in enumerate(values):
        table[row[begin : begin + len(value)], place] = value
        begin += len(value)
    some, number = number_rows(list(table.T), len(first))
    function = Function(axes, points[first], number + 1)
    distinct = np.concatenate([np.zeros((1, len(members)), np.int64), table[some]])
    return function, (members, distinct)


def _evaluate_factor(factor: Factor, points: np.ndarray) -> np.ndarray:
    """Return float64[n], the factor at points int32[n, num_variables]."""
    both = np.concatenate([factor.rows, points])
    first, number = number_rows([both[:, j] for j in range(both.shape[1])], len(both))
    source = first[number[len(factor) :]]
    found = source < len(factor)
    values = np.zeros(len(points))
    values[found] = factor.value[source[found]]
    return values


def stack_classes(parts: Sequence[AtomClasses]) -> AtomClasses:
    """Concatenate the classes of several worlds."""
    if not parts:
        return AtomClasses({}, np.zeros(0, bool), np.zeros(0))
    return AtomClasses(
        {u: np.concatenate([part.failing[u] for part in parts]) for u in parts[0].failing},
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.multiplicity for part in parts]),
    )
