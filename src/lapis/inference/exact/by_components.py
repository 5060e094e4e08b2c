"""Exact inference by components: closed form for single atoms, junction trees for the rest.

    log Z = Σ_w w·constant_count[w] + Σ_{soft clauses} w·c + Σ_components log Σ_states exp(−losses)

A plan does not depend on the weights, so learning solves the same plan again and again. A component
whose tables would not fit the memory is refused, and the others are still solved.

Single atoms, in no block and only in unit clauses, have a closed form. There may be millions of
them.

    P(a) = e¹ / (e⁰ + e¹),   e¹ and e⁰ the exponentiated scores of the unit clauses a and ¬a

Copies of components, equal atom by atom and clause by clause, are solved once. Each component is
written as a row of numbers: its counts of clauses, literals and blocks, then its clauses (weight,
coefficient, literals) and blocks, with atoms numbered within the component. Rows are hashed, and
rows with equal hashes are compared. Grounding numbers atoms and clauses alike for each tuple of
constants, so copies have equal rows. Components equal only up to renumbering are solved separately.

Elimination orders. Most components need only an order by degree with small tables; one kernel call
finds all of these. The others are planned one by one: variables with at most `FRINGE_SCOPE`
neighbours are eliminated first (two never raise the width; three harmed grids), and the core gets a
search for an order. If all tables together exceed the memory, the cheapest ones are taken.

Long clauses are first kept whole up to `WHOLE_MEMBERS` variables. Refused components are planned
again with clauses of over three variables cut into chains, which helps some networks and harms
others. There is no case for enumeration: a component of a few atoms is a tree of a few small
tables, and a million such components are one kernel call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.exact.compensated_sums import any_large, split_scores
from lapis.inference.exact.elimination_order import (
    MAX_DENSE,
    EliminationOrder,
    best_order,
    low_degree_order,
)
from lapis.inference.exact.enumerate import split_by_label
from lapis.inference.exact.junction_tree import (
    CORE,
    ROOT,
    JunctionTree,
    Potentials,
    build_tree,
    collect_messages,
    distribute_beliefs,
    log_states,
    maximise_states,
    sample_states,
)
from lapis.inference.marginals import state_log_odds
from lapis.inference.random_numbers import mix_array
from lapis.network.components import Subnetwork, keep_part
from lapis.network.csr import row_starts, take_rows
from lapis.network.cubes import (
    Cubes,
    Variables,
    cube_penalties,
    cube_weights,
    cut_long_cubes,
    falsifying_cubes,
    find_variables,
    sum_by_weight,
)
from lapis.network.network import Network
from lapis.network.satisfiability import contradiction_error
from lapis.runtime.limits import format_bytes
from lapis.runtime.progress import Stop

EASY_SCOPE = 8  # most neighbours of a variable eliminated without a search
FRINGE_SCOPE = 2
SPARSE_SCOPE = 30  # neighbours in cores too large for a search


class Refusal(NamedTuple):
    """A component whose tables do not fit."""

    component: int
    num_atoms: int
    width: int  # the largest clique found, less one; the search stopped there
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
    chosen: np.ndarray,
    max_members: int,
    max_memory: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> tuple[Forest, tuple[Refusal, ...]]:
    """Plan trees for the components of the chosen atoms, bool[num_atoms], as far as they fit."""
    variables = find_variables(network, chosen)
    clauses = np.flatnonzero(chosen[network.first_atom])
    cubes, origin = cut_long_cubes(falsifying_cubes(network, variables, clauses), max_members)
    component = np.concatenate((variables.component, variables.component[origin]))

    tree, failed = plan_trees(cubes, component, max_memory, rng, stop)
    refused = []
    for label, found in failed.items():
        atoms = int(((network.component == label) & chosen).sum())
        refused.append(Refusal(label, atoms, found.width, 12 * found.entries))
    return Forest(variables, cubes, component, tree), tuple(refused)


def plan_trees(
    cubes: Cubes,
    component: np.ndarray,
    max_memory: int,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> tuple[JunctionTree, dict[int, EliminationOrder]]:
    """Return trees of the components, int32[num_variables], that fit.

    And the orders tried for others.
    """
    max_entries = max_memory / 12  # bytes; a message has at most half the entries of its table
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
    """Search an order for each component of the hard variables, bool[num_variables]."""
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
        split_by_label(fringe, component[fringe], used),
        split_by_label(core, component[core], used),
        split_by_label(np.arange(len(scope_label)), scope_label, used),
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
    """Return CSR rows of scopes over core variables: of cubes, and of the fringe's messages."""
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
    """Return the order by degree of a component too large for a search, if its tables fit."""
    order = low_degree_order(cubes, members, SPARSE_SCOPE, max_entries)
    tree = build_tree(cubes, order)
    entries = float(tree.table_start[-1])
    width = int(np.diff(tree.scope_start).max(initial=0))
    if len(order) < members.sum():
        return EliminationOrder(order[:0], max(entries, 2.0 * max_entries), SPARSE_SCOPE, False)
    return EliminationOrder(order, entries, width, entries <= max_entries)


class SingleAtoms(NamedTuple):
    """Closed-form answers of single atoms."""

    atom: np.ndarray  # int64[num_single]
    base: np.ndarray  # float64[num_single], whole parts, not in log_partition
    log_partition: np.ndarray  # float64[num_single], −∞ where the hard clauses contradict
    probability: np.ndarray  # float64[num_single], that the atom is true
    score: np.ndarray  # float64[num_single, 2], of false and true, up to a constant
    clause: np.ndarray  # int64[num_units], the unit clauses over them
    falsified: np.ndarray  # float64[num_units], probability that each is false


def single_atoms(network: Network) -> np.ndarray:
    """Return atoms in no block and only in clauses of one literal, bool[num_atoms]."""
    single = np.ones(network.num_atoms, bool)
    length = np.diff(network.clause_start)
    single[np.abs(network.literal[np.repeat(length > 1, length)]) - 1] = False
    single[network.block_atom] = False
    return single


def unit_clauses(network: Network, single: np.ndarray) -> np.ndarray:
    """Return int64[...], the clauses of single atoms."""
    units = np.flatnonzero(np.diff(network.clause_start) == 1)
    return units[single[np.abs(network.literal[network.clause_start[units]]) - 1]]


def solve_single_atoms(
    network: Network, single: np.ndarray, units: np.ndarray, weights: np.ndarray
) -> SingleAtoms:
    """Solve the single atoms in closed form; `units` are their clauses."""
    atom = np.flatnonzero(single)
    literal = network.literal[network.clause_start[units]]
    place = np.searchsorted(atom, np.abs(literal) - 1)
    lost_when = (literal < 0).astype(np.int64)  # the value that makes the clause false
    weight_id = network.weight_id[units]
    hard = weight_id < 0
    weight = np.append(-weights, 0.0)[weight_id]
    loss = weight * network.coefficient[units]
    score, base = np.zeros((len(atom), 2)), np.zeros(len(atom))
    if any_large(loss):
        whole, loss = split_scores(weight, network.coefficient[units])
        np.add.at(score, (place, lost_when), whole)
        base = score.max(axis=1)
        score -= base[:, np.newaxis]
    np.add.at(score, (place, lost_when), loss)
    score[place[hard], lost_when[hard]] = -np.inf
    log_partition = np.logaddexp(score[:, 0], score[:, 1])
    possible = np.where(log_partition > -np.inf, log_partition, 0.0)
    probability = np.exp(score - possible[:, np.newaxis])
    return SingleAtoms(
        atom, base, log_partition, probability[:, 1], score, units, probability[place, lost_when]
    )


class Duplicates(NamedTuple):
    """The first of equal components, for each component and atom."""

    first: np.ndarray  # int64[num_components], the first component equal to each
    first_atom: np.ndarray  # int64[num_atoms], the corresponding atom of that component
    copies: np.ndarray  # float64[num_components], the number of copies of a first one; else 0


def no_duplicates(network: Network) -> Duplicates:
    """Return every component as its own first copy."""
    components = np.arange(network.num_components)
    return Duplicates(components, np.arange(network.num_atoms), np.ones(len(components)))


def find_duplicates(network: Network, ignored: np.ndarray) -> Duplicates:
    """Find copies among the components of atoms that are not ignored, bool[num_atoms]."""
    label, num_components = network.component, network.num_components
    considered = may_have_copies(network, ignored)
    if not considered.any():
        return no_duplicates(network)
    by_component = np.argsort(label, kind="stable")
    atom_start = row_starts(np.bincount(label, minlength=num_components))
    local = np.empty(network.num_atoms, np.int64)
    local[by_component] = np.arange(network.num_atoms) - np.repeat(
        atom_start[:-1], np.diff(atom_start)
    )
    owner, value = component_words(network, local, considered)
    start = row_starts(np.bincount(owner, minlength=num_components))
    first = np.where(considered, first_equal(start, value), np.arange(num_components))
    return Duplicates(
        first,
        by_component[atom_start[first[label]] + local],
        np.bincount(first, minlength=num_components).astype(np.float64),
    )


def may_have_copies(network: Network, ignored: np.ndarray) -> np.ndarray:
    """Return components with as many atoms and clauses as another, bool[num_components]."""
    label = network.component
    clause_label = label[network.first_atom]
    num_components = network.num_components
    shape = np.bincount(label, minlength=num_components) * (network.num_clauses + 1)
    shape += np.bincount(clause_label, minlength=num_components)
    shape[label[ignored]] = -1
    _, back, times = np.unique(shape, return_inverse=True, return_counts=True)
    return (times[back] > 1) & (shape >= 0)


def component_words(
    network: Network, local: np.ndarray, considered: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the component of each word, in order, and the words, int64[num_words] each."""
    label = network.component
    owners: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def add_rows(
        start: np.ndarray, literal: np.ndarray, rows: np.ndarray, features: list[np.ndarray]
    ) -> None:
        """The number of rows and literals of each component, then the rows themselves."""
        start, literal = take_rows(start, literal, rows)
        atom = np.abs(literal) - 1
        owner: np.ndarray = label[atom[start[:-1]]].astype(np.int64)
        literal_owner = label[atom].astype(np.int64)
        for labels in (owner, literal_owner):
            owners.append(np.flatnonzero(considered))
            values.append(np.bincount(labels, minlength=len(considered))[considered])
        owners.extend([literal_owner, owner] + [owner] * len(features))
        values.extend([(local[atom] + 1) * np.sign(literal), np.diff(start)])
        values.extend(feature[rows].astype(np.int64) for feature in features)

    add_rows(
        network.clause_start,
        network.literal,
        np.flatnonzero(considered[label[network.first_atom]]),
        [network.weight_id, network.coefficient.view(np.int64)],
    )
    first = network.block_atom[network.block_start[:-1]]
    add_rows(
        network.block_start,
        network.block_atom + 1,
        np.flatnonzero(considered[label[first]]),
        [network.block_exact],
    )
    all_owners = np.concatenate(owners)
    order = np.argsort(all_owners, kind="stable")
    return all_owners[order], np.concatenate(values)[order]


def first_equal(start: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return the first row with the same values, int64[num_rows]."""
    length = np.diff(start)
    row = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(value)) - start[row]
    word = mix_array(value.view(np.uint64) + mix_array(position.astype(np.uint64)))
    summed = np.concatenate((np.zeros(1, np.uint64), np.cumsum(word)))
    digest = summed[start[1:]] - summed[start[:-1]]
    digest = mix_array(digest + mix_array(length.astype(np.uint64)))
    _, where, back = np.unique(digest, return_index=True, return_inverse=True)
    first = where[back]
    same = length == length[first]
    comparable = same[row]
    other = start[first[row[comparable]]] + position[comparable]
    differs = value[comparable] != value[other]
    same[row[comparable][differs]] = False
    return np.where(same, first, np.arange(len(length)))


DEFAULT_MEMORY = 1 << 30  # bytes of tables: about 25 binary variables in the largest clique
WHOLE_MEMBERS = 10
CUT_MEMBERS = 3


@dataclass(frozen=True)
class ExactResult:
    """Exact answers about the solved components."""

    log_partition: float  # of these components, the constant score included
    probability: np.ndarray  # float64[num_atoms], of the first of equal atoms; NaN if not solved
    expected_count: np.ndarray  # float64[num_weights], of their clauses and the constant count
    solved: np.ndarray  # bool[num_base_atoms]
    width: int  # variables in the largest clique, less one
    log_odds: np.ndarray | None  # float64[num_base_atoms], if requested; NaN where not solved
    first_atom: np.ndarray | None = None  # int64[num_atoms], the first equal atom; None: itself

    @cached_property
    def marginal(self) -> np.ndarray:
        """float64[num_base_atoms], NaN where not solved.

        Learning solves a plan for each of its products with the curvature and needs counts only.
        """
        values, size = self.probability, len(self.solved)
        values = values[:size] if self.first_atom is None else values[self.first_atom[:size]]
        return np.clip(np.where(self.solved, values, np.nan), 0.0, 1.0)


@dataclass(frozen=True)
class ExactPlan:
    """The solved components and their junction trees, for any weights."""

    network: Network
    single: np.ndarray  # bool[num_atoms], solved in closed form
    duplicates: Duplicates
    forests: tuple[Forest, ...]
    refused: tuple[Refusal, ...]
    max_memory: int

    @cached_property
    def affordable(self) -> np.ndarray:
        """bool[num_atoms], the atoms of components that are solved."""
        refused = np.zeros(len(self.duplicates.first), bool)
        refused[[refusal.component for refusal in self.refused]] = True
        return ~refused[self.duplicates.first[self.network.component]]

    @cached_property
    def all_true(self) -> np.ndarray:
        """float64[num_weights], the counts of the solved components if all clauses are true."""
        network = self.network
        solved = np.flatnonzero(self.affordable[network.first_atom])  # copies included
        return network.constant_count + sum_by_weight(network, solved, np.ones(len(solved)))

    @cached_property
    def single_units(self) -> np.ndarray:
        """int64[...], the clauses of the single atoms."""
        return unit_clauses(self.network, self.single)

    @property
    def is_complete(self) -> bool:
        return not self.refused

    @property
    def width(self) -> int:
        return max((forest.width for forest in self.forests), default=0)

    def require_complete(self) -> None:
        """Raise TooLarge unless every component is affordable."""
        if not self.refused:
            return
        worst = max(self.refused, key=lambda refusal: (refusal.width, refusal.num_atoms))
        raise TooLarge(
            f"exact inference does not fit the memory: for a component of {worst.num_atoms:,} "
            f"unknown atoms every elimination order tried joins {worst.width + 1:,} or more of "
            f"them in a table and needs at least {describe_large(worst.num_bytes)}, over the "
            f"limit of {format_bytes(self.max_memory)}",
            code="too-wide",
            hint="give more evidence, query less, raise the memory limit, or sample",
        )

    def rest(self) -> Subnetwork:
        """Return the components that are not affordable, as a network without constant counts."""
        return keep_part(self.network, ~self.affordable)

    def solve(
        self,
        weights: np.ndarray | None = None,
        *,
        log_odds: bool = False,
        stop: Stop | None = None,
    ) -> ExactResult:
        """Return log Z, marginals and expected counts of the affordable components."""
        network = self.network
        weights = network.weights if weights is None else weights
        probability = np.full(network.num_atoms, np.nan)
        odds = np.full(network.num_atoms, np.nan) if log_odds else None
        terms = (weights * self.all_true).tolist()  # of log Z; they may cancel

        alone = self._solve_single(weights)
        terms += [float(alone.base.sum()), float(alone.log_partition.sum())]
        probability[alone.atom] = alone.probability
        if odds is not None:
            odds[alone.atom] = alone.score[:, 1] - alone.score[:, 0]
        lost = sum_by_weight(network, alone.clause, alone.falsified)
        for forest in self.forests:
            potentials = self._collect(forest, weights, False, stop)
            roots = np.flatnonzero(forest.tree.parent == ROOT)
            copies = self.duplicates.copies[forest.component]
            times = copies[forest.tree.order[roots]]
            message = potentials.message[forest.tree.message_start[roots]]
            terms += [float(times @ potentials.base), float(times @ message)]
            beliefs = distribute_beliefs(
                forest.tree, forest.cubes, potentials, overwrite=not log_odds, stop=stop
            )
            atoms, place = forest.variables.place_of_atoms()
            probability[atoms] = beliefs.state[place]
            if odds is not None:
                logs = log_states(forest.tree, forest.cubes.size, potentials, beliefs)
                odds[atoms] = state_log_odds(logs, row_starts(forest.cubes.size))[place]
            entered = forest.tree.cube[forest.cubes.clause[forest.tree.cube] >= 0]
            times = copies[forest.cubes.variable[forest.cubes.start[entered]]]
            lost += sum_by_weight(
                network, forest.cubes.clause[entered], times * beliefs.cube[entered]
            )
        first, solved = self.duplicates.first_atom, self.affordable[: network.num_base_atoms]
        if odds is not None:
            odds = np.where(solved, odds[first[: len(solved)]], np.nan)
        return ExactResult(
            math.fsum(terms), probability, self.all_true - lost, solved, self.width, odds, first
        )

    def maximise(self, weights: np.ndarray | None = None, stop: Stop | None = None) -> np.ndarray:
        """Return a most likely world, bool[num_atoms]; false where not affordable."""
        network = self.network
        weights = network.weights if weights is None else weights
        world = np.zeros(network.num_atoms, bool)
        alone = self._solve_single(weights)
        world[alone.atom] = alone.score[:, 1] > alone.score[:, 0]
        for forest in self.forests:
            potentials = self._collect(forest, weights, True, stop)
            state = np.zeros(len(forest.cubes.size), np.int32)
            maximise_states(forest.tree, forest.cubes.size, potentials, state)
            set_atoms(forest, state[None], world[None])
        return world[self.duplicates.first_atom] & self.affordable

    @property
    def num_entries(self) -> int:
        """The entries of all tables, in proportion to the time of a solve."""
        return sum(int(forest.tree.table_start[-1]) for forest in self.forests)

    def for_sampling(self) -> tuple[ExactPlan, np.ndarray] | None:
        """Return a plan that can draw samples, and the atom of this plan for each of its atoms.

        It plans copies of components separately; None if that is too large.
        """
        part = keep_part(self.network, self.affordable)
        plan = plan_exact(part.network, 4 * self.max_memory, merge_copies=False)
        return (plan, part.atom) if plan.is_complete else None

    def sample(
        self, num_samples: int, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw independent samples, bool[num_samples, num_atoms]; false where not affordable.

        Copies of a component must differ in a sample, so the plan needs `merge_copies=False`.
        """
        if (self.duplicates.copies > 1).any():
            raise ValueError("samples need a plan made with merge_copies=False")
        weights = self.network.weights if weights is None else weights
        worlds = np.zeros((num_samples, self.network.num_atoms), bool)
        alone = self._solve_single(weights)
        worlds[:, alone.atom] = rng.random((num_samples, len(alone.atom))) < alone.probability
        for forest in self.forests:
            potentials = self._collect(forest, weights, False)
            states = np.zeros((num_samples, len(forest.cubes.size)), np.int32)
            sample_states(forest.tree, forest.cubes.size, potentials, states, rng)
            set_atoms(forest, states, worlds)
        return worlds

    def _solve_single(self, weights: np.ndarray) -> SingleAtoms:
        alone = solve_single_atoms(self.network, self.single, self.single_units, weights)
        contradicted = alone.atom[alone.log_partition == -np.inf]
        if len(contradicted):
            raise contradiction_error(self.network, int(self.network.component[contradicted[0]]))
        return alone

    def _collect(
        self, forest: Forest, weights: np.ndarray, maximise: bool, stop: Stop | None = None
    ) -> Potentials:
        penalty = cube_penalties(self.network, forest.cubes, weights)
        split = partial(split_penalties, self.network, forest.cubes, weights)
        potentials = collect_messages(
            forest.tree, forest.cubes, penalty, maximise, stop, split=split
        )
        roots, values = potentials.root_values(forest.tree)
        impossible = roots[values == -np.inf]
        if len(impossible):
            component = forest.component[forest.tree.order[impossible[0]]]
            raise contradiction_error(self.network, int(component))
        return potentials


def plan_exact(
    network: Network,
    max_memory: int = DEFAULT_MEMORY,
    *,
    merge_copies: bool = True,
    random_state: int = 0,
    stop: Stop | None = None,
) -> ExactPlan:
    """Plan the components that are solved exactly within `max_memory` bytes of tables."""
    rng = np.random.default_rng(random_state)
    single = single_atoms(network)
    duplicates = find_duplicates(network, single) if merge_copies else no_duplicates(network)
    is_first = duplicates.first == np.arange(len(duplicates.first))
    chosen = ~single & is_first[network.component]
    forests: list[Forest] = []
    refused: tuple[Refusal, ...] = ()
    left = max_memory
    length = np.diff(network.clause_start)
    is_long = np.zeros(network.num_atoms, bool)
    is_long[np.abs(network.literal[np.repeat(length > CUT_MEMBERS, length)]) - 1] = True
    for max_members in (WHOLE_MEMBERS, CUT_MEMBERS):
        if not chosen.any() or (refused and not (chosen & is_long).any()):
            break
        forest, refused = plan_forest(network, chosen, max_members, left, rng, stop)
        if len(forest.tree.order):
            forests.append(forest)
        left -= forest.tree.num_bytes
        again = np.zeros(len(is_first), bool)
        again[[refusal.component for refusal in refused]] = True
        chosen &= again[network.component]
    return ExactPlan(network, single, duplicates, tuple(forests), refused, max_memory)


def exact(network: Network, max_memory: int = DEFAULT_MEMORY) -> ExactResult:
    """Return exact log Z, marginals and expected counts; TooLarge if tables exceed `max_memory`."""
    plan = plan_exact(network, max_memory)
    plan.require_complete()
    return plan.solve(log_odds=True)


def exact_map(network: Network, stop: Stop | None = None) -> tuple[float, np.ndarray]:
    """Return the score of a most likely world and the world, bool[num_atoms]."""
    plan = plan_exact(network, stop=stop)
    plan.require_complete()
    world = plan.maximise(stop=stop)
    return network.score(world), world


def split_penalties(
    network: Network, cubes: Cubes, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return whole parts and rests of the cubes' scores, each float64[num_cubes]."""
    weight_id = cube_weights(network, cubes)
    times = np.where(weight_id >= 0, network.coefficient[cubes.clause], 1.0)
    return split_scores(np.append(-weights, -np.inf)[weight_id], times)


def set_atoms(forest: Forest, states: np.ndarray, worlds: np.ndarray) -> None:
    """Set the atoms that are true in states, int32[num_worlds, num_variables]; others stay."""
    variables = forest.variables
    num_variables = len(variables.size)
    true = variables.state_atom[variables.state_start[:-1] + states[:, :num_variables]]
    world, variable = np.nonzero(forest.is_solved[:num_variables] & (true >= 0))
    worlds[world, true[world, variable]] = True


def describe_large(count: float) -> str:
    """Return bytes as text, by order of magnitude if beyond any machine."""
    return format_bytes(count) if count < 1e15 else f"10^{np.log10(count):.0f} bytes"
