"""Relations and domains that are tables of a store, or are loaded when first used."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from lapis.data.database import Domain
from lapis.data.lazy_database import LazyDomain, LazyNames, LazyRows
from lapis.problem.problem import Evidence, LazyEvidence, Problem
from lapis.relational.interpretation import Extension, Interpretation
from lapis.stores.store import (
    ScratchTables,
    Store,
    StoredTable,
    fetch_all,
    fetch_number,
    new_table_name,
)


class TableRows(LazyRows):
    """The rows of a table with columns c0, c1, …, or n for a relation without arguments."""

    def __init__(self, store: Store, table: StoredTable, arity: int) -> None:
        self.store, self.arity = store, arity
        self._table = table

    @property
    def table(self) -> StoredTable:
        return self._table

    def __len__(self) -> int:
        return self.table.rows

    def open_world(self, problem: Problem) -> Interpretation:
        """Return the world of a problem with these facts."""
        from lapis.stores.store_engine import open_world

        return open_world(problem, self.store)

    def read(self) -> np.ndarray:
        columns = [f"c{place}" for place in range(self.arity)]
        rows = np.empty((len(self), self.arity), np.int32)
        if columns:
            listed = ", ".join(columns)
            found = fetch_all(self.store, f"SELECT {listed} FROM {self.table} ORDER BY {listed}")
            for place, name in enumerate(columns):
                rows[:, place] = found[name]
        return rows


class LoadedRows(TableRows):
    """Rows in memory that are loaded when a plan first uses them."""

    def __init__(self, store: Store, rows: np.ndarray) -> None:
        self.store, self.arity = store, rows.shape[1]
        self.rows = rows  # int32[n, arity], distinct

    @cached_property
    def table(self) -> StoredTable:
        columns = {f"c{place}": column for place, column in enumerate(self.rows.T)}
        if not columns:  # a relation without arguments: a table needs a column
            columns = {"n": np.ones(len(self.rows), np.int32)}
        return self.store.load(new_table_name("relation"), columns)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self) -> np.ndarray:
        return self.rows


class TableNames(LazyNames):
    """Constants in a table with columns code, name and value."""

    def __init__(self, store: Store, table: StoredTable) -> None:
        self.store = store
        self._table = table

    @property
    def table(self) -> StoredTable:
        return self._table

    def __len__(self) -> int:
        return self.table.rows

    def read(self) -> np.ndarray:
        found = fetch_all(self.store, f"SELECT code, name FROM {self.table}")
        names = np.empty(len(self), object)
        names[found["code"]] = found["name"]
        return names

    def find(self, name: str) -> int | None:
        with ScratchTables(self.store) as scratch:
            given = scratch.load({"name": np.array([name], object)})
            query = f"SELECT d.code AS code FROM {self.table} d JOIN {given} g ON g.name = d.name"
            found = fetch_all(self.store, query)["code"]
        return int(found[0]) if len(found) else None


class LoadedNames(TableNames):
    """Constants in memory that are loaded when a plan first uses them."""

    def __init__(self, store: Store, domain: Domain) -> None:
        self.store = store
        self.domain = domain

    @cached_property
    def table(self) -> StoredTable:
        columns = {
            "code": np.arange(len(self.domain), dtype=np.int32),
            "name": self.domain.names,
            "value": self.domain.numeric,
        }
        return self.store.load(new_table_name("domain"), columns)

    def __len__(self) -> int:
        return len(self.domain)

    def read(self) -> np.ndarray:
        return self.domain.names

    def find(self, name: str) -> int | None:
        return self.domain.index.get(name)


class StoredExtension(Extension):
    """The extension of a predicate as a table."""

    def __init__(self, types: tuple[str, ...], rows: TableRows, complemented: bool = False) -> None:
        for name, value in (("types", types), ("rows", rows), ("complemented", complemented)):
            object.__setattr__(self, name, value)

    rows: TableRows

    @property
    def num_tuples(self) -> int:
        return len(self.rows)

    @cached_property
    def tuples(self) -> np.ndarray:
        return self.rows.fetch("a relation")

    @cached_property
    def distinct(self) -> tuple[int, ...]:
        """The (approximate) number of values in each column."""
        if isinstance(self.rows, LoadedRows):
            return super().distinct
        store = self.rows.store
        counts = [
            f"{store.dialect.count_distinct(f'c{place}')} AS d{place}"
            for place in range(len(self.types))
        ]
        if not counts:
            return ()
        found = fetch_all(store, f"SELECT {', '.join(counts)} FROM {self.rows.table}")
        return tuple(int(column[0]) for column in found.values())

    def holds(self, terms: tuple[str | int, ...]) -> bool:
        store, table = self.rows.store, self.rows.table
        tests = [f"c{place} = {term}" for place, term in enumerate(terms) if isinstance(term, int)]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return fetch_number(store, f"SELECT count(*) AS n FROM {table}{where}") > 0


def store_extension(store: Store, extension: Extension) -> StoredExtension:
    """Return the same relation on the store."""
    if isinstance(extension, StoredExtension):
        return extension
    rows = LoadedRows(store, extension.tuples)
    return StoredExtension(extension.types, rows, extension.complemented)


def place_problem(problem: Problem, store: Store) -> Problem:
    """Return the same problem with its constants and facts on a store, loaded on first use."""
    evidence: dict[str, Evidence] = {}
    for name, known in problem.evidence.items():
        if isinstance(known, LazyEvidence) or known.open or len(known.unknown):
            evidence[name] = known
        else:
            evidence[name] = LazyEvidence(known.predicate, LoadedRows(store, known.true))
    domains = {
        name: domain
        if isinstance(domain, LazyDomain)
        else LazyDomain(name, LoadedNames(store, domain))
        for name, domain in problem.domains.items()
    }
    return replace(problem, evidence=evidence, domains=domains)
