"""What is known of each predicate on a store, as relations that plans can name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lapis.data.database import Domain
from lapis.logic.clauses import SimpleTerm
from lapis.relational.conjunction import Atom
from lapis.relational.interpretation import Extension, Interpretation
from lapis.stores.grounding.atoms import StoredAtoms, columns_of
from lapis.stores.load_to_store import StoredExtension, TableRows
from lapis.stores.store import Store, Table
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

    def known_atom(self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]) -> Atom | None:
        key = (predicate, kind)
        if key not in self._created:
            table = self._table(self.atoms[predicate], kind)
            self._created[key] = self.add(table, self.types[predicate]) if table.rows else None
        name = self._created[key]
        return None if name is None else Atom(name, terms)

    def add(self, table: Table, types: tuple[str, ...]) -> str:
        """The name of a new relation of a table's distinct rows."""
        name = f"relation {next(self._number)}"
        self.relations[name] = StoredExtension(types, TableRows(self.store, table, len(types)))
        return name

    def _table(self, atoms: StoredAtoms, kind: str) -> Table:
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

    def _union(self, one: Table, other: Table | None, arity: int) -> Table:
        assert other is not None
        if not one.rows or not other.rows:
            return one if one.rows else other
        columns = ", ".join(columns_of(arity))
        rows = f"SELECT {columns} FROM {one} UNION ALL SELECT {columns} FROM {other}"
        return self.store.create(f"known {next(self._number)}", rows)
