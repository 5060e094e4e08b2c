"""Solve parcels: batches of whole components, by the methods for any network.

The answer about a component must not depend on the parcel that it is in. Exact methods solve all
components of a parcel in one sweep. A sampler or a search gets one component at a time, with a seed
that is a hash of the component's clauses. So it draws the same numbers on one core, on two, on a
cluster, and in a task that is run again.

An answer is a table with one row for each result:

    kind                number            value                           error
    ATOM, SAMPLED_ATOM  atom              probability, or 0 and 1         standard error, or NaN
    COUNT               weight            (expected) true groundings      standard error, or NaN
    TOTAL               components        log partition, or score         standard error, or gap
    NO_TOTAL            components        no log partition is estimated
    FIGURE              in FIGURES        a diagnostic of samples
    METHOD              in METHOD_NAMES                                   1 if not proven
    CONTRADICTED        an atom of hard formulas that no world satisfies
    REFUSED             atoms of a component that the method cannot solve

An error of 0 means exact; NaN means that the method has no estimate of it.

Engines with tasks solve the parcels in them (`TaskStore`). Otherwise a cursor reads the rows parcel
by parcel and worker processes solve them, a few parcels ahead of the results. If a process dies
(killed, out of memory), new processes solve the unfinished parcels again, with the same answers.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

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
from lapis.stores.components.packing import PackedComponents, StoreLimits
from lapis.stores.components.rows import (
    ParcelNetwork,
    ParcelRows,
    build_network,
    read_columns,
)
from lapis.stores.store import Columns, ScratchTables, StoredTable, TaskStore

Command = Literal["infer", "map"]

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
class SolveRequest:
    """The method and options for every parcel; sent to the workers."""

    command: Command
    method: str
    weights: np.ndarray  # float64[num_weights]
    options: InferenceOptions = field(default_factory=InferenceOptions)  # no `progress`, no `stop`

    @property
    def max_memory(self) -> int | None:
        return self.options.max_memory


def solve_parcel(rows: ParcelRows, request: SolveRequest) -> dict[str, np.ndarray]:
    """Return the answer about a parcel, as columns."""
    parcel = build_network(rows, request.weights)
    try:
        return (write_map if request.command == "map" else write_marginals)(parcel, request)
    except LapisError as error:
        if error.code == "unsatisfiable":
            return write_contradiction(parcel)
        if isinstance(error, TooLarge):
            sizes = np.bincount(parcel.network.component)
            return concatenate_parts(
                [(REFUSED, sizes.max(keepdims=True), np.zeros(1), np.zeros(1))]
            )
        raise


def write_marginals(parcel: ParcelNetwork, request: SolveRequest) -> dict[str, np.ndarray]:
    """Infer the marginals of a parcel."""
    network, atom, weight = parcel
    found = infer_parcel(network, atom, request)
    base = list_base_atoms(parcel)
    sampled = ~found.is_exact
    notes = dict(found.diagnostics)
    count_error = np.full(len(weight), 0.0 if found.exact else np.nan)
    if "expected_counts_stderr" in notes:
        count_error[:] = notes.pop("expected_counts_stderr")
    parts = [
        (ATOM, base[~sampled], found.marginal[~sampled], found.errors[~sampled]),
        (SAMPLED_ATOM, base[sampled], found.marginal[sampled], found.errors[sampled]),
        (COUNT, weight, found.expected_count, count_error),
        make_figures(notes),
        make_methods(found.methods, found.exact),
    ]
    kind, total = TOTAL, found.log_partition
    if total is None:
        kind, total = NO_TOTAL, 0.0
    parts.append(make_total(network, total, notes.get("log_partition_stderr", 0.0), kind))
    return concatenate_parts(parts)


def write_map(parcel: ParcelNetwork, request: SolveRequest) -> dict[str, np.ndarray]:
    """Find a most likely world of a parcel."""
    network, atom, weight = parcel
    found = map_parcel(network, atom, request)
    base = list_base_atoms(parcel)
    counts = network.counts(found.world)
    return concatenate_parts(
        [
            (ATOM, base, found.world[: len(base)].astype(float), np.zeros(len(base))),
            (COUNT, weight, counts, np.zeros(len(weight))),
            make_total(network, found.score, found.gap),
            make_figures({"interrupted": found.interrupted, **found.diagnostics}),
            make_methods(found.method.split(" + "), found.optimal),
        ]
    )


def infer_parcel(network: Network, atom: np.ndarray, request: SolveRequest) -> Marginals:
    """Infer all components exactly at once if that is possible, the others one by one."""
    method, options = request.method, request.options
    if not takes_seed("infer", method) or (method == "auto" and is_tiny(network)):
        return infer_network(network, method, options)
    done = PlanResult(network, [], [], {})
    if method == "auto":
        done = run_plan(plan_parts(network, options.begin_exact(share=0.5), "leave"))
    rest, place = done.rest()
    parts = done.parts
    for part, own in iterate_components(rest):
        seed = hash_seed(part, atom, options.seed)
        answer = infer_network(part, method, replace(options, seed=seed))
        parts.append(PartialAnswer(place[own], answer))
    return Marginals.join(network, parts)


def map_parcel(network: Network, atom: np.ndarray, request: SolveRequest) -> MapResult:
    """Solve small components by elimination at once, the others one by one."""
    method, options = request.method, request.options
    if not takes_seed("map", method):
        return most_likely_world(network, method, options)
    solved, world = np.zeros((2, network.num_atoms), bool)
    if method == "auto":
        solved, world = solve_small(network)
    rest, place = keep_part(network, ~solved)
    gap, optimal, interrupted, notes = 0.0, True, False, []
    methods = ["exact"] if solved.any() else []
    for part, own in iterate_components(rest):
        seed = hash_seed(part, atom, options.seed)
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
    """Return whether the method's answer about a component depends on a seed or on time."""
    if command == "map":
        return method not in ("exact", "enumerate")
    return find_method("infer", method).exact != "always" and method != "bp"


def iterate_components(network: Network) -> Iterator[tuple[Network, np.ndarray]]:
    """Yield each component as a network, with the indexes of its atoms in the whole network."""
    if not network.num_atoms:
        return
    order = np.argsort(network.component, kind="stable")
    kept = np.zeros(network.num_atoms, bool)
    for atoms in np.split(order, np.cumsum(np.bincount(network.component))[:-1]):
        kept[atoms] = True
        yield keep_part(network, kept)
        kept[atoms] = False


def hash_seed(component: Network, atom: np.ndarray, seed: int) -> int:
    """Return a seed that depends on a component's clauses, weights and first atom only."""
    weights = np.append(component.weights, np.nan)[component.weight_id]  # NaN where hard
    first = atom[component.atoms.tuples[0][0, 0]]
    digest = hashlib.blake2b(digest_size=8)
    for values in (
        np.array([seed, first], np.int64), component.clause_start, component.literal, weights,
        component.coefficient, component.block_start, component.block_atom, component.block_exact,
    ):  # fmt: skip
        digest.update(np.ascontiguousarray(values).tobytes())
    return int.from_bytes(digest.digest(), "little") >> 1


AnswerPart = tuple[int, np.ndarray, np.ndarray, np.ndarray]  # kind, numbers, values, errors


def concatenate_parts(parts: list[AnswerPart]) -> dict[str, np.ndarray]:
    """Join parts of an answer."""
    found = {
        "kind": [np.full(len(number), kind) for kind, number, _, _ in parts],
        "number": [number for _, number, _, _ in parts],
        "value": [value for _, _, value, _ in parts],
        "error": [error for _, _, _, error in parts],
    }
    return {
        name: np.concatenate(found[name]).astype(dtype) for name, dtype in ANSWER_COLUMNS.items()
    }


def list_base_atoms(parcel: ParcelNetwork) -> np.ndarray:
    """Return the numbers of a parcel's atoms that are not auxiliary."""
    return parcel.atom[: parcel.network.num_base_atoms]


def make_total(network: Network, value: float, error: float, kind: int = TOTAL) -> AnswerPart:
    return kind, np.array([network.num_components]), np.array([value]), np.array([error])


def make_figures(notes: dict[str, Any]) -> AnswerPart:
    known = [
        (number, float(notes[name]))
        for number, name in enumerate(FIGURES)
        if notes.get(name) is not None
    ]
    numbers, values = np.array(known).reshape(-1, 2).T
    return FIGURE, numbers, values, np.zeros(len(numbers))


def make_methods(names: Iterable[str], proven: bool) -> AnswerPart:
    numbers = np.array([METHOD_NAMES.index(name) for name in names if name], np.int64)
    return METHOD, numbers, np.zeros(len(numbers)), np.full(len(numbers), float(not proven))


def write_contradiction(parcel: ParcelNetwork) -> dict[str, np.ndarray]:
    """Return the atoms of contradictory hard formulas."""
    core = find_core(parcel.network)
    atoms = np.arange(parcel.network.num_atoms) if core is None else row_atoms(parcel.network, core)
    named = parcel.atom[atoms[atoms < parcel.network.num_base_atoms]]
    if not len(named):  # all atoms of the core are auxiliary
        named = list_base_atoms(parcel)
    return concatenate_parts([(CONTRADICTED, named, np.zeros(len(named)), np.zeros(len(named)))])


AHEAD = 2  # parcels waiting for each process
ATTEMPTS = 3
ANSWERS_AT_ONCE = 1 << 21  # rows kept in memory before they are loaded
MOST_TASKS = 10_000
FEW_PARCELS = 2  # solved in this process: starting others takes longer


def solve_parcels(
    scratch: ScratchTables, packed: PackedComponents, request: SolveRequest, limits: StoreLimits
) -> StoredTable:
    """Create a table of the answers about all parcels."""
    store, num_parcels = scratch.store, packed.num_parcels
    if isinstance(store, TaskStore) and packed.rows is not None:
        event = Progress("solving", 0, num_parcels, text="in tasks of the engine")
        report_progress(limits.progress, event)
        solve = partial(solve_batches, request=request)
        parts = min(num_parcels, MOST_TASKS)
        name, empty = scratch.new_name(), join_columns([])
        return store.map_rows(name, packed.rows, "parcel", parts, solve, empty)
    rows = store.fetch(f"SELECT * FROM {packed.rows} ORDER BY parcel") if num_parcels else ()
    jobs = min(limits.jobs or num_cores(), num_parcels)
    if jobs <= 1 or num_parcels <= FEW_PARCELS:
        answers = solve_batches(rows, request)
    else:
        answers = solve_in_processes(split_parcels(rows), request, jobs)
    began = time.monotonic()
    tables: list[StoredTable] = []
    waiting: list[dict[str, np.ndarray]] = []
    for done, answer in enumerate(answers, 1):
        waiting.append(answer)
        event = Progress("solving", done, num_parcels, time.monotonic() - began)
        report_progress(limits.progress, event)
        if limits.stop is not None:
            limits.stop.check("solving components")
        if sum(len(each["kind"]) for each in waiting) > ANSWERS_AT_ONCE:
            tables.append(scratch.load(join_columns(waiting)))
            waiting.clear()
    tables.append(scratch.load(join_columns(waiting)))
    if len(tables) == 1:
        return tables[0]
    whole = scratch.create(" UNION ALL ".join(f"SELECT * FROM {table}" for table in tables))
    scratch.drop(*tables)
    return whole


def split_parcels(batches: Iterable[Columns]) -> Iterator[ParcelRows]:
    """Yield parcels one by one, from rows that are ordered by parcel."""
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
    batches: Iterable[Columns], request: SolveRequest
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the answers about parcels whose rows are ordered: the function that a task runs."""
    for parcel in split_parcels(batches):
        yield solve_parcel(parcel, request)


def solve_in_processes(
    parcels: Iterator[ParcelRows], request: SolveRequest, jobs: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the answers about parcels in their order.

    After ATTEMPTS broken pools in a row without an answer, raises LapisError (`worker-died`).
    """
    unfinished: deque[ParcelRows] = deque()
    failures = 0
    while True:
        try:
            with worker_pool(jobs) as pool:
                results = deque(pool.submit(solve_parcel, each, request) for each in unfinished)
                while True:
                    for parcel in islice(parcels, jobs * (1 + AHEAD) - len(unfinished)):
                        unfinished.append(parcel)
                        results.append(pool.submit(solve_parcel, parcel, request))
                    if not results:
                        return
                    yield results[0].result()
                    results.popleft()
                    unfinished.popleft()
                    failures = 0
        except BrokenProcessPool as error:
            failures += 1
            if failures == ATTEMPTS:
                raise LapisError(
                    f"a process that solves components died {ATTEMPTS} times",
                    code="worker-died",
                    hint="it may need more memory than there is: use fewer --jobs",
                ) from error


def join_columns(batches: list[dict[str, np.ndarray]] | list[Columns]) -> dict[str, np.ndarray]:
    """Join batches of columns; without batches, return the empty columns of an answer."""
    if not batches:
        return {name: np.empty(0, dtype) for name, dtype in ANSWER_COLUMNS.items()}
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
