"""A lesson's objective, by its name and by how expected counts are had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lapis.learning.lesson import Lesson

if TYPE_CHECKING:
    from lapis.optimisation.objective import Objective


def build_objective(lesson: Lesson) -> Objective:
    if lesson.is_pseudo:
        return build_pseudo(lesson)
    lesson.notes.details["expectation"] = lesson.expectation
    if lesson.expectation.startswith("count-"):
        return build_by_counts(lesson, lesson.expectation)
    return build_conditional(lesson, lesson.expectation)


def build_sampled(lesson: Lesson) -> Objective:
    """The likelihood itself, exact or sampled, where the lesson's takes the most likely world."""
    if lesson.expectation.startswith("count-"):
        return build_by_counts(lesson, "count-gibbs")
    return build_conditional(lesson, "auto")


def build_pseudo(lesson: Lesson) -> Objective:
    options, weighted = lesson.options, lesson.objective == "weighted-pseudo"
    if options.counts == "ijgp":
        from lapis.learning.objectives.count_pseudo import count_pseudo_objective

        return count_pseudo_objective(
            lesson.examples,
            lesson.parameters,
            ibound=options.ibound,
            weighted=weighted,
            random_state=options.seed,
        )
    from lapis.learning.objectives.pseudo import pseudo_objective

    return pseudo_objective(
        lesson.examples, lesson.parameters, weighted=weighted, random_state=options.seed
    )


def build_by_counts(lesson: Lesson, expectation: str) -> Objective:
    from lapis.learning.objectives.count_based import count_objective

    options = lesson.options
    return count_objective(
        lesson.examples,
        lesson.parameters,
        counts=options.counts,
        ibound=options.ibound,
        expectation="map" if expectation == "count-map" else "gibbs",
        seed=options.seed,
    )


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
