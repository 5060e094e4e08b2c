"""The fit of a learning run: standard errors, unbounded weights, and bounds of count errors.

**Unbounded weights.** If the data never contradicts a formula, a larger weight always fits better,
and without a prior the best weight is infinite. For a pseudo-likelihood such weights are found
before the run by linear programming (`separability`). For other objectives a weight that has become
large is tried at a far point: an exact objective is concave, so if it is no smaller there it does
not fall on the way. Weights that grow together (one up, one down) are tried together, along the
directions of nearly no curvature. Directions in which no count changes are left out.

**Standard errors.** Near the maximum the posterior is approximately Gaussian with covariance C⁻¹, C
the curvature (prior included), so the standard error of weight i is √(C⁻¹)_ii. A weight in a
direction without curvature gets none. A weight at the corner of an L1 prior does not move when the
data changes a little: it has no error, and C is the curvature of the others. A pseudo-likelihood
treats atoms as independent given the others, so its errors are approximate. With more than
`MAX_FULL` free weights, or a sampled curvature, only the diagonal is used: 1/√C_ii, the error if
all other weights were known, a lower bound.

**Errors of counts.** Lemma 1 of Sarkhel, Venugopal, Pham, Singla and Gogate (2016, "Scalable
Training of Markov Logic Networks Using Approximate Counting"). With estimates M_i(ω) of the counts
N_i(ω), |M_i(ω) − N_i(ω)| ≤ ε_i in every world ω, the score of a world and log Z are off by at most
Σ |w_i| ε_i each, so the log-likelihoods with N and with M differ by

    |ℓ(w) − ℓ̂(w)| ≤ 2 Σ |w_i| ε_i.

The paper has one ε for all formulas and positive weights. Errors of several worlds add up. ε is
over all worlds, but `measure_errors` compares the counts in the data only, so the result indicates
the size of the loss and is not a bound; the warning says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import TooLarge
from lapis.learning.examples import Example
from lapis.learning.fit import FARTHEST, Fit, UnboundedWeight, name_some
from lapis.learning.learning_run import (
    BEST_WORLD,
    BY_WORLD,
    CUTTING_PLANE,
    LearningRun,
    ijgp_settings,
)
from lapis.learning.objectives.priors import Prior, expand_prior
from lapis.learning.parameters import Parameters
from lapis.learning.predict import training_constants
from lapis.optimisation.history import TIME_LIMIT, interrupted_run, reason_of_error
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.runtime.limits import LimitExceeded
from lapis.runtime.progress import check_time

if TYPE_CHECKING:
    from lapis.counting.ijgp import IjgpSettings
    from lapis.learning.max_margin import Margin
    from lapis.learning.objectives.pseudo import PseudoObjective
    from lapis.optimisation.history import Trajectory
    from lapis.optimisation.objective import Objective


MAX_FULL = 400  # free weights up to which the whole curvature is inverted
NO_CURVATURE = 1e-10  # relative to the largest curvature, after scaling: no information
FAR = 25.0  # largest |w| of weights that are known to be unbounded
SUSPECT = 5.0  # |w| from which a weight is tried further away
MAX_SUSPECTS = 100
LEVEL = 1e-9  # relative change of the value that counts as no fall
STRIDE = 10.0  # distance at which weights that may grow together are tried
FLAT = 1e-2  # curvature of a direction with a standard error of ten
CONSTANT = 1e-9  # curvature at weights zero, relative to the largest, of counts that never change
TRACE = 1e-3  # components below it, relative to the largest, are rounding errors
ADVICE = "it was stopped where the fit hardly changes; give a prior, or make the rule hard"


def build_fit(
    run: LearningRun,
    trajectory: Trajectory,
    posterior: PenalizedObjective,
    optimizer: str,
    prior: Prior,
    unbounded: Sequence[UnboundedWeight],
) -> Fit:
    """Build the fit at the end of a trajectory of the free weights."""
    objective, options, notes = posterior.objective, run.options, run.notes
    weights = posterior.all_weights(trajectory.weights)
    pseudo, errors = as_pseudo(run, objective), None
    late: list[str] = []  # checks that the time limit left out
    if pseudo is None:  # those of a pseudo-likelihood are given
        with before_deadline("a search for unbounded weights", late):
            unbounded = still_growing(posterior, run.parameters, trajectory, prior)
    # Standard errors come from the curvature of a likelihood, at weights that were learned.
    is_learned = trajectory.converged or trajectory.iterations > 0
    has_errors = run.objective != "weighted-pseudo" and run.expectation not in BY_WORLD
    if has_errors and is_learned:
        with notes.phase("standard errors"), before_deadline("standard errors", late):
            errors, method = find_errors(posterior, run.parameters, trajectory, unbounded)
            notes.details["standard_errors"] = method
    by_chains = not (objective.is_exact or run.is_pseudo or run.expectation in BEST_WORLD)
    if by_chains and not trajectory.interrupted:
        with notes.phase("mixing of chains"), before_deadline("the mixing of chains", late):
            from lapis.learning.mixing import check_mixing

            trajectory = check_mixing(run, trajectory, posterior)
    if options.counts == "ijgp" and options.measure_error:
        with notes.phase("error of counts"), before_deadline("the error of counts", late):
            bound = measure_bound(run.examples, run.parameters, ijgp_settings(options), weights)
            notes.details["count_error"] = bound.largest_error
            notes.details["bound"] = {"value": bound.value, "holds": False}
            notes.warnings.append(bound.words)
    if late:
        notes.warnings.append(f"the time limit left no time for {', '.join(late)}")
    if pseudo is not None:
        notes.warnings.extend(pseudo.notes)
    trajectory = refuse_unbounded(trajectory, weights, prior, run.parameters.fixed, unbounded)
    exact = objective.is_exact and options.counts == "exact"
    log_prior = posterior.log_prior(trajectory.weights)
    return make_fit(run, trajectory, weights, optimizer, prior, log_prior, exact, errors, unbounded)


@contextmanager
def before_deadline(work: str, late: list[str]) -> Iterator[None]:
    """End a block at the deadline of the call, and add the name of its work to `late`."""
    try:
        yield
    except LimitExceeded as limit:
        if interrupted_run(limit) != TIME_LIMIT:
            raise
        late.append(work)
    except TooLarge as error:
        reason_of_error(error)
        late.append(work)


def as_pseudo(run: LearningRun, objective: Objective) -> PseudoObjective | None:
    """Return the objective if it is a pseudo-likelihood, else None."""
    if not run.is_pseudo:
        return None
    from lapis.learning.objectives.pseudo import PseudoObjective

    return objective if isinstance(objective, PseudoObjective) else None


def refuse_unbounded(
    trajectory: Trajectory,
    weights: np.ndarray,
    prior: Prior,
    fixed: np.ndarray,
    unbounded: Sequence[UnboundedWeight],
) -> Trajectory:
    """Mark a trajectory as not converged if weights float64[num_parameters] have no maximum."""
    loose = ~fixed & ~expand_prior(prior, len(weights)).holds & (np.abs(weights) >= FARTHEST)
    loose[[weight.parameter for weight in unbounded]] = True
    number = int(loose.sum())
    if not (number and trajectory.converged):
        return trajectory
    reason = f"{number:,} weight{' has' if number == 1 else 's have'} no finite maximum"
    return trajectory._replace(converged=False, reason=reason)


def build_margin_fit(run: LearningRun, found: Margin, prior: Prior) -> Fit:
    """Build the fit of max-margin weights; its value is the margin's part of the objective."""
    trajectory, parameters = found.trajectory, run.parameters
    run.notes.details.update(gap=found.gap, proven=found.proven, cuts=found.num_cuts)
    free, size = ~parameters.fixed, len(parameters)
    arrays = expand_prior(prior, size)
    away = trajectory.weights - arrays.mean
    log_prior = -0.5 * float(arrays.precision[free] @ away[free] ** 2)
    return make_fit(
        run, trajectory, trajectory.weights, CUTTING_PLANE, prior, log_prior, found.proven
    )


def make_fit(
    run: LearningRun,
    trajectory: Trajectory,
    weights: np.ndarray,
    optimizer: str,
    prior: Prior,
    log_prior: float,
    exact: bool,
    errors: np.ndarray | None = None,
    unbounded: Sequence[UnboundedWeight] = (),
) -> Fit:
    """Build a fit of arrays float64[num_parameters]; the trajectory's value includes the prior."""
    return Fit(
        run.objective,
        optimizer,
        str(prior),
        None if trajectory.value is None else trajectory.value - log_prior,
        log_prior,
        exact,
        trajectory.converged,
        trajectory.interrupted,
        trajectory.reason,
        trajectory.iterations,
        trajectory.gradient_norm,
        run.parameters,
        weights,
        errors,
        trajectory.curve,
        run.notes.seconds,
        tuple(unbounded),
        tuple(run.notes.warnings),
        run.notes.details,
        query=run.examples[0].asked,
        constants=training_constants(run.parameters.model, run.examples, run.examples[0].asked),
    )


def find_unbounded(
    run: LearningRun, posterior: PenalizedObjective, prior: Prior
) -> list[UnboundedWeight]:
    """Find the infinite weights of a pseudo-likelihood; warn of weights without effect."""
    objective, parameters = as_pseudo(run, posterior.objective), run.parameters
    loose = ~parameters.fixed & ~expand_prior(prior, len(parameters)).holds
    if not loose.any() or objective is None:
        return []
    from lapis.learning.separability import unbounded_parameters

    found = unbounded_parameters(objective, loose)
    names = parameters.names() if len(found.parameter) or len(found.idle) else []
    if len(found.idle):
        shown = name_some([names[i] for i in found.idle.tolist()])
        run.notes.warnings.append(
            f"the data does not determine the weights of {shown}: no atom depends on them"
        )
    rows = zip(found.parameter.tolist(), found.sign.tolist(), found.reason, strict=True)
    return [
        UnboundedWeight(i, names[i], int(sign), f"{reason}; {ADVICE}") for i, sign, reason in rows
    ]


def still_growing(
    posterior: PenalizedObjective, parameters: Parameters, trajectory: Trajectory, prior: Prior
) -> list[UnboundedWeight]:
    """Find the weights that neither data nor prior bounds."""
    weights, loose = trajectory.weights, ~expand_prior(prior, len(parameters)).holds[posterior.free]
    suspects = np.flatnonzero(loose & (np.abs(weights) >= SUSPECT))[:MAX_SUSPECTS].tolist()
    if not suspects:
        return []
    check_time("the search for unbounded weights")
    # Without the l1 penalty, which is constant if only weights without a prior move.
    here = None if trajectory.value is None else posterior.evaluate_smooth(weights).value
    constant = constant_space(posterior)
    moves = 1.0 - (constant**2).sum(axis=1) > CONSTANT  # some count changes with the weight
    sign = np.zeros(len(weights), np.int64)
    for i in suspects:
        away = weights.copy()
        away[i] = np.copysign(FARTHEST, away[i])
        if moves[i] and (abs(weights[i]) >= FARTHEST or never_falls(posterior, here, away)):
            sign[i] = np.sign(weights[i])
    together = growing_together(posterior, weights, here, constant, loose)
    grown = np.flatnonzero((sign != 0) | (together != 0)).tolist()
    names = parameters.names() if grown else []
    found = []
    for i, number in zip(grown, posterior.free[grown].tolist(), strict=True):
        others = [names[posterior.free[k]] for k in np.flatnonzero(together).tolist() if k != i]
        joint = f"together with {name_some(others)}, " if others and not sign[i] else ""
        reason = f"{joint}nothing in the data keeps its weight from growing; {ADVICE}"
        found.append(UnboundedWeight(number, names[number], int(sign[i] or together[i]), reason))
    return found


def never_falls(posterior: PenalizedObjective, here: float | None, away: np.ndarray) -> bool:
    """Whether the objective is at least `here`, if that is known, at weights far away."""
    if here is None:
        return False
    there = posterior.evaluate_smooth(away).value
    return there is not None and there >= here - LEVEL * abs(here)


def growing_together(
    posterior: PenalizedObjective,
    weights: np.ndarray,
    here: float | None,
    constant: np.ndarray,
    loose: np.ndarray,
) -> np.ndarray:
    """int64[num_free], signs of the weights along a direction that never falls; 0 for others."""
    nowhere = np.zeros(len(weights), np.int64)
    if here is None or not is_explored(posterior):
        return nowhere
    flat = flat_space(curvature_matrix(posterior.evaluate_smooth(weights)), FLAT)
    direction = flat @ (flat.T @ weights)
    direction -= constant @ (constant.T @ direction)
    direction[~loose] = 0.0
    largest = np.abs(direction).max(initial=0.0)
    if largest < SUSPECT / 2:
        return nowhere
    direction = np.where(np.abs(direction) < TRACE * largest, 0.0, direction / largest)
    away = weights + STRIDE * direction
    return np.sign(direction).astype(np.int64) if never_falls(posterior, here, away) else nowhere


def constant_space(posterior: PenalizedObjective) -> np.ndarray:
    """float64[num_free, k], orthonormal combinations of weights whose count never changes.

    At weights zero every world is possible, so a count without variance there is constant.
    """
    if not is_explored(posterior):
        return np.empty((posterior.num_parameters, 0))
    curvature = curvature_matrix(posterior.evaluate_smooth(np.zeros(posterior.num_parameters)))
    return flat_space(curvature, CONSTANT * np.abs(curvature).max(initial=0.0))


def is_explored(posterior: PenalizedObjective) -> bool:
    """Whether the whole curvature is exact and small enough to decompose."""
    return posterior.is_fixed and posterior.num_parameters <= MAX_FULL


def flat_space(curvature: np.ndarray, least: float) -> np.ndarray:
    """float64[num_free, k], orthonormal directions whose curvature is at most `least`."""
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    flat: np.ndarray = vectors[:, values <= least]
    return flat


def find_errors(
    posterior: PenalizedObjective,
    parameters: Parameters,
    trajectory: Trajectory,
    unbounded: Sequence[UnboundedWeight],
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], standard errors; NaN for weights fixed, infinite or held by L1."""
    check_time("the standard errors")
    point = posterior.evaluate_smooth(trajectory.weights)
    held = None if posterior.l1 is None else (trajectory.weights == 0) & (posterior.l1 > 0)
    own, method = standard_errors(point, full=posterior.is_fixed, held=held)
    errors = np.full(len(parameters), np.nan)
    errors[posterior.free] = own
    errors[[weight.parameter for weight in unbounded]] = np.nan
    return errors, method


def measure_bound(
    examples: Sequence[Example],
    parameters: Parameters,
    settings: IjgpSettings,
    weights: np.ndarray,
) -> Bound:
    """Bound the loss by estimated counts, by counting exactly too."""
    check_time("the error of counts")
    return likelihood_bound(weights, measure_errors(examples, parameters, settings))


def standard_errors(
    point: Point, *, full: bool, held: np.ndarray | None = None
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN without curvature; and "full" or "diagonal".

    `held`, bool[num_parameters], are weights at the corner of an L1 prior.
    """
    errors = np.full(len(point.weights), np.nan)
    moved = np.flatnonzero(np.ones(len(errors), bool) if held is None else ~held)
    if full and len(moved) <= MAX_FULL:
        curvature = curvature_matrix(point, moved)
        curved = np.flatnonzero(np.diag(curvature) > 0)
        if len(curved):
            errors[moved[curved]] = errors_of(curvature[np.ix_(curved, curved)])
        return errors, "full"
    diagonal = point.curvature_diagonal()
    curved = moved[diagonal[moved] > 0]
    errors[curved] = 1.0 / np.sqrt(diagonal[curved])
    return errors, "diagonal"


def curvature_matrix(point: Point, chosen: np.ndarray | None = None) -> np.ndarray:
    """float64[n, n], the curvature among the chosen parameters int64[n]; of all by default."""
    unit = np.eye(len(point.weights))
    if chosen is None:
        chosen = np.arange(len(unit))
    rows: list[np.ndarray] = []
    for i in chosen.tolist():
        check_time("the curvature")
        rows.append(point.curvature_product(unit[i])[chosen])
    return np.array(rows).reshape(len(chosen), len(chosen))


def errors_of(curvature: np.ndarray) -> np.ndarray:
    """√ of the diagonal of the inverse, NaN for weights in directions without curvature."""
    scale = np.sqrt(np.diag(curvature))
    correlation = curvature / np.outer(scale, scale)
    values, vectors = np.linalg.eigh((correlation + correlation.T) / 2)
    flat = values <= NO_CURVATURE * max(1.0, float(values[-1]))
    kept = vectors[:, ~flat]
    variance = (kept**2 / values[~flat]).sum(axis=1)
    variance[(vectors[:, flat] ** 2).sum(axis=1) > NO_CURVATURE] = np.nan
    return np.sqrt(variance) / scale


@dataclass(frozen=True)
class Bound:
    """2 Σ |w_i| ε_i, a bound if ε is that of all worlds."""

    value: float  # in nats, of the whole data
    largest_error: float  # max ε_i

    @property
    def words(self) -> str:
        return (
            f"the log-likelihood by approximate counts is off by at most {self.value:.4g}, if the "
            "counts of other worlds, which were not measured, are off by no more than those of "
            f"the data (at most {self.largest_error:.4g})"
        )


def likelihood_bound(weights: np.ndarray, errors: np.ndarray) -> Bound:
    """Compute 2 Σ |w_i| ε_i for weights and ε, float64[num_parameters] each.

    >>> likelihood_bound(np.array([1.0, -2.0]), np.array([0.5, 0.25])).value
    2.0
    """
    return Bound(2.0 * float(np.abs(weights) @ errors), float(errors.max(initial=0.0)))


def measure_errors(
    examples: Sequence[Example], parameters: Parameters, settings: IjgpSettings
) -> np.ndarray:
    """float64[num_parameters], |M_i − N_i| in the data, added up over the examples."""
    from lapis.counting.ijgp import count_ijgp

    errors = np.zeros(len(parameters))
    for number, example in enumerate(examples):
        problem = example.complete
        world = {name: known.true for name, known in problem.evidence.items()}
        found = count_ijgp(
            problem.normal_form, problem.model, problem.domains, world, settings, measure_error=True
        )
        assert found.error is not None
        exact = np.array([float(count) for count in found.error.exact])
        errors += parameters.to_parameters(number, np.abs(found.count - exact))
    return errors
