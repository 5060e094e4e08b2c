"""Marginals and most likely worlds of all worlds of a task.

Worlds are independent: log partitions, scores, bounds and expected counts add up. What is said
about the whole is what holds for the worst of them: exact if all are, converged if all are, the
largest R-hat, the smallest effective sample size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.errors import LapisError
from lapis.inference.asked import select_atoms
from lapis.inference.figures import joined_methods, total_figures, total_or_none
from lapis.inference.map.problem import map_problem
from lapis.inference.map.solver import MapResult
from lapis.inference.marginals import Marginals, Options, infer_problem
from lapis.language.printer import print_formula
from lapis.network.network import Network
from lapis.problem.task import Task, World
from lapis.progress import Progress, tell
from lapis.results.answer import Answer
from lapis.results.atoms import join_atoms
from lapis.results.most_likely_world import MostLikelyWorld


def infer_task(task: Task, method: str, options: Options) -> Answer:
    """Marginals of what is asked, world after world."""
    parts: list[Answer] = []
    for world in task.worlds:
        parts.append(infer_world(world, method, options))
        if parts[-1].diagnostics.get("interrupted") and options.stop is not None:
            options.stop.press()  # the worlds that follow are not sampled to the end either
    return merge_answers(task, parts)


def infer_world(world: World, method: str, options: Options) -> Answer:
    if method == "count-gibbs":
        refuse_formulas(world)
    network, found = infer_problem(world.problem, method, options)
    answer = answer_world(world, network, found)
    return add_bounds(answer, world, network, found, options) if options.bounds else answer


def refuse_formulas(world: World) -> None:
    """A formula asked is an atom tied to others, none of which can change while it stays."""
    for query in world.queries:
        if query.formula is not None:
            raise LapisError(
                f"method 'count-gibbs' changes one atom at a time and cannot answer the formula "
                f"{print_formula(query.formula)!r}",
                code="formula-query",
                hint="ask for predicates or atoms, or choose another method, as 'auto' or 'mcsat'",
            )


def add_bounds(
    answer: Answer, world: World, network: Network, found: Marginals, options: Options
) -> Answer:
    """Certified bounds beside an answer, which is moved between them where it was not."""
    from lapis.inference.bounds.certified import bound_answer

    tell(options.progress, Progress("bounding", 0, text=f"{network.num_base_atoms:,} atoms"))
    bounds = bound_answer(network, found, options.stop)
    asked = select_atoms(network, world)
    lower, upper = asked.values(bounds.lower), asked.values(bounds.upper)
    within = None if answer.stderr is None else np.minimum(answer.stderr, upper - lower)
    low, high = bounds.log_partition
    known = [low if math.isfinite(low) else None, high if math.isfinite(high) else None]
    return replace(
        answer, probability=np.clip(answer.probability, lower, upper), stderr=within, lower=lower,
        upper=upper, diagnostics={**answer.diagnostics, "log_partition_bounds": known},
    )  # fmt: skip


def answer_world(world: World, network: Network, found: Marginals) -> Answer:
    """What is asked of a world, from the marginals of a network of its atoms."""
    asked = select_atoms(network, world)
    is_known = asked.known >= 0
    stderr = method_ids = trace = None
    if found.stderr is not None:
        stderr = np.where(is_known, 0.0, asked.values(found.stderr))
    if found.method_ids is not None:
        method_ids = np.where(is_known, 0, asked.values(found.method_ids)).astype(np.int8)
    traced: tuple[str, ...] = ()
    if found.trace is not None:
        traced, trace = tuple(network.atom_names(found.trace.atoms)), found.trace.values
    diagnostics = dict(found.diagnostics)
    if "expected_counts_stderr" in diagnostics:
        errors = np.array(diagnostics["expected_counts_stderr"])
        diagnostics["expected_counts_stderr"] = errors[world.weight_ids].tolist()
    return Answer(
        found.method, found.exact, found.log_partition, asked.atoms,
        asked.values(found.marginal), stderr, found.expected_count[world.weight_ids],
        method_ids=method_ids,
        diagnostics=diagnostics, traced=traced, trace=trace,
    )  # fmt: skip


def map_task(task: Task, method: str, options: Options) -> MostLikelyWorld:
    """A most likely world of each world; the time limit is for each."""
    parts: list[MostLikelyWorld] = []
    for world in task.worlds:
        network, found = map_problem(world.problem, method, options)
        if found.interrupted and options.stop is not None:
            options.stop.press()
        parts.append(world_found(world, network, found))
    return merge_worlds(task, parts)


def world_found(world: World, network: Network, found: MapResult) -> MostLikelyWorld:
    """What is asked of a world, from a most likely world of a network of its atoms."""
    asked = select_atoms(network, world)
    diagnostics = {
        "bound": found.bound,
        "gap": found.gap,
        "cost": found.cost,
        "cost_bound": found.cost - found.gap,
        "interrupted": found.interrupted,
        **found.diagnostics,
    }
    value = asked.values(found.world) > 0
    return MostLikelyWorld(
        found.method, found.optimal, found.score, asked.atoms, value, diagnostics=diagnostics
    )


def merge_answers(task: Task, parts: Sequence[Answer]) -> Answer:
    """The answers of the worlds, put one after another."""
    if len(parts) == 1:
        return parts[0]
    exact = all(part.exact for part in parts)
    methods = joined_methods([part.method for part in parts])
    names = methods.split("+")
    method_ids = [
        np.array([names.index(name) for name in part.method.split("+")], np.int8)[
            np.zeros(len(part), np.int8) if part.method_ids is None else part.method_ids
        ]
        for part in parts
    ]
    each = [world_figures(world, part.method, part.diagnostics) | {
        "exact": part.exact, "log_partition": part.log_partition,
    } for world, part in zip(task.worlds, parts, strict=True)]  # fmt: skip
    diagnostics = total_figures([part.diagnostics for part in parts]) | {"worlds": each}
    stderr_of_counts = [part.diagnostics.get("expected_counts_stderr") for part in parts]
    if any(stderr_of_counts):
        squares = [
            np.zeros_like(part.expected_counts) if found is None else np.square(found)
            for part, found in zip(parts, stderr_of_counts, strict=True)
        ]
        diagnostics["expected_counts_stderr"] = np.sqrt(add_counts(task, squares)).tolist()
    where, slowest = max(
        zip(task.worlds, parts, strict=True),
        key=lambda pair: pair[1].diagnostics.get("rhat", -math.inf),
    )
    return Answer(
        methods,
        exact,
        total_or_none([part.log_partition for part in parts]),
        join_atoms([part.asked for part in parts]),
        np.concatenate([part.probability for part in parts]),
        None
        if all(part.stderr is None for part in parts)  # exact, or without errors, as by bp
        else np.concatenate([part.errors for part in parts]),
        add_counts(task, [part.expected_counts for part in parts]),
        np.concatenate(method_ids),
        diagnostics,
        tuple(f"{where.name}: {atom}" for atom in slowest.traced),
        slowest.trace,
        *joined_bounds(parts),
    )


def joined_bounds(parts: Sequence[Answer]) -> tuple[np.ndarray | None, np.ndarray | None]:
    if any(part.lower is None or part.upper is None for part in parts):
        return None, None
    lower = [part.lower for part in parts if part.lower is not None]
    upper = [part.upper for part in parts if part.upper is not None]
    return np.concatenate(lower), np.concatenate(upper)


def merge_worlds(task: Task, parts: Sequence[MostLikelyWorld]) -> MostLikelyWorld:
    if len(parts) == 1:
        return parts[0]
    each = [world_figures(world, part.method, part.diagnostics) | {
        "optimal": part.optimal, "score": part.score,
    } for world, part in zip(task.worlds, parts, strict=True)]  # fmt: skip
    return MostLikelyWorld(
        joined_methods([part.method for part in parts], " + "),
        all(part.optimal for part in parts),
        sum(part.score for part in parts),
        join_atoms([part.asked for part in parts]),
        np.concatenate([part.value for part in parts]),
        total_figures([part.diagnostics for part in parts]) | {"worlds": each},
    )


def world_figures(world: World, method: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"world": world.name, "method": method, **figures}


def add_counts(task: Task, parts: Sequence[np.ndarray]) -> np.ndarray:
    """float64[num_weights]; a weight of a + rule is one in all worlds with its constants."""
    totals: dict[tuple[int, tuple[str, ...]], float] = {}
    for world, counts in zip(task.worlds, parts, strict=True):
        for key, value in zip(weight_keys(task, world), counts.tolist(), strict=True):
            totals[key] = totals.get(key, 0.0) + value
    return np.array([totals[key] for key in sorted(totals, key=lambda key: key[0])])


def weight_keys(task: Task, world: World) -> list[tuple[int, tuple[str, ...]]]:
    """(rule, constants of its plus variables) of each weight written."""
    keys: list[tuple[int, tuple[str, ...]]] = []
    for number, rule in enumerate(task.model.rules):
        if not rule.hard:
            types = dict(rule.variables)
            domains = [world.problem.domains[types[name]].constants for name in rule.plus]
            keys += [(number, constants) for constants in itertools.product(*domains)]
    return keys
