"""Relations and domains that are tables of a store, or become tables when first used."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from lapis.data.database import Domain
from lapis.data.lazy_database import LazyDomain, LazyNames, LazyRows
from lapis.problem.problem import Evidence, LazyEvidence, Problem
from lapis.relational.interpretation import Extension, Interpretation
from lapis.stores.store import Store, StoredTable, fetch_all, fetch_number

_numbers = itertools.count()


def fresh_name(kind: str) -> str:
    """A name among our tables that was not given before."""
    return f"{kind}{next(_numbers)}"


class TableRows(LazyRows):
    """The rows of a table with columns c0, c1, …; one of no arguments has a column n."""

    def __init__(self, store: Store, table: StoredTable, arity: int) -> None:
        self.store, self.arity = store, arity
        self._table = table

    @property
    def table(self) -> StoredTable:
        return self._table

    def __len__(self) -> int:
        return self.table.rows

    def open_world(self, problem: Problem) -> Interpretation:
        """The world of a problem that has these facts."""
        from lapis.stores.stored_world import open_world

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
    """Rows that are here, and become a table when a plan first asks for it."""

    def __init__(self, store: Store, rows: np.ndarray) -> None:
        self.store, self.arity = store, rows.shape[1]
        self.rows = rows  # int32[n, arity], distinct

    @cached_property
    def table(self) -> StoredTable:
        columns = {f"c{place}": column for place, column in enumerate(self.rows.T)}
        if not columns:  # one of no arguments needs a column to hold its one row with
            columns = {"n": np.ones(len(self.rows), np.int32)}
        return self.store.load(fresh_name("relation"), columns)

    def __len__(self) -> int:
        return len(self.rows)

    def read(self) -> np.ndarray:
        return self.rows


class TableNames(LazyNames):
    """The constants in a table with columns code, name and value."""

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
            asked = scratch.load({"name": np.array([name], object)})
            query = f"SELECT d.code AS code FROM {self.table} d JOIN {asked} a ON a.name = d.name"
            found = fetch_all(self.store, query)["code"]
        return int(found[0]) if len(found) else None


class LoadedNames(TableNames):
    """Constants that are here, and become a table when a plan first asks for it."""

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
        return self.store.load(fresh_name("domain"), columns)

    def __len__(self) -> int:
        return len(self.domain)

    def read(self) -> np.ndarray:
        return self.domain.names

    def find(self, name: str) -> int | None:
        return self.domain.index.get(name)


class StoredExtension(Extension):
    """What is true of one predicate, as the rows of a table."""

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
        """About the number of values in each column."""
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


class ScratchTables:
    """Tables for one piece of work, dropped at its end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._names: list[str] = []

    def create(self, select: str) -> StoredTable:
        return self.store.create(self._name(), select)

    def load(self, columns: Mapping[str, np.ndarray]) -> StoredTable:
        return self.store.load(self._name(), columns)

    def close(self) -> None:
        while self._names:
            self.store.drop(self._names.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def _name(self) -> str:
        self._names.append(fresh_name("scratch"))
        return self._names[-1]


def store_extension(store: Store, extension: Extension) -> StoredExtension:
    """The same relation, on the store."""
    if isinstance(extension, StoredExtension):
        return extension
    rows = LoadedRows(store, extension.tuples)
    return StoredExtension(extension.types, rows, extension.complemented)


def place_problem(problem: Problem, store: Store) -> Problem:
    """The same problem with its constants and facts on a store; they go there when first used."""
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
