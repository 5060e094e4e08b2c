"""Count the rules of a model, one row for each weight, summed over worlds.

A hard rule is counted as one formula, not as the clauses that must each hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from lapis.counting.complete_world import add_derived, closed_world
from lapis.counting.ijgp import IjgpSettings, count_ijgp
from lapis.counting.totals import count_feature, plan_feature
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.problem.problem import Problem, build_problem
from lapis.registry.method_table import find_method
from lapis.registry.options import CountKind
from lapis.relational.interpretation import Interpretation
from lapis.relational.numbers import require_numbers
from lapis.relational.query_plan import explain_plan
from lapis.results.answer import Counts, RuleCount
from lapis.runtime.progress import Progress, Report

Place = Callable[[Problem], Problem]  # moves the facts of a problem, for example to a database


def count_rules(
    model: Model,
    worlds: Sequence[Database],
    *,
    counts: CountKind = "exact",
    ijgp: IjgpSettings | None = None,
    measure_error: bool = False,
    place: Place | None = None,
    progress: Report | None = None,
) -> Counts:
    """Count the formula of every weight, summed over the worlds.

    counts="ijgp" estimates by IJGP, which is exact for formulas that fit in one cluster;
    `measure_error` also counts exactly and compares. `place` is applied to each world's problem.
    """
    if place is not None and counts != "exact":
        raise LapisError(
            "--counts ijgp cannot be combined with --engine",
            code="option-value",
            hint="leave out one of them; an engine counts exactly",
        )
    method = find_method("counts", counts)
    count = method.load()
    if counts == "ijgp":
        count = partial(count, settings=ijgp or IjgpSettings(), measure_error=measure_error)
    softened = make_rules_soft(model)
    totals: dict[tuple[int, str], RuleCount] = {}
    began = time.monotonic()
    for number, world in enumerate(worlds):
        problem = build_complete_problem(softened, world, place)
        for rule, row in count(problem):
            if progress is not None:
                done = number * len(model.rules) + rule + 1
                total = len(worlds) * len(model.rules)
                seconds = time.monotonic() - began
                progress(Progress("counting", done, total, seconds, text=row.formula))
            before = totals.get((rule, row.formula))
            totals[rule, row.formula] = row if before is None else add_rule_counts(before, row)
    # A later world may add constants of a plus variable: their rows follow their rule.
    return Counts(tuple(totals[key] for key in sorted(totals, key=lambda key: key[0])))


def make_rules_soft(model: Model) -> Model:
    return model.with_rules(tuple(replace(rule, hard=False) for rule in model.rules))


def build_complete_problem(model: Model, world: Database, place: Place | None = None) -> Problem:
    problem = build_problem(model, world)
    problem.require_complete()
    return problem if place is None else place(problem)


def add_rule_counts(one: RuleCount, other: RuleCount) -> RuleCount:
    """Add the counts of two worlds; measured errors are weighted by count."""
    error = None
    if one.relative_error is not None and other.relative_error is not None:
        total = max(1, one.true + other.true)
        error = (one.relative_error * one.true + other.relative_error * other.true) / total
    estimate = None
    if one.estimate is not None and other.estimate is not None:
        estimate = one.estimate + other.estimate
    return replace(
        one,
        true=one.true + other.true,
        groundings=one.groundings + other.groundings,
        exact=one.exact and other.exact,
        estimate=estimate,
        relative_error=error,
    )


def count_exactly(problem: Problem) -> Iterator[tuple[int, RuleCount]]:
    world = build_closed_world(problem)
    for feature in problem.normal_form.features:
        rule = problem.model.rules[feature.rule]
        counted = count_feature(feature, world)
        names, weights = problem.rule_weight_names(rule), rule_weights(problem, feature.rule)
        for name, weight, true in zip(names, weights, counted.true, strict=True):
            yield feature.rule, RuleCount(name, weight, true, counted.groundings)


def rule_weights(problem: Problem, rule: int) -> list[float] | list[None]:
    """Return the weights of a rule, one for each of its names; None if they are not known yet."""
    table = problem.weight_table
    own: list[float] = table.value[table.offset[rule] : table.offset[rule + 1]].tolist()
    return [None] * len(own) if problem.model.rules[rule].weight is None else own


def estimate_by_ijgp(
    problem: Problem, settings: IjgpSettings, measure_error: bool
) -> Iterator[tuple[int, RuleCount]]:
    found = count_ijgp(
        problem.normal_form,
        problem.model,
        problem.domains,
        {name: evidence.true for name, evidence in problem.evidence.items()},
        settings,
        measure_error=measure_error,
    )
    position = 0
    for feature, estimate in zip(problem.normal_form.features, found.features, strict=True):
        rule = problem.model.rules[feature.rule]
        names = problem.rule_weight_names(rule)
        for name, weight in zip(names, rule_weights(problem, feature.rule), strict=True):
            value = float(found.count[position])
            error = None if found.error is None else float(found.error.relative_true[position])
            groundings = estimate.groundings // max(1, len(names))
            yield (
                feature.rule,
                RuleCount(name, weight, round(value), groundings, estimate.exact, value, error),
            )
            position += 1


def explain_counts(model: Model, worlds: Sequence[Database], place: Place | None = None) -> str:
    """Format the count plan of every clause of every rule, with the SQL that runs it."""
    lines: list[str] = []
    for world in worlds:
        problem = build_complete_problem(make_rules_soft(model), world, place)
        interpretation = build_closed_world(problem)
        for feature in problem.normal_form.features:
            lines.append(problem.model.rules[feature.rule].text)
            for plan in plan_feature(feature, interpretation):
                lines += ["  " + line for line in explain_plan(plan).splitlines()]
                for statement in interpretation.explain_run(plan):
                    lines += ["    " + line for line in statement.splitlines()]
    return "\n".join(lines)


def build_closed_world(problem: Problem) -> Interpretation:
    """Build the extensions of all base and derived predicates from the evidence."""
    world = closed_world(problem)
    require_numbers(problem, world)
    return add_derived(world, problem.normal_form.definitions)
