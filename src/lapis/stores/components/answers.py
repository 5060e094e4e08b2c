"""A store with a unique table prefix for each query; the tables are dropped afterwards.

One store may answer many queries. Tables of one query must not collide with those of another.

Questions to all worlds of a task, answered on a store: as results here, or left there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from lapis.errors import LapisError
from lapis.inference.marginals import InferenceOptions
from lapis.inference.worlds import answer_map_world, answer_world, merge_answers, merge_worlds
from lapis.problem.problem import LazyEvidence
from lapis.problem.task import Task, World
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.stores.components.packing import StoreLimits
from lapis.stores.components.published import check_place, check_target, publish_answers
from lapis.stores.components.solve_on_store import Solved, fetch_marginals, fetch_world, solve_there
from lapis.stores.components.solving import Question
from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import TableRows, fresh_name
from lapis.stores.store import Columns, MapColumns, Store, StoredTable, TaskStore
from lapis.stores.stored_answer import StoredAnswer
from lapis.stores.urls import open_store


class ScratchSchema(Store):
    def __init__(self, store: Store) -> None:
        self.store = store
        self._label = fresh_name("q")
        self._made: dict[str, None] = {}

    @property
    def dialect(self) -> Dialect:
        return self.store.dialect

    def load(self, name: str, columns: Columns) -> StoredTable:
        return self.store.load(self._own(name), columns)

    def create(self, name: str, select: str) -> StoredTable:
        return self.store.create(self._own(name), select)

    def fetch(self, select: str) -> Iterator[Columns]:
        return self.store.fetch(select)

    def execute(self, statement: str) -> None:
        self.store.execute(statement)

    def drop(self, name: str) -> None:
        own = self._own(name)
        self.store.drop(own)
        del self._made[own]

    def publish(self, name: str, target: str) -> None:
        self.store.publish(self._own(name), target)

    def check_target(self, target: str) -> None:
        self.store.check_target(target)

    def target_reference(self, target: str) -> str:
        return self.store.target_reference(target)

    def find_tables(self, schema: str) -> Mapping[str, str]:
        return self.store.find_tables(schema)

    def parquet(self, path: Path) -> str:
        return self.store.parquet(path)

    def close(self) -> None:
        """Drop the tables of this query; the store stays open."""
        while self._made:
            self.store.drop(self._made.popitem()[0])

    def _own(self, name: str) -> str:
        """The name on the store, for a name here or for that of a table."""
        own = name if name in self._made else f"{self._label} {name}"
        self._made[own] = None
        return own


class TaskScratchSchema(ScratchSchema, TaskStore):
    """The same for an engine with tasks."""

    store: TaskStore

    def map_rows(
        self,
        name: str,
        rows: StoredTable,
        by: str,
        parts: int,
        function: MapColumns,
        sample: Columns,
    ) -> StoredTable:
        return self.store.map_rows(self._own(name), rows, by, parts, function, sample)

    def check_folder(self, target: str) -> None:
        self.store.check_folder(target)

    def write_folder(self, rows: StoredTable, target: str) -> None:
        self.store.write_folder(rows, target)


def scratch_schema_of(store: Store) -> ScratchSchema:
    return TaskScratchSchema(store) if isinstance(store, TaskStore) else ScratchSchema(store)


def infer_on_store(
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    limits: StoreLimits | None = None,
) -> Answer:
    """Marginals, by the engine at a URL, or by the one that has the facts."""
    refuse_options(options)
    asked = Question("infer", method, np.empty(0), options)
    parts: list[Answer] = []
    for world in task.worlds:
        with store_for(world, url, options.max_memory) as store:
            found = ask(world, store, asked, limits)
            parts.append(answer_world(world, *fetch_marginals(found, predicates_of(world))))
    return merge_answers(task, parts)


def map_on_store(
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    limits: StoreLimits | None = None,
) -> MostLikelyWorld:
    """A most likely world, by the engine at a URL; the time limit is for each component."""
    refuse_options(options)
    asked = Question("map", method, np.empty(0), options)
    parts: list[MostLikelyWorld] = []
    for world in task.worlds:
        with store_for(world, url, options.max_memory) as store:
            found = ask(world, store, asked, limits)
            parts.append(answer_map_world(world, *fetch_world(found, predicates_of(world))))
    return merge_worlds(task, parts)


def answer_to_store(
    command: Literal["infer", "map"],
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    output: str,
    limits: StoreLimits | None = None,
) -> StoredAnswer:
    """Answers of all worlds at one target."""
    refuse_options(options)
    asked = Question(command, method, np.empty(0), options)
    check_target(output)
    refuse_worlds(task)
    (world,) = task.worlds
    with store_for(world, url, asked.max_memory) as store:
        check_place(store, output)
        found = ask(world, store, asked, limits)
        rows = publish_answers(world, found, output)
    is_world = asked.command == "map"
    figures = dict(found.figures)
    if is_world:
        figures |= {"gap": found.error}
    counts = tuple(found.counts[world.weight_ids].tolist())
    return StoredAnswer(
        output, rows, found.method, found.proven, found.total, is_world, counts, figures
    )


def ask(world: World, store: Store, asked: Question, limits: StoreLimits | None) -> Solved:
    options = asked.options
    limits = replace(limits or StoreLimits(), progress=options.progress, stop=options.stop)
    options = replace(options, progress=None, stop=None)
    asked = replace(asked, weights=world.problem.weight_table.value, options=options)
    return solve_there(world.problem, store, asked, limits)


@contextmanager
def store_for(world: World, url: str | None, max_memory: int | None) -> Iterator[Store]:
    """Where the facts of a world are already, or the engine that a URL names."""
    found = store_of(world)
    if found is not None:
        with scratch_schema_of(found) as schema:
            yield schema
        return
    if url is None:
        raise LapisError(
            f"the data '{world.name}' is here, and that of other worlds on an engine",
            code="engine-worlds",
            hint="ask about them one by one, or open its tables on the same engine",
        )
    with open_store(url, max_memory) as opened:
        yield opened


def store_of(world: World) -> Store | None:
    """The store that holds facts of a world."""
    for evidence in world.problem.evidence.values():
        if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, TableRows):
            return evidence.rows.store
    return None


def predicates_of(world: World) -> list[str]:
    return list(dict.fromkeys(query.predicate for query in world.queries))


def refuse_worlds(task: Task) -> None:
    if len(task.worlds) > 1:
        raise LapisError("one table holds one world", code="several-worlds", hint="use --merge")


def refuse_options(options: InferenceOptions) -> None:
    if options.relax:
        raise LapisError(
            "hard formulas cannot be relaxed on an engine",
            code="relax",
            hint="leave out --engine, or give a rule a weight instead of its final period",
        )
    if options.bounds:
        raise LapisError(
            "bounds are not computed on an engine",
            code="bounds",
            hint="leave out --engine, or --bounds",
        )
