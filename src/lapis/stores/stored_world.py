"""A world whose relations are tables of a store: plans run there.

The x with a positive sum of a plan are a table too. The sum is a constant plus signed terms. What
is listed are the x whose terms outweigh the constant, or cancel it. Only the constant is computed
outside the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from lapis.counting.differences.differences import FlipTarget
from lapis.counting.totals import WeightKeys
from lapis.logic.clauses import Feature
from lapis.problem.problem import LazyEvidence, Problem
from lapis.relational.algebra import Expression, Join, Project, Universe
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan import FactorProduct, QueryPlan, Term
from lapis.stores.load_to_store import StoredExtension, TableRows, fresh_name, store_extension
from lapis.stores.sql import bound
from lapis.stores.store import Store
from lapis.stores.store_engine import StoreEngine, exact_type

if TYPE_CHECKING:
    from lapis.stores.counting.differences import StoredDifferences


@dataclass(frozen=True, eq=False)
class StoredWorld(Interpretation):
    """A world whose relations are tables of a store, also those that are added."""

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
        """The differences of features that all are direct."""
        from lapis.stores.counting.differences import stored_differences

        return stored_differences(self, target, features, keys)

    def read(self) -> Interpretation:
        """The same world in memory, if its relations are few enough."""
        return Interpretation(
            self.domains,
            {
                name: Extension(each.types, each.tuples, each.complemented)
                for name, each in self.relations.items()
            },
        )


def open_world(problem: Problem, store: Store) -> StoredWorld:
    """The world of a problem's true facts on the store that has some of them."""
    relations = {}
    for name, known in problem.evidence.items():
        if isinstance(known, LazyEvidence) and isinstance(known.rows, TableRows):
            relations[name] = StoredExtension(known.predicate.types, known.rows)
        else:
            here = Extension(known.predicate.types, known.true)
            relations[name] = store_extension(store, here)
    return StoredWorld(problem.domains, relations, store)


def find_positive(plan: QueryPlan, types: tuple[str, ...], world: StoredWorld) -> StoredExtension:
    """The x for which the plan's terms sum to more than 0, or those for which they do not."""
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
    table = world.store.create(fresh_name("derived"), select)
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
    largest = sum(abs(scale) * bound(whole, plan, engine.world) for scale, whole in listed)
    integer = exact_type(max(largest, abs(constant)), engine.store.dialect)
    sums = " UNION ALL ".join(
        f"SELECT {columns}, CAST(n AS {integer}) * ({scale}) AS n "
        f"FROM {engine.source(whole, plan)} t{number}"
        for number, (scale, whole) in enumerate(listed)
    )
    wanted = f"{'=' if complemented else '>'} {-constant}"
    return f"SELECT {columns} FROM ({sums}) t GROUP BY {columns} HAVING sum(n) {wanted}"


def _product(term: Term, plan: QueryPlan) -> Expression | None:
    """Π of the parts over all kept variables, in their order; None if no part has any."""
    parts = [part for part in term.parts if part.variables]
    if not parts:
        return None
    held = {name for part in parts for name in part.variables}
    types = dict(plan.variables)
    parts += [Universe(name, types[name]) for name in plan.keep if name not in held]
    return Project(reduce(_join, parts), plan.keep)


def _join(left: Expression, right: Expression) -> Expression:
    return Join(left, right, tuple(dict.fromkeys((*left.variables, *right.variables))))
