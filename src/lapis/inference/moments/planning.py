"""Which components are solved exactly, which are left to chains and searches.

Planning an elimination order is itself work, and on a component of a thousand tightly tied atoms
it fails only after a long search. Most such failures can be seen beforehand: a graph with a
subgraph in which every vertex has k neighbours has treewidth at least k, so that some table has
2^(k+1) entries whatever the order. Such a subgraph, the k-core, is found by peeling: drop all
variables with fewer than k neighbours until none is left to drop. For the k at which one table
passes the memory, a component that keeps a core, or comes to have one when edges are contracted
(`exact/dense_minors.py`), is hopeless; only the others are planned. (The planner takes tables of
few variables without asking what they cost, so k is never that small.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.inference.exact.by_components import WHOLE_MEMBERS, ExactPlan, plan_exact
from lapis.inference.exact.dense_minors import (
    block_variables,
    distinct,
    drop_sparse,
    has_dense_minor,
    join_members,
)
from lapis.inference.exact.planning import EASY_SCOPE
from lapis.inference.moments.statistics import take_part
from lapis.network.network import Network
from lapis.network.parts import Subnetwork
from lapis.runtime.progress import Stop

if TYPE_CHECKING:
    from lapis.inference.plan import ExactParts

BYTES_AN_ENTRY = 12  # of a table and its share of a message
SEARCHED = 1000  # atoms; an order for so many is looked for in a second
ROUND_SHARE = 0.9  # of the members that stay in a round: then there is not much more to gain


class Division(NamedTuple):
    """A network's components in two networks, atoms int64[...] numbered as in the whole."""

    plan: ExactPlan  # of the components worth planning; some may be refused all the same
    planned_atom: np.ndarray  # int64[plan.network.num_atoms]
    rest: Subnetwork  # what is not solved


def divide_network(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> Division:
    """Plan the components whose tables may fit `max_memory` bytes."""
    degree = least_degree(max_memory)
    hopeless = has_dense_core(network, degree)
    if not hopeless.all():
        hopeless |= has_dense_minor(network, degree)
    part = take_part(network, ~hopeless)
    plan = plan_exact(part.network, max_memory, random_state=random_state, stop=stop)
    left = hopeless.copy()
    left[part.atom] = ~plan.affordable
    return Division(plan, part.atom, take_part(network, left))


def least_degree(max_memory: int) -> int:
    """The smallest degree of a subgraph that proves a table beyond `max_memory` bytes."""
    affordable = int(np.log2(max(2.0, max_memory / BYTES_AN_ENTRY)))
    return max(affordable, EASY_SCOPE + 1)


def drop_dear_tables(network: Network, found: ExactParts, entries: float) -> ExactParts:
    """The parts of a network without junction trees of more than `entries` entries a literal."""
    plan = found.exact
    assert plan is not None
    part = plan.network
    size = np.zeros(len(plan.duplicates.first))
    for forest in plan.forests:
        np.add.at(size, forest.component[forest.tree.order], np.diff(forest.tree.table_start))
    literals = np.bincount(part.component[part.first_atom], np.diff(part.clause_start), len(size))
    dear = (size > entries * literals)[plan.duplicates.first[part.component]]
    kept = plan.affordable & ~dear
    atom = found.exact_atom[kept]
    left = np.ones(network.num_atoms, bool)
    for summed in (atom, *(counted for _, counted in found.counts)):
        left[summed] = False
    worthy = plan_exact(take_part(part, kept).network, plan.max_memory)
    return found._replace(exact=worthy, exact_atom=atom, rest=take_part(network, left))


def has_dense_core(network: Network, degree: int) -> np.ndarray:
    """bool[num_atoms]: the atom's component has variables with `degree` neighbours in their midst.

    Blocks are one variable each.
    """
    clause, member = crowded_members(network, block_variables(network), degree)
    one, _ = drop_sparse(*distinct(*join_members(clause, member)), degree)
    dense = np.zeros(network.num_components, bool)
    dense[network.component[one]] = True
    return dense[network.component]


def crowded_members(
    network: Network, variable: np.ndarray, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Clauses and their variables, int32[num_members] each, without what is surely not dense.

    A variable has no more neighbours than there are other members in its clauses. Where that is
    too few it goes at once, before any neighbours are listed: so do the millions of atoms of an
    open relation, each in a clause or two. What the first rounds leave is peeled by neighbours.
    Of clauses that the planner always cuts into chains the members are no neighbours, but only in
    components of up to `SEARCHED` atoms: in larger ones such a clause is a sign of a long search.
    """
    length = np.diff(network.clause_start)
    owner = network.component[network.first_atom]
    is_large = (np.bincount(network.component) > SEARCHED)[owner]
    several = (length > 1) & ((length <= WHOLE_MEMBERS) | is_large)
    clause = np.repeat(np.arange(np.count_nonzero(several), dtype=np.int32), length[several])
    member = variable[np.abs(network.literal[np.repeat(several, length)]) - 1]
    stays = np.zeros(len(clause), bool)
    while len(clause) and np.count_nonzero(stays) < ROUND_SHARE * len(stays):
        others = np.bincount(clause)[clause] - 1
        stays = np.bincount(member, others)[member] >= degree
        clause, member = clause[stays], member[stays]
    return clause, member
