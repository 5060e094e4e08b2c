"""Connected components of a ground network on an engine, packed into parcels.

Components are found by random contraction (Bögeholz, Brand and Todor, "In-database connected
component analysis", ICDE 2020). In each round every vertex joins the smallest of its neighbours and
itself, in a random order h. Vertices that joined the same vertex become one:

    r(v)  = min of h(w) over w = v and the neighbours w of v
    E'    = {(r(v), r(w)) : (v, w) in E, r(v) ≠ r(w)}

until no edge is left. A round leaves at most 3/4 of the vertices in expectation, so all rounds cost
a few times the first one. With a fixed order a long path would need one round for each vertex.
Large-star/small-star, the alternative, keeps all vertices until the end. The labels are found
backwards through the rounds. A component's final label is its smallest vertex, which does not
depend on h.

h must be a bijection that every SQL engine computes alike. The paper multiplies in a field of 2^64
elements by a user-defined function; we use residues. By the Chinese remainder theorem x < p·q is
determined by (x mod p, x mod q), and

    h(x) = ((a·(x mod p) + b·(x mod q) + c) mod p)·q + x mod q

is one-to-one for a ≠ 0 and fits 64 bits. The vertices of the next round are the values of h.

Deviation: as soon as few edges are left, they are fetched and labelled in memory. On a cluster a
round takes seconds however few edges are left, and most rounds have few.

A parcel is a batch of whole components that one worker solves. The hash of a component's label
selects its parcel: no engine has to sort, and all engines pack alike. Parcels of small components
have about equal sizes. A component that needs more memory than a worker has is refused before
anything is solved. The error names the predicates whose evidence, and the rules whose removal,
would split it; they are found by labelling the components that would be left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.errors import TooLarge
from lapis.grounding.assembly import HARD
from lapis.problem.problem import Problem
from lapis.runtime.limits import format_bytes
from lapis.runtime.progress import Progress, Report, Stop, report_progress
from lapis.stores.grounding.ground_on_store import GroundTables
from lapis.stores.grounding.stored_atoms import DEFINITION
from lapis.stores.store import ScratchTables, StoredTable, fetch_all, fetch_number

P, Q = 2**31 - 1, 2**31 - 19  # primes
MOST_VERTEX = P * Q
FEW_EDGES = 1 << 20  # that are fetched
BYTES_A_LITERAL = 400  # of a component's network, its incidences and the state of inference
MOST_TRIED = 8  # predicates, and as many rules
ENOUGH = 4  # a suggested split divides the number of atoms at least by this
PARCEL_LITERALS = 1 << 17  # of a parcel of small components
TASK_MEMORY = 1 << 32  # bytes
LITERALS_DEFINED = 4  # of a definition and its hard clauses, for each literal of the definition


@dataclass(frozen=True)
class StoreLimits:
    """How work is divided, reported and stopped. The answers do not depend on it."""

    parcel_literals: int = PARCEL_LITERALS
    few_edges: int = FEW_EDGES
    jobs: int | None = None  # processes, for engines without tasks
    progress: Report | None = None
    stop: Stop | None = None


@dataclass(frozen=True)
class PackedComponents:
    """The rows of all components, with the numbers of their parcels."""

    rows: StoredTable | None  # parcel, component, weight, piece, n, l0 …; None if there are none
    num_parcels: int
    num_components: int  # with at least one row


def pack_components(
    scratch: ScratchTables,
    ground: GroundTables,
    problem: Problem,
    max_memory: int | None,
    limits: StoreLimits,
) -> PackedComponents:
    """Find the components and assign each to a parcel.

    Raises TooLarge (`component-too-large`) if one exceeds the memory of a worker.
    """
    if not ground.num_rows:
        return PackedComponents(None, 0, 0)
    edges = scratch.create(select_edges(ground))
    labels = label_components(scratch, edges, limits.few_edges, limits.progress)
    report_progress(
        limits.progress, Progress("packing", 0, text=f"{ground.num_rows:,} ground clauses")
    )
    literals = [f"l{i}" for i in range(ground.width)]
    columns = ", ".join(f"r.{name}" for name in ("weight", "piece", "n", *literals))
    rows = scratch.create(
        f"SELECT coalesce(l.component, abs(r.l0) - 1) AS component, {columns} "
        f"FROM ({ground.every_row()}) r LEFT JOIN {labels} l ON l.vertex = abs(r.l0) - 1",
    )
    length = " + ".join(f"CASE WHEN {name} <> 0 THEN 1 ELSE 0 END" for name in literals)
    times = f"CASE WHEN weight = {DEFINITION} THEN {LITERALS_DEFINED} ELSE 1 END"
    sizes = scratch.create(
        f"SELECT component, CAST(sum(({length}) * {times}) AS BIGINT) AS literals FROM {rows} "
        "GROUP BY component",
    )
    found = fetch_all(
        scratch.store,
        f"SELECT CAST(sum(literals) AS BIGINT) AS total, max(literals) AS largest FROM {sizes}",
    )
    total, largest = int(found["total"][0]), int(found["largest"][0])
    memory = TASK_MEMORY if max_memory is None else max_memory
    if largest * BYTES_A_LITERAL > memory:
        label = fetch_number(
            scratch.store,
            f"SELECT min(component) AS n FROM {sizes} WHERE literals = {largest}",
        )
        component = scratch.create(f"SELECT * FROM {rows} WHERE component = {label}")
        raise component_too_large(scratch, ground, problem, component, largest, memory)
    num_parcels = -(-total // limits.parcel_literals)
    mixed = f"(1103515245 * (component % {P}) + 134775813 * (component % {Q})) % {P}"
    packed = scratch.create(f"SELECT ({mixed}) % {num_parcels} AS parcel, r.* FROM {rows} r")
    scratch.drop(labels, rows, sizes)
    return PackedComponents(packed, num_parcels, sizes.rows)


def select_edges(ground: GroundTables) -> str:
    """Write a SELECT of pairs of atoms (v, w) that share a clause, a block or a definition.

    They are the first atom of a row with each other atom of the row, the smallest first atom of a
    clause in pieces with the first atom of each piece, and the atom that names a block or a
    definition with its members.
    """
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
        selects.append(f"SELECT v - 1 AS v, w - 1 AS w FROM ({select_piece_edges(every)}) p")
    return " UNION ALL ".join(selects)


def select_piece_edges(rows: str) -> str:
    """Write a SELECT of pairs (v, w), atom + 1: first literals of the pieces of one clause."""
    pieces = (
        f"SELECT weight, piece, abs(l0) AS w FROM ({rows}) r WHERE piece >= 0 AND weight >= {HARD}"
    )
    first = f"SELECT w, min(w) OVER (PARTITION BY weight, piece) AS v FROM ({pieces}) q"
    return f"SELECT v, w FROM ({first}) f WHERE v <> w"


def label_components(
    scratch: ScratchTables,
    edges: StoredTable,
    few_edges: int = FEW_EDGES,
    progress: Report | None = None,
) -> StoredTable:
    """Create a table (vertex, component) of all vertices of edges (v, w); drop the edges.

    The label of a component is its smallest vertex. Vertices are in [0, MOST_VERTEX).
    """
    rounds: list[StoredTable] = []
    report_progress(progress, Progress("connecting", 0, text=f"{edges.rows:,} edges"))
    while edges.rows > few_edges:
        joined, edges = contract_edges(scratch, edges, len(rounds))
        rounds.append(joined)
        report_progress(progress, Progress("connecting", len(rounds), text=f"{edges.rows:,} edges"))
    labels = label_in_memory(scratch, edges)
    for joined in reversed(rounds):
        last, labels = (
            labels,
            scratch.create(
                "SELECT s.vertex AS vertex, coalesce(l.component, s.joined) AS component "
                f"FROM {joined} s LEFT JOIN {labels} l ON l.vertex = s.joined"
            ),
        )
        scratch.drop(joined, last)
    # After a round, labels are values of h: replace each by the smallest vertex.
    smallest = scratch.create(
        f"SELECT component, min(vertex) AS vertex FROM {labels} GROUP BY component"
    )
    found = scratch.create(
        f"SELECT l.vertex AS vertex, s.vertex AS component FROM {labels} l "
        f"JOIN {smallest} s ON s.component = l.component"
    )
    scratch.drop(labels, smallest)
    return found


def contract_edges(
    scratch: ScratchTables, edges: StoredTable, number: int
) -> tuple[StoredTable, StoredTable]:
    """Run one round: create (vertex, joined), and the edges (v, w) that are left."""
    draw = np.random.default_rng(number)
    a, b, c = (int(draw.integers(1, 2**30)) for _ in range(3))

    def h(column: str) -> str:
        mixed = f"({a} * ({column} % {P}) + {b} * ({column} % {Q}) + {c}) % {P}"
        return f"(({mixed}) * {Q} + {column} % {Q})"

    both = f"SELECT v, {h('w')} AS h FROM {edges} UNION ALL SELECT w, {h('v')} FROM {edges}"
    joined = scratch.create(
        f"SELECT v AS vertex, least(min(h), {h('v')}) AS joined FROM ({both}) e GROUP BY v"
    )
    left = scratch.create(
        "SELECT DISTINCT least(a.joined, b.joined) AS v, greatest(a.joined, b.joined) AS w "
        f"FROM {edges} e JOIN {joined} a ON a.vertex = e.v JOIN {joined} b ON b.vertex = e.w "
        "WHERE a.joined <> b.joined"
    )
    scratch.drop(edges)
    return joined, left


def label_in_memory(scratch: ScratchTables, edges: StoredTable) -> StoredTable:
    """Create (vertex, component) of few edges; drop the edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found = fetch_all(scratch.store, f"SELECT v, w FROM {edges}")
    v, w = (found[column].astype(np.int64) for column in "vw")
    vertex, place = np.unique(np.concatenate((v, w)), return_inverse=True)
    label = np.empty(0, np.int64)
    if len(vertex):
        pairs = place[: len(v)], place[len(v) :]
        graph = coo_array((np.ones(len(v), bool), pairs), (len(vertex), len(vertex)))
        _, label = connected_components(graph, directed=False)
    _, first = np.unique(label, return_index=True)
    scratch.drop(edges)
    return scratch.load({"vertex": vertex, "component": vertex[first[label]]})


def component_too_large(
    scratch: ScratchTables,
    ground: GroundTables,
    problem: Problem,
    component: StoredTable,
    num_literals: int,
    memory: int,
) -> TooLarge:
    """Return the error about a component, given by its rows, that needs too much memory."""
    every = " UNION ".join(
        f"SELECT abs(l{i}) AS atom FROM {component} WHERE l{i} <> 0" for i in range(ground.width)
    )
    num_atoms = fetch_number(scratch.store, f"SELECT count(*) AS n FROM ({every}) a")
    long = f"SELECT DISTINCT weight, piece FROM {component} WHERE piece >= 0"
    num_clauses = fetch_number(
        scratch.store,
        f"SELECT (SELECT count(*) FROM {component} WHERE piece < 0) + "
        f"(SELECT count(*) FROM ({long}) l) AS n",
    )
    splits = find_splits(scratch, ground, problem, component)
    hints = [
        f"{action} would leave components of at most {left:,} atom{'' if left == 1 else 's'}"
        for left, action in sorted(splits, key=lambda split: split[0])[:2]
        if left * ENOUGH <= num_atoms
    ]
    return TooLarge(
        f"a connected component has {num_atoms:,} unknown atoms and {num_clauses:,} ground "
        f"clauses; about {format_bytes(num_literals * BYTES_A_LITERAL)} of memory, over the "
        f"limit of {format_bytes(memory)} for a task",
        code="component-too-large",
        hint="; ".join([*hints, "or raise --max-memory" if hints else "raise --max-memory"]),
    )


def find_splits(
    scratch: ScratchTables, ground: GroundTables, problem: Problem, rows: StoredTable
) -> list[tuple[int, str]]:
    """List what would split a component: (atoms of the largest part that is left, action)."""
    found: list[tuple[int, str]] = []
    for name, listing in list(ground.unknown.items())[:MOST_TRIED]:
        first, last = listing.numbers.start + 1, listing.numbers.stop
        is_left = f"abs({{}}) NOT BETWEEN {first} AND {last}"
        found.append((largest_part(scratch, ground, rows, is_left, ""), f"evidence on '{name}'"))
    offset = problem.weight_table.offset
    soft = [number for number, rule in enumerate(problem.model.rules) if not rule.hard]
    for number in soft[:MOST_TRIED]:
        others = f" AND weight NOT BETWEEN {offset[number]} AND {offset[number + 1] - 1}"
        left = largest_part(scratch, ground, rows, "{} <> 0", others)
        found.append((left, f"leaving out '{problem.model.rules[number].text}'"))
    return found


def largest_part(
    scratch: ScratchTables, ground: GroundTables, rows: StoredTable, is_left: str, where: str
) -> int:
    """Count the atoms of the largest component of the literals that are left in some rows."""
    selects = [
        f"SELECT abs(l{i}) AS v, abs(l{j}) AS w FROM {rows} WHERE l{i} <> 0 AND l{j} <> 0 "
        f"AND {is_left.format(f'l{i}')} AND {is_left.format(f'l{j}')}{where}"
        for i in range(ground.width)
        for j in range(i + 1, ground.width)
    ]
    first_left = f"{is_left.format('l0')}{where}"
    selects.append(
        f"SELECT piece + 1 AS v, abs(l0) AS w FROM {rows} WHERE weight < {HARD} AND {first_left}"
    )
    if ground.in_pieces:
        selects.append(select_piece_edges(f"SELECT * FROM {rows} WHERE {first_left}"))
    labels = label_components(scratch, scratch.create(" UNION ALL ".join(selects)))
    size = fetch_number(
        scratch.store,
        "SELECT coalesce(max(size), 1) AS n FROM "
        f"(SELECT count(*) AS size FROM {labels} GROUP BY component) s",
    )
    scratch.drop(labels)
    return size
