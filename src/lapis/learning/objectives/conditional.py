"""The conditional likelihood: exact, sampled, or at the most likely world.

    log P(asked | given) = w·n − log Z(given)          gradient  n − E[n | given]

where n are the true groundings in the data (Lowd & Domingos 2007, "Efficient Weight Learning for
Markov Logic Networks"; Lowd's thesis, section 4.2). If nothing is given, this is the generative
likelihood. Each world is grounded once; its likelihood depends on the weights through few
statistics (`inference/moments/statistics.py`), whose moments come from the parts of its network:

    closed form        independent atoms: logistic functions
    exact (by counts)  dense components of interchangeable atoms
    exact              components whose tables fit: exact values, gradients and curvatures
    mcsat, gibbs       a few samples in each evaluation, of chains that are never restarted
    map                n at the most likely world instead of E[n]: the voted perceptron

`auto` uses the plan of inference (`inference/plan.py`). If a part of a network is sampled, the
tables of the other parts may have only a few times as many entries as sampling would visit literals
(on UW-CSE larger tables took six times as long as sampling everything and gained nothing). Limits
are of memory, not of time, so that exactness does not depend on the machine.

Hidden atoms are summed out: with the answers clamped,

    log P = log Z(given, asked) − log Z(given)          gradient  E[n | given, asked] − E[n | given]

whose Hessian, a difference of covariances, may be indefinite. The curvature used is always that of
the second term alone, Cov[n | given]. It bounds the curvature from above, as in the M-step of EM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.errors import LapisError, check_word
from lapis.inference.exact.by_components import DEFAULT_MEMORY, plan_exact
from lapis.inference.moments.exact import Exact
from lapis.inference.moments.statistics import (
    ClosedForm,
    Moments,
    MomentSource,
    ResumableSource,
    Statistics,
    gather_statistics,
)
from lapis.learning.examples import HIDDEN, Example, is_generative
from lapis.learning.parameters import Parameters
from lapis.network.network import Network
from lapis.optimisation.objective import Point
from lapis.registry.method_table import find_method

if TYPE_CHECKING:
    from lapis.inference.plan import ExactParts
    from lapis.runtime.progress import Report

EXPECTATIONS = ("auto", "exact", "mcsat", "gibbs", "map")
AUTO_MEMORY = 1 << 22  # bytes of the tables for most likely worlds and completions
ENTRIES_A_LITERAL = 2  # entries of a component's tables for each literal and sample
NUM_SAMPLES = 5  # of each chain in an evaluation (Lowd's thesis, section 4.2.2)


class PartitionTerm(NamedTuple):
    """The log Z of a network as a function of the weights.

    The network of an example is *free*, with the evidence given and the answers unknown, or, if
    atoms are hidden, *clamped*, with the answers given too.
    """

    statistics: Statistics
    sources: tuple[MomentSource, ...]  # of the moments of its parts, which are summed

    def at(self, weights: np.ndarray) -> TermMoments:
        natural = self.statistics.natural(weights)
        return TermMoments(self.statistics, [part.moments(natural) for part in self.sources])

    def with_rough_curvature(self) -> PartitionTerm:
        """Return the term with estimated second moments, for use beside sampled terms."""
        rough = [replace(p, rough=True) if isinstance(p, Exact) else p for p in self.sources]
        return self._replace(sources=tuple(rough))


class TermMoments(NamedTuple):
    """The moments of the counts n at some weights: log Z and its derivatives."""

    statistics: Statistics
    parts: list[Moments]

    def log_partition(self, weights: np.ndarray) -> float | None:
        score = self.open_log_partition()
        return None if score is None else float(weights @ self.statistics.constant) + score

    def open_log_partition(self) -> float | None:
        """Compute log Z of the groundings that evidence does not decide."""
        score = 0.0
        for part in self.parts:
            if part.log_partition is None:
                return None
            score += part.log_partition
        return score

    def expected_counts(self) -> np.ndarray:
        """float64[num_parameters], E[n]."""
        return self.statistics.constant + self.expected_open_counts()

    def expected_open_counts(self) -> np.ndarray:
        """float64[num_parameters], E[n] of the groundings that evidence does not decide."""
        mean = total((part.mean for part in self.parts), self.statistics.num_statistics)
        return self.statistics.to_parameters(mean)

    def variance_of_mean(self) -> np.ndarray | None:
        """float64[num_parameters], the squared standard error of E[n]; None if exact."""
        known = [variance for part in self.parts if (variance := part.mean_variance()) is not None]
        return total(known, len(self.statistics.constant)) if known else None

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_parameters], Cov[n]·d."""
        natural = self.statistics.natural(direction)
        product = total((p.covariance_product(natural) for p in self.parts), len(natural))
        return self.statistics.to_parameters(product)

    def count_variance(self) -> np.ndarray:
        """float64[num_parameters], Var[n]."""
        size = len(self.statistics.constant)
        return np.maximum(total((part.count_variance() for part in self.parts), size), 0.0)


@dataclass(frozen=True)
class ConditionalObjective:
    """The conditional log-likelihood of all examples."""

    name: str  # "conditional", or "likelihood" if nothing is given
    expectation: str
    num_parameters: int
    true_counts: np.ndarray  # float64[num_parameters]
    target: np.ndarray  # float64[num_parameters], n of the examples without hidden atoms
    free: tuple[PartitionTerm, ...]  # of each example
    clamped: tuple[PartitionTerm, ...]  # of the examples with hidden atoms

    @property
    def sources(self) -> list[MomentSource]:
        return [part for term in (*self.free, *self.clamped) for part in term.sources]

    @property
    def is_exact(self) -> bool:
        return all(part.is_exact for part in self.sources)

    @property
    def is_fixed(self) -> bool:
        return self.is_exact

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the sources in use, without repetition."""
        return tuple(dict.fromkeys(part.name for part in self.sources))

    @property
    def walking(self) -> list[ResumableSource]:
        """The chains and searches that move with each evaluation."""
        return [part for part in self.sources if isinstance(part, ResumableSource)]

    def keep(self) -> dict[str, np.ndarray]:
        return {
            f"{number}.{place}": array
            for number, part in enumerate(self.walking)
            for place, array in enumerate(part.keep())
        }

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        for number, part in enumerate(self.walking):
            own = [name for name in kept if name.startswith(f"{number}.")]
            part.resume([kept[f"{number}.{place}"] for place in range(len(own))])

    def evaluate(self, weights: np.ndarray) -> Point:
        """Compute value, gradient and curvature; moves the chains of sampled parts.

        The curvature is Cov[n | given], or for most likely worlds a diagonal of true counts. Counts
        that evidence decides are subtracted before they are multiplied by weights: there may be
        10^10 of them, and the rounding of their score would exceed the gain of a step.
        """
        moments = evaluate_terms((*self.free, *self.clamped), weights)
        free = moments[: len(self.free)]
        signed = [(-1.0 if k < len(free) else 1.0, term) for k, term in enumerate(moments)]
        decided = total((sign * term.statistics.constant for sign, term in signed), len(weights))
        expected = total(
            (sign * term.expected_open_counts() for sign, term in signed), len(weights)
        )
        gradient = self.target + decided + expected
        logs = [term.open_log_partition() for term in moments]
        value = None
        if None not in logs:
            value = float(weights @ (self.target + decided))
            value += sum(sign * log for (sign, _), log in zip(signed, logs, strict=True) if log)
        errors = [e for term in moments if (e := term.variance_of_mean()) is not None]
        stderr = np.sqrt(total(errors, len(weights))) if errors else None
        if self.expectation == "map":
            scale = self.true_counts
            return Point(weights, None, gradient, scale.copy, lambda d: scale * d, stderr)
        return Point(
            weights,
            value,
            gradient,
            lambda: total((term.count_variance() for term in free), len(weights)),
            lambda d: total((term.covariance_product(d) for term in free), len(weights)),
            stderr,
        )

    def with_targets(self, counts: np.ndarray) -> ConditionalObjective:
        """Return the objective of the M-step, w·counts − log Z(given)."""
        return replace(self, target=counts, clamped=())


def conditional_objective(
    examples: Sequence[Example],
    parameters: Parameters,
    *,
    expectation: str = "auto",
    num_samples: int = NUM_SAMPLES,
    num_chains: int = 1,
    max_memory: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
) -> ConditionalObjective:
    """Build the likelihood of the answers; example k is world k of the parameters.

    Raises LapisError if the data violate a hard rule or a block, and TooLarge if a network or, with
    `exact`, its tables exceed `max_memory` bytes.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob) Smokes(Eve) Cancer(Eve)")
    >>> examples = build_examples(model, [data], ["Cancer"])
    >>> parameters = share_parameters(model, [example.free for example in examples])
    >>> objective = conditional_objective(examples, parameters)
    >>> [round(float(objective.evaluate(np.array([w])).gradient[0]), 6) for w in (0.0, np.log(2))]
    [0.5, 0.0]
    """
    from lapis.grounding.bottom_up import ground
    from lapis.inference.random_numbers import random_states

    check_samples(expectation, num_samples, num_chains)
    limits = MomentLimits(expectation, num_samples, num_chains, max_memory)
    streams = random_states(seed, 2 * len(examples) * num_chains).reshape(-1, num_chains, 4)
    target, true_counts = np.zeros(len(parameters)), np.zeros(len(parameters))
    free: list[PartitionTerm] = []
    clamped: list[PartitionTerm] = []
    for world, example in enumerate(examples):
        index = parameters.world_index[world]
        network = ground(example.free, max_memory=max_memory, progress=progress)
        answers = example.answers(network)
        decided = parameters.to_parameters(world, network.constant_count)
        if (answers == HIDDEN).any():
            completions = ground(example.complete, max_memory=max_memory, progress=progress)
            statistics = gather_statistics(completions, index, len(parameters))
            sources = find_sources(statistics, None, limits, streams[2 * world])
            clamped.append(PartitionTerm(statistics, sources))
            start = None
            true_counts += clamped[-1].at(parameters.initial).expected_counts() - decided
        else:
            start = observed_world(example, network, answers)
            counts = parameters.to_parameters(world, network.counts(start))
            target += counts
            true_counts += counts - decided
        statistics = gather_statistics(network, index, len(parameters))
        sources = find_sources(statistics, start, limits, streams[2 * world + 1])
        free.append(PartitionTerm(statistics, sources))
    if not all(part.is_exact for term in (*free, *clamped) for part in term.sources):
        free = [term.with_rough_curvature() for term in free]
    return ConditionalObjective(
        "likelihood" if all(map(is_generative, examples)) else "conditional",
        expectation,
        len(parameters),
        true_counts,
        target,
        tuple(free),
        tuple(clamped),
    )


class MomentLimits(NamedTuple):
    """How moments are computed, and the limits."""

    expectation: str
    num_samples: int
    num_chains: int
    max_memory: int | None


def find_sources(
    statistics: Statistics, world: np.ndarray | None, limits: MomentLimits, streams: np.ndarray
) -> tuple[MomentSource, ...]:
    """Divide a network into sources of moments.

    Chains and searches start in `world`, bool[num_ground_atoms], if it is known.
    """
    kind, rest = limits.expectation, statistics.network
    left = np.arange(rest.num_atoms)
    sources: list[MomentSource] = []
    if len(statistics.lone_atom):
        sources.append(ClosedForm(statistics, kind == "map"))
    if rest.num_atoms and kind in ("auto", "exact"):
        found = plan_sums(statistics, limits)
        sources += exact_sources(statistics, found)
        rest, left = found.rest
    if rest.num_atoms and kind == "exact":  # raises, with the components that do not fit
        plan = plan_exact(rest, limits.max_memory or DEFAULT_MEMORY)
        plan.require_complete()
        sources.append(Exact(statistics, plan, statistics.atom[left]))
        return tuple(sources)
    if rest.num_atoms and kind == "map":
        from lapis.inference.exact.treewidth_bounds import divide_network
        from lapis.inference.moments.most_likely import MostLikelyExact

        memory = limits.max_memory or DEFAULT_MEMORY
        division = divide_network(rest, min(memory, AUTO_MEMORY))
        if division.plan.affordable.any():
            sources.append(MostLikelyExact(statistics, division.plan))
        rest, left = division.rest
    if not rest.num_atoms:
        return tuple(sources)
    atom = statistics.atom[left]
    start = None if world is None else world[atom]
    if kind == "map":
        from lapis.inference.moments.most_likely import MostLikelySearched, first_world

        seed = int(streams[0, 0] >> np.uint64(32))
        first = first_world(rest, start, seed)
        return (*sources, MostLikelySearched(statistics, rest, first, seed))
    from lapis.inference.moments.sampled import PersistentChain, SampledComponents

    method = suited_sampler(rest) if kind == "auto" else kind
    sampler = find_method("infer", method).make()
    chains = tuple(
        PersistentChain(sampler, rest, start, number, stream.copy())
        for number, stream in enumerate(streams)
    )
    sampled = SampledComponents(statistics, rest, atom, chains, limits.num_samples, method)
    return (*sources, sampled)


def plan_sums(statistics: Statistics, limits: MomentLimits) -> ExactParts:
    """Plan which parts are summed exactly, as inference does."""
    from lapis.inference.plan import drop_costly_tables, plan_exact_parts
    from lapis.inference.symmetry.by_counts import any_weights

    network = statistics.network
    rng = np.random.default_rng(0)
    natural = statistics.natural(rng.normal(size=statistics.design.shape[1]))
    found = plan_exact_parts(
        network,
        limits.max_memory or DEFAULT_MEMORY,
        counted_at=any_weights(network, natural),
    )
    if limits.expectation == "exact" or not found.rest.network.num_atoms:
        return found
    samples = limits.num_samples * limits.num_chains
    return drop_costly_tables(network, found, ENTRIES_A_LITERAL * samples)


def exact_sources(statistics: Statistics, found: ExactParts) -> list[MomentSource]:
    """Return the sources of the parts that are summed exactly."""
    sources: list[MomentSource] = [
        Exact(statistics, plan, statistics.atom[atom], name="exact (by counts)")
        for plan, atom in found.counts
    ]
    if found.exact.affordable.any():
        sources.append(Exact(statistics, found.exact, statistics.atom[found.exact_atom]))
    return sources


def suited_sampler(network: Network) -> str:
    """Choose Gibbs for soft clauses of at most two atoms, MC-SAT for longer or hard clauses.

    Weights of long clauses (transitivity) may become large during learning, and then only MC-SAT
    still moves; for pairs of atoms a Gibbs sweep is cheaper and mixes as well.
    """
    is_hard = (network.weight_id < 0).any()
    return "mcsat" if is_hard or np.diff(network.clause_start).max(initial=0) > 2 else "gibbs"


def evaluate_terms(terms: Sequence[PartitionTerm], weights: np.ndarray) -> list[TermMoments]:
    """Compute the moments of all terms; chains and searches run in parallel on all cores."""
    if all(part.is_exact for term in terms for part in term.sources):
        return [term.at(weights) for term in terms]
    from lapis.inference.moments.sampled import map_in_threads

    return map_in_threads(lambda term: term.at(weights), terms)


def total(parts: Iterable[np.ndarray], size: int) -> np.ndarray:
    """float64[size], the sum of vectors; 0 if there are none."""
    added = np.zeros(size)
    for part in parts:
        added += part
    return added


def observed_world(example: Example, network: Network, answers: np.ndarray) -> np.ndarray:
    """bool[num_atoms], the world of the data; raises LapisError if it violates hard formulas."""
    from lapis.grounding.blocks import apply_blocks

    apply_blocks(example.complete)  # checks blocks with one candidate, which are not in networks
    world = network.complete(answers == 1)
    if not network.is_feasible(world):
        from lapis.grounding.bottom_up import ground

        ground(example.complete)  # raises, with the rule or block and the grounding that fails
        raise LapisError(
            "the training data violate a hard formula of the model",
            code="hard-contradiction",
            hint="give the formula a weight instead of a final period, or correct the data",
        )
    return world


def check_samples(expectation: str, num_samples: int, num_chains: int) -> None:
    check_word("expectation", expectation, EXPECTATIONS, code="unknown-expectation")
    if num_chains < 1 or num_samples * num_chains < 2:
        raise LapisError(
            "expected counts need at least two samples in an evaluation",
            code="too-few-samples",
            hint="the curvature is their covariance; five are usual",
        )
