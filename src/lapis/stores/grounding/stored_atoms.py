"""Evidence as tables of a store, and numbers for the atoms that are unknown.

The number of an atom is the number of its predicate's first atom plus the mixed-radix number of its
arguments' codes. So no table of atoms is joined, and an atom has the same number on every engine.
The price is that numbers have gaps where atoms are known.

Predicates are sparse or dense as in `grounding.atoms`. A predicate with blocks is always sparse:
the possible values of a block must be listed to find those that are forced (`grounding.blocks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.grounding.blocks import block_shape, refuse_block
from lapis.grounding.ground_atoms import argument_sizes
from lapis.language.model import Predicate
from lapis.logic.clauses import SimpleTerm
from lapis.problem.problem import Evidence, LazyEvidence, Problem
from lapis.relational.conjunction import RelationAtom
from lapis.relational.interpretation import Extension, Interpretation
from lapis.stores.load_to_store import StoredExtension, TableRows
from lapis.stores.store import ScratchTables, Store, StoredTable, fetch_all
from lapis.stores.store_engine import StoreEngine


@dataclass(frozen=True)
class KnownTables:
    """The predicates' atoms in tables. Relations are added on first use.

    A predicate without an entry in `atoms` is derived and not evaluated yet.
    """

    scratch: ScratchTables
    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each base and derived predicate's arguments
    atoms: dict[str, StoredAtoms]
    relations: dict[str, Extension] = field(default_factory=dict)
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)

    @cached_property
    def tables(self) -> StoreEngine:
        return StoreEngine(Interpretation(self.domains, self.relations), self.scratch.store)

    def atom_numbers(self, predicate: str) -> StoredAtoms | None:
        """Return the atoms of a predicate, None if it is not evaluated yet."""
        return self.atoms.get(predicate)

    def known_atom(
        self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]
    ) -> RelationAtom | None:
        """Return an atom over the true, false, unknown, … atoms; None if there are none."""
        key = (predicate, kind)
        if key not in self._created:
            table = self._table(self.atoms[predicate], kind)
            self._created[key] = self.add(table, self.types[predicate]) if table.rows else None
        name = self._created[key]
        return None if name is None else RelationAtom(name, terms)

    def add(self, table: StoredTable, types: tuple[str, ...]) -> str:
        """Add a relation of a table's distinct rows; return its name."""
        name = f"relation {len(self.relations)}"
        self.relations[name] = StoredExtension(
            types, TableRows(self.scratch.store, table, len(types))
        )
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
        columns = ", ".join(argument_columns(arity))
        rows = f"SELECT {columns} FROM {one} UNION ALL SELECT {columns} FROM {other}"
        return self.scratch.create(rows)


MOST_NUMBER = (2**31 - 1) * (2**31 - 19)  # of atoms: `packing.MOST_VERTEX`
AT_MOST_ONE, EXACTLY_ONE, DEFINITION = -2, -3, -4  # weights of rows that are not clauses


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
        """Write the number of the atom with these arguments."""
        return f"({self.first} + {packed_code(codes, self.sizes)})"


def packed_code(codes: Sequence[str], sizes: Sequence[int]) -> str:
    """Write the mixed-radix number of codes, the last varying fastest, in 64 bits."""
    text = "0"
    for code, size in zip(codes, sizes, strict=True):
        whole = f"CAST({code} AS BIGINT)"
        text = whole if text == "0" else f"({text} * {size} + {whole})"
    return text


def argument_columns(arity: int) -> list[str]:
    """Return the columns of a relation's table: c0, c1, …, or n without arguments."""
    return [f"c{i}" for i in range(arity)] or ["n"]


def store_evidence(problem: Problem, scratch: ScratchTables) -> dict[str, StoredAtoms]:
    """Put the evidence, closed under blocks, into tables and number the unknown atoms."""
    found: dict[str, StoredAtoms] = {}
    first = 0
    for name, evidence in problem.evidence.items():
        found[name] = atoms = store_atoms(evidence, problem.domains, scratch, first)
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
    evidence: Evidence, domains: Mapping[str, Domain], scratch: ScratchTables, first: int
) -> StoredAtoms:
    """Put the atoms of a predicate into tables."""
    predicate, sizes = evidence.predicate, argument_sizes(evidence, domains)
    if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, TableRows):
        true = evidence.rows.table
    else:
        true = load_rows(scratch, evidence.true)
    if predicate.block:
        true, unknown = store_blocks(evidence, true, domains, scratch)
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    if not evidence.open:
        unknown = load_rows(scratch, evidence.unknown)
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    false = load_rows(scratch, evidence.false)
    if math.prod(sizes) < 2 * false.rows:  # fewer are true or unknown than false
        candidates = select_product(scratch.store, sizes)
        unknown = scratch.create(select_without(candidates, [true, false], len(sizes)))
        return StoredAtoms(predicate, sizes, True, true, None, unknown, first)
    return StoredAtoms(predicate, sizes, False, true, false, None, first)


def load_rows(scratch: ScratchTables, rows: np.ndarray) -> StoredTable:
    """Load tuples int32[num_rows, arity] as columns c0, c1, …, or n without arguments."""
    columns: dict[str, np.ndarray] = {f"c{i}": column for i, column in enumerate(rows.T)}
    return scratch.load(columns or {"n": np.ones(len(rows), np.int32)})


def select_product(store: Store, sizes: Sequence[int]) -> str:
    """Write a SELECT of all tuples of codes below these sizes."""
    if not sizes:
        return "SELECT CAST(1 AS INTEGER) AS n"
    sources = [
        f"(SELECT CAST(i AS INTEGER) AS c{place} FROM {store.dialect.numbers.format(size=size)}) "
        f"a{place}"
        for place, size in enumerate(sizes)
    ]
    return f"SELECT {', '.join(argument_columns(len(sizes)))} FROM {' CROSS JOIN '.join(sources)}"


def select_without(rows: str, excluded: Sequence[StoredTable], arity: int) -> str:
    """Write a SELECT of the rows of a SELECT that are in none of the tables."""
    matches = " AND ".join(f"x.{column} = u.{column}" for column in argument_columns(arity))
    conditions = [
        f"NOT EXISTS (SELECT 1 FROM {table} x WHERE {matches})" for table in excluded if table.rows
    ]
    return f"SELECT u.* FROM ({rows}) u WHERE {' AND '.join(conditions) or 'TRUE'}"


def select_unknown(atoms: StoredAtoms, store: Store) -> str:
    """Write a SELECT of the unknown atoms: their arguments and `atom`, their number."""
    arity = len(atoms.sizes)
    rows = f"SELECT * FROM {atoms.unknown}"
    if atoms.unknown is None:
        known = [table for table in (atoms.true, atoms.false) if table is not None]
        rows = select_without(select_product(store, atoms.sizes), known, arity)
    columns = [f"u.{column}" for column in argument_columns(arity)]
    number = atoms.number(columns[:arity])
    return f"SELECT {', '.join(columns)}, {number} AS atom FROM ({rows}) u"


def store_blocks(
    evidence: Evidence, true: StoredTable, domains: Mapping[str, Domain], scratch: ScratchTables
) -> tuple[StoredTable, StoredTable]:
    """Create the true and unknown tuples of a predicate with blocks (`blocks.apply_blocks`)."""
    predicate, store = evidence.predicate, scratch.store
    shape = block_shape(predicate, domains)
    key = [f"c{i}" for i in shape.key]
    by_key = f" GROUP BY {', '.join(key)}" if key else ""
    same = " AND ".join(f"x.{column} = u.{column}" for column in key) or "TRUE"

    def refuse_rows(rows: str, problem: str) -> None:
        for batch in store.fetch(f"{rows} LIMIT 1"):
            if len(next(iter(batch.values()))):
                codes = [int(batch[column][0]) for column in key]
                refuse_block(evidence, shape, codes, domains, problem)

    listed = ", ".join(key) or "count(*) AS n"
    refuse_rows(f"SELECT {listed} FROM {true}{by_key} HAVING count(*) > 1", "two true values")
    if evidence.open:
        false = load_rows(scratch, evidence.false)
        sizes = [len(domains[name]) for name in predicate.types]
        rows = select_without(select_product(store, sizes), [false], predicate.arity)
    else:
        rows = f"SELECT * FROM {load_rows(scratch, evidence.unknown)}"
    candidates = scratch.create(
        f"SELECT u.* FROM ({rows}) u WHERE NOT EXISTS (SELECT 1 FROM {true} x WHERE {same})"
    )
    if not predicate.exactly_one:
        return true, candidates
    for missing in _missing_blocks(store, shape.key, shape.key_sizes, (true, candidates)):
        refuse_rows(missing, "no possible value")
    columns = ", ".join(f"u.{column}" for column in argument_columns(predicate.arity))
    counted = f"SELECT {', '.join([*key, 'count(*) AS times'])} FROM {candidates}{by_key}"
    of_size = f"SELECT {columns} FROM {candidates} u JOIN ({counted}) x ON {same} WHERE x.times"
    every = f"SELECT * FROM {true} UNION ALL {of_size} = 1"  # a single candidate is true
    return scratch.create(every), scratch.create(f"{of_size} > 1")


def _missing_blocks(
    store: Store, key: Sequence[int], sizes: Sequence[int], tables: Sequence[StoredTable]
) -> Iterator[str]:
    """Write SELECTs of blocks without a tuple in any table."""
    if not key:
        if not any(table.rows for table in tables):
            yield "SELECT CAST(1 AS INTEGER) AS n"
        return
    names = [f"k.c{place} AS c{position}" for place, position in enumerate(key)]
    rows = f"SELECT {', '.join(names)} FROM ({select_product(store, sizes)}) k"
    matches = " AND ".join(f"x.c{position} = u.c{position}" for position in key)
    absent = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} x WHERE {matches})" for table in tables
    )
    yield f"SELECT u.* FROM ({rows}) u WHERE {absent}"


def find_known(
    atoms: StoredAtoms, rows: np.ndarray, scratch: ScratchTables
) -> tuple[np.ndarray, np.ndarray]:
    """Return which atoms int32[n, arity], all distinct, are true and which unknown: bool[n]."""
    codes = load_rows(scratch, rows) if rows.shape[1] else None

    def inside(table: StoredTable | None) -> np.ndarray:
        found = np.zeros(len(rows), bool)
        if table is None or not table.rows:
            return found
        if codes is None:
            return ~found
        matches = " AND ".join(f"x.{column} = u.{column}" for column in codes.columns)
        hits = fetch_all(scratch.store, f"SELECT u.* FROM {codes} u JOIN {table} x ON {matches}")
        known = {row: place for place, row in enumerate(map(tuple, rows.tolist()))}
        columns = (hits[column].tolist() for column in codes.columns)
        found[[known[row] for row in zip(*columns, strict=True)]] = True
        return found

    true = inside(atoms.true)
    unknown = inside(atoms.unknown) if atoms.sparse else ~(true | inside(atoms.false))
    if codes is not None:
        scratch.drop(codes)
    return true, unknown
