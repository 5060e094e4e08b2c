"""Lower bounds of the treewidth: components that no elimination order can solve.

A graph with a subgraph in which every vertex has k neighbours has treewidth at least k, so some
table has k + 1 variables in any order. If that table exceeds the memory, no order is searched,
which would fail only after a long time. The same holds for a minor, the graph after edges are
contracted.

- The k-core: drop variables with fewer than k neighbours until none is left to drop.
- A dense minor. A thousand people with ten friends each have no 12-core, but treewidth hundreds.
  Contracting an edge joins the neighbours of both ends, so degrees grow. The classical bound
  contracts the vertex of least degree with its neighbour of least degree, one at a time
  (Bodlaender, Koster and Wolle, Contraction and treewidth lower bounds, 2004; Gogate and
  Dechter 2004).

Our deviation: only one k matters. So a whole random matching (fixed seed) is contracted at once, by
array operations; then vertices with fewer than k neighbours are dropped, and components with a rest
are proven too wide. Leaves are dropped first, because contracting a leaf gains nothing.

Clauses over more than `SHORT` variables are ignored by minors, as the planner may cut them into
chains, in which their members are no neighbours. Variables of one state take no room in tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.exact.by_components import (
    CUT_MEMBERS,
    EASY_SCOPE,
    WHOLE_MEMBERS,
    ExactPlan,
    plan_exact,
)
from lapis.network.components import Subnetwork, select_components
from lapis.network.network import Network
from lapis.runtime.progress import Stop

SHORT = CUT_MEMBERS
LEAF = 2  # neighbours: with fewer, a vertex is a leaf
BYTES_AN_ENTRY = 12  # of a table and its share of a message
SEARCHED_ATOMS = 1000  # components up to this size need a second for the search of an order
ROUND_SHARE = 0.9  # rounds end if more than this share of members stays


class Division(NamedTuple):
    """A network's components in two networks; atoms, int64[...], numbered as in the whole."""

    plan: ExactPlan  # of the components that may fit; it may refuse some of them
    planned_atom: np.ndarray  # int64[plan.network.num_atoms]
    rest: Subnetwork  # the components that are not solved


def divide_network(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> Division:
    """Plan the components whose tables may fit `max_memory` bytes."""
    degree = least_degree(max_memory)
    hopeless = has_dense_core(network, degree)
    if not hopeless.all():
        hopeless |= has_dense_minor(network, degree)
    part = select_components(network, ~hopeless)
    plan = plan_exact(part.network, max_memory, random_state=random_state, stop=stop)
    left = hopeless.copy()
    left[part.atom] = ~plan.affordable
    return Division(plan, part.atom, select_components(network, left))


def least_degree(max_memory: int) -> int:
    """Return the smallest degree of a subgraph that proves a table beyond `max_memory` bytes."""
    affordable = int(np.log2(max(2.0, max_memory / BYTES_AN_ENTRY)))
    return max(affordable, EASY_SCOPE + 1)


def has_dense_core(network: Network, degree: int) -> np.ndarray:
    """Return atoms whose component has a `degree`-core, bool[num_atoms].

    A block is one variable.
    """
    clause, member = possible_core_members(network, block_variables(network), degree)
    one, _ = drop_low_degree(*distinct_edges(*pair_members(clause, member)), degree)
    dense = np.zeros(network.num_components, bool)
    dense[network.component[one]] = True
    return dense[network.component]


def possible_core_members(
    network: Network, variable: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return clauses and their variables, int32[num_members] each, that may be in a `degree`-core.

    A variable has at most as many neighbours as there are other members in its clauses. Variables
    with too few are dropped before any neighbours are listed, such as the millions of atoms of an
    open relation. Members of clauses that the planner always cuts into chains are no neighbours,
    except in components of over `SEARCHED_ATOMS` atoms, where such a clause implies a long search.
    """
    length = np.diff(network.clause_start)
    owner = network.component[network.first_atom]
    is_large = (np.bincount(network.component) > SEARCHED_ATOMS)[owner]
    several = (length > 1) & ((length <= WHOLE_MEMBERS) | is_large)
    clause = np.repeat(np.arange(np.count_nonzero(several), dtype=np.int32), length[several])
    member = variable[np.abs(network.literal[np.repeat(several, length)]) - 1]
    stays = np.zeros(len(clause), bool)
    while len(clause) and np.count_nonzero(stays) < ROUND_SHARE * len(stays):
        others = np.bincount(clause)[clause] - 1
        stays = np.bincount(member, others)[member] >= degree
        clause, member = clause[stays], member[stays]
    return clause, member


def has_dense_minor(network: Network, degree: int) -> np.ndarray:
    """Return atoms whose component has a minor of minimum degree `degree`, bool[num_atoms].

    The search is incomplete: it may miss such minors.
    """
    component = network.component
    found = np.zeros(int(component.max(initial=-1)) + 1, bool)
    one, other = drop_small_components(component, *short_edges(network), degree)
    rng = np.random.default_rng(0)
    while len(one):
        one, other = distinct_edges(one, other)
        one, other, name = number_vertices(*drop_low_degree(one, other, LEAF))
        component = component[name]
        dense, _ = drop_low_degree(one, other, degree)
        found[component[dense]] = True
        left = ~found[component[one]]
        one, other, component = contract_matching(one[left], other[left], component, rng)
        one, other = drop_small_components(component, one, other, degree)
    return found[network.component]


def short_edges(network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of atoms that share a clause of at most `SHORT` variables, int32[...] each.

    Pairs may repeat. A block is represented by its first atom.
    """
    variable = block_variables(network)
    size = np.diff(network.block_start)
    fixed = np.zeros(network.num_atoms, bool)
    fixed[network.block_atom[network.block_start[:-1]][(size == 1) & network.block_exact]] = True
    length = np.diff(network.clause_start)
    short = np.repeat((length > 1) & (length <= SHORT), length)
    member = variable[np.abs(network.literal[short]) - 1]
    clause = np.repeat(np.arange(len(length), dtype=np.int32), length)[short]
    return pair_members(clause[~fixed[member]], member[~fixed[member]])


def block_variables(network: Network) -> np.ndarray:
    """Return the variable of each atom, int32[num_atoms]: itself, or its block's first atom."""
    variable = np.arange(network.num_atoms, dtype=np.int32)
    first = network.block_atom[network.block_start[:-1]]
    variable[network.block_atom] = np.repeat(first, np.diff(network.block_start))
    return variable


def pair_members(clause: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of variables that share a clause, int32[...] each; clauses are contiguous."""
    begin = np.flatnonzero(np.diff(clause, prepend=-1))
    length = np.diff(np.append(begin, len(clause)))
    ones, others = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for number in np.flatnonzero(np.bincount(length)).tolist():
        rows = member[begin[length == number][:, None] + np.arange(number)]
        low, high = np.triu_indices(number, 1)
        ones.append(rows[:, low].ravel())
        others.append(rows[:, high].ravel())
    one, other = np.concatenate(ones), np.concatenate(others)
    different = one != other
    return one[different], other[different]


def drop_small_components(
    component: np.ndarray, one: np.ndarray, other: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of components that have enough for a minor of minimum degree `degree`."""
    label = component[one]
    left = (np.bincount(label, minlength=1) >= degree * (degree + 1) // 2)[label]
    return one[left], other[left]


def number_vertices(
    one: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the edges with vertices numbered 0, 1, …, and the old numbers."""
    used = np.zeros(int(max(one.max(initial=-1), other.max(initial=-1))) + 1, bool)
    used[one], used[other] = True, True
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return number[one], number[other], np.flatnonzero(used)


def contract_matching(
    one: np.ndarray, other: np.ndarray, component: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Contract a greedy matching; edges of the result may repeat."""
    vertices = np.arange(len(component), dtype=np.int32)
    shuffled = rng.permutation(len(one))
    left, right = one[shuffled], other[shuffled]
    mate = vertices.copy()
    while len(left):
        rank = np.arange(len(left), dtype=np.int32)
        least = np.full(len(vertices), len(left), np.int32)
        np.minimum.at(least, left, rank)
        np.minimum.at(least, right, rank)
        taken = (least[left] == rank) & (least[right] == rank)
        mate[left[taken]], mate[right[taken]] = right[taken], left[taken]
        free = mate == vertices
        both = free[left] & free[right]
        left, right = left[both], right[both]
    kept = mate >= vertices
    number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
    number = number[np.minimum(mate, vertices)]
    one, other = number[one], number[other]
    real = one != other
    return one[real], other[real], component[kept]


def distinct_edges(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every edge once, by sorting: numpy's hash tables take ten times as long."""
    low, high = np.minimum(one, other).astype(np.int64), np.maximum(one, other)
    size = int(high.max(initial=0)) + 1
    key = np.sort(low * size + high)
    key = key[np.diff(key, prepend=-1) > 0]
    return (key // size).astype(np.int32), (key % size).astype(np.int32)


def drop_low_degree(
    one: np.ndarray, other: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Drop vertices of fewer neighbours until none is left to drop; return the edges."""
    while len(one):
        size = int(max(one.max(), other.max())) + 1
        stays = np.bincount(one, minlength=size) + np.bincount(other, minlength=size) >= degree
        left = stays[one] & stays[other]
        if left.all():
            break
        one, other = one[left], other[left]
    return one, other
