"""A lesson's objective, by its name and by how expected counts are had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapis.errors import LapisError, TooLarge
from lapis.inference.plan import MAX_ELEMENTS
from lapis.learning.lesson import Lesson
from lapis.learning.options import ijgp_settings

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective


def build_objective(lesson: Lesson) -> Objective:
    if lesson.is_pseudo:
        return build_pseudo(lesson)
    lesson.notes.details["expectation"] = lesson.expectation
    if lesson.expectation.startswith("count-"):
        return build_by_counts(lesson, lesson.expectation)
    if lesson.objective == "likelihood" and lesson.expectation in ("auto", "exact", "lifted"):
        lifted = build_lifted(lesson)
        if lifted is not None:
            return lifted
    return build_conditional(lesson, lesson.expectation)


def build_lifted(lesson: Lesson) -> Objective | None:
    """The likelihood without grounding; None, with a warning, where it cannot be had so.

    Raises instead if it was asked for by name.
    """
    by_name = lesson.expectation == "lifted"
    if lesson.has_hidden and by_name:
        raise LapisError(
            "a likelihood with hidden atoms is not lifted: what is shown tells constants apart",
            code="learn-option",
            hint="leave out --expectation",
        )
    if lesson.has_hidden:
        return None
    from lapis.learning.objectives.lifted import lifted_objective

    try:
        most = None if by_name else MAX_ELEMENTS
        objective = lifted_objective(lesson.examples, lesson.parameters, most)
    except TooLarge as error:
        if by_name:
            raise
        lesson.notes.warnings.append(f"{error.message}; the networks are grounded instead")
        return None
    lesson.notes.details["methods"] = ["lifted"]
    lesson.notes.warnings.extend(f"lifted in part: {why}" for why in objective.reasons)
    return objective


def build_pseudo(lesson: Lesson) -> Objective:
    options, weighted = lesson.options, lesson.objective == "weighted-pseudo"
    if options.counts == "ijgp":
        from lapis.learning.objectives.count_pseudo import count_pseudo_objective

        return count_pseudo_objective(
            lesson.examples,
            lesson.parameters,
            ijgp=ijgp_settings(options),
            weighted=weighted,
            random_state=options.seed,
        )
    from lapis.learning.objectives.pseudo import pseudo_objective

    return pseudo_objective(
        lesson.examples, lesson.parameters, weighted=weighted, random_state=options.seed
    )


def build_by_counts(lesson: Lesson, expectation: str) -> Objective:
    from lapis.learning.objectives.count_based import WALK_OF, count_objective

    options = lesson.options
    objective = count_objective(
        lesson.examples,
        lesson.parameters,
        ijgp=ijgp_settings(options) if options.counts == "ijgp" else None,
        expectation=WALK_OF[expectation],
        num_steps=options.num_steps,
        num_records=options.num_records,
        start=options.chain_start,
        seed=options.seed,
    )
    lesson.notes.details["walk"] = {
        "method": objective.name,
        "steps": sum(world.num_steps for world in objective.worlds),
        "records": sum(map(objective.num_records_of, objective.worlds)),
        "start": objective.start,
    }
    steps = lesson.notes.details["walk"]["steps"]
    num_sites = sum(world.num_sites for world in objective.worlds)
    if objective.start == "random" and steps < num_sites:
        lesson.notes.warnings.append(
            f"{steps:,} flips from random worlds of {num_sites:,} atoms do not reach most likely "
            "worlds; more --num-steps, or --chain-start last, would come nearer"
        )
    return objective


def build_conditional(lesson: Lesson, expectation: str) -> Objective:
    from lapis.learning.objectives.conditional import conditional_objective

    options = lesson.options
    objective = conditional_objective(
        lesson.examples,
        lesson.parameters,
        expectation=expectation,
        num_samples=options.num_samples,
        num_chains=2 if len(lesson.examples) == 1 else 1,
        max_memory=options.max_memory,
        seed=options.seed,
    )
    lesson.notes.details.setdefault("methods", list(objective.methods))
    return objective
