"""Marginals and most likely worlds of a problem on a store: the stages from facts to answers.

    ground      rows of clauses in tables                 (`stores.grounding`)
    connect     components, on the engine                 (`contraction`)
    pack        components into parcels                   (`packing`)
    solve       parcels, by tasks of the engine or by processes here (`solving`, `workers`)
    read        answers: sums here, atoms as a table there or fetched

What comes back is small but for the atoms: a row for each weight and each figure of a parcel. They
are added by `math.fsum`, whose sum has no order, so that an engine may deliver them in any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.grounding.limits import format_bytes, memory_limit
from lapis.inference.map.solver import MapResult, broken_weight
from lapis.inference.marginals import Marginals, combine_figures
from lapis.language.names import format_atom
from lapis.network.csr import row_starts
from lapis.network.network import AtomTable, Network, network_of_atoms
from lapis.problem.problem import Problem
from lapis.registry.method_table import find_method
from lapis.stores.components.packing import Packed, StoreLimits, pack
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
    Question,
    run_workers,
)
from lapis.stores.grounding.session import GroundTables, ground_there
from lapis.stores.store import Store, StoredTable, TaskStore, fetch_all

EXACT_METHODS = ("exact", "enumerate", "counts")
MOST_NAMED = 5  # atoms of a contradiction
BYTES_AN_ATOM = 64  # of an answer that is fetched


@dataclass(frozen=True)
class Solved:
    """Answers on a store, and what they add up to."""

    problem: Problem
    store: Store
    question: Question
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
        """The names of all methods, for people."""
        return ("+" if self.question.command == "infer" else " + ").join(self.methods)

    @property
    def default(self) -> float:
        """The value of an atom that nothing is said of."""
        return 0.5 if self.question.command == "infer" else 0.0


def solve_there(problem: Problem, store: Store, question: Question, limits: StoreLimits) -> Solved:
    """All stages. Raises what `infer_network` and `most_likely_world` would."""
    refuse_methods(question)
    refuse_jobs(store, limits.jobs)
    ground = ground_there(problem, store, progress=limits.progress)
    packed = pack(store, ground, problem, question.max_memory, limits)
    answers = run_workers(store, packed, question, limits)
    return add_up(problem, store, question, ground, packed, answers)


def refuse_methods(question: Question) -> None:
    chosen = find_method(question.command, question.method)
    if chosen.takes == "problem":
        raise LapisError(
            f"method {question.method!r} works on a whole model, not on components of its network",
            code="engine-method",
            hint="leave out --engine, or choose another method",
        )


def refuse_jobs(store: Store, jobs: int | None) -> None:
    if jobs is not None and isinstance(store, TaskStore):
        raise LapisError(
            f"components are solved in tasks of {store.dialect.name}, not in processes here",
            code="engine-jobs",
            hint="leave out --jobs: how many tasks run at a time is the cluster's to say",
        )


def add_up(
    problem: Problem,
    store: Store,
    question: Question,
    ground: GroundTables,
    packed: Packed,
    answers: StoredTable,
) -> Solved:
    """The sums of what parcels say beside their atoms."""
    told = fetch_all(
        store,
        f"SELECT kind, number, value, error FROM {answers} WHERE kind > {SAMPLED_ATOM}",
    )
    kind, number = told["kind"].astype(np.int64), told["number"].astype(np.int64)
    value, error = told["value"].astype(np.float64), told["error"].astype(np.float64)
    refuse_contradiction(problem, store, ground, number[kind == CONTRADICTED])
    if (kind == REFUSED).any():
        raise TooLarge(
            f"a connected component of {number[kind == REFUSED].max():,} unknown atoms cannot be "
            f"solved by {question.method!r} within its limits",
            code="component-refused",
            hint="give more evidence, raise --max-memory, or leave the choice to 'auto'",
        )
    weights = question.weights
    counts, counts_error = ground.constant_count.copy(), np.zeros(len(weights))
    mine = kind == COUNT
    for weight in np.unique(number[mine]).tolist():
        own = mine & (number == weight)
        counts[weight] = math.fsum([counts[weight], *value[own].tolist()])
        counts_error[weight] = math.sqrt(math.fsum(np.square(error[own]).tolist()))
    answered = fetch_all(store, f"SELECT count(*) AS n FROM {answers} WHERE kind <= {SAMPLED_ATOM}")
    alone = sum(listing.rows for listing in ground.unknown.values()) - int(answered["n"][0])
    totals = value[kind == TOTAL]
    total = None
    if not (kind == NO_TOTAL).any():
        constant = (weights * ground.constant_count).tolist()
        free = alone * math.log(2.0) if question.command == "infer" else 0.0
        total = math.fsum([*totals.tolist(), *constant, free])
    errors = error[kind == TOTAL].tolist()
    return Solved(
        problem, store, question, ground, answers,
        methods=name_methods(question, number[kind == METHOD]),
        proven=not error[kind == METHOD].any(),
        total=total,
        error=math.hypot(*errors) if question.command == "infer" else math.fsum(errors),
        counts=counts,
        counts_error=counts_error,
        figures=add_figures(number[kind == FIGURE], value[kind == FIGURE])
        | {"components": packed.num_components + alone, "parcels": packed.num_parcels},
    )  # fmt: skip


def name_methods(question: Question, numbers: np.ndarray) -> tuple[str, ...]:
    """All methods that answered, in the order of the registry; exact ones first."""
    names = [METHOD_NAMES[number] for number in np.unique(numbers).tolist()]
    exact = [name for name in names if name in EXACT_METHODS]
    others = [name for name in names if name not in exact]
    if question.command == "infer" and exact and others:
        exact = ["exact"]
    return (*exact, *others) or ("exact",)


def add_figures(number: np.ndarray, value: np.ndarray) -> dict[str, Any]:
    """Figures of parcels as figures of worlds are joined; counts are integers, wishes booleans."""
    kinds = {"converged": bool, "ergodic": bool, "interrupted": bool}
    real = ("rhat", "ess", "ess_bulk", "ess_tail", "residual")
    told = [
        {FIGURES[place]: kinds.get(FIGURES[place], float if FIGURES[place] in real else int)(each)}
        for place, each in zip(number.tolist(), value.tolist(), strict=True)
    ]
    return combine_figures(told)


def refuse_contradiction(
    problem: Problem, store: Store, ground: GroundTables, atoms: np.ndarray
) -> None:
    if not len(atoms):
        return
    shown = np.unique(atoms)
    names = ", ".join(name_atoms(problem, store, ground, shown[:MOST_NAMED]))
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    raise LapisError(
        f"no world satisfies the hard formulas: they contradict each other over {names}{more}",
        code="unsatisfiable",
        hint="lapis check shows the hard formulas; remove the final period of one to make it soft",
    )


def name_atoms(
    problem: Problem, store: Store, ground: GroundTables, atoms: np.ndarray
) -> list[str]:
    """Atoms by number, as facts are written."""
    wanted = ", ".join(map(str, atoms.tolist()))
    names: list[str] = []
    for name, listing in ground.unknown.items():
        predicate = problem.model.predicates[name]
        found = fetch_all(
            store, f"SELECT * FROM ({listing.select}) a WHERE a.atom IN ({wanted}) ORDER BY a.atom"
        )
        domains = [problem.domains[type_name] for type_name in predicate.types]
        for row in range(len(found["atom"])):
            codes = [int(found[f"c{i}"][row]) for i in range(predicate.arity)]
            constants = [d.constants[code] for d, code in zip(domains, codes, strict=True)]
            names.append(format_atom(name, constants, predicate.function))
    return names


def select_answers(solved: Solved, predicate: str) -> str:
    """A SELECT of a predicate's unknown atoms: arguments, atom, value, error, sampled."""
    listing = solved.ground.unknown[predicate]
    real = solved.store.dialect.real
    return (
        f"SELECT u.*, CAST(coalesce(a.value, {solved.default}) AS {real}) AS value, "
        f"CAST(CASE WHEN a.kind IS NULL THEN 0 ELSE a.error END AS {real}) AS error, "
        f"CASE WHEN a.kind = {SAMPLED_ATOM} THEN 1 ELSE 0 END AS sampled "
        f"FROM ({listing.select}) u LEFT JOIN (SELECT * FROM {solved.answers} "
        f"WHERE kind IN ({ATOM}, {SAMPLED_ATOM})) a ON a.number = u.atom"
    )


def fetch_answers(
    solved: Solved, predicates: Sequence[str]
) -> tuple[Network, dict[str, np.ndarray]]:
    """The unknown atoms of some predicates as a network without clauses, and their answers."""
    listed = [name for name in solved.ground.unknown if name in predicates]
    needed = BYTES_AN_ATOM * sum(solved.ground.unknown[name].rows for name in listed)
    memory = memory_limit(solved.question.max_memory)
    if needed > memory:
        raise TooLarge(
            f"the answer is about {needed // BYTES_AN_ATOM:,} atoms; about "
            f"{format_bytes(needed)} here, over the limit of {format_bytes(memory)}",
            code="answer-too-large",
            hint="leave it on the engine (-o table:NAME), or write it to a file (-o FILE.parquet)",
        )
    tuples: list[np.ndarray] = []
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("value", "error", "sampled")}
    for name in listed:
        found = fetch_all(solved.store, f"{select_answers(solved, name)} ORDER BY u.atom")
        arity = solved.problem.model.predicates[name].arity
        codes = [found[f"c{i}"] for i in range(arity)]
        rows = np.empty((len(found["atom"]), arity), np.int32)
        for place, column in enumerate(codes):
            rows[:, place] = column
        tuples.append(rows)
        for column_name, parts in columns.items():
            parts.append(found[column_name].astype(np.float64))
    sizes = np.array([len(rows) for rows in tuples], np.int64)
    atoms = AtomTable(tuple(listed), row_starts(sizes), tuple(tuples))
    network = network_of_atoms(
        atoms, solved.question.weights, solved.ground.constant_count,
        domains=solved.problem.domains, signatures=solved.problem.model.predicates,
    )  # fmt: skip
    return network, {name: np.concatenate([np.empty(0), *parts]) for name, parts in columns.items()}


def fetch_marginals(solved: Solved, predicates: Sequence[str]) -> tuple[Network, Marginals]:
    """What `infer_problem` gives, about the atoms of some predicates."""
    network, found = fetch_answers(solved, predicates)
    sampled = found["sampled"] > 0
    with np.errstate(divide="ignore"):
        log_odds = np.log(found["value"]) - np.log1p(-found["value"])
    notes = dict(solved.figures)
    is_unknown = np.isnan(found["error"]).all()
    if not solved.proven and not np.isnan(solved.counts_error).any():
        notes["expected_counts_stderr"] = solved.counts_error.tolist()
    if solved.total is not None and solved.error:
        notes["log_partition_stderr"] = solved.error
    # The store keeps of an atom whether it was sampled, not by which of several samplers.
    exact = [name for name in solved.methods if name in EXACT_METHODS]
    others = "+".join(name for name in solved.methods if name not in EXACT_METHODS)
    methods = ("+".join(exact), others) if exact and others else (solved.method,)
    return network, Marginals(
        methods=methods,
        proven=(True, False) if len(methods) > 1 else (solved.proven,),
        method_id=(sampled & (len(methods) > 1)).astype(np.int8),
        log_partition=solved.total,
        marginal=found["value"],
        log_odds=log_odds,
        stderr=None if solved.proven or is_unknown else found["error"],
        expected_count=solved.counts,
        diagnostics=notes,
    )


def fetch_world(solved: Solved, predicates: Sequence[str]) -> tuple[Network, MapResult]:
    """What `map_problem` gives, about the atoms of some predicates."""
    network, found = fetch_answers(solved, predicates)
    assert solved.total is not None
    cost = broken_weight(solved.problem, solved.counts)
    figures = dict(solved.figures)
    interrupted = bool(figures.pop("interrupted", False))
    return network, MapResult(
        found["value"] > 0.5, solved.total, solved.total + solved.error, solved.error, cost,
        solved.proven, solved.method, interrupted, figures,
    )  # fmt: skip
