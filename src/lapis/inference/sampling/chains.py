"""Several chains of any sampler, on all cores, until the answer is precise enough.

The driver starts the chains of a `Sampler` far apart, lets them warm up until they agree (split
R-hat at most 1.2) or half of the samples allowed are spent, and samples until every standard error
is at most `precision` and every R-hat at most MAX_RHAT, or a limit is reached. Warm-up is left
out of the averages but not forgotten: where a chain was then and none has been since may be a mode
that is missed, and the standard errors allow for it (`diagnostics`). What is derived from the
worlds of the chains, such as the marginals of eliminated atoms, is judged in the same way and has
the same say. The driver looks at fixed numbers of samples, and a chain draws
from its own random stream: the same seed gives the same answer on any number of cores, unless
the time limit or the user ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

import numpy as np

from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.diagnostics import (
    MAX_RHAT,
    Summary,
    Trace,
    WarmUp,
    collect_trace,
    doubt_islands,
    num_tallied,
    summarize,
)
from lapis.inference.sampling.kernels.tally import Worlds, make_room, new_tallies
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.network.network import Network
from lapis.progress import Progress, Report, Wish

WARM_RHAT = 1.2
FIRST_CHECK = 64  # samples a chain
CHECK_GROWTH = 1.5
ROUND_SECONDS = 0.2  # how long chains run between looks at the clock
NUM_TRACED = 8


class Derived(NamedTuple):
    """What follows from the worlds of the chains about other values."""

    atoms: Summary
    counts: Summary


# From the worlds of each chain, and those of its warm-up in pieces; and `ergodic`.
Derive = Callable[[Sequence[Worlds], Sequence[Sequence[Worlds]], bool | None], Derived]


@dataclass(frozen=True)
class SampleResult:
    """Averages over the chains, with what is known about their quality."""

    method: str
    marginal: np.ndarray  # float64[num_base_atoms]
    stderr: np.ndarray  # float64[num_base_atoms]
    rhat: np.ndarray  # float64[num_base_atoms], split R-hat
    ess: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights], evidence included
    expected_count_stderr: np.ndarray  # float64[num_weights]
    num_chains: int
    num_samples: int  # in all chains, after warm-up
    num_warmup: int
    seconds: float
    converged: bool  # precision and R-hat reached, by what is derived too
    interrupted: bool
    ergodic: bool | None  # None: not known
    events: Mapping[str, float]  # sums over the chains of what `step` reports
    worst_missed: float  # the largest part of a standard error that warm-up accounts for
    trace: Trace = field(repr=False)
    derived: Derived | None = field(repr=False)

    @property
    def worst_rhat(self) -> float:
        derived = 1.0 if self.derived is None else self.derived.atoms.worst_rhat
        return max(derived, float(self.rhat.max(initial=1.0)))

    @property
    def worst_ess(self) -> float:
        derived = np.inf if self.derived is None else self.derived.atoms.ess.min(initial=np.inf)
        return float(min(derived, self.ess.min(initial=np.inf)))

    @property
    def worst_stderr(self) -> float:
        return float(self.stderr.max(initial=0.0))


def run_chains(
    network: Network,
    sampler: Sampler[PlanType, StateType],
    *,
    num_chains: int = 4,
    precision: float = 0.01,
    max_samples: int = 400_000,
    time_limit: float | None = None,
    seed: int = 0,
    derive: Derive | None = None,
    progress: Report | None = None,
    should_stop: Wish | None = None,
    num_threads: int | None = None,
) -> SampleResult:
    """Marginals and expected counts by sampling; `max_samples` is for all chains together.

    Raises LapisError if no world satisfies the hard clauses, or none is found. Ctrl-C (or
    `should_stop`) ends the run early with what there is, marked `interrupted`.
    """
    run = Run(sampler, network, num_chains, derive, progress, should_stop)
    run.deadline = None if time_limit is None else run.began + time_limit
    run.max_samples = max(1, -(-max_samples // num_chains))
    with ThreadPoolExecutor(num_threads or available_cores()) as pool:
        run.pool = pool
        run.start(seed)
        try:
            run.warm_up()
            run.sample(precision)
        except KeyboardInterrupt:
            run.interrupted = True
            if run.num_samples == 0:
                raise
    return run.result(precision)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_ranges(
    network: Network, chosen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """float64[num_weights] each: how far counts can differ, and by how much with one clause.

    `chosen`, bool[num_clauses], leaves out clauses that are known exactly. Without clauses the
    counts come from elsewhere, and one grounding is the least that they change by.
    """
    if network.num_clauses == 0:
        return np.ones(len(network.weights)), np.ones(len(network.weights))
    soft = network.weight_id >= 0 if chosen is None else chosen & (network.weight_id >= 0)
    weight_id, size = network.weight_id[soft], np.abs(network.coefficient[soft])
    span = np.bincount(weight_id, weights=size, minlength=len(network.weights))
    jump = np.zeros(len(span))
    np.maximum.at(jump, weight_id, size)
    return span, jump


class Run(Generic[PlanType, StateType]):
    """The chains of one run and their tallies."""

    pool: ThreadPoolExecutor
    deadline: float | None = None
    max_samples: int = 1  # a chain

    def __init__(
        self,
        sampler: Sampler[PlanType, StateType],
        network: Network,
        num_chains: int,
        derive: Derive | None,
        progress: Report | None,
        should_stop: Wish | None,
    ) -> None:
        self.sampler, self.network, self.num_chains = sampler, network, num_chains
        self.derive, self.progress, self.should_stop = derive, progress, should_stop
        self.began = time.monotonic()
        self.interrupted = False
        self.warmed = 0
        self.round_size = 1
        self.phase = "warm-up"
        self.events: dict[str, float] = {}
        self.summary: Summary | None = None

    @property
    def num_samples(self) -> int:
        """Of each chain."""
        return num_tallied(self.tallies[0].atoms)

    def start(self, seed: int) -> None:
        self.plan = self.sampler.prepare(self.network)
        streams = random_states(seed, self.num_chains)
        start = [
            self.pool.submit(self.start_chain, chain, streams[chain].copy())
            for chain in range(self.num_chains)
        ]
        self.states = [future.result() for future in start]
        self.origin = self.sampler.counts(self.states[0]).copy()
        self.before_atoms = np.zeros((self.num_chains, self.network.num_base_atoms))
        self.before_counts = np.zeros((self.num_chains, len(self.origin)))
        self.before_worlds: list[list[Worlds]] = [[] for _ in self.states]
        self.reset(np.empty(0, np.int64))

    def start_chain(self, chain: int, rng: np.ndarray) -> StateType:
        world = self.sampler.start(self.plan, chain, rng)
        return self.sampler.init(self.plan, world, rng)

    def reset(self, traced: np.ndarray) -> None:
        """Begin to average anew."""
        kept = self.network.num_atoms if self.derive else 0
        num_atoms = self.network.num_base_atoms
        self.tallies = [new_tallies(num_atoms, self.origin, traced, kept) for _ in self.states]
        self.events = {}

    def remember(self) -> None:
        """Keep what the chains did as a piece of warm-up."""
        for chain, tallies in enumerate(self.tallies):
            self.before_atoms[chain] += tallies.atoms.batch_sum.sum(axis=0)
            self.before_counts[chain] += tallies.counts.batch_sum.sum(axis=0)
            if self.derive is not None:
                self.before_worlds[chain].append(tallies.worlds)
        self.warmed += self.num_samples

    def advance(self, target: int) -> bool:
        """Sample until each chain has `target` samples; false if told to stop before."""
        if self.derive is not None:
            self.tallies = [
                tallies._replace(worlds=make_room(tallies.worlds, target))
                for tallies in self.tallies
            ]
        while (done := self.num_samples) < target:
            if self.is_over():
                return False
            size = min(self.round_size, target - done)
            before = time.monotonic()
            self.run_round(size)
            elapsed = time.monotonic() - before
            if elapsed < ROUND_SECONDS / 2:
                self.round_size = 2 * max(self.round_size, size)
            elif elapsed > 2 * ROUND_SECONDS:
                self.round_size = max(1, self.round_size // 2)
            self.report()
        return True

    def run_round(self, size: int) -> None:
        """One piece of every chain. On Ctrl-C the pieces under way are finished first."""
        futures = [
            self.pool.submit(self.sampler.step, self.plan, state, tallies, size)
            for state, tallies in zip(self.states, self.tallies, strict=True)
        ]
        try:
            infos = [future.result() for future in futures]
        except KeyboardInterrupt:
            self.interrupted = True
            infos = [future.result() for future in futures]
        for info in infos:
            for name, number in info._asdict().items():
                self.events[name] = self.events.get(name, 0) + number

    def is_over(self) -> bool:
        if self.should_stop is not None and self.should_stop():
            self.interrupted = True
        # At least two batches a chain, so that there is an error to report.
        late = self.deadline is not None and time.monotonic() > self.deadline
        return (self.interrupted or late) and self.num_samples >= 2

    def check(self) -> Summary:
        self.summary = self.summarize_atoms()
        self.report()
        return self.summary

    def summarize_atoms(self) -> Summary:
        found = summarize(
            [tallies.atoms for tallies in self.tallies],
            MAX_RHAT,
            warm_up=WarmUp(self.before_atoms, self.warmed),
        )
        component = self.network.component[: self.network.num_base_atoms]
        return doubt_islands(found, component, self.num_chains, self.plan.ergodic)

    def derive_others(self) -> Derived | None:
        if self.derive is None:
            return None
        worlds = [tallies.worlds for tallies in self.tallies]
        return self.derive(worlds, self.before_worlds, self.plan.ergodic)

    def report(self) -> None:
        if self.progress is None:
            return
        found = self.summary
        figures = {} if found is None else {"rhat": found.worst_rhat, "stderr": found.worst_stderr}
        self.progress(
            Progress(
                self.phase,
                self.num_samples * self.num_chains,
                self.max_samples * self.num_chains,
                time.monotonic() - self.began,
                figures,
            )
        )

    def warm_up(self) -> None:
        """Windows of doubling length; the last is the first in which the chains agree."""
        window = FIRST_CHECK // 2
        while self.warmed + window <= self.max_samples // 2 or self.warmed == 0:
            window = min(window, max(1, self.max_samples // 2))
            if not self.advance(window):
                return
            summary = self.check()
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            self.remember()
            self.reset(summary.slowest(NUM_TRACED))
            if summary.worst_rhat <= WARM_RHAT:
                return
            window *= 2

    def sample(self, precision: float) -> None:
        if self.interrupted:
            return
        self.phase = "sampling"
        # Chains that took long to meet may take as long to part again.
        target = min(max(FIRST_CHECK, 2 * self.warmed), self.max_samples)
        while self.advance(target):
            if target == self.max_samples or self.is_precise(self.check(), precision):
                return
            target = min(int(CHECK_GROWTH * target), self.max_samples)

    def is_precise(self, atoms: Summary, precision: float) -> bool:
        """Whether all atoms are known well enough, those derived last since that takes longer."""
        if not atoms.is_precise(precision, MAX_RHAT):
            return False
        derived = self.derive_others()
        return derived is None or derived.atoms.is_precise(precision, MAX_RHAT)

    def result(self, precision: float) -> SampleResult:
        atoms = self.summarize_atoms()
        span, jump = count_ranges(self.network)
        counts = summarize(
            [tallies.counts for tallies in self.tallies],
            MAX_RHAT,
            warm_up=WarmUp(self.before_counts, self.warmed),
            span=span,
            jump=jump,
        )
        derived = self.derive_others()
        judged = [atoms] if derived is None else [atoms, derived.atoms]
        return SampleResult(
            self.sampler.name,
            atoms.mean, atoms.stderr, atoms.rhat, atoms.ess,
            self.network.constant_count + counts.mean, counts.stderr,
            self.num_chains,
            self.num_chains * self.num_samples,
            self.num_chains * self.warmed,
            time.monotonic() - self.began,
            all(s.is_precise(precision, MAX_RHAT) for s in judged) and not self.interrupted,
            self.interrupted,
            self.plan.ergodic,
            dict(self.events),
            max(s.worst_missed for s in judged),
            collect_trace([tallies.atoms for tallies in self.tallies]),
            derived,
        )  # fmt: skip
