"""Components full of interchangeable atoms, solved exactly by how many of them are true.

What is easy is eliminated first (`reduction`); in the core that is left interchangeable atoms are
found (`interchangeable`) and counted (`count_tables`), and the network over counts is solved by
junction trees. Eliminated atoms come back through the joint distribution of their neighbours. A
`Friends(x, y)` that nobody knows touches two people's `Smokes`: gone, it leaves a pair, all pairs
are alike, and thousands of unknowns are a sum over one count.

Only components with a dense middle are looked at: others are cheap for junction trees as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.freed_memory import give_back
from lapis.inference.exact.junction_tree import CORE, Tree, collect, distribute, log_states
from lapis.inference.exact.planning import plan_trees
from lapis.inference.log_odds import state_log_odds
from lapis.inference.moments.planning import has_dense_core
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.symmetry.count_tables import (
    Classes,
    CountTables,
    build_tables,
    group_variables,
)
from lapis.inference.symmetry.interchangeable import interchangeable_classes
from lapis.inference.symmetry.terms import score_terms
from lapis.network.csr import row_starts
from lapis.network.cubes import Cubes, Variables, falsifying_cubes, find_variables, penalties
from lapis.network.network import Network
from lapis.network.parts import keep_part
from lapis.network.satisfiability import contradiction
from lapis.progress import Stop

DENSE = 12  # neighbours: with fewer, tables of 2^12 entries are as good
MAX_ALONE = 32  # dense components that are planned one by one; more of them fit together or not


class Counted(NamedTuple):
    """Exact answers about some components of a network, constant counts apart."""

    solved: np.ndarray  # bool[num_atoms]
    log_partition: float
    marginal: np.ndarray  # float64[num_atoms], 0 where not solved
    log_odds: np.ndarray  # float64[num_atoms], 0 where not solved
    expected_count: np.ndarray  # float64[num_weights]
    class_sizes: list[int]  # of two atoms and more, the largest first


class CountPlan(NamedTuple):
    """Components whose atoms are counted, and how."""

    reduction: Reduction
    variables: Variables  # of the core
    tables: CountTables
    scopes: np.ndarray  # int64[num_leaving, width], count variables of scopes; −1 beyond their end
    tree: Tree


def solve_by_counts(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> Counted | None:
    """The dense components that counts solve within the memory; None if there are none."""
    dense = has_dense_core(network, DENSE)
    labels = np.unique(network.component[dense])
    groups = (
        [labels] if len(labels) > MAX_ALONE else [labels[i : i + 1] for i in range(len(labels))]
    )
    answers = []
    for group in groups:
        part, atom = keep_part(network, np.isin(network.component, group))
        if stop is not None:
            stop.check("counting interchangeable atoms")
        plan = plan_counts(part, max_memory, random_state, stop)
        if plan is not None:
            answers.append((atom, solve_counts(plan, stop)))
        del part, atom, plan
    give_back(network.literal.nbytes)
    if not answers:
        return None
    solved = np.zeros(network.num_atoms, bool)
    marginal, log_odds = np.zeros((2, network.num_atoms))
    for atom, found in answers:
        solved[atom] = True
        marginal[atom], log_odds[atom] = found.marginal, found.log_odds
    return Counted(
        solved,
        sum(found.log_partition for _, found in answers),
        marginal,
        log_odds,
        np.sum([found.expected_count for _, found in answers], axis=0),
        sorted((size for _, found in answers for size in found.class_sizes), reverse=True),
    )


def plan_counts(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> CountPlan | None:
    """How to count the atoms of a network; None if they differ, or their counts do not fit."""
    alike = find_alike(reduce(network))
    if alike is None:
        return None
    reduction, variables, classes, cubes, penalty, num_plain = alike
    scopes = leaving_scopes(reduction, variables, classes)
    asked = {tuple(sorted(set(row[row >= 0].tolist()))) for row in np.unique(scopes, axis=0)}
    try:
        tables = build_tables(classes, cubes, penalty, num_plain, asked)
    except TooLarge:
        return None
    rng = np.random.default_rng(random_state)
    component = variables.component[classes.first]
    tree, failed = plan_trees(tables.cubes, component, max_memory, rng, stop)
    return None if failed else CountPlan(reduction, variables, tables, scopes, tree)


class Alike(NamedTuple):
    """The core of a network, and which of its atoms can change places."""

    reduction: Reduction
    variables: Variables  # of the core
    classes: Classes
    cubes: Cubes
    penalty: np.ndarray  # float64[num_cubes]
    num_plain: int  # variables that are atoms in no block


def find_alike(reduction: Reduction) -> Alike | None:
    """None if no two atoms of the core can change places."""
    core = reduction.core
    if not core.num_atoms:
        return None
    variables = find_variables(core, np.ones(core.num_atoms, bool))
    cubes = falsifying_cubes(core, variables, np.arange(core.num_clauses))
    penalty = penalties(core, cubes, core.weights)
    num_plain = int((variables.state_atom[variables.state_start[:-1]] < 0).sum())
    first = interchangeable_classes(score_terms(cubes, penalty, num_plain))
    classes = group_variables(variables, first)
    if not classes.is_shared.any():
        return None
    return Alike(reduction, variables, classes, cubes, penalty, num_plain)


def atom_classes(reduction: Reduction) -> np.ndarray:
    """int32[num_base_atoms], equal for atoms of one class of the core; −1 for all others."""
    network = reduction.network
    label = np.full(network.num_atoms, -1, np.int32)
    alike = find_alike(reduction)
    if alike is not None:
        own = alike.classes.of_variable[alike.variables.atom_variable]
        label[alike.reduction.core_atom] = np.where(alike.classes.is_shared[own], own, -1)
    return label[: network.num_base_atoms]


def leaving_scopes(reduction: Reduction, variables: Variables, classes: Classes) -> np.ndarray:
    """The neighbours in the core of each eliminated clique next to it, as count variables."""
    before = reduction.variables.atom_variable[reduction.core_atom]
    counted = np.full(len(reduction.variables.size), -1, np.int64)
    counted[before] = classes.of_variable[variables.atom_variable]
    tree = reduction.tree
    leaving = np.flatnonzero(tree.parent == CORE)
    length = tree.scope_start[leaving + 1] - tree.scope_start[leaving]
    scopes = np.full((len(leaving), int(length.max(initial=1))), -1, np.int64)
    for place in range(scopes.shape[1]):
        inside = length > place
        at = tree.scope_start[leaving[inside]] + place
        scopes[inside, place] = counted[tree.scope_variable[at]]
    return scopes


def solve_counts(plan: CountPlan, stop: Stop | None = None) -> Counted:
    """log Z, marginals and expected counts."""
    reduction, tables, classes = plan.reduction, plan.tables, plan.tables.classes
    network, core, size = reduction.network, reduction.core, classes.size
    potentials = collect(plan.tree, tables.cubes, tables.penalty, stop=stop)
    roots, values = potentials.root_values(plan.tree)
    impossible = roots[values == -np.inf]
    if len(impossible):
        variable = classes.first[plan.tree.order[impossible[0]]]
        raise contradiction(core, int(plan.variables.component[variable]))
    beliefs = distribute(plan.tree, tables.cubes, potentials, stop=stop)
    logs = log_states(plan.tree, size, potentials, beliefs)
    odds = core_log_odds(plan, logs)
    joint = scope_joints(plan, beliefs.cube)
    false = tables.violated(beliefs.cube)[: len(reduction.kept_clause)]
    recovered = reduction.recover_joint(joint, expit(odds), false)
    soft = core.weight_id >= 0
    constant = float(core.weights @ core.constant_count)
    constant += float(core.weights[core.weight_id[soft]] @ core.coefficient[soft])
    log_odds = eliminated_log_odds(reduction, joint)
    log_odds[reduction.core_atom] = odds
    return Counted(
        np.ones(network.num_atoms, bool),
        constant + float(values.sum()),
        recovered.marginal,
        log_odds,
        recovered.expected_count,
        classes.num_atoms[classes.is_shared].tolist(),
    )


def core_log_odds(plan: CountPlan, logs: np.ndarray) -> np.ndarray:
    """float64[core.num_atoms]: log Σ P(k)·k − log Σ P(k)·(n − k) for each atom of a class."""
    classes, variables = plan.tables.classes, plan.variables
    start = row_starts(classes.size)
    atoms = np.arange(len(variables.atom_variable))
    own = classes.of_variable[variables.atom_variable]
    odds: np.ndarray = state_log_odds(logs, start)[start[own] + variables.atom_state[atoms]]
    for c in np.flatnonzero(classes.is_shared).tolist():
        state = logs[start[c] : start[c + 1]]
        count = np.arange(len(state), dtype=float)
        with np.errstate(divide="ignore"):
            log_count = np.log(count)
        ways = state + log_count, state + log_count[::-1]
        with np.errstate(divide="ignore"):
            odds[own == c] = np.logaddexp.reduce(ways[0]) - np.logaddexp.reduce(ways[1])
    return odds


def scope_joints(plan: CountPlan, belief: np.ndarray) -> np.ndarray:
    """The distribution over each scope that an eliminated clique has in the core."""
    tree = plan.reduction.tree
    leaving = np.flatnonzero(tree.parent == CORE)
    joint = np.zeros(tree.message_start[-1])
    kinds, kind = np.unique(plan.scopes, axis=0, return_inverse=True)
    for number, row in enumerate(kinds):
        table = plan.tables.joint(row[row >= 0].tolist(), belief)
        begin = tree.message_start[leaving[kind.ravel() == number]]
        joint[begin[:, None] + np.arange(len(table))] = table
    return joint


def eliminated_log_odds(reduction: Reduction, joint: np.ndarray) -> np.ndarray:
    """float64[num_atoms], right for eliminated atoms: both of their states are sums."""
    beliefs = distribute(reduction.tree, reduction.cubes, reduction.potentials, joint)
    variables = reduction.variables
    is_eliminated = np.zeros(len(variables.size), bool)
    is_eliminated[reduction.tree.order] = True
    states = np.repeat(is_eliminated, variables.size)
    logs = np.zeros(len(states))
    with np.errstate(divide="ignore"):
        logs[states] = np.log(beliefs.state[states])
    atoms, place = variables.place_of_atoms()
    odds = np.empty(reduction.network.num_atoms)
    odds[atoms] = state_log_odds(logs, variables.state_start)[place]
    return odds


def expit(log_odds: np.ndarray) -> np.ndarray:
    """float64[...], the probability of log-odds."""
    with np.errstate(over="ignore"):
        probability: np.ndarray = 1.0 / (1.0 + np.exp(-log_odds))
    return probability
