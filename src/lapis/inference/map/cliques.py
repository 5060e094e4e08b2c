"""Cliques of conflicting literals: rows that make integer programs for MAP tight.

Hard conflicts. Literals that pairwise exclude each other satisfy Σ l ≤ 1, which is much tighter
than the pairs l + m ≤ 1 (all literals at 1/2 satisfy the pairs). Cliques are grown greedily until
every required conflict is in one; implied conflicts help to grow them. If a hard clause is such a
clique, exactly one of its literals holds: Σ l = 1. A hard clause with all literals but one in an
exactly-one group is equivalent to conflicts between the odd literal's negation and the rest of the
group.

Soft conflicts. If each pair of n literals costs the same w, k true ones cost w·k(k−1)/2: a convex
function of k = Σ l, which n − 1 rows express exactly, where n(n−1)/2 rows of pairs are loose. These
cliques share no pair. RockIt (Noessner, Niepert & Stuckenschmidt, AAAI 2013) aggregates clauses
that share all but one literal to fewer rows of the same strength; cliques are fewer and stronger.

Conflicts are found by probing (Savelsbergh, Preprocessing and Probing Techniques for Mixed Integer
Programming Problems, 1994): assume each literal and propagate units by the solver of
`network.satisfiability`. l → m means that l and ¬m are in conflict; a literal that leads to a
contradiction is false in every world. That finds conflicts that are hidden in at-most-one
constraints with counters, or in supports `u=a → v=b ∨ v=c`. Probing stops when its budget is spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.treewidth_bounds import pair_members
from lapis.inference.map.map_objective import MapObjective, literal_code
from lapis.network.csr import row_starts, take_rows
from lapis.network.satisfiability import HardRows, encode_rows, new_solver
from lapis.runtime.kernels import allocating_entry, allocating_inner, inner

MAX_GROUP = 1000  # most literals of a clause that is tested for being an exactly-one group


class Cliques(NamedTuple):
    """Cliques of literal codes."""

    start: np.ndarray  # int64[num_cliques + 1]
    literal: np.ndarray  # int32[...], codes
    kind: np.ndarray  # int64[num_cliques], the kind of its edges


@dataclass(frozen=True)
class ConflictGraph:
    """An undirected graph over literal codes, neighbours sorted."""

    start: np.ndarray  # int64[num_vertices + 1]
    neighbour: np.ndarray  # int32[2·num_edges]
    kind: np.ndarray  # int64[2·num_edges]; −1: need not be covered


class HardCliques(NamedTuple):
    """The cliques of hard clauses."""

    exactly_one: Cliques
    at_most_one: Cliques
    covered: np.ndarray  # bool[num_clauses], clauses that the cliques represent


class SoftCliques(NamedTuple):
    """The cliques of soft clauses."""

    cliques: Cliques
    weight: np.ndarray  # float64[num_cliques]
    covered: np.ndarray  # bool[num_clauses]


def hard_cliques(objective: MapObjective, found: Probe) -> HardCliques:
    """Return rows that represent hard clauses of two literals, and some longer ones."""
    size = 2 * objective.num_atoms
    hard = np.flatnonzero(objective.hard)
    pairs = hard[objective.length[hard] == 2]
    required = literal_code(-objective.rows_of(pairs, 2))
    implied = build_conflict_graph(size, np.concatenate((required, found.conflict)))
    start, literal = hard_literal_rows(objective, hard)
    is_group = _find_groups(
        start, literal, implied.start, implied.neighbour, objective.block_of, len(hard), MAX_GROUP
    )
    extra, stands = group_conflicts(start, literal, np.flatnonzero(is_group), size, len(hard))
    required = np.concatenate((required, extra))
    kind = np.repeat((0, -1), (len(required), len(found.conflict)))
    graph = build_conflict_graph(size, np.concatenate((required, found.conflict)), kind)
    grown = grow_cliques(graph, partition=False)
    covered = np.zeros(objective.num_clauses, bool)
    covered[pairs] = True
    covered[hard[is_group[: len(hard)] | stands]] = True
    groups = np.flatnonzero(is_group[: len(hard)])  # those after them are blocks already
    return HardCliques(select_cliques(start, literal, groups), grown, covered)


def soft_cliques(objective: MapObjective) -> SoftCliques:
    """Return sets of three or more literals whose pairs all cost the same."""
    chosen = np.flatnonzero((objective.length == 2) & (objective.weight > 0) & ~objective.hard)
    covered = np.zeros(objective.num_clauses, bool)
    weights, kind = np.unique(objective.weight[chosen], return_inverse=True)
    edges = literal_code(-objective.rows_of(chosen, 2))
    graph = build_conflict_graph(2 * objective.num_atoms, edges, kind)
    grown = grow_cliques(graph, partition=True)
    is_large = np.flatnonzero(np.diff(grown.start) > 2)
    cliques = select_cliques(grown.start, grown.literal, is_large, grown.kind[is_large])
    owner = np.repeat(np.arange(len(is_large)), np.diff(cliques.start))
    covered[chosen] = np.isin(edge_keys(*edges.T), edge_keys(*pair_members(owner, cliques.literal)))
    return SoftCliques(cliques, weights[cliques.kind], covered)


def edge_keys(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return an integer for each undirected edge, int64[num_edges]."""
    return (np.minimum(one, other).astype(np.int64) << 32) + np.maximum(one, other)


def select_cliques(
    start: np.ndarray, literal: np.ndarray, rows: np.ndarray, kind: np.ndarray | None = None
) -> Cliques:
    """Return some rows as cliques."""
    kind = np.zeros(len(rows), np.int64) if kind is None else kind
    return Cliques(*take_rows(start, literal, rows), kind)


def build_conflict_graph(
    size: int, edges: np.ndarray, kind: np.ndarray | None = None
) -> ConflictGraph:
    """Return the graph of edges int32[num_edges, 2]; of double edges one with a kind is kept."""
    kind = np.zeros(len(edges), np.int64) if kind is None else kind
    one, other = edges.T.astype(np.int64)
    key = np.concatenate((one * size + other, other * size + one))
    both = np.concatenate((kind, kind))
    order = np.argsort(2 * key + (both < 0))
    key, both = key[order], both[order]
    new = np.diff(key, prepend=-1) != 0
    key, both = key[new], both[new]
    start = row_starts(np.bincount(key // size, minlength=size))
    return ConflictGraph(start, (key % size).astype(np.int32), both)


def grow_cliques(graph: ConflictGraph, *, partition: bool) -> Cliques:
    """Return cliques that cover every edge with a kind; with `partition`, each edge once."""
    return Cliques(*_grow(graph.start, graph.neighbour, graph.kind, partition))


@allocating_entry
def _grow(start, neighbour, kind, partition):  # type: ignore[no-untyped-def]
    """Grow a clique from each uncovered edge; return CSR rows of members, and kinds."""
    num_vertices = len(start) - 1
    uncovered = kind >= 0
    reverse = _reverse_edges(start, neighbour)
    adjacent = np.zeros(num_vertices, np.int32)  # members of the clique next to a vertex
    fresh = np.zeros(num_vertices, np.int32)  # those by uncovered edges of the kind
    joined = fresh if partition else adjacent
    candidate = np.empty(num_vertices, np.int32)
    clique = np.empty(num_vertices, np.int32)
    clique_start, members, kinds = [0], [np.int32(0)], [kind[0] if len(kind) else 0]
    members.pop()
    kinds.pop()
    for a in range(num_vertices):
        for seed in range(start[a], start[a + 1]):
            if not uncovered[seed] or neighbour[seed] < a:
                continue
            own_kind, count = kind[seed], start[a + 1] - start[a]
            candidate[:count] = neighbour[start[a] : start[a + 1]]
            chosen, size = a, 0
            while chosen >= 0:
                clique[size] = chosen
                size += 1
                for e in range(start[chosen], start[chosen + 1]):
                    adjacent[neighbour[e]] += 1
                    fresh[neighbour[e]] += uncovered[e] and kind[e] == own_kind
                if size == 1:
                    chosen = neighbour[seed]
                else:
                    chosen, count = _choose_member(start, joined, fresh, candidate, count, size)
            _cover_edges(
                start, neighbour, kind, reverse, clique[:size], partition, own_kind,
                uncovered, adjacent, fresh,
            )  # fmt: skip
            members.extend(clique[:size])
            clique_start.append(len(members))
            kinds.append(own_kind)
    return np.array(clique_start), np.array(members).astype(np.int32), np.array(kinds)


@allocating_inner
def _reverse_edges(start, neighbour):  # type: ignore[no-untyped-def]
    """Return the place of each edge in the other direction; neighbours are sorted."""
    reverse = np.empty(len(neighbour), np.int64)
    place = start[:-1].copy()
    for a in range(len(start) - 1):
        for e in range(start[a], start[a + 1]):
            reverse[e] = place[neighbour[e]]
            place[neighbour[e]] += 1
    return reverse


@inner
def _choose_member(start, joined, fresh, candidate, count, size):  # type: ignore[no-untyped-def]
    """Keep the candidates next to all members; return the one with most fresh edges, or −1."""
    chosen, top, degree, kept = -1, -1, -1, 0
    for i in range(count):
        v = candidate[i]
        if joined[v] < size:
            continue
        candidate[kept] = v
        kept += 1
        own = start[v + 1] - start[v]
        if fresh[v] > top or (fresh[v] == top and own > degree):
            chosen, top, degree = v, fresh[v], own
    return chosen, kept


@inner
def _cover_edges(  # type: ignore[no-untyped-def]
    start, neighbour, kind, reverse, clique, partition, own_kind, uncovered, adjacent, fresh
):
    """Mark the edges between members as covered; reset the counters."""
    for v in clique:
        for e in range(start[v], start[v + 1]):
            adjacent[neighbour[e]] = 0
            fresh[neighbour[e]] = 0
    for v in clique:
        adjacent[v] = 1
    for v in clique:
        for e in range(start[v], start[v + 1]):
            if adjacent[neighbour[e]] == 1 and (not partition or kind[e] == own_kind):
                uncovered[e] = False
                uncovered[reverse[e]] = False
    for v in clique:
        adjacent[v] = 0


@inner
def _is_edge(start, neighbour, a, b):  # type: ignore[no-untyped-def]
    """Return whether b is a neighbour of a."""
    low, high = start[a], start[a + 1]
    while low < high:
        middle = (low + high) >> 1
        if neighbour[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low < start[a + 1] and neighbour[low] == b


@allocating_entry
def _find_groups(start, literal, edge_start, neighbour, block_of, num_clauses, max_group):  # type: ignore[no-untyped-def]
    """Return the rows with pairwise conflicting literals; rows after the clauses are blocks."""
    is_group = np.zeros(len(start) - 1, np.bool_)
    for row in range(len(start) - 1):
        length = start[row + 1] - start[row]
        if row >= num_clauses:
            is_group[row] = True
            continue
        if length < 2 or length > max_group:
            continue
        same = True
        for i in range(start[row], start[row + 1]):
            for j in range(i + 1, start[row + 1]):
                a, b = literal[i], literal[j]
                in_block = (a | b) & 1 == 0 and block_of[a >> 1] >= 0
                if in_block and block_of[a >> 1] == block_of[b >> 1]:
                    continue
                if not _is_edge(edge_start, neighbour, a, b):
                    same = False
                    break
            if not same:
                break
        is_group[row] = same
    return is_group


def group_conflicts(
    start: np.ndarray, literal: np.ndarray, groups: np.ndarray, num_literals: int, num_clauses: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return conflicts of clauses with all literals but one in a group, and these clauses.

    int32[num_conflicts, 2] and bool[num_clauses]. The conflicts are equivalent to the clause,
    except if the group contains the negation of the odd literal; such a clause is not marked.
    """
    group_of = np.full(num_literals, -1, np.int64)
    group_start, member = take_rows(start, literal, groups)
    group_of[member[::-1]] = np.repeat(groups, np.diff(group_start))[::-1]  # the first group wins
    length = np.diff(start)[:num_clauses]
    is_candidate = length > 2
    is_candidate[groups[groups < num_clauses]] = False
    row = np.repeat(np.arange(num_clauses), length)
    own = group_of[literal[: len(row)]]
    group = np.full(num_clauses, -1, np.int64)
    for offset in (1, 0):  # the group of the first literal, else that of the second
        first = group_of[literal[np.minimum(start[:num_clauses] + offset, len(literal) - 1)]]
        inside = np.bincount(row, own == first[row], num_clauses)
        fits = is_candidate & (first >= 0) & (inside == length - 1)
        group[fits] = first[fits]
    stands = group >= 0
    is_odd = stands[row] & (own != group[row])
    negated = np.zeros(num_clauses, np.int64)
    negated[row[is_odd]] = literal[: len(row)][is_odd] ^ 1
    group_start, member = take_rows(start, literal, group[stands])
    owner = np.repeat(np.flatnonzero(stands), np.diff(group_start))
    is_inside = np.isin(owner * num_literals + member, row * num_literals + literal[: len(row)])
    is_negation = member == negated[owner]
    chosen = ~is_inside & ~is_negation
    stands[owner[is_negation]] = False
    return np.column_stack((negated[owner], member))[chosen].astype(np.int32), stands


MAX_IMPLIED = 1_000_000  # literals, of all probes together


class Probe(NamedTuple):
    """Forced atoms, and conflicts among literals."""

    possible: bool  # False if the hard clauses contradict each other
    value: np.ndarray  # int8[num_atoms], 1 true, 0 false in every world, −1 not known
    conflict: np.ndarray  # int32[num_conflicts, 2], literals that do not hold together


def probe_literals(objective: MapObjective) -> Probe:
    """Find forced atoms and conflicts among literals."""
    hard = np.flatnonzero(objective.hard)
    rows = HardRows(
        objective.num_atoms,
        *take_rows(objective.clause_start, objective.literal, hard),
        objective.block_start,
        objective.block_atom,
        objective.block_exact,
    )
    solver = new_solver(encode_rows(rows).clause)
    value = np.full(objective.num_atoms, -1, np.int8)
    assumed: list[int] = []  # literals ±(atom + 1)
    implied: list[int] = []  # as many
    atoms = np.union1d(np.abs(rows.literal) - 1, rows.block_atom)
    for literal in np.column_stack((atoms + 1, -atoms - 1)).reshape(-1).tolist():
        if len(implied) > MAX_IMPLIED:
            break
        holds, found = solver.propagate([literal])
        if holds:
            assumed += [literal] * (len(found) - 1)
            implied += found[1:]
        else:
            value[abs(literal) - 1] = literal < 0
            solver.add_clause([-literal])
    conflict = np.column_stack((assumed, implied)).astype(np.int32).reshape(-1, 2)
    conflict = conflict[np.abs(conflict[:, 1]) <= objective.num_atoms]  # others are of blocks
    return Probe(solver.propagate([])[0], value, literal_code(conflict * (1, -1)))


def hard_literal_rows(objective: MapObjective, hard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return CSR rows of literal codes: the hard clauses, then one for each exactly-one block."""
    start, literal = take_rows(objective.clause_start, objective.literal, hard)
    exact = np.flatnonzero(objective.block_exact)
    block_start, block_atom = take_rows(objective.block_start, objective.block_atom, exact)
    return (
        np.concatenate((start, block_start[1:] + start[-1])),
        np.concatenate((literal_code(literal), 2 * block_atom)).astype(np.int32),
    )
