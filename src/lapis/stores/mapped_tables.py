"""The tables of a store that hold the predicates: a schema, a folder of Parquet, or a mapping.

    --tables public          the tables of a schema with the names of predicates
    --tables facts/          Friends.parquet, or a folder Friends/ of (partitioned) Parquet files
    --tables facts.toml      Friends = "public.friendships"
                             Smokes  = "SELECT name FROM people WHERE smokes"
                             Cancer  = { parquet = "cancer/" }
                             "person.type" = "SELECT name FROM people"

A query is sent to the engine unchanged. Some engines fold names of tables to lower case, so case is
ignored if exactly one table of a schema matches.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lapis.data.database import Database
from lapis.data.formats.table_files import TYPE_MARK
from lapis.data.lazy_database import LazyDatabase, LazyDomain
from lapis.errors import LapisError, did_you_mean
from lapis.language.model import Model
from lapis.language.resolve import read_model
from lapis.problem.task import DataLike, Inputs, ModelLike, list_worlds, open_inputs
from lapis.results.atom_result import AtomResult
from lapis.stores.store import Store, open_store
from lapis.stores.stored_database import open_tables

Answered = TypeVar("Answered")


@contextmanager
def open_on_engine(
    model: ModelLike,
    data: DataLike,
    engine: str | None,
    tables: str | None = None,
    *,
    strict: bool = False,
    probabilities: bool = True,
    max_memory: int | None = None,
) -> Iterator[tuple[Inputs, Store | None]]:
    """Open a model with its data, in memory or in tables of an engine; yield them and the store."""
    refuse_together(data, engine, tables)
    if engine is None:
        yield open_inputs(model, data, strict=strict, probabilities=probabilities), None
        return
    known = model if isinstance(model, Model) else read_model(model)
    with open_store(engine, max_memory) as store:
        if tables is not None:
            data = open_mapped(store, tables, known)
        yield open_inputs(known, data, strict=strict, probabilities=probabilities), store


def call_on_engine(
    call: Callable[[ModelLike, DataLike, str | None], Answered],
    model: ModelLike,
    data: DataLike,
    engine: str | None,
    tables: str | None,
    max_memory: int | None,
) -> Answered:
    """Call a function of (model, data, engine) on data files or on tables of the engine."""
    refuse_together(data, engine, tables)
    if tables is None or engine is None:
        return call(model, data, engine)
    known = model if isinstance(model, Model) else read_model(model)
    with open_store(engine, max_memory) as store:
        answer = call(known, open_mapped(store, tables, known), None)
        if isinstance(answer, AtomResult):
            for group in answer.asked.groups:
                for domain in group.domains:
                    if isinstance(domain, LazyDomain):
                        domain.read_names()
        return answer


def refuse_together(data: DataLike, engine: str | None, tables: str | None) -> None:
    """Raise LapisError if the place of the facts is given twice, or not at all."""
    if engine is not None and any(isinstance(each, LazyDatabase) for each in list_worlds(data)):
        raise LapisError(
            "the data is on an engine already, which does the work",
            code="option-value",
            hint=f"leave out engine={engine!r}",
        )
    if tables is not None and engine is None:
        raise LapisError(
            "--tables needs --engine",
            code="option-value",
            hint="as in --engine postgresql://host/database",
        )
    if tables is not None and data is not None:
        raise LapisError(
            "facts are read from data files or from tables, not from both",
            code="option-value",
            hint="leave out DATA, or --tables",
        )


def open_mapped(store: Store, tables: str, model: Model) -> Database:
    """Return the facts in the tables that the option `tables` gives."""
    names = [*model.predicates, *(f"{name}{TYPE_MARK}" for name in model.types)]
    return open_tables(store, find_table_sources(store, tables, names), tables)


def find_table_sources(store: Store, tables: str, names: Sequence[str]) -> dict[str, str]:
    """Map names to the tables or queries of the store that hold their rows."""
    path = Path(tables)
    if path.suffix == ".toml":
        return _read_mapping(store, path)
    if path.is_dir():
        return _parquet_folder(store, path)
    return _schema(store, tables, names)


def _read_mapping(store: Store, path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as stream:
            entries = tomllib.load(stream)
    except OSError as error:
        raise LapisError(f"{path}: {error.strerror}", code="tables-file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LapisError(f"{path}: {error}", code="tables-file") from None
    if not entries:
        raise LapisError(f"{path}: no tables are given", code="tables-none")
    return {name: _entry(store, path, name, entry) for name, entry in entries.items()}


def _entry(store: Store, path: Path, name: str, entry: object) -> str:
    if isinstance(entry, str) and entry.strip():
        return entry.strip().rstrip(";")
    if isinstance(entry, Mapping) and set(entry) == {"parquet"}:
        place = path.parent / str(entry["parquet"])
        if place.exists():
            return store.parquet(place)
        raise LapisError(f"{path}: {name}: there is no {place}", code="tables-file")
    raise LapisError(
        f"{path}: {name} must be a table, a query, or {{ parquet = PATH }}, not {entry!r}",
        code="tables-file",
        hint='as in Friends = "SELECT a, b FROM friendships"',
    )


def _parquet_folder(store: Store, folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or not (path.is_dir() or path.suffix == ".parquet"):
            continue
        found[path.name.removesuffix(".parquet")] = store.parquet(path)
    if not found:
        raise LapisError(f"{folder}: there are no Parquet files here", code="tables-none")
    return found


def _schema(store: Store, schema: str, names: Sequence[str]) -> dict[str, str]:
    tables = store.find_tables(schema)
    if not tables:
        raise LapisError(
            f"there is no schema, folder or file {schema!r} with tables",
            code="tables-none",
            hint="--tables is a schema of the engine, a folder of Parquet files, or a TOML file",
        )
    found = {name: tables[own] for name in names if (own := _fitting(name, tables))}
    if not found:
        close = next((c for name in names if (c := did_you_mean(name, tables))), None)
        raise LapisError(
            f"no table of {schema!r} has the name of a predicate of the model",
            code="tables-none",
            hint=f"is it {close!r}? map it in a TOML file"
            if close
            else f"the schema has {', '.join(sorted(tables)[:5])}; map tables in a TOML file",
        )
    return found


def _fitting(predicate: str, tables: Mapping[str, str]) -> str | None:
    if predicate in tables:
        return predicate
    alike = [name for name in tables if name.lower() == predicate.lower()]
    if len(alike) > 1:
        raise LapisError(
            f"the table of {predicate} is ambiguous: {' or '.join(alike)}",
            code="tables-ambiguous",
            hint="map it in a TOML file",
        )
    return alike[0] if alike else None
