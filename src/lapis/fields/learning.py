"""`fields.learn`: learn the weights of a field.

Gradients come from back-propagation, the optimisers are those of Markov logic. The objectives are
not concave: an increase of an inner weight can compensate a decrease of its parfeature's weight in
the parent. So the optimiser is run again from `restarts` other starts, and the best run is kept. A
start is the field's weights times random factors, because local optima differ in the scale of the
inner weights (the sharpness of connectives). Runs are compared by their values, or by
pseudo-likelihood if the objective has no value (contrastive divergence).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lapis.data.atomic_write import write_whole
from lapis.errors import LapisError
from lapis.fields.field import ROOT, Field
from lapis.fields.field_objectives import (
    FieldExample,
    FieldPseudoLikelihood,
    MostLikelyDerivatives,
    likelihood_objective,
    make_field_example,
)
from lapis.fields.field_text import FieldLike, edge_names, open_field, print_field
from lapis.learning.examples import build_examples
from lapis.learning.fit import Fit
from lapis.learning.learning_run import choose_objective
from lapis.learning.objectives.priors import Prior, parse_prior, with_prior
from lapis.learning.parameters import Parameters
from lapis.learning.reliability import refuse_unbounded
from lapis.optimisation.history import require_iteration
from lapis.optimisation.maximize import Trajectory, find_length, make_optimizer, maximize
from lapis.optimisation.objective import EDGE, PenalizedObjective
from lapis.problem.query import query_predicates
from lapis.problem.task import DataLike, open_inputs
from lapis.registry.method_table import check_options, find_method, front_door, seed_of
from lapis.registry.options import FieldExpectation, FieldLearnOptions, FieldOptimizer, LearnOptions
from lapis.runtime.progress import Report, Stop, StopCallback, work_clock
from lapis.runtime.progress_bars import ProgressOption, as_report

if TYPE_CHECKING:
    import threading

    from lapis.optimisation.objective import Objective

PRIOR = Prior("gaussian", 10.0)
TOLERANCE = 1e-6  # of the gradient, for each atom
SPREAD = 1.0  # standard deviation of the log of a restart's factors
SHIFT = 0.05  # standard deviation of a restart's offsets, which move weights of 0
BY_CURVATURE = ("lbfgs", "dn", "scg", "pscg")


@dataclass(frozen=True)
class FieldParameters(Parameters):
    """A parameter for each child of each parfeature."""

    field: Field

    def names(self) -> list[str]:
        return edge_names(self.field)


@dataclass(frozen=True, repr=False)
class FieldFit(Fit):
    """Learned weights of a field."""

    @property
    def field(self) -> Field:
        """The field with the learned weights."""
        assert isinstance(self.parameters, FieldParameters)
        return self.parameters.field.with_weights(self.weights)

    @property
    def text(self) -> str:
        return print_field(self.field, self.title())

    def save(self, path: str | Path) -> None:
        """Write the learned field.

        Parameters
        ----------
        path
            Path of the file, `.rrf`.

        Raises
        ------
        LapisError
            If the file cannot be written.
        """
        write_whole(path, self.text)


@front_door
def learn(
    field: FieldLike,
    data: DataLike,
    query: Sequence[str] | str = (),
    *,
    unobserved: Sequence[str] = (),
    objective: str = "pseudo",
    optimizer: FieldOptimizer | None = None,
    expectation: FieldExpectation = "auto",
    prior: Prior | str | None = None,
    prior_mean: Literal["zero", "initial"] = "zero",
    num_samples: int = 5,
    rate: float | None = None,
    restarts: int = 0,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    max_memory: int | None = None,
    random_state: int | np.random.Generator = 0,
    checkpoint: str | Path | None = None,
    strict: bool = False,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> FieldFit:
    """Learn the weights of a field from data; those marked @fixed keep theirs.

    It starts at the weights of the field. Atoms of `unobserved` predicates, and those the
    data marks unknown, are summed out by a likelihood.

    Parameters
    ----------
    field
        A field or the path of one.
    data
        A database, the path of one, None, or a list of these: several are several independent
        worlds, each with its own constants. Facts of undeclared predicates are ignored with a
        warning.
    query
        Predicates that are predicted from the others; without a query all atoms are explained.
    unobserved
        Predicates that the data does not show.
    objective
        "pseudo", "likelihood" or "conditional".
    optimizer
        Name of the optimiser; "lbfgs" where values are exact and "adam" elsewhere if absent.
    expectation
        How expected derivatives are found: "exact", "gibbs", "map", or "auto" for all worlds where
        they are few and chains elsewhere.
    prior
        A prior, or a text: "none", "gaussian[:width]" or "l1[:strength]".
    prior_mean
        Centre of the prior: "zero", or "initial" for the weights in the field.
    num_samples
        Samples of each chain in an iteration.
    rate
        Learning rate of vp, cd, vp-pw, cd-pw, adam and adagrad.
    restarts
        Number of runs from other weights; the best is kept.
    max_iterations
        Upper limit of the iterations of a run.
    tolerance
        Largest component of the gradient at convergence; 1e-6 for each atom if absent.
    time_limit
        Seconds after which the result so far is returned, marked interrupted.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    random_state
        Seed of everything random, or a generator to draw one from.
    checkpoint
        A file that keeps the state; the work resumes from it if it exists.
    strict
        Refuse facts of predicates that the model does not declare.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; where it is true the result so far is returned, marked interrupted.

    Returns
    -------
    FieldFit
        The learned field, its weights, the curve, and how each run ended.

    Raises
    ------
    LapisError
        If an input or an option is wrong, options do not go together, or the data is empty.
    TooLarge
        If the ground field does not fit in memory, or has too many worlds to enumerate.

    Examples
    --------
    >>> from lapis import Database, fields
    >>> field = fields.parse("P(t)\\nroot:\\n 1 P(x)")
    >>> fit = fields.learn(field, Database.parse("P(A) P(B) P(C) !P(D)"), prior="none")
    >>> round(fit["root: P(x)"], 4)  # log 3: three of four
    1.0986
    """
    options = FieldLearnOptions(
        query=query,
        unobserved=unobserved,
        objective=objective,
        optimizer=optimizer,
        expectation=expectation,
        prior=prior,
        prior_mean=prior_mean,
        num_samples=num_samples,
        rate=rate,
        restarts=restarts,
        max_iterations=max_iterations,
        tolerance=tolerance,
        time_limit=time_limit,
        max_memory=max_memory,
        random_state=seed_of(random_state),
        checkpoint=Path(checkpoint) if isinstance(checkpoint, str) else checkpoint,
        strict=strict,
    )
    check_options(options)
    resolved = open_field(field)
    inputs = open_inputs(resolved.declarations, data, strict=strict)
    asked = query_predicates(query, inputs.model)
    choose_objective(LearnOptions(objective=objective), asked)  # raises if they are incompatible
    began = work_clock()
    examples = build_examples(inputs.model, inputs.databases, asked, unobserved=unobserved)
    field_examples = tuple(
        make_field_example(resolved, example, max_memory, as_report(progress))
        for example in examples
    )
    chosen = choose_field_prior(prior, prior_mean, resolved)
    run = FieldLearningRun(
        resolved,
        field_examples,
        options,
        tuple(asked),
        chosen,
        began,
        as_report(progress),
        Stop(stop),
    )
    return run.fit()


@dataclass(frozen=True)
class FieldLearningRun:
    """A learning run: the field, its examples and the options."""

    field: Field
    examples: tuple[FieldExample, ...]
    options: FieldLearnOptions
    asked: tuple[str, ...]  # query predicates
    prior: Prior
    began: float
    progress: Report | None
    stop: Stop

    @cached_property
    def num_atoms(self) -> int:
        return sum(len(example.world) for example in self.examples)

    @cached_property
    def target(self) -> Objective:
        """The objective without the prior."""
        options = self.options
        expectation = choose_expectation(options.objective, options.optimizer, options.expectation)
        build = find_method("field objective", options.objective).load()
        found: Objective = build(self.examples, options.num_samples, options.seed, expectation)
        return found

    @cached_property
    def optimizer(self) -> str:
        return self.options.optimizer or ("lbfgs" if self.target.is_fixed else "adam")

    @cached_property
    def posterior(self) -> PenalizedObjective:
        """The objective with the prior, and kinks where an inner weight is 0."""
        found = with_prior(self.target, self.prior, self.field.weights, self.field.fixed)
        corners = inner_weights(self.field)[found.free] & (found.origin == 0)
        return replace(found, corners=corners)

    def fit(self) -> FieldFit:
        """Run the optimiser from all starts and return the best result."""
        if not self.num_atoms:
            raise LapisError(
                "the data has no atoms to learn from: no constants of the query predicates",
                code="empty-data",
                hint="add facts, or list the constants of the types in the field",
            )
        comparison = self.comparison_objective()
        rng = np.random.default_rng(self.options.seed)
        best: tuple[float, Trajectory] | None = None
        starts: list[dict[str, object]] = []
        for number in range(self.options.restarts + 1):
            left = self.seconds_left()
            if best is not None and (self.stop() or (left is not None and left <= 0)):
                break
            start = self.field.weights if number == 0 else random_start(self.field, rng)
            trajectory = self.maximize_from(start, number, left)
            if number == 0:
                require_iteration(trajectory, work_clock() - self.began)
            value = None if comparison is None else posterior_value(comparison, trajectory)
            ended = {"converged": trajectory.converged, "reason": trajectory.reason}
            starts.append({"value": value, **ended})
            if best is None or (value is not None and value > best[0]):
                best = value or 0.0, trajectory
            if trajectory.interrupted:
                break
        assert best is not None
        return self.build_fit(best[1], starts)

    def seconds_left(self) -> float | None:
        limit = self.options.time_limit
        return None if limit is None else limit - (work_clock() - self.began)

    def maximize_from(self, start: np.ndarray, number: int, left: float | None) -> Trajectory:
        """Run the optimiser from weights float64[num_weights]; `number` is that of the restart."""
        options, posterior = self.options, self.posterior
        tolerance, checkpoint = options.tolerance, options.checkpoint
        own = {} if options.rate is None else {"rate": options.rate}
        if tolerance is None and self.target.is_fixed:
            tolerance = TOLERANCE * self.num_atoms
        trajectory = maximize(
            posterior,
            make_optimizer(self.optimizer, **own),
            posterior.free_weights(start),
            max_iterations=options.max_iterations,
            tolerance=tolerance,
            time_limit=left,
            progress=self.progress,
            should_stop=self.stop,
            checkpoint=None if checkpoint is None else restart_path(checkpoint, number),
            fingerprint=self.fingerprint(number),
        )
        is_perceptron = isinstance(self.target, MostLikelyDerivatives) and options.rate is None
        if not is_perceptron or trajectory.interrupted:
            return trajectory
        likelihood = likelihood_objective(self.examples, options.num_samples, options.seed, "auto")
        likely = replace(posterior, objective=likelihood)
        return scale_root_weights(trajectory, likely, self.field, self.stop)

    def comparison_objective(self) -> PenalizedObjective | None:
        """Return the objective whose values compare runs: pseudo-likelihood if there are none."""
        if self.target.is_fixed:
            return self.posterior
        if not any(example.has_hidden for example in self.examples):
            pseudo = FieldPseudoLikelihood(self.examples, "pseudo")
            return replace(self.posterior, objective=pseudo)
        if self.options.restarts:
            raise LapisError(
                "restarts cannot be compared: with hidden atoms and too many worlds there is "
                "neither a likelihood nor a pseudo-likelihood",
                code="no-value",
                hint="learn without restarts, with different seeds",
            )
        return None

    def fingerprint(self, number: int) -> str:
        """Hash field, data and options, so that a run resumes only its own checkpoint."""
        options, prior = self.options, self.prior
        how = (
            options.objective, list(self.asked), sorted(options.unobserved), options.expectation,
            options.num_samples, options.rate, options.seed, prior.kind, number,
        )  # fmt: skip
        content = print_field(self.field), self.field.weights.tolist(), how
        found = hashlib.sha256(repr(content).encode())
        for numbers in (prior.strength, prior.mean, *(each.answer for each in self.examples)):
            found.update(np.ascontiguousarray(numbers).tobytes())
        return found.hexdigest()[:16]

    def build_fit(self, trajectory: Trajectory, starts: list[dict[str, object]]) -> FieldFit:
        """Return the result of the best run."""
        field, target, posterior = self.field, self.target, self.posterior
        weights = posterior.all_weights(trajectory.weights)
        weights[np.abs(weights) <= EDGE] = 0.0
        trajectory = refuse_unbounded(trajectory, weights, self.prior, field.fixed, ())
        parameters = FieldParameters(
            field.declarations,
            (),
            np.array([0, len(weights)]),
            (),
            field.weights,
            field.fixed,
            field,
        )
        return FieldFit(
            self.options.objective,
            self.optimizer,
            str(self.prior),
            target.evaluate(weights).value if target.is_fixed else None,
            posterior.log_prior(trajectory.weights),
            target.is_exact,
            trajectory.converged,
            trajectory.interrupted,
            trajectory.reason,
            trajectory.iterations,
            trajectory.gradient_norm,
            parameters,
            weights,
            None,
            trajectory.curve,
            {"learning": work_clock() - self.began},
            details={"starts": starts, "atoms": self.num_atoms},
        )


def choose_expectation(objective: str, optimizer: str | None, expectation: str) -> str:
    """Return the given expectation, or that of the optimiser."""
    if expectation == "auto" and objective != "pseudo" and optimizer in ("vp", "vp-pw"):
        expectation = "map"
    if expectation == "map" and optimizer in BY_CURVATURE:
        raise LapisError(
            f"{optimizer} needs variances, which expectation map does not provide",
            code="needs-curvature",
            hint="choose vp, vp-pw or adam, or expectation gibbs",
        )
    return expectation


def choose_field_prior(prior: Prior | str | None, mean: str, field: Field) -> Prior:
    chosen = parse_prior(prior) if isinstance(prior, str) else prior or PRIOR
    return replace(chosen, mean=field.weights) if mean == "initial" else chosen


def scale_root_weights(
    trajectory: Trajectory, posterior: PenalizedObjective, field: Field, stop: Stop
) -> Trajectory:
    """Scale the root's weights of a perceptron to the length of greatest likelihood.

    A most likely world remains one if all weights of the root are multiplied by a positive number,
    so most likely worlds do not determine the length.
    """
    root = ~inner_weights(field)[posterior.free]
    weights, origin = posterior.all_weights(trajectory.weights), posterior.origin
    longest = np.abs(trajectory.weights[root]).max(initial=0.0)
    if longest == 0.0 or origin.any() or posterior.mean.any():
        return trajectory
    along = replace(
        posterior,
        free=posterior.free[root],
        base=weights,
        precision=posterior.precision[root],
        mean=posterior.mean[root],
        l1=None if posterior.l1 is None else posterior.l1[root],
        origin=origin[root],
        corners=None,
    )
    direction = trajectory.weights[root] / longest
    length = find_length(along, direction, should_stop=stop)
    found = trajectory.weights.copy()
    found[root] = length * direction
    return trajectory._replace(weights=found)


def posterior_value(judge: PenalizedObjective, trajectory: Trajectory) -> float:
    """Compute the value of a run's weights, prior included."""
    value = judge.objective.evaluate(judge.all_weights(trajectory.weights)).value
    assert value is not None
    return value + judge.log_prior(trajectory.weights)


def random_start(field: Field, rng: np.random.Generator) -> np.ndarray:
    """Return float64[num_weights], the field's weights times random factors plus offsets."""
    weights = field.weights
    factor = np.exp(rng.normal(-SPREAD / 2, SPREAD, len(weights)))
    return weights * factor + rng.normal(0.0, SHIFT, len(weights))


def inner_weights(field: Field) -> np.ndarray:
    """Return bool[num_weights], the weights below the root; log Z has a kink at zero there."""
    return np.array([parfeature.name != ROOT for parfeature, _ in field.edges()], bool)


def restart_path(path: Path, number: int) -> Path:
    return path if number == 0 else path.with_name(f"{path.name}.{number}")
