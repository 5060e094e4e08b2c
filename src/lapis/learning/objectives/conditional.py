"""The likelihood of what is asked given the rest, exactly or by sampling or at the best world.

    log P(asked | given) = w·n − log Z(given)          gradient  n − E[n | given]

where n are the true groundings in the data (thesis section 4.2). Where nothing is given, this is
the generative likelihood. Each world is grounded once; its likelihood depends on the weights
through few statistics (`statistics`), whose moments come from the parts of its network:

    closed form   atoms that stand alone: logistic functions
    exact (by counts)  dense components whose atoms are interchangeable, as inference solves them
    exact         components whose tables fit: values, gradients and curvatures are exact
    mcsat, gibbs  a few samples an evaluation of chains that are never restarted
    map           n at the most likely world instead of E[n]: the voted perceptron

`auto` is exact where tables of `AUTO_MEMORY` bytes do. Where they do not and a part is sampled
anyway, the tables of the others have to be worth it: their entries must not be many more than the
literals that the samples in their place would visit (on UW-CSE the larger tables cost six times as
much as sampling everything, and gained nothing). Budgets are of memory, not of time, because what
is exact must not depend on the machine.

Hidden atoms are summed out: with the answers clamped,

    log P = log Z(given, asked) − log Z(given)          gradient  E[n | given, asked] − E[n | given]

whose Hessian, a difference of covariances, may be indefinite. Curvatures are always those of
the second term alone, Cov[n | given], which bounds the curvature from above: it is that of the
M-step of EM, and a step that it calls safe is safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.errors import LapisError, check_word
from lapis.inference.moments.closed_form import ClosedForm, Source, Walking
from lapis.inference.moments.statistics import Statistics, gather_statistics
from lapis.inference.moments.whole_network import Side, SideMoments, total
from lapis.learning.examples import HIDDEN, Example
from lapis.learning.parameters import Parameters
from lapis.network.network import Network
from lapis.registry.method import find_method

if TYPE_CHECKING:
    from lapis.inference.moments.exact import Exact
    from lapis.inference.moments.planning import Division
    from lapis.network.parts import Subnetwork

EXPECTATIONS = ("auto", "exact", "mcsat", "gibbs", "map")
AUTO_MEMORY = 1 << 22  # bytes of tables: a solve takes about as long as a few samples
ENTRIES_A_LITERAL = 2  # of a component's tables, for each of its literals and each sample
NUM_SAMPLES = 5  # a chain and evaluation (thesis section 4.2.2)


@dataclass(frozen=True)
class ConditionalPoint:
    """The likelihood at one vector of weights."""

    weights: np.ndarray  # float64[num_parameters]
    value: float | None
    gradient: np.ndarray  # float64[num_parameters]
    gradient_stderr: np.ndarray | None  # float64[num_parameters]
    free: tuple[SideMoments, ...]  # of each example, given the evidence
    scale: np.ndarray | None  # float64[num_parameters], in place of variances that are not known

    def curvature_diagonal(self) -> np.ndarray:
        """float64[num_parameters], Var[n | given]; the true counts for most likely worlds."""
        if self.scale is not None:
            return self.scale.copy()
        return total((side.count_variance() for side in self.free), len(self.weights))

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_parameters], Cov[n | given]·d."""
        if self.scale is not None:
            return self.scale * direction
        return total((side.covariance_product(direction) for side in self.free), len(direction))


@dataclass(frozen=True)
class ConditionalObjective:
    """The conditional log-likelihood of all examples."""

    name: str  # "conditional", or "likelihood" where nothing is given
    expectation: str
    num_parameters: int
    true_counts: np.ndarray  # float64[num_parameters]
    target: np.ndarray  # float64[num_parameters], n of the examples that hide nothing
    free: tuple[Side, ...]  # of each example, given the evidence
    clamped: tuple[Side, ...]  # of the examples that hide atoms, given the answers too

    @property
    def sources(self) -> list[Source]:
        return [part for side in (*self.free, *self.clamped) for part in side.sources]

    @property
    def is_exact(self) -> bool:
        return all(part.is_exact for part in self.sources)

    @property
    def is_fixed(self) -> bool:
        return self.is_exact

    @property
    def methods(self) -> tuple[str, ...]:
        """How expected counts are found: names of the sources in use, without repetition."""
        return tuple(dict.fromkeys(part.name for part in self.sources))

    @property
    def walking(self) -> list[Walking]:
        """The chains and searches that move with each evaluation."""
        return [part for part in self.sources if isinstance(part, Walking)]

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

    def evaluate(self, weights: np.ndarray) -> ConditionalPoint:
        """Value and gradient; sampled ones move their chains on."""
        moments = evaluate_sides((*self.free, *self.clamped), weights)
        free, clamped = moments[: len(self.free)], moments[len(self.free) :]
        value: float | None = float(weights @ self.target)
        gradient = self.target.copy()
        for sign, sides in ((-1.0, free), (1.0, clamped)):
            for side in sides:
                log_partition = side.log_partition(weights)
                known = value is not None and log_partition is not None
                value = value + sign * log_partition if known else None  # type: ignore[operator]
                gradient += sign * side.expected_counts()
        spreads = [s for side in moments if (s := side.variance_of_mean()) is not None]
        return ConditionalPoint(
            weights,
            value if self.expectation != "map" else None,
            gradient,
            np.sqrt(total(spreads, len(weights))) if spreads else None,
            tuple(free),
            self.true_counts if self.expectation == "map" else None,
        )

    def with_targets(self, counts: np.ndarray) -> ConditionalObjective:
        """w·counts − log Z(given), counts float64[num_parameters]: the M-step."""
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
) -> ConditionalObjective:
    """The likelihood of the examples' answers; example k is world k of the parameters.

    Raises LapisError if the data break a hard rule or a block, and TooLarge if a network or, with
    `exact`, its tables do not fit `max_memory` bytes.

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

    check_options(expectation, num_samples, num_chains)
    limits = Limits(expectation, num_samples, num_chains, max_memory)
    streams = random_states(seed, 2 * len(examples) * num_chains).reshape(-1, num_chains, 4)
    target, true_counts = np.zeros(len(parameters)), np.zeros(len(parameters))
    free: list[Side] = []
    clamped: list[Side] = []
    for world, example in enumerate(examples):
        index = parameters.world_index[world]
        network = ground(example.free, max_memory=max_memory)
        answers = example.answers(network)
        decided = parameters.to_parameters(world, network.constant_count)
        if (answers == HIDDEN).any():
            completions = ground(example.complete, max_memory=max_memory)
            statistics = gather_statistics(completions, index, len(parameters))
            side = Side(statistics, find_sources(statistics, None, limits, streams[2 * world]))
            clamped.append(side)
            start = None
            true_counts += side.at(parameters.initial).expected_counts() - decided
        else:
            start = observed_world(example, network, answers)
            counts = parameters.to_parameters(world, network.counts(start))
            target += counts
            true_counts += counts - decided
        statistics = gather_statistics(network, index, len(parameters))
        sources = find_sources(statistics, start, limits, streams[2 * world + 1])
        free.append(Side(statistics, sources))
    if not all(part.is_exact for side in (*free, *clamped) for part in side.sources):
        free = [side.with_rough_curvature() for side in free]
    return ConditionalObjective(
        "likelihood" if all(map(is_generative, examples)) else "conditional",
        expectation,
        len(parameters),
        true_counts,
        target,
        tuple(free),
        tuple(clamped),
    )


class Limits(NamedTuple):
    """What the sources may use."""

    expectation: str
    num_samples: int
    num_chains: int
    max_memory: int | None


def find_sources(
    statistics: Statistics, world: np.ndarray | None, limits: Limits, streams: np.ndarray
) -> tuple[Source, ...]:
    """The sources of a network's moments, from a start bool[num_ground_atoms] if one is known."""
    kind = limits.expectation
    network, atom = statistics.network, statistics.atom
    sources: list[Source] = []
    if len(statistics.lone_atom):
        sources.append(ClosedForm(statistics, kind == "map"))
    if network.num_atoms and kind in ("auto", "exact"):
        counted, (network, left) = count_exchangeable(statistics, limits)
        sources += counted
        atom = atom[left]
    if network.num_atoms and kind in ("auto", "exact", "map"):
        division = divide(network, limits)
        if division.plan.affordable.any():
            if kind == "map":
                from lapis.inference.moments.most_likely import MostLikelyExact

                sources.append(MostLikelyExact(statistics, division.plan))
            else:
                from lapis.inference.moments.exact import Exact

                own = atom[division.planned_atom]
                sources.append(Exact(statistics, division.plan, own))
        network, left = division.rest
        atom = atom[left]
    if not network.num_atoms:
        return tuple(sources)
    start = None if world is None else world[atom]
    if kind == "map":
        from lapis.inference.moments.most_likely import MostLikelySearched, first_world

        seed = int(streams[0, 0] >> np.uint64(32))
        first = first_world(network, start, seed)
        sources.append(MostLikelySearched(statistics, network, first, seed))
    else:
        from lapis.inference.moments.persistent_chain import PersistentChain
        from lapis.inference.moments.sampled import Sampled

        method = suited_sampler(network) if kind == "auto" else kind
        sampler = find_method("infer", method).make()
        chains = tuple(
            PersistentChain(sampler, network, start, number, stream.copy())
            for number, stream in enumerate(streams)
        )
        sources.append(Sampled(statistics, network, atom, chains, limits.num_samples, method))
    return tuple(sources)


def count_exchangeable(statistics: Statistics, limits: Limits) -> tuple[list[Exact], Subnetwork]:
    """The dense components whose atoms are interchangeable at all weights, and what is left."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY
    from lapis.inference.moments.exact import Exact
    from lapis.inference.moments.statistics import take_part
    from lapis.inference.symmetry.by_counts import any_weights, plan_components

    rng = np.random.default_rng(0)
    natural = statistics.natural(rng.normal(size=statistics.design.shape[1]))
    network = any_weights(statistics.network, natural)
    sources, left = [], np.ones(network.num_atoms, bool)
    for plan, atom in plan_components(network, limits.max_memory or DEFAULT_MEMORY):
        own = statistics.atom[atom]
        sources.append(Exact(statistics, plan, own, name="exact (by counts)"))
        left[atom] = False
    return sources, take_part(statistics.network, left)


def divide(network: Network, limits: Limits) -> Division:
    """What is solved exactly: everything, or TooLarge, if that is asked for."""
    from lapis.inference.exact.by_components import DEFAULT_MEMORY, plan_exact
    from lapis.inference.moments.planning import Division, divide_network, drop_dear_tables

    memory = limits.max_memory or DEFAULT_MEMORY
    if limits.expectation == "exact":
        plan = plan_exact(network, memory)
        plan.require_complete()
        return Division(plan, np.arange(network.num_atoms), plan.rest())
    division = divide_network(network, min(memory, AUTO_MEMORY))
    if limits.expectation == "auto" and len(division.rest.atom):
        samples = limits.num_samples * limits.num_chains
        return drop_dear_tables(network, division, ENTRIES_A_LITERAL * samples)
    return division


def suited_sampler(network: Network) -> str:
    """Gibbs for soft clauses of two atoms, MC-SAT for longer ones and hard ones.

    Weights of long clauses (transitivity) may become large while they are learned, and then only
    MC-SAT still moves; for pairs of atoms a Gibbs sweep costs less and mixes as well.
    """
    is_hard = (network.weight_id < 0).any()
    return "mcsat" if is_hard or np.diff(network.clause_start).max(initial=0) > 2 else "gibbs"


def evaluate_sides(sides: Sequence[Side], weights: np.ndarray) -> list[SideMoments]:
    """The moments of all sides; chains and searches of several run side by side on all cores."""
    if all(part.is_exact for side in sides for part in side.sources):
        return [side.at(weights) for side in sides]
    from lapis.inference.moments.persistent_chain import on_all_cores

    return on_all_cores(lambda side: side.at(weights), sides)


def observed_world(example: Example, network: Network, answers: np.ndarray) -> np.ndarray:
    """bool[num_atoms], the world of the data; raises LapisError if that is not possible."""
    from lapis.grounding.evidence import close_blocks

    close_blocks(example.complete)  # a block with one candidate is not among the unknown atoms
    world = network.complete(answers == 1)
    if not network.is_feasible(world):
        from lapis.grounding.bottom_up import ground

        ground(example.complete)  # names the rule or block, with the grounding that fails
        raise LapisError(
            "the training data break a hard formula of the model",
            code="hard-contradiction",
            hint="give the formula a weight instead of a final period, or correct the data",
        )
    return world


def is_generative(example: Example) -> bool:
    """Whether nothing is given: every predicate is asked or hidden."""
    hidden = {name for name, known in example.complete.evidence.items() if known.open}
    return {*example.asked, *hidden} >= set(example.complete.evidence)


def check_options(expectation: str, num_samples: int, num_chains: int) -> None:
    check_word("expectation", expectation, EXPECTATIONS, code="unknown-expectation")
    if num_chains < 1 or num_samples * num_chains < 2:
        raise LapisError(
            "expected counts need at least two samples an evaluation",
            code="too-few-samples",
            hint="the curvature is their covariance; five are usual",
        )
