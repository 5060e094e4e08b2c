"""Run plans on a store: the relations of a world are tables, the results are factors.

Engines whose widest integers have 38 digits compute larger counts modulo m1, m2, …, coprime and
below 2^61. Then a product of two remainders, and a sum of 2^60 remainders, has at most 37 digits.
By the Chinese remainder theorem the remainders determine a value below m1·m2·….

The tuples with a positive sum of a plan become a table too (`find_positive`). The sum is a constant
plus signed terms. Tuples are listed whose terms make the sum positive or, if the constant alone is
positive, those whose terms cancel it. Only the constant is computed outside the store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.differences.signed_conjunctions import FlipTarget
from lapis.counting.totals import WeightKeys
from lapis.data.lazy_database import LazyDomain
from lapis.errors import TooLarge
from lapis.logic.clauses import Feature
from lapis.problem.problem import LazyEvidence, Problem
from lapis.relational.algebra import Expression, Join, Project, Universe
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.query_plan import FactorProduct, QueryPlan, Term, fold_scalars
from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import (
    LoadedNames,
    LoadedRows,
    StoredExtension,
    TableNames,
    TableRows,
    store_extension,
)
from lapis.stores.sql import Integer, SqlWriter, upper_bound, write_parts
from lapis.stores.store import Columns, Store, StoredTable, fetch_all, new_table_name

if TYPE_CHECKING:
    from lapis.stores.counting.stored_differences import StoredDifferences


class StoreEngine:
    """Runs plans on a world. Relations in memory are loaded when a plan first uses them."""

    def __init__(self, world: Interpretation, store: Store) -> None:
        self.world = world
        self.store = store
        self._loaded: dict[tuple[str, str], LoadedRows | LoadedNames] = {}

    def run(self, plan: QueryPlan) -> list[FactorProduct]:
        """Return the value of each term of a plan."""
        parts = _parts(plan)
        known = dict(zip(parts, self._evaluate(parts, plan), strict=True)) if parts else {}
        return [
            fold_scalars(term.coefficient * term.multiplier, [known[part] for part in term.parts])
            for term in plan.terms
        ]

    def statements(self, plan: QueryPlan) -> list[str]:
        """Write the SQL of a plan: one statement, or one for each modulus."""
        parts = _parts(plan)
        if not parts:
            return []
        largest = self._bound(parts, plan)
        return [self._write(parts, plan, integer) for integer in self._integers(largest)]

    def source(self, part: Expression, plan: QueryPlan) -> str:
        """Write a query, in parentheses, of the rows of one part: c0, c1, … and n."""
        integer = exact_type(self._bound([part], plan), self.store.dialect)
        writer = SqlWriter(plan, self, self.store.dialect, Integer(integer))
        name = writer.name(part)
        return f"({writer.definitions()}SELECT * FROM {name})"

    def total(self, part: Expression, plan: QueryPlan) -> int:
        """Return the value of a part without variables."""
        (factor,) = self._evaluate([part], plan)
        return factor.total()

    def close(self) -> None:
        """Drop the loaded tables."""
        for loaded in self._loaded.values():
            self.store.drop(loaded.table.name)
        self._loaded.clear()

    def relation_table(self, name: str) -> StoredTable:
        extension = self.world.relations[name]
        if isinstance(extension, StoredExtension):
            return extension.rows.table
        if ("relation", name) not in self._loaded:
            self._loaded["relation", name] = LoadedRows(self.store, extension.tuples)
        return self._loaded["relation", name].table

    def domain_table(self, type_name: str) -> StoredTable:
        domain = self.world.domains[type_name]
        if isinstance(domain, LazyDomain) and isinstance(domain.stored, TableNames):
            return domain.stored.table
        if ("domain", type_name) not in self._loaded:
            self._loaded["domain", type_name] = LoadedNames(self.store, domain)
        return self._loaded["domain", type_name].table

    def _bound(self, parts: Sequence[Expression], plan: QueryPlan) -> int:
        return max(upper_bound(part, plan, self.world) for part in parts)

    def _integers(self, largest: int) -> list[Integer]:
        """Choose the type for values up to `largest`, or moduli if there is none."""
        dialect = self.store.dialect
        fitting = dialect.integer(largest)
        if fitting is not None:
            return [Integer(fitting)]
        return [Integer(dialect.wide, modulus) for modulus in choose_moduli(largest)]

    def _write(self, parts: Sequence[Expression], plan: QueryPlan, integer: Integer) -> str:
        return write_parts(parts, plan, self, self.store.dialect, integer)

    def _evaluate(self, parts: Sequence[Expression], plan: QueryPlan) -> Iterator[Factor]:
        integers = self._integers(self._bound(parts, plan))
        runs = [fetch_all(self.store, self._write(parts, plan, integer)) for integer in integers]
        columns = runs[0]
        if len(runs) > 1:
            runs = [_in_order(run) for run in runs]
            modulus = [integer.modulus or 0 for integer in integers]
            columns = {**runs[0], "n": combine_remainders([run["n"] for run in runs], modulus)}
        for number, part in enumerate(parts):
            mine = slice(None) if len(parts) == 1 else columns["part"] == number
            value = columns["n"][mine]
            rows = np.empty((len(value), len(part.variables)), np.int32)
            for position in range(rows.shape[1]):
                rows[:, position] = columns[f"c{position}"][mine]
            yield Factor(part.variables, rows, narrow_integers(value))


def exact_type(largest: int, dialect: Dialect) -> str:
    """Return the type for values up to `largest`. Raises TooLarge if there is none."""
    found = dialect.integer(largest)
    if found is None:
        raise TooLarge(
            f"counts of up to {len(str(largest))} digits do not fit the integers of {dialect.name}",
            code="too-wide",
            hint="use --engine postgresql://…, or work in memory",
        )
    return found


def _parts(plan: QueryPlan) -> list[Expression]:
    return list(dict.fromkeys(part for term in plan.terms for part in term.parts))


def _in_order(columns: Columns) -> dict[str, np.ndarray]:
    """Sort rows by part and codes, so that the runs of a statement agree."""
    order = np.lexsort([column for name, column in columns.items() if name != "n"])
    return {name: column[order] for name, column in columns.items()}


LARGEST = 2**61 - 1


def choose_moduli(bound: int) -> list[int]:
    """Return coprime numbers whose product exceeds the bound."""
    found: list[int] = []
    product = 1
    for candidate in range(LARGEST, 2, -2):
        if product > bound:
            break
        if math.gcd(candidate, product) == 1:
            found.append(candidate)
            product *= candidate
    return found


def combine_remainders(remainders: Sequence[np.ndarray], modulus: Sequence[int]) -> np.ndarray:
    """Return object[n]: the smallest integers ≥ 0 with these remainders, n of each modulus."""
    product = math.prod(modulus)
    total = np.zeros(len(remainders[0]), object)
    for remainder, number in zip(remainders, modulus, strict=True):
        others = product // number
        total += remainder.astype(object) * (others * pow(others, -1, number))
    total %= product
    return total


@dataclass(frozen=True, eq=False)
class StoredWorld(Interpretation):
    """A world whose relations are tables of a store. Added relations are loaded."""

    store: Store

    def with_relation(self, name: str, extension: Extension) -> StoredWorld:
        added = store_extension(self.store, extension)
        return replace(self, relations={**self.relations, name: added})

    def run(self, plan: QueryPlan) -> list[FactorProduct]:
        return StoreEngine(self, self.store).run(plan)

    def explain_run(self, plan: QueryPlan) -> list[str]:
        return StoreEngine(self, self.store).statements(plan)

    def find_positive(self, plan: QueryPlan, types: tuple[str, ...]) -> StoredExtension:
        return find_positive(plan, types, self)

    def differences(
        self, target: FlipTarget, features: Sequence[Feature], keys: WeightKeys
    ) -> StoredDifferences:
        """Compute the differences of features that are all direct (`differences.is_direct`)."""
        from lapis.stores.counting.stored_differences import stored_differences

        return stored_differences(self, target, features, keys)

    def read(self) -> Interpretation:
        """Read the world into memory. Raises TooLarge if a relation is too large."""
        return Interpretation(
            self.domains,
            {
                name: Extension(each.types, each.tuples, each.complemented)
                for name, each in self.relations.items()
            },
        )


def open_world(problem: Problem, store: Store) -> StoredWorld:
    """Return the world of a problem's true facts on the store that holds some of them."""
    relations = {}
    for name, known in problem.evidence.items():
        if isinstance(known, LazyEvidence) and isinstance(known.rows, TableRows):
            relations[name] = StoredExtension(known.predicate.types, known.rows)
        else:
            extension = Extension(known.predicate.types, known.true)
            relations[name] = store_extension(store, extension)
    return StoredWorld(problem.domains, relations, store)


def known_world(problem: Problem, store: Store) -> StoredWorld:
    """Return the world of the predicates whose atoms are all known."""
    whole = open_world(problem, store)
    known = {
        name: whole.relations[name]
        for name, evidence in problem.evidence.items()
        if not evidence.open and not len(evidence.unknown)
    }
    return replace(whole, relations=known)


def find_positive(plan: QueryPlan, types: tuple[str, ...], world: StoredWorld) -> StoredExtension:
    """Create the relation of the tuples for which the plan's terms sum to more than 0."""
    engine = StoreEngine(world, world.store)
    constant = 0
    listed: list[tuple[int, Expression]] = []
    for term in plan.terms:
        scale = term.coefficient * term.multiplier
        for part in term.parts:
            if not part.variables:
                scale *= engine.total(part, plan)
        whole = _product(term, plan)
        if whole is None:
            constant += scale
        else:
            listed.append((scale, whole))
    complemented = bool(plan.keep) and constant > 0
    select = _select(listed, constant, complemented, plan, engine)
    table = world.store.create(new_table_name("derived"), select)
    return StoredExtension(types, TableRows(world.store, table, len(types)), complemented)


def _select(
    listed: list[tuple[int, Expression]],
    constant: int,
    complemented: bool,
    plan: QueryPlan,
    engine: StoreEngine,
) -> str:
    if not plan.keep:
        return f"SELECT 1 AS n WHERE {'TRUE' if constant > 0 else 'FALSE'}"
    columns = ", ".join(f"c{place}" for place in range(len(plan.keep)))
    if not listed:
        cells = ", ".join(f"CAST(0 AS INTEGER) AS c{place}" for place in range(len(plan.keep)))
        return f"SELECT {cells} WHERE FALSE"
    largest = sum(abs(scale) * upper_bound(whole, plan, engine.world) for scale, whole in listed)
    integer = exact_type(max(largest, abs(constant)), engine.store.dialect)
    sums = " UNION ALL ".join(
        f"SELECT {columns}, CAST(n AS {integer}) * ({scale}) AS n "
        f"FROM {engine.source(whole, plan)} t{number}"
        for number, (scale, whole) in enumerate(listed)
    )
    test = f"{'=' if complemented else '>'} {-constant}"
    return f"SELECT {columns} FROM ({sums}) t GROUP BY {columns} HAVING sum(n) {test}"


def _product(term: Term, plan: QueryPlan) -> Expression | None:
    """Return Π of the parts over all kept variables in order; None if no part has variables."""
    parts = [part for part in term.parts if part.variables]
    if not parts:
        return None
    held = {name for part in parts for name in part.variables}
    types = dict(plan.variables)
    parts += [Universe(name, types[name]) for name in plan.keep if name not in held]
    return Project(reduce(_natural_join, parts), plan.keep)


def _natural_join(left: Expression, right: Expression) -> Expression:
    return Join(left, right, tuple(dict.fromkeys((*left.variables, *right.variables))))
