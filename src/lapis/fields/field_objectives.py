"""Objectives of learning a field: pseudo-likelihood and (conditional) likelihood.

    pseudo         Σ_t log P(x_t | all others), exact
    likelihood     log Z(data) − log Z: over the worlds that agree with the data, and over all
    conditional    the same, with only query atoms and hidden atoms unknown

The gradient of a likelihood is E[∂ log f_0/∂w | data] − E[∂ log f_0/∂w] (thesis section 3.4). Small
fields are enumerated, so that value and gradient are exact. Otherwise the expectations come from
chains that start at the data and run for a few sweeps (contrastive divergence), or from the most
likely world (voted perceptron). The thesis suggests using the optimisers of its chapter 4 for
fields (chapter 7). Here g = ∂ log f_0/∂w replaces the counts n; for the root's weights both agree.

No objective is concave: log f_0 is not linear in the inner weights. The curvature of an exact
objective comes from differences of gradients; its diagonal is the absolute value, since steps along
weights with negative curvature ascend, too. The curvature of a sampled objective is the covariance
of g over the chains' worlds. It omits E ∂²log f_0/∂w² and is never negative (Gauss–Newton).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.errors import LapisError
from lapis.fields.field import Field
from lapis.fields.field_gibbs import CachedField, climb_to_mode, run_sweeps
from lapis.fields.ground_field import (
    UnknownUnits,
    base_values,
    enumerate_field,
    ground_field,
    require_few_worlds,
    unknown_units,
    world_gradients,
)
from lapis.fields.inference import is_quick
from lapis.fields.lifted_counts import (
    FlipGroups,
    Flips,
    PseudoClasses,
    class_pseudo_likelihood,
    count_classes,
)
from lapis.grounding.blocks import apply_blocks
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.inference.sampling.starting_worlds import random_world
from lapis.learning.examples import HIDDEN, Example
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.optimisation.objective import Objective, Point
from lapis.runtime.progress import Report


@dataclass(frozen=True)
class FieldExample:
    """A world of training data: query atoms with their answers, and hidden atoms without."""

    field: Field
    example: Example
    network: Network  # the unknown atoms, without clauses
    answer: np.ndarray  # int8[num_unknown]: 1 true, 0 false, HIDDEN
    max_memory: int | None = None
    progress: Report | None = None

    @property
    def world(self) -> np.ndarray:
        """bool[num_unknown], the true atoms; hidden atoms are false."""
        return self.answer == 1

    @property
    def has_hidden(self) -> bool:
        return bool((self.answer == HIDDEN).any())

    @cached_property
    def cached(self) -> CachedField:
        """The ground field in tables, for chains and enumeration."""
        return CachedField(ground_field(self.field, self.example.free, self.max_memory))

    @cached_property
    def given(self) -> CachedField:
        """The ground field in which only the hidden atoms are unknown."""
        return CachedField(ground_field(self.field, self.example.complete, self.max_memory))

    @cached_property
    def classes(self) -> PseudoClasses:
        """The counts of its pseudo-likelihood; raises LapisError if atoms are hidden."""
        if self.has_hidden:
            raise LapisError(
                "a pseudo-likelihood needs complete data, but some atoms are hidden",
                code="incomplete-data",
                hint="learn by objective likelihood, or conditional with a query",
            )
        atoms, units = self.network.atoms, unknown_units(self.network)
        evidence = apply_blocks(self.example.free)
        true = {name: known.true for name, known in evidence.items()}
        flips, starts = [], []
        for name, first, rows in zip(atoms.predicates, atoms.offset, atoms.tuples, strict=False):
            truth = self.world[int(first) : int(first) + len(rows)]
            true[name] = np.concatenate([true[name], rows[truth]])
            moves, start = list_flips(name, int(first), rows, truth, units)
            flips.append(moves)
            starts.append(start)
        domains = self.example.free.domains
        census = count_classes(self.field, domains, true, flips, self.max_memory, self.progress)
        groups = [
            group_flips(each.predicate, classes, start)
            for each, classes, start in zip(flips, census.classes, starts, strict=True)
        ]
        return PseudoClasses(census, tuple(groups))


def make_field_example(
    field: Field,
    example: Example,
    max_memory: int | None = None,
    progress: Report | None = None,
) -> FieldExample:
    """Build the example of a field; raise LapisError if the data contradicts a block."""
    apply_blocks(example.complete)
    network = unknown_atoms(example.free)
    return FieldExample(field, example, network, example.answers(network), max_memory, progress)


def list_flips(
    name: str, first: int, rows: np.ndarray, truth: np.ndarray, units: UnknownUnits
) -> tuple[Flips, np.ndarray]:
    """List the other states of a predicate's units, unit by unit, and each unit's first.

    A unit changes from its true atom, if there is one, to any of its false atoms or to none.
    """
    unit_of = units.unit_of()[first : first + len(rows)]
    own, unit = np.unique(unit_of, return_inverse=True)
    present = np.full(len(own), -1, np.int64)
    present[unit[truth]] = np.flatnonzero(truth)
    leaves = np.flatnonzero((present >= 0) & ~units.exact[own])
    others = np.flatnonzero(~truth)
    to = np.concatenate([others, np.full(len(leaves), -1, np.int64)])
    mover = np.concatenate([unit[others], leaves])
    order = np.argsort(mover, kind="stable")
    to, mover = to[order], mover[order]
    pairs = np.stack([present[mover], to], axis=1).ravel()
    flip = np.repeat(np.arange(len(to)), 2)[pairs >= 0]
    atom = pairs[pairs >= 0]
    start = np.searchsorted(mover, np.arange(len(own) + 1))
    return Flips(name, len(to), flip, rows[atom], truth[atom]), start


def group_flips(predicate: str, classes: np.ndarray, start: np.ndarray) -> FlipGroups:
    """Group flips by unit; units with one other state are counted by its class."""
    length = np.diff(start)
    kinds, times = np.unique(classes[start[:-1][length == 1]], return_counts=True)
    inside = np.repeat(length > 1, length)
    several = length[length > 1]
    return FlipGroups(
        predicate,
        row_starts(np.concatenate([np.ones_like(kinds), several])),
        np.concatenate([kinds, classes[inside]]),
        np.concatenate([times.astype(np.float64), np.ones(len(several))]),
        len(length),
    )


STEP = 1e-4  # of weights, for differences of gradients
NUM_CHAINS = 10
NUM_RANDOM_STARTS = 2  # of the search for a most likely world, at each evaluation


def exact_point(
    objective: Objective, weights: np.ndarray, value: float, gradient: np.ndarray
) -> Point:
    """Build a point whose curvature comes from differences of gradients."""
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
    """Build a point whose curvature is a covariance.

    `deviations` float64[num_chains, num_weights] of each example are those of its chains.
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
    """Base class of all objectives of fields."""

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
        """The number of atoms: a weight may affect the conditional probability of each."""
        return np.full(self.num_parameters, float(self.num_atoms))


@dataclass(frozen=True)
class FieldPseudoLikelihood(FieldObjective):
    is_exact: bool = True
    is_fixed: bool = True

    def evaluate(self, weights: np.ndarray) -> Point:
        found = [
            class_pseudo_likelihood(field_example.classes, weights)
            for field_example in self.field_examples
        ]
        value = sum(sum(values.values()) for values, _ in found)
        return exact_point(self, weights, value, np.sum([g for _, g in found], axis=0))


@dataclass(frozen=True)
class LikelihoodObjective(FieldObjective):
    """Base class of objectives that ground the field."""

    @cached_property
    def true_counts(self) -> np.ndarray:
        """|∂ log f_0/∂w| in the data at the field's weights, with hidden atoms false.

        For weights of the root these are the true counts.
        """
        total = np.zeros(self.num_parameters)
        for field_example in self.field_examples:
            ground, weights = field_example.cached.ground, field_example.field.weights
            total += np.abs(world_gradients(ground, weights, field_example.world[None])[0])
        return total


@dataclass(frozen=True)
class ExactLikelihood(LikelihoodObjective):
    """The likelihood by enumeration of all worlds, and of those that agree with the data."""

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
    """Expectations from short chains; each evaluation samples again.

    A chain first samples the hidden atoms given the data, from their last values. Then it samples
    all unknown atoms from there.
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
                    hidden[chain] = run_sweeps(
                        field_example.given, weights, hidden[chain], rng, self.num_samples
                    )
                begins.append(complete_world(field_example, hidden[chain]))
                ends.append(
                    run_sweeps(field_example.cached, weights, begins[-1], rng, self.num_samples)
                )
            ground = field_example.cached.ground
            # Without hidden atoms all chains begin in the same world.
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
    """The most likely world instead of expectations, as in the voted perceptron.

    Its derivatives are those of log f_0(data) − max log f_0. In fields that are too large to
    enumerate, ICM starts from the data, from the last mode and from random worlds.
    """

    is_exact: bool = False
    is_fixed: bool = False
    seed: int = 0
    evaluations: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64), repr=False)
    modes: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # of the last evaluation

    def evaluate(self, weights: np.ndarray) -> Point:
        gradient = np.zeros(len(weights))
        rng = np.random.default_rng([self.seed, int(self.evaluations[0])])
        self.evaluations[0] += 1
        for number, field_example in enumerate(self.field_examples):
            given = self.find_mode(f"given.{number}", field_example.given, weights, None, rng)
            data = complete_world(field_example, given)
            best = self.find_mode(f"all.{number}", field_example.cached, weights, data, rng)
            first, last = world_gradients(
                field_example.cached.ground, weights, np.array([data, best])
            )
            gradient += first - last
        return sampled_point(weights, gradient)

    def find_mode(
        self,
        name: str,
        cached: CachedField,
        weights: np.ndarray,
        data: np.ndarray | None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return bool[num_unknown], a most likely world."""
        if is_quick(cached.ground):
            return enumerate_field(cached.ground, weights).best
        network = cached.ground.network
        starts = [random_world(network, 2, rng).astype(bool) for _ in range(NUM_RANDOM_STARTS)]
        starts += [world for world in (data, self.modes.get(name)) if world is not None]
        found = [climb_to_mode(cached, weights, start, rng) for start in starts]
        self.modes[name] = max(found, key=lambda mode: mode[1])[0]
        return self.modes[name]

    def keep(self) -> dict[str, np.ndarray]:
        modes = {name: mode.copy() for name, mode in self.modes.items()}
        return {"evaluations": self.evaluations.copy(), **modes}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        self.evaluations[:] = kept["evaluations"]
        self.modes.clear()
        self.modes.update({name: kept[name].copy() for name in kept if name != "evaluations"})


def complete_world(field_example: FieldExample, hidden: np.ndarray) -> np.ndarray:
    """Return bool[num_unknown], the data completed by hidden atoms bool[num_hidden]."""
    # Both ground fields have tables of the same shape; only the known atoms differ.
    values = base_values(field_example.given.ground, hidden[None])[0]
    return values[field_example.cached.ground.cell] > 0.5


def field_pseudo_objective(
    field_examples: Sequence[FieldExample], num_samples: int, seed: int, expectation: str
) -> Objective:
    if expectation != "auto":
        raise LapisError(
            "objective 'pseudo' does not use expectations",
            code="no-expectation",
            hint="remove expectation, or use objective likelihood or conditional",
        )
    for field_example in field_examples:
        _ = field_example.classes  # count now, so that errors are raised before the run
    return FieldPseudoLikelihood(tuple(field_examples), "pseudo")


def likelihood_objective(
    field_examples: Sequence[FieldExample], num_samples: int, seed: int, expectation: str
) -> Objective:
    """Build the objective of an expectation; `auto` enumerates small fields."""
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
