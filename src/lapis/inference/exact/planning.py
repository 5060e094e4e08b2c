"""Elimination orders for all components of a network, and which of them fit in memory.

Most components of real networks fall to elimination by degree with small tables; one compiled
call finds and orders them all. Only components that resist are looked at one by one: their
low-degree fringe is eliminated first (at most `FRINGE_SCOPE` neighbours: with two this never
raises the width, with three it spoilt grids), and the core gets a search for a good order. When
the tables of all components together would pass the memory, the cheapest ones are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import (
    MAX_DENSE,
    EliminationOrder,
    best_order,
    low_degree_order,
)
from lapis.inference.exact.enumerate import grouped
from lapis.inference.exact.junction_tree import CORE, JunctionTree, build_tree
from lapis.network.csr import take_rows
from lapis.network.cubes import Cubes, Variables, cut_long_cubes, falsifying_cubes, find_variables
from lapis.network.network import Network
from lapis.runtime.progress import Stop

EASY_SCOPE = 8  # neighbours of a variable eliminated without a search
FRINGE_SCOPE = 2
SPARSE_SCOPE = 30  # neighbours in cores too large for a search


class Refusal(NamedTuple):
    component: int
    num_atoms: int
    width: int  # the largest clique met, less one; the search stopped there
    num_bytes: float  # of the tables up to there


@dataclass(frozen=True)
class Forest:
    """Junction trees of many components."""

    variables: Variables
    cubes: Cubes  # over these variables and the chain variables after them
    component: np.ndarray  # int32[num_variables and chain variables]
    tree: JunctionTree

    @property
    def is_solved(self) -> np.ndarray:
        """bool[num_variables and chain variables], those of components that fit."""
        solved = np.zeros(len(self.cubes.size), bool)
        solved[self.tree.order] = True
        return solved

    @property
    def width(self) -> int:
        return int(np.diff(self.tree.scope_start).max(initial=0))


def plan_forest(
    network: Network,
    wanted: np.ndarray,
    max_members: int,
    max_memory: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> tuple[Forest, tuple[Refusal, ...]]:
    """Trees for the components of the atoms wanted, bool[num_atoms], as far as they fit."""
    variables = find_variables(network, wanted)
    clauses = np.flatnonzero(wanted[network.first_atom])
    cubes, origin = cut_long_cubes(falsifying_cubes(network, variables, clauses), max_members)
    component = np.concatenate((variables.component, variables.component[origin]))

    tree, failed = plan_trees(cubes, component, max_memory, rng, stop)
    refused = []
    for label, found in failed.items():
        atoms = int(((network.component == label) & wanted).sum())
        refused.append(Refusal(label, atoms, found.width, 12 * found.entries))
    return Forest(variables, cubes, component, tree), tuple(refused)


def plan_trees(
    cubes: Cubes,
    component: np.ndarray,
    max_memory: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> tuple[JunctionTree, dict[int, EliminationOrder]]:
    """Trees of the components, int32[num_variables], that fit; and of the others what was tried."""
    max_entries = max_memory / 12  # a message has at most half the entries of its table
    everything = np.ones(len(cubes.size), bool)
    easy = low_degree_order(cubes, everything, EASY_SCOPE, 1 << EASY_SCOPE)
    is_hard = np.ones(len(cubes.size), bool)
    is_hard[easy] = False
    hard_component = np.zeros(int(component.max(initial=-1)) + 1, bool)
    hard_component[component[is_hard]] = True
    order = easy[~hard_component[component[easy]]]
    searched = search_orders(cubes, hard_component[component], component, max_entries, rng, stop)

    tree = build_tree(cubes, order)
    orders = [order]
    failed: dict[int, EliminationOrder] = {}
    left = max_entries - float(tree.table_start[-1])
    for label, found in sorted(searched.items(), key=lambda item: item[1].entries):
        if found.is_complete and found.entries <= left:
            left -= found.entries
            orders.append(found.variable)
        else:
            failed[label] = found
    if len(orders) > 1:
        tree = build_tree(cubes, np.concatenate(orders))
    return tree, failed


def search_orders(
    cubes: Cubes,
    hard: np.ndarray,
    component: np.ndarray,
    max_entries: float,
    rng: np.random.Generator,
    stop: Stop | None,
) -> dict[int, EliminationOrder]:
    """An order for each component of the hard variables, bool[num_variables]."""
    if not hard.any():
        return {}
    fringe = low_degree_order(cubes, hard, FRINGE_SCOPE, 1 << 10)
    is_core = hard.copy()
    is_core[fringe] = False
    tree = build_tree(cubes, fringe)
    num_labels = int(component.max()) + 1
    fringe_entries = np.bincount(
        component[fringe], weights=np.diff(tree.table_start), minlength=num_labels
    )
    used = np.zeros(num_labels, bool)
    used[component[hard]] = True
    core = np.flatnonzero(is_core)
    start, scope = core_scopes(cubes, tree, is_core)
    scope_label = component[scope[start[:-1]]]
    found: dict[int, EliminationOrder] = {}
    for label, before, members, rows in zip(
        np.flatnonzero(used).tolist(),
        grouped(fringe, component[fringe], used),
        grouped(core, component[core], used),
        grouped(np.arange(len(scope_label)), scope_label, used),
        strict=True,
    ):
        limit = max_entries - fringe_entries[label]
        if len(members) <= MAX_DENSE:
            own_start, own = take_rows(start, scope, rows)
            own = np.searchsorted(members, own)
            best = best_order(cubes.size[members], own_start, own, limit, rng, stop)
            order = np.concatenate((before, members[best.variable]))
            entries = best.entries + fringe_entries[label]
        else:
            best = by_degree(cubes, component == label, limit)
            order, entries = best.variable, best.entries
        found[label] = EliminationOrder(
            order.astype(np.int32), entries, best.width, best.is_complete
        )
    return found


def core_scopes(
    cubes: Cubes, tree: JunctionTree, is_core: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the scopes left over core variables: of cubes, and of messages out of the fringe."""
    entered = np.zeros(len(cubes.clause), bool)
    entered[tree.cube] = True
    left = np.flatnonzero(~entered & is_core[cubes.variable[cubes.start[:-1]]])
    start, scope = take_rows(cubes.start, cubes.variable, left)
    out = np.flatnonzero(tree.parent == CORE)
    message_start, message_scope = take_rows(tree.scope_start, tree.scope_variable, out)
    return (
        np.concatenate((start, message_start[1:] + start[-1])),
        np.concatenate((scope, message_scope)),
    )


def by_degree(cubes: Cubes, members: np.ndarray, max_entries: float) -> EliminationOrder:
    """The order of degree of a component too large for a search, if its tables fit."""
    order = low_degree_order(cubes, members, SPARSE_SCOPE, max_entries)
    tree = build_tree(cubes, order)
    entries = float(tree.table_start[-1])
    width = int(np.diff(tree.scope_start).max(initial=0))
    if len(order) < members.sum():
        return EliminationOrder(order[:0], max(entries, 2.0 * max_entries), SPARSE_SCOPE, False)
    return EliminationOrder(order, entries, width, entries <= max_entries)
