"""A course as a fit: value without the prior, standard errors, and what is doubtful."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.learning.fit import FARTHEST, Fit, Unbounded
from lapis.learning.lesson import BEST_WORLD, BY_WORLD, Lesson
from lapis.learning.objectives.posterior import Posterior
from lapis.learning.objectives.priors import Prior
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.learning.options import CUTTING_PLANE, ijgp_settings
from lapis.learning.reliability import find_errors, measure_bound, still_growing
from lapis.learning.separability import name_some

if TYPE_CHECKING:
    from lapis.learning.max_margin import Margin
    from lapis.optimisation.logbook import Course


def account_climb(
    lesson: Lesson,
    course: Course,
    posterior: Posterior,
    optimizer: str,
    prior: Prior,
    unbounded: Sequence[Unbounded],
) -> Fit:
    """The course's weights are the free ones, as the optimiser sees them."""
    objective, options, notes = posterior.objective, lesson.options, lesson.notes
    weights = posterior.all_weights(course.weights)
    if not isinstance(objective, PseudoObjective):  # where it was known before
        unbounded = still_growing(posterior, lesson.parameters, course, prior)
    errors = None
    # Standard errors are told by the curvature of a likelihood.
    if lesson.objective != "weighted-pseudo" and lesson.expectation not in BY_WORLD:
        with notes.phase("standard errors"):
            errors, method = find_errors(posterior, lesson.parameters, course, unbounded)
        notes.details["standard_errors"] = method
    by_chains = not (objective.is_exact or lesson.is_pseudo or lesson.expectation in BEST_WORLD)
    if by_chains and not course.interrupted:
        with notes.phase("mixing of chains"):
            course = doubt_chains(lesson, course, posterior)
    if options.counts == "ijgp" and options.measure_error:
        with notes.phase("error of counts"):
            bound = measure_bound(
                lesson.examples, lesson.parameters, ijgp_settings(options), weights
            )
        notes.details["count_error"] = bound.largest_error
        notes.details["bound"] = {"value": bound.value, "holds": False}
        notes.warnings.append(bound.words)
    if isinstance(objective, PseudoObjective):
        notes.warnings.extend(objective.notes)
    course = refuse_unbounded(course, weights, prior, lesson.parameters.fixed, unbounded)
    exact = objective.is_exact and options.counts == "exact"
    log_prior = posterior.log_prior(course.weights)
    return make_fit(lesson, course, weights, optimizer, prior, log_prior, exact, errors, unbounded)


def refuse_unbounded(
    course: Course,
    weights: np.ndarray,
    prior: Prior,
    fixed: np.ndarray,
    unbounded: Sequence[Unbounded],
) -> Course:
    """A course that has not converged where the objective has no maximum.

    Weights float64[num_parameters] that stand where the climb stops all weights have none either.
    """
    loose = ~fixed & ~prior.holds(len(weights)) & (np.abs(weights) >= FARTHEST)
    loose[[weight.parameter for weight in unbounded]] = True
    number = int(loose.sum())
    if not (number and course.converged):
        return course
    reason = f"{number:,} weight{' has' if number == 1 else 's have'} no finite maximum"
    return course._replace(converged=False, reason=reason)


def doubt_chains(lesson: Lesson, course: Course, posterior: Posterior) -> Course:
    """A course that has not converged where its chains know but the worlds they began near."""
    from lapis.learning.objectives import count_based, sampled_mixing
    from lapis.learning.objectives.conditional import ConditionalObjective

    objective, notes = posterior.objective, lesson.notes
    goes_back = isinstance(objective, count_based.CountObjective) and not objective.persistent
    if goes_back:
        notes.warnings.append(
            "chains go back to the data before they have gone round: the weights are near those "
            "of --objective pseudo, not of a likelihood"
        )
    if not course.converged and lesson.options.time_limit is not None:
        return course  # which has said so, and has no time
    weights = posterior.all_weights(course.weights)
    if isinstance(objective, count_based.CountObjective):
        doubtful = count_based.doubtful_weights(objective, weights)
    else:
        assert isinstance(objective, ConditionalObjective)
        doubtful = sampled_mixing.doubtful_weights(objective, weights)
    notes.details["chains_mix"] = None if goes_back else not len(doubtful)
    if not len(doubtful):
        return course
    names = lesson.parameters.names()
    shown = name_some([names[number] for number in doubtful.tolist()])
    notes.warnings.append(
        f"chains do not mix: elsewhere they stay at other counts of {shown} than near the data, "
        "so that the weights explain the worlds near the data among others near them only; "
        f"a stronger prior{', or --expectation mcsat,' if lesson.expectation != 'mcsat' else ''} "
        "may help"
    )
    if lesson.expectation != "count-map":
        notes.details["standard_errors_note"] = "those of the worlds near the data"
    reason = "chains that begin elsewhere see other counts"
    return course._replace(converged=False, reason=reason) if course.converged else course


def account_margin(lesson: Lesson, found: Margin, prior: Prior) -> Fit:
    """The value is the margin's share of the objective, not a likelihood."""
    course, parameters = found.course, lesson.parameters
    lesson.notes.details.update(gap=found.gap, proven=found.proven, cuts=found.num_cuts)
    free, size = ~parameters.fixed, len(parameters)
    away = course.weights - prior.means(size)
    log_prior = -0.5 * float(prior.precision(size)[free] @ away[free] ** 2)
    return make_fit(lesson, course, course.weights, CUTTING_PLANE, prior, log_prior, found.proven)


def make_fit(
    lesson: Lesson,
    course: Course,
    weights: np.ndarray,
    optimizer: str,
    prior: Prior,
    log_prior: float,
    exact: bool,
    errors: np.ndarray | None = None,
    unbounded: Sequence[Unbounded] = (),
) -> Fit:
    """Of weights and errors float64[num_parameters], and a course whose values have the prior."""
    return Fit(
        lesson.objective,
        optimizer,
        str(prior),
        None if course.value is None else course.value - log_prior,
        log_prior,
        exact,
        course.converged,
        course.interrupted,
        course.reason,
        course.iterations,
        course.gradient_norm,
        lesson.parameters,
        weights,
        errors,
        course.curve,
        lesson.notes.seconds,
        tuple(unbounded),
        tuple(lesson.notes.warnings),
        lesson.notes.details,
    )
