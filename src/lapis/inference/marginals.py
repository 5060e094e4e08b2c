"""Marginals of a network: options, partial answers, and how they are joined.

A network falls into components, and a plan (`plan`) assigns them to steps, each with its solver
(`solve`). Components are independent, so log partitions and expected counts add up;
`Marginals.join` is the only place where partial answers are joined.

Log-odds are stored beside probabilities, because float64 cannot distinguish 1 − 1e-17 from 1:

    log P(a) = −log(1 + exp(−x)),   log P(¬a) = −log(1 + exp(x)),   x = log P(a) − log P(¬a)

They are infinite only where hard formulas decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from lapis.network.network import Network
from lapis.runtime.progress import Report, Stop, deadline_in, limit_within_call

if TYPE_CHECKING:
    from lapis.inference.sampling.chains import SampleResult
    from lapis.inference.sampling.diagnostics import Trace
    from lapis.inference.sampling.mode_weights import ModeRow
    from lapis.results.plan_report import PlanRow

Name = TypeVar("Name")
MAP_SECONDS = 60.0  # default time limit of a most likely world
EXACT, COUNTS = "exact", "counts"  # by junction trees; by sums over numbers of true atoms
CERTAIN = 2.0**-53  # float64 cannot distinguish 1 − p from 1 below this


class ChainKeywords(TypedDict):
    """Keywords of `run_chains`."""

    precision: float
    max_samples: int
    num_chains: int
    time_limit: float | None
    seed: int
    progress: Report | None
    should_stop: Stop | None


UNSEEN = -1


@dataclass
class ChainMemory:
    """The worlds in which the chains of earlier runs ended, over the atoms of a network."""

    value: np.ndarray  # int8[num_chains, num_atoms], UNSEEN where no chain had the atom
    sampler: str = ""

    def worlds(self, atoms: np.ndarray) -> np.ndarray | None:
        """Return bool[num_chains, num_given], worlds to start at; None if few atoms were sampled.

        Atoms that no chain had are false in every second chain.
        """
        found = self.value[:, atoms]
        seen = found[0] != UNSEEN
        if not len(atoms) or 2 * np.count_nonzero(seen) < len(atoms):
            return None
        other = np.arange(len(found))[:, None] % 2 == 1
        return np.where(seen, found == 1, other)

    def keep(self, atoms: np.ndarray, worlds: np.ndarray, sampler: str) -> None:
        """Remember where chains ended, bool[num_chains, num_given]."""
        self.value[:, atoms] = worlds[: len(self.value)]
        self.sampler = sampler


@dataclass(frozen=True)
class InferenceOptions:
    """Limits of inference. `precision` is the requested standard error of every marginal."""

    precision: float = 0.01
    max_samples: int = 400_000
    num_chains: int = 4
    time_limit: float | None = None
    seed: int = 0
    max_memory: int | None = None  # bytes, for the network and for tables of exact inference
    ibound: int | None = None  # count-gibbs: estimate counts by IJGP with this bound
    progress: Report | None = None
    stop: Stop | None = None
    relax: bool = False  # violate the fewest hard formulas if they contradict each other
    bounds: bool = False  # certified bounds of answers that are not exact
    max_elements: int | None = None  # lifted: constants with evidence of their own
    exact_until: float = math.inf  # deadline of exact work, on the work clock
    memory: ChainMemory | None = None  # chains of earlier runs, to continue

    @property
    def chain_options(self) -> ChainKeywords:
        return {
            "precision": self.precision,
            "max_samples": self.max_samples,
            "num_chains": self.num_chains,
            "time_limit": self.time_limit,
            "seed": self.seed,
            "progress": self.progress,
            "should_stop": self.stop,
        }

    @property
    def exact_stop(self) -> Stop:
        """The condition that ends exact work, which has no partial answer."""
        return Stop(self.stop, self.exact_until)

    def begin_map(self) -> Stop:
        """Return the condition that ends a search for a most likely world; its time starts now."""
        limit = MAP_SECONDS if self.time_limit is None else self.time_limit
        return Stop(self.stop, deadline_in(limit))

    def begin_exact(self, share: float = 1.0) -> InferenceOptions:
        """Return these options with a share of the time limit, from now, for exact work."""
        limit = limit_within_call(self.time_limit)
        if limit is None:
            return self
        until = deadline_in(share * limit)
        return replace(self, exact_until=min(self.exact_until, until))


class PartialAnswer(NamedTuple):
    """Marginals of some components of a network."""

    atoms: np.ndarray | None  # int64[...], base atoms first; None: all, constant counts included
    found: Marginals


@dataclass(frozen=True, kw_only=True)
class Marginals:
    """Answers about all atoms of a network."""

    methods: tuple[str, ...]  # a name occurs twice if only some of its answers are exact
    proven: tuple[bool, ...]  # for each of `methods`: its answers are exact
    method_id: np.ndarray  # int8[num_base_atoms], the index in `methods`
    log_partition: float | None  # if exact; an estimate with ais
    marginal: np.ndarray  # float64[num_base_atoms]
    log_odds: np.ndarray  # float64[num_base_atoms], bounded for sampled atoms
    stderr: np.ndarray | None  # float64[num_base_atoms]; None if all is exact, and with bp
    expected_count: np.ndarray  # float64[num_weights]
    diagnostics: dict[str, Any] = field(default_factory=dict)
    trace: Trace | None = None  # of the slowest atoms, as the network numbers them
    solved_log_partition: float | None = None  # of the exact components if others are sampled
    steps: tuple[PlanRow, ...] = ()  # of the plan, as it was run
    chain_worlds: np.ndarray | None = None  # bool[num_chains, num_core_atoms], if they continue
    # in which chains stayed apart, atoms as the network numbers them
    modes: tuple[ModeRow, ...] = ()

    @classmethod
    def by(
        cls,
        method: str,
        *,
        exact: bool,
        marginal: np.ndarray,
        log_odds: np.ndarray,
        expected_count: np.ndarray,
        log_partition: float | None = None,
        stderr: np.ndarray | None = None,
        diagnostics: dict[str, Any] | None = None,
        trace: Trace | None = None,
        chain_worlds: np.ndarray | None = None,
        modes: tuple[ModeRow, ...] = (),
    ) -> Marginals:
        """Return the answer of one method about all atoms."""
        return cls(
            methods=(method,),
            proven=(exact,),
            method_id=np.zeros(len(marginal), np.int8),
            log_partition=log_partition,
            marginal=marginal,
            log_odds=log_odds,
            stderr=stderr,
            expected_count=expected_count,
            diagnostics=diagnostics or {},
            trace=trace,
            chain_worlds=chain_worlds,
            modes=modes,
        )

    @classmethod
    def join(cls, network: Network, parts: Sequence[PartialAnswer]) -> Marginals:
        """Join answers about disjoint sets of components.

            log Z = constant + Σ_parts log Z_part,     E[n] = constant + Σ_parts E_part[n]

        The parts exclude the constant counts, which evidence decides, unless one part is the whole.
        """
        if len(parts) == 1 and parts[0].atoms is None:
            return parts[0].found
        answers = [part.found for part in parts]
        marginal, log_odds, stderr = np.zeros((3, network.num_base_atoms))
        method_id = np.zeros(network.num_base_atoms, np.int8)
        keys = method_keys(answers)
        table = join_names(keys)
        expected = network.constant_count.copy()
        for (atoms, found), own_keys in zip(parts, keys, strict=True):
            assert atoms is not None
            own = atoms[: len(found.marginal)]
            marginal[own], log_odds[own], stderr[own] = found.marginal, found.log_odds, found.errors
            number = np.array([table.index(key) for key in own_keys], np.int8)
            method_id[own] = number[found.method_id]
            expected += found.expected_count
        exact = all(found.exact for found in answers)
        known = [f.log_partition if f.exact else f.solved_log_partition for f in answers]
        return cls(
            methods=tuple(name for name, _ in table),
            proven=tuple(proven for _, proven in table),
            method_id=method_id,
            log_partition=add_or_none(
                [network.constant_score, *(f.log_partition for f in answers)]
            ),
            marginal=marginal,
            log_odds=log_odds,
            stderr=None if exact else stderr,
            expected_count=expected,
            diagnostics=join_diagnostics(answers),
            trace=slowest_trace(parts),
            solved_log_partition=math.fsum([network.constant_score, *filter(None, known)]),
            modes=tuple(
                row._replace(atom=int(atoms[row.atom]))
                for atoms, found in parts
                for row in found.modes
                if atoms is not None
            ),
        )

    @property
    def method(self) -> str:
        """The names of all methods, for display: "exact+gibbs"."""
        return "+".join(dict.fromkeys(self.methods))

    @property
    def exact(self) -> bool:
        return all(self.proven)

    @property
    def is_exact(self) -> np.ndarray:
        """bool[num_base_atoms], the atoms answered exactly."""
        return np.array(self.proven, bool)[self.method_id]

    @property
    def errors(self) -> np.ndarray:
        """float64[num_base_atoms], standard errors: 0 where exact, NaN where unknown."""
        if self.stderr is not None:
            return self.stderr
        return np.full(len(self.marginal), 0.0 if self.exact else np.nan)

    def named(self, method: str) -> Marginals:
        """Return the same answer under one method's name."""
        return replace(self, methods=(method,) * len(self.methods))


Answered = tuple[Network, Marginals]


def method_keys(answers: Sequence[Marginals]) -> list[list[tuple[str, bool]]]:
    """Return (name, exact) of each answer's methods; counts beside others is called "exact"."""
    several = len(join_names(found.methods for found in answers)) > 1
    rename = {COUNTS: EXACT} if several else {}
    return [
        [(rename.get(name, name), proven) for name, proven in zip(f.methods, f.proven, strict=True)]
        for f in answers
    ]


def slowest_trace(parts: Sequence[PartialAnswer]) -> Trace | None:
    """Return the chains of the part with the largest R-hat, atoms numbered as in the whole."""
    traced = [part for part in parts if part.found.trace is not None]
    if not traced:
        return None
    atoms, slowest = max(traced, key=lambda part: part.found.diagnostics.get("rhat", 0.0))
    assert atoms is not None
    return slowest.trace and slowest.trace._replace(atoms=atoms[slowest.trace.atoms])


# How figures of independent parts (components, worlds) are combined: the worst, or the sum.
# Other figures are reported for each part only.
COMBINE: Mapping[str, Callable[[list[Any]], Any]] = {
    "converged": all,
    "ergodic": lambda found: None if None in found else all(found),
    "interrupted": any,
    "rhat": max,
    "ess": min,
    "ess_bulk": min,
    "ess_tail": min,
    "warmup_error": max,
    "samples": sum,
    "chains": max,
    "core_atoms": sum,
    "stuck_atoms": sum,
    "sampled_atoms": sum,
    "continued_chains": max,
    "warmup": sum,
    "counted_atoms": sum,
    "averaged_atoms": sum,
    "class_sizes": lambda lists: sorted((n for found in lists for n in found), reverse=True),
    "log_partition_bounds": lambda pairs: [add_or_none(side) for side in zip(*pairs, strict=True)],
    "log_partition_stderr": lambda errors: math.hypot(*errors),
    "components": sum,
    "cut_atoms": sum,
    "largest_states": max,
    "width": max,
    "passes": max,
    "residual": max,
    "seconds": sum,
    "seconds_left": sum,
    "bound": sum,
    "gap": sum,
    "cost": sum,
    "cost_bound": sum,
    "draws": min,
    "draws_exact": all,
    "draw_methods": lambda lists: list(dict.fromkeys(name for found in lists for name in found)),
    "posterior_method": lambda names: names[0],
    "constraints": lambda lists: [row for found in lists for row in found],
    "prior_rounds": max,
    "prior_deviation": max,
    "prior_fitted": all,
    "posterior_rounds": max,
    "posterior_deviation": max,
    "posterior_fitted": all,
    "modes": lambda lists: [row for found in lists for row in found],
    "caveats": lambda lists: lists[0],
    "relaxed": lambda lists: [formula for found in lists for formula in found],
    "relaxed_groundings": sum,
    "relaxed_fewest": all,
    "relaxed_at_least": sum,
}
PART_FIGURES = (
    "converged",
    "rhat",
    "ess",
    "samples",
    "seconds",
    "seconds_left",
    "pilots",
)  # of each part


def combine_figures(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combine the figures of all parts that have them."""
    found: dict[str, Any] = {}
    for name, combine in COMBINE.items():
        values = [part[name] for part in parts if name in part]
        if values:
            found[name] = combine(values)
    return found


def join_diagnostics(answers: Sequence[Marginals]) -> dict[str, Any]:
    """Join the diagnostics of partial answers; those of several sampled parts are also listed."""
    notes = [found.diagnostics for found in answers]
    times = {name: sum(name in each for each in notes) for each in notes for name in each}
    single = {n: value for each in notes for n, value in each.items() if times[n] == 1}
    joined = single | combine_figures(notes)
    errors = [count_errors(found) for found in answers]
    if any("expected_counts_stderr" in each for each in notes):
        joined["expected_counts_stderr"] = np.sqrt(np.square(errors).sum(axis=0)).tolist()
    chains = [found for found in answers if "core_atoms" in found.diagnostics]
    if len(chains) > 1:
        largest = max(chains, key=lambda found: len(found.marginal))
        joined["pilots"] = largest.diagnostics.get("pilots", {})
        joined["parts"] = [
            {"method": found.method, "exact": found.exact, "atoms": len(found.marginal)}
            | {name: found.diagnostics[name] for name in PART_FIGURES if name in found.diagnostics}
            for found in chains
        ]
    return joined


def count_errors(found: Marginals) -> np.ndarray:
    """Return errors of expected counts, float64[num_weights]: 0 where exact, NaN if unknown."""
    unknown = np.full(len(found.expected_count), 0.0 if found.exact else np.nan)
    return np.asarray(found.diagnostics.get("expected_counts_stderr", unknown), float)


def chain_diagnostics(found: SampleResult) -> dict[str, Any]:
    """Return the diagnostics of sampled answers."""
    return {
        "samples": found.num_samples,
        "warmup": found.num_warmup,
        "chains": found.num_chains,
        "rhat": found.worst_rhat,
        "ess": found.worst_ess,
        "ess_bulk": found.size.bulk,
        "ess_tail": found.size.tail,
        "warmup_error": found.worst_missed,
        "stuck_atoms": found.num_stuck,
        "converged": found.converged,
        "interrupted": found.interrupted,
        "ergodic": found.ergodic,
        "seconds": found.seconds,
        "seconds_left": found.seconds_left,
        "pilots": dict(found.pilots),
        "events": dict(found.events),
        "expected_counts_stderr": found.expected_count_stderr.tolist(),
    }


def sampled_marginals(method: str, found: SampleResult, notes: dict[str, Any]) -> Marginals:
    """Return the answer of chains over all atoms."""
    return Marginals.by(
        method,
        exact=False,
        marginal=found.marginal,
        log_odds=sampled_log_odds(found.marginal, found.num_samples),
        stderr=found.stderr,
        expected_count=found.expected_count,
        diagnostics=notes,
        trace=found.trace,
    )


def average_alike(found: Marginals, label: np.ndarray) -> Marginals:
    """Average a sampled answer over interchangeable atoms, given by label int32[num_base_atoms].

    Atoms of one label (−1: none) have the same probability, so the mean of their estimates is a
    better estimate. Its standard error is at most the mean of theirs: σ(Σ xᵢ/n) ≤ Σ σ(xᵢ)/n.
    """
    atoms = np.flatnonzero(label >= 0)
    if found.exact or found.stderr is None or not len(atoms):
        return found
    _, group, size = np.unique(label[atoms], return_inverse=True, return_counts=True)
    marginal, stderr = found.marginal.copy(), found.stderr.copy()
    for values in (marginal, stderr):
        values[atoms] = (np.bincount(group, values[atoms]) / size)[group]
    log_odds = sampled_log_odds(marginal, found.diagnostics["samples"])
    notes = found.diagnostics | {"averaged_atoms": len(atoms)}
    return replace(found, marginal=marginal, stderr=stderr, log_odds=log_odds, diagnostics=notes)


def state_log_odds(log_probability: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return log p_k − log Σ_{j ≠ k} p_j among the states of each variable, float64[num_states].

    `start`, int64[num_variables + 1], is the first state of each variable; each has a state.

    >>> state_log_odds(np.array([-800.0, 0.0]), np.array([0, 2])).tolist()
    [-800.0, 800.0]
    """
    first, size = start[:-1], np.diff(start)
    if not len(size):
        return np.empty(0)
    peak = np.repeat(np.maximum.reduceat(log_probability, first), size)
    order = np.where(log_probability == peak, np.arange(len(peak)), len(peak))
    top = np.minimum.reduceat(order, first)
    rest = log_probability.copy()
    rest[top] = -np.inf
    second = np.maximum.reduceat(rest, first)
    scaled = np.exp(rest - np.repeat(np.where(second > -np.inf, second, 0.0), size))
    with np.errstate(divide="ignore"):
        others = second + np.log(np.maximum(np.add.reduceat(scaled, first), 1.0))
        # Only the most likely state can exceed one half, where 1 − p would cancel.
        odds: np.ndarray = log_probability - np.log1p(-np.exp(np.minimum(rest, np.log(0.5))))
    odds[top] = log_probability[top] - others
    return odds


def sampled_log_odds(probability: np.ndarray, num_samples: np.ndarray | int) -> np.ndarray:
    """Return log-odds of estimates, float64[num_atoms], from `num_samples` samples.

    Estimates of 0 and 1 are taken as (k + ½)/(N + 1) with k = 0 or N, the small prior of Lowd's
    thesis (4.3.2). Their log-odds are ±log(2N + 1), the most that N samples can show.
    """
    bound = np.log(2.0 * num_samples + 1.0)
    with np.errstate(divide="ignore"):
        odds = np.log(probability) - np.log1p(-probability)
    is_certain = np.minimum(probability, 1.0 - probability) < CERTAIN
    return np.where(is_certain, np.where(probability > 0.5, bound, -bound), odds)


def join_names(names: Iterable[Iterable[Name]]) -> tuple[Name, ...]:
    """Return all names, each once, in order.

    >>> join_names([("exact",), ("exact", "gibbs")])
    ('exact', 'gibbs')
    """
    return tuple(dict.fromkeys(name for each in names for name in each))


def add_or_none(values: Sequence[float | None]) -> float | None:
    """Return the sum, or None if a value is unknown."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if len(known) == len(values) else None
