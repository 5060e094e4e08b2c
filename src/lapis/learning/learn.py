"""Learning weights: examples → objective → prior → optimiser → account.

Objectives and optimisers are separate and combine (`methods` lists both; `lesson` says what is
chosen where nothing is said). Where atoms are hidden and the likelihood is exact, rounds of EM
take the place of one climb; max-margin weights have cutting planes of their own.

A weight that the data drives to infinity is found and kept within bounds (`reliability`); without
a prior it would end wherever the optimiser got tired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Model
from lapis.learning.account import account_climb, account_margin
from lapis.learning.em import (
    SPREAD,
    WIDE_SPREAD,
    Completer,
    ExpectedCounts,
    fit_em,
    start_weights,
)
from lapis.learning.examples import Example, build_examples
from lapis.learning.fit import FARTHEST, Fit, Unbounded
from lapis.learning.lesson import (
    Lesson,
    Notes,
    choose_objective,
    choose_optimizer,
    choose_prior,
)
from lapis.learning.objectives.building import build_conditional, build_objective
from lapis.learning.objectives.conditional import ConditionalObjective
from lapis.learning.objectives.posterior import Posterior, with_prior
from lapis.learning.objectives.priors import Prior
from lapis.learning.options import CUTTING_PLANE, check_together, check_words
from lapis.learning.parameters import Parameters, share_parameters
from lapis.learning.reliability import FAR, find_unbounded
from lapis.learning.separability import name_some
from lapis.learning.unit_formulas import add_units
from lapis.optimisation.checkpoint import Keeper
from lapis.problem.problem import Problem
from lapis.progress import Report, Stop
from lapis.registry.options import LearnOptions

if TYPE_CHECKING:
    from lapis.optimisation.logbook import Course
    from lapis.optimisation.objective import Objective

EM_ROUNDS = 200
MARGIN_CUTS = 500
MARGIN_TOLERANCE = 1e-3  # of the objective


def learn_weights(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str] = (),
    options: LearnOptions | None = None,
    *,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
    unit_formulas: bool = False,
    place: Callable[[Problem], Problem] | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Fit:
    """Weights for the soft rules of a model that are not @fixed.

    `place` puts the facts of complete worlds where they are counted, as in a database.
    """
    options = options or LearnOptions()
    check_words(options)
    name = choose_objective(options, query)
    check_together(options, name)
    notes = Notes()
    with notes.phase("data"):
        if unit_formulas:
            model = add_units(model, query or [n for n in model.predicates if n not in unobserved])
        examples = build_examples(
            model, databases, query, unobserved=unobserved, only_listed=only_listed
        )
        if place is not None:
            examples = [place_example(example, place) for example in examples]
        parameters = share_parameters(model, [example.complete for example in examples])
    empty = empty_types(model, examples)
    if parameters.fixed.all():
        notes.warnings.append("nothing is learned: every rule is hard or @fixed")
    notes.warnings.extend(
        f"type {name!r} has no constants: formulas over it have no groundings" for name in empty
    )
    return learn(Lesson(examples, parameters, name, options, notes, progress, stop))


def place_example(example: Example, place: Callable[[Problem], Problem]) -> Example:
    """The example with the facts of its complete world elsewhere; none may be unobserved."""
    if example.has_hidden:
        raise LapisError(
            "an engine counts in complete worlds, and the data hides atoms",
            code="engine-hidden",
            hint="leave out --engine, or say what is hidden",
        )
    return replace(example, complete=place(example.complete))


def learn(lesson: Lesson) -> Fit:
    if lesson.options.estimate == "mean":
        from lapis.learning.bayesian import require_likelihood

        require_likelihood(lesson)
    if lesson.objective == "max-margin":
        return learn_margin(lesson)
    if lesson.has_hidden and lesson.is_pseudo:
        return learn_by_rounds(lesson, sampled_completer(lesson))
    with lesson.notes.phase("objective"):
        objective = build_or_refuse(lesson)
    if lesson.has_hidden and isinstance(objective, ConditionalObjective) and objective.is_exact:
        return learn_by_rounds(lesson, ExpectedCounts(objective))
    return learn_by_climbing(lesson, objective)


def build_or_refuse(lesson: Lesson) -> Objective:
    """The objective; a refusal says what else has a posterior, where that was asked for."""
    try:
        return build_objective(lesson)
    except TooLarge as error:
        if lesson.options.estimate == "mode":
            raise
        from lapis.learning.bayesian import too_large_to_sum

        raise too_large_to_sum(error) from None


def learn_by_climbing(lesson: Lesson, objective: Objective) -> Fit:
    prior = choose_prior(lesson, objective)
    optimizer = choose_optimizer(lesson, objective, prior)
    posterior = posterior_of(lesson, objective, prior)
    with lesson.notes.phase("optimisation"):
        found = find_unbounded(posterior, lesson.parameters, prior, lesson.notes.warnings)
        far = farthest(posterior, prior, found)
        start = posterior.free_weights(start_of(lesson))
        course = climb_posterior(lesson, posterior, optimizer, start, far=far)
        course = give_length(lesson, course, optimizer, prior)
        if lesson.expectation == "count-maxwalksat" and "rate" not in lesson.options.of_optimizer:
            lesson.notes.warnings.append(
                "most likely worlds leave the length of the weights open: it is that of the steps "
                "made; --expectation count-map gives weights the scale of its noise"
            )
        if lesson.expectation == "map":
            lesson.notes.warnings.extend(unmoved(lesson.parameters, posterior, start, course))
    course = name_remedy(lesson, course, optimizer, objective.is_fixed)
    fit = account_climb(lesson, course, posterior, optimizer, prior, found)
    return estimate(lesson, posterior, prior, fit)


def estimate(lesson: Lesson, posterior: Posterior, prior: Prior, fit: Fit) -> Fit:
    """The fit at the mode as it is, or the one at the mean of the posterior."""
    if lesson.options.estimate == "mode":
        return fit
    from lapis.learning.bayesian import estimate_mean

    return estimate_mean(lesson, posterior, prior, fit)


def learn_by_rounds(lesson: Lesson, completer: Completer) -> Fit:
    """Rounds of EM; each M-step is a climb of its own.

    A sampled likelihood is climbed directly instead: its gradient, the expected counts with
    the answers less those without, is all that an M-step would use of the samples.
    """
    options, notes = lesson.options, lesson.notes
    start = start_of(lesson)
    objective = completer.complete(start).objective
    prior = choose_prior(lesson, objective)
    optimizer = choose_optimizer(lesson, objective, prior)

    def maximise(
        posterior: Posterior, start: np.ndarray, tolerance: float, seconds: float | None
    ) -> Course:
        own = replace(
            options, max_iterations=None, tolerance=tolerance, time_limit=seconds, checkpoint=None
        )
        step = replace(lesson, options=own, progress=None)
        return climb_posterior(step, posterior, optimizer, start, far=farthest(posterior, prior))

    with notes.phase("optimisation"):
        course = fit_em(
            completer,
            lesson.parameters,
            prior,
            start,
            maximise,
            max_rounds=options.max_iterations or EM_ROUNDS,
            tolerance=options.tolerance,
            time_limit=options.time_limit,
            progress=lesson.progress,
            should_stop=lesson.stop,
            keeper=Keeper(options.checkpoint, f"em+{optimizer}", lesson.fingerprint),
        )
    # What was climbed where it has a value, the last completions where it has none.
    observed = completer.observed or completer.complete(course.weights).objective
    posterior = posterior_of(lesson, observed, prior)
    notes.details["em"] = True
    notes.details["standard_errors_note"] = "as if what was hidden were known"
    own = course._replace(weights=posterior.free_weights(course.weights))
    found = find_unbounded(posterior, lesson.parameters, prior, notes.warnings)
    fit = account_climb(lesson, own, posterior, f"em+{optimizer}", prior, found)
    return estimate(lesson, posterior, prior, replace(fit, exact=completer.is_exact))


def learn_margin(lesson: Lesson) -> Fit:
    """Cutting planes."""
    from lapis.learning.max_margin import fit_max_margin

    options, prior = lesson.options, choose_prior(lesson, None)
    with lesson.notes.phase("optimisation"):
        found = fit_max_margin(
            lesson.examples,
            lesson.parameters,
            prior,
            slack_cost=options.margin,
            tolerance=options.tolerance or MARGIN_TOLERANCE,
            max_iterations=options.max_iterations or MARGIN_CUTS,
            time_limit=options.time_limit,
            max_memory=options.max_memory,
            seed=options.seed,
            progress=lesson.progress,
            should_stop=lesson.stop,
            keeper=Keeper(options.checkpoint, CUTTING_PLANE, lesson.fingerprint),
        )
    return account_margin(lesson, found, prior)


def climb_posterior(
    lesson: Lesson,
    posterior: Posterior,
    optimizer: str,
    start: np.ndarray,
    *,
    far: np.ndarray | None = None,
) -> Course:
    """From a start float64[num_free], within ±far float64[num_free]."""
    from lapis.optimisation.climb import climb, make_optimizer

    options = lesson.options
    return climb(
        posterior,
        make_optimizer(optimizer, **options.of_optimizer),
        start,
        l1=posterior.l1,
        lower=None if far is None else -far,
        upper=far,
        max_iterations=options.max_iterations,
        tolerance=options.tolerance,
        time_limit=options.time_limit,
        progress=lesson.progress,
        should_stop=lesson.stop,
        checkpoint=options.checkpoint,
        fingerprint=lesson.fingerprint,
    )


def farthest(
    posterior: Posterior, prior: Prior, unbounded: Sequence[Unbounded] = ()
) -> np.ndarray | None:
    """float64[num_free], where weights are stopped; None where a prior holds all of them."""
    held = prior.holds(len(posterior.base))
    if held[posterior.free].all():
        return None
    far = np.where(held, np.inf, FARTHEST)
    far[[weight.parameter for weight in unbounded]] = FAR
    return far[posterior.free]


def give_length(lesson: Lesson, course: Course, optimizer: str, prior: Prior) -> Course:
    """A perceptron's weights at the length of greatest likelihood, unless a rate was given.

    Where fixed weights, or a prior around other weights, tell long ones from short ones they stay,
    and where counts alone are had: their noise gives weights a scale.
    """
    parameters, largest = lesson.parameters, np.abs(course.weights).max(initial=0.0)
    has_length = parameters.initial[parameters.fixed].any() or np.any(prior.mean)
    by_world = optimizer in ("vp", "vp-pw") and lesson.expectation == "map"
    if not by_world or has_length or "rate" in lesson.options.of_optimizer or largest == 0.0:
        return course
    if course.interrupted:
        lesson.notes.warnings.append(
            "the weights are as long as the rate made them: learning was stopped before their "
            "length was found"
        )
        return course
    from lapis.optimisation.ray import find_length

    posterior = posterior_of(lesson, build_conditional(lesson, "auto"), prior)
    direction = course.weights / largest
    length = find_length(posterior, direction, l1=posterior.l1, should_stop=lesson.stop)
    lesson.notes.details["length"] = length
    return course._replace(weights=length * direction)


def unmoved(
    parameters: Parameters, posterior: Posterior, start: np.ndarray, course: Course
) -> list[str]:
    """A warning of the weights that most likely worlds left at 0.

    There true and false tie, and the world of a tie is that of the data where nothing is true:
    no mistake is seen, though the model calls every atom a coin.
    """
    still = (start == 0.0) & (course.weights == 0.0) & (posterior.l1 is None)
    if not still.any():
        return []
    names = parameters.names()
    shown = name_some([names[number] for number in posterior.free[still].tolist()])
    return [
        f"no most likely world was wrong about {shown}: the weight is still 0, which leaves what "
        "it is about to chance; a likelihood, without --expectation map, tells how rare that is"
    ]


def name_remedy(lesson: Lesson, course: Course, optimizer: str, is_fixed: bool) -> Course:
    """A course that ended at a limit, with the option to set for it to converge."""
    options, reason = lesson.options, course.reason
    if course.converged or course.interrupted:
        return course
    if reason == "time limit" and options.time_limit:
        return course._replace(reason=f"{reason}; set --time-limit {4 * options.time_limit:g}")
    if reason != f"{course.iterations} iterations":
        return course
    more = f"--max-iterations {4 * course.iterations}"
    if lesson.expectation == "map":
        remedy = (
            "most likely worlds need not settle; set --optimizer pscg, which climbs a likelihood"
        )
        if course.window_change is not None:
            accepted = float(f"{1.5 * course.window_change:.1g}")
            remedy += f", or --tolerance {accepted:g} to take this average"
    elif is_fixed:
        remedy = f"set {more}, or --optimizer lbfgs"
    elif optimizer == "pscg":
        remedy = f"set {more}, or --num-samples {4 * options.num_samples}"
    else:
        remedy = f"set {more}, or --optimizer pscg"
    return course._replace(reason=f"{reason}; {remedy}")


def posterior_of(lesson: Lesson, objective: Objective, prior: Prior) -> Posterior:
    return with_prior(objective, prior, lesson.parameters.initial, lesson.parameters.fixed)


def start_of(lesson: Lesson) -> np.ndarray:
    """float64[num_parameters], where the search begins."""
    if not lesson.has_hidden:
        return lesson.parameters.initial
    spread = WIDE_SPREAD if lesson.is_pseudo else SPREAD
    return start_weights(lesson.parameters, lesson.examples, lesson.options.seed, spread)


def sampled_completer(lesson: Lesson) -> Completer:
    from lapis.learning.em_completions import pseudo_completions

    if lesson.options.counts == "ijgp":
        raise LapisError(
            "counts are estimated in complete worlds, and the data hides atoms",
            code="incomplete-data",
            hint="leave out --counts, or say what is hidden",
        )
    with lesson.notes.phase("objective"):
        return pseudo_completions(
            lesson.examples,
            lesson.parameters,
            weighted=lesson.objective == "weighted-pseudo",
            max_memory=lesson.options.max_memory,
            seed=lesson.options.seed,
        )


def empty_types(model: Model, examples: Sequence[Example]) -> list[str]:
    """The types without constants in any example; refuses data in which nothing can be asked."""
    empty = [
        name
        for name in model.types
        if not any(len(example.complete.domains[name]) for example in examples)
    ]
    asked = [
        known.predicate
        for example in examples
        for known in example.free.evidence.values()
        if known.open or len(known.unknown)
    ]
    if all(set(predicate.types) & set(empty) for predicate in asked):
        raise LapisError(
            "there is nothing to learn from: the data names no constants of what is asked",
            code="empty-data",
            hint="give facts, or list the constants of the types in the model",
        )
    return empty
