"""Tables of a store as facts, with codes for their constants.

A predicate is a table, or a query, whose columns are its arguments in order. A model determines
which columns share a type. Then the store computes

    the constants of a type   the distinct values of its columns, after those that the model names,
    a relation                its distinct rows, values replaced by codes,

and only a few numbers are fetched. If all columns of a type hold integers, values are compared as
integers, otherwise as texts. The name of a constant is its text. Codes follow the order of integers
or texts, so they do not depend on the order of rows.

Integers without gaps need no dictionary: a code is the value minus the smallest one, and a relation
is a scan instead of a join for each column.
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
from lapis.language.names import format_atom, format_constant
from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import LoadedNames, LoadedRows, TableNames, TableRows
from lapis.stores.store import ScratchTables, Store, fetch_all, fetch_number, new_table_name

# The start of a query. A table's name may start with the same letters.
QUERY = re.compile(r"(SELECT|WITH|FROM|TABLE)\b|VALUES\s*\(|\(", re.IGNORECASE)


@dataclass(frozen=True)
class TableSource:
    """A table or query of the user."""

    text: str  # in a statement: a table, or a query in parentheses
    columns: tuple[str, ...]
    integers: tuple[bool, ...]  # whether the column holds integers
    reals: tuple[bool, ...]  # whether the column holds other numbers

    def name(self, position: int, dialect: Dialect) -> str:
        """Write the names of the constants in a column of t."""
        column = f"t.{dialect.identifier(self.columns[position])}"
        return dialect.as_name(column) if self.reals[position] else dialect.as_text(column)


class _SourceRows(LazyRows):
    """Rows without codes yet. They can only be counted."""

    def __init__(self, store: Store, source: TableSource) -> None:
        self.store, self.source, self.arity = store, source, len(source.columns)

    @cached_property
    def _num_rows(self) -> int:
        return fetch_number(self.store, f"SELECT count(*) AS n FROM {self.source.text} t")

    def __len__(self) -> int:
        return self._num_rows

    def read(self) -> np.ndarray:
        raise AssertionError("data of a store must be bound to a model before it is read")


@dataclass(frozen=True, repr=False)
class StoredDatabase(LazyDatabase):
    """Facts in tables of a store."""

    store: Store | None = field(default=None, compare=False, repr=False)
    sources: Mapping[str, TableSource] = field(default_factory=dict, compare=False, repr=False)
    # Tables `t.type` of further constants, by the name of the type.
    constants: Mapping[str, TableSource] = field(default_factory=dict, compare=False, repr=False)

    def bind(self, model: Model) -> Database:
        assert self.store is not None
        return _Binding(self.store, self, model).bind()


def open_tables(store: Store, tables: Mapping[str, str], name: str = "<store>") -> StoredDatabase:
    """Return facts in tables of a store; `tables` maps predicates to tables or SELECT statements.

    As for files, `t.type` holds constants of the type t, whether or not a fact contains them.
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
                f"{table}: tables of an engine hold true facts only",
                code="data-table",
                hint="give false and unknown facts in files",
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
    # The parenthesis is on a separate line because a query may end in a comment.
    place = f"({text}\n)" if QUERY.match(text) else text
    try:
        columns = fetch_all(store, f"SELECT * FROM {place} t LIMIT 0")
    except LapisError as error:
        if error.code != "engine-failed":  # for example a lost connection
            raise
        raise LapisError(
            f"the facts of '{table}' cannot be read: {error.message}",
            code="data-table",
            hint="check the table's name, or the query, in the SQL of the engine",
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
    """Return whether the engine can cast a column to an integer; PostgreSQL cannot cast `money`."""
    cast = f"CAST({store.dialect.identifier(column)} AS BIGINT)"
    try:
        fetch_all(store, f"SELECT {cast} AS v FROM {place} t LIMIT 0")
    except LapisError as error:
        if error.code != "engine-failed":
            raise
        return False
    return True


class _Binding:
    """Computes the codes of all constants and the coded relations, for one model."""

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
        for predicate in self.model.predicates.values():
            if predicate.is_number and predicate.name in self.database.sources:
                self._check_numbers(predicate, relations[predicate.name], numbered)
        return Database(domains, relations, self.database.name)

    def _check_arity(self, predicate: Predicate, source: TableSource) -> None:
        if predicate.arity and len(source.columns) != predicate.arity:  # P(): any row makes it true
            raise LapisError(
                f"{predicate.name} has {predicate.arity} argument{'s' * (predicate.arity != 1)}, "
                f"but its table has the columns {', '.join(source.columns)}",
                code="data-arity",
                span=predicate.span,
                hint="give a query that selects one named column for each argument",
            )

    def _check_numbers(
        self, predicate: Predicate, relation: Relation, numbered: Mapping[str, _StoredConstants]
    ) -> None:
        """Raise if a value is not a finite number, or if there are two for the same arguments."""
        assert isinstance(relation, LazyRelation)
        assert isinstance(relation.rows, TableRows)
        last = predicate.arity - 1
        key = ", ".join(f"c{place}" for place in range(last))
        values = numbered[predicate.types[-1]].table
        wrong = f"SELECT t.* FROM {relation.rows.table} t JOIN {values} d ON d.code = t.c{last} "
        twice = f"SELECT {key}, max(c{last}) AS c{last} FROM {relation.rows.table} t GROUP BY {key}"
        for query, problem in (
            (f"{wrong} WHERE d.value IS NULL LIMIT 1", "is not a finite number"),
            (f"{twice} HAVING count(*) > 1 LIMIT 1", "is one of several values"),
        ):
            found = fetch_all(self.store, query)
            if not len(found[f"c{last}"]):
                continue
            names = [
                numbered[type_name].domain.names[int(found[f"c{place}"][0])]
                for place, type_name in enumerate(predicate.types)
            ]
            raise LapisError(
                f"{format_atom(predicate.name, names, function=True)}: "
                f"{format_constant(names[-1])} {problem}",
                code="data-number",
                hint="give a query that leaves such rows out",
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
        """Assign codes to the constants of a type."""
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
        """Assign codes to integers without gaps; None if there are gaps.

        Often one column contains all constants. So the longest column is checked first. If it does
        not contain all, its distinct values replace it in `selects`.
        """
        ranges = fetch_all(
            self.store,
            " UNION ALL ".join(
                f"SELECT {place} AS place, count(*) AS num, count(v) AS known, "
                f"coalesce(min(v), 0) AS low, coalesce(max(v), 0) AS high "
                f"FROM ({select}) c HAVING count(*) > 0"
                for place, select in enumerate(selects)
            ),
        )
        num = ranges["num"].astype(np.int64)
        if (ranges["known"] != num).any():
            raise null_constant(type_name)
        if not len(num):
            return None
        low, high = int(ranges["low"].min()), int(ranges["high"].max())
        size, longest = high - low + 1, int(ranges["place"][np.lexsort((ranges["place"], -num))[0]])
        if size > num.sum():
            return None
        num_found = 0
        if size <= num.max():
            distinct = scratch.create(f"SELECT v FROM ({selects[longest]}) c GROUP BY v")
            num_found, selects[longest] = distinct.rows, f"SELECT v FROM {distinct}"
        if num_found < size:
            union = " UNION ALL ".join(selects)
            distinct = scratch.create(f"SELECT v FROM ({union}) t GROUP BY v")
            num_found, selects[:] = distinct.rows, [f"SELECT v FROM {distinct}"]
        if num_found < size:
            return None
        numbers = self.store.dialect.numbers.format(size=size)
        rows = f"SELECT i AS code, CAST(i AS BIGINT) + ({low}) AS v FROM {numbers}"
        return self._numbered(type_name, rows, True, low)

    def _numbered(
        self, type_name: str, rows: str, integers: bool, smallest: int | None = None
    ) -> _StoredConstants:
        """Create the table of a type's constants from rows of code and v."""
        dialect = self.store.dialect
        text = dialect.as_text("v") if integers else "v"
        value = f"CAST(v AS {dialect.real})" if integers else dialect.as_number("v")
        table = self.store.create(
            new_table_name("domain"),
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
        table = self.store.create(new_table_name("relation"), select)
        # If the source has changed since its constants were read, some codes are missing or wrong.
        wrong = [
            f"c{position} IS NULL OR c{position} < 0 OR c{position} >= {len(numbered[name].domain)}"
            for position, name in enumerate(predicate.types)
        ]
        counted = f"SELECT count(*) AS n FROM {table} WHERE {' OR '.join(wrong)}"
        if wrong and fetch_number(self.store, counted):
            raise LapisError(
                f"the rows of {predicate.name} changed while they were read",
                code="data-changed",
                hint="retry, or use a query with a deterministic result",
            )
        rows = TableRows(self.store, table, predicate.arity)
        return LazyRelation(predicate.name, predicate.types, rows, predicate.function)


@dataclass(frozen=True)
class _StoredConstants:
    """The constants of a type on the store."""

    domain: LazyDomain
    smallest: int | None  # if codes are values minus the smallest
    integers: bool

    @property
    def table(self) -> str:
        assert isinstance(self.domain.stored, TableNames)
        return str(self.domain.stored.table)


def _is_integer(constant: str) -> bool:
    """Return whether a name is the decimal form of a 64-bit integer."""
    try:
        return str(np.int64(constant)) == constant
    except (ValueError, OverflowError):
        return False


def null_constant(type_name: str) -> LapisError:
    return LapisError(
        f"a column of type {type_name!r} contains NULL, which is not a constant",
        code="data-null",
        hint="give a query that leaves these rows out",
    )
