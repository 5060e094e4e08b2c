"""A run's objective, by its name and by how expected counts are had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapis.errors import LapisError, TooLarge
from lapis.inference.plan import MAX_ELEMENTS, is_long
from lapis.learning.learning_run import LearningRun
from lapis.learning.options import ijgp_settings

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective


def build_objective(run: LearningRun) -> Objective:
    """The objective by its name, and by the expectation: how its counts are computed."""
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
    """The likelihood without grounding; grounded, with a warning, if it cannot be lifted."""
    if run.has_hidden:
        return build_conditional(run, run.expectation)
    try:
        return build_lifted(run, MAX_ELEMENTS)
    except TooLarge as error:
        run.notes.warnings.append(f"{error.message}; the networks are grounded instead")
    return build_conditional(run, run.expectation)


def build_planned(run: LearningRun) -> Objective:
    """The conditional likelihood in the order of inference: exact, lifted, sampled.

    Where there are very many groundings it is lifted before it is grounded.
    """
    refused: TooLarge | None = None
    grounded: Objective | None = None
    if not any(is_long(example.free) for example in run.examples):
        try:
            grounded = build_conditional(run, "auto")
        except TooLarge as error:
            refused = error
        if grounded is not None and (grounded.is_exact or run.has_hidden):
            return grounded
    if not run.has_hidden:
        try:
            return build_lifted(run, MAX_ELEMENTS)
        except TooLarge:
            pass
    if refused is not None:
        raise refused
    return grounded or build_conditional(run, "auto")


def build_lifted(run: LearningRun, max_elements: int | None = None) -> Objective:
    """The likelihood without grounding; at most `max_elements` constants may be told apart.

    Raises TooLarge if it cannot be lifted.
    """
    if run.has_hidden:
        raise LapisError(
            "a likelihood with hidden atoms is not lifted: what is shown tells constants apart",
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
            "worlds; more --num-steps, or --chain-start last, would come nearer"
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
    )
    run.notes.details.setdefault("methods", list(objective.methods))
    return objective
