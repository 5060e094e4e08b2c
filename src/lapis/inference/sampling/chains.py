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

What did not work. For pilots: effective samples instead of B, a disadvantage for samplers with
small variance; means of the second half only, which favoured Gibbs chains that had just left a
mode. For mode search: longer first windows, and doubled `VISITS`. Starts from beliefs of belief
propagation saved less (6 to 11 % of 32,740 samples on friends and smokers) than propagation costs,
and with several modes the beliefs are those of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.diagnostics import (
    MAX_RHAT,
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
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.inference.sampling.tally import Worlds, extend_worlds, new_tallies
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

if TYPE_CHECKING:
    pass
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, sweep_work

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
REACH = 10  # largest `worst_missed` after `patience` samples, relative to the precision


class Derived(NamedTuple):
    """Averages of values that are derived from the chains' worlds."""

    atoms: ChainAverages
    counts: Summary


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
    num_chains: int
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
    # bool[num_chains, num_atoms], where the chains ended
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
    patience: int | None = None,
    starts: np.ndarray | None = None,
) -> SampleResult:
    """Estimate marginals and expected counts by sampling.

    `max_samples` is the sum over all chains; each draws at least `MIN_CHAIN_SAMPLES`. Pilots choose
    between the sampler and its `rivals`. If the chains do not agree after `patience` samples, or
    `worst_missed` exceeds `REACH` times the precision, the run ends unconverged. Chains start at
    `starts`, bool[num_chains, num_atoms], if these worlds are feasible. Raises LapisError
    if no world satisfies the hard clauses, or none is found. Ctrl-C (or `should_stop`) ends the run
    early with the result so far, marked `interrupted`.
    """
    limits = ChainLimits(
        precision,
        max(MIN_CHAIN_SAMPLES, -(-max_samples // num_chains)),
        None if patience is None else -(-patience // num_chains),
        deadline_in(time_limit),
    )
    if time_limit is not None and patience is not None:
        # If chains do not agree after half of the time, another sampler gets the rest.
        limits = limits._replace(deadline=deadline_in(time_limit / 2))
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
            run.sample()
            if time_limit is not None and run.is_late() and run.can_continue():
                left = run.began + time_limit - work_clock()
                run.limits = limits._replace(deadline=deadline_in(left))
                run.sample()
        except KeyboardInterrupt:
            run.interrupted = True
            if run.num_samples == 0:
                raise
    return run.result()


class ChainLimits(NamedTuple):
    """The limits of a run."""

    precision: float
    max_samples: int  # per chain
    patience: int | None  # samples per chain after which chains must agree
    deadline: float  # of the work clock, infinite without a limit


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

    @property
    def num_samples(self) -> int:
        """The number of samples of each chain."""
        return num_tallied(self.tallies[0].atoms)

    def start(self, pool: ThreadPool, seed: int) -> None:
        self.pool = pool
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
        """Reset the sums of warm-up and the averages."""
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
        kept = self.network.num_atoms if self.derive else 0
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

    def advance(self, target: int) -> bool:
        """Sample until each chain has `target` samples; False if stopped before."""
        if self.derive is not None:
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
        own = [tallies.atoms for tallies in self.tallies]
        found = summarize(own, warm_up=WarmUp(self.before_atoms, self.warmed))
        component = self.network.component[: self.network.num_base_atoms]
        if self.network.num_clauses == 0:
            component = np.zeros_like(component)  # not grounded: any two atoms may be connected
        return raise_island_errors(found, component, self.num_chains, self.plan.ergodic)

    def derive_values(self) -> Derived | None:
        if self.derive is None:
            return None
        if self.derived is None or self.derived[0] != self.num_samples:
            worlds = [tallies.worlds for tallies in self.tallies]
            found = self.derive(worlds, self.before_worlds, self.plan.ergodic)
            self.derived = self.num_samples, found
        return self.derived[1]

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
        self.run_windows()
        self.states = self.states[: self.num_chains]
        self.tallies = self.tallies[: self.num_chains]

    def run_windows(self) -> None:
        """Run windows of doubling length until the chains agree, or a limit is reached."""
        window = FIRST_CHECK // 2
        longest = max(1, (self.limits.patience or self.limits.max_samples) // 2)
        while self.warmed + window <= longest or self.warmed == 0:
            window = min(window, longest)
            if not self.advance(window):
                return
            summary = self.update_summary()
            if self.is_late():
                return
            self.record_warm_up()
            self.reset(summary.slowest(NUM_TRACED))
            if summary.worst_rhat <= WARM_RHAT:
                return
            window *= 2

    def sample(self) -> None:
        if self.interrupted:
            return
        self.phase = "sampling"
        limit, prolonged = self.limits.max_samples, None
        # Chains that took long to agree may take as long to move between modes again.
        target = min(max(FIRST_CHECK, 2 * self.warmed), limit)
        while self.advance(target):
            summary = self.update_summary()
            if target == limit or self.has_failed(summary):
                return
            if summary.is_precise(self.limits.precision):
                # Derived values are the most expensive, so they are checked last.
                enough = self.trace_size().is_enough(ENOUGH_EFFECTIVE * self.num_chains)
                prolonged = prolonged or PROLONGED * target
                if (enough or target >= prolonged) and self.is_derived_precise():
                    return
            target = min(self.next_target(target, summary), limit)

    def next_target(self, target: int, atoms: Summary) -> int:
        """Predict the samples for the precision, with bounded growth."""
        ratio = atoms.worst_stderr / max(self.limits.precision, 1e-9)
        growth = np.clip(OVERSHOOT * ratio**2, LEAST_GROWTH, CHECK_GROWTH)
        return int(np.ceil(growth * target))

    def has_failed(self, atoms: Summary) -> bool:
        """Test whether chains do not agree after `patience` samples."""
        patience = self.limits.patience
        if patience is None or self.num_samples + self.warmed < patience:
            return False
        return not self.is_consistent(atoms)

    def is_consistent(self, atoms: Summary) -> bool:
        """Test whether chains agree, and `worst_missed` is small enough to continue."""
        found = atoms.worst_missed <= REACH * self.limits.precision
        return found and atoms.worst_rhat <= MAX_RHAT

    def can_continue(self) -> bool:
        return (
            self.phase == "sampling"
            and self.is_consistent(self.update_summary())
            and not self.interrupted
        )

    def trace_size(self) -> EffectiveSize:
        return effective_size(collect_trace([tallies.atoms for tallies in self.tallies]).values)

    def is_derived_precise(self) -> bool:
        derived = self.derive_values()
        return derived is None or derived.atoms.is_precise(self.limits.precision)

    def seconds_left(self, judged: Sequence[Summary | ChainAverages]) -> float:
        """Predict the time to the precision, assuming that errors fall as 1/√samples."""
        worst = max(found.worst_stderr for found in judged)
        if worst <= self.limits.precision:
            return 0.0
        if not self.limits.precision or not np.isfinite(worst):
            return np.inf
        done = 1.0 if self.phase == "sampling" else 0.0  # warm-up does not count
        return self.checked_seconds * ((worst / self.limits.precision) ** 2 - done)

    def result(self) -> SampleResult:
        atoms = self.summarize_atoms()
        self.checked_seconds = self.window_seconds
        span, jump = count_ranges(self.network)
        counts = summarize(
            [tallies.counts for tallies in self.tallies],
            warm_up=WarmUp(self.before_counts, self.warmed),
            span=span,
            jump=jump,
        )
        derived = self.derive_values()
        judged: list[Summary | ChainAverages] = [atoms]
        if derived is not None:
            judged.append(derived.atoms)
        return SampleResult(
            self.sampler.name,
            atoms.mean, atoms.stderr, atoms.rhat, atoms.ess,
            self.network.constant_count + counts.mean, counts.stderr,
            self.num_chains,
            self.num_chains * self.num_samples,
            self.num_chains * self.warmed,
            work_clock() - self.began,
            all(s.is_precise(self.limits.precision) for s in judged)
            and self.num_samples >= FIRST_CHECK
            and not self.interrupted,
            self.interrupted,
            self.plan.ergodic,
            dict(self.events),
            max(s.worst_missed for s in judged),
            self.trace_size(),
            slowest_size([tallies.atoms for tallies in self.tallies]),
            self.seconds_left(judged),
            dict(self.pilots),
            collect_trace([tallies.atoms for tallies in self.tallies]),
            derived,
            worlds=np.array([self.sampler.world(state) for state in self.states]),
        )  # fmt: skip


MIN_PILOT_SAMPLES, MAX_PILOT_SAMPLES = 16, 128  # per chain
ROUNDING = 1e-12  # of a variance
PILOT_LITERALS = 4_000_000  # visited by a chain, within the bounds on samples


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
CLIMB_STREAM = 1 << 20  # offset of the seed: climbs and chains have different random numbers


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
