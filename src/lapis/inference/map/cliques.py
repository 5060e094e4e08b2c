"""Cliques of conflicting literals: the rows that make integer programs for MAP tight.

Hard conflicts. Literals that pairwise exclude each other satisfy Σ l ≤ 1, which is much tighter
than its pairs l + m ≤ 1 (all literals at one half satisfy the pairs). Cliques are grown greedily
until every conflict that is a constraint is in one; conflicts that are only implied help to grow
them. Where a hard clause is such a clique, exactly one of its literals holds: Σ l = 1. A hard
clause with all literals but one in an exactly-one group is then the same as conflicts between the
odd literal's negation and the rest of the group, and joins the cliques.

Soft conflicts. Where each pair of n literals costs the same w, k true ones cost w·k(k−1)/2: a
convex function of k = Σ l, which n − 1 rows express exactly, instead of n(n−1)/2 rows that
express it loosely. Each pair may be used once, so these cliques do not overlap in a pair.

RockIt (Noessner, Niepert & Stuckenschmidt, AAAI 2013) aggregates clauses that share all but one
literal to fewer rows of the same strength; cliques are fewer and stronger.

What hard clauses and blocks imply, found by assuming each literal in turn (probing).

Assuming a literal and propagating units shows which other literals must then hold: l → m says
that l and ¬m are in *conflict*. A literal whose assumption ends in a contradiction is false in
every world. The conflicts are more than the clauses with two literals say: at-most-one
constraints written with counters, or supports `u=a → v=b ∨ v=c`, hide most of theirs. Integer
programs live from them, since cliques of conflicts are rows Σ x ≤ 1 (Savelsbergh, Preprocessing
and Probing Techniques for Mixed Integer Programming Problems, 1994).

Propagation is that of the solver of `network.satisfiability`. Literals are numbered 2·atom for the
atom and 2·atom + 1 for its negation. Probing stops when its budget is spent; the conflicts found by
then hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.map.objective import MapObjective, literal_code
from lapis.network.csr import row_starts, take_rows
from lapis.network.satisfiability import HardRows, encode_rows, new_solver
from lapis.runtime.kernels import allocating_entry, inner

MAX_GROUP = 1000  # literals of a clause that is tested for being an exactly-one group


class Cliques(NamedTuple):
    start: np.ndarray  # int64[num_cliques + 1]
    literal: np.ndarray  # int32[...], codes
    kind: np.ndarray  # int64[num_cliques], the kind of its edges


@dataclass(frozen=True)
class ConflictGraph:
    """An undirected graph over literal codes, sorted neighbours."""

    start: np.ndarray  # int64[num_vertices + 1]
    neighbour: np.ndarray  # int32[2·num_edges]
    kind: np.ndarray  # int64[2·num_edges]; −1 for edges that need not be covered


class HardCliques(NamedTuple):
    exactly_one: Cliques
    at_most_one: Cliques
    covered: np.ndarray  # bool[num_clauses], clauses that the cliques stand for


class SoftCliques(NamedTuple):
    cliques: Cliques
    weight: np.ndarray  # float64[num_cliques]
    covered: np.ndarray  # bool[num_clauses]


def hard_cliques(objective: MapObjective, found: Probe) -> HardCliques:
    """Rows that stand for the hard clauses of two literals, and some longer ones."""
    size = 2 * objective.num_atoms
    hard = np.flatnonzero(objective.hard)
    pairs = hard[objective.length[hard] == 2]
    required = literal_code(-objective.rows_of(pairs, 2))
    implied = build_conflict_graph(size, np.concatenate((required, found.conflict)))
    start, literal = hard_literal_rows(objective, hard)
    is_group = _find_groups(
        start, literal, implied.start, implied.neighbour, objective.block_of, len(hard), MAX_GROUP
    )
    extra, stands = _group_conflicts(start, literal, np.flatnonzero(is_group), size, len(hard))
    required = np.concatenate((required, extra))
    kind = np.repeat((0, -1), (len(required), len(found.conflict)))
    graph = build_conflict_graph(size, np.concatenate((required, found.conflict)), kind)
    grown = grow_cliques(graph, partition=False)
    covered = np.zeros(objective.num_clauses, bool)
    covered[pairs] = True
    covered[hard[is_group[: len(hard)] | stands]] = True
    groups = np.flatnonzero(is_group[: len(hard)])  # those after them are blocks already
    return HardCliques(select_rows(start, literal, groups), grown, covered)


def soft_cliques(objective: MapObjective) -> SoftCliques:
    """Sets of three or more literals whose pairs cost the same."""
    chosen = np.flatnonzero((objective.length == 2) & (objective.weight > 0) & ~objective.hard)
    covered = np.zeros(objective.num_clauses, bool)
    weights, kind = np.unique(objective.weight[chosen], return_inverse=True)
    edges = literal_code(-objective.rows_of(chosen, 2))
    graph = build_conflict_graph(2 * objective.num_atoms, edges, kind)
    grown = grow_cliques(graph, partition=True)
    is_large = np.flatnonzero(np.diff(grown.start) > 2)
    cliques = select_rows(grown.start, grown.literal, is_large, grown.kind[is_large])
    covered[chosen] = _inside(edges, kind, cliques.start, cliques.literal, cliques.kind)
    return SoftCliques(cliques, weights[cliques.kind], covered)


def select_rows(
    start: np.ndarray, literal: np.ndarray, rows: np.ndarray, kind: np.ndarray | None = None
) -> Cliques:
    kind = np.zeros(len(rows), np.int64) if kind is None else kind
    return Cliques(*take_rows(start, literal, rows), kind)


def build_conflict_graph(
    size: int, edges: np.ndarray, kind: np.ndarray | None = None
) -> ConflictGraph:
    """The graph of some edges int32[num_edges, 2]; a double edge keeps its kind if one has it."""
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
    """Cliques that contain every edge with a kind; with `partition`, edges of one kind, once."""
    return Cliques(*_grow(graph.start, graph.neighbour, graph.kind, partition))


@allocating_entry
def _grow(start, neighbour, kind, partition):  # type: ignore[no-untyped-def]
    num_vertices = len(start) - 1
    reverse = np.empty(len(neighbour), np.int64)
    place = start[:-1].copy()
    for a in range(num_vertices):
        for e in range(start[a], start[a + 1]):
            reverse[e] = place[neighbour[e]]  # neighbours are sorted, so a's arrive in order
            place[neighbour[e]] += 1
    uncovered = kind >= 0
    adjacent = np.zeros(num_vertices, np.int32)  # members of the clique next to a vertex
    fresh = np.zeros(num_vertices, np.int32)  # the same by uncovered edges of the kind
    clique_start, members, kinds = [0], [0], [0]
    members.pop()
    kinds.pop()
    candidate = np.empty(num_vertices, np.int32)
    for a in range(num_vertices):
        for seed in range(start[a], start[a + 1]):
            if not uncovered[seed] or neighbour[seed] < a:
                continue
            wanted = kind[seed]
            first = len(members)
            count = 0
            for e in range(start[a], start[a + 1]):
                candidate[count] = neighbour[e]
                count += 1
            chosen = a
            while chosen >= 0:
                members.append(chosen)
                for e in range(start[chosen], start[chosen + 1]):
                    adjacent[neighbour[e]] += 1
                    if uncovered[e] and kind[e] == wanted:
                        fresh[neighbour[e]] += 1
                size = len(members) - first
                if size == 1:
                    chosen = neighbour[seed]
                    continue
                chosen, top, degree = -1, -1, -1
                kept = 0
                for i in range(count):
                    v = candidate[i]
                    joined = fresh[v] if partition else adjacent[v]
                    if joined < size or v == a or v == neighbour[seed]:
                        continue
                    candidate[kept] = v
                    kept += 1
                    own = start[v + 1] - start[v]
                    if fresh[v] > top or (fresh[v] == top and own > degree):
                        chosen, top, degree = v, fresh[v], own
                count = kept
            for i in range(first, len(members)):
                v = members[i]
                for e in range(start[v], start[v + 1]):
                    adjacent[neighbour[e]] = 0
                    fresh[neighbour[e]] = 0
            for i in range(first, len(members)):
                adjacent[members[i]] = 1
            for i in range(first, len(members)):
                v = members[i]
                for e in range(start[v], start[v + 1]):
                    if adjacent[neighbour[e]] == 1 and (not partition or kind[e] == wanted):
                        uncovered[e] = False
                        uncovered[reverse[e]] = False
            for i in range(first, len(members)):
                adjacent[members[i]] = 0
            clique_start.append(len(members))
            kinds.append(wanted)
    return np.array(clique_start), np.array(members).astype(np.int32), np.array(kinds)


@inner
def _is_edge(start, neighbour, a, b):  # type: ignore[no-untyped-def]
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
    """Which rows have pairwise conflicting literals; rows after the clauses are blocks."""
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


@allocating_entry
def _group_conflicts(start, literal, groups, num_literals, num_clauses):  # type: ignore[no-untyped-def]
    """Conflicts that stand for clauses with all literals but one in a group, and those clauses."""
    group_of = np.full(num_literals, -1, np.int64)
    for g in groups:
        for k in range(start[g], start[g + 1]):
            if group_of[literal[k]] < 0:
                group_of[literal[k]] = g
    stands = np.zeros(num_clauses, np.bool_)
    is_group = np.zeros(len(start) - 1, np.bool_)
    for g in groups:
        is_group[g] = True
    left, right = [0], [0]
    left.pop()
    right.pop()
    present = np.zeros(num_literals, np.bool_)
    for row in range(num_clauses):
        length = start[row + 1] - start[row]
        if is_group[row] or length < 3:
            continue
        # The group is that of the first or of the second literal.
        for offset in range(2):
            group = group_of[literal[start[row] + offset]]
            if group < 0:
                continue
            inside, odd = 0, -1
            for k in range(start[row], start[row + 1]):
                if group_of[literal[k]] == group:
                    inside += 1
                else:
                    odd = literal[k]
            if inside != length - 1:
                continue
            for k in range(start[row], start[row + 1]):
                present[literal[k]] = True
            for k in range(start[group], start[group + 1]):
                if not present[literal[k]] and literal[k] != odd ^ 1:
                    left.append(odd ^ 1)
                    right.append(literal[k])
            # With the odd literal's negation in the group the clause says more than conflicts.
            stands[row] = True
            for k in range(start[group], start[group + 1]):
                if literal[k] == odd ^ 1:
                    stands[row] = False
            for k in range(start[row], start[row + 1]):
                present[literal[k]] = False
            break
    pairs = np.empty((len(left), 2), np.int32)
    for i in range(len(left)):
        pairs[i, 0] = left[i]
        pairs[i, 1] = right[i]
    return pairs, stands


@allocating_entry
def _inside(edges, kind, start, literal, clique_kind):  # type: ignore[no-untyped-def]
    """Which edges lie in a clique of their kind."""
    inside = np.zeros(len(edges), np.bool_)
    if len(edges) == 0:
        return inside
    size = max(literal.max() if len(literal) else 0, edges.max()) + 1
    count = np.zeros(size + 1, np.int64)
    for code in literal:
        count[code + 1] += 1
    for code in range(size):
        count[code + 1] += count[code]
    place = count[:-1].copy()
    clique_of = np.empty(len(literal), np.int64)
    for clique in range(len(start) - 1):
        for k in range(start[clique], start[clique + 1]):
            clique_of[place[literal[k]]] = clique
            place[literal[k]] += 1
    for e in range(len(edges)):
        a, b = edges[e]
        i, j = count[a], count[b]
        while i < count[a + 1] and j < count[b + 1]:
            if clique_of[i] < clique_of[j]:
                i += 1
            elif clique_of[i] > clique_of[j]:
                j += 1
            elif clique_kind[clique_of[i]] == kind[e]:
                inside[e] = True
                break
            else:
                i += 1
                j += 1
    return inside


MAX_IMPLIED = 1_000_000  # literals, of all probes together


class Probe(NamedTuple):
    possible: bool  # False if the hard clauses contradict each other
    value: np.ndarray  # int8[num_atoms], 1 true, 0 false in every world, −1 not known
    conflict: np.ndarray  # int32[num_conflicts, 2], literals that do not hold together


def probe_literals(objective: MapObjective) -> Probe:
    """Forced atoms and conflicts among literals."""
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
    """CSR of literal codes: the hard clauses, then one for each exactly-one block."""
    start, literal = take_rows(objective.clause_start, objective.literal, hard)
    exact = np.flatnonzero(objective.block_exact)
    block_start, block_atom = take_rows(objective.block_start, objective.block_atom, exact)
    return (
        np.concatenate((start, block_start[1:] + start[-1])),
        np.concatenate((literal_code(literal), 2 * block_atom)).astype(np.int32),
    )
