"""What a field's weights maximise: pseudo-likelihood, or the likelihood of what is asked.

    pseudo         Σ_t log P(x_t | all others), exact
    likelihood     log Z(data) − log Z, over the worlds that agree with the data, and over all
    conditional    the same with the query's atoms and hidden ones alone

The gradient of a likelihood is E ∂ log f_0/∂w given the data less that without them (thesis section
3.4). Where the worlds are few, all are enumerated and value and gradient are exact; elsewhere the
expectations are taken over chains that start at the data and run for a few sweeps: contrastive
divergence. None is concave. Curvature is needed for scales and last digits only and is taken from
differences of gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapis.fields.census.pseudo import pseudo_log_likelihood
from lapis.fields.enumeration import enumerate_field
from lapis.fields.gibbs import walk
from lapis.fields.infer import is_quick
from lapis.fields.lesson import Lesson
from lapis.fields.passes import base_values, world_gradients
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.starting_worlds import random_world
from lapis.optimisation.objective import Objective

STEP = 1e-4  # of weights, for differences of gradients
NUM_CHAINS = 10


@dataclass(frozen=True)
class FieldPoint:
    """An objective at one vector of weights."""

    objective: Objective
    weights: np.ndarray  # float64[num_weights]
    value: float | None
    gradient: np.ndarray  # float64[num_weights]
    gradient_stderr: np.ndarray | None = None

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        """−∇² times a direction, by central differences."""
        size = float(np.abs(direction).max(initial=0.0))
        if size == 0.0 or self.value is None:
            return np.zeros_like(direction)
        step = STEP / size * direction
        above = self.objective.evaluate(self.weights + step).gradient
        below = self.objective.evaluate(self.weights - step).gradient
        return (below - above) * (size / (2 * STEP))

    def curvature_diagonal(self) -> np.ndarray:
        """Of −∇², 0 where it is negative."""
        rows = np.eye(len(self.weights))
        found = [self.curvature_product(row)[i] for i, row in enumerate(rows)]
        return np.maximum(np.array(found), 0.0)


@dataclass(frozen=True)
class FieldObjective:
    """What all objectives of fields share."""

    lessons: tuple[Lesson, ...]
    name: str

    @property
    def num_parameters(self) -> int:
        return len(self.lessons[0].field.weights)

    @property
    def num_atoms(self) -> int:
        return sum(len(lesson.world) for lesson in self.lessons)

    @property
    def true_counts(self) -> np.ndarray:
        """A weight may stand in as many conditional probabilities as there are atoms."""
        return np.full(self.num_parameters, float(self.num_atoms))


@dataclass(frozen=True)
class PseudoLikelihood(FieldObjective):
    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> FieldPoint:
        found = [pseudo_log_likelihood(lesson.classes, weights) for lesson in self.lessons]
        value = sum(sum(values.values()) for values, _ in found)
        return FieldPoint(self, weights.copy(), value, np.sum([g for _, g in found], axis=0))


@dataclass(frozen=True)
class ExactLikelihood(FieldObjective):
    """By all worlds that agree with the data, and all."""

    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> FieldPoint:
        value, gradient = 0.0, np.zeros(len(weights))
        for lesson in self.lessons:
            for sign, cached in ((1.0, lesson.given), (-1.0, lesson.cached)):
                worlds = enumerate_field(cached.ground, weights, with_gradient=True)
                assert worlds.gradient is not None
                value += sign * worlds.log_partition
                gradient += sign * worlds.gradient
        return FieldPoint(self, weights.copy(), value, gradient)


@dataclass(frozen=True)
class ContrastiveDivergence(FieldObjective):
    """Expectations from short chains; each evaluation draws anew.

    A chain draws what is hidden, given the data, from where it was the last time; then everything
    from there.
    """

    num_samples: int = 5  # sweeps of each chain
    is_exact: bool = False
    is_fixed: bool = False
    rng: np.ndarray = field(default_factory=lambda: np.empty((0, 4), np.uint64), repr=False)
    hidden: tuple[np.ndarray, ...] = ()  # for each lesson bool[NUM_CHAINS, num_hidden]

    def evaluate(self, weights: np.ndarray) -> FieldPoint:
        gradient, variance = np.zeros((2, len(weights)))
        for number, (lesson, hidden) in enumerate(zip(self.lessons, self.hidden, strict=True)):
            begins, ends = [], []
            for chain in range(NUM_CHAINS):
                rng = self.rng[number * NUM_CHAINS + chain]
                if hidden.size:
                    hidden[chain] = walk(
                        lesson.given, weights, hidden[chain], rng, self.num_samples
                    )
                begins.append(world_with(lesson, hidden[chain]))
                ends.append(walk(lesson.cached, weights, begins[-1], rng, self.num_samples))
            ground = lesson.cached.ground
            # Without hidden atoms all begin in the same world.
            first = world_gradients(
                ground, weights, np.array(begins if hidden.size else begins[:1])
            )
            found = first - world_gradients(ground, weights, np.array(ends))
            gradient += found.mean(axis=0)
            variance += found.var(axis=0, ddof=1) / NUM_CHAINS
        return FieldPoint(self, weights.copy(), None, gradient, np.sqrt(variance))

    def keep(self) -> dict[str, np.ndarray]:
        worlds = {f"hidden.{number}": each.copy() for number, each in enumerate(self.hidden)}
        return {"rng": self.rng.copy(), **worlds}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        self.rng[:] = kept["rng"]
        for number, each in enumerate(self.hidden):
            each[:] = kept[f"hidden.{number}"]


def world_with(lesson: Lesson, hidden: np.ndarray) -> np.ndarray:
    """bool[num_unknown], the data with what is hidden as given, bool[num_hidden]."""
    # Both are tables of the same shape: only what is known in them differs.
    values = base_values(lesson.given.ground, hidden[None])[0]
    return values[lesson.cached.ground.cell] > 0.5


def pseudo_objective(lessons: Sequence[Lesson], num_samples: int, seed: int) -> Objective:
    for lesson in lessons:
        _ = lesson.classes  # counted, or refused, before anything climbs
    return PseudoLikelihood(tuple(lessons), "pseudo")


def likelihood_objective(lessons: Sequence[Lesson], num_samples: int, seed: int) -> Objective:
    """Exact where the worlds are few."""
    if all(is_quick(cached.ground) for each in lessons for cached in (each.given, each.cached)):
        return ExactLikelihood(tuple(lessons), "likelihood")
    streams, rng = random_states(seed, NUM_CHAINS * len(lessons)), np.random.default_rng(seed)
    hidden = tuple(
        np.array(
            [random_world(lesson.given.ground.network, 2, rng) for _ in range(NUM_CHAINS)], bool
        )
        for lesson in lessons
    )
    return ContrastiveDivergence(
        tuple(lessons), "likelihood", num_samples, rng=streams, hidden=hidden
    )
