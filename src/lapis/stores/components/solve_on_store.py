"""Marginals and most likely worlds of a problem on a store, in stages.

    ground      clauses as rows of tables                     (`stores.grounding`)
    pack        components, found on the engine, in parcels   (`packing`)
    solve       parcels, by the engine's tasks or by worker processes (`solving`)
    read        sums over parcels; answers of atoms as a table, or fetched

Apart from the atoms, a parcel returns one row for each weight and each diagnostic. They are summed
by `math.fsum`, whose result does not depend on the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.map.solver import MapResult, broken_weight
from lapis.inference.marginals import Marginals, combine_figures
from lapis.language.names import format_atom
from lapis.network.csr import row_starts
from lapis.network.network import AtomTable, Network, network_of_atoms
from lapis.problem.problem import Problem
from lapis.registry.method_table import find_method
from lapis.runtime.limits import format_bytes, memory_limit
from lapis.stores.components.packing import PackedComponents, StoreLimits, pack_components
from lapis.stores.components.solving import (
    ATOM,
    CONTRADICTED,
    COUNT,
    FIGURE,
    FIGURES,
    METHOD,
    METHOD_NAMES,
    NO_TOTAL,
    REFUSED,
    SAMPLED_ATOM,
    TOTAL,
    SolveRequest,
    solve_parcels,
)
from lapis.stores.grounding.ground_on_store import GroundTables, ground_on_store
from lapis.stores.store import ScratchTables, Store, StoredTable, TaskStore, fetch_all, fetch_number

EXACT_METHODS = ("exact", "enumerate", "counts")
MOST_NAMED = 5  # atoms of a contradiction
BYTES_AN_ATOM = 64  # of an answer that is fetched


@dataclass(frozen=True)
class StoredSolution:
    """Answers in tables of a store, and their sums."""

    problem: Problem
    scratch: ScratchTables
    request: SolveRequest
    ground: GroundTables
    answers: StoredTable  # kind, number, value, error
    methods: tuple[str, ...]
    proven: bool
    total: float | None  # log partition, or score, evidence included
    error: float  # its standard error, or the gap
    counts: np.ndarray  # float64[num_weights]
    counts_error: np.ndarray  # float64[num_weights]
    figures: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The names of all methods, joined."""
        return ("+" if self.request.command == "infer" else " + ").join(self.methods)


def solve_on_store(
    problem: Problem, scratch: ScratchTables, request: SolveRequest, limits: StoreLimits
) -> StoredSolution:
    """Run all stages. Raises the errors of `infer_network` and `most_likely_world`."""
    refuse_method(request)
    refuse_jobs(scratch.store, limits.jobs)
    ground = ground_on_store(problem, scratch, progress=limits.progress)
    packed = pack_components(scratch, ground, problem, request.max_memory, limits)
    answers = solve_parcels(scratch, packed, request, limits)
    return sum_parcels(problem, scratch, request, ground, packed, answers)


def refuse_method(request: SolveRequest) -> None:
    """Raise LapisError for methods that do not solve networks."""
    if find_method(request.command, request.method).takes == "problem":
        raise LapisError(
            f"method {request.method!r} works on a whole model, not on components of its network",
            code="engine-method",
            hint="leave out --engine, or choose another method",
        )


def refuse_jobs(store: Store, jobs: int | None) -> None:
    """Raise LapisError if a number of processes is given for an engine that has its own tasks."""
    if jobs is not None and isinstance(store, TaskStore):
        raise LapisError(
            f"components are solved in tasks of {store.dialect.name}, not in local processes",
            code="engine-jobs",
            hint="leave out --jobs: the cluster determines the number of concurrent tasks",
        )


def sum_parcels(
    problem: Problem,
    scratch: ScratchTables,
    request: SolveRequest,
    ground: GroundTables,
    packed: PackedComponents,
    answers: StoredTable,
) -> StoredSolution:
    """Sum the rows of all parcels that are not about atoms."""
    store = scratch.store
    found = fetch_all(
        store, f"SELECT kind, number, value, error FROM {answers} WHERE kind > {SAMPLED_ATOM}"
    )
    kind, number = found["kind"].astype(np.int64), found["number"].astype(np.int64)
    value, error = found["value"].astype(np.float64), found["error"].astype(np.float64)
    refuse_contradictory(problem, store, ground, number[kind == CONTRADICTED])
    if (kind == REFUSED).any():
        raise TooLarge(
            f"a connected component of {number[kind == REFUSED].max():,} unknown atoms cannot be "
            f"solved by {request.method!r} within its limits",
            code="component-refused",
            hint="give more evidence, raise --max-memory, or use method 'auto'",
        )
    counts, counts_error = ground.constant_count.copy(), np.zeros(len(request.weights))
    for weight in np.unique(number[kind == COUNT]).tolist():
        own = (kind == COUNT) & (number == weight)
        counts[weight] = math.fsum([counts[weight], *value[own].tolist()])
        counts_error[weight] = math.sqrt(math.fsum(np.square(error[own]).tolist()))
    answered = fetch_number(
        store, f"SELECT count(*) AS n FROM {answers} WHERE kind <= {SAMPLED_ATOM}"
    )
    isolated = sum(listing.rows for listing in ground.unknown.values()) - answered
    total = None
    if not (kind == NO_TOTAL).any():
        constant = (request.weights * ground.constant_count).tolist()
        free = isolated * math.log(2.0) if request.command == "infer" else 0.0
        total = math.fsum([*value[kind == TOTAL].tolist(), *constant, free])
    errors = error[kind == TOTAL].tolist()
    return StoredSolution(
        problem, scratch, request, ground, answers,
        methods=name_methods(request, number[kind == METHOD]),
        proven=not error[kind == METHOD].any(),
        total=total,
        error=math.hypot(*errors) if request.command == "infer" else math.fsum(errors),
        counts=counts,
        counts_error=counts_error,
        figures=join_figures(number[kind == FIGURE], value[kind == FIGURE])
        | {"components": packed.num_components + isolated, "parcels": packed.num_parcels},
    )  # fmt: skip


def name_methods(request: SolveRequest, numbers: np.ndarray) -> tuple[str, ...]:
    """List the methods of all parcels in the order of the registry, exact ones first."""
    names = [METHOD_NAMES[number] for number in np.unique(numbers).tolist()]
    exact = [name for name in names if name in EXACT_METHODS]
    others = [name for name in names if name not in exact]
    if request.command == "infer" and exact and others:
        exact = ["exact"]
    return (*exact, *others) or ("exact",)


def join_figures(number: np.ndarray, value: np.ndarray) -> dict[str, Any]:
    """Join the diagnostics of parcels (numbers in FIGURES) as those of worlds are joined."""
    kinds = {"converged": bool, "ergodic": bool, "interrupted": bool} | dict.fromkeys(
        ("rhat", "ess", "ess_bulk", "ess_tail", "residual"), float
    )
    names = [FIGURES[place] for place in number.tolist()]
    return combine_figures(
        [{n: kinds.get(n, int)(each)} for n, each in zip(names, value.tolist(), strict=True)]
    )


def refuse_contradictory(
    problem: Problem, store: Store, ground: GroundTables, atoms: np.ndarray
) -> None:
    """Raise LapisError if there are atoms of contradictory hard formulas."""
    if not len(atoms):
        return
    shown = np.unique(atoms)
    names = ", ".join(format_atoms(problem, store, ground, shown[:MOST_NAMED]))
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    raise LapisError(
        f"no world satisfies the hard formulas: they contradict each other over {names}{more}",
        code="unsatisfiable",
        hint="lapis check shows the hard formulas; remove the final period of one to make it soft",
    )


def format_atoms(
    problem: Problem, store: Store, ground: GroundTables, atoms: np.ndarray
) -> list[str]:
    """Format atoms, given by number, as facts."""
    numbers = ", ".join(map(str, atoms.tolist()))
    names: list[str] = []
    for name, listing in ground.unknown.items():
        predicate = problem.model.predicates[name]
        found = fetch_all(
            store, f"SELECT * FROM ({listing.select}) a WHERE a.atom IN ({numbers}) ORDER BY a.atom"
        )
        domains = [problem.domains[type_name] for type_name in predicate.types]
        for row in range(len(found["atom"])):
            codes = [int(found[f"c{i}"][row]) for i in range(predicate.arity)]
            constants = [d.constants[code] for d, code in zip(domains, codes, strict=True)]
            names.append(format_atom(name, constants, predicate.function))
    return names


def select_answers(solution: StoredSolution, predicate: str) -> str:
    """Write a SELECT of a predicate's unknown atoms: arguments, atom, value, error, sampled.

    An atom without a row in the answers is in no clause: its probability is 1/2, and it is false
    in a most likely world.
    """
    listing = solution.ground.unknown[predicate]
    real = solution.scratch.store.dialect.real
    default = 0.5 if solution.request.command == "infer" else 0.0
    return (
        f"SELECT u.*, CAST(coalesce(a.value, {default}) AS {real}) AS value, "
        f"CAST(CASE WHEN a.kind IS NULL THEN 0 ELSE a.error END AS {real}) AS error, "
        f"CASE WHEN a.kind = {SAMPLED_ATOM} THEN 1 ELSE 0 END AS sampled "
        f"FROM ({listing.select}) u LEFT JOIN (SELECT * FROM {solution.answers} "
        f"WHERE kind IN ({ATOM}, {SAMPLED_ATOM})) a ON a.number = u.atom"
    )


def fetch_answers(
    solution: StoredSolution, predicates: Sequence[str]
) -> tuple[Network, dict[str, np.ndarray]]:
    """Fetch the unknown atoms of some predicates, as a network without clauses, and the answers."""
    listed = [name for name in solution.ground.unknown if name in predicates]
    num_atoms = sum(solution.ground.unknown[name].rows for name in listed)
    memory = memory_limit(solution.request.max_memory)
    if BYTES_AN_ATOM * num_atoms > memory:
        raise TooLarge(
            f"the answer has about {num_atoms:,} atoms and needs about "
            f"{format_bytes(BYTES_AN_ATOM * num_atoms)} of memory, over the limit of "
            f"{format_bytes(memory)}",
            code="answer-too-large",
            hint="leave it on the engine (-o table:NAME), or write it to a file (-o FILE.parquet)",
        )
    tuples: list[np.ndarray] = []
    columns: dict[str, list[np.ndarray]] = {
        name: [np.empty(0)] for name in ("value", "error", "sampled")
    }
    for name in listed:
        query = f"{select_answers(solution, name)} ORDER BY u.atom"
        found = fetch_all(solution.scratch.store, query)
        rows = np.empty(
            (len(found["atom"]), solution.problem.model.predicates[name].arity), np.int32
        )
        for place in range(rows.shape[1]):
            rows[:, place] = found[f"c{place}"]
        tuples.append(rows)
        for column_name, parts in columns.items():
            parts.append(found[column_name].astype(np.float64))
    sizes = np.array([len(rows) for rows in tuples], np.int64)
    network = network_of_atoms(
        AtomTable(tuple(listed), row_starts(sizes), tuple(tuples)),
        solution.request.weights,
        solution.ground.constant_count,
        domains=solution.problem.domains,
        signatures=solution.problem.model.predicates,
    )
    return network, {name: np.concatenate(parts) for name, parts in columns.items()}


def fetch_marginals(
    solution: StoredSolution, predicates: Sequence[str]
) -> tuple[Network, Marginals]:
    """Fetch the marginals of some predicates' atoms, as `infer_problem` returns them."""
    network, found = fetch_answers(solution, predicates)
    sampled = found["sampled"] > 0
    with np.errstate(divide="ignore"):
        log_odds = np.log(found["value"]) - np.log1p(-found["value"])
    notes = dict(solution.figures)
    is_unknown = np.isnan(found["error"]).all()
    if not solution.proven and not np.isnan(solution.counts_error).any():
        notes["expected_counts_stderr"] = solution.counts_error.tolist()
    if solution.total is not None and solution.error:
        notes["log_partition_stderr"] = solution.error
    # The table of answers has a flag for sampled atoms, but no column for the sampler.
    exact = [name for name in solution.methods if name in EXACT_METHODS]
    others = "+".join(name for name in solution.methods if name not in EXACT_METHODS)
    methods = ("+".join(exact), others) if exact and others else (solution.method,)
    return network, Marginals(
        methods=methods,
        proven=(True, False) if len(methods) > 1 else (solution.proven,),
        method_id=(sampled & (len(methods) > 1)).astype(np.int8),
        log_partition=solution.total,
        marginal=found["value"],
        log_odds=log_odds,
        stderr=None if solution.proven or is_unknown else found["error"],
        expected_count=solution.counts,
        diagnostics=notes,
    )


def fetch_world(solution: StoredSolution, predicates: Sequence[str]) -> tuple[Network, MapResult]:
    """Fetch the values of some predicates' atoms, as `map_problem` returns them."""
    network, found = fetch_answers(solution, predicates)
    assert solution.total is not None
    cost = broken_weight(solution.problem, solution.counts)
    figures = dict(solution.figures)
    interrupted = bool(figures.pop("interrupted", False))
    return network, MapResult(
        found["value"] > 0.5, solution.total, solution.total + solution.error, solution.error, cost,
        solution.proven, solution.method, interrupted, figures,
    )  # fmt: skip
