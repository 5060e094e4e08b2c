"""Gibbs sampling without grounding: conditional probabilities from counts.

P(atom true | all others) = σ(w · d) with d = n(atom = 1) − n(atom = 0). A `CountedWorld` computes d
from the atom's neighbourhood (Sarkhel et al. 2016, section 4, with exact counts by default instead
of IJGP's). Memory grows with the facts of the current world, not with the ground clauses: a formula
with four variables over a thousand constants costs no more than its neighbourhoods. A sweep is
slower than on a ground network; this sampler is for networks that do not fit in memory. One kernel
call sweeps all atoms or all blocks of a predicate.

Its network has atoms and blocks and no clauses. A block is resampled as one variable. Hard rules: a
value that violates more of them is never drawn, so the number of violations never increases. Chains
start where such sweeps from a random world have reached zero violations. Starting elsewhere would
average over impossible worlds: an atom that cannot be true was true in half of the samples. If no
start is found, an error is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.sparse_vectors import gather_ranges
from lapis.counting.ijgp import IjgpSettings
from lapis.errors import LapisError
from lapis.grounding.assembly import network_blocks
from lapis.grounding.blocks import apply_blocks
from lapis.grounding.ground_atoms import build_atom_table, number_unknown_atoms
from lapis.grounding.limits import check_atoms
from lapis.inference.sampling.counted_world import CountedWorld, OpenBlocks, count_world
from lapis.inference.sampling.starting_worlds import TRIES, random_world
from lapis.inference.sampling.tally import Tallies, record_values
from lapis.network.network import Network, network_of_atoms
from lapis.problem.problem import Problem
from lapis.runtime.limits import memory_limit

PATIENCE = 20  # sweeps without a decrease of violated hard rules


class AtomSite(NamedTuple):
    """Atoms of one predicate that are resampled one after the other."""

    predicate: str
    atom: np.ndarray  # int64[n]
    rows: np.ndarray  # int32[n, arity]


class BlockSite(NamedTuple):
    """Blocks of one predicate that are resampled one after the other."""

    atom: np.ndarray  # int64[num_atoms]
    blocks: OpenBlocks


class CountGibbsPlan(NamedTuple):
    """The data that all chains share."""

    network: Network
    known: dict[str, np.ndarray]  # int32[num_true, arity], the evidence
    single: tuple[AtomSite, ...]  # atoms in no block, by predicate
    blocks: tuple[BlockSite, ...]
    ergodic: bool | None


class CountGibbsState(NamedTuple):
    """One chain; `step` changes it in place."""

    world: CountedWorld
    value: np.ndarray  # bool[num_atoms]
    estimate: np.ndarray  # float64[num_atoms], P(atom | rest) at its last update
    rng: np.random.Generator


class CountGibbsInfo(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # sites that changed


@dataclass(frozen=True)
class CountGibbs:
    """Gibbs sampling of a problem's unknown atoms; one sample is one sweep."""

    problem: Problem
    ijgp: IjgpSettings | None = None  # counts are estimated; None: exact
    name: str = "count-gibbs"

    def prepare(self, network: Network) -> CountGibbsPlan:
        """Return the plan; `network` is that of `unknown_atoms`."""
        table = network.atoms
        in_block = np.zeros(network.num_atoms, bool)
        in_block[network.block_atom] = True
        first_atom = network.block_atom[network.block_start[:-1]]
        single, blocks = [], []
        for name, first, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            free = np.flatnonzero(~in_block[first : first + len(rows)])
            single.append(AtomSite(name, first + free, rows[free]))
            own = np.flatnonzero((first <= first_atom) & (first_atom < first + len(rows)))
            if len(own):
                begin, end = network.block_start[own], network.block_start[own + 1]
                start, places = gather_ranges(begin, end)
                atom = network.block_atom[places].astype(np.int64)
                is_exact = network.block_exact[own].astype(bool)
                blocks.append(
                    BlockSite(atom, OpenBlocks(name, rows[atom - first], start, is_exact))
                )
        known = {name: e.true for name, e in apply_blocks(self.problem).items()}
        ergodic = None if any(rule.hard for rule in self.problem.model.rules) else True
        return CountGibbsPlan(network, known, tuple(single), tuple(blocks), ergodic)

    def start(self, plan: CountGibbsPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        generator = np.random.default_rng(rng)
        for attempt in range(TRIES):
            world = random_world(plan.network, chain if attempt == 0 else 2, generator).astype(bool)
            if plan.ergodic:
                return world
            state = self.init(plan, world, rng)._replace(rng=generator)
            if satisfy_hard_rules(plan, state):
                return self.world(state)
        raise LapisError(
            "no world that satisfies the hard formulas was found by changing one atom at a time",
            code="unsatisfiable",
            hint="use method 'exact' or 'mcsat' to test whether there is one",
        )

    def init(self, plan: CountGibbsPlan, world: np.ndarray, rng: np.ndarray) -> CountGibbsState:
        table, true = plan.network.atoms, dict(plan.known)
        for name, first, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            chosen = rows[world[first : first + len(rows)]]
            true[name] = np.concatenate([true[name], chosen]).astype(np.int32)
        counted = count_world(
            self.problem, true, self.ijgp, table.predicates, plan.network.num_atoms
        )
        estimate = np.zeros(plan.network.num_atoms)
        return CountGibbsState(counted, world.astype(bool), estimate, np.random.default_rng(rng))

    def reweigh(
        self, plan: CountGibbsPlan, state: CountGibbsState, weights: np.ndarray
    ) -> tuple[CountGibbsPlan, CountGibbsState]:
        return plan._replace(network=plan.network.with_weights(weights)), state

    def step(
        self, plan: CountGibbsPlan, state: CountGibbsState, tallies: Tallies, num_samples: int
    ) -> CountGibbsInfo:
        changes = 0
        for _ in range(num_samples):
            changes += sweep_all(plan, state)
            record_values(tallies.atoms, state.estimate)
            record_values(tallies.counts, state.world.counts())
        return CountGibbsInfo(num_samples * plan.network.num_atoms, changes)

    def work(self, plan: CountGibbsPlan, state: CountGibbsState) -> float:
        return float(plan.network.num_atoms)

    def counts(self, state: CountGibbsState) -> np.ndarray:
        return state.world.counts()

    def world(self, state: CountGibbsState) -> np.ndarray:
        return state.value.copy()


def satisfy_hard_rules(plan: CountGibbsPlan, state: CountGibbsState) -> bool:
    """Sweep until no hard rule is violated; False after `PATIENCE` sweeps without progress."""
    fewest, waited = state.world.num_broken, 0
    while fewest and waited < PATIENCE:
        sweep_all(plan, state)
        waited = 0 if state.world.num_broken < fewest else waited + 1
        fewest = min(fewest, state.world.num_broken)
    return fewest == 0


def sweep_all(plan: CountGibbsPlan, state: CountGibbsState) -> int:
    """Resample all atoms and blocks; return the number of changes."""
    weights = plan.network.weights.astype(np.float64)
    changes = sweep_atoms(plan.single, state, weights)
    return changes + sum(sweep_blocks(site, state, weights) for site in plan.blocks)


def sweep_atoms(sites: Sequence[AtomSite], state: CountGibbsState, weights: np.ndarray) -> int:
    """Resample atoms in turn; return the number of flips."""
    atom = np.concatenate([np.empty(0, np.int64), *(site.atom for site in sites)])
    noise = state.rng.logistic(size=len(atom))
    parts = [(site.predicate, site.rows) for site in sites]
    found = state.world.draw(parts, weights, noise, noted=False)
    state.estimate[atom] = found.probability
    state.value[atom] = found.truth ^ found.flipped
    return int(found.flipped.sum())


def sweep_blocks(site: BlockSite, state: CountGibbsState, weights: np.ndarray) -> int:
    """Resample blocks in turn; return the number of changes."""
    blocks = site.blocks
    noise = state.rng.gumbel(size=blocks.num_values)
    found = state.world.draw_blocks(blocks, weights, noise, noted=False)
    state.estimate[site.atom] = found.probability[blocks.is_atom]
    state.value[site.atom] = found.taken[blocks.is_atom]
    return int((found.taken & ~found.before).sum())


def unknown_atoms(problem: Problem, max_memory: int | None = None) -> Network:
    """Build a network of the unknown atoms and blocks of a problem, without clauses.

    Raises TooLarge, with an estimate, if they do not fit in memory.
    """
    check_atoms(problem, memory_limit(max_memory))
    numbered = number_unknown_atoms(apply_blocks(problem), problem.domains)
    blocks = network_blocks(problem, numbered)
    network = network_of_atoms(
        build_atom_table(numbered),
        problem.weight_table.value,
        np.zeros(len(problem.weight_table)),
        problem.domains,
        problem.model.predicates,
    )
    return replace(
        network, block_start=blocks.start, block_atom=blocks.atom, block_exact=blocks.exact
    )
