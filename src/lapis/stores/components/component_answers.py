"""Marginals and most likely worlds of a task on a store: fetched, or published there as a table.

A published table has one row for each atom:

    predicate, arg1, arg2, …, probability, stderr      of marginals
    predicate, arg1, arg2, …, value                    of a most likely world, 0 or 1

Arguments are the names of constants. They are NULL beyond the arity of the predicate; an unknown
standard error is NULL too. The table is built in the scratch schema and published in one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from lapis.data.atomic_write import require_writable, save_path
from lapis.data.keys import contains
from lapis.errors import LapisError
from lapis.grounding.blocks import apply_blocks
from lapis.inference.marginals import InferenceOptions
from lapis.inference.worlds import (
    answer_map_world,
    answer_world,
    merge_answers,
    merge_worlds,
    name_weights,
)
from lapis.language.printer import print_formula
from lapis.problem.problem import LazyEvidence, Problem
from lapis.problem.query import Query
from lapis.problem.task import Task, World
from lapis.relational.interpretation import Interpretation
from lapis.results.answer import Answer, MostLikelyWorld
from lapis.results.result import import_package
from lapis.stores.components.packing import StoreLimits
from lapis.stores.components.solve_on_store import (
    StoredSolution,
    fetch_marginals,
    fetch_world,
    select_answers,
    solve_on_store,
)
from lapis.stores.components.solving import Command, SolveRequest
from lapis.stores.load_to_store import TableRows
from lapis.stores.store import (
    ScratchTables,
    Store,
    StoredTable,
    TaskStore,
    fetch_all,
    open_store,
)
from lapis.stores.store_engine import StoreEngine
from lapis.stores.stored_answer import StoredAnswer

TABLE = "table:"


def infer_on_store(
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    limits: StoreLimits | None = None,
) -> Answer:
    """Compute marginals on the engine at a URL, or on the engine that holds the facts."""
    parts: list[Answer] = []
    for world in task.worlds:
        with solve_world(world, url, "infer", method, options, limits) as solution:
            network, marginals = fetch_marginals(solution, queried_predicates(world))
            parts.append(answer_world(world, network, marginals))
    return merge_answers(task, parts)


def map_on_store(
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    limits: StoreLimits | None = None,
) -> MostLikelyWorld:
    """Find a most likely world on an engine. The time limit is for each component."""
    parts: list[MostLikelyWorld] = []
    for world in task.worlds:
        with solve_world(world, url, "map", method, options, limits) as solution:
            network, found = fetch_world(solution, queried_predicates(world))
            parts.append(answer_map_world(world, network, found))
    return merge_worlds(task, parts)


def answer_to_store(
    command: Command,
    task: Task,
    url: str | None,
    method: str,
    options: InferenceOptions,
    output: str,
    limits: StoreLimits | None = None,
) -> StoredAnswer:
    """Publish the answer about one world at a target (`check_target`)."""
    check_target(output)
    if len(task.worlds) > 1:
        raise LapisError("one table holds one world", code="several-worlds", hint="use --merge")
    (world,) = task.worlds
    with solve_world(world, url, command, method, options, limits, output) as solution:
        num_atoms = publish_answers(world, solution, output)
    is_world = command == "map"
    return StoredAnswer(
        output,
        num_atoms,
        solution.method,
        solution.proven,
        solution.total,
        is_world,
        tuple(solution.counts[world.weight_ids].tolist()),
        {**solution.figures, "gap": solution.error} if is_world else solution.figures,
        name_weights(task),
    )


@contextmanager
def solve_world(
    world: World,
    url: str | None,
    command: Command,
    method: str,
    options: InferenceOptions,
    limits: StoreLimits | None,
    output: str | None = None,
) -> Iterator[StoredSolution]:
    """Solve one world on a store, whose tables exist until the context ends."""
    refuse_options(options)
    with open_scratch(world, url, options.max_memory) as scratch:
        if output is not None:
            check_place(scratch.store, output)
        limits = replace(limits or StoreLimits(), progress=options.progress, stop=options.stop)
        weights = world.problem.weight_table.value
        sendable = replace(options, progress=None, stop=None)
        request = SolveRequest(command, method, weights, sendable)
        yield solve_on_store(world.problem, scratch, request, limits)


@contextmanager
def open_scratch(world: World, url: str | None, max_memory: int | None) -> Iterator[ScratchTables]:
    """Open scratch tables on the store that holds a world's facts, or on the engine at a URL."""
    for evidence in world.problem.evidence.values():
        if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, TableRows):
            with ScratchTables(evidence.rows.store) as scratch:
                yield scratch
            return
    if url is None:
        raise LapisError(
            f"the data '{world.name}' is in memory, and the data of other worlds on an engine",
            code="engine-worlds",
            hint="infer one world at a time, or open all tables on the same engine",
        )
    with open_store(url, max_memory) as store:
        yield ScratchTables(store)


def queried_predicates(world: World) -> list[str]:
    """List the predicates of a world's queries, each once."""
    return list(dict.fromkeys(query.predicate for query in world.queries))


def refuse_options(options: InferenceOptions) -> None:
    """Raise LapisError for options that engines do not support."""
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


def check_target(target: str) -> None:
    """Raise LapisError if a target is malformed or cannot be written, before the work starts."""
    if target.startswith(TABLE):
        if len(target) > len(TABLE):
            return
    elif is_folder(target):
        if "://" not in target:
            require_absent(Path(target))
        return
    elif target.endswith(".parquet"):
        require_writable(Path(target))
        return
    raise LapisError(
        f"invalid target {target!r} for an answer",
        code="output-target",
        hint="write table:NAME for a table on the engine, a path that ends in .parquet, or a "
        "folder, which ends in /",
    )


def is_folder(target: str) -> bool:
    """Return whether a target is a folder: it ends in / or is on a file system of a cluster."""
    return target.endswith("/") or "://" in target


def require_absent(path: Path) -> None:
    """Raise LapisError if a folder exists already: it may contain other files."""
    if path.exists():
        raise LapisError(
            f"{path}: cannot be written: it exists",
            code="unwritable",
            hint="remove it, or name another folder",
        )
    require_writable(path)


def check_place(store: Store, target: str) -> None:
    """Raise LapisError if this engine cannot write the table or folder."""
    if target.startswith(TABLE):
        store.check_target(target.removeprefix(TABLE))
        refuse_other_tables(store, target.removeprefix(TABLE))
    elif is_folder(target):
        if isinstance(store, TaskStore):
            store.check_folder(target)
        elif "://" in target:
            raise LapisError(
                f"{store.dialect.name} does not write to {target}",
                code="output-target",
                hint="Spark does; or name a folder of this machine, which ends in /",
            )


def refuse_other_tables(store: Store, target: str) -> None:
    """Raise LapisError if a table exists that is not an answer: it may hold the user's facts."""
    try:
        columns = list(fetch_all(store, f"SELECT * FROM {store.target_reference(target)} LIMIT 0"))
    except LapisError as error:
        if error.code != "engine-failed":
            raise
        return  # there is none
    for measures in (["probability", "stderr"], ["value"]):
        num_arguments = len(columns) - 1 - len(measures)
        if columns == ["predicate", *argument_names(num_arguments), *measures]:
            return
    shown = ", ".join(columns[:5]) + ", …" * (len(columns) > 5)
    raise LapisError(
        f"the table {target} cannot be written: a table with the columns {shown} exists, which "
        "is not an answer of Lapis",
        code="engine-target",
        hint="name another table, or drop it",
    )


def publish_answers(world: World, solution: StoredSolution, target: str) -> int:
    """Write the answers to a world's queries to a target; return the number of atoms."""
    store = solution.scratch.store
    table = solution.scratch.create(" UNION ALL ".join(select_world(world, solution)))
    if target.startswith(TABLE):
        store.publish(table.name, target.removeprefix(TABLE))
    elif not is_folder(target):
        save_path(Path(target), lambda place: write_parquet(store, table, place))
    elif isinstance(store, TaskStore):
        store.write_folder(table, target)
    else:
        save_path(
            Path(target),
            lambda folder: write_parquet(store, table, folder / "part-0.parquet"),
            folder=True,
        )
    return table.rows


def select_world(world: World, solution: StoredSolution) -> list[str]:
    """Return one SELECT for each query.

    As in memory, a queried atom is answered even if the evidence decides it, and an atom that two
    queries name is answered once.
    """
    problem, dialect = solution.problem, solution.scratch.store.dialect
    queries = list(dict.fromkeys(world.queries))
    width = max((problem.model.predicates[q.predicate].arity for q in queries), default=0)
    names = load_names(queries, width, solution.scratch)
    domains = StoreEngine(Interpretation(problem.domains, {}), solution.scratch.store)
    whole = {query.predicate for query in queries if query.constants is None}
    found = []
    for number, query in enumerate(queries):
        arity = problem.model.predicates[query.predicate].arity
        known = known_value(problem, query)
        if known is not None:
            arguments = [f"n.{name}" for name in argument_names(arity)]
            values = [f"CAST({known} AS {dialect.real})", f"CAST(0 AS {dialect.real})"]
            source = f"{names} n WHERE n.query = {number}"
        elif query.predicate in solution.ground.unknown and (
            query.constants is None or query.predicate not in whole
        ):
            arguments = [f"d{place}.name" for place in range(arity)]
            values = ["q.value", "q.error"]
            source = join_query_answers(
                solution, query, f"{names} n ON n.query = {number}", domains
            )
        else:
            continue
        columns = answer_columns("n.predicate", arguments, values, width, solution)
        found.append(f"SELECT {columns} FROM {source}")
    if found:
        return found
    null_text, null_real = (f"CAST(NULL AS {kind})" for kind in (dialect.text, dialect.real))
    columns = answer_columns(null_text, [], [null_real, null_real], width, solution)
    return [f"SELECT {columns} FROM {names} n WHERE n.query < 0"]


def load_names(queries: list[Query], width: int, scratch: ScratchTables) -> StoredTable:
    """Load the queries as a table of query, predicate (or formula), arg1, arg2 and so on."""
    labels = [print_formula(q.formula) if q.formula is not None else q.predicate for q in queries]
    constants = {
        name: np.array([(*(q.constants or ()), *[""] * width)[place] for q in queries], object)
        for place, name in enumerate(argument_names(width))
    }
    numbers = np.arange(len(queries))
    return scratch.load({"query": numbers, "predicate": np.array(labels, object), **constants})


def answer_columns(
    predicate: str, arguments: list[str], values: list[str], width: int, solution: StoredSolution
) -> str:
    """Write the columns of the published table; missing arguments are NULL."""
    null = f"CAST(NULL AS {solution.scratch.store.dialect.text})"
    if solution.proven:  # as in memory: an exact answer has no standard errors
        values = [values[0], f"CAST(NULL AS {solution.scratch.store.dialect.real})"]
    texts = [predicate, *arguments, *[null] * (width - len(arguments)), *values]
    measures = ["probability", "stderr"] if solution.request.command == "infer" else ["value"]
    names = ["predicate", *argument_names(width), *measures]
    return ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=False))


def argument_names(width: int) -> list[str]:
    """Return the names of the argument columns, from arg1."""
    return [f"arg{place}" for place in range(1, width + 1)]


def known_value(problem: Problem, query: Query) -> float | None:
    """Return 0 or 1 if the evidence decides the queried atom, else None."""
    if query.constants is None:
        return None
    evidence = apply_blocks(problem)[query.predicate]
    types = evidence.predicate.types
    codes = [problem.domains[t].index[c] for t, c in zip(types, query.constants, strict=True)]
    row = np.array([codes], np.int32).reshape(1, len(types))
    if contains(evidence.true, row)[0]:
        return 1.0
    is_false = contains(evidence.false, row) if evidence.open else ~contains(evidence.unknown, row)
    return 0.0 if is_false[0] else None


def join_query_answers(
    solution: StoredSolution, query: Query, names: str, domains: StoreEngine
) -> str:
    """Write a FROM clause of a query's answers `q`, its names `n` and constants `d0`, `d1`, …."""
    predicate = solution.problem.model.predicates[query.predicate]
    source = f"({select_answers(solution, query.predicate)}) q JOIN {names}"
    for place, type_name in enumerate(predicate.types):
        table = domains.domain_table(type_name)
        source += f" JOIN {table} d{place} ON d{place}.code = q.c{place}"
    codes = [
        solution.problem.domains[type_name].index[constant]
        for type_name, constant in zip(predicate.types, query.constants or (), strict=False)
    ]
    where = " AND ".join(f"q.c{place} = {code}" for place, code in enumerate(codes))
    return f"{source} WHERE {where}" if where else source


def write_parquet(store: Store, table: StoredTable, path: Path) -> None:
    """Write a table to a file, batch by batch."""
    arrow, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
    writer = None
    for batch in store.fetch(f"SELECT * FROM {table}"):
        columns = {
            name: arrow.array(
                column, arrow.string() if column.dtype == object else None, from_pandas=True
            )
            for name, column in batch.items()
        }
        rows = arrow.table(columns)
        writer = writer or parquet.ParquetWriter(path, rows.schema)
        writer.write_table(rows)
    assert writer is not None  # a store gives at least one batch
    writer.close()
