"""Exact inference by components: closed form for single atoms, junction trees for the rest.

    log Z = Σ_w w·constant_count[w] + Σ_{soft clauses} w·c + Σ_components log Σ_states exp(−losses)

A plan is made first and does not depend on the weights, so that learning can solve the same
network again and again: atoms that stand alone go to `closed_form`; of components that are
copies of each other one is solved; the rest get elimination orders, by degree where that is
cheap, by search where it is not. A component whose tables would not fit the memory given is
refused, the others are still solved: `auto` samples only what is left.

Long clauses are first kept whole up to `WHOLE_MEMBERS` variables; components refused so are
planned again with every clause above three variables cut into a chain, which narrows some
networks and widens others. Enumeration has no case of its own: a component of a few atoms is a
tree of a few small tables, and a million such components are one call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from lapis.errors import TooLarge
from lapis.grounding.limits import describe_bytes
from lapis.inference.exact.closed_form import SingleAtoms, single_atoms, solve_single_atoms
from lapis.inference.exact.duplicates import Duplicates, find_duplicates, no_duplicates
from lapis.inference.exact.junction_tree import (
    ROOT,
    Potentials,
    collect,
    distribute,
    log_states,
    maximise_states,
    sample_states,
)
from lapis.inference.exact.planning import Forest, Refusal, plan_forest
from lapis.inference.exact.whole_parts import split_scores
from lapis.inference.marginals import state_log_odds
from lapis.network.csr import row_starts
from lapis.network.cubes import Cubes, cube_weights, penalties, sum_by_weight
from lapis.network.network import Network
from lapis.network.parts import Subnetwork, keep_part
from lapis.network.satisfiability import contradiction
from lapis.progress import Stop

DEFAULT_MEMORY = 1 << 30  # bytes of tables: about 25 binary variables in the largest clique
WHOLE_MEMBERS = 10
CUT_MEMBERS = 3


@dataclass(frozen=True)
class ExactResult:
    """Exact answers about the components that were solved."""

    log_partition: float  # of these components, the constant score included
    marginal: np.ndarray  # float64[num_base_atoms], NaN where not solved
    expected_count: np.ndarray  # float64[num_weights], of their clauses and the constant count
    solved: np.ndarray  # bool[num_base_atoms]
    feasible: bool  # everything was solved
    width: int  # variables in the largest clique, less one
    log_odds: np.ndarray | None  # float64[num_base_atoms], if asked for; NaN where not solved


@dataclass(frozen=True)
class ExactPlan:
    """Which components are affordable and how they are solved, for any weights."""

    network: Network
    single: np.ndarray  # bool[num_atoms], solved in closed form
    duplicates: Duplicates
    forests: tuple[Forest, ...]
    refused: tuple[Refusal, ...]
    max_memory: int

    @property
    def affordable(self) -> np.ndarray:
        """bool[num_atoms], the atoms of components that are solved."""
        refused = np.zeros(len(self.duplicates.first), bool)
        refused[[refusal.component for refusal in self.refused]] = True
        return ~refused[self.duplicates.first[self.network.component]]

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
            f"exact inference does not fit: for a connected component of {worst.num_atoms:,} "
            f"unknown atoms every elimination order tried joins {worst.width + 1:,} or more of "
            f"them in a table and needs at least {describe_large(worst.num_bytes)}, over the "
            f"limit of {describe_bytes(self.max_memory)}",
            code="too-wide",
            hint="give more evidence, ask for less, raise the memory limit, or sample",
        )

    def rest(self) -> Subnetwork:
        """The components that are not affordable, as a network without constant counts."""
        return keep_part(self.network, ~self.affordable)

    def solve(
        self,
        weights: np.ndarray | None = None,
        *,
        log_odds: bool = False,
        stop: Stop | None = None,
    ) -> ExactResult:
        """log Z, marginals and expected counts of the affordable components."""
        network = self.network
        weights = network.weights if weights is None else weights
        probability = np.full(network.num_atoms, np.nan)
        odds = np.full(network.num_atoms, np.nan)
        solved = np.flatnonzero(self.affordable[network.first_atom])  # clauses, copies included
        expected = network.constant_count + sum_by_weight(network, solved, np.ones(len(solved)))
        terms = (weights * expected).tolist()  # of log Z; they may cancel

        alone = self._solve_single(weights)
        terms += [float(alone.base.sum()), float(alone.log_partition.sum())]
        probability[alone.atom] = alone.probability
        odds[alone.atom] = alone.score[:, 1] - alone.score[:, 0]
        lost = sum_by_weight(network, alone.clause, alone.falsified)
        for forest in self.forests:
            potentials = self._collect(forest, weights, False, stop)
            roots = np.flatnonzero(forest.tree.parent == ROOT)
            copies = self.duplicates.copies[forest.component]
            times = copies[forest.tree.order[roots]]
            message = potentials.message[forest.tree.message_start[roots]]
            terms += [float(times @ potentials.base), float(times @ message)]
            beliefs = distribute(
                forest.tree, forest.cubes, potentials, overwrite=not log_odds, stop=stop
            )
            atoms, place = forest.variables.place_of_atoms()
            probability[atoms] = beliefs.state[place]
            if log_odds:
                logs = log_states(forest.tree, forest.cubes.size, potentials, beliefs)
                odds[atoms] = state_log_odds(logs, row_starts(forest.cubes.size))[place]
            entered = forest.tree.cube[forest.cubes.clause[forest.tree.cube] >= 0]
            times = copies[forest.cubes.variable[forest.cubes.start[entered]]]
            lost += sum_by_weight(
                network, forest.cubes.clause[entered], times * beliefs.cube[entered]
            )
        affordable = self.affordable
        for values in (probability, odds):
            values[:] = values[self.duplicates.first_atom]
            values[~affordable] = np.nan
        base = slice(0, network.num_base_atoms)
        return ExactResult(
            math.fsum(terms),
            np.clip(probability[base], 0.0, 1.0),
            expected - lost,
            affordable[base],
            self.is_complete,
            self.width,
            odds[base] if log_odds else None,
        )

    def maximise(self, weights: np.ndarray | None = None, stop: Stop | None = None) -> np.ndarray:
        """bool[num_atoms], a most likely world; false where not affordable."""
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
        """Of all tables; a solve takes about as long."""
        return sum(int(forest.tree.table_start[-1]) for forest in self.forests)

    def for_sampling(self) -> tuple[ExactPlan, np.ndarray] | None:
        """A plan that can draw samples, and the atom of this plan that each of its atoms is.

        It keeps copies of components apart; None where that is too large.
        """
        part = keep_part(self.network, self.affordable)
        plan = plan_exact(part.network, 4 * self.max_memory, merge_copies=False)
        return (plan, part.atom) if plan.is_complete else None

    def sample(
        self, num_samples: int, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> np.ndarray:
        """bool[num_samples, num_atoms], independent samples; false where not affordable.

        Copies of a component must differ in a sample, so the plan must have been made with
        `merge_copies=False`.
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
        alone = solve_single_atoms(self.network, self.single, weights)
        contradicted = alone.atom[alone.log_partition == -np.inf]
        if len(contradicted):
            raise contradiction(self.network, int(self.network.component[contradicted[0]]))
        return alone

    def _collect(
        self, forest: Forest, weights: np.ndarray, maximise: bool, stop: Stop | None = None
    ) -> Potentials:
        penalty = penalties(self.network, forest.cubes, weights)
        split = partial(split_penalties, self.network, forest.cubes, weights)
        potentials = collect(forest.tree, forest.cubes, penalty, maximise, stop, split=split)
        roots, values = potentials.root_values(forest.tree)
        impossible = roots[values == -np.inf]
        if len(impossible):
            component = forest.component[forest.tree.order[impossible[0]]]
            raise contradiction(self.network, int(component))
        return potentials


def plan_exact(
    network: Network,
    max_memory: int = DEFAULT_MEMORY,
    *,
    merge_copies: bool = True,
    random_state: int = 0,
    stop: Stop | None = None,
) -> ExactPlan:
    """Decide component by component what is solved exactly within `max_memory` bytes of tables."""
    rng = np.random.default_rng(random_state)
    single = single_atoms(network)
    duplicates = find_duplicates(network, single) if merge_copies else no_duplicates(network)
    is_first = duplicates.first == np.arange(len(duplicates.first))
    wanted = ~single & is_first[network.component]
    forests: list[Forest] = []
    refused: tuple[Refusal, ...] = ()
    left = max_memory
    length = np.diff(network.clause_start)
    is_long = np.zeros(network.num_atoms, bool)
    is_long[np.abs(network.literal[np.repeat(length > CUT_MEMBERS, length)]) - 1] = True
    for max_members in (WHOLE_MEMBERS, CUT_MEMBERS):
        if not wanted.any() or (refused and not (wanted & is_long).any()):
            break
        forest, refused = plan_forest(network, wanted, max_members, left, rng, stop)
        if len(forest.tree.order):
            forests.append(forest)
        left -= forest.tree.num_bytes
        again = np.zeros(len(is_first), bool)
        again[[refusal.component for refusal in refused]] = True
        wanted &= again[network.component]
    return ExactPlan(network, single, duplicates, tuple(forests), refused, max_memory)


def exact(network: Network, max_memory: int = DEFAULT_MEMORY) -> ExactResult:
    """Exact log Z, marginals and expected counts; TooLarge if the tables pass `max_memory`."""
    plan = plan_exact(network, max_memory)
    plan.require_complete()
    return plan.solve(log_odds=True)


def exact_map(network: Network, stop: Stop | None = None) -> tuple[float, np.ndarray]:
    """The score of a most likely world and the world, bool[num_atoms]."""
    plan = plan_exact(network, stop=stop)
    plan.require_complete()
    world = plan.maximise(stop=stop)
    return network.score(world), world


def split_penalties(
    network: Network, cubes: Cubes, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whole parts and rests of what each cube adds to the score, each float64[num_cubes]."""
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
    """Bytes, by their order of magnitude where no machine has them."""
    return describe_bytes(count) if count < 1e15 else f"10^{np.log10(count):.0f} bytes"
