"""What a field's weights maximise: pseudo-likelihood, or the likelihood of what is asked.

    pseudo         Σ_t log P(x_t | all others), exact
    likelihood     log Z(data) − log Z, over the worlds that agree with the data, and over all
    conditional    the same with the query's atoms and hidden ones alone

The gradient of a likelihood is E ∂ log f_0/∂w given the data less that without them (thesis section
3.4). Where the worlds are few, all are enumerated and value and gradient are exact; elsewhere the
expectations are taken over chains that start at the data and run for a few sweeps (contrastive
divergence), or the most likely world stands in for them (voted perceptron). The thesis proposes to
extend the optimisers of its chapter 4 to fields (chapter 7). Here g = ∂ log f_0/∂w takes the place
of the counts n, which it is for the weights of the root.

None is concave: log f_0 is not linear in the inner weights. The curvature of an exact objective is
taken from differences of gradients. Its diagonal counts by its size: a step along a weight with
negative curvature ascends, too. The curvature of a sampled one is the covariance of g over the
chains' worlds, which leaves out E ∂²log f_0/∂w² and is never negative (Gauss–Newton).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.errors import LapisError
from lapis.fields.cached_sums import CachedField
from lapis.fields.field_example import FieldExample
from lapis.fields.gibbs import climb_modes, walk
from lapis.fields.inference import is_quick
from lapis.fields.lifted_counts import pseudo_log_likelihood
from lapis.fields.passes import base_values, enumerate_field, require_few_worlds, world_gradients
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.starting_worlds import random_world
from lapis.optimisation.objective import Objective, Point

STEP = 1e-4  # of weights, for differences of gradients
NUM_CHAINS = 10
NUM_RANDOM_STARTS = 2  # of the search for a most likely world, at each evaluation


def exact_point(
    objective: Objective, weights: np.ndarray, value: float, gradient: np.ndarray
) -> Point:
    """A point whose curvature is taken from differences of gradients."""
    weights = weights.copy()

    def product(direction: np.ndarray) -> np.ndarray:
        size = float(np.abs(direction).max(initial=0.0))
        if size == 0.0:
            return np.zeros_like(direction)
        step = STEP / size * direction
        above = objective.evaluate(weights + step).gradient
        below = objective.evaluate(weights - step).gradient
        return (below - above) * (size / (2 * STEP))

    def diagonal() -> np.ndarray:
        rows = np.eye(len(weights))
        return np.abs(np.array([product(row)[i] for i, row in enumerate(rows)]))

    return Point(weights, value, gradient, diagonal, product)


def sampled_point(
    weights: np.ndarray,
    gradient: np.ndarray,
    stderr: np.ndarray | None = None,
    deviations: Sequence[np.ndarray] = (),
) -> Point:
    """A point whose curvature is a covariance.

    `deviations` float64[num_chains, num_weights] are those of each field_example's chains.
    """

    def product(direction: np.ndarray) -> np.ndarray:
        parts = [each.T @ (each @ direction) / (len(each) - 1) for each in deviations]
        return np.sum([np.zeros_like(direction), *parts], axis=0)

    def diagonal() -> np.ndarray:
        parts = [np.square(each).sum(axis=0) / (len(each) - 1) for each in deviations]
        return np.sum([np.zeros_like(weights), *parts], axis=0)

    return Point(weights.copy(), None, gradient, diagonal, product, stderr)


@dataclass(frozen=True)
class FieldObjective:
    """What all objectives of fields share."""

    field_examples: tuple[FieldExample, ...]
    name: str

    @property
    def num_parameters(self) -> int:
        return len(self.field_examples[0].field.weights)

    @property
    def num_atoms(self) -> int:
        return sum(len(field_example.world) for field_example in self.field_examples)

    @property
    def true_counts(self) -> np.ndarray:
        """A weight may stand in as many conditional probabilities as there are atoms."""
        return np.full(self.num_parameters, float(self.num_atoms))


@dataclass(frozen=True)
class FieldPseudoLikelihood(FieldObjective):
    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> Point:
        found = [
            pseudo_log_likelihood(field_example.classes, weights)
            for field_example in self.field_examples
        ]
        value = sum(sum(values.values()) for values, _ in found)
        return exact_point(self, weights, value, np.sum([g for _, g in found], axis=0))


@dataclass(frozen=True)
class LikelihoodObjective(FieldObjective):
    """What objectives share that ground the field."""

    @cached_property
    def true_counts(self) -> np.ndarray:
        """The size of ∂ log f_0/∂w in the data, at the weights of the field.

        For weights of the root these are true counts. Hidden atoms are taken as false.
        """
        total = np.zeros(self.num_parameters)
        for field_example in self.field_examples:
            ground, weights = field_example.cached.ground, field_example.field.weights
            total += np.abs(world_gradients(ground, weights, field_example.world[None])[0])
        return total


@dataclass(frozen=True)
class ExactLikelihood(LikelihoodObjective):
    """By all worlds that agree with the data, and all."""

    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> Point:
        value, gradient = 0.0, np.zeros(len(weights))
        for field_example in self.field_examples:
            for sign, cached in ((1.0, field_example.given), (-1.0, field_example.cached)):
                worlds = enumerate_field(cached.ground, weights, with_gradient=True)
                assert worlds.gradient is not None
                value += sign * worlds.log_partition
                gradient += sign * worlds.gradient
        return exact_point(self, weights, value, gradient)


@dataclass(frozen=True)
class ContrastiveDivergence(LikelihoodObjective):
    """Expectations from short chains; each evaluation draws anew.

    A chain draws what is hidden, given the data, from where it was the last time; then everything
    from there.
    """

    num_samples: int = 5  # sweeps of each chain
    is_exact: bool = False
    is_fixed: bool = False
    rng: np.ndarray = field(default_factory=lambda: np.empty((0, 4), np.uint64), repr=False)
    hidden: tuple[np.ndarray, ...] = ()  # for each field_example bool[NUM_CHAINS, num_hidden]

    def evaluate(self, weights: np.ndarray) -> Point:
        gradient, variance = np.zeros((2, len(weights)))
        deviations = []
        for number, (field_example, hidden) in enumerate(
            zip(self.field_examples, self.hidden, strict=True)
        ):
            begins, ends = [], []
            for chain in range(NUM_CHAINS):
                rng = self.rng[number * NUM_CHAINS + chain]
                if hidden.size:
                    hidden[chain] = walk(
                        field_example.given, weights, hidden[chain], rng, self.num_samples
                    )
                begins.append(world_with(field_example, hidden[chain]))
                ends.append(walk(field_example.cached, weights, begins[-1], rng, self.num_samples))
            ground = field_example.cached.ground
            # Without hidden atoms all begin in the same world.
            first = world_gradients(
                ground, weights, np.array(begins if hidden.size else begins[:1])
            )
            last = world_gradients(ground, weights, np.array(ends))
            found = first - last
            gradient += found.mean(axis=0)
            variance += found.var(axis=0, ddof=1) / NUM_CHAINS
            deviations.append(last - last.mean(axis=0))
        stderr = np.sqrt(variance)
        return sampled_point(weights, gradient, stderr, deviations)

    def keep(self) -> dict[str, np.ndarray]:
        worlds = {f"hidden.{number}": each.copy() for number, each in enumerate(self.hidden)}
        return {"rng": self.rng.copy(), **worlds}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        self.rng[:] = kept["rng"]
        for number, each in enumerate(self.hidden):
            each[:] = kept[f"hidden.{number}"]


@dataclass(frozen=True)
class MostLikelyDerivatives(LikelihoodObjective):
    """The most likely world in the place of expectations, as the voted perceptron has it.

    Its derivatives are those of log f_0(data) − max log f_0. Where worlds are many, iterated
    conditional modes climb from the data, from the mode found the last time and from random worlds.
    """

    is_exact: bool = False
    is_fixed: bool = False
    seed: int = 0
    evaluations: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64), repr=False)
    modes: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # of the last time

    def evaluate(self, weights: np.ndarray) -> Point:
        gradient = np.zeros(len(weights))
        rng = np.random.default_rng([self.seed, int(self.evaluations[0])])
        self.evaluations[0] += 1
        for number, field_example in enumerate(self.field_examples):
            given = self.mode(f"given.{number}", field_example.given, weights, None, rng)
            data = world_with(field_example, given)
            best = self.mode(f"all.{number}", field_example.cached, weights, data, rng)
            first, last = world_gradients(
                field_example.cached.ground, weights, np.array([data, best])
            )
            gradient += first - last
        return sampled_point(weights, gradient)

    def mode(
        self,
        name: str,
        cached: CachedField,
        weights: np.ndarray,
        data: np.ndarray | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """bool[num_unknown], a most likely world."""
        if is_quick(cached.ground):
            return enumerate_field(cached.ground, weights).best
        network = cached.ground.network
        starts = [random_world(network, 2, rng).astype(bool) for _ in range(NUM_RANDOM_STARTS)]
        starts += [world for world in (data, self.modes.get(name)) if world is not None]
        found = [climb_modes(cached, weights, start, rng) for start in starts]
        self.modes[name] = max(found, key=lambda mode: mode[1])[0]
        return self.modes[name]

    def keep(self) -> dict[str, np.ndarray]:
        modes = {name: mode.copy() for name, mode in self.modes.items()}
        return {"evaluations": self.evaluations.copy(), **modes}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        self.evaluations[:] = kept["evaluations"]
        self.modes.clear()
        self.modes.update({name: kept[name].copy() for name in kept if name != "evaluations"})


def world_with(field_example: FieldExample, hidden: np.ndarray) -> np.ndarray:
    """bool[num_unknown], the data with what is hidden as given, bool[num_hidden]."""
    # Both are tables of the same shape: only what is known in them differs.
    values = base_values(field_example.given.ground, hidden[None])[0]
    return values[field_example.cached.ground.cell] > 0.5


def pseudo_objective(
    field_examples: Sequence[FieldExample], num_samples: int, seed: int, expectation: str
) -> Objective:
    if expectation != "auto":
        raise LapisError(
            "a pseudo-likelihood has no expectations",
            code="no-expectation",
            hint="leave out expectation, or use objective likelihood or conditional",
        )
    for field_example in field_examples:
        _ = field_example.classes  # counted, or refused, before anything climbs
    return FieldPseudoLikelihood(tuple(field_examples), "pseudo")


def likelihood_objective(
    field_examples: Sequence[FieldExample], num_samples: int, seed: int, expectation: str
) -> Objective:
    """Exact where the worlds are few, unless another expectation is asked for."""
    if expectation == "auto":
        grounds = [cached.ground for each in field_examples for cached in (each.given, each.cached)]
        expectation = "exact" if all(map(is_quick, grounds)) else "gibbs"
    if expectation == "exact":
        for each in field_examples:
            require_few_worlds(each.cached.ground, "learn with expectation gibbs or map")
        return ExactLikelihood(tuple(field_examples), "likelihood")
    if expectation == "map":
        return MostLikelyDerivatives(tuple(field_examples), "likelihood", seed=seed)
    rng = np.random.default_rng(seed)
    hidden = tuple(
        np.array(
            [random_world(field_example.given.ground.network, 2, rng) for _ in range(NUM_CHAINS)],
            bool,
        )
        for field_example in field_examples
    )
    streams = random_states(seed, NUM_CHAINS * len(field_examples))
    return ContrastiveDivergence(
        tuple(field_examples), "likelihood", num_samples, rng=streams, hidden=hidden
    )
