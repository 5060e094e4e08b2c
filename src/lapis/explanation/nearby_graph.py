"""The graph of the atoms and ground formulas around an explained atom."""

from __future__ import annotations

import numpy as np

from lapis.explanation.contributions import instance_text
from lapis.explanation.local_network import LocalNetwork
from lapis.explanation.neighbourhood import OPEN
from lapis.results.explanation import NearbyEdge, NearbyNode

MAX_FORMULAS, MAX_ATOMS = 24, 40  # of the graph
MAX_STEPS = 2


def draw_nearby(
    local: LocalNetwork, name: str, probability: np.ndarray, importance: np.ndarray
) -> tuple[tuple[NearbyNode, ...], tuple[NearbyEdge, ...]]:
    """Return the nodes and edges of the graph, nearest first.

    `probability`, float64[num_base_atoms], is NaN where unknown; `importance`,
    float64[num_instances], chooses the ground formulas if there are too many.
    """
    formula, atom = local.incidence
    steps = local.steps[atom]
    inside = (steps >= 0) & (steps < MAX_STEPS) & ((steps == 0) | (local.value[atom] == OPEN))
    near = np.unique(formula[inside])
    level = np.full(local.num_instances, MAX_STEPS, np.int64)
    np.minimum.at(level, formula[inside], steps[inside])
    near = near[np.lexsort((-importance[near], level[near]))][:MAX_FORMULAS]
    chosen = np.isin(formula, near)
    atoms = np.unique(np.concatenate([atom[chosen], local.target]))
    order = np.lexsort((atoms, local.steps[atoms]))
    atoms = atoms[order][:MAX_ATOMS]
    nodes: list[NearbyNode] = []
    place: dict[int, int] = {}
    single = len(local.target) == 1
    for number, text in zip(atoms.tolist(), local.names(atoms), strict=True):
        place[number] = len(nodes)
        nodes.append(atom_node(local, number, text, probability))
    edges: list[NearbyEdge] = []
    if not single:
        edges += [NearbyEdge(len(nodes), place[a]) for a in local.target.tolist() if a in place]
        own = float(probability[local.explained])
        nodes.append(NearbyNode("block", name, 0, None, own))
    for number in near.tolist():
        rule, values = local.instance(number)
        weight = None if local.is_hard[number] else float(local.weight[number])
        members = atom[formula == number].tolist()
        edges += [NearbyEdge(place[a], len(nodes)) for a in members if a in place]
        step = 2 * int(level[number]) + 1
        nodes.append(NearbyNode("formula", instance_text(rule, values), step, weight=weight))
    return tuple(nodes), tuple(edges)


def atom_node(local: LocalNetwork, number: int, text: str, probability: np.ndarray) -> NearbyNode:
    """Return the node of an atom."""
    value = None if local.value[number] == OPEN else bool(local.value[number])
    known = float(probability[number])
    given = None if value is not None or np.isnan(known) else known
    return NearbyNode("atom", text, 2 * int(local.steps[number]), value, given)
