"""What a field's weights maximise: pseudo-likelihood, or the likelihood of what is asked.

    pseudo         Σ_t log P(x_t | all others), exact
    likelihood     log f_0(x) − log Z
    conditional    the same with Z over the query's atoms alone

The gradient of a likelihood is ∂ log f_0(x)/∂w less its expectation (thesis section 3.4). Where the
worlds are few, all are enumerated and value and gradient are exact; elsewhere the expectation is
taken over chains that start at the data and run for a few sweeps: contrastive divergence. None is
concave. Curvature is needed for scales and last digits only and is taken from differences of
gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapis.fields.enumeration import enumerate_field
from lapis.fields.infer import is_quick
from lapis.fields.kernels.flips import run_gibbs
from lapis.fields.passes import evaluate, gradient_of_root
from lapis.fields.pseudo import Lesson, pseudo_log_likelihood
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.kernels.tally import new_tallies
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
        return len(self.lessons[0].cached.ground.edges)

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
        found = [pseudo_log_likelihood(lesson, weights) for lesson in self.lessons]
        value = sum(value for value, _ in found)
        return FieldPoint(self, weights.copy(), value, np.sum([g for _, g in found], axis=0))


@dataclass(frozen=True)
class ExactLikelihood(FieldObjective):
    """By all worlds."""

    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> FieldPoint:
        value, gradient = 0.0, np.zeros(len(weights))
        for lesson in self.lessons:
            ground = lesson.cached.ground
            values = evaluate(ground, weights, lesson.world[None])
            all_worlds = enumerate_field(ground, weights, with_gradient=True)
            assert all_worlds.gradient is not None
            value += float(values.log_weight(ground)[0]) - all_worlds.log_partition
            gradient += gradient_of_root(ground, weights, values)[0] - all_worlds.gradient
        return FieldPoint(self, weights.copy(), value, gradient)


@dataclass(frozen=True)
class ContrastiveDivergence(FieldObjective):
    """The expectation from short chains; each evaluation draws anew."""

    num_samples: int = 5  # sweeps of each chain
    seed: int = 0
    is_exact: bool = False
    is_fixed: bool = False
    rng: np.ndarray = field(default_factory=lambda: np.empty((0, 4), np.uint64), repr=False)

    def evaluate(self, weights: np.ndarray) -> FieldPoint:
        gradient, variance = np.zeros((2, len(weights)))
        for number, lesson in enumerate(self.lessons):
            ground = lesson.cached.ground
            own = self.rng[number * NUM_CHAINS : (number + 1) * NUM_CHAINS]
            worlds = np.array([lesson.world, *(self.walk(lesson, weights, r) for r in own)])
            found = gradient_of_root(ground, weights, evaluate(ground, weights, worlds))
            gradient += found[0] - found[1:].mean(axis=0)
            variance += found[1:].var(axis=0, ddof=1) / NUM_CHAINS
        return FieldPoint(self, weights.copy(), None, gradient, np.sqrt(variance))

    def walk(self, lesson: Lesson, weights: np.ndarray, rng: np.ndarray) -> np.ndarray:
        """bool[num_unknown], where a chain from the data is after a few sweeps."""
        cached, world = lesson.cached, lesson.world.astype(np.uint8)
        ground, estimate = cached.ground, np.zeros(len(world))
        tallies = new_tallies(len(world), np.zeros(len(ground.root_edges)))
        run_gibbs(
            cached.graph, weights, cached.start(weights, world), ground.cell, cached.node, estimate,
            world, rng, tallies, self.num_samples,
        )  # fmt: skip
        return world.astype(bool)

    def keep(self) -> dict[str, np.ndarray]:
        return {"rng": self.rng.copy()}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        self.rng[:] = kept["rng"]


def pseudo_objective(lessons: Sequence[Lesson], num_samples: int, seed: int) -> Objective:
    return PseudoLikelihood(tuple(lessons), "pseudo")


def likelihood_objective(lessons: Sequence[Lesson], num_samples: int, seed: int) -> Objective:
    """Exact where the worlds are few."""
    if all(is_quick(lesson.cached.ground) for lesson in lessons):
        return ExactLikelihood(tuple(lessons), "likelihood")
    streams = random_states(seed, NUM_CHAINS * len(lessons))
    return ContrastiveDivergence(tuple(lessons), "likelihood", num_samples, seed, rng=streams)
