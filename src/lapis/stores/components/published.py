"""Answers as a table: on the engine, for whoever works there, or in Parquet, a file or a folder.

    predicate, arg1, arg2, …, probability, stderr      of marginals
    predicate, arg1, arg2, …, value                    of a most likely world, 0 or 1

Arguments are constants as the data writes them; a predicate of fewer arguments has NULL in the
others, and so has an error that the method does not know. The table is built in the store's
scratch schema and published in one step at the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lapis.data.atomic_write import require_writable, whole_path
from lapis.data.keys import contains
from lapis.errors import LapisError
from lapis.grounding.blocks import apply_blocks
from lapis.language.printer import print_formula
from lapis.problem.problem import Problem
from lapis.problem.query import Query
from lapis.problem.task import World
from lapis.relational.interpretation import Interpretation
from lapis.results.result import import_package
from lapis.stores.components.solve_on_store import Solved, select_answers
from lapis.stores.store import Store, StoredTable, TaskStore, fetch_all
from lapis.stores.store_engine import StoreEngine

TABLE = "table:"


def check_target(target: str) -> None:
    """Refuse a place for an answer that is none, before hours of work."""
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
        f"an answer cannot be left in {target!r}",
        code="output-target",
        hint="write table:NAME for a table on the engine, a path that ends in .parquet, or a "
        "folder, which ends in /",
    )


def is_folder(target: str) -> bool:
    """Whether a target is a folder of files: so written, or on a file system of a cluster."""
    return target.endswith("/") or "://" in target


def require_absent(path: Path) -> None:
    """Refuse a place for a folder that is taken: what is there may be of others too."""
    if path.exists():
        raise LapisError(
            f"{path}: cannot be written: it exists",
            code="unwritable",
            hint="remove it, or name another folder",
        )
    require_writable(path)


def check_place(store: Store, target: str) -> None:
    """Refuse a table or folder that this engine cannot write."""
    if target.startswith(TABLE):
        store.check_target(target.removeprefix(TABLE))
        refuse_others(store, target.removeprefix(TABLE))
        return
    if not is_folder(target):
        return
    if isinstance(store, TaskStore):
        store.check_folder(target)
    elif "://" in target:
        raise LapisError(
            f"{store.dialect.name} does not write to {target}",
            code="output-target",
            hint="Spark does; or name a folder of this machine, which ends in /",
        )


def refuse_others(store: Store, target: str) -> None:
    """Refuse to replace a table that is no answer of ours: it may be the very facts we read."""
    try:
        columns = list(fetch_all(store, f"SELECT * FROM {store.target_reference(target)} LIMIT 0"))
    except LapisError as error:
        if error.code != "engine-failed":
            raise
        return  # there is none
    for measures in (["probability", "stderr"], ["value"]):
        if columns == ["predicate", *arguments(len(columns) - 1 - len(measures)), *measures]:
            return
    shown = ", ".join(columns[:5]) + ", …" * (len(columns) > 5)
    raise LapisError(
        f"the table {target} cannot be written: there is one with the columns {shown}, which is no "
        "answer of Lapis",
        code="engine-target",
        hint="name another table, or drop it",
    )


def publish_answers(world: World, solved: Solved, target: str) -> int:
    """Leave what is asked of a world at a target; the number of atoms."""
    store = solved.store
    table = store.create("published", " UNION ALL ".join(select_world(world, solved)))
    if target.startswith(TABLE):
        store.publish(table.name, target.removeprefix(TABLE))
    elif not is_folder(target):
        write_parquet(store, table, Path(target))
    elif isinstance(store, TaskStore):
        store.write_folder(table, target)
    else:
        with whole_path(Path(target), folder=True) as folder:
            write_parquet(store, table, folder / "part-0.parquet")
    return table.rows


def select_world(world: World, solved: Solved) -> list[str]:
    """SELECTs of what is asked, a query each; as where answers are fetched, single atoms are
    answered even if the data decides them, and what is asked twice is answered once."""
    problem, store = solved.problem, solved.store
    queries = list(dict.fromkeys(world.queries))
    labels = [print_formula(q.formula) if q.formula is not None else q.predicate for q in queries]
    width = max((problem.model.predicates[q.predicate].arity for q in queries), default=0)
    known = [known_value(problem, query) for query in queries]
    written = {
        name: np.array([(*(q.constants or ()), *[""] * width)[place] for q in queries], object)
        for place, name in enumerate(arguments(width))
    }
    names = store.load(
        "names",
        {"query": np.arange(len(queries)), "predicate": np.array(labels, object), **written,
         "known": np.array([np.nan if value is None else value for value in known])},
    )  # fmt: skip
    domains = StoreEngine(Interpretation(problem.domains, {}), store)
    whole = {query.predicate for query in queries if query.constants is None}
    found = []
    for number, (query, value) in enumerate(zip(queries, known, strict=True)):
        twice = query.constants is not None and query.predicate in whole
        if value is not None:
            found.append(select_known(solved, query, number, names, width))
        elif query.predicate in solved.ground.unknown and not twice:
            found.append(select_query(solved, query, number, names, domains, width))
    if found:
        return found
    text, real = store.dialect.text, store.dialect.real
    listed = [f"CAST(NULL AS {text}) AS {name}" for name in ["predicate", *arguments(width)]]
    listed += [f"CAST(NULL AS {real}) AS {name}" for name in measured(solved)]
    return [f"SELECT {', '.join(listed)} FROM {names} n WHERE n.query < 0"]


def known_value(problem: Problem, query: Query) -> float | None:
    """What the data decides of a single atom, 0 or 1; None where it does not."""
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


def select_known(solved: Solved, query: Query, number: int, names: StoredTable, width: int) -> str:
    arity = solved.problem.model.predicates[query.predicate].arity
    text, real = solved.store.dialect.text, solved.store.dialect.real
    columns = ["n.predicate AS predicate", *(f"n.{n} AS {n}" for n in arguments(arity))]
    columns += [f"CAST(NULL AS {text}) AS {name}" for name in arguments(width)[arity:]]
    values = ["n.known", f"CAST(0 AS {real})"]
    columns += [f"{v} AS {name}" for v, name in zip(values, measured(solved), strict=False)]
    return f"SELECT {', '.join(columns)} FROM {names} n WHERE n.query = {number}"


def arguments(width: int) -> list[str]:
    return [f"arg{place}" for place in range(1, width + 1)]


def measured(solved: Solved) -> list[str]:
    return ["probability", "stderr"] if solved.question.command == "infer" else ["value"]


def select_query(
    solved: Solved,
    query: Query,
    number: int,
    names: StoredTable,
    domains: StoreEngine,
    width: int,
) -> str:
    predicate = solved.problem.model.predicates[query.predicate]
    text = solved.store.dialect.text
    columns = ["n.predicate AS predicate"]
    source = f"({select_answers(solved, query.predicate)}) q JOIN {names} n ON n.query = {number}"
    for place, type_name in enumerate(predicate.types):
        columns.append(f"d{place}.name AS arg{place + 1}")
        table = domains.domain_table(type_name)
        source += f" JOIN {table} d{place} ON d{place}.code = q.c{place}"
    columns += [f"CAST(NULL AS {text}) AS {name}" for name in arguments(width)[predicate.arity :]]
    values = ["q.value", "q.error"]
    columns += [f"{v} AS {name}" for v, name in zip(values, measured(solved), strict=False)]
    codes = [
        solved.problem.domains[type_name].index[constant]
        for type_name, constant in zip(predicate.types, query.constants or (), strict=False)
    ]
    where = " AND ".join(f"q.c{place} = {code}" for place, code in enumerate(codes))
    return f"SELECT {', '.join(columns)} FROM {source}" + (f" WHERE {where}" if where else "")


def write_parquet(store: Store, table: StoredTable, path: Path) -> None:
    """A table as a file, batch by batch."""
    arrow, parquet = import_package("pyarrow"), import_package("pyarrow.parquet")
    with whole_path(path) as place:
        writer = None
        for batch in store.fetch(f"SELECT * FROM {table}"):
            columns = {
                name: arrow.array(
                    column, arrow.string() if column.dtype == object else None, from_pandas=True
                )
                for name, column in batch.items()
            }
            rows = arrow.table(columns)
            writer = writer or parquet.ParquetWriter(place, rows.schema)
            writer.write_table(rows)
        assert writer is not None  # a store gives at least one batch
        writer.close()
