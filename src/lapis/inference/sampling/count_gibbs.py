"""Gibbs sampling that never grounds: conditional probabilities from counts.

P(atom true | all others) = σ(w · d) with d = n(atom = 1) − n(atom = 0), and a `CountedWorld`
gives d from the atom's neighbourhood alone (section 4 of the approximate-counting paper, with
exact counts in place of IJGP's; those can be asked for). Memory follows the facts of the current
world, not the ground clauses, so that a formula with four variables over a thousand constants
costs no more than its neighbourhoods. A sweep is slower than on a ground network; this is for
networks that do not fit. One kernel makes all the steps of a sweep over atoms that are in no block.

To the chains it is a sampler like the others, on a network that has atoms and blocks and no
clauses. A block is resampled as one variable: emptied, each candidate's change taken, one drawn.
Hard rules: a value that breaks more of them than the other is never taken, so a chain that starts
in a world that breaks some climbs out as far as single flips can, and never returns. Samples that
still break some are counted: they are none of the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.grounding.atoms import atom_table, number_atoms
from lapis.grounding.blocks import network_blocks
from lapis.grounding.evidence import close_blocks
from lapis.grounding.limits import check_atoms, memory_limit
from lapis.inference.sampling.counted_world import (
    CountedWorld,
    count_world,
    empty_block,
)
from lapis.inference.sampling.kernels.tally import Tallies, record
from lapis.inference.sampling.starting_worlds import random_world
from lapis.network.network import Network
from lapis.problem.problem import Problem


class Site(NamedTuple):
    """Atoms of one predicate that are visited one after the other, or a block."""

    predicate: str
    atom: np.ndarray  # int64[n]
    rows: np.ndarray  # int32[n, arity]


class Plan(NamedTuple):
    """What all chains share."""

    network: Network
    known: dict[str, np.ndarray]  # int32[num_true, arity], the evidence
    single: tuple[Site, ...]  # atoms in no block, by predicate
    blocks: tuple[Site, ...]
    ergodic: bool | None


class State(NamedTuple):
    """One chain; `step` changes it in place."""

    world: CountedWorld
    value: np.ndarray  # bool[num_atoms]
    estimate: np.ndarray  # float64[num_atoms], P(atom | rest) at its last update
    rng: np.random.Generator


class Info(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # sites that changed
    broken: int  # samples that break a hard rule


@dataclass(frozen=True)
class CountGibbs:
    """Gibbs sampling of a problem's unknown atoms; one sample is one sweep over all of them."""

    problem: Problem
    ibound: int | None = None  # counts are estimated by IJGP with this bound
    name: str = "count-gibbs"

    def prepare(self, network: Network) -> Plan:
        """`network` is that of `unknown_atoms`."""
        table = network.atoms
        in_block = np.zeros(network.num_atoms, bool)
        in_block[network.block_atom] = True
        single, predicate_of = [], np.repeat(np.arange(len(table.tuples)), np.diff(table.offset))
        for name, first, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            free = np.flatnonzero(~in_block[first : first + len(rows)])
            single.append(Site(name, first + free, rows[free]))
        blocks = []
        for begin, end in zip(network.block_start[:-1], network.block_start[1:], strict=True):
            atom = network.block_atom[begin:end].astype(np.int64)
            place = int(predicate_of[atom[0]])
            rows = table.tuples[place][atom - table.offset[place]]
            blocks.append(Site(table.predicates[place], atom, rows))
        known = {name: e.true for name, e in close_blocks(self.problem).items()}
        ergodic = None if any(rule.hard for rule in self.problem.model.rules) else True
        return Plan(network, known, tuple(single), tuple(blocks), ergodic)

    def start(self, plan: Plan, chain: int, rng: np.ndarray) -> np.ndarray:
        return random_world(plan.network, chain, np.random.default_rng(rng)).astype(bool)

    def init(self, plan: Plan, world: np.ndarray, rng: np.ndarray) -> State:
        table, true = plan.network.atoms, dict(plan.known)
        for name, first, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            chosen = rows[world[first : first + len(rows)]]
            true[name] = np.concatenate([true[name], chosen]).astype(np.int32)
        counted = count_world(
            self.problem, true, self.ibound, table.predicates, plan.network.num_atoms
        )
        estimate = np.zeros(plan.network.num_atoms)
        return State(counted, world.astype(bool), estimate, np.random.default_rng(rng))

    def reweigh(self, plan: Plan, state: State, weights: np.ndarray) -> tuple[Plan, State]:
        return plan._replace(network=plan.network.with_weights(weights)), state

    def step(self, plan: Plan, state: State, tallies: Tallies, num_samples: int) -> Info:
        weights = plan.network.weights.astype(np.float64)
        changes = broken = 0
        for _ in range(num_samples):
            changes += sweep_atoms(plan.single, state, weights)
            for site, exact in zip(plan.blocks, plan.network.block_exact.tolist(), strict=True):
                changes += resample_block(site, exact, state, weights)
            broken += state.world.is_broken
            record(tallies.atoms, state.estimate)
            record(tallies.counts, state.world.counts())
        return Info(num_samples * plan.network.num_atoms, changes, broken)

    def work(self, plan: Plan, state: State) -> float:
        return float(plan.network.num_atoms)

    def counts(self, state: State) -> np.ndarray:
        return state.world.counts()

    def world(self, state: State) -> np.ndarray:
        return state.value.copy()


def sweep_atoms(sites: Sequence[Site], state: State, weights: np.ndarray) -> int:
    """Resample atoms in turn; how many flipped."""
    atom = np.concatenate([np.empty(0, np.int64), *(site.atom for site in sites)])
    noise = state.rng.logistic(size=len(atom))
    parts = [(site.predicate, site.rows) for site in sites]
    found = state.world.draw(parts, weights, noise, noted=False)
    state.estimate[atom] = found.probability
    state.value[atom] = found.truth ^ found.flipped
    return int(found.flipped.sum())


def resample_block(site: Site, exact: bool, state: State, weights: np.ndarray) -> int:
    """Draw a block's value; 1 if it changed."""
    choice = empty_block(state.world, site.predicate, site.rows, exact, weights.tolist())
    state.estimate[site.atom] = choice.probability[: len(site.atom)]
    taken = int(state.rng.choice(len(choice.values), p=choice.probability))
    state.value[site.atom] = False
    if taken < len(site.atom):
        state.world.flip([(site.predicate, site.rows[taken : taken + 1])])
        state.value[site.atom[taken]] = True
    return int(taken not in choice.before)


def unknown_atoms(problem: Problem, max_memory: int | None = None) -> Network:
    """The unknown atoms and blocks of a problem as a network without clauses.

    Raises TooLarge, with an estimate, where they alone do not fit.
    """
    check_atoms(problem, memory_limit(max_memory))
    numbered = number_atoms(close_blocks(problem), problem.domains)
    blocks = network_blocks(problem.model.predicates, numbered, problem.domains)
    table = atom_table(numbered)
    nothing = np.empty(0, np.int32)
    return Network(
        atoms=table,
        num_base_atoms=len(table),
        clause_start=np.zeros(1, np.int64),
        literal=nothing,
        weight_id=nothing,
        coefficient=np.empty(0),
        weights=problem.weight_table.value,
        constant_count=np.zeros(len(problem.weight_table)),
        block_start=blocks.start,
        block_atom=blocks.atom,
        block_exact=blocks.exact,
        definition_start=np.zeros(1, np.int64),
        definition_literal=nothing,
        domains=problem.domains,
        signatures=problem.model.predicates,
    )
