"""Several chains of any sampler, on all cores, until the answer is precise enough.

The driver starts the chains of a `Sampler` far apart, lets them warm up until they agree (split
R-hat at most 1.2) or half of the samples allowed are spent, and samples until every standard error
is at most `precision` and every R-hat at most MAX_RHAT, or a limit is reached. Warm-up is left
out of the averages but not forgotten: where a chain was then and none has been since may be a mode
that is missed, and the standard errors allow for it (`diagnostics`). What is derived from the
worlds of the chains, such as the marginals of eliminated atoms, is judged in the same way and has
the same say. Where the precision comes before a hundred effective samples a chain, the chains go on
for these, but not for more than `PROLONGED` times as long. The driver looks at fixed numbers of
samples, and a chain draws from its own random stream: the same seed gives the same answer on any
number of cores, unless the time limit or the user ends the run.

Which sampler fits a network is measured: each walks a little, and the cheapest error goes on.

All candidates start their chains at the same worlds, far apart. After a few samples the means of
the chains are as far from each other as the sampler is slow to forget a start and to move. With B_a
the variance of the means of chains for atom a, and a cost of `work` a sample,

    cost of an error = work · (Σ_a B_a²)^½

is what a sampler is judged by: errors fall as 1/√samples, so samples needed are as B, and the
root of squares looks at the slow atoms more than at the many quick ones. A sampler whose chains sit
in different modes has means as far apart as can be, and loses to one that crosses; one that lost
a mode is not betrayed by its pilot, and has to pass all that any run has to: pilots decide who goes
on, never that it is enough.

The work is counted in visits of literals, not by the clock: the same seed gives the same choice
under any load. The pilot of the winner is the beginning of its warm-up.

What did not work: effective samples in place of B, since samplers whose estimates vary little were
at a disadvantage. And means of the second half alone: Gibbs chains that had needed all of the
first to leave a mode looked best, and went on for the thousands of samples that a lost mode takes.

Nor did starts drawn from the beliefs of belief propagation. Friends and smokers with 2, 5 and 10
friends, 1,000 and 10,000 people, two seeds, cluster moves and Gibbs, to an error of 0.01: warm-up
was the shortest there is (128 samples a chain) from far-apart worlds too, and all rows took 32,740
samples together, 30,752 with two of the four chains from beliefs, 29,176 with all of them. That is
less than propagation costs, and where there are several modes it believes in one: chains that
begin there agree on it.

Local maxima of the score that a quick search finds, for scouts to start from.

Chains that agree may all have missed a mode that none of them ever entered: neither R-hat nor where
they were in warm-up knows of it. So a few worlds are sought by climbing, from random worlds, with
sweeps of the Gibbs sampler at a temperature near zero (iterated conditional modes, Besag 1986), and
a *scout* is started from each that is another mode. Scouts are chains that only warm up. The others
must agree with them before they are believed, and where a scout was and no chain has been since
counts in the standard errors as any place left in warm-up does (`diagnostics`): the longer a scout
needed to leave its mode, the more samples it takes until not having seen it means something.

Modes are of components: scout s starts every component at the s-th best of its own. A component
with one mode has nothing to tell, and a network of such components gets one scout at most.

Climbing and scouts cost work like any sample. Where a single sample is much work there are none:
the many local maxima of a large network differ in a few atoms each, which chains forget at once,
and the worlds that are far apart, all true and all false, are where chains start anyway.

What did not help: longer first looks, twice the doubt about what warm-up left, and asking for
effective samples. All of them judge by what chains have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from lapis.runtime.processes import num_cores
from lapis.runtime.progress import SECONDS_LEFT, Progress, Report, StopCallback, work_clock

if TYPE_CHECKING:
    pass
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, sweep_work

WARM_RHAT = 1.2
FIRST_CHECK = 64  # samples a chain; with fewer, no precision is believed
MIN_CHAIN_SAMPLES = 2  # samples a chain, so that there is an error to report
CHECK_GROWTH, LEAST_GROWTH = 1.5, 1.15
OVERSHOOT = 1.05  # of the samples expected to be enough
ROUND_SECONDS = 0.2  # how long chains run between looks at the clock
NUM_TRACED = 8
ENOUGH_EFFECTIVE = 100.0  # effective samples a chain that a standard error can be trusted with
PROLONGED = 4
MAX_MODE_CHAINS = 6
MIN_STARTS = 4  # chains and scouts: of one chain alone nobody knows which mode it is in
MODE_CHAIN_WORK = 500_000  # visits of literals by a sample of all scouts, at most
REACH = 10  # times the precision: what may be missing after the patience


class Derived(NamedTuple):
    """What follows from the worlds of the chains about other values."""

    atoms: ChainAverages
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
    converged: bool  # precision and R-hat reached on enough samples, by what is derived too
    interrupted: bool
    ergodic: bool | None  # None: not known
    events: Mapping[str, float]  # sums over the chains of what `step` reports
    worst_missed: float  # the largest part of a standard error that warm-up accounts for
    size: EffectiveSize  # of the atoms that moved slowest in warm-up
    worst_ess: float  # of the slowest of all atoms, by batches
    seconds_left: float  # expected to the precision asked, 0 where that is reached
    pilots: Mapping[str, float]  # sampler → cost of equal errors, that of the one chosen is 1
    trace: Trace = field(repr=False)
    derived: Derived | None = field(repr=False)

    @property
    def worst_rhat(self) -> float:
        derived = 1.0 if self.derived is None else self.derived.atoms.worst_rhat
        return max(derived, float(self.rhat.max(initial=1.0)))

    @property
    def num_stuck(self) -> int:
        """Sampled atoms on which chains never meet: each keeps what it began with."""
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
) -> SampleResult:
    """Marginals and expected counts by sampling; `max_samples` is for all chains together, of
    which each takes `MIN_CHAIN_SAMPLES` at least.

    Pilots decide between the sampler and its `rivals`. After `patience` samples chains must agree,
    and what they left in warm-up must make no error beyond `REACH` times the precision; they give
    up if not. Raises LapisError if no world satisfies the hard clauses, or none is found. Ctrl-C
    (or `should_stop`) ends the run early with what there is, marked `interrupted`.
    """
    limits = ChainLimits(
        precision,
        max(MIN_CHAIN_SAMPLES, -(-max_samples // num_chains)),
        None if patience is None else -(-patience // num_chains),
        None if time_limit is None else work_clock() + time_limit,
    )
    if time_limit is not None and patience is not None:
        # Chains that do not agree after half of the time leave the rest to another sampler.
        limits = limits._replace(deadline=work_clock() + time_limit / 2)
    with ThreadPoolExecutor(num_threads or num_cores()) as pool:
        modes: list[np.ndarray] | None = None

        def start(candidate: Sampler[Any, Any]) -> ChainRun[Any, Any]:
            nonlocal modes
            run = ChainRun(candidate, network, num_chains, limits, derive, progress, should_stop)
            run.start(pool, seed)
            number = run.num_scouts()
            if modes is None and number > 0:
                modes = find_modes(network, MAX_MODE_CHAINS, seed)
            run.send_scouts((modes or [])[:number], seed)
            return run

        run = start(sampler)
        try:
            if rivals:
                run = choose_by_pilots(run, (start(rival) for rival in rivals))
            run.warm_up()
            run.sample()
            if time_limit is not None and run.is_late() and run.may_go_on():
                run.limits = limits._replace(deadline=run.began + time_limit)
                run.sample()
        except KeyboardInterrupt:
            run.interrupted = True
            if run.num_samples == 0:
                raise
    return run.result()


class ChainLimits(NamedTuple):
    """When a run ends."""

    precision: float
    max_samples: int  # a chain
    patience: int | None  # samples a chain after which chains must agree
    deadline: float | None  # of the work clock


class ChainRun(Generic[PlanType, StateType]):
    """The chains of one run and their tallies."""

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
        self.window_seconds = 0.0  # since averages began
        self.looked_seconds = 0.0  # of these, until the last look at them
        self.round_size = 1
        self.phase = "warm-up"
        self.events: dict[str, float] = {}
        self.summary: Summary | None = None
        self.pilots: dict[str, float] = {}
        self.derived: tuple[int, Derived] | None = None  # after so many samples

    @property
    def num_samples(self) -> int:
        """Of each chain."""
        return num_tallied(self.tallies[0].atoms)

    def start(self, pool: ThreadPoolExecutor, seed: int) -> None:
        self.pool = pool
        self.plan = self.sampler.prepare(self.network)
        streams = random_states(seed, self.num_chains)
        start = [
            self.pool.submit(self.start_chain, chain, streams[chain].copy())
            for chain in range(self.num_chains)
        ]
        self.states = [future.result() for future in start]
        self.make_ready()

    def num_scouts(self) -> int:
        """How many chains from other modes a window of warm-up can afford."""
        work = max(1.0, self.sampler.work(self.plan, self.states[0]))
        return min(MAX_MODE_CHAINS, int(MODE_CHAIN_WORK / work))

    def send_scouts(self, worlds: Sequence[np.ndarray], seed: int) -> None:
        """Chains from these worlds, and from worlds far apart if there are few, for warm-up."""
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
        self.make_ready()

    def make_ready(self) -> None:
        """Nothing seen yet, by any of the chains."""
        self.origin = self.sampler.counts(self.states[0]).copy()
        self.before_atoms = np.zeros((len(self.states), self.network.num_base_atoms))
        self.before_counts = np.zeros((len(self.states), len(self.origin)))
        self.before_worlds: list[list[Worlds]] = [[] for _ in self.states]
        self.reset(np.empty(0, np.int64))

    def start_chain(self, chain: int, rng: np.ndarray) -> StateType:
        world = self.sampler.start(self.plan, chain, rng)
        return self.sampler.init(self.plan, world, rng)

    def reset(self, traced: np.ndarray) -> None:
        """Begin to average anew."""
        self.derived = None
        self.window_seconds = 0.0
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
                tallies._replace(worlds=extend_worlds(tallies.worlds, target))
                for tallies in self.tallies
            ]
        while (done := self.num_samples) < target:
            if self.is_over():
                return False
            size = min(self.round_size, target - done)
            before = work_clock()
            self.run_round(size)
            elapsed = work_clock() - before
            self.window_seconds += elapsed
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
        return (self.interrupted or self.is_late()) and self.num_samples >= MIN_CHAIN_SAMPLES

    def is_late(self) -> bool:
        deadline = self.limits.deadline
        return deadline is not None and work_clock() > deadline

    def check(self) -> Summary:
        self.summary = self.summarize_atoms()
        self.looked_seconds = self.window_seconds
        self.report()
        return self.summary

    def summarize_atoms(self) -> Summary:
        own = [tallies.atoms for tallies in self.tallies]
        found = summarize(own, warm_up=WarmUp(self.before_atoms, self.warmed))
        component = self.network.component[: self.network.num_base_atoms]
        if self.network.num_clauses == 0:
            component = np.zeros_like(component)  # rules that nobody grounds may tie any two atoms
        return raise_island_errors(found, component, self.num_chains, self.plan.ergodic)

    def derive_others(self) -> Derived | None:
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
        if found is not None:  # what matters most is first: a terminal may be narrow
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
        """Windows of doubling length; the last is the first in which the chains agree.

        What a pilot sampled is the beginning of the first. Scouts are sent home after the last.
        """
        self.agree()
        self.states = self.states[: self.num_chains]
        self.tallies = self.tallies[: self.num_chains]

    def agree(self) -> None:
        window = FIRST_CHECK // 2
        longest = max(1, (self.limits.patience or self.limits.max_samples) // 2)
        while self.warmed + window <= longest or self.warmed == 0:
            window = min(window, longest)
            if not self.advance(window):
                return
            summary = self.check()
            if self.is_late():
                return
            self.remember()
            self.reset(summary.slowest(NUM_TRACED))
            if summary.worst_rhat <= WARM_RHAT:
                return
            window *= 2

    def sample(self) -> None:
        if self.interrupted:
            return
        self.phase = "sampling"
        limit, prolonged = self.limits.max_samples, None
        # Chains that took long to meet may take as long to part again.
        target = min(max(FIRST_CHECK, 2 * self.warmed), limit)
        while self.advance(target):
            summary = self.check()
            if target == limit or self.gives_up(summary):
                return
            if summary.is_precise(self.limits.precision):
                # What is derived takes longest to judge, so it is asked for last.
                enough = self.size().is_enough(ENOUGH_EFFECTIVE * self.num_chains)
                prolonged = prolonged or PROLONGED * target
                if (enough or target >= prolonged) and self.derives_precisely():
                    return
            target = min(self.next_target(target, summary), limit)

    def next_target(self, target: int, atoms: Summary) -> int:
        """Where the precision is expected, but neither sooner than need be nor too far ahead."""
        ratio = atoms.worst_stderr / max(self.limits.precision, 1e-9)
        growth = np.clip(OVERSHOOT * ratio**2, LEAST_GROWTH, CHECK_GROWTH)
        return int(np.ceil(growth * target))

    def gives_up(self, atoms: Summary) -> bool:
        """Whether chains have had their time to agree and do not."""
        patience = self.limits.patience
        if patience is None or self.num_samples + self.warmed < patience:
            return False
        return not self.agrees(atoms)

    def agrees(self, atoms: Summary) -> bool:
        """Whether chains agree, and what they left in warm-up is small enough to wait for."""
        found = atoms.worst_missed <= REACH * self.limits.precision
        return found and atoms.worst_rhat <= MAX_RHAT

    def may_go_on(self) -> bool:
        return self.phase == "sampling" and self.agrees(self.check()) and not self.interrupted

    def size(self) -> EffectiveSize:
        return effective_size(collect_trace([tallies.atoms for tallies in self.tallies]).values)

    def derives_precisely(self) -> bool:
        derived = self.derive_others()
        return derived is None or derived.atoms.is_precise(self.limits.precision)

    def seconds_left(self, judged: Sequence[Summary | ChainAverages]) -> float:
        """Until the largest error is the precision, if errors fall as 1/√samples."""
        worst = max(found.worst_stderr for found in judged)
        if worst <= self.limits.precision:
            return 0.0
        if not self.limits.precision or not np.isfinite(worst):
            return np.inf
        done = 1.0 if self.phase == "sampling" else 0.0  # warm-up does not count
        return self.looked_seconds * ((worst / self.limits.precision) ** 2 - done)

    def result(self) -> SampleResult:
        atoms = self.summarize_atoms()
        self.looked_seconds = self.window_seconds
        span, jump = count_ranges(self.network)
        counts = summarize(
            [tallies.counts for tallies in self.tallies],
            warm_up=WarmUp(self.before_counts, self.warmed),
            span=span,
            jump=jump,
        )
        derived = self.derive_others()
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
            self.size(),
            slowest_size([tallies.atoms for tallies in self.tallies]),
            self.seconds_left(judged),
            dict(self.pilots),
            collect_trace([tallies.atoms for tallies in self.tallies]),
            derived,
        )  # fmt: skip


MIN_PILOT_SAMPLES, MAX_PILOT_SAMPLES = 16, 128  # a chain
ROUNDING = 1e-12  # of a variance
PILOT_LITERALS = 4_000_000  # visited by a chain, within these bounds


def choose_by_pilots(
    first: ChainRun[Any, Any], rivals: Iterable[ChainRun[Any, Any]]
) -> ChainRun[Any, Any]:
    """The run to go on with; only the best so far is kept in memory."""
    best, least = first, cost_of_error(first)
    costs = {first.sampler.name: least}
    for rival in rivals:
        if best.is_late() or best.interrupted:
            break
        if rival.plan.ergodic is None:
            continue  # its chains may agree on an island
        costs[rival.sampler.name] = cost = cost_of_error(rival)
        if cost < least:
            best, least = rival, cost
    best.pilots = {name: cost / least for name, cost in costs.items()}
    best.check()  # tells how long it may take
    return best


def cost_of_error(run: ChainRun[Any, Any]) -> float:
    """work · (Σ_a B_a²)^½ after a pilot."""
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
CLIMB_WORK = 20_000_000  # visits of literals by all climbs, at most
CLIMB_SCALE = 1e6  # times the weights
CLIMB_STREAM = 1 << 20  # so that climbs draw other numbers than any chain


def find_modes(network: Network, number: int, seed: int) -> list[np.ndarray]:
    """Worlds to start scouts from, bool[num_atoms], at most so many; they keep what is hard."""
    if number < 1 or network.num_clauses == 0:
        return []
    gibbs = Gibbs()
    plan = gibbs.prepare(network)
    climbs = min(MAX_CLIMBS, max(1, int(CLIMB_WORK / (CLIMB_SWEEPS * max(1.0, sweep_work(plan))))))
    worlds = np.array([climb_by_gibbs(gibbs, plan, seed, index) for index in range(climbs)])
    score, label = score_components(network, worlds)
    return choose_worlds(network, worlds, score, label, number)


def climb_by_gibbs(gibbs: Gibbs, plan: GibbsPlan, seed: int, index: int) -> np.ndarray:
    """bool[num_atoms], where a climb from the world of chain `index` ends."""
    cold = plan._replace(graph=plan.graph._replace(weight=CLIMB_SCALE * plan.graph.weight))
    rng = random_states(seed + CLIMB_STREAM + index, 1)[0].copy()
    state = gibbs.init(cold, gibbs.start(plan, index, rng), rng)
    gibbs.step(cold, state, new_tallies(0, np.empty(0)), CLIMB_SWEEPS)
    return gibbs.world(state)


def score_components(network: Network, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and names of worlds, float64 and uint64[num_worlds, num_components]."""
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
    """The s-th best distinct world of every component, as the s-th world."""
    order = np.argsort(-score, axis=0, kind="stable")
    ranked = np.take_along_axis(label, order, axis=0)
    seen = np.array([(ranked[:row] == ranked[row]).any(axis=0) for row in range(len(ranked))])
    order = np.take_along_axis(order, np.argsort(seen, axis=0, kind="stable"), axis=0)
    most = int((~seen).sum(axis=0).max(initial=0))
    atom = np.arange(network.num_atoms)
    return [worlds[order[row][network.component], atom] for row in range(min(number, most))]
