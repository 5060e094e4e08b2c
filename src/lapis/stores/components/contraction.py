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
"""

from __future__ import annotations

import numpy as np

from lapis.runtime.progress import Progress, Report, tell
from lapis.stores.store import Store, Table, fetch_all

P, Q = 2**31 - 1, 2**31 - 19  # primes
MOST_VERTEX = P * Q
FEW_EDGES = 1 << 20  # are fetched


def connect(
    store: Store,
    edges: Table,
    name: str,
    few: int = FEW_EDGES,
    progress: Report | None = None,
) -> Table:
    """A table (vertex, component) of all vertices of edges (v, w); the edges are dropped.

    A component is called by its smallest vertex. Vertices are at least 0 and below MOST_VERTEX.
    """
    rounds: list[Table] = []
    tell(progress, Progress("connecting", 0, text=f"{edges.rows:,} edges"))
    while edges.rows > few:
        joined, edges = contract(store, edges, f"{name} {len(rounds)}", len(rounds))
        rounds.append(joined)
        tell(progress, Progress("connecting", len(rounds), text=f"{edges.rows:,} edges"))
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


def contract(store: Store, edges: Table, name: str, number: int) -> tuple[Table, Table]:
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


def connect_here(store: Store, edges: Table, name: str) -> Table:
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


def follow(store: Store, step: Table, labels: Table, name: str) -> Table:
    """Labels of a round's vertices, from those of what they joined; without one that is theirs."""
    found = store.create(
        name,
        "SELECT s.vertex AS vertex, coalesce(l.component, s.joined) AS component "
        f"FROM {step} s LEFT JOIN {labels} l ON l.vertex = s.joined",
    )
    for table in (step, labels):
        store.drop(table.name)
    return found
