"""Worlds drawn once and weighed anew for each absence.

Where a component is too large to be solved exactly, worlds x₁ … x_S are drawn from it. Without
something the score of a world changes by Δ(x), and

    P(a without it) ≈ Σ_s exp(Δ(x_s)) 1[a in x_s] / Σ_s exp(Δ(x_s)).

For a fact that becomes unknown, exp(Δ) is summed over its possible values. The standard error is
that of the change, from means of batches of consecutive draws. If few draws carry all weight, they
cannot tell, and no number is given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lapis.explanation.contributions import complete
from lapis.explanation.fact_values import ChangedFact
from lapis.explanation.local_network import ConditionedPart, LocalNetwork, add_units, refuse_false
from lapis.explanation.neighbourhood import OPEN
from lapis.explanation.probabilities import ProbabilityEstimate
from lapis.inference.marginals import sampled_log_odds
from lapis.inference.moments.sampled import PersistentChain
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.mcsat import MCSAT
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import new_tallies
from lapis.network.components import fix_atoms, keep_part
from lapis.network.csr import take_rows
from lapis.network.network import Network
from lapis.runtime.progress import work_clock

CHAINS, DRAWS, WARM_UP = 4, 1000, 200
DRAW_SECONDS = 4.0
BATCHES = 10  # of each chain
LEAST_SIZE = 50.0  # effective draws
CHUNK = 20_000_000  # literals in worlds that are evaluated together
MAX_VALUES = 64  # of blocks that become unknown
SAMPLES = "samples"


@dataclass(frozen=True)
class DrawnWorlds:
    """Worlds of a local network, drawn given the evidence."""

    local: LocalNetwork
    worlds: np.ndarray  # bool[num_draws, num_atoms]
    chain: np.ndarray  # int64[num_draws], the batch of each draw
    closed: bool  # the component is the whole one

    @cached_property
    def holds(self) -> np.ndarray:
        """bool[num_draws], whether the explained atom is true."""
        return self.worlds[:, self.local.explained]

    @property
    def probability(self) -> float:
        return float(self.holds.mean())

    def without(self, instances: np.ndarray) -> ProbabilityEstimate | None:
        """Estimate the probability without some ground formulas; None if draws cannot tell."""
        if self.local.is_hard[instances].any():
            return None  # worlds that violate it were not drawn
        network = self.local.network
        clauses = np.flatnonzero(np.isin(network.weight_id, instances))
        weight = self.clause_weight(clauses)
        return self.estimate(-(self.satisfied(clauses, self.worlds) @ weight))

    @property
    def base(self) -> ProbabilityEstimate:
        """The probability given the evidence."""
        error = self.batch_error(self.holds - self.probability)
        odds = float(sampled_log_odds(np.array([self.probability]), len(self.holds))[0])
        return ProbabilityEstimate(self.probability, odds, error, False, SAMPLES, self.closed)

    def given(self, facts: Sequence[ChangedFact]) -> ProbabilityEstimate | None:
        """Estimate the probability with changed facts; None if draws cannot tell."""
        members = np.concatenate([fact.members for fact in facts])
        each = [possible_values(self.local, fact) for fact in facts]
        if math.prod(map(len, each)) > MAX_VALUES or np.isin(members, self.local.target).any():
            return None
        touched = self.touched(members)
        before = self.score(touched, self.worlds)
        after = [
            self.score(touched, self.with_values(members, np.concatenate(values)))
            for values in itertools.product(*each)
        ]
        with np.errstate(invalid="ignore"):
            return self.estimate(np.logaddexp.reduce(after, axis=0) - before)

    def with_values(self, members: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Return the worlds with other values of some atoms."""
        worlds = self.worlds.copy()
        worlds[:, members] = value
        network = self.local.network
        if network.num_atoms > network.num_base_atoms:  # auxiliary atoms change too
            size = network.num_base_atoms
            worlds = np.array([complete(self.local, world[:size]) for world in worlds])
        return worlds

    def touched(self, members: np.ndarray) -> np.ndarray:
        """Return the clauses that contain some atoms, or atoms defined by them, int64[...]."""
        network = self.local.network
        if network.num_atoms > network.num_base_atoms:
            return np.flatnonzero(network.weight_id >= 0)
        inside = np.isin(np.abs(network.literal) - 1, members)
        owner = np.repeat(np.arange(network.num_clauses), np.diff(network.clause_start))
        clauses = np.unique(owner[inside])
        return clauses[network.weight_id[clauses] >= 0]

    def clause_weight(self, clauses: np.ndarray) -> np.ndarray:
        """Return float64[num_clauses], the weight of a true soft clause."""
        network, ids = self.local.network, self.local.network.weight_id[clauses]
        return np.asarray(self.local.all_weights[ids] * network.coefficient[clauses], float)

    def score(self, clauses: np.ndarray, worlds: np.ndarray) -> np.ndarray:
        """Return float64[num_draws], the score of soft clauses; −∞ if a hard one is false."""
        ids = self.local.network.weight_id[clauses]
        hard = self.local.hard_ids[ids]
        held = self.satisfied(clauses, worlds)
        score = held @ self.clause_weight(clauses)
        return np.where(held[:, hard].all(axis=1), score, -np.inf)

    def satisfied(self, clauses: np.ndarray, worlds: np.ndarray) -> np.ndarray:
        """Return bool[num_draws, num_clauses], which clauses are true in which worlds."""
        network = self.local.network
        start, literal = take_rows(network.clause_start, network.literal, clauses)
        found = np.zeros((len(worlds), len(clauses)), bool)
        if not len(literal):
            return found
        rows = max(1, CHUNK // len(literal))
        for first in range(0, len(worlds), rows):
            part = worlds[first : first + rows][:, np.abs(literal) - 1] == (literal > 0)
            found[first : first + rows] = np.logical_or.reduceat(part, start[:-1], axis=1)
        return found

    def estimate(self, change: np.ndarray) -> ProbabilityEstimate | None:
        """Estimate the probability from changes of the scores, float64[num_draws]."""
        if not np.isfinite(change).any():
            return None
        weight = np.exp(change - change.max())
        if weight.sum() ** 2 / np.square(weight).sum() < LEAST_SIZE:
            return None
        found = float(weight @ self.holds / weight.sum())
        own = self.holds - self.probability
        residual = weight * (self.holds - found) / weight.mean() - own
        return ProbabilityEstimate(
            found, 0.0, self.batch_error(residual), False, SAMPLES, self.closed
        )

    def batch_error(self, residual: np.ndarray) -> float:
        """Return the standard error of the mean of residuals, float64[num_draws]."""
        means = np.bincount(self.chain, residual) / np.bincount(self.chain)
        return float(means.std(ddof=1) / np.sqrt(len(means)))

    def derivatives(self) -> np.ndarray:
        """Return the covariance of the explained atom and each count, float64[num_instances]."""
        network = self.local.network
        soft = np.flatnonzero(network.weight_id >= 0)
        own = (self.holds - self.probability) / len(self.holds)
        found = np.zeros(len(self.local.all_weights))
        for first in range(0, len(soft), 2000):
            clauses = soft[first : first + 2000]
            covariance = own @ self.satisfied(clauses, self.worlds)
            amount = covariance * network.coefficient[clauses]
            np.add.at(found, network.weight_id[clauses], amount)
        return found[: self.local.num_instances]

    def derivative_errors(self, ids: np.ndarray) -> np.ndarray:
        """Return standard errors of the derivatives by weights; `ids` number the instances'."""
        network, own = self.local.network, self.holds - self.probability
        errors = np.zeros(int(ids.max(initial=-1)) + 1)
        for number in range(len(errors)):
            instances = np.flatnonzero(ids == number)
            clauses = np.flatnonzero(np.isin(network.weight_id, instances))
            times = network.coefficient[clauses] * self.local.factor[network.weight_id[clauses]]
            counts = self.satisfied(clauses, self.worlds) @ times
            errors[number] = self.batch_error(own * (counts - counts.mean()))
        return errors


def possible_values(local: LocalNetwork, fact: ChangedFact) -> list[np.ndarray]:
    """Return the values that an atom and its block can have without a fact, bool each."""
    number = int(local.block_number[fact.atom])
    if number < 0:
        fixed = fact.value[0]
        return [np.array([v]) for v in (False, True) if fixed in (OPEN, int(v))]
    size = len(fact.members)
    if (fact.value == 1).any():
        return [fact.value == 1]
    found = [np.arange(size) == place for place in np.flatnonzero(fact.value == OPEN)]
    if not local.network.block_exact[number]:
        found.append(np.zeros(size, bool))
    return found


def draw_worlds(local: LocalNetwork, part: ConditionedPart, seed: int) -> DrawnWorlds:
    """Draw worlds of the component of the explained atom; the other atoms keep their values."""
    fixed, units = local.condition_blocks(local.value)
    inside = np.zeros(len(fixed), bool)
    inside[part.atom] = True
    value = np.where(inside, fixed, np.where(fixed == OPEN, 0, fixed)).astype(np.int8)
    value[local.explained] = 0
    given = fix_atoms(add_units(without_explained(local), units), value)
    refuse_false(given.network)
    kept = keep_part(given.network, np.ones(given.network.num_atoms, bool))
    hard = bool((kept.network.weight_id < 0).any())
    sampler: Sampler[Any, Any] = MCSAT() if hard else Gibbs()
    drawn: list[np.ndarray] = []
    batch: list[np.ndarray] = []
    began = work_clock()
    for number, rng in enumerate(random_states(seed, CHAINS)):
        chain = PersistentChain(sampler, kept.network, None, number, rng.copy())
        limit = began + DRAW_SECONDS * (number + 1) / CHAINS
        rows = draw_chain(chain, limit)
        whole = np.tile(value == 1, (len(rows), 1))
        whole[:, given.atom[kept.atom]] = rows
        drawn.append(whole)
        batch.append(number * BATCHES + np.arange(len(rows)) * BATCHES // len(rows))
    worlds = np.concatenate(drawn)
    size = local.network.num_base_atoms
    worlds = np.array([complete(local, world[:size]) for world in worlds])
    return DrawnWorlds(local, worlds, np.concatenate(batch), local.is_closed(part))


def draw_chain(chain: PersistentChain[Any, Any], limit: float) -> np.ndarray:
    """Return worlds bool[num_draws, num_atoms] of a chain, fewer if the time ends."""
    tallies = new_tallies(chain.network.num_base_atoms, np.empty(0))
    chain.sampler.step(chain.plan, chain.state, tallies, WARM_UP)
    rows: list[np.ndarray] = []
    while len(rows) < DRAWS and (work_clock() < limit or len(rows) < 2 * BATCHES):
        chain.sampler.step(chain.plan, chain.state, tallies, 2)
        rows.append(chain.world().copy())
    return np.array(rows)


def without_explained(local: LocalNetwork) -> Network:
    """Return the network with its hard formulas, without the definition of the explained atom."""
    network = local.whole
    owner = np.repeat(np.arange(network.num_clauses), np.diff(network.clause_start))
    of_explained = owner[np.abs(network.literal) - 1 == local.explained]
    kept = np.setdiff1d(np.arange(network.num_clauses), of_explained)
    start, literal = take_rows(network.clause_start, network.literal, kept)
    return replace(
        network,
        clause_start=start,
        literal=literal,
        weight_id=network.weight_id[kept],
        coefficient=network.coefficient[kept],
    )
