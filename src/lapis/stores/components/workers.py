"""Parcels solved by processes of this machine, fed by a cursor on the store.

A cursor delivers the rows parcel by parcel; each goes to a process that is free, a few ahead of
what is done. A process that dies (out of memory, killed) takes nothing with it but time: its
parcels are solved again by new processes, to the same numbers, since nothing about a parcel depends
on where it is solved. One that dies every time is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.runtime.processes import num_cores, worker_pool
from lapis.runtime.progress import Progress, tell
from lapis.stores.components.packing import Packed, StoreLimits
from lapis.stores.components.rows import Columns, ParcelRows, read_columns
from lapis.stores.components.solving import ANSWER_COLUMNS, Question, solve_parcel
from lapis.stores.store import Store, Table, TaskStore

AHEAD = 2  # parcels waiting for each process
ATTEMPTS = 3
ANSWERS = "answers"  # the table of them
ANSWERS_AT_ONCE = 1 << 21  # rows kept here before they are loaded
MOST_TASKS = 10_000
FEW_PARCELS = 2  # are solved in this process: starting others takes longer


def run_workers(store: Store, packed: Packed, question: Question, limits: StoreLimits) -> Table:
    """A table of answers to all parcels: by the engine's tasks, if it has them, or by processes."""
    if isinstance(store, TaskStore) and packed.rows is not None:
        event = Progress("solving", 0, packed.num_parcels, text="in tasks of the engine")
        tell(limits.progress, event)
        solve = partial(solve_batches, question=question)
        parts = min(packed.num_parcels, MOST_TASKS)
        return store.map_rows(ANSWERS, packed.rows, "parcel", parts, solve, join_columns([]))
    ordered = f"SELECT * FROM {packed.rows} ORDER BY parcel"
    rows = store.fetch(ordered) if packed.num_parcels else ()
    jobs = min(limits.jobs or num_cores(), packed.num_parcels)
    began = time.monotonic()
    kept: list[dict[str, np.ndarray]] = []
    loaded: list[Table] = []
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
        tell(limits.progress, event)
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
