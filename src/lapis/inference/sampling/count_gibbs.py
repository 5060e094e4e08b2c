"""Gibbs sampling that never grounds: conditional probabilities from counts.

P(atom true | all others) = σ(w · d) with d = n(atom = 1) − n(atom = 0), and an incremental `World`
gives d from the atom's neighbourhood alone (section 4 of the approximate-counting paper, with
exact counts in place of IJGP's; those can be asked for). Memory follows the facts of the current
world, not the ground clauses, so that a formula with four variables over a thousand constants
costs no more than its neighbourhoods. A sweep is slower than on a ground network; this is for
networks that do not fit.

A block is resampled as one variable: emptied, each candidate's change taken, one drawn. Hard
rules: a value that breaks more of them than the other is never taken, so a chain that starts in a
world that breaks some climbs out as far as single flips can, and never returns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from lapis.errors import LapisError
from lapis.grounding.atoms import atom_table, number_atoms
from lapis.grounding.blocks import network_blocks
from lapis.grounding.evidence import close_blocks
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import Progress, Report, Stop, Wish

ROUND = 8  # sweeps in a batch; batches give the standard errors
MIN_BATCHES = 8  # in each chain
MAX_RHAT = 1.05
WARM_SHARE = 0.25


class Change(NamedTuple):
    score: float  # by which the score of the world grows if the atom flips
    violations: int  # by which the number of broken hard groundings grows


class Chain(Protocol):
    """One complete world whose atoms can be flipped."""

    def change(self, predicate: str, row: Sequence[int]) -> Change: ...

    def flip(self, predicate: str, row: Sequence[int]) -> None: ...

    def is_true(self, predicate: str, row: Sequence[int]) -> bool: ...

    def counts(self) -> np.ndarray: ...


class ExactChain:
    """Changes by exact counting."""

    def __init__(self, problem: Problem, world: dict[str, np.ndarray]) -> None:
        from lapis.counting.flipping_world import World

        self.world = World(problem, world=world)
        self.weights = problem.weight_table.value

    def change(self, predicate: str, row: Sequence[int]) -> Change:
        found = self.world.delta(predicate, row)
        pairs = zip(found.weight_id, found.difference, strict=True)
        return Change(sum(self.weights[w] * d for w, d in pairs), found.violations)

    def flip(self, predicate: str, row: Sequence[int]) -> None:
        self.world.flip(predicate, row)

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return self.world.is_true(predicate, row)

    def counts(self) -> np.ndarray:
        return self.world.counts.astype(np.float64)


class EstimatedChain:
    """Changes by IJGP: the estimate with the atom flipped less the one without."""

    def __init__(self, problem: Problem, world: dict[str, np.ndarray], ibound: int) -> None:
        from lapis.counting.ijgp import IjgpCounter

        if any(rule.hard for rule in problem.model.rules):
            raise LapisError(
                "hard rules need exact counts: an estimate cannot tell whether one is broken",
                code="hard-ijgp",
            )
        self.counter = IjgpCounter(problem.normal_form, problem.model, problem.domains, ibound)
        self.weights = problem.weight_table.value
        self.estimate = self.counter.count(world).count
        self.true = {name: set(map(tuple, rows.tolist())) for name, rows in world.items()}

    def change(self, predicate: str, row: Sequence[int]) -> Change:
        now = self.is_true(predicate, row)
        other = self.counter.update(predicate, row, not now).count
        self.counter.update(predicate, row, now)
        return Change(float(self.weights @ (other - self.estimate)), 0)

    def flip(self, predicate: str, row: Sequence[int]) -> None:
        value = not self.is_true(predicate, row)
        self.estimate = self.counter.update(predicate, row, value).count
        (self.true[predicate].add if value else self.true[predicate].discard)(tuple(row))

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return tuple(row) in self.true[predicate]

    def counts(self) -> np.ndarray:
        return np.asarray(self.estimate, np.float64)


@dataclass(frozen=True)
class CountGibbsResult:
    marginal: np.ndarray  # float64[num_atoms]
    stderr: np.ndarray  # float64[num_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    rhat: float  # the worst
    num_sweeps: int  # in all chains, after warm-up
    converged: bool
    interrupted: bool


def atoms_only(problem: Problem) -> Network:
    """The unknown atoms and blocks of a problem as a network without clauses."""
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


class Sweeper:
    """The unknown atoms in the form a sweep needs them."""

    def __init__(self, problem: Problem, atoms: Network) -> None:
        self.problem, self.atoms = problem, atoms
        self.evidence = close_blocks(problem)
        table = atoms.atoms
        self.address = [
            (name, tuple(row))
            for name, rows in zip(table.predicates, table.tuples, strict=True)
            for row in rows.tolist()
        ]
        self.blocks = [
            atoms.block_atom[atoms.block_start[i] : atoms.block_start[i + 1]].tolist()
            for i in range(atoms.num_blocks)
        ]
        in_block = set(atoms.block_atom.tolist())
        self.single = [atom for atom in range(len(self.address)) if atom not in in_block]

    def start(self, rng: np.random.Generator, density: float) -> dict[str, np.ndarray]:
        """A random world: atoms true with the probability given, blocks with a random value."""
        value = rng.random(len(self.address)) < density
        for block, exact in zip(self.blocks, self.atoms.block_exact, strict=True):
            value[block] = False
            if exact or rng.random() < 0.5:
                value[block[int(rng.integers(len(block)))]] = True
        world = {name: known.true for name, known in self.evidence.items()}
        table = self.atoms.atoms
        for name, first, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            chosen = rows[value[int(first) : int(first) + len(rows)]]
            world[name] = np.concatenate([world[name], chosen]).astype(np.int32)
        return world

    def sweep(self, chain: Chain, rng: np.random.Generator, estimate: np.ndarray) -> None:
        """Resample every atom and block once; writes P(atom | rest) as it was at its turn."""
        uniform = rng.random(len(self.single))
        for atom, u in zip(self.single, uniform.tolist(), strict=True):
            predicate, row = self.address[atom]
            change = chain.change(predicate, row)
            stay = 1.0 / (1.0 + np.exp(min(change.score, 700.0)))
            if change.violations:
                stay = float(change.violations > 0)
            now = chain.is_true(predicate, row)
            estimate[atom] = stay if now else 1.0 - stay
            if u >= stay:
                chain.flip(predicate, row)
        for block, exact in zip(self.blocks, self.atoms.block_exact, strict=True):
            self.draw_block(chain, block, bool(exact), rng, estimate)

    def draw_block(
        self, chain: Chain, block: list[int], exact: bool, rng: np.random.Generator,
        estimate: np.ndarray,
    ) -> None:  # fmt: skip
        for atom in block:
            if chain.is_true(*self.address[atom]):
                chain.flip(*self.address[atom])
        options = [chain.change(*self.address[atom]) for atom in block]
        if not exact:
            options.append(Change(0.0, 0))
        fewest = min(option.violations for option in options)
        score = np.array([o.score if o.violations == fewest else -np.inf for o in options])
        probability = np.exp(score - score.max())
        probability /= probability.sum()
        estimate[block] = probability[: len(block)]
        drawn = int(rng.choice(len(options), p=probability))
        if drawn < len(block):
            chain.flip(*self.address[block[drawn]])


def sample_by_counts(
    problem: Problem,
    atoms: Network,
    *,
    ibound: int | None = None,
    precision: float = 0.01,
    max_sweeps: int = 20_000,
    num_chains: int = 4,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Report | None = None,
    should_stop: Wish | None = None,
) -> CountGibbsResult:
    """Marginals by sweeps over the unknown atoms; `ibound` asks for IJGP's counts."""
    sweeper = Sweeper(problem, atoms)
    began = time.monotonic()
    stop = Stop(should_stop, np.inf if time_limit is None else began + time_limit)
    streams = np.random.default_rng(seed).spawn(num_chains)
    densities = np.linspace(0.1, 0.9, num_chains)
    chains: list[Chain] = []
    for rng, density in zip(streams, densities.tolist(), strict=True):
        world = sweeper.start(rng, density)
        exact = ibound is None
        chains.append(
            ExactChain(problem, world) if exact else EstimatedChain(problem, world, ibound or 1)
        )
    batches: list[np.ndarray] = []  # float64[num_chains, num_atoms] each
    counts: list[np.ndarray] = []  # float64[num_weights] each
    try:
        while len(batches) * ROUND * num_chains < max_sweeps:
            batch, count = run_batch(sweeper, chains, streams)
            batches.append(batch)
            counts.append(count)
            if progress is not None:
                done = len(batches) * ROUND * num_chains
                progress(Progress("sampling", done, max_sweeps, time.monotonic() - began))
            if stop.is_over() and len(batches) >= 2:
                break
            if len(batches) >= MIN_BATCHES and len(batches) % MIN_BATCHES == 0:
                found = summarise(batches, counts, precision, False)
                if found.converged:
                    return found
    except KeyboardInterrupt:
        stop.press()
        if not batches:
            raise
    return summarise(batches, counts, precision, stop.pressed)


def run_batch(
    sweeper: Sweeper, chains: list[Chain], streams: list[np.random.Generator]
) -> tuple[np.ndarray, np.ndarray]:
    num_atoms = len(sweeper.address)
    batch = np.zeros((len(chains), num_atoms))
    count = np.zeros(len(chains[0].counts()))
    estimate = np.zeros(num_atoms)
    for total, chain, rng in zip(batch, chains, streams, strict=True):
        for _ in range(ROUND):
            sweeper.sweep(chain, rng, estimate)
            total += estimate / ROUND
            count += chain.counts() / (ROUND * len(chains))
    return batch, count


def summarise(
    batches: list[np.ndarray], counts: list[np.ndarray], precision: float, interrupted: bool
) -> CountGibbsResult:
    """Averages over the batches after warm-up; their spread gives errors and R-hat."""
    first = min(len(batches) - 1, int(WARM_SHARE * len(batches)))
    values = np.array(batches[first:])  # [num_batches, num_chains, num_atoms]
    number, num_chains, _ = values.shape
    means = values.mean(axis=0)
    within = (
        values.var(axis=0, ddof=1).mean(axis=0) if number > 1 else np.full(means.shape[1], np.inf)
    )
    between = means.var(axis=0, ddof=1) if num_chains > 1 else np.zeros(means.shape[1])
    # A batch is as good as one draw; chains that disagree show in `between`.
    spread = np.maximum(within / (number * num_chains), between / num_chains)
    pooled = between if number == 1 else within * (number - 1) / number + between
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt(
            np.where(within > 1e-14, pooled / within, np.where(between > 1e-14, np.inf, 1))
        )
    stderr = np.sqrt(spread)
    worst = np.inf if number == 1 else float(rhat.max(initial=1.0))
    converged = bool(worst <= MAX_RHAT and float(stderr.max(initial=0.0)) <= precision)
    return CountGibbsResult(
        means.mean(axis=0),
        stderr,
        np.mean(counts[first:], axis=0),
        worst,
        number * num_chains * ROUND,
        converged and not interrupted,
        interrupted,
    )
