"""A parcel of components, solved by the same methods as any network.

The engine decides which components travel together; the answer must not. What is exact is solved
for all components of a parcel in one sweep (`exact.by_components` has no loop over components).
What is sampled or searched is taken component by component, each alone, with a seed that is a hash
of its clauses: so it draws the same numbers on one core, on two, on a cluster, in a task that is
run a second time, and whatever else was packed beside it.

An answer is columns again, one row for each thing that was found:

    kind                number            value                           error
    ATOM, SAMPLED_ATOM  atom              probability, or 0 and 1         standard error, or NaN
    COUNT               weight            (expected) true groundings      its standard error, or NaN
    TOTAL               components        log partition, or score         its error, or the gap
    NO_TOTAL            components        samples do not tell it
    FIGURE              of FIGURES        how far samples can be trusted
    METHOD              of METHOD_NAMES                                   1 if not proven
    CONTRADICTED        an atom of hard formulas that no world satisfies
    REFUSED             atoms             width of a component that the method cannot do

An error of zero is a claim; where a method knows none, it is NaN.

Parcels solved by processes of this machine, fed by a cursor on the store.

A cursor delivers the rows parcel by parcel; each goes to a process that is free, a few ahead of
what is done. A process that dies (out of memory, killed) takes nothing with it but time: its
parcels are solved again by new processes, to the same numbers, since nothing about a parcel depends
on where it is solved. One that dies every time is refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.map.solver import MapResult, most_likely_world, solve_small
from lapis.inference.marginals import (
    InferenceOptions,
    Marginals,
    PartialAnswer,
    combine_figures,
    join_names,
)
from lapis.inference.plan import is_tiny, plan_parts
from lapis.inference.solve import PlanResult, infer_network, run_plan
from lapis.network.components import keep_part
from lapis.network.network import Network
from lapis.network.satisfiability import find_core, row_atoms
from lapis.registry.method_table import find_method, methods_of
from lapis.runtime.processes import num_cores, worker_pool
from lapis.runtime.progress import Progress, report_progress
from lapis.stores.components.packing import Packed, StoreLimits
from lapis.stores.components.rows import (
    Columns,
    ParcelNetwork,
    ParcelRows,
    build_network,
    read_columns,
)
from lapis.stores.store import Store, StoredTable, TaskStore

ATOM, SAMPLED_ATOM, COUNT, TOTAL, NO_TOTAL, FIGURE, METHOD, CONTRADICTED, REFUSED = range(9)
ANSWER_COLUMNS = {
    "kind": np.int64,
    "number": np.int64,
    "value": np.float64,
    "error": np.float64,
}
FIGURES = (
    "converged", "ergodic", "interrupted", "rhat", "ess", "ess_bulk", "ess_tail", "samples",
    "chains", "core_atoms", "sampled_atoms", "counted_atoms", "averaged_atoms", "width",
    "largest_states", "components", "cut_atoms", "passes", "residual",
)  # fmt: skip
METHOD_NAMES = tuple(
    dict.fromkeys((*methods_of("infer"), *methods_of("map"), "counts", "branch-and-bound"))
)


@dataclass(frozen=True)
class Question:
    """What is asked of every parcel; travels to where parcels are solved."""

    command: Literal["infer", "map"]
    method: str
    weights: np.ndarray  # float64[num_weights]
    options: InferenceOptions = field(default_factory=InferenceOptions)  # no `progress`, no `stop`

    @property
    def max_memory(self) -> int | None:
        return self.options.max_memory


def solve_parcel(rows: ParcelRows, question: Question) -> dict[str, np.ndarray]:
    """The answer about a parcel, as columns."""
    parcel = build_network(rows, question.weights)
    try:
        if question.command == "map":
            return map_columns(parcel, question)
        return marginal_columns(parcel, question)
    except LapisError as error:
        if error.code == "unsatisfiable":
            return contradicted_columns(parcel)
        if isinstance(error, TooLarge):
            sizes = np.bincount(parcel.network.component)
            return answer_columns([(REFUSED, sizes.max(keepdims=True), np.zeros(1), np.zeros(1))])
        raise


def marginal_columns(parcel: ParcelNetwork, question: Question) -> dict[str, np.ndarray]:
    network, atom, weight = parcel
    found = infer_parcel(network, atom, question)
    base = base_atoms(parcel)
    sampled = ~found.is_exact
    notes = dict(found.diagnostics)
    count_error = np.full(len(weight), 0.0 if found.exact else np.nan)
    if "expected_counts_stderr" in notes:
        count_error[:] = notes.pop("expected_counts_stderr")
    parts = [
        (ATOM, base[~sampled], found.marginal[~sampled], found.errors[~sampled]),
        (SAMPLED_ATOM, base[sampled], found.marginal[sampled], found.errors[sampled]),
        (COUNT, weight, found.expected_count, count_error),
        figure_part(notes),
        method_part(found.methods, found.exact),
    ]
    kind, total = TOTAL, found.log_partition
    if total is None:
        kind, total = NO_TOTAL, 0.0
    parts.append(total_part(network, total, notes.get("log_partition_stderr", 0.0), kind))
    return answer_columns(parts)


def map_columns(parcel: ParcelNetwork, question: Question) -> dict[str, np.ndarray]:
    network, atom, weight = parcel
    found = map_parcel(network, atom, question)
    base = base_atoms(parcel)
    counts = network.counts(found.world)
    return answer_columns(
        [
            (ATOM, base, found.world[: len(base)].astype(float), np.zeros(len(base))),
            (COUNT, weight, counts, np.zeros(len(weight))),
            total_part(network, found.score, found.gap),
            figure_part({"interrupted": found.interrupted, **found.diagnostics}),
            method_part(found.method.split(" + "), found.optimal),
        ]
    )


def infer_parcel(network: Network, atom: np.ndarray, question: Question) -> Marginals:
    """Exact for all components at once where that fits, all others one by one."""
    method, options = question.method, question.options
    if not takes_seed("infer", method) or (method == "auto" and is_tiny(network)):
        return infer_network(network, method, options)
    done = PlanResult(network, [], [], {})
    if method == "auto":
        done = run_plan(plan_parts(network, options.begin_exact(share=0.5), "leave"))
    rest, place = done.rest()
    parts = done.parts
    for part, own in each_component(rest):
        seed = content_seed(part, atom, options.seed)
        answer = infer_network(part, method, replace(options, seed=seed))
        parts.append(PartialAnswer(place[own], answer))
    return Marginals.join(network, parts)


def map_parcel(network: Network, atom: np.ndarray, question: Question) -> MapResult:
    """Small components by elimination, all at once; the others one by one."""
    method, options = question.method, question.options
    if not takes_seed("map", method):
        return most_likely_world(network, method, options)
    solved, world = np.zeros((2, network.num_atoms), bool)
    if method == "auto":
        solved, world = solve_small(network)
    rest, place = keep_part(network, ~solved)
    gap, optimal, interrupted, notes = 0.0, True, False, []
    methods = ["exact"] if solved.any() else []
    for part, own in each_component(rest):
        seed = content_seed(part, atom, options.seed)
        found = most_likely_world(part, method, replace(options, seed=seed))
        world[place[own]] = found.world
        gap += found.gap
        optimal &= found.optimal
        interrupted |= found.interrupted
        methods.append(found.method)
        notes.append(found.diagnostics)
    score = network.score(world)
    names = " + ".join(join_names(name.split(" + ") for name in methods))
    return MapResult(
        world, score, score + gap, gap, 0.0, optimal, names, interrupted, combine_figures(notes),
    )  # fmt: skip


def takes_seed(command: str, method: str) -> bool:
    """Whether the method's answer about a component depends on a seed, or on time."""
    if command == "map":
        return method not in ("exact", "enumerate")
    return find_method("infer", method).exact != "always" and method != "bp"


def each_component(network: Network) -> Iterator[tuple[Network, np.ndarray]]:
    """Each component as a network, with its atoms' places in the whole."""
    if not network.num_atoms:
        return
    order = np.argsort(network.component, kind="stable")
    kept = np.zeros(network.num_atoms, bool)
    for atoms in np.split(order, np.cumsum(np.bincount(network.component))[:-1]):
        kept[atoms] = True
        yield keep_part(network, kept)
        kept[atoms] = False


def content_seed(component: Network, atom: np.ndarray, seed: int) -> int:
    """A seed from what a component is: its clauses, its weights, and its first atom."""
    weights = np.append(component.weights, np.nan)[component.weight_id]  # NaN where hard
    first = atom[component.atoms.tuples[0][0, 0]]
    told = hashlib.blake2b(digest_size=8)
    for values in (
        np.array([seed, first], np.int64), component.clause_start, component.literal, weights,
        component.coefficient, component.block_start, component.block_atom, component.block_exact,
    ):  # fmt: skip
        told.update(np.ascontiguousarray(values).tobytes())
    return int.from_bytes(told.digest(), "little") >> 1


Part = tuple[int, np.ndarray, np.ndarray, np.ndarray]  # kind, numbers, values, errors


def answer_columns(parts: list[Part]) -> dict[str, np.ndarray]:
    found = {
        "kind": [np.full(len(number), kind) for kind, number, _, _ in parts],
        "number": [number for _, number, _, _ in parts],
        "value": [value for _, _, value, _ in parts],
        "error": [error for _, _, _, error in parts],
    }
    return {
        name: np.concatenate(found[name]).astype(dtype) for name, dtype in ANSWER_COLUMNS.items()
    }


def base_atoms(parcel: ParcelNetwork) -> np.ndarray:
    return parcel.atom[: parcel.network.num_base_atoms]


def total_part(network: Network, value: float, error: float, kind: int = TOTAL) -> Part:
    return kind, np.array([network.num_components]), np.array([value]), np.array([error])


def figure_part(notes: dict[str, Any]) -> Part:
    known = [
        (number, float(notes[name]))
        for number, name in enumerate(FIGURES)
        if notes.get(name) is not None
    ]
    numbers, values = np.array(known).reshape(-1, 2).T
    return FIGURE, numbers, values, np.zeros(len(numbers))


def method_part(names: Iterable[str], proven: bool) -> Part:
    numbers = np.array([METHOD_NAMES.index(name) for name in names if name], np.int64)
    return METHOD, numbers, np.zeros(len(numbers)), np.full(len(numbers), float(not proven))


def contradicted_columns(parcel: ParcelNetwork) -> dict[str, np.ndarray]:
    core = find_core(parcel.network)
    atoms = np.arange(parcel.network.num_atoms) if core is None else row_atoms(parcel.network, core)
    named = parcel.atom[atoms[atoms < parcel.network.num_base_atoms]]
    if not len(named):  # auxiliary atoms alone: whatever they stand for
        named = base_atoms(parcel)
    return answer_columns([(CONTRADICTED, named, np.zeros(len(named)), np.zeros(len(named)))])


AHEAD = 2  # parcels waiting for each process
ATTEMPTS = 3
ANSWERS = "answers"  # the table of them
ANSWERS_AT_ONCE = 1 << 21  # rows kept here before they are loaded
MOST_TASKS = 10_000
FEW_PARCELS = 2  # are solved in this process: starting others takes longer


def run_workers(
    store: Store, packed: Packed, question: Question, limits: StoreLimits
) -> StoredTable:
    """A table of answers to all parcels: by the engine's tasks, if it has them, or by processes."""
    if isinstance(store, TaskStore) and packed.rows is not None:
        event = Progress("solving", 0, packed.num_parcels, text="in tasks of the engine")
        report_progress(limits.progress, event)
        solve = partial(solve_batches, question=question)
        parts = min(packed.num_parcels, MOST_TASKS)
        return store.map_rows(ANSWERS, packed.rows, "parcel", parts, solve, join_columns([]))
    ordered = f"SELECT * FROM {packed.rows} ORDER BY parcel"
    rows = store.fetch(ordered) if packed.num_parcels else ()
    jobs = min(limits.jobs or num_cores(), packed.num_parcels)
    began = time.monotonic()
    kept: list[dict[str, np.ndarray]] = []
    loaded: list[StoredTable] = []
    size = 0

    def load() -> None:
        loaded.append(store.load(f"{ANSWERS} {len(loaded)}", join_columns(kept)))
        kept.clear()

    alone = jobs <= 1 or packed.num_parcels <= FEW_PARCELS
    if alone:
        answers = solve_batches(rows, question)
    else:
        answers = map_processes(cut_parcels(rows), question, jobs)
    for done, answer in enumerate(answers, 1):
        kept.append(answer)
        size += len(answer["kind"])
        event = Progress("solving", done, packed.num_parcels, time.monotonic() - began)
        report_progress(limits.progress, event)
        if limits.stop is not None:
            limits.stop.check("solving components")
        if size > ANSWERS_AT_ONCE:
            load()
            size = 0
    load()
    if len(loaded) == 1:
        return loaded[0]
    union = " UNION ALL ".join(f"SELECT * FROM {table}" for table in loaded)
    found = store.create(ANSWERS, union)
    for table in loaded:
        store.drop(table.name)
    return found


def cut_parcels(batches: Iterable[Columns]) -> Iterator[ParcelRows]:
    """Parcels one by one, from rows that come in their order."""
    waiting: list[Columns] = []
    for batch in batches:
        parcel = batch["parcel"]
        if not len(parcel):
            continue
        cuts = np.flatnonzero(np.diff(parcel)) + 1
        for first, last in zip([0, *cuts], [*cuts, len(parcel)], strict=True):
            if waiting and waiting[-1]["parcel"][-1] != parcel[first]:
                yield read_columns(join_columns(waiting))
                waiting = []
            waiting.append({name: column[first:last] for name, column in batch.items()})
    if waiting:
        yield read_columns(join_columns(waiting))


def solve_batches(
    batches: Iterable[Columns], question: Question
) -> Iterator[dict[str, np.ndarray]]:
    """Answers to parcels whose rows come in their order: what a task on a cluster runs."""
    for parcel in cut_parcels(batches):
        yield solve_parcel(parcel, question)


def map_processes(
    parcels: Iterator[ParcelRows], question: Question, jobs: int
) -> Iterator[dict[str, np.ndarray]]:
    """Answers in the order of the parcels."""
    again: list[Sent] = []
    while True:
        sent: list[Sent] = []
        try:
            with worker_pool(jobs) as pool:
                while True:
                    while len(sent) < jobs * (1 + AHEAD):
                        if again:
                            parcel, attempts = again[0].parcel, again[0].attempts
                        elif (following := next(parcels, None)) is not None:
                            parcel, attempts = following, 0
                            again.append(Sent(parcel, attempts))
                        else:
                            break
                        answer = pool.submit(solve_parcel, parcel, question)
                        sent.append(Sent(parcel, attempts, answer))
                        del again[0]
                    if not sent:
                        return
                    assert sent[0].answer is not None
                    yield sent[0].answer.result()
                    del sent[0]
        except BrokenProcessPool as error:
            again = [Sent(each.parcel, each.attempts + 1) for each in sent] + again
            if any(each.attempts >= ATTEMPTS for each in again):
                raise LapisError(
                    f"a process that solves components died {ATTEMPTS} times",
                    code="worker-died",
                    hint="it may need more memory than there is: use fewer --jobs",
                ) from error


class Sent(NamedTuple):
    """A parcel that is being solved, or is to be solved again."""

    parcel: ParcelRows
    attempts: int  # that failed
    answer: Future[dict[str, np.ndarray]] | None = None


def join_columns(batches: list[dict[str, np.ndarray]] | list[Columns]) -> dict[str, np.ndarray]:
    if not batches:
        return {name: np.empty(0, dtype) for name, dtype in ANSWER_COLUMNS.items()}
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
