"""Connected components on an engine, by random contraction.

Each round every vertex joins the smallest of its neighbours and itself, in an order that is drawn
anew; what joined the same vertex becomes one vertex, and edges inside it go:

    r(v)  = min of h(w) over w = v and the neighbours w of v
    E'    = {(r(v), r(w)) : (v, w) in E, r(v) ≠ r(w)}

until no edge is left (Bögeholz, Brand and Todor, In-database connected component analysis, ICDE
2020). Whatever the graph, a round leaves at most 3/4 of the vertices in expectation, so that all
rounds together cost a few times the first one; a fixed order would take as many rounds as a long
path has vertices, and large-star/small-star, which keeps all vertices until the end, moves the
whole graph each time. The label of a vertex is found backwards through the rounds, and is the
smallest vertex of its component in the end: no draw shows in it.

h must be a bijection that SQL computes the same way everywhere. The paper multiplies in a field of
2^64 elements by a user-defined function; we take residues. By the Chinese remainder theorem x < p·q
is (x mod p, x mod q), and

    h(x) = ((a·(x mod p) + b·(x mod q) + c) mod p)·q + x mod q

is one-to-one for a ≠ 0, stays in 64 bits, and is an affine function of one coordinate. The vertices
of the next round are the values of h, which are not turned back.

Deviation: as soon as the edges that are left fit here they are fetched and joined by union–find.
On a cluster a round costs seconds however little is left, and most rounds have little left.

A component too large for a task: how large, and what would split it.

Two things can be done about it, and both are tried on the component's rows: to know the atoms of a
predicate, which takes them out of the network, and to do without a rule, which takes its clauses.
For each the components that would be left are found as they were before, and the best are said.

Rows of a ground network into parcels: whole components, of about the same size each.

A component goes to a parcel by a hash of its name, its smallest atom. So no engine has to sort or
to add up sizes in an order, and all of them pack alike; by the law of large numbers parcels come
out even where components are small, and a parcel with a large component is large anyway. What is
larger than the memory of a task is refused before anything is solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.grounding.assembly import HARD
from lapis.grounding.limits import format_bytes
from lapis.problem.problem import Problem
from lapis.runtime.progress import Progress, Report, Stop, report_progress
from lapis.stores.components.rows import DEFINITION
from lapis.stores.grounding.session import GroundTables
from lapis.stores.store import Store, StoredTable, fetch_all, fetch_number

P, Q = 2**31 - 1, 2**31 - 19  # primes
MOST_VERTEX = P * Q
FEW_EDGES = 1 << 20  # are fetched


def connect(
    store: Store,
    edges: StoredTable,
    name: str,
    few: int = FEW_EDGES,
    progress: Report | None = None,
) -> StoredTable:
    """A table (vertex, component) of all vertices of edges (v, w); the edges are dropped.

    A component is called by its smallest vertex. Vertices are at least 0 and below MOST_VERTEX.
    """
    rounds: list[StoredTable] = []
    report_progress(progress, Progress("connecting", 0, text=f"{edges.rows:,} edges"))
    while edges.rows > few:
        joined, edges = contract(store, edges, f"{name} {len(rounds)}", len(rounds))
        rounds.append(joined)
        report_progress(progress, Progress("connecting", len(rounds), text=f"{edges.rows:,} edges"))
    labels = connect_here(store, edges, f"{name} last")
    for step in reversed(rounds):
        labels = follow(store, step, labels, f"{step.name} labels")
    # A vertex that is no longer the smallest of its atoms, but a value of h, is called anew.
    smallest = store.create(
        f"{name} smallest",
        f"SELECT component, min(vertex) AS vertex FROM {labels} GROUP BY component",
    )
    found = store.create(
        name,
        f"SELECT l.vertex AS vertex, s.vertex AS component FROM {labels} l "
        f"JOIN {smallest} s ON s.component = l.component",
    )
    for table in (labels, smallest):
        store.drop(table.name)
    return found


def contract(
    store: Store, edges: StoredTable, name: str, number: int
) -> tuple[StoredTable, StoredTable]:
    """One round: what each vertex joins (vertex, joined), and the edges between what is left."""
    draw = np.random.default_rng(number)
    a, b, c = (int(draw.integers(1, 2**30)) for _ in range(3))

    def place(column: str) -> str:
        mixed = f"({a} * ({column} % {P}) + {b} * ({column} % {Q}) + {c}) % {P}"
        return f"(({mixed}) * {Q} + {column} % {Q})"

    both = f"SELECT v, {place('w')} AS h FROM {edges} UNION ALL SELECT w, {place('v')} FROM {edges}"
    joined = store.create(
        f"{name} joined",
        f"SELECT v AS vertex, least(min(h), {place('v')}) AS joined FROM ({both}) e GROUP BY v",
    )
    left = store.create(
        f"{name} edges",
        "SELECT DISTINCT least(a.joined, b.joined) AS v, greatest(a.joined, b.joined) AS w "
        f"FROM {edges} e JOIN {joined} a ON a.vertex = e.v JOIN {joined} b ON b.vertex = e.w "
        "WHERE a.joined <> b.joined",
    )
    store.drop(edges.name)
    return joined, left


def connect_here(store: Store, edges: StoredTable, name: str) -> StoredTable:
    """(vertex, component) of few edges."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found = fetch_all(store, f"SELECT v, w FROM {edges}")
    v, w = (found[column].astype(np.int64) for column in "vw")
    vertex, place = np.unique(np.concatenate((v, w)), return_inverse=True)
    pairs = place[: len(v)], place[len(v) :]
    size = len(vertex)
    label = np.empty(0, np.int64)
    if size:
        graph = coo_array((np.ones(len(v), bool), pairs), (size, size))
        _, label = connected_components(graph, directed=False)
    _, first = np.unique(label, return_index=True)
    store.drop(edges.name)
    return store.load(name, {"vertex": vertex, "component": vertex[first[label]]})


def follow(store: Store, step: StoredTable, labels: StoredTable, name: str) -> StoredTable:
    """Labels of a round's vertices, from those of what they joined; without one that is theirs."""
    found = store.create(
        name,
        "SELECT s.vertex AS vertex, coalesce(l.component, s.joined) AS component "
        f"FROM {step} s LEFT JOIN {labels} l ON l.vertex = s.joined",
    )
    for table in (step, labels):
        store.drop(table.name)
    return found


BYTES_A_LITERAL = 400  # of a component's network, its incidences and what inference keeps
MOST_TRIED = 8  # predicates, and as many rules
ENOUGH = 4  # by which a split has to make it smaller


class Largest(NamedTuple):
    """Where the largest component is."""

    sizes: StoredTable  # component, literals
    rows: StoredTable  # component, weight, piece, n, l0 …
    literals: int


class ComponentSplit(NamedTuple):
    """What would split a component, and the atoms of the largest one that would be left."""

    text: str
    left: int


def refuse_large(
    store: Store, ground: GroundTables, problem: Problem, largest: Largest, memory: int
) -> None:
    """Refuse a component that needs more than so many bytes."""
    name = fetch_number(
        store,
        f"SELECT min(component) AS n FROM {largest.sizes} WHERE literals = {largest.literals}",
    )
    rows = store.create("largest", f"SELECT * FROM {largest.rows} WHERE component = {name}")
    columns = [f"l{i}" for i in range(ground.width)]
    every = " UNION ".join(
        f"SELECT abs({column}) AS atom FROM {rows} WHERE {column} <> 0" for column in columns
    )
    num_atoms = fetch_number(store, f"SELECT count(*) AS n FROM ({every}) a")
    long = f"SELECT DISTINCT weight, piece FROM {rows} WHERE piece >= 0"
    num_clauses = fetch_number(
        store,
        f"SELECT (SELECT count(*) FROM {rows} WHERE piece < 0) + "
        f"(SELECT count(*) FROM ({long}) l) AS n",
    )
    splits = find_splits(store, ground, problem, rows)
    best = sorted(splits, key=lambda split: split.left)[:2]
    helpful = [split for split in best if split.left * ENOUGH <= num_atoms]
    told = [
        f"{split.text} would leave components of at most {split.left:,} atom"
        f"{'' if split.left == 1 else 's'}"
        for split in helpful
    ]
    raise TooLarge(
        f"a connected component has {num_atoms:,} unknown atoms and {num_clauses:,} ground "
        f"clauses; about {format_bytes(largest.literals * BYTES_A_LITERAL)} of memory, over the "
        f"limit of {format_bytes(memory)} for a task",
        code="component-too-large",
        hint="; ".join([*told, "or raise --max-memory" if told else "raise --max-memory"]),
    )


def find_splits(
    store: Store, ground: GroundTables, problem: Problem, rows: StoredTable
) -> list[ComponentSplit]:
    """What each predicate's evidence, and each rule's absence, would leave."""
    found: list[ComponentSplit] = []
    for name, listing in list(ground.unknown.items())[:MOST_TRIED]:
        first, last = listing.numbers.start + 1, listing.numbers.stop
        left = largest_left(store, ground, rows, f"abs({{}}) NOT BETWEEN {first} AND {last}", "")
        found.append(ComponentSplit(f"evidence on '{name}'", left))
    offset = problem.weight_table.offset
    soft = [number for number, rule in enumerate(problem.model.rules) if not rule.hard]
    for number in soft[:MOST_TRIED]:
        own = f" AND weight NOT BETWEEN {offset[number]} AND {offset[number + 1] - 1}"
        left = largest_left(store, ground, rows, "{} <> 0", own)
        found.append(ComponentSplit(f"leaving out '{problem.model.rules[number].text}'", left))
    return found


def largest_left(
    store: Store, ground: GroundTables, rows: StoredTable, is_left: str, where: str
) -> int:
    """Atoms of the largest component of the literals that are left in some rows."""
    selects = [
        f"SELECT abs(l{i}) AS v, abs(l{j}) AS w FROM {rows} WHERE l{i} <> 0 AND l{j} <> 0 "
        f"AND {is_left.format(f'l{i}')} AND {is_left.format(f'l{j}')}{where}"
        for i in range(ground.width)
        for j in range(i + 1, ground.width)
    ]
    selects.append(
        f"SELECT piece + 1 AS v, abs(l0) AS w FROM {rows} WHERE weight < {HARD} "
        f"AND {is_left.format('l0')}{where}"
    )
    if ground.in_pieces:
        left = f"SELECT * FROM {rows} WHERE {is_left.format('l0')}{where}"
        selects.append(join_pieces(left))
    edges = store.create("edges left", " UNION ALL ".join(selects))
    labels = connect(store, edges, "labels left")
    found = fetch_all(
        store,
        "SELECT coalesce(max(size), 1) AS n FROM "
        f"(SELECT count(*) AS size FROM {labels} GROUP BY component) s",
    )
    store.drop(labels.name)
    return int(found["n"][0])


def join_pieces(rows: str) -> str:
    """A SELECT of pairs (v, w), atom + 1: the first literals of the pieces of one clause."""
    pieces = (
        f"SELECT weight, piece, abs(l0) AS w FROM ({rows}) r WHERE piece >= 0 AND weight >= {HARD}"
    )
    first = f"SELECT w, min(w) OVER (PARTITION BY weight, piece) AS v FROM ({pieces}) q"
    return f"SELECT v, w FROM ({first}) f WHERE v <> w"


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

    rows: StoredTable | None  # parcel, component, weight, piece, n, l0 …; None if there are none
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
    report_progress(
        limits.progress, Progress("packing", 0, text=f"{ground.num_rows:,} ground clauses")
    )
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
