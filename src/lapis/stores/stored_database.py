"""Data in place: tables of a store as facts, their constants numbered there.

A predicate is a table, or a query, whose columns are its arguments in order. Binding to a model
says which columns share a type. Then, on the store,

    the constants of a type   the distinct values of its columns, after those the model names,
    a relation                its distinct rows, values replaced by codes,

and nothing comes here but a few numbers. Values are compared as they are stored where all columns
of a type hold integers, else as texts; a constant's name is its text. Codes follow the order of
integers, or of texts, so that they do not depend on the order of rows.

Integers that have no gaps need no dictionary: a code is the value less the smallest one, and the
relation is a scan instead of a join for each column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.data.database import TRUE, Database, Domain, Relation
from lapis.data.formats.table_files import TYPE_MARK, TableName
from lapis.data.lazy_database import LazyDatabase, LazyDomain, LazyRelation, LazyRows
from lapis.errors import LapisError, suggestion
from lapis.language.model import Model, Predicate
from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import (
    LoadedNames,
    LoadedRows,
    ScratchTables,
    TableNames,
    TableRows,
    fresh_name,
)
from lapis.stores.store import Store, fetch_all, fetch_number

# What is a query and no table, whose name may begin like one.
QUERY = re.compile(r"(SELECT|WITH|FROM|TABLE)\b|VALUES\s*\(|\(", re.IGNORECASE)


@dataclass(frozen=True)
class TableSource:
    """A table or query of the user's."""

    text: str  # as a statement names it: a table, or a query in parentheses
    columns: tuple[str, ...]
    integers: tuple[bool, ...]  # whether a column holds integers
    reals: tuple[bool, ...]  # whether it holds other numbers

    def name(self, position: int, dialect: Dialect) -> str:
        """The constants of a column t.…, as texts."""
        column = f"t.{dialect.identifier(self.columns[position])}"
        return dialect.as_name(column) if self.reals[position] else dialect.as_text(column)


class _SourceRows(LazyRows):
    """Rows that are not numbered yet: they can be counted, no more."""

    def __init__(self, store: Store, source: TableSource) -> None:
        self.store, self.source, self.arity = store, source, len(source.columns)

    @cached_property
    def _num_rows(self) -> int:
        return fetch_number(self.store, f"SELECT count(*) AS n FROM {self.source.text} t")

    def __len__(self) -> int:
        return self._num_rows

    def read(self) -> np.ndarray:
        raise AssertionError("data of a store is bound to a model before its rows are read")


@dataclass(frozen=True)
class StoredDatabase(LazyDatabase):
    """Relations that are tables of a store."""

    store: Store | None = field(default=None, compare=False, repr=False)
    sources: Mapping[str, TableSource] = field(default_factory=dict, compare=False, repr=False)
    # More constants of a type, by the type's name.
    constants: Mapping[str, TableSource] = field(default_factory=dict, compare=False, repr=False)

    def bind(self, model: Model) -> Database:
        assert self.store is not None
        return _Binding(self.store, self, model).bind()


def open_tables(store: Store, tables: Mapping[str, str], name: str = "<store>") -> StoredDatabase:
    """The facts that tables of a store hold, by predicate: names of tables, or SELECT … texts.

    As for files, `t.type` holds constants of the type t, whether or not a fact mentions them.
    """
    sources: dict[str, TableSource] = {}
    constants: dict[str, TableSource] = {}
    relations: dict[str, Relation] = {}
    for table, text in tables.items():
        source = _open_source(store, table, text)
        if table.endswith(TYPE_MARK):
            constants[table.removesuffix(TYPE_MARK)] = source
            continue
        predicate, truth, function = TableName.parse(table)
        if truth != TRUE:
            raise LapisError(
                f"{table}: tables of an engine hold facts that are true",
                code="data-table",
                hint="what is false or unknown is read from files",
            )
        sources[predicate] = source
        types = tuple(f"{predicate}.{number}" for number in range(len(source.columns)))
        rows = _SourceRows(store, source)
        relations[predicate] = LazyRelation(predicate, types, rows, function)
    domains = {
        type_name: Domain(type_name, ())
        for relation in relations.values()
        for type_name in relation.types
    }
    return StoredDatabase(
        domains, relations, name, store=store, sources=sources, constants=constants
    )


def _open_source(store: Store, table: str, text: str) -> TableSource:
    text = text.strip().rstrip(";")
    # The parenthesis is on a line of its own: a query may end in a comment.
    place = f"({text}\n)" if QUERY.match(text) else text
    try:
        columns = fetch_all(store, f"SELECT * FROM {place} t LIMIT 0")
    except LapisError as error:
        if error.code != "engine-failed":  # a lost connection is not the table's fault
            raise
        raise LapisError(
            f"the facts of '{table}' cannot be read: {error.message}",
            code="data-table",
            hint="is the table, or the query, written as the engine would have it?",
        ) from error
    integers = tuple(
        each.dtype.kind in "iu"
        and np.can_cast(each.dtype, np.int64)
        and _is_castable(store, place, name)
        for name, each in columns.items()
    )
    reals = tuple(each.dtype.kind == "f" for each in columns.values())
    return TableSource(place, tuple(columns), integers, reals)


def _is_castable(store: Store, place: str, column: str) -> bool:
    """Whether what comes as integers is so there too; PostgreSQL's money is none."""
    cast = f"CAST({store.dialect.identifier(column)} AS BIGINT)"
    try:
        fetch_all(store, f"SELECT {cast} AS v FROM {place} t LIMIT 0")
    except LapisError as error:
        if error.code != "engine-failed":
            raise
        return False
    return True


class _Binding:
    def __init__(self, store: Store, database: StoredDatabase, model: Model) -> None:
        self.store, self.database, self.model = store, database, model

    def bind(self) -> Database:
        places: dict[str, list[tuple[TableSource, int]]] = {name: [] for name in self.model.types}
        for name in self.database.relations:
            source, predicate = self.database.sources[name], self.model.predicates[name]
            self._check_arity(predicate, source)
            for position, type_name in enumerate(predicate.types):
                places[type_name].append((source, position))
        for type_name, source in self.database.constants.items():
            self._check_type(type_name, source)
            places[type_name].append((source, 0))
        numbered = {name: self._number(name, found) for name, found in places.items()}
        relations: dict[str, Relation] = {
            name: self._relation(predicate, numbered)
            for name, predicate in self.model.predicates.items()
        }
        domains = {name: each.domain for name, each in numbered.items()}
        return Database(domains, relations, self.database.name)

    def _check_arity(self, predicate: Predicate, source: TableSource) -> None:
        if predicate.arity and len(source.columns) != predicate.arity:  # P() is true of any row
            raise LapisError(
                f"{predicate.name} has {predicate.arity} argument{'s' * (predicate.arity != 1)}, "
                f"but its table has the columns {', '.join(source.columns)}",
                code="data-arity",
                span=predicate.span,
                hint="name a query that selects a column, with its own name, for each argument",
            )

    def _check_type(self, type_name: str, source: TableSource) -> None:
        if type_name not in self.model.types:
            raise LapisError(
                f"data for an unknown type {type_name!r}",
                code="unknown-type",
                hint=suggestion(type_name, self.model.types, "the model has no such type"),
            )
        if len(source.columns) != 1:
            raise LapisError(
                f"{type_name}{TYPE_MARK} needs one column, the constants of the type",
                code="data-arity",
            )

    def _number(
        self, type_name: str, places: Sequence[tuple[TableSource, int]]
    ) -> _StoredConstants:
        """The constants of a type, with codes."""
        dialect = self.store.dialect
        named = (*self.model.types[type_name], *self.database.declared.get(type_name, ()))
        integers = all(source.integers[position] for source, position in places)
        if not places:
            domain = Domain(type_name, tuple(dict.fromkeys(named)))
            return _StoredConstants(
                LazyDomain(type_name, LoadedNames(self.store, domain)), None, False
            )
        integers = integers and all(map(_is_integer, named))
        values_of = [
            f"CAST({dialect.identifier(source.columns[position])} AS BIGINT)"
            if integers
            else source.name(position, dialect)
            for source, position in places
        ]
        selects = [
            f"SELECT {value} AS v FROM {source.text} t"
            for value, (source, _) in zip(values_of, places, strict=True)
        ]
        with ScratchTables(self.store) as scratch:
            if integers and not named:
                numbered = self._number_range(type_name, selects, scratch)
                if numbered is not None:
                    return numbered
            values = scratch.create(
                f"SELECT v, 0 AS given FROM ({' UNION ALL '.join(selects)}) t GROUP BY v"
            )
            if fetch_number(self.store, f"SELECT count(*) AS n FROM {values} WHERE v IS NULL"):
                raise null_constant(type_name)
            listed = str(values)
            if named:
                distinct = list(dict.fromkeys(map(int, named) if integers else named))
                column = np.array(distinct, np.int64 if integers else object)
                given = scratch.load({"v": column, "given": np.arange(-len(distinct), 0)})
                listed = (
                    f"(SELECT v, min(given) AS given FROM (SELECT v, given FROM {values} "
                    f"UNION ALL SELECT v, given FROM {given}) t GROUP BY v)"
                )
            order = "v" if integers else dialect.in_order("v")
            code = f"row_number() OVER (ORDER BY given, {order}) - 1"
            return self._numbered(type_name, f"SELECT {code} AS code, v FROM {listed} t", integers)

    def _number_range(
        self, type_name: str, selects: list[str], scratch: ScratchTables
    ) -> _StoredConstants | None:
        """Integers without gaps: codes are values less the smallest.

        Often one column has them all, as the first of a relation between people has all people.
        So the longest is looked at alone; its distinct values then stand for it in `selects`.
        """
        told = fetch_all(
            self.store,
            " UNION ALL ".join(
                f"SELECT {place} AS place, count(*) AS num, count(v) AS known, "
                f"coalesce(min(v), 0) AS low, coalesce(max(v), 0) AS high "
                f"FROM ({select}) c HAVING count(*) > 0"
                for place, select in enumerate(selects)
            ),
        )
        num = told["num"].astype(np.int64)
        if (told["known"] != num).any():
            raise null_constant(type_name)
        if not len(num):
            return None
        low, high = int(told["low"].min()), int(told["high"].max())
        size, longest = high - low + 1, int(told["place"][np.lexsort((told["place"], -num))[0]])
        if size > num.sum():
            return None
        found = 0
        if size <= num.max():
            distinct = scratch.create(f"SELECT v FROM ({selects[longest]}) c GROUP BY v")
            found, selects[longest] = distinct.rows, f"SELECT v FROM {distinct}"
        if found < size:
            union = " UNION ALL ".join(selects)
            distinct = scratch.create(f"SELECT v FROM ({union}) t GROUP BY v")
            found, selects[:] = distinct.rows, [f"SELECT v FROM {distinct}"]
        if found < size:
            return None
        numbers = self.store.dialect.numbers.format(size=size)
        rows = f"SELECT i AS code, CAST(i AS BIGINT) + ({low}) AS v FROM {numbers}"
        return self._numbered(type_name, rows, True, low)

    def _numbered(
        self, type_name: str, rows: str, integers: bool, smallest: int | None = None
    ) -> _StoredConstants:
        """A type's constants from rows of code and v."""
        dialect = self.store.dialect
        text = dialect.as_text("v") if integers else "v"
        value = f"CAST(v AS {dialect.real})" if integers else dialect.as_number("v")
        table = self.store.create(
            fresh_name("domain"),
            f"SELECT CAST(code AS INTEGER) AS code, {text} AS name, {value} AS value"
            f"{', v AS number' * integers} FROM ({rows}) r",
        )
        domain = LazyDomain(type_name, TableNames(self.store, table))
        return _StoredConstants(domain, smallest, integers)

    def _relation(
        self, predicate: Predicate, numbered: Mapping[str, _StoredConstants]
    ) -> LazyRelation:
        rows: LazyRows
        source = self.database.sources.get(predicate.name)
        if source is None:
            rows = LoadedRows(self.store, np.empty((0, predicate.arity), np.int32))
            return LazyRelation(predicate.name, predicate.types, rows, predicate.function)
        dialect = self.store.dialect
        columns, joins = [], f"{source.text} t"
        for position, type_name in enumerate(predicate.types):
            own = numbered[type_name]
            column = f"t.{dialect.identifier(source.columns[position])}"
            if own.smallest is not None:
                value = f"CAST({column} AS BIGINT)"  # differences may be wider than a column
                columns.append(f"CAST({value} - ({own.smallest}) AS INTEGER) AS c{position}")
                continue
            key = f"d{position}.{'number' if own.integers else 'name'}"
            same = column if own.integers else source.name(position, dialect)
            joins += f" LEFT JOIN {own.table} d{position} ON {key} = {same}"
            columns.append(f"d{position}.code AS c{position}")
        if predicate.arity:
            select = f"SELECT DISTINCT {', '.join(columns)} FROM {joins}"
        else:
            select = f"SELECT 1 AS n FROM {source.text} t LIMIT 1"
        table = self.store.create(fresh_name("relation"), select)
        # Constants were read before: what has none now would be lost, or be another one.
        wrong = [
            f"c{position} IS NULL OR c{position} < 0 OR c{position} >= {len(numbered[name].domain)}"
            for position, name in enumerate(predicate.types)
        ]
        counted = f"SELECT count(*) AS n FROM {table} WHERE {' OR '.join(wrong)}"
        if wrong and fetch_number(self.store, counted):
            raise LapisError(
                f"the rows of {predicate.name} changed while they were read",
                code="data-changed",
                hint="read from a table that nobody writes to, or a query that always gives the "
                "same rows",
            )
        rows = TableRows(self.store, table, predicate.arity)
        return LazyRelation(predicate.name, predicate.types, rows, predicate.function)


@dataclass(frozen=True)
class _StoredConstants:
    """A type's constants on the store."""

    domain: LazyDomain
    smallest: int | None  # where codes are values less the smallest
    integers: bool

    @property
    def table(self) -> str:
        assert isinstance(self.domain.stored, TableNames)
        return str(self.domain.stored.table)


def _is_integer(constant: str) -> bool:
    """Whether an integer of 64 bits is written so."""
    try:
        return str(np.int64(constant)) == constant
    except (ValueError, OverflowError):
        return False


def null_constant(type_name: str) -> LapisError:
    return LapisError(
        f"a column of type {type_name!r} holds NULL, which is no constant",
        code="data-null",
        hint="name a query that leaves these rows out",
    )
