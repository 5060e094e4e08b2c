"""Rows of a ground network into parcels: whole components, of about the same size each.

A component goes to a parcel by a hash of its name, its smallest atom. So no engine has to sort or
to add up sizes in an order, and all of them pack alike; by the law of large numbers parcels come
out even where components are small, and a parcel with a large component is large anyway. What is
larger than the memory of a task is refused before anything is solved.
"""

from __future__ import annotations

from dataclasses import dataclass

from lapis.grounding.assembly import HARD
from lapis.problem.problem import Problem
from lapis.runtime.progress import Progress, Report, Stop, tell
from lapis.stores.components.contraction import FEW_EDGES, P, Q, connect
from lapis.stores.components.rows import DEFINITION
from lapis.stores.components.splitting import BYTES_A_LITERAL, Largest, join_pieces, refuse_large
from lapis.stores.grounding.session import GroundTables
from lapis.stores.store import Store, Table, fetch_all

PARCEL_LITERALS = 1 << 17  # of a parcel, where components are small
TASK_MEMORY = 1 << 32  # bytes
LITERALS_DEFINED = 4  # of the definition and the hard clauses that each of its literals stands for


@dataclass(frozen=True)
class StoreLimits:
    """How work is divided, who hears of it and who may end it; answers do not depend on it."""

    parcel_literals: int = PARCEL_LITERALS
    few_edges: int = FEW_EDGES
    jobs: int | None = None  # processes, where the engine has no tasks
    progress: Report | None = None
    stop: Stop | None = None


@dataclass(frozen=True)
class Packed:
    """Parcels on a store: rows with the number of their parcel."""

    rows: Table | None  # parcel, component, weight, piece, n, l0 …; None if there are none
    num_parcels: int
    num_components: int  # that some row is of
    largest: int  # literals of the largest component


def pack(
    store: Store,
    ground: GroundTables,
    problem: Problem,
    max_memory: int | None,
    limits: StoreLimits,
) -> Packed:
    """Find components and give each a parcel.

    Raises TooLarge (`component-too-large`) where one does not fit in the memory of a task.
    """
    if not ground.num_rows:
        return Packed(None, 0, 0, 0)
    edges = store.create("edges", edges_of(ground))
    labels = connect(store, edges, "labels", limits.few_edges, limits.progress)
    tell(limits.progress, Progress("packing", 0, text=f"{ground.num_rows:,} ground clauses"))
    literals = [f"l{i}" for i in range(ground.width)]
    columns = ", ".join(f"r.{name}" for name in ("weight", "piece", "n", *literals))
    named = store.create(
        "rows by component",
        f"SELECT coalesce(l.component, abs(r.l0) - 1) AS component, {columns} "
        f"FROM ({ground.every_row()}) r LEFT JOIN {labels} l ON l.vertex = abs(r.l0) - 1",
    )
    length = " + ".join(f"CASE WHEN {name} <> 0 THEN 1 ELSE 0 END" for name in literals)
    times = f"CASE WHEN weight = {DEFINITION} THEN {LITERALS_DEFINED} ELSE 1 END"
    sizes = store.create(
        "component sizes",
        f"SELECT component, CAST(sum(({length}) * {times}) AS BIGINT) AS literals FROM {named} "
        "GROUP BY component",
    )
    found = fetch_all(
        store,
        f"SELECT CAST(sum(literals) AS BIGINT) AS total, max(literals) AS largest FROM {sizes}",
    )
    total, largest = int(found["total"][0]), int(found["largest"][0])
    memory = TASK_MEMORY if max_memory is None else max_memory
    if largest * BYTES_A_LITERAL > memory:
        refuse_large(store, ground, problem, Largest(sizes, named, largest), memory)
    num_parcels = -(-total // limits.parcel_literals)
    mixed = f"(1103515245 * (component % {P}) + 134775813 * (component % {Q})) % {P}"
    rows = store.create(
        "parcels", f"SELECT ({mixed}) % {num_parcels} AS parcel, n.* FROM {named} n"
    )
    for table in (named, sizes):
        store.drop(table.name)
    return Packed(rows, num_parcels, sizes.rows, largest)


def edges_of(ground: GroundTables) -> str:
    """Pairs of atoms (v, w) that share a row: the first atom of each row with the others, the
    smallest first atom of a clause in pieces with that of each piece, and the atom that names a
    block or definition with its members."""
    every = ground.every_row()
    selects = [
        f"SELECT abs(l0) - 1 AS v, abs(l{i}) - 1 AS w FROM ({every}) r "
        f"WHERE l{i} <> 0 AND abs(l{i}) <> abs(l0)"
        for i in range(1, ground.width)
    ]
    selects.append(
        f"SELECT piece AS v, abs(l0) - 1 AS w FROM ({every}) r "
        f"WHERE weight < {HARD} AND piece <> abs(l0) - 1"
    )
    if ground.in_pieces:
        selects.append(f"SELECT v - 1 AS v, w - 1 AS w FROM ({join_pieces(every)}) p")
    return " UNION ALL ".join(selects)
