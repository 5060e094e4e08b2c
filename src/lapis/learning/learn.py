"""Weight learning: examples → objective → prior → optimiser → fit.

Any objective combines with any optimiser (`methods` lists both; `learning_run` has the defaults).
If atoms are hidden and the likelihood is exact, EM replaces the single maximisation; max-margin
weights are found by cutting planes.

The expectation says how expected counts are computed: exactly, lifted, sampled, by counts, or at
the most likely world. `auto` follows the order of inference: exact, lifted, sampled.

Weights that the data drives to infinity are detected and kept within bounds (`reliability`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.complete_world import closed_world
from lapis.data.database import Database
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Model, Predicate, Rule
from lapis.language.resolve import with_statements
from lapis.language.syntax import Atom, Not, Variable, WeightedFormula
from lapis.learning.examples import Example, build_examples
from lapis.learning.fit import FARTHEST, Fit, UnboundedWeight, name_some
from lapis.learning.learning_run import (
    CUTTING_PLANE,
    LearningRun,
    Notes,
    check_learning_options,
    choose_objective,
    choose_optimizer,
    choose_prior,
    ijgp_settings,
)
from lapis.learning.objectives.priors import Prior, expand_prior, with_prior
from lapis.learning.parameters import Parameters, share_parameters
from lapis.learning.reliability import FAR, build_fit, build_margin_fit, find_unbounded
from lapis.optimisation.checkpoint import CheckpointFile
from lapis.optimisation.history import (
    TIME_LIMIT,
    interrupted_run,
    no_iteration_error,
    reason_of_error,
    require_iteration,
)
from lapis.optimisation.objective import PenalizedObjective
from lapis.problem.problem import Problem
from lapis.registry.options import LearnOptions
from lapis.relational.numbers import sum_powers
from lapis.runtime.limits import LimitExceeded
from lapis.runtime.progress import STOPPED, Report, Stop, work_clock

if TYPE_CHECKING:
    from lapis.learning.em import Completer
    from lapis.optimisation.history import Trajectory
    from lapis.optimisation.objective import Objective

EM_ROUNDS = 200
MARGIN_CUTS = 500
SMALLEST = 1e-9  # standard deviation, relative to the mean, of numbers that are not constant
MARGIN_TOLERANCE = 1e-3  # gap, relative to the objective


def learn_weights(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str],
    options: LearnOptions,
    *,
    shown: Sequence[Database] = (),
    place: Callable[[Problem], Problem] | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Fit:
    """Learn the weights of the soft rules that are not @fixed.

    `shown` has for each database facts of the query that are evidence: a conditional likelihood is
    then that of the other query atoms given these. `place` moves the facts of complete worlds to a
    store, where they are counted.
    """
    objective = choose_objective(options, query)
    check_learning_options(options, objective)
    notes, unobserved = Notes(progress=progress), options.unobserved
    with notes.phase("data"):
        if options.unit_formulas:
            names = query or [name for name in model.uncertain_predicates if name not in unobserved]
            model = add_unit_formulas(model, names)
        examples = build_examples(
            model,
            databases,
            query,
            unobserved=unobserved,
            only_listed=options.only_listed,
            shown=shown,
        )
        if place is not None:
            examples = [place_example(example, place) for example in examples]
        parameters = share_parameters(model, [example.complete for example in examples])
    empty = find_empty_types(model, examples)
    if parameters.fixed.all():
        notes.warnings.append("nothing is learned: every rule is hard or @fixed")
    notes.warnings.extend(
        f"type {name!r} has no constants: formulas over it have no groundings" for name in empty
    )
    spread = find_spread(examples, parameters, notes) if options.standardize else None
    return learn_run(
        LearningRun(examples, parameters, objective, options, notes, progress, stop, spread)
    )


def find_spread(
    examples: Sequence[Example], parameters: Parameters, notes: Notes
) -> np.ndarray | None:
    """Return float64[num_parameters], the standard deviation of each rule's product of numbers.

    It is over the groundings of all worlds for which the numbers are known; 1 for rules without
    numbers, and the mean's size for a constant product.
    """
    sums: dict[int, np.ndarray] = {}  # of each rule: how many, their sum, that of their squares
    for example in examples:
        problem = example.complete
        world = closed_world(problem)
        for feature in problem.normal_form.features:
            if feature.numbers:
                own = sum_powers(feature, world)
                sums[feature.rule] = sums.get(feature.rule, np.zeros(3)) + own
    if not sums:
        notes.warnings.append("standardize has no effect: no formula is multiplied by numbers")
        return None
    spread = np.ones(len(parameters))
    named: dict[str, float] = {}
    for rule, (number, total, squares) in sums.items():
        mean = total / max(number, 1.0)
        size = float(np.sqrt(max(squares / max(number, 1.0) - mean**2, 0.0)))
        size = size if size > SMALLEST * abs(mean) else abs(float(mean)) or 1.0
        spread[parameters.offset[rule] : parameters.offset[rule + 1]] = size
        named[parameters.model.rules[rule].text] = size
    notes.details["standardized"] = named
    return spread


def place_example(example: Example, place: Callable[[Problem], Problem]) -> Example:
    """Move the facts of an example's complete world to a store."""
    if example.has_hidden:
        raise LapisError(
            "learning on an engine needs complete data; some atoms are unknown",
            code="engine-hidden",
            hint="leave out --engine, or state the unknown facts",
        )
    return replace(example, complete=place(example.complete))


def find_empty_types(model: Model, examples: Sequence[Example]) -> list[str]:
    """List the types without constants; refuse data in which no query atom has constants."""
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
            "there is nothing to learn from: the data has no constants of the query predicates",
            code="empty-data",
            hint="give facts, or list the constants of the types in the model",
        )
    return empty


def add_unit_formulas(model: Model, predicates: Iterable[str]) -> Model:
    """Add a unit formula for each of the predicates that has none.

    Without `P(x)` the other rules have to express how common P is. If arguments are marked
    (`P(x, v!)`) the number of true atoms is fixed, so each value gets a weight: `P(x, +v)`.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nClass(page, kind!)\\n1 Smokes(x)")
    >>> [rule.text for rule in add_unit_formulas(model, ["Smokes", "Class"]).rules]
    ['Smokes(x)', 'Class(x1, +x2)']
    """
    asked = [model.predicates[name] for name in predicates]
    missing = [p for p in asked if not any(is_unit_formula(rule, p) for rule in model.rules)]
    return with_statements(model, *[WeightedFormula(unit_formula(p)) for p in missing])


def is_unit_formula(rule: Rule, predicate: Predicate) -> bool:
    """Whether a rule is P or ¬P at distinct variables, with a weight for each marked value."""
    formula = rule.formula.body if isinstance(rule.formula, Not) else rule.formula
    if rule.hard or not isinstance(formula, Atom) or formula.predicate != predicate.name:
        return False
    names = [term.name if isinstance(term, Variable) else None for term in formula.terms]
    marked = all(names[place] in rule.plus for place in predicate.block)
    return None not in names and len(set(names)) == len(names) and marked


def unit_formula(predicate: Predicate) -> Atom:
    terms = [Variable(f"x{i + 1}", plus=i in predicate.block) for i in range(predicate.arity)]
    return Atom(predicate.name, tuple(terms))


def learn_run(run: LearningRun) -> Fit:
    """Learn by maximisation, EM or cutting planes, whichever the run needs."""
    began = work_clock()
    try:
        return learn_by_objective(run)
    except LimitExceeded as limit:
        if interrupted_run(limit) != TIME_LIMIT:
            raise
    except TooLarge as error:
        if error.code != STOPPED or (run.stop is not None and run.stop()):
            raise
    # After the first iteration, the end of the time ends stages and is no error.
    raise no_iteration_error(work_clock() - began)


def learn_by_objective(run: LearningRun) -> Fit:
    """Build the objective, and maximise it."""
    if run.options.estimate == "mean":
        from lapis.learning.bayesian import require_likelihood

        require_likelihood(run)
    if run.objective == "max-margin":
        return learn_margin(run)
    if run.has_hidden and run.is_pseudo:
        return learn_by_em(run, complete_by_sampling(run))
    with run.notes.phase("objective"):
        objective = build_or_refuse(run)
    if run.has_hidden:
        from lapis.learning.em import ExpectedCounts
        from lapis.learning.objectives.conditional import ConditionalObjective

        if isinstance(objective, ConditionalObjective) and objective.is_exact:
            return learn_by_em(run, ExpectedCounts(objective))
    return learn_by_maximizing(run, objective)


def learn_by_maximizing(run: LearningRun, objective: Objective) -> Fit:
    """Maximise the posterior from the model's weights."""
    prior = choose_prior(run, objective)
    optimizer = choose_optimizer(run, objective, prior)
    posterior = add_prior(run, objective, prior)
    with run.notes.phase("optimisation"):
        found = find_unbounded(run, posterior, prior)
        far = find_bounds(posterior, prior, found)
        start = posterior.free_weights(initial_weights(run))
        trajectory = maximize_posterior(run, posterior, optimizer, start, far=far)
        trajectory = scale_perceptron(run, trajectory, optimizer, prior)
        if run.expectation == "count-maxwalksat" and "rate" not in run.options.of_optimizer:
            run.notes.warnings.append(
                "most likely worlds leave the length of the weights open: it depends on the rate; "
                "--expectation count-map gives weights the scale of its noise"
            )
        if run.expectation == "map":
            warn_unmoved(run, posterior, start, trajectory)
    require_iteration(trajectory, sum(run.notes.seconds.values()))
    trajectory = add_remedy(run, trajectory, optimizer, objective.is_fixed)
    fit = build_fit(run, trajectory, posterior, optimizer, prior, found)
    return estimate(run, posterior, prior, fit)


def estimate(run: LearningRun, posterior: PenalizedObjective, prior: Prior, fit: Fit) -> Fit:
    """Return the fit at the mode, or the fit at the mean of the posterior."""
    if run.options.estimate == "mode":
        return fit
    from lapis.learning.bayesian import estimate_mean, without_draws

    try:
        return estimate_mean(run, posterior, prior, fit)
    except TooLarge as error:
        reason_of_error(error)
    return without_draws(fit)


def learn_by_em(run: LearningRun, completer: Completer) -> Fit:
    """Run EM; each M-step is a maximisation.

    A sampled likelihood is maximised directly instead: an M-step would use no more of the samples
    than its gradient, the difference of the expected counts with and without the answers.
    """
    from lapis.learning.em import fit_em

    options, notes = run.options, run.notes
    start = initial_weights(run)
    objective = completer.complete(start).objective
    prior = choose_prior(run, objective)
    optimizer = choose_optimizer(run, objective, prior)

    def maximise(
        posterior: PenalizedObjective, start: np.ndarray, tolerance: float, seconds: float | None
    ) -> Trajectory:
        own = replace(
            options, max_iterations=None, tolerance=tolerance, time_limit=seconds, checkpoint=None
        )
        step, far = replace(run, options=own, progress=None), find_bounds(posterior, prior)
        return maximize_posterior(step, posterior, optimizer, start, far=far)

    with notes.phase("optimisation"):
        trajectory = fit_em(
            completer,
            run.parameters,
            prior,
            start,
            maximise,
            max_rounds=options.max_iterations or EM_ROUNDS,
            tolerance=options.tolerance,
            time_limit=options.time_limit,
            progress=run.progress,
            should_stop=run.stop,
            checkpoint=CheckpointFile(options.checkpoint, f"em+{optimizer}", run.fingerprint),
        )
    require_iteration(trajectory, sum(notes.seconds.values()))
    # The objective of the observed data if it has a value, else that of the last completions.
    observed = completer.observed or completer.complete(trajectory.weights).objective
    posterior = add_prior(run, observed, prior)
    notes.details["em"] = True
    notes.details["standard_errors_note"] = "as if hidden atoms were known"
    own = trajectory._replace(weights=posterior.free_weights(trajectory.weights))
    found = find_unbounded(run, posterior, prior)
    fit = build_fit(run, own, posterior, f"em+{optimizer}", prior, found)
    return estimate(run, posterior, prior, replace(fit, exact=completer.is_exact))


def learn_margin(run: LearningRun) -> Fit:
    """Learn max-margin weights by cutting planes."""
    from lapis.learning.max_margin import fit_max_margin

    options, prior = run.options, choose_prior(run, None)
    with run.notes.phase("optimisation"):
        found = fit_max_margin(
            run.examples,
            run.parameters,
            prior,
            slack_cost=options.margin,
            tolerance=options.tolerance or MARGIN_TOLERANCE,
            max_iterations=options.max_iterations or MARGIN_CUTS,
            time_limit=options.time_limit,
            max_memory=options.max_memory,
            seed=options.seed,
            progress=run.progress,
            should_stop=run.stop,
            checkpoint=CheckpointFile(options.checkpoint, CUTTING_PLANE, run.fingerprint),
        )
    rounds = found.trajectory.iterations - 1  # without that at the start
    ended = found.trajectory._replace(iterations=max(0, rounds))
    require_iteration(ended, sum(run.notes.seconds.values()))
    return build_margin_fit(run, found, prior)


def maximize_posterior(
    run: LearningRun,
    posterior: PenalizedObjective,
    optimizer: str,
    start: np.ndarray,
    *,
    far: np.ndarray | None = None,
) -> Trajectory:
    """Maximise from a start float64[num_free], within ±far float64[num_free]."""
    from lapis.optimisation.maximize import make_optimizer, maximize

    options = run.options
    if far is not None:
        posterior = replace(posterior, lower=-far, upper=far)
    return maximize(
        posterior,
        make_optimizer(optimizer, **options.of_optimizer),
        start,
        max_iterations=options.max_iterations,
        tolerance=options.tolerance,
        time_limit=options.time_limit,
        progress=run.progress,
        should_stop=run.stop,
        checkpoint=options.checkpoint,
        fingerprint=run.fingerprint,
    )


def find_bounds(
    posterior: PenalizedObjective, prior: Prior, unbounded: Sequence[UnboundedWeight] = ()
) -> np.ndarray | None:
    """float64[num_free], the largest |w| that is tried; None if the prior bounds all weights."""
    held = expand_prior(prior, len(posterior.base)).holds
    if held[posterior.free].all():
        return None
    far = np.where(held, np.inf, FARTHEST)
    far[[weight.parameter for weight in unbounded]] = FAR
    return far[posterior.free]


def scale_perceptron(
    run: LearningRun, trajectory: Trajectory, optimizer: str, prior: Prior
) -> Trajectory:
    """Scale a perceptron's weights to the length of greatest likelihood, unless a rate was given.

    Most likely worlds do not depend on the length, except with fixed weights or a prior around
    other weights; with them the weights stay as they are.
    """
    parameters, largest = run.parameters, np.abs(trajectory.weights).max(initial=0.0)
    has_length = parameters.initial[parameters.fixed].any() or np.any(prior.mean)
    by_world = optimizer in ("vp", "vp-pw") and run.expectation == "map"
    if not by_world or has_length or "rate" in run.options.of_optimizer or largest == 0.0:
        return trajectory
    if trajectory.interrupted:
        run.notes.warnings.append(
            "the length of the weights depends on the rate: learning was stopped before the "
            "length of greatest likelihood was found"
        )
        return trajectory
    from lapis.optimisation.maximize import find_length

    posterior = add_prior(run, build_conditional(run, "auto"), prior)
    direction = trajectory.weights / largest
    length = find_length(posterior, direction, should_stop=run.stop)
    run.notes.details["length"] = length
    return trajectory._replace(weights=length * direction)


def warn_unmoved(
    run: LearningRun, posterior: PenalizedObjective, start: np.ndarray, trajectory: Trajectory
) -> None:
    """Warn of weights that most likely worlds left at 0.

    At 0 true and false tie, and ties are false. If the data has no true atom there is then no
    error, though the model gives every atom probability ½.
    """
    still = (start == 0.0) & (trajectory.weights == 0.0) & (posterior.l1 is None)
    if still.any():
        names = run.parameters.names()
        shown = name_some([names[number] for number in posterior.free[still].tolist()])
        run.notes.warnings.append(
            f"no most likely world was wrong about {shown}: the weight is still 0, which means "
            "probability 1/2; a likelihood, without --expectation map, learns how rare it is"
        )


def add_remedy(
    run: LearningRun, trajectory: Trajectory, optimizer: str, is_fixed: bool
) -> Trajectory:
    """Name the option to set in the reason of a trajectory that ended at a limit."""
    options, reason = run.options, trajectory.reason
    if trajectory.converged or trajectory.interrupted:
        return trajectory
    if reason == "time limit" and options.time_limit:
        return trajectory._replace(reason=f"{reason}; set --time-limit {4 * options.time_limit:g}")
    if reason != f"{trajectory.iterations} iterations":
        return trajectory
    more = f"--max-iterations {4 * trajectory.iterations}"
    if run.expectation == "map":
        remedy = "most likely worlds may cycle; set --optimizer pscg, which maximises a likelihood"
        if trajectory.window_change is not None:
            accepted = float(f"{1.5 * trajectory.window_change:.1g}")
            remedy += f", or --tolerance {accepted:g} to accept this average"
    elif is_fixed:
        remedy = f"set {more}, or --optimizer lbfgs"
    elif optimizer == "pscg":
        remedy = f"set {more}, or --num-samples {4 * options.num_samples}"
    else:
        remedy = f"set {more}, or --optimizer pscg"
    return trajectory._replace(reason=f"{reason}; {remedy}")


def add_prior(run: LearningRun, objective: Objective, prior: Prior) -> PenalizedObjective:
    return with_prior(objective, prior, run.parameters.initial, run.parameters.fixed)


def initial_weights(run: LearningRun) -> np.ndarray:
    """float64[num_parameters], the start of the search."""
    if not run.has_hidden:
        return run.parameters.initial
    from lapis.learning.em import SPREAD, WIDE_SPREAD, start_weights

    spread = WIDE_SPREAD if run.is_pseudo else SPREAD
    return start_weights(run.parameters, run.examples, run.options.seed, spread)


def complete_by_sampling(run: LearningRun) -> Completer:
    """Build the E-step of a pseudo-likelihood."""
    from lapis.learning.em import pseudo_completions

    if run.options.counts == "ijgp":
        raise LapisError(
            "estimated counts need complete data; some atoms are unknown",
            code="incomplete-data",
            hint="leave out --counts, or state the unknown facts",
        )
    with run.notes.phase("objective"):
        return pseudo_completions(
            run.examples,
            run.parameters,
            weighted=run.objective == "weighted-pseudo",
            max_memory=run.options.max_memory,
            seed=run.options.seed,
        )


def build_or_refuse(run: LearningRun) -> Objective:
    """Build the objective; for estimate "mean" a refusal names objectives with a posterior."""
    try:
        return build_objective(run)
    except TooLarge as error:
        if run.options.estimate == "mode" or error.code == STOPPED:
            raise
        from lapis.learning.bayesian import too_large_to_sum

        raise too_large_to_sum(error) from None


def build_objective(run: LearningRun) -> Objective:
    """Build the objective from its name and the expectation."""
    if run.is_pseudo:
        return build_pseudo(run)
    run.notes.details["expectation"] = run.expectation
    match run.expectation:
        case "count-gibbs" | "count-map" | "count-maxwalksat":
            return build_by_counts(run, run.expectation)
        case "lifted":
            return build_lifted(run)
        case "auto" | "exact" if run.objective == "likelihood":
            return lift_or_ground(run)
        case "auto":
            return build_planned(run)
    return build_conditional(run, run.expectation)


def lift_or_ground(run: LearningRun) -> Objective:
    """Lift the likelihood; ground it, with a warning, if it cannot be lifted."""
    if run.has_hidden:
        return build_conditional(run, run.expectation)
    from lapis.inference.plan import MAX_ELEMENTS

    try:
        return build_lifted(run, MAX_ELEMENTS)
    except TooLarge as error:
        if error.code == STOPPED:
            raise
        run.notes.warnings.append(f"{error.message}; the networks are grounded instead")
    return build_conditional(run, run.expectation)


def build_planned(run: LearningRun) -> Objective:
    """Build the conditional likelihood in the order of inference: exact, lifted, sampled.

    With very many groundings, lifting is tried before grounding.
    """
    from lapis.inference.plan import MAX_ELEMENTS, reason_to_lift_first

    refused: TooLarge | None = None
    grounded: Objective | None = None
    if not any(reason_to_lift_first(example.free) for example in run.examples):
        try:
            grounded = build_conditional(run, "auto")
        except TooLarge as error:
            if error.code == STOPPED:
                raise
            refused = error
        if grounded is not None and (grounded.is_exact or run.has_hidden):
            return grounded
    if not run.has_hidden:
        try:
            return build_lifted(run, MAX_ELEMENTS)
        except TooLarge as error:
            if error.code == STOPPED:
                raise
    if refused is not None:
        raise refused
    return grounded or build_conditional(run, "auto")


def build_lifted(run: LearningRun, max_elements: int | None = None) -> Objective:
    """Lift the likelihood; at most `max_elements` constants may be distinguished.

    Raises TooLarge if it cannot be lifted.
    """
    if run.has_hidden:
        raise LapisError(
            "a lifted likelihood does not support hidden atoms",
            code="learn-option",
            hint="leave out --expectation",
        )
    from lapis.learning.objectives.lifted import lifted_objective

    objective = lifted_objective(run.examples, run.parameters, max_elements)
    run.notes.details["methods"] = ["lifted"]
    run.notes.warnings.extend(f"lifted in part: {why}" for why in objective.reasons)
    return objective


def build_pseudo(run: LearningRun) -> Objective:
    options, weighted = run.options, run.objective == "weighted-pseudo"
    if options.counts == "ijgp":
        from lapis.learning.objectives.count_pseudo import count_pseudo_objective

        return count_pseudo_objective(
            run.examples,
            run.parameters,
            ijgp=ijgp_settings(options),
            weighted=weighted,
            random_state=options.seed,
        )
    from lapis.learning.objectives.pseudo import pseudo_objective

    return pseudo_objective(
        run.examples, run.parameters, weighted=weighted, random_state=options.seed
    )


def build_by_counts(run: LearningRun, expectation: str) -> Objective:
    from lapis.learning.objectives.count_based import WALK_OF, count_objective

    options = run.options
    objective = count_objective(
        run.examples,
        run.parameters,
        ijgp=ijgp_settings(options) if options.counts == "ijgp" else None,
        expectation=WALK_OF[expectation],
        num_steps=options.num_steps,
        num_records=options.num_records,
        start=options.chain_start,
        seed=options.seed,
    )
    run.notes.details["walk"] = {
        "method": objective.name,
        "steps": sum(world.num_steps for world in objective.worlds),
        "records": sum(map(objective.num_records_of, objective.worlds)),
        "start": objective.start,
    }
    steps = run.notes.details["walk"]["steps"]
    num_sites = sum(world.num_sites for world in objective.worlds)
    if objective.start == "random" and steps < num_sites:
        run.notes.warnings.append(
            f"{steps:,} flips from random worlds of {num_sites:,} atoms do not reach most likely "
            "worlds; set more --num-steps, or --chain-start last"
        )
    return objective


def build_conditional(run: LearningRun, expectation: str) -> Objective:
    from lapis.learning.objectives.conditional import conditional_objective

    options = run.options
    objective = conditional_objective(
        run.examples,
        run.parameters,
        expectation=expectation,
        num_samples=options.num_samples,
        num_chains=2 if len(run.examples) == 1 else 1,
        max_memory=options.max_memory,
        seed=options.seed,
        progress=run.progress,
    )
    run.notes.details.setdefault("methods", list(objective.methods))
    return objective
