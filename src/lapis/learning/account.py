"""A trajectory as a fit: value without the prior, standard errors, and what is doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.learning.fit import FARTHEST, Fit, Unbounded
from lapis.learning.learning_run import BEST_WORLD, BY_WORLD, LearningRun
from lapis.learning.objectives.priors import Prior
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.learning.options import CUTTING_PLANE
from lapis.learning.reliability import find_errors, measure_bound, still_growing
from lapis.learning.separability import name_some
from lapis.optimisation.penalized import PenalizedObjective

if TYPE_CHECKING:
    from lapis.learning.max_margin import Margin
    from lapis.optimisation.history import Trajectory


def account_run(
    run: LearningRun,
    trajectory: Trajectory,
    posterior: PenalizedObjective,
    optimizer: str,
    prior: Prior,
    unbounded: Sequence[Unbounded],
) -> Fit:
    """The trajectory's weights are the free ones, as the optimiser sees them."""
    objective, options, notes = posterior.objective, run.options, run.notes
    weights = posterior.all_weights(trajectory.weights)
    if not isinstance(objective, PseudoObjective):  # where it was known before
        unbounded = still_growing(posterior, run.parameters, trajectory, prior)
    errors = None
    # Standard errors are told by the curvature of a likelihood.
    if run.objective != "weighted-pseudo" and run.expectation not in BY_WORLD:
        with notes.phase("standard errors"):
            errors, method = find_errors(posterior, run.parameters, trajectory, unbounded)
        notes.details["standard_errors"] = method
    by_chains = not (objective.is_exact or run.is_pseudo or run.expectation in BEST_WORLD)
    if by_chains and not trajectory.interrupted:
        with notes.phase("mixing of chains"):
            trajectory = doubt_chains(run, trajectory, posterior)
    if options.counts == "ijgp" and options.measure_error:
        with notes.phase("error of counts"):
            bound = measure_bound(run.examples, run.parameters, options.ijgp, weights)
        notes.details["count_error"] = bound.largest_error
        notes.details["bound"] = {"value": bound.value, "holds": False}
        notes.warnings.append(bound.words)
    if isinstance(objective, PseudoObjective):
        notes.warnings.extend(objective.notes)
    trajectory = refuse_unbounded(trajectory, weights, prior, run.parameters.fixed, unbounded)
    exact = objective.is_exact and options.counts == "exact"
    log_prior = posterior.log_prior(trajectory.weights)
    return make_fit(run, trajectory, weights, optimizer, prior, log_prior, exact, errors, unbounded)


def refuse_unbounded(
    trajectory: Trajectory,
    weights: np.ndarray,
    prior: Prior,
    fixed: np.ndarray,
    unbounded: Sequence[Unbounded],
) -> Trajectory:
    """A trajectory that has not converged where the objective has no maximum.

    Weights float64[num_parameters] that stand where the climb stops all weights have none either.
    """
    loose = ~fixed & ~prior.holds(len(weights)) & (np.abs(weights) >= FARTHEST)
    loose[[weight.parameter for weight in unbounded]] = True
    number = int(loose.sum())
    if not (number and trajectory.converged):
        return trajectory
    reason = f"{number:,} weight{' has' if number == 1 else 's have'} no finite maximum"
    return trajectory._replace(converged=False, reason=reason)


def doubt_chains(
    run: LearningRun, trajectory: Trajectory, posterior: PenalizedObjective
) -> Trajectory:
    """A trajectory that has not converged where its chains know but the worlds they began near."""
    from lapis.learning.objectives import count_based, sampled_mixing
    from lapis.learning.objectives.conditional import ConditionalObjective

    objective, notes = posterior.objective, run.notes
    goes_back = isinstance(objective, count_based.CountObjective) and not objective.persistent
    if goes_back:
        notes.warnings.append(
            "chains go back to the data before they have gone round: the weights are near those "
            "of --objective pseudo, not of a likelihood"
        )
    if not trajectory.converged and run.options.time_limit is not None:
        return trajectory  # which has said so, and has no time
    weights = posterior.all_weights(trajectory.weights)
    if isinstance(objective, count_based.CountObjective):
        doubtful = count_based.doubtful_weights(objective, weights)
    else:
        assert isinstance(objective, ConditionalObjective)
        doubtful = sampled_mixing.doubtful_weights(objective, weights)
    notes.details["chains_mix"] = None if goes_back else not len(doubtful)
    if not len(doubtful):
        return trajectory
    names = run.parameters.names()
    shown = name_some([names[number] for number in doubtful.tolist()])
    notes.warnings.append(
        f"chains do not mix: elsewhere they stay at other counts of {shown} than near the data, "
        "so that the weights explain the worlds near the data among others near them only; "
        f"a stronger prior{', or --expectation mcsat,' if run.expectation != 'mcsat' else ''} "
        "may help"
    )
    if run.expectation != "count-map":
        notes.details["standard_errors_note"] = "those of the worlds near the data"
    reason = "chains that begin elsewhere see other counts"
    return (
        trajectory._replace(converged=False, reason=reason) if trajectory.converged else trajectory
    )


def account_margin(run: LearningRun, found: Margin, prior: Prior) -> Fit:
    """The value is the margin's share of the objective, not a likelihood."""
    trajectory, parameters = found.trajectory, run.parameters
    run.notes.details.update(gap=found.gap, proven=found.proven, cuts=found.num_cuts)
    free, size = ~parameters.fixed, len(parameters)
    away = trajectory.weights - prior.means(size)
    log_prior = -0.5 * float(prior.precision(size)[free] @ away[free] ** 2)
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
    unbounded: Sequence[Unbounded] = (),
) -> Fit:
    """The fit. The trajectory's values include the prior; arrays float64[num_parameters]."""
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
    )
