"""A run's objective, by its name and by how expected counts are had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapis.errors import LapisError, TooLarge
from lapis.inference.plan import MAX_ELEMENTS
from lapis.learning.learning_run import LearningRun

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective


def build_objective(run: LearningRun) -> Objective:
    if run.is_pseudo:
        return build_pseudo(run)
    run.notes.details["expectation"] = run.expectation
    if run.expectation.startswith("count-"):
        return build_by_counts(run, run.expectation)
    if run.objective == "likelihood" and run.expectation in ("auto", "exact", "lifted"):
        lifted = build_lifted(run)
        if lifted is not None:
            return lifted
    return build_conditional(run, run.expectation)


def build_lifted(run: LearningRun) -> Objective | None:
    """The likelihood without grounding; None, with a warning, where it cannot be had so.

    Raises instead if it was asked for by name.
    """
    by_name = run.expectation == "lifted"
    if run.has_hidden and by_name:
        raise LapisError(
            "a likelihood with hidden atoms is not lifted: what is shown tells constants apart",
            code="learn-option",
            hint="leave out --expectation",
        )
    if run.has_hidden:
        return None
    from lapis.learning.objectives.lifted import lifted_objective

    try:
        most = None if by_name else MAX_ELEMENTS
        objective = lifted_objective(run.examples, run.parameters, most)
    except TooLarge as error:
        if by_name:
            raise
        run.notes.warnings.append(f"{error.message}; the networks are grounded instead")
        return None
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
            ijgp=options.ijgp,
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
        ijgp=options.ijgp if options.counts == "ijgp" else None,
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
            "worlds; more --steps, or --chain-start last, would come nearer"
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
