"""Marginals and most likely worlds of all worlds of a task, for the queried atoms.

Worlds are independent: log partitions, scores, bounds and expected counts add up. Other figures are
those of the worst world: the largest R-hat, the smallest effective sample size; exact and converged
if all worlds are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.data.keys import contains
from lapis.errors import LapisError
from lapis.grounding.blocks import apply_blocks
from lapis.inference.fitting import fit_world
from lapis.inference.marginals import (
    InferenceOptions,
    Marginals,
    add_or_none,
    combine_figures,
    join_names,
)
from lapis.inference.plan import plan_inference
from lapis.inference.solve import infer_problem
from lapis.language.instances import ground_name, substitute
from lapis.language.printer import print_formula
from lapis.language.syntax import Formula
from lapis.network.network import Network
from lapis.problem.query import Query
from lapis.problem.task import Task, World
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.results.atom_groups import AtomGroup, Atoms, join_atoms, predicate_group, variable_group
from lapis.results.plan_report import PlanReport, join_plans
from lapis.runtime.progress import Progress, report_progress

if TYPE_CHECKING:
    from lapis.inference.map.solver import MapResult


def infer_task(task: Task, method: str, options: InferenceOptions) -> Answer:
    """Return the marginals of the queried atoms of all worlds."""
    parts: list[Answer] = []
    for world in task.worlds:
        parts.append(infer_world(world, method, options))
        if parts[-1].diagnostics.get("interrupted") and options.stop is not None:
            options.stop.request()  # also ends the following worlds
    found = merge_answers(task, parts)
    return replace(found, diagnostics=add_notes(task, found.diagnostics))


def add_notes(task: Task, diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """Add the notes of a task to the figures of its answer."""
    return {**diagnostics, **({"notes": list(task.notes)} if task.notes else {})}


def plan_task(task: Task, method: str, options: InferenceOptions) -> PlanReport:
    """Return the plan of inference in each world without running it."""
    plans = []
    for world in task.worlds:
        if method == "count-gibbs":
            refuse_formulas(world)
        plans.append(plan_inference(world.problem, method, options).report(world.name))
    return join_plans(plans) or PlanReport(())


def infer_world(world: World, method: str, options: InferenceOptions) -> Answer:
    """Return the marginals of the queried atoms of one world."""
    if method == "count-gibbs":
        refuse_formulas(world)
    world, answered, notes = fit_world(world, method, options)
    network, found = answered or infer_problem(world.problem, method, options)
    found = replace(found, diagnostics={**found.diagnostics, **notes})
    answer = answer_world(world, network, found)
    return add_bounds(answer, world, network, found, options) if options.bounds else answer


def refuse_formulas(world: World) -> None:
    """Raise LapisError if a formula is queried: its auxiliary atom changes with other atoms."""
    for query in world.queries:
        if query.formula is not None:
            raise LapisError(
                f"method 'count-gibbs' changes one atom at a time and cannot answer the formula "
                f"{print_formula(query.formula)!r}",
                code="formula-query",
                hint="query predicates or atoms, or use another method such as 'auto' or 'mcsat'",
            )


def add_bounds(
    answer: Answer, world: World, network: Network, found: Marginals, options: InferenceOptions
) -> Answer:
    """Add certified bounds to an answer and clip the answer to them."""
    from lapis.inference.bounds.certified import bound_answer

    report_progress(
        options.progress, Progress("bounding", 0, text=f"{network.num_base_atoms:,} atoms")
    )
    bounds = bound_answer(network, found, options.stop)
    selected = select_atoms(network, world)
    lower, upper = selected.values(bounds.lower), selected.values(bounds.upper)
    within = None if answer.stderr is None else np.minimum(answer.stderr, upper - lower)
    low, high = bounds.log_partition
    known = [low if math.isfinite(low) else None, high if math.isfinite(high) else None]
    return replace(
        answer, probability=np.clip(answer.probability, lower, upper), stderr=within, lower=lower,
        upper=upper, diagnostics={**answer.diagnostics, "log_partition_bounds": known},
    )  # fmt: skip


def answer_world(world: World, network: Network, found: Marginals) -> Answer:
    """Return the answer for the queried atoms, from the marginals of a network."""
    selected = select_atoms(network, world)
    is_known = selected.known >= 0
    methods = join_names([found.methods])
    stderr = method_id = trace = None
    if found.stderr is not None:
        stderr = np.where(is_known, 0.0, selected.values(found.stderr))
    if len(methods) > 1:
        number = np.array([methods.index(name) for name in found.methods], np.int8)
        own = selected.values(number[found.method_id])
        method_id = np.where(is_known, 0, own).astype(np.int8)
    traced: tuple[str, ...] = ()
    if found.trace is not None:
        traced, trace = tuple(network.atom_names(found.trace.atoms)), found.trace.values
    diagnostics = dict(found.diagnostics)
    if "expected_counts_stderr" in diagnostics:
        errors = np.array(diagnostics["expected_counts_stderr"])
        diagnostics["expected_counts_stderr"] = errors[world.weight_ids].tolist()
    if found.modes:
        names = network.atom_names(np.array([row.atom for row in found.modes]))
        rows = zip(found.modes, names, strict=True)
        diagnostics["modes"] = [row._asdict() | {"atom": name} for row, name in rows]
    return Answer(
        methods=methods,
        exact=found.exact,
        log_partition=found.log_partition,
        asked=selected.atoms,
        probability=selected.values(found.marginal),
        stderr=stderr,
        expected_counts=found.expected_count[world.weight_ids],
        method_id=method_id,
        diagnostics=diagnostics,
        traced=traced,
        trace=trace,
        plan=PlanReport(tuple(replace(row, world=world.name) for row in found.steps)),
    )


def map_task(task: Task, method: str, options: InferenceOptions) -> MostLikelyWorld:
    """Find a most likely world of each world; the time limit holds for each."""
    from lapis.inference.map.solver import map_problem

    parts: list[MostLikelyWorld] = []
    for world in task.worlds:
        world, _, notes = fit_world(world, "auto", options)
        network, found = map_problem(world.problem, method, options)
        found = replace(found, diagnostics={**found.diagnostics, **notes})
        if found.interrupted and options.stop is not None:
            options.stop.request()
        parts.append(answer_map_world(world, network, found))
    best = merge_worlds(task, parts)
    return replace(best, diagnostics=add_notes(task, best.diagnostics))


def answer_map_world(world: World, network: Network, found: MapResult) -> MostLikelyWorld:
    """Return the queried atoms of a most likely world."""
    selected = select_atoms(network, world)
    diagnostics = {
        "bound": found.bound,
        "gap": found.gap,
        "cost": found.cost,
        "cost_bound": found.cost - found.gap,
        "interrupted": found.interrupted,
        **found.diagnostics,
    }
    value = selected.values(found.world) > 0
    return MostLikelyWorld(
        found.method, found.optimal, found.score, selected.atoms, value, diagnostics=diagnostics
    )


def merge_answers(task: Task, parts: Sequence[Answer]) -> Answer:
    """Join the answers of the worlds."""
    formulas = name_weights(task)
    if len(parts) == 1:
        return replace(parts[0], formulas=formulas)
    methods = join_names(part.methods for part in parts)
    method_id = []
    for part in parts:
        number = np.array([methods.index(name) for name in part.methods], np.int8)
        own = np.zeros(len(part), np.int8) if part.method_id is None else part.method_id
        method_id.append(number[own])
    each = [label_figures(world, part.method, part.diagnostics) | {
        "exact": part.exact, "log_partition": part.log_partition,
    } for world, part in zip(task.worlds, parts, strict=True)]  # fmt: skip
    diagnostics = combine_figures([part.diagnostics for part in parts]) | {"worlds": each}
    stderr_of_counts = [part.diagnostics.get("expected_counts_stderr") for part in parts]
    if any(stderr_of_counts):
        squares = [
            np.zeros_like(part.expected_counts) if found is None else np.square(found)
            for part, found in zip(parts, stderr_of_counts, strict=True)
        ]
        diagnostics["expected_counts_stderr"] = np.sqrt(sum_world_counts(task, squares)).tolist()
    where, slowest = max(
        zip(task.worlds, parts, strict=True),
        key=lambda pair: pair[1].diagnostics.get("rhat", -math.inf),
    )
    lower, upper = join_bounds(parts)
    return Answer(
        methods=methods,
        exact=all(part.exact for part in parts),
        log_partition=add_or_none([part.log_partition for part in parts]),
        asked=join_atoms([part.asked for part in parts]),
        probability=np.concatenate([part.probability for part in parts]),
        stderr=None
        if all(part.stderr is None for part in parts)  # exact, or by bp
        else np.concatenate([part.errors for part in parts]),
        expected_counts=sum_world_counts(task, [part.expected_counts for part in parts]),
        method_id=np.concatenate(method_id),
        diagnostics=diagnostics,
        traced=tuple(f"{where.name}: {atom}" for atom in slowest.traced),
        trace=slowest.trace,
        lower=lower,
        upper=upper,
        plan=join_plans([part.plan for part in parts]),
        formulas=formulas,
    )


def join_bounds(parts: Sequence[Answer]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Join the bounds of all worlds; None if a world has none."""
    if any(part.lower is None or part.upper is None for part in parts):
        return None, None
    lower = [part.lower for part in parts if part.lower is not None]
    upper = [part.upper for part in parts if part.upper is not None]
    return np.concatenate(lower), np.concatenate(upper)


def merge_worlds(task: Task, parts: Sequence[MostLikelyWorld]) -> MostLikelyWorld:
    """Join the most likely worlds."""
    if len(parts) == 1:
        return parts[0]
    each = [label_figures(world, part.method, part.diagnostics) | {
        "optimal": part.optimal, "score": part.score,
    } for world, part in zip(task.worlds, parts, strict=True)]  # fmt: skip
    return MostLikelyWorld(
        join_map_methods([part.method for part in parts]),
        all(part.optimal for part in parts),
        sum(part.score for part in parts),
        join_atoms([part.asked for part in parts]),
        np.concatenate([part.value for part in parts]),
        combine_figures([part.diagnostics for part in parts]) | {"worlds": each},
    )


def join_map_methods(methods: Sequence[str]) -> str:
    """Return the names of methods of most likely worlds, each once."""
    return " + ".join(join_names(method.split(" + ") for method in methods))


def label_figures(world: World, method: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a world with its name and method."""
    return {"world": world.name, "method": method, **figures}


def sum_world_counts(task: Task, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Sum counts over worlds, float64[num_weights]; weights of + rules are matched by constants."""
    totals: dict[tuple[int, tuple[str, ...]], float] = {}
    for world, counts in zip(task.worlds, parts, strict=True):
        for key, value in zip(weight_keys(task, world), counts.tolist(), strict=True):
            totals[key] = totals.get(key, 0.0) + value
    return np.array([totals[key] for key in sorted(totals, key=lambda key: key[0])])


def name_weights(task: Task) -> list[str]:
    """Return the formula of each weight, in the order of `sum_world_counts`."""
    found: dict[tuple[int, tuple[str, ...]], str] = {}
    for world in task.worlds:
        names = (n for rule in task.model.rules for n in world.problem.rule_weight_names(rule))
        found |= zip(weight_keys(task, world), names, strict=True)
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def weight_keys(task: Task, world: World) -> list[tuple[int, tuple[str, ...]]]:
    """Return (rule, constants of its + variables) of each weight."""
    keys: list[tuple[int, tuple[str, ...]]] = []
    for number, rule in enumerate(task.model.rules):
        if not rule.hard:
            types = dict(rule.variables)
            domains = [world.problem.domains[types[name]].constants for name in rule.plus]
            keys += [(number, constants) for constants in itertools.product(*domains)]
    return keys


class SelectedAtoms(NamedTuple):
    """The queried atoms."""

    atoms: Atoms
    atom: np.ndarray  # int64[num_asked], of the network; 0 where known
    known: np.ndarray  # float64[num_asked], the value that the data decides; −1 where unknown

    def values(self, found: np.ndarray) -> np.ndarray:
        """Return the known value, or the value found if none is known, float64[num_asked]."""
        return np.where(self.known < 0, found[self.atom] if len(found) else -1.0, self.known)


def select_atoms(network: Network, world: World) -> SelectedAtoms:
    """Return the queried atoms of a world, each once.

    A predicate selects its unknown atoms. An atom or formula is selected even if the data decide
    it.
    """
    whole = {query.predicate for query in world.queries if query.constants is None}
    groups: list[AtomGroup] = []
    atom_ids: list[np.ndarray] = [np.empty(0, np.int64)]
    known: list[np.ndarray] = [np.empty(0)]
    for query in dict.fromkeys(world.queries):
        if query.constants is None:
            ids, codes = predicate_atoms(network, world, query.predicate)
            values = np.full(len(ids), -1.0)
        else:
            ids, codes, values = single_atom(network, world, query)
            if query.predicate in whole and values[0] < 0:
                continue
        groups.append(group_atoms(world, query, codes))
        atom_ids.append(ids)
        known.append(values)
    atoms = Atoms(tuple(groups), (world.name,))
    return SelectedAtoms(atoms, np.concatenate(atom_ids), np.concatenate(known))


def predicate_atoms(
    network: Network, world: World, predicate: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the unknown atoms, int64[num_atoms], and their constants, int32[num_atoms, arity]."""
    table = network.atoms
    if predicate not in table.predicates:
        arity = world.problem.model.predicates[predicate].arity
        return np.empty(0, np.int64), np.empty((0, arity), np.int32)
    index = table.predicates.index(predicate)
    return np.arange(table.offset[index], table.offset[index + 1]), table.tuples[index]


def group_atoms(world: World, query: Query, codes: np.ndarray) -> AtomGroup:
    """Return the atoms with their names: as facts, or as the formula they stand for."""
    problem = world.problem
    predicate = problem.model.predicates[query.predicate]
    domains = tuple(problem.domains[name] for name in predicate.types)
    if predicate.variable:
        return variable_group(predicate.name, codes, domains, world=world.name)
    if query.formula is None or query.rule is None:
        return predicate_group(
            predicate.name, codes, domains, predicate.types,
            function=predicate.function, world=world.name,
        )  # fmt: skip
    variables = tuple(name for name, _ in query.rule.variables)
    format_row = partial(format_formula, query.formula, variables)
    label = print_formula(query.formula)
    return AtomGroup(label, codes, domains, variables, format_row, is_atom=False, world=world.name)


def format_formula(formula: Formula, variables: Sequence[str], constants: Sequence[str]) -> str:
    """Return the formula with its variables replaced by constants."""
    return ground_name(substitute(formula, dict(zip(variables, constants, strict=True))))


def single_atom(
    network: Network, world: World, query: Query
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return atom, constants and known value (−1 if unknown) of a ground atom, each a row."""
    problem = world.problem
    predicate = problem.model.predicates[query.predicate]
    codes = [
        problem.domains[type_name].index[constant]
        for constant, type_name in zip(query.constants or (), predicate.types, strict=True)
    ]
    rows = np.array([codes], np.int32).reshape(1, predicate.arity)
    atom = network.atom_index(predicate.name, rows)
    if atom[0] >= 0:
        return atom, rows, np.array([-1.0])
    evidence = apply_blocks(problem)[predicate.name]
    return np.zeros(1, np.int64), rows, contains(evidence.true, rows).astype(float)
