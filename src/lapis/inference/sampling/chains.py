"""Several chains of any sampler, on all cores, until the answer is precise enough.

A sampler is an object with `prepare`, `init` and `step` (`Sampler` below; `gibbs`, `mcsat` and
`tempering` read the same way). The driver starts the chains far apart, lets them warm up until
they agree (split R-hat at most 1.2) or half of the samples allowed are spent, forgets what they
did until then, and samples until every standard error is at most `precision` and every R-hat at
most `max_rhat`, or a limit is reached. It looks at fixed numbers of samples, and a chain draws
from its own random stream: the same seed gives the same answer on any number of cores, unless
the time limit or the user ends the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.diagnostics import (
    MAX_RHAT,
    Summary,
    Trace,
    collect_trace,
    num_tallied,
    summarize,
)
from lapis.inference.sampling.kernels.tally import Tally, new_tally
from lapis.network.network import Network
from lapis.progress import Progress, Report

WARM_RHAT = 1.2
FIRST_CHECK = 64  # samples a chain
CHECK_GROWTH = 1.5
ROUND_SECONDS = 0.2  # how long chains run between looks at the clock
NUM_TRACED = 8


class Sampler(Protocol):
    """A Markov chain over the worlds of a network. Arrays of a state are changed in place."""

    @property
    def name(self) -> str: ...

    def prepare(self, network: Network) -> Any:
        """What all chains share; has the field `ergodic`: True, or None where not known."""

    def init(self, plan: Any, chain: int, rng: np.ndarray) -> Any:
        """The state chain number `chain` starts in."""

    def step(self, plan: Any, state: Any, atoms: Tally, counts: Tally, num_samples: int) -> Any:
        """Draw samples and tally E[atom | …] and the true groundings; returns an Info tuple."""

    def counts(self, state: Any) -> np.ndarray:
        """float64[num_weights], true groundings in the current world, evidence left out."""


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
    converged: bool  # precision and R-hat reached
    interrupted: bool
    ergodic: bool | None  # None: not known
    events: Mapping[str, float]  # sums over the chains of what `step` reports
    trace: Trace = field(repr=False)

    @property
    def worst_rhat(self) -> float:
        return float(self.rhat.max(initial=1.0))

    @property
    def worst_stderr(self) -> float:
        return float(self.stderr.max(initial=0.0))


def run_chains(
    network: Network,
    sampler: Sampler,
    *,
    num_chains: int = 4,
    precision: float = 0.01,
    max_rhat: float = MAX_RHAT,
    max_samples: int = 400_000,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Report | None = None,
    should_stop: Callable[[], bool] | None = None,
    num_threads: int | None = None,
) -> SampleResult:
    """Marginals and expected counts by sampling; `max_samples` is for all chains together.

    Raises LapisError if no world satisfies the hard clauses, or none is found. Ctrl-C (or
    `should_stop`) ends the run early with what there is, marked `interrupted`.
    """
    run = Run(sampler, network, num_chains, max_rhat, progress, should_stop)
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
            if num_tallied(run.atoms[0]) == 0:
                raise
    return run.result(precision)


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Run:
    """The chains of one run and their tallies."""

    pool: ThreadPoolExecutor
    deadline: float | None = None
    max_samples: int = 1  # a chain

    def __init__(
        self,
        sampler: Sampler,
        network: Network,
        num_chains: int,
        max_rhat: float,
        progress: Report | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.sampler, self.network, self.num_chains = sampler, network, num_chains
        self.max_rhat, self.progress, self.should_stop = max_rhat, progress, should_stop
        self.began = time.monotonic()
        self.interrupted = False
        self.warmed = 0
        self.round_size = 1
        self.phase = "warm-up"
        self.events: dict[str, float] = {}
        self.summary: Summary | None = None

    def start(self, seed: int) -> None:
        self.plan = self.sampler.prepare(self.network)
        streams = random_states(seed, self.num_chains)
        start = [
            self.pool.submit(self.sampler.init, self.plan, chain, streams[chain].copy())
            for chain in range(self.num_chains)
        ]
        self.states = [future.result() for future in start]
        self.origin = self.sampler.counts(self.states[0]).copy()
        self.reset(np.empty(0, np.int64))

    def reset(self, traced: np.ndarray) -> None:
        """Forget all samples so far."""
        nothing = np.empty(0, np.int64)
        zeros = np.zeros(self.network.num_base_atoms)
        self.atoms = [new_tally(zeros, traced) for _ in self.states]
        self.counts = [new_tally(self.origin, nothing) for _ in self.states]
        self.events = {}

    def advance(self, target: int) -> bool:
        """Sample until each chain has `target` samples; false if told to stop before."""
        while (done := num_tallied(self.atoms[0])) < target:
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
            self.pool.submit(self.sampler.step, self.plan, state, atoms, counts, size)
            for state, atoms, counts in zip(self.states, self.atoms, self.counts, strict=True)
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
        return (self.interrupted or late) and num_tallied(self.atoms[0]) >= 2

    def check(self) -> Summary:
        self.summary = summarize(self.atoms, self.max_rhat)
        self.report()
        return self.summary

    def report(self) -> None:
        if self.progress is None:
            return
        found = self.summary
        figures = {} if found is None else {"rhat": found.worst_rhat, "stderr": found.worst_stderr}
        self.progress(
            Progress(
                self.phase,
                num_tallied(self.atoms[0]) * self.num_chains,
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
            self.warmed += window
            summary = self.check()
            late = self.deadline is not None and time.monotonic() > self.deadline
            if late:
                return
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
            summary = self.check()
            if self.is_precise(summary, precision) or target == self.max_samples:
                return
            target = min(int(CHECK_GROWTH * target), self.max_samples)

    def is_precise(self, summary: Summary, precision: float) -> bool:
        return summary.worst_stderr <= precision and summary.worst_rhat <= self.max_rhat

    def result(self, precision: float) -> SampleResult:
        atoms = summarize(self.atoms, self.max_rhat)
        soft = self.network.weight_id >= 0
        weight_id = self.network.weight_id[soft]
        size = np.abs(self.network.coefficient[soft])
        span = np.bincount(weight_id, weights=size, minlength=len(self.network.weights))
        jump = np.zeros(len(span))
        np.maximum.at(jump, weight_id, size)
        counts = summarize(self.counts, self.max_rhat, span=span, jump=jump)
        return SampleResult(
            self.sampler.name,
            atoms.mean, atoms.stderr, atoms.rhat, atoms.ess,
            self.network.constant_count + counts.mean, counts.stderr,
            self.num_chains,
            self.num_chains * num_tallied(self.atoms[0]),
            self.num_chains * self.warmed,
            time.monotonic() - self.began,
            self.is_precise(atoms, precision) and not self.interrupted,
            self.interrupted,
            self.plan.ergodic,
            dict(self.events),
            collect_trace(self.atoms),
        )  # fmt: skip
