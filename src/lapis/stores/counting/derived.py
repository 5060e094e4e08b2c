"""The extension of a derived predicate as a table of the store that its world is on.

As in `derived`: W(x) is a constant plus signed terms, and what is listed are the x whose terms
outweigh the constant, or cancel it. Only the constant is known here.
"""

from __future__ import annotations

from functools import reduce

from lapis.relational.algebra import Expression, Join, Project, Universe
from lapis.relational.plan import Plan, Term
from lapis.stores.load_to_store import StoredExtension, StoredWorld, TableRows, fresh_name
from lapis.stores.sql import bound
from lapis.stores.store_engine import StoreEngine, exact_type


def derive_stored(plan: Plan, types: tuple[str, ...], world: StoredWorld) -> StoredExtension:
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
    plan: Plan,
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


def _product(term: Term, plan: Plan) -> Expression | None:
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
