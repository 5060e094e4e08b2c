"""Run several chains of a sampler, on all cores, until the answer is precise enough.

`run_chains` starts the chains far apart. They warm up until they agree (split R-hat at most 1.2) or
half of the allowed samples are used. Then they sample until every standard error is at most
`precision` and every R-hat at most MAX_RHAT, or a limit is reached. Averages exclude warm-up, but
the standard errors take into account places that chains visited only in warm-up: these may be
missed modes (`diagnostics`). Quantities derived from the chains' worlds, such as the marginals of
eliminated atoms, must satisfy the same criteria. If the precision is reached before a hundred
effective samples a chain, the chains continue up to `PROLONGED` times as long. Checks happen at
fixed numbers of samples, and each chain has its own random stream: equal seeds give equal answers
on any number of cores, unless the time limit or the user ends the run.

**Pilots** choose between samplers. All candidates start at the same worlds, far apart, and draw a
few samples. With B_a the variance of the chains' means for atom a, and `work` the cost of a sample,

    cost of an error = work · (Σ_a B_a²)^½

Errors fall as 1/√samples, so the required samples are proportional to B; squares emphasise the slow
atoms. A sampler whose chains remain in different modes has a large B and loses to one that moves
between modes. A pilot cannot detect a missed mode: pilots only select the sampler, and its run must
pass all checks. Work is counted in visits of literals, not in seconds, so equal seeds give equal
choices. The pilot of the chosen sampler is the beginning of its warm-up.

**Mode search.** Convergence diagnostics cannot detect modes that no chain visited. So a quick
search climbs from random worlds by Gibbs sweeps at a temperature near zero (iterated conditional
modes, Besag 1986, "On the statistical analysis of dirty pictures"), and a mode chain starts from
each distinct local maximum. Mode chains take part in warm-up only. The other chains must agree with
them, and the time that a mode chain spent in its mode enters the standard errors like all of
warm-up. Modes belong to components: mode chain s starts every component at its s-th best mode. If a
sample is expensive there is no mode search: the local maxima of a large network differ in a few
atoms, which chains forget at once.

**Weights of modes.** If the chains of a window of warm-up stay apart, and `weigh` is set, their
modes are weighed (`mode_weights`) with as much work as the window had. If one mode is left, or the
weights are known well enough, the run continues with `num_chains` chains in each mode, and averages
are mixtures. Otherwise the next window is twice as long, and so are the paths. Modes that a chain
leaves later are not apart: they are united, and all chains continue as usual.

Without a time limit, work that is predicted to take longer than `LONG` is not begun: the answer
has the errors reached so far and the predicted time.

What did not work. For pilots: effective samples instead of B, a disadvantage for samplers with
small variance; means of the second half only, which favoured Gibbs chains that had just left a
mode. For mode search: longer first windows, and doubled `VISITS`. Starts from beliefs of belief
propagation saved less (6 to 11 % of 32,740 samples on friends and smokers) than propagation costs,
and with several modes the beliefs are those of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

import numpy as np

from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.inference.sampling.diagnostics import (
    ChainAverages,
    EffectiveSize,
    Summary,
    Trace,
    WarmUp,
    collect_trace,
    count_ranges,
    effective_size,
    num_tallied,
    raise_island_errors,
    slowest_size,
    summarize,
)
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, sweep_work
from lapis.inference.sampling.jumps import find_jumps
from lapis.inference.sampling.mode_weights import (
    MAX_PATHS,
    ModeRow,
    ModeWeights,
    describe_mode,
    group_chains,
    mix_averages,
    mix_summaries,
    weigh_modes,
)
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.inference.sampling.tally import Tally, Worlds, extend_worlds, new_tallies
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool, num_cores
from lapis.runtime.progress import (
    SECONDS_LEFT,
    Progress,
    Report,
    StopCallback,
    deadline_in,
    work_clock,
)

WARM_RHAT = 1.2
FIRST_CHECK = 64  # least samples a chain for convergence
MIN_CHAIN_SAMPLES = 2  # samples a chain for a standard error
CHECK_GROWTH, LEAST_GROWTH = 1.5, 1.15  # of the samples from one check to the next
OVERSHOOT = 1.05  # factor of the predicted samples
ROUND_SECONDS = 0.2  # time between checks of the limits
NUM_TRACED = 8
ENOUGH_EFFECTIVE = 100.0  # effective samples a chain for a reliable standard error
PROLONGED = 4
MAX_MODE_CHAINS = 6
MIN_STARTS = 4  # chains and mode chains together: R-hat needs several chains
MODE_CHAIN_WORK = 500_000  # most visits of literals for a sample of all mode chains
MAX_STARTS = 16  # chains and mode chains together, if modes are found once only
FOUND_ONCE = 0.25  # of the starts: largest share whose mode no other start has found
CHEAP_PATHS = 4_000_000  # visits of literals by paths that need not be spared
WEIGHT_SHARE = 0.5  # of the precision: error due to weights of modes at which they are final
MAX_JUMPS = 8  # times that jumps are added in warm-up
LONG = 1_200.0  # seconds; work that is predicted to take longer is not begun without a time limit


class Derived(NamedTuple):
    """Averages of values that are derived from the chains' worlds."""

    atoms: ChainAverages
    counts: Summary
    span: np.ndarray  # float64[num_weights], the range of each count


# Arguments: the worlds of each chain, the pieces of each chain's warm-up, and `ergodic`.
Derive = Callable[[Sequence[Worlds], Sequence[Sequence[Worlds]], bool | None], Derived]


@dataclass(frozen=True)
class SampleResult:
    """Averages over the chains, and their diagnostics."""

    method: str
    marginal: np.ndarray  # float64[num_base_atoms]
    stderr: np.ndarray  # float64[num_base_atoms]
    rhat: np.ndarray  # float64[num_base_atoms], split R-hat
    ess: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights], evidence included
    expected_count_stderr: np.ndarray  # float64[num_weights]
    num_chains: int  # of each mode, if there are several
    num_samples: int  # in all chains, after warm-up
    num_warmup: int
    seconds: float
    converged: bool  # sampled and derived values reached precision and R-hat on enough samples
    interrupted: bool
    ergodic: bool | None  # None: unknown
    events: Mapping[str, float]  # sums of the `StepInfo`s of all chains
    worst_missed: float  # the largest part of a standard error due to warm-up
    size: EffectiveSize  # of the slowest atoms in warm-up
    worst_ess: float  # of the slowest of all atoms, by batches
    seconds_left: float  # predicted time to the requested precision, 0 if it is reached
    pilots: Mapping[str, float]  # sampler → cost of equal errors, relative to the chosen one
    trace: Trace = field(repr=False)
    derived: Derived | None = field(repr=False)
    modes: tuple[ModeRow, ...] = ()  # if chains stayed apart
    # bool[num_chains, num_atoms], where the chains ended; None if several modes are mixed
    worlds: np.ndarray | None = field(default=None, repr=False)

    @property
    def worst_rhat(self) -> float:
        derived = 1.0 if self.derived is None else self.derived.atoms.worst_rhat
        return max(derived, float(self.rhat.max(initial=1.0)))

    @property
    def num_stuck(self) -> int:
        """Sampled atoms that are constant in each chain but differ between chains."""
        return int(np.isposinf(self.rhat).sum())

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
    should_stop: StopCallback | None = None,
    num_threads: int | None = None,
    rivals: Sequence[Sampler[Any, Any]] = (),
    weigh: bool = False,
    starts: np.ndarray | None = None,
) -> SampleResult:
    """Estimate marginals and expected counts by sampling.

    `max_samples` is the sum over all chains; each draws at least `MIN_CHAIN_SAMPLES`. Pilots choose
    between the sampler and its `rivals`. With `weigh`, modes between which chains do not move are
    weighed (`mode_weights`). Chains start at `starts`, bool[num_chains, num_atoms], if these worlds
    are feasible. Raises LapisError if no world satisfies the hard clauses, or none is found. Ctrl-C
    (or `should_stop`) ends the run early with the result so far, marked `interrupted`.
    """
    limits = ChainLimits(
        precision,
        max(MIN_CHAIN_SAMPLES, -(-max_samples // num_chains)),
        deadline_in(time_limit),
        weigh and network.num_clauses > 0,
    )
    with ThreadPool(num_threads or num_cores()) as pool:
        modes: list[np.ndarray] | None = None

        def start(candidate: Sampler[Any, Any]) -> ChainRun[Any, Any]:
            nonlocal modes
            run = ChainRun(candidate, network, num_chains, limits, derive, progress, should_stop)
            run.starts = starts
            run.start(pool, seed)
            number = run.num_mode_chains()
            if modes is None and number > 0:
                modes = find_modes(network, MAX_MODE_CHAINS, seed)
            run.start_mode_chains((modes or [])[:number], seed)
            return run

        run = start(sampler)
        try:
            if rivals:
                run = choose_by_pilots(run, (start(rival) for rival in rivals))
            run.warm_up()
            while not run.sample():
                run.warm_up()
        except KeyboardInterrupt:
            run.interrupted = True
            if run.num_samples == 0:
                raise
    return run.result()


class ChainLimits(NamedTuple):
    """The limits of a run."""

    precision: float
    max_samples: int  # per chain
    deadline: float  # of the work clock, infinite without a limit
    weigh: bool  # weigh modes between which chains do not move


class ChainRun(Generic[PlanType, StateType]):
    """The chains of one run and their tallies."""

    starts: np.ndarray | None = None  # bool[num_chains, num_atoms]

    def __init__(
        self,
        sampler: Sampler[PlanType, StateType],
        network: Network,
        num_chains: int,
        limits: ChainLimits,
        derive: Derive | None,
        progress: Report | None,
        should_stop: StopCallback | None,
    ) -> None:
        self.sampler, self.network, self.num_chains = sampler, network, num_chains
        self.limits = limits
        self.derive, self.progress, self.should_stop = derive, progress, should_stop
        self.began = work_clock()
        self.interrupted = False
        self.warmed = 0
        self.window_seconds = 0.0  # since the averages were reset
        self.checked_seconds = 0.0  # … at the last check
        self.round_size = 1
        self.sample_seconds = 0.0  # of each chain, in the last round
        self.phase = "warm-up"
        self.events: dict[str, float] = {}
        self.summary: Summary | None = None
        self.pilots: dict[str, float] = {}
        self.derived: tuple[int, Derived] | None = None  # with the number of samples
        self.groups = [list(range(num_chains))]  # the chains of each mode
        self.modes: ModeWeights | None = None  # of the groups
        self.found: ModeWeights | None = None  # … weighed last, for the present chains
        self.weighings, self.weigh_seconds = 0, 0.0  # the number of times, time of the last one
        self.num_jumps = 0 if limits.weigh else MAX_JUMPS  # times that jumps were added
        self.is_united = False  # chains crossed between modes: these are not weighed
        self.is_explored = True  # the modes were found often enough

    @property
    def num_samples(self) -> int:
        """The number of samples of each chain."""
        return num_tallied(self.tallies[0].atoms)

    def start(self, pool: ThreadPool, seed: int) -> None:
        self.pool, self.seed = pool, seed
        self.plan = self.sampler.prepare(self.network)
        streams = random_states(seed, self.num_chains)
        start = [
            self.pool.submit(self.start_chain, chain, streams[chain].copy())
            for chain in range(self.num_chains)
        ]
        self.states = [future.result() for future in start]
        self.clear_warm_up()

    def num_mode_chains(self) -> int:
        """Return the affordable number of mode chains."""
        work = max(1.0, self.sampler.work(self.plan, self.states[0]))
        return min(MAX_MODE_CHAINS, int(MODE_CHAIN_WORK / work))

    def start_mode_chains(self, worlds: Sequence[np.ndarray], seed: int) -> None:
        """Start warm-up-only chains from these worlds; if there are few, also far-apart ones."""
        first = self.num_chains + len(worlds)
        streams = random_states(seed, max(first, MIN_STARTS))[self.num_chains :]
        sent = [
            self.pool.submit(self.sampler.init, self.plan, world, stream.copy())
            for world, stream in zip(worlds, streams, strict=False)
        ]
        sent += [
            self.pool.submit(self.start_chain, self.num_chains + number, stream.copy())
            for number, stream in enumerate(streams[len(worlds) :])
        ]
        self.states += [future.result() for future in sent]
        self.clear_warm_up()

    def clear_warm_up(self) -> None:
        """Reset the sums of warm-up and the averages, as it begins at the present worlds."""
        self.start_worlds: list[np.ndarray] = []
        if self.num_jumps < MAX_JUMPS:
            self.start_worlds = [self.sampler.world(state) for state in self.states]
        self.origin = self.sampler.counts(self.states[0]).copy()
        self.before_atoms = np.zeros((len(self.states), self.network.num_base_atoms))
        self.before_counts = np.zeros((len(self.states), len(self.origin)))
        self.before_worlds: list[list[Worlds]] = [[] for _ in self.states]
        self.reset(np.empty(0, np.int64))

    def start_chain(self, chain: int, rng: np.ndarray) -> StateType:
        if self.starts is not None and chain < len(self.starts):
            world = self.starts[chain]
            if self.network.is_feasible(world):
                return self.sampler.init(self.plan, world.copy(), rng)
        world = self.sampler.start(self.plan, chain, rng)
        return self.sampler.init(self.plan, world, rng)

    def reset(self, traced: np.ndarray) -> None:
        """Reset the averages."""
        self.derived = None
        self.window_seconds = 0.0
        kept = self.network.num_atoms if self.keeps_worlds else 0
        num_atoms = self.network.num_base_atoms
        self.tallies = [new_tallies(num_atoms, self.origin, traced, kept) for _ in self.states]
        self.events = {}

    def record_warm_up(self) -> None:
        """Add the present window to the warm-up."""
        for chain, tallies in enumerate(self.tallies):
            self.before_atoms[chain] += tallies.atoms.batch_sum.sum(axis=0)
            self.before_counts[chain] += tallies.counts.batch_sum.sum(axis=0)
            if self.derive is not None:
                self.before_worlds[chain].append(tallies.worlds)
        self.warmed += self.num_samples

    @property
    def keeps_worlds(self) -> bool:
        return self.derive is not None or self.limits.weigh

    def advance(self, target: int) -> bool:
        """Sample until each chain has `target` samples; False if stopped before."""
        if self.keeps_worlds:
            self.tallies = [
                tallies._replace(worlds=extend_worlds(tallies.worlds, target))
                for tallies in self.tallies
            ]
        while (done := self.num_samples) < target:
            size = min(self.round_size, target - done)
            if self.is_over(size):
                return False
            before = work_clock()
            self.run_round(size)
            elapsed = work_clock() - before
            self.sample_seconds = elapsed / size
            self.window_seconds += elapsed
            if elapsed < ROUND_SECONDS / 2:
                self.round_size = 2 * max(self.round_size, size)
            elif elapsed > 2 * ROUND_SECONDS:
                self.round_size = max(1, self.round_size // 2)
            self.report()
        return True

    def run_round(self, size: int) -> None:
        """Step every chain. On Ctrl-C the running steps are finished first."""
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

    def is_over(self, size: int) -> bool:
        """Return whether the run ends before a round of this size."""
        if self.should_stop is not None and self.should_stop():
            self.interrupted = True
        late = self.is_late(size * self.sample_seconds)
        return (self.interrupted or late) and self.num_samples >= MIN_CHAIN_SAMPLES

    def is_late(self, seconds: float = 0.0) -> bool:
        """Return whether the deadline has passed, or work of `seconds` would end far behind it."""
        return work_clock() + max(0.0, seconds - ROUND_SECONDS) > self.limits.deadline

    def update_summary(self) -> Summary:
        self.summary = self.summarize_atoms()
        self.checked_seconds = self.window_seconds
        self.report()
        return self.summary

    def summarize_atoms(self) -> Summary:
        component = self.network.component[: self.network.num_base_atoms]
        if self.network.num_clauses == 0:
            component = np.zeros_like(component)  # not grounded: any two atoms may be connected
        found = []
        for group in self.summarized_groups():
            own = [self.tallies[chain].atoms for chain in group]
            before = self.before_atoms[self.with_mode_chains(group)]
            summary = summarize(own, warm_up=WarmUp(before, self.warmed))
            chains = min(self.num_chains, len(group))
            found.append(raise_island_errors(summary, component, chains, self.ergodic))
        return mix_summaries(found, self.modes)

    def summarized_groups(self) -> list[list[int]]:
        """Return the chains of each mode; all of them, mode chains too, if there is no mode."""
        return self.groups if self.modes is not None else [list(range(len(self.states)))]

    def with_mode_chains(self, group: list[int]) -> list[int]:
        """Return the chains of a mode that took part in warm-up."""
        return group if self.modes is not None else list(range(len(self.before_atoms)))

    @property
    def ergodic(self) -> bool | None:
        """Whether chains reach every world of their mode; None if unknown.

        A weighed mode may be a single world, in which nothing moves.
        """
        return self.plan.ergodic if self.modes is None else True

    def derive_values(self) -> Derived | None:
        if self.derive is None:
            return None
        if self.derived is None or self.derived[0] != self.num_samples:
            found = []
            for group in self.groups:
                worlds = [self.tallies[chain].worlds for chain in group]
                before = [self.before_worlds[chain] for chain in self.with_mode_chains(group)]
                found.append(self.derive(worlds, before, self.ergodic))
            self.derived = self.num_samples, self.mix_derived(found)
        return self.derived[1]

    def mix_derived(self, found: Sequence[Derived]) -> Derived:
        if self.modes is None:
            return found[0]
        atoms, span = mix_averages([each.atoms for each in found], self.modes), found[0].span
        counts = mix_summaries([each.counts for each in found], self.modes, span)
        return Derived(atoms, counts, span)

    def report(self) -> None:
        if self.progress is None:
            return
        found = self.summary
        figures = {}
        if found is not None:  # the most important first: a terminal may be narrow
            figures = {
                SECONDS_LEFT: self.seconds_left([found]),
                "rhat": found.worst_rhat,
                "stderr": found.worst_stderr,
            }
        self.progress(
            Progress(
                self.phase,
                self.num_samples * self.num_chains,
                self.limits.max_samples * self.num_chains,
                work_clock() - self.began,
                figures,
            )
        )

    def warm_up(self) -> None:
        """Run warm-up and end the mode chains. The first window includes the pilot's samples."""
        self.phase = "warm-up"
        self.run_windows()
        if self.modes is None:
            self.states = self.states[: self.num_averaged]
            self.tallies = self.tallies[: self.num_averaged]

    @property
    def num_averaged(self) -> int:
        """The number of chains that are averaged, all but mode chains."""
        return sum(len(group) for group in self.groups)

    def run_windows(self) -> None:
        """Run windows of doubling length until the chains agree, or a limit is reached."""
        window, longest = FIRST_CHECK // 2, max(1, self.max_samples // 2)
        while self.warmed + window <= longest or self.warmed == 0:
            window = min(window, longest)
            if not self.advance(window) or self.is_late():
                return self.divide_late()
            summary = self.update_summary()
            agree = summary.worst_rhat <= WARM_RHAT
            if self.unite_crossed() or (not agree and self.weigh(window)):
                window = FIRST_CHECK // 2
                continue
            if not agree and self.add_jumps():
                continue
            self.record_warm_up()
            self.reset(summary.slowest(NUM_TRACED))
            if agree:
                return
            window *= 2
            if math.isinf(self.limits.deadline) and work_clock() - self.began > LONG:
                break
        if self.found is not None and self.modes is None:
            self.divide(self.found)

    def sample(self) -> bool:
        """Sample to the precision or a limit; False if modes are found to be apart or to meet."""
        if self.interrupted:
            return True
        self.phase = "sampling"
        limit, prolonged = self.max_samples, None
        # Chains that took long to agree may take as long to move between modes again.
        target = min(max(FIRST_CHECK, 2 * self.warmed), limit)
        while self.advance(target):
            summary = self.update_summary()
            if self.unite_crossed():
                return False
            if target == limit or self.is_too_long(summary, limit):
                return True
            if summary.is_precise(self.reachable):
                # Derived values are the most expensive, so they are checked last.
                enough = self.trace_size().is_enough(ENOUGH_EFFECTIVE * self.num_chains)
                prolonged = prolonged or PROLONGED * target
                if (enough or target >= prolonged) and self.is_derived_precise():
                    return True
            target = min(self.next_target(target, summary), limit)
        return True

    def is_too_long(self, summary: Summary, limit: int) -> bool:
        """Return whether a run without a time limit is predicted to take very long.

        It ends at the precision, or at `limit` samples of each chain. With precision 0 all of
        these are wanted, however long it takes.
        """
        if not math.isinf(self.limits.deadline) or not self.limits.precision:
            return False
        rest = self.window_seconds * (limit / self.num_samples - 1.0)
        return min(self.seconds_left([summary]), rest) > LONG

    @property
    def max_samples(self) -> int:
        """The largest number of samples of each chain."""
        groups = max(1, self.num_averaged // self.num_chains)
        return max(MIN_CHAIN_SAMPLES, self.limits.max_samples // groups)

    @property
    def reachable(self) -> float:
        """The precision that more samples can reach."""
        error = 0.0 if self.modes is None else self.modes.error()
        precision = self.limits.precision
        return precision if error <= WEIGHT_SHARE * precision else math.hypot(precision, error)

    def weigh(self, window: int) -> bool:
        """Weigh the modes of chains that stay apart; return whether other chains were started."""
        late = self.is_late(2 * self.window_seconds)
        if not self.limits.weigh or self.is_united or (late and self.found is not None):
            return False
        component = self.network.component[: self.network.num_base_atoms]
        groups = group_chains(self.tallies, component)
        if not divides_further(groups, self.summarized_groups()):
            return False
        began = work_clock()
        self.weighings += 1
        self.found = found = weigh_modes(
            self.gibbs_plan(),
            [describe_mode(self.tallies, group, MAX_PATHS) for group in groups],
            budget=0 if late else self.path_budget(window),
            precision=self.limits.precision, seed=self.seed + self.weighings, pool=self.pool,
        )  # fmt: skip
        self.weigh_seconds = work_clock() - began
        self.is_explored = found.share_found_once() <= FOUND_ONCE
        if not self.is_explored and self.add_starts():
            return True
        if found.error() > WEIGHT_SHARE * self.limits.precision:
            time = LONG if math.isinf(self.limits.deadline) else self.limits.deadline - began
            if self.weigh_left(found) <= time:
                return False
        self.divide(found)
        return True

    def add_jumps(self) -> bool:
        """Let chains jump between the local modes in which they stay apart, if they are new.

        Warm-up begins again at the same worlds: modes that chains left count as with jumps.
        """
        if self.num_jumps == MAX_JUMPS or not hasattr(self.plan, "with_jumps"):
            return False
        plan: Any = self.plan
        own = self.gibbs_plan().jumps
        jumps = own
        for group in self.summarized_groups():
            tallies = [self.tallies[chain].atoms for chain in group]
            jumps = find_jumps(self.network, tallies, jumps)
        if len(jumps.start) == len(own.start):
            return False
        self.plan, self.num_jumps = plan.with_jumps(jumps), self.num_jumps + 1
        streams = random_states(self.seed + JUMP_STREAM + self.num_jumps, len(self.states))
        self.states = [
            self.sampler.init(self.plan, world, stream.copy())
            for world, stream in zip(self.start_worlds, streams, strict=True)
        ]
        self.clear_warm_up()
        return True

    def path_budget(self, window: int) -> int:
        """Return the number of sweeps of paths: as many as the window had, or cheap ones."""
        work = max(1.0, self.sampler.work(self.plan, self.states[0]))
        return max(window * len(self.states), int(CHEAP_PATHS / work))

    def gibbs_plan(self) -> GibbsPlan:
        """Return the plan of Gibbs sweeps along paths."""
        plan: Any = self.plan
        if isinstance(plan, GibbsPlan):
            return plan
        own = getattr(plan, "gibbs", None)
        return own if isinstance(own, GibbsPlan) else Gibbs().prepare(self.network)

    def weigh_left(self, modes: ModeWeights) -> float:
        """Predict the time to final weights, whose errors fall as 1/√paths."""
        ratio = modes.error() / max(WEIGHT_SHARE * self.limits.precision, 1e-9)
        return 0.0 if ratio <= 1.0 else self.weigh_seconds * ratio**2

    def add_starts(self) -> bool:
        """Start as many random chains again, for other modes; return False if there are enough."""
        number = min(len(self.states), MAX_STARTS - len(self.states))
        work = self.sampler.work(self.plan, self.states[0])
        if self.modes is not None or number <= 0 or work > MODE_CHAIN_WORK:
            return False
        streams = random_states(self.seed + START_STREAM, MAX_STARTS)
        first = len(self.states)
        sent = [
            self.pool.submit(self.start_chain, chain, streams[chain].copy())
            for chain in range(first, first + number)
        ]
        self.states += [future.result() for future in sent]
        self.clear_warm_up()
        return True

    def divide(self, modes: ModeWeights) -> None:
        """Continue with `num_chains` chains in each mode that is not negligible."""
        streams = iter(
            random_states(self.seed + START_STREAM + self.weighings, MAX_STARTS * self.num_chains)
        )
        states: list[StateType] = []
        groups = []
        for number in np.flatnonzero(modes.kept):
            mode, paths = modes.modes[number], modes.found[number]
            own = [self.states[chain] for chain in mode.chains[: self.num_chains]]
            worlds = [*paths.ends, *mode.worlds]
            for place in range(self.num_chains - len(own)):
                world = worlds[place % len(worlds)]
                own.append(self.sampler.init(self.plan, world, next(streams).copy()))
            groups.append(list(range(len(states), len(states) + len(own))))
            states += own
        self.states, self.groups, self.modes = states, groups, modes
        self.clear_warm_up()

    def divide_late(self) -> None:
        """Assign the chains to the modes found, if the time is over."""
        if self.found is not None and self.modes is None:
            kept = [m for m, k in zip(self.found.modes, self.found.kept, strict=True) if k]
            self.groups, self.modes = [list(mode.chains) for mode in kept], self.found

    def unite_crossed(self) -> bool:
        """Unite the modes if a chain moved from one to another; return whether it did."""
        if self.modes is None or len(self.groups) == 1:
            return False
        kept = np.flatnonzero(self.modes.kept)
        worlds = [[self.sampler.world(self.states[c]) for c in group] for group in self.groups]
        regions = [self.modes.region(np.array(each)) for each in worlds]
        if all((found == mode).all() for found, mode in zip(regions, kept, strict=True)):
            return False
        self.groups, self.modes, self.found = [list(range(len(self.states)))], None, None
        self.is_united, self.is_explored = True, True
        self.clear_warm_up()
        return True

    def next_target(self, target: int, atoms: Summary) -> int:
        """Predict the samples for the precision, with bounded growth."""
        ratio = atoms.worst_stderr / max(self.reachable, 1e-9)
        growth = np.clip(OVERSHOOT * ratio**2, LEAST_GROWTH, CHECK_GROWTH)
        return int(np.ceil(growth * target))

    def trace_size(self) -> EffectiveSize:
        sizes = [effective_size(collect_trace(own).values) for own in self.atoms_of_groups()]
        return EffectiveSize(*(min(each) for each in zip(*sizes, strict=True)))

    def atoms_of_groups(self) -> list[list[Tally]]:
        return [[self.tallies[chain].atoms for chain in group] for group in self.groups]

    def is_derived_precise(self) -> bool:
        derived = self.derive_values()
        return derived is None or derived.atoms.is_precise(self.reachable)

    def seconds_left(self, judged: Sequence[Summary | ChainAverages]) -> float:
        """Predict the time to the precision.

        Errors fall as 1/√samples, those of modes left in warm-up as 1/samples.
        """
        worst = max(found.worst_stderr for found in judged)
        if worst <= self.limits.precision:
            return 0.0
        if not self.limits.precision or not np.isfinite(worst):
            return np.inf
        weighing = 0.0 if self.modes is None else self.weigh_left(self.modes)
        done = 1.0 if self.phase == "sampling" else 0.0  # warm-up does not count
        missed = max(found.worst_missed for found in judged)
        square = max(0.0, worst**2 - missed**2) / self.reachable**2
        ratio = max(square, missed / self.reachable)
        return weighing + self.checked_seconds * max(0.0, ratio - done)

    def result(self) -> SampleResult:
        atoms = self.summarize_atoms()
        self.checked_seconds = self.window_seconds
        derived = self.derive_values()
        judged: list[Summary | ChainAverages] = [atoms]
        if derived is not None:
            judged.append(derived.atoms)
        counts = self.summarize_counts()
        own = self.atoms_of_groups()
        return SampleResult(
            self.sampler.name,
            atoms.mean, atoms.stderr, atoms.rhat, atoms.ess,
            self.network.constant_count + counts.mean, counts.stderr,
            self.num_averaged // len(self.groups),
            self.num_averaged * self.num_samples,
            self.num_averaged * self.warmed,
            work_clock() - self.began,
            all(s.is_precise(self.limits.precision) for s in judged)
            and self.num_samples >= FIRST_CHECK
            and self.is_explored
            and not self.interrupted,
            self.interrupted,
            self.plan.ergodic,
            dict(self.events),
            max(s.worst_missed for s in judged),
            self.trace_size(),
            min(map(slowest_size, own)),
            self.seconds_left(judged),
            dict(self.pilots),
            collect_trace([tally for group in own for tally in group]),
            derived,
            () if self.modes is None else self.modes.rows(),
            self.end_worlds(),
        )  # fmt: skip

    def end_worlds(self) -> np.ndarray | None:
        """Return the worlds of the chains of the only mode; None if there are several."""
        if len(self.groups) > 1 or len(self.groups[0]) < self.num_chains:
            return None
        return np.array([self.sampler.world(self.states[chain]) for chain in self.groups[0]])

    def summarize_counts(self) -> Summary:
        span, jump = count_ranges(self.network)
        found = []
        for group in self.groups:
            own = [self.tallies[chain].counts for chain in group]
            before = self.before_counts[self.with_mode_chains(group)]
            warm_up = WarmUp(before, self.warmed)
            found.append(summarize(own, warm_up=warm_up, span=span, jump=jump))
        return mix_summaries(found, self.modes, span)


MIN_PILOT_SAMPLES, MAX_PILOT_SAMPLES = 16, 128  # per chain
ROUNDING = 1e-12  # of a variance
PILOT_LITERALS = 4_000_000  # visited by a chain, within the bounds on samples


def divides_further(groups: Sequence[Sequence[int]], present: Sequence[Sequence[int]]) -> bool:
    """Return whether chains of one present group are in several of the groups."""
    label = {chain: number for number, group in enumerate(groups) for chain in group}
    return any(len({label[chain] for chain in group}) > 1 for group in present)


def choose_by_pilots(
    first: ChainRun[Any, Any], rivals: Iterable[ChainRun[Any, Any]]
) -> ChainRun[Any, Any]:
    """Return the best run; only the best so far is kept in memory."""
    best, least = first, cost_of_error(first)
    costs = {first.sampler.name: least}
    for rival in rivals:
        if best.is_late() or best.interrupted:
            break
        if rival.plan.ergodic is None:
            continue  # its chains may agree within an isolated region
        costs[rival.sampler.name] = cost = cost_of_error(rival)
        if cost < least:
            best, least = rival, cost
    best.pilots = {name: cost / least for name, cost in costs.items()}
    best.update_summary()  # for the predicted time
    return best


def cost_of_error(run: ChainRun[Any, Any]) -> float:
    """Run a pilot and compute work · (Σ_a B_a²)^½."""
    within = PILOT_LITERALS // max(1, len(run.network.literal))
    run.phase = "pilot"
    run.advance(int(np.clip(within, MIN_PILOT_SAMPLES, MAX_PILOT_SAMPLES)))
    run.phase = "warm-up"
    size = run.num_samples
    means = np.array([t.atoms.batch_sum.sum(axis=0) / size for t in run.tallies])
    spread = means.var(axis=0, ddof=1) if len(means) > 1 else np.zeros(means.shape[1])
    error = float(np.sqrt((spread**2).sum())) + ROUNDING
    return max(1.0, run.sampler.work(run.plan, run.states[0])) * error


MAX_CLIMBS, CLIMB_SWEEPS = 32, 12
CLIMB_WORK = 20_000_000  # most visits of literals by all climbs
CLIMB_SCALE = 1e6  # factor of the weights: a temperature near zero
CLIMB_STREAM, START_STREAM, JUMP_STREAM = (
    1 << 20,
    1 << 21,
    1 << 22,
)  # offsets of the seed, for other random numbers


def find_modes(network: Network, number: int, seed: int) -> list[np.ndarray]:
    """Return at most `number` feasible worlds bool[num_atoms], local maxima of the score."""
    if number < 1 or network.num_clauses == 0:
        return []
    gibbs = Gibbs()
    plan = gibbs.prepare(network)
    climbs = min(MAX_CLIMBS, max(1, int(CLIMB_WORK / (CLIMB_SWEEPS * max(1.0, sweep_work(plan))))))
    worlds = np.array([climb_by_gibbs(gibbs, plan, seed, index) for index in range(climbs)])
    score, label = score_components(network, worlds)
    return choose_worlds(network, worlds, score, label, number)


def climb_by_gibbs(gibbs: Gibbs, plan: GibbsPlan, seed: int, index: int) -> np.ndarray:
    """Return bool[num_atoms], the end of a climb from the start of chain `index`."""
    cold = plan._replace(graph=plan.graph._replace(weight=CLIMB_SCALE * plan.graph.weight))
    rng = random_states(seed + CLIMB_STREAM + index, 1)[0].copy()
    state = gibbs.init(cold, gibbs.start(plan, index, rng), rng)
    gibbs.step(cold, state, new_tallies(0, np.empty(0)), CLIMB_SWEEPS)
    return gibbs.world(state)


def score_components(network: Network, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores float64 and hashes uint64[num_worlds, num_components] of worlds."""
    component, count = network.component, network.num_components
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    owner = component[network.first_atom]
    soft = np.isfinite(weight)
    name = np.random.default_rng(CLIMB_STREAM).integers(
        1 << 63, size=network.num_atoms, dtype=np.uint64
    )
    score, label = np.zeros((len(worlds), count)), np.zeros((len(worlds), count), np.uint64)
    for row, world in enumerate(worlds):
        true = network.is_satisfied(world) & soft
        score[row] = np.bincount(owner[true], weight[true], count)
        np.bitwise_xor.at(label[row], component[world], name[world])
    return score, label


def choose_worlds(
    network: Network, worlds: np.ndarray, score: np.ndarray, label: np.ndarray, number: int
) -> list[np.ndarray]:
    """Return worlds; the s-th joins the s-th best distinct world of every component."""
    order = np.argsort(-score, axis=0, kind="stable")
    ranked = np.take_along_axis(label, order, axis=0)
    seen = np.array([(ranked[:row] == ranked[row]).any(axis=0) for row in range(len(ranked))])
    order = np.take_along_axis(order, np.argsort(seen, axis=0, kind="stable"), axis=0)
    most = int((~seen).sum(axis=0).max(initial=0))
    atom = np.arange(network.num_atoms)
    return [worlds[order[row][network.component], atom] for row in range(min(number, most))]
