"""What is known of each predicate on a store, as relations that plans can name.

What is known of each predicate as tables, and numbers for the atoms that are unknown.

An atom's number is computed, not looked up: the number of its predicate's first atom plus the code
that its arguments spell. So no table of atoms is joined, and the same atom has the same number on
every engine; the price is that numbers have gaps where atoms are known.

Predicates are sparse or dense as in `grounding.atoms`. One with blocks is always sparse: what a
block leaves possible has to be listed to see what it forces (`grounding.blocks` says what).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.grounding.atoms import argument_sizes
from lapis.grounding.blocks import block_shape, refuse_block
from lapis.language.model import Predicate
from lapis.logic.clauses import SimpleTerm
from lapis.problem.problem import Evidence, LazyEvidence, Problem
from lapis.relational.conjunction import RelationAtom
from lapis.relational.interpretation import Extension, Interpretation
from lapis.stores.load_to_store import StoredExtension, TableRows
from lapis.stores.store import Store, StoredTable, fetch_all
from lapis.stores.store_engine import StoreEngine


@dataclass(frozen=True)
class KnownTables:
    """The predicates' atoms in tables; relations are added when first asked for.

    A predicate without an entry in `atoms` is derived and not evaluated yet.
    """

    store: Store
    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each base and derived predicate's arguments
    atoms: dict[str, StoredAtoms]
    relations: dict[str, Extension] = field(default_factory=dict)
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    @cached_property
    def tables(self) -> StoreEngine:
        return StoreEngine(Interpretation(self.domains, self.relations), self.store)

    def atom_numbers(self, predicate: str) -> StoredAtoms | None:
        return self.atoms.get(predicate)

    def known_atom(
        self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]
    ) -> RelationAtom | None:
        key = (predicate, kind)
        if key not in self._created:
            table = self._table(self.atoms[predicate], kind)
            self._created[key] = self.add(table, self.types[predicate]) if table.rows else None
        name = self._created[key]
        return None if name is None else RelationAtom(name, terms)

    def add(self, table: StoredTable, types: tuple[str, ...]) -> str:
        """The name of a new relation of a table's distinct rows."""
        name = f"relation {next(self._number)}"
        self.relations[name] = StoredExtension(types, TableRows(self.store, table, len(types)))
        return name

    def _table(self, atoms: StoredAtoms, kind: str) -> StoredTable:
        match kind:
            case "true":
                return atoms.true
            case "false":
                found = atoms.false
            case "unknown":
                found = atoms.unknown
            case "possible":
                return self._union(atoms.true, atoms.unknown, len(atoms.sizes))
            case _:
                return self._union(atoms.true, atoms.false, len(atoms.sizes))
        assert found is not None
        return found

    def _union(self, one: StoredTable, other: StoredTable | None, arity: int) -> StoredTable:
        assert other is not None
        if not one.rows or not other.rows:
            return one if one.rows else other
        columns = ", ".join(columns_of(arity))
        rows = f"SELECT {columns} FROM {one} UNION ALL SELECT {columns} FROM {other}"
        return self.store.create(f"known {next(self._number)}", rows)


MOST_NUMBER = (2**31 - 1) * (2**31 - 19)  # of atoms: below what components can be found of


@dataclass(frozen=True)
class StoredAtoms:
    """The atoms of a predicate. Tables have columns c0, c1, …, or n if it has no arguments."""

    predicate: Predicate
    sizes: tuple[int, ...]  # of the domains of its arguments
    sparse: bool
    true: StoredTable
    false: StoredTable | None  # if not sparse
    unknown: StoredTable | None  # if sparse
    first: int  # number of the atom whose arguments all have code 0

    @property
    def total(self) -> int:
        return math.prod(self.sizes)

    @property
    def num_true(self) -> int:
        return self.true.rows

    @property
    def num_unknown(self) -> int:
        if self.unknown is not None:
            return self.unknown.rows
        return self.total - self.true.rows - (0 if self.false is None else self.false.rows)

    @property
    def num_false(self) -> int:
        return self.total - self.num_true - self.num_unknown

    def number(self, codes: Sequence[str]) -> str:
        """The number of the atom with these arguments, as SQL."""
        return f"({self.first} + {spell(codes, self.sizes)})"


def spell(codes: Sequence[str], sizes: Sequence[int]) -> str:
    """The mixed-radix value of codes, the last varying fastest, as SQL over 64 bits."""
    text = "0"
    for code, size in zip(codes, sizes, strict=True):
        whole = f"CAST({code} AS BIGINT)"
        text = whole if text == "0" else f"({text} * {size} + {whole})"
    return text


def columns_of(arity: int) -> list[str]:
    """The columns of a relation's table."""
    return [f"c{i}" for i in range(arity)] or ["n"]


def number_atoms(problem: Problem, store: Store) -> dict[str, StoredAtoms]:
    """Evidence as tables, closed under blocks, with numbers for what is unknown."""
    found: dict[str, StoredAtoms] = {}
    first = 0
    for place, (name, evidence) in enumerate(problem.evidence.items()):
        found[name] = atoms = store_atoms(evidence, problem.domains, store, f"p{place}", first)
        first += atoms.total if atoms.num_unknown else 0
        if first > MOST_NUMBER:
            raise TooLarge(
                f"predicate '{name}' has too many possible ground atoms to number "
                f"({atoms.total:.0e})",
                code="too-large",
                span=evidence.predicate.span,
                hint="query fewer predicates, or split it into predicates of fewer arguments",
            )
    return found


def store_atoms(
    evidence: Evidence, domains: Mapping[str, Domain], store: Store, label: str, first: int
) -> StoredAtoms:
    """The atoms of a predicate, in tables whose names begin with the label."""
    predicate, sizes = evidence.predicate, argument_sizes(evidence, domains)
    true = true_table(store, f"{label} true", evidence)
    if predicate.block:
        true, unknown = close_blocks(evidence, true, domains, store, label)
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    if not evidence.open:
        unknown = load_rows(store, f"{label} unknown", evidence.unknown)
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    false = load_rows(store, f"{label} false", evidence.false)
    if math.prod(sizes) < 2 * false.rows:  # fewer are true or unknown than false
        candidates = without(product(store, sizes), [true, false], len(sizes))
        unknown = store.create(f"{label} unknown", candidates)
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    return StoredAtoms(predicate, sizes, False, true, false, None, first)


def true_table(store: Store, name: str, evidence: Evidence) -> StoredTable:
    """The true tuples, which may be there already."""
    if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, TableRows):
        return evidence.rows.table
    return load_rows(store, name, evidence.true)


def load_rows(store: Store, name: str, rows: np.ndarray) -> StoredTable:
    columns: dict[str, np.ndarray] = {f"c{i}": column for i, column in enumerate(rows.T)}
    return store.load(name, columns or {"n": np.ones(len(rows), np.int32)})


def product(store: Store, sizes: Sequence[int]) -> str:
    """All tuples of codes below these sizes."""
    if not sizes:
        return "SELECT CAST(1 AS INTEGER) AS n"
    sources = [
        f"(SELECT CAST(i AS INTEGER) AS c{place} FROM {store.dialect.numbers.format(size=size)}) "
        f"a{place}"
        for place, size in enumerate(sizes)
    ]
    return f"SELECT {', '.join(columns_of(len(sizes)))} FROM {' CROSS JOIN '.join(sources)}"


def without(rows: str, excluded: Sequence[StoredTable], arity: int) -> str:
    """The rows of a SELECT that no table has."""
    matches = " AND ".join(f"x.{column} = u.{column}" for column in columns_of(arity))
    conditions = [
        f"NOT EXISTS (SELECT 1 FROM {table} x WHERE {matches})" for table in excluded if table.rows
    ]
    return f"SELECT u.* FROM ({rows}) u WHERE {' AND '.join(conditions) or 'TRUE'}"


def list_unknown(atoms: StoredAtoms, store: Store) -> str:
    """A SELECT of the unknown atoms: their arguments, and `atom`, their number."""
    arity = len(atoms.sizes)
    rows = f"SELECT * FROM {atoms.unknown}"
    if atoms.unknown is None:
        known = [table for table in (atoms.true, atoms.false) if table is not None]
        rows = without(product(store, atoms.sizes), known, arity)
    columns = [f"u.{column}" for column in columns_of(arity)]
    number = atoms.number(columns[:arity])
    return f"SELECT {', '.join(columns)}, {number} AS atom FROM ({rows}) u"


def close_blocks(
    evidence: Evidence, true: StoredTable, domains: Mapping[str, Domain], store: Store, label: str
) -> tuple[StoredTable, StoredTable]:
    """True and unknown tuples of a predicate with blocks, as `grounding.blocks` closes them."""
    predicate = evidence.predicate
    shape = block_shape(predicate, domains)
    key = [f"c{i}" for i in shape.key]
    by_key = f" GROUP BY {', '.join(key)}" if key else ""
    same = " AND ".join(f"x.{column} = u.{column}" for column in key) or "TRUE"

    def refuse(rows: str, what: str) -> None:
        for batch in store.fetch(f"{rows} LIMIT 1"):
            if len(next(iter(batch.values()))):
                codes = [int(batch[column][0]) for column in key]
                refuse_block(evidence, shape, codes, domains, what)

    listed = ", ".join(key) or "count(*) AS n"
    refuse(f"SELECT {listed} FROM {true}{by_key} HAVING count(*) > 1", "two true values")
    if evidence.open:
        false = load_rows(store, f"{label} false", evidence.false)
        sizes = [len(domains[name]) for name in predicate.types]
        rows = without(product(store, sizes), [false], predicate.arity)
    else:
        marked = load_rows(store, f"{label} marked", evidence.unknown)
        rows = f"SELECT * FROM {marked}"
    candidates = store.create(
        f"{label} candidates",
        f"SELECT u.* FROM ({rows}) u WHERE NOT EXISTS (SELECT 1 FROM {true} x WHERE {same})",
    )
    if not predicate.exactly_one:
        return true, candidates
    for missing in _missing_blocks(store, shape.key, shape.key_sizes, (true, candidates)):
        refuse(missing, "no possible value")
    columns = ", ".join(f"u.{column}" for column in columns_of(predicate.arity))
    counted = f"SELECT {', '.join([*key, 'count(*) AS times'])} FROM {candidates}{by_key}"
    alone = f"SELECT {columns} FROM {candidates} u JOIN ({counted}) x ON {same} WHERE x.times"
    forced = store.create(f"{label} forced", f"{alone} = 1")
    unknown = store.create(f"{label} unknown", f"{alone} > 1")
    every = f"SELECT * FROM {true} UNION ALL SELECT * FROM {forced}"
    return store.create(f"{label} decided", every), unknown


def _missing_blocks(
    store: Store, key: Sequence[int], sizes: Sequence[int], tables: Sequence[StoredTable]
) -> Iterator[str]:
    """SELECTs of blocks that no table has a tuple of."""
    if not key:
        if not any(table.rows for table in tables):
            yield "SELECT CAST(1 AS INTEGER) AS n"
        return
    names = [f"k.c{place} AS c{position}" for place, position in enumerate(key)]
    rows = f"SELECT {', '.join(names)} FROM ({product(store, sizes)}) k"
    matches = " AND ".join(f"x.c{position} = u.c{position}" for position in key)
    absent = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} x WHERE {matches})" for table in tables
    )
    yield f"SELECT u.* FROM ({rows}) u WHERE {absent}"


def look_up(atoms: StoredAtoms, rows: np.ndarray, store: Store) -> tuple[np.ndarray, np.ndarray]:
    """Which atoms, int32[num_rows, arity] distinct, are true, and which unknown: bool[num_rows]."""
    codes = load_rows(store, "looked up", rows) if rows.shape[1] else None

    def inside(table: StoredTable | None) -> np.ndarray:
        found = np.zeros(len(rows), bool)
        if table is None or not table.rows:
            return found
        if codes is None:
            return ~found
        matches = " AND ".join(f"x.{column} = u.{column}" for column in codes.columns)
        hits = fetch_all(store, f"SELECT u.* FROM {codes} u JOIN {table} x ON {matches}")
        known = {row: place for place, row in enumerate(map(tuple, rows.tolist()))}
        columns = (hits[column].tolist() for column in codes.columns)
        found[[known[row] for row in zip(*columns, strict=True)]] = True
        return found

    true = inside(atoms.true)
    unknown = inside(atoms.unknown) if atoms.sparse else ~(true | inside(atoms.false))
    if codes is not None:
        store.drop(codes.name)
    return true, unknown
