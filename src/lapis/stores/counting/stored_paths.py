"""Scores of clauses on a store: the columns of a path are tables.

The mathematics is in `path_differences`. A column is a join of the path's atoms, summed over all
variables except the target's arguments. Here it is a table that exists until the search ends.
`stored_signatures` counts the classes of atoms with equal values in all columns. The classes are
fetched and sorted as in memory, so that scores are equal to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from lapis.data.lazy_database import LazyDomain, LazyNames
from lapis.relational.algebra import Expression
from lapis.relational.query_plan import QueryPlan, Term
from lapis.stores.counting.stored_signatures import (
    SignatureCounter,
    StoredFunction,
    unite_functions,
)
from lapis.stores.load_to_store import LoadedRows, StoredExtension
from lapis.stores.store import ScratchTables, Store, fetch_number
from lapis.stores.store_engine import StoredWorld, StoreEngine
from lapis.structure.candidates import Path, PathAtom, variable_types
from lapis.structure.path_differences import (
    Joins,
    PathColumn,
    PathDifferences,
    build_columns,
    group_columns,
    plan_join,
)
from lapis.structure.training_data import TrainingData

StoredColumn = str  # the source of a join on the store: columns k0, k1, … and n


class _NumberedConstants(LazyNames):
    """The constants of all worlds. Only their number is available."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def read(self) -> np.ndarray:
        raise AssertionError("paths have no constants")

    def find(self, name: str) -> int | None:
        raise AssertionError("paths have no constants")


class StoredJoins(Joins[StoredColumn]):
    """Joins as tables of a store."""

    def __init__(self, data: TrainingData, store: Store) -> None:
        super().__init__(data)
        self.scratch = ScratchTables(store)
        self.world = StoredWorld(
            {
                name: LazyDomain(name, _NumberedConstants(int(offset[-1])))
                for name, offset in data.offset.items()
            },
            {
                name: StoredExtension(predicate.types, LoadedRows(store, data.tuples[name]))
                for name, predicate in data.predicates.items()
                if predicate.arity
            },
            store,
        )

    def differences(self, path: Path, predicate: str) -> PathDifferences:
        opened = build_columns(self, path, predicate)
        return StoredPath(self.data, path, predicate, *opened, self.scratch.store)

    def diagonal(self, predicate: str, axes: tuple[int, int]) -> StoredColumn:
        type_name = self.data.predicates[predicate].types[axes[0]]
        numbers = self.scratch.store.dialect.numbers.format(size=self.world.size(type_name))
        one = "CAST(i AS INTEGER)"
        return f"(SELECT {one} AS k0, {one} AS k1, 1 AS n FROM {numbers})"

    def totals(self, atoms: Sequence[PathAtom], name: int, type_name: str) -> np.ndarray:
        source, bounds = self.column(atoms, [name]), self.data.offset[type_name].tolist()
        total = self.scratch.store.dialect.integer(2**63) or "BIGINT"
        return np.array(
            [
                float(
                    fetch_number(
                        self.scratch.store,
                        f"SELECT CAST(coalesce(sum(n), 0) AS {total}) AS n FROM {source} t "
                        f"WHERE k0 >= {low} AND k0 < {high}",
                    )
                )
                for low, high in pairwise(bounds)
            ]
        )

    def join(self, atoms: tuple[PathAtom, ...], num_kept: int) -> StoredColumn:
        expression = plan_join(atoms, num_kept, self.world)
        types = variable_types(atoms, self.data.predicates)
        plan = self._plan(expression, {str(name): each for name, each in types.items()})
        source = StoreEngine(self.world, self.world.store).source(expression, plan)
        columns = [
            f"c{expression.variables.index(str(place))} AS k{place}" for place in range(num_kept)
        ]
        select = f"SELECT {', '.join([*columns, 'n'])} FROM {source} t"
        if len(atoms) == 1 and len(set(atoms[0].variables)) == num_kept:
            return f"({select})"  # an unchanged relation
        return str(self.scratch.create(select))

    def _plan(self, expression: Expression, types: dict[str, str]) -> QueryPlan:
        sizes = tuple(self.world.size(types[name]) for name in expression.variables)
        term = Term(1, (expression,), (), 1, 0.0, 0.0)
        variables = tuple(types.items())
        groundings = prod(self.world.size(type_name) for type_name in types.values())
        return QueryPlan(variables, expression.variables, sizes, groundings, (term,))


@dataclass(frozen=True, eq=False)
class StoredPath(PathDifferences):
    """Path differences with columns in tables of a store."""

    columns: tuple[PathColumn[StoredColumn], ...]  # the last one is truth
    store: Store

    def count_values(self, world: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = dict(enumerate(self.data.sizes(self.predicate, world)))
        with ScratchTables(self.store) as scratch:
            counter = SignatureCounter(scratch, len(self.columns))
            found = counter.count_everywhere(self._functions(scratch, world), sizes)
        values = self._values(counter, found.value)
        members = [n for numbers in group_columns(self.columns).values() for n in numbers]
        order = np.lexsort([values[:, number] for number in reversed(members)])
        return values[order], found.multiplicity[order].astype(np.float64)

    def values_at(self, rows: np.ndarray) -> np.ndarray:
        with ScratchTables(self.store) as scratch:
            counter = SignatureCounter(scratch, len(self.columns))
            places = {f"p{place}": rows[:, place] for place in range(rows.shape[1])}
            listed = scratch.load({"i": np.arange(len(rows)), **places})
            codes = counter.fetch_codes(str(listed), len(rows), self._functions(scratch, None))
        return self._values(counter, codes)

    def _functions(self, scratch: ScratchTables, world: int | None) -> list[StoredFunction]:
        """Return one function for each set of axes, restricted to one world if it is given."""
        types = self.data.predicates[self.predicate].types
        found = []
        for axes, members in group_columns(self.columns).items():
            where = ""
            if world is not None and self.data.num_worlds > 1:
                low, high = self.data.offset[types[axes[0]]][world : world + 2]
                where = f" WHERE k0 >= {low} AND k0 < {high}"
            keys = ", ".join(f"k{at} AS p{axis}" for at, axis in enumerate(axes))
            parts = [
                StoredFunction(
                    axes,
                    (number,),
                    f"(SELECT {keys}, n AS g{number} FROM {self.columns[number].factor} t{where})",
                )
                for number in members
            ]
            found.append(unite_functions(scratch, parts))
        return found

    def _values(self, counter: SignatureCounter, codes: np.ndarray) -> np.ndarray:
        """Return float64[n, num_columns], the values of codes."""
        values = np.empty(codes.shape)
        for number, known in enumerate(counter.codes.values):
            values[:, number] = np.array([float(value) for value in known])[codes[:, number]]
        return values
