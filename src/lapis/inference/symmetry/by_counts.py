"""Components of interchangeable atoms, solved exactly by sums over numbers of true atoms.

Easy atoms are eliminated first (`reduction`). In the core, interchangeable atoms are found
(`interchangeable`) and counted (`count_tables`), and the network over counts is solved by junction
trees. Eliminated atoms follow from the joint distribution of their neighbours. An unknown
`Friends(x, y)` between the `Smokes` of two people is eliminated and leaves a pair; all pairs are
alike, and thousands of unknowns become a sum over one count. Only components with a dense core are
considered: others are cheap for junction trees.

A `CountPlan` is valid at any weights for which its classes are interchangeable. Inference proves
that at the model's weights. Learning needs it at all weights, so it plans at random weights
(`any_weights`): the terms of the score are analytic in the weights, so two that agree at a random
point agree everywhere, with probability one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.exact.by_components import ExactResult, plan_trees
from lapis.inference.exact.junction_tree import (
    CORE,
    CliqueBeliefs,
    JunctionTree,
    Potentials,
    collect_messages,
    distribute_beliefs,
    log_states,
    sample_states,
)
from lapis.inference.exact.treewidth_bounds import has_dense_core
from lapis.inference.marginals import state_log_odds
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.symmetry.count_tables import (
    Classes,
    CountTables,
    build_tables,
    group_variables,
)
from lapis.inference.symmetry.interchangeable import interchangeable_classes, score_terms
from lapis.network.components import keep_part
from lapis.network.csr import row_starts
from lapis.network.cubes import (
    Cubes,
    Variables,
    cube_penalties,
    falsifying_cubes,
    find_variables,
    take_first_cubes,
)
from lapis.network.network import Network
from lapis.network.satisfiability import contradiction_error
from lapis.runtime.processes import trim_heap
from lapis.runtime.progress import Stop

DENSE = 12  # neighbours: with fewer, tables of 2^12 entries suffice
MAX_ALONE = 32  # dense components that are planned one by one; more are planned together


@dataclass(frozen=True)
class CountPlan:
    """Components whose atoms are counted, and their tables."""

    reduction: Reduction
    variables: Variables  # of the core
    tables: CountTables
    message_place: np.ndarray  # int64[...], entries of the messages that enter the core
    message_event: np.ndarray  # int64[...], the event of each of these entries
    tree: JunctionTree

    @property
    def network(self) -> Network:
        return self.reduction.network

    @property
    def affordable(self) -> np.ndarray:
        """bool[num_atoms], all true: a plan has only components that are solved."""
        return np.ones(self.network.num_atoms, bool)

    @property
    def num_entries(self) -> int:
        """The entries of all tables, in proportion to the time of a solve."""
        return int(self.tree.table_start[-1] + self.reduction.tree.table_start[-1])

    @property
    def class_sizes(self) -> list[int]:
        """The sizes of the classes of two atoms and more."""
        sizes: list[int] = self.tables.classes.num_atoms[self.tables.classes.is_shared].tolist()
        return sizes

    def solve(
        self,
        weights: np.ndarray | None = None,
        *,
        log_odds: bool = False,
        stop: Stop | None = None,
    ) -> ExactResult:
        """Return log Z, marginals and expected counts."""
        reduction, network, tables = self.reduction, self.network, self.tables
        weights = network.weights if weights is None else weights
        eliminated, potentials = self._collect(weights, stop)
        beliefs = distribute_beliefs(self.tree, tables.cubes, potentials, stop=stop)
        event = tables.event_probability(beliefs.cube)
        joint = np.zeros(int(reduction.tree.message_start[-1]))
        joint[self.message_place] = event[self.message_event]
        recovered = reduction.recover_joint(
            joint, self._core_marginal(beliefs), event[tables.cube_event], eliminated
        )
        terms = (weights * reduction.all_true).tolist()  # of log Z; they may cancel
        terms += eliminated.root_values(reduction.tree)[1].tolist()
        terms += potentials.root_values(self.tree)[1].tolist()
        odds = None
        if log_odds:
            odds = eliminated_log_odds(reduction, eliminated, joint)
            logs = log_states(self.tree, tables.classes.size, potentials, beliefs)
            odds[reduction.core_atom] = self._core_log_odds(logs)
            odds = odds[: network.num_base_atoms]
        return ExactResult(
            math.fsum(terms),
            recovered.marginal[: network.num_base_atoms],
            recovered.expected_count,
            np.ones(network.num_base_atoms, bool),
            int(np.diff(self.tree.scope_start).max(initial=0)),
            odds,
        )

    def sample(
        self, num_samples: int, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw independent samples, bool[num_samples, num_atoms]: counts, then true atoms."""
        reduction, classes = self.reduction, self.tables.classes
        weights = self.network.weights if weights is None else weights
        eliminated, potentials = self._collect(weights)
        counts = np.zeros((num_samples, len(classes.size)), np.int32)
        sample_states(self.tree, classes.size, potentials, counts, rng)
        core = counts[:, classes.of_variable]
        for c in np.flatnonzero(classes.is_shared).tolist():
            members = np.flatnonzero(classes.of_variable == c)
            order = rng.random((num_samples, len(members))).argsort(axis=1)
            true = np.arange(len(members)) < counts[:, [c]]
            np.put_along_axis(core, members[order], true, axis=1)
        variables = reduction.variables
        states = np.zeros((num_samples, len(variables.size)), np.int32)
        before = variables.atom_variable[reduction.core_atom]
        states[:, before] = core[:, self.variables.atom_variable]
        sample_states(reduction.tree, variables.size, eliminated, states, rng)
        true_atom = variables.state_atom[variables.state_start[:-1] + states]
        worlds = np.zeros((num_samples, self.network.num_atoms), bool)
        row, variable = np.nonzero(true_atom >= 0)
        worlds[row, true_atom[row, variable]] = True
        return worlds

    def for_sampling(self) -> tuple[CountPlan, np.ndarray]:
        """Return a plan that can draw samples, and the atom of this plan for each of its atoms."""
        return self, np.arange(self.network.num_atoms)

    def _collect(
        self, weights: np.ndarray, stop: Stop | None = None
    ) -> tuple[Potentials, Potentials]:
        """Run the upward passes over the eliminated variables and over the counts."""
        reduction, network, tables = self.reduction, self.network, self.tables
        penalty = cube_penalties(network, reduction.cubes, weights)
        eliminated = collect_messages(reduction.tree, reduction.cubes, penalty, stop=stop)
        kept = reduction.kept_clause
        soft = network.weight_id[kept] >= 0
        scores = -weights[network.weight_id[kept[soft]]] * network.coefficient[kept[soft]]
        strength = np.bincount(tables.cube_event[soft], scores, tables.num_events)
        messages = eliminated.message[self.message_place]
        strength = strength + np.bincount(self.message_event, messages, tables.num_events)
        potentials = collect_messages(self.tree, tables.cubes, tables.score(strength), stop=stop)
        roots, values = potentials.root_values(self.tree)
        impossible = roots[values == -np.inf]
        if len(impossible):
            variable = tables.classes.first[self.tree.order[impossible[0]]]
            raise contradiction_error(reduction.core, int(self.variables.component[variable]))
        return eliminated, potentials

    def _core_marginal(self, beliefs: CliqueBeliefs) -> np.ndarray:
        """Return E[k] / n for each atom of a class of n, float64[core.num_atoms]."""
        classes, variables = self.tables.classes, self.variables
        start = row_starts(classes.size)
        count = np.arange(start[-1]) - np.repeat(start[:-1], classes.size)
        mean = np.add.reduceat(beliefs.state * count, start[:-1])
        own = classes.of_variable[variables.atom_variable]
        of_class = mean[own] / np.maximum(classes.num_atoms[own], 1)
        in_block = beliefs.state[start[own] + variables.atom_state]
        return np.where(classes.num_atoms[own] > 0, of_class, in_block)

    def _core_log_odds(self, logs: np.ndarray) -> np.ndarray:
        """Return log Σ P(k)·k − log Σ P(k)·(n − k) by class, float64[core.num_atoms]."""
        classes, variables = self.tables.classes, self.variables
        start = row_starts(classes.size)
        own = classes.of_variable[variables.atom_variable]
        odds: np.ndarray = state_log_odds(logs, start)[start[own] + variables.atom_state]
        for c in np.flatnonzero(classes.is_shared).tolist():
            state = logs[start[c] : start[c + 1]]
            count = np.arange(len(state), dtype=float)
            with np.errstate(divide="ignore"):
                log_count = np.log(count)
                ways = state + log_count, state + log_count[::-1]
                odds[own == c] = np.logaddexp.reduce(ways[0]) - np.logaddexp.reduce(ways[1])
        return odds


def plan_components(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> Iterator[tuple[CountPlan, np.ndarray]]:
    """Return plans of dense components that can be counted, and their atoms, int64[num_atoms]."""
    dense = has_dense_core(network, DENSE)
    labels = np.unique(network.component[dense])
    groups = (
        [labels] if len(labels) > MAX_ALONE else [labels[i : i + 1] for i in range(len(labels))]
    )
    for group in groups:
        part, atom = keep_part(network, np.isin(network.component, group))
        if stop is not None:
            stop.check("counting interchangeable atoms")
        plan = plan_counts(part, max_memory, random_state, stop)
        if plan is not None:
            yield plan, atom
        del part, atom, plan
    trim_heap(network.literal.nbytes)


def any_weights(network: Network, natural: np.ndarray) -> Network:
    """Return the network at weights of a random direction, float64[num_weights], of moderate size.

    Atoms interchangeable there are so at all weights. Large weights would hide differences in the
    rounding of log(1 + exp w).
    """
    soft = network.weight_id >= 0
    sizes = np.abs(natural[network.weight_id[soft]] * network.coefficient[soft])
    largest = float(sizes.max(initial=0.0))
    return network.with_weights(natural / largest if largest > 0 else natural)


def plan_counts(
    network: Network, max_memory: int, random_state: int = 0, stop: Stop | None = None
) -> CountPlan | None:
    """Plan the counts of a network; None if atoms differ or count tables do not fit."""
    alike = find_core_classes(reduce(network))
    if alike is None:
        return None
    reduction, variables, classes, cubes, _, num_plain = alike
    scopes = leaving_scopes(reduction, variables, classes)
    kinds, kind = np.unique(scopes, axis=0, return_inverse=True)
    is_hard = network.weight_id[reduction.kept_clause] < 0
    try:
        kept = take_first_cubes(cubes, len(is_hard))
        tables = build_tables(classes, kept, is_hard, num_plain, kinds, max_memory)
    except TooLarge:
        return None
    rng = np.random.default_rng(random_state)
    component = variables.component[classes.first]
    tree, failed = plan_trees(tables.cubes, component, max_memory, rng, stop)
    if failed:
        return None
    place, within, leaving = message_entries(reduction.tree)
    event = tables.scope_event[kind.ravel()[leaving]] + within
    return CountPlan(reduction, variables, tables, place, event, tree)


def message_entries(tree: JunctionTree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places of the entries of messages into the core, places within, and the message."""
    leaving = np.flatnonzero(tree.parent == CORE)
    begin = tree.message_start[leaving].astype(np.int64)
    length = tree.message_start[leaving + 1] - begin
    message = np.repeat(np.arange(len(leaving)), length)
    within = np.arange(len(message)) - row_starts(length)[message]
    return begin[message] + within, within, message


class CoreClasses(NamedTuple):
    """The core of a network, and its classes of interchangeable atoms."""

    reduction: Reduction
    variables: Variables  # of the core
    classes: Classes
    cubes: Cubes
    penalty: np.ndarray  # float64[num_cubes]
    num_plain: int  # variables that are atoms in no block


def find_core_classes(reduction: Reduction) -> CoreClasses | None:
    """Return the classes of the core; None if no two atoms are interchangeable."""
    core = reduction.core
    if not core.num_atoms:
        return None
    variables = find_variables(core, np.ones(core.num_atoms, bool))
    cubes = falsifying_cubes(core, variables, np.arange(core.num_clauses))
    penalty = cube_penalties(core, cubes, core.weights)
    num_plain = int((variables.state_atom[variables.state_start[:-1]] < 0).sum())
    first = interchangeable_classes(score_terms(cubes, penalty, num_plain))
    classes = group_variables(variables, first)
    if not classes.is_shared.any():
        return None
    return CoreClasses(reduction, variables, classes, cubes, penalty, num_plain)


def atom_classes(reduction: Reduction) -> np.ndarray:
    """Return equal labels for atoms of one class of the core, int32[num_base_atoms]; −1: none."""
    network = reduction.network
    label = np.full(network.num_atoms, -1, np.int32)
    alike = find_core_classes(reduction)
    if alike is not None:
        own = alike.classes.of_variable[alike.variables.atom_variable]
        label[alike.reduction.core_atom] = np.where(alike.classes.is_shared[own], own, -1)
    return label[: network.num_base_atoms]


def leaving_scopes(reduction: Reduction, variables: Variables, classes: Classes) -> np.ndarray:
    """Return the core neighbours of each eliminated clique next to the core, as count variables."""
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


def eliminated_log_odds(
    reduction: Reduction, potentials: Potentials, joint: np.ndarray
) -> np.ndarray:
    """Return log-odds, float64[num_atoms], valid for eliminated atoms."""
    beliefs = distribute_beliefs(reduction.tree, reduction.cubes, potentials, joint)
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
