"""Plans on a store: the world's relations are its tables, answers come back as factors.

Integers of any size from their remainders (Chinese remainders).

Engines whose widest integers have 38 digits count in them modulo m1, m2, …, coprime and below
2^61: a product of two remainders then has 37 digits, and a sum of 2^60 remainders does too. A
value below m1·m2·… is known by its remainders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from lapis.data.lazy_database import LazyDomain
from lapis.errors import TooLarge
from lapis.relational.algebra import Expression
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import FactorProduct, QueryPlan, fold_scalars
from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import (
    LoadedNames,
    LoadedRows,
    StoredExtension,
    TableNames,
)
from lapis.stores.sql import Integer, SqlWriter, bound, write_parts
from lapis.stores.store import Columns, Store, StoredTable, fetch_all


class StoreEngine:
    """Runs plans on a world whose relations it loads when a plan first names them."""

    def __init__(self, world: Interpretation, store: Store) -> None:
        self.world = world
        self.store = store
        self._loaded: dict[tuple[str, str], LoadedRows | LoadedNames] = {}

    def run(self, plan: QueryPlan) -> list[FactorProduct]:
        parts = _parts(plan)
        known = dict(zip(parts, self._answer(parts, plan), strict=True)) if parts else {}
        return [
            fold_scalars(term.coefficient * term.multiplier, [known[part] for part in term.parts])
            for term in plan.terms
        ]

    def statements(self, plan: QueryPlan) -> list[str]:
        """The SQL that runs the plan: one statement, or one for each modulus."""
        parts = _parts(plan)
        if not parts:
            return []
        largest = self._bound(parts, plan)
        return [self._write(parts, plan, integer) for integer in self._integers(largest)]

    def source(self, part: Expression, plan: QueryPlan) -> str:
        """A query in parentheses for the rows of one part: c0, c1, … and n."""
        integer = exact_type(self._bound([part], plan), self.store.dialect)
        writer = SqlWriter(plan, self, self.store.dialect, Integer(integer))
        name = writer.name(part)
        return f"({writer.definitions()}SELECT * FROM {name})"

    def total(self, part: Expression, plan: QueryPlan) -> int:
        """The value of a part over no variables."""
        (factor,) = self._answer([part], plan)
        return factor.total()

    def close(self) -> None:
        """Drop the tables."""
        for loaded in self._loaded.values():
            self.store.drop(loaded.table.name)
        self._loaded.clear()

    def relation_table(self, name: str) -> StoredTable:
        extension = self.world.relations[name]
        if isinstance(extension, StoredExtension):
            return extension.rows.table
        if ("relation", name) not in self._loaded:
            self._loaded["relation", name] = LoadedRows(self.store, extension.tuples)
        return self._loaded["relation", name].table

    def domain_table(self, type_name: str) -> StoredTable:
        domain = self.world.domains[type_name]
        if isinstance(domain, LazyDomain) and isinstance(domain.stored, TableNames):
            return domain.stored.table
        if ("domain", type_name) not in self._loaded:
            self._loaded["domain", type_name] = LoadedNames(self.store, domain)
        return self._loaded["domain", type_name].table

    def _bound(self, parts: Sequence[Expression], plan: QueryPlan) -> int:
        return max(bound(part, plan, self.world) for part in parts)

    def _integers(self, largest: int) -> list[Integer]:
        """The type that holds values so large, or else what to take remainders by."""
        dialect = self.store.dialect
        fitting = dialect.integer(largest)
        if fitting is not None:
            return [Integer(fitting)]
        return [Integer(dialect.wide, modulus) for modulus in moduli(largest)]

    def _write(self, parts: Sequence[Expression], plan: QueryPlan, integer: Integer) -> str:
        return write_parts(parts, plan, self, self.store.dialect, integer)

    def _answer(self, parts: Sequence[Expression], plan: QueryPlan) -> Iterator[Factor]:
        integers = self._integers(self._bound(parts, plan))
        runs = [fetch_all(self.store, self._write(parts, plan, integer)) for integer in integers]
        columns = runs[0]
        if len(runs) > 1:
            runs = [_in_order(run) for run in runs]
            modulus = [integer.modulus or 0 for integer in integers]
            columns = {**runs[0], "n": combine([run["n"] for run in runs], modulus)}
        for number, part in enumerate(parts):
            mine = slice(None) if len(parts) == 1 else columns["part"] == number
            value = columns["n"][mine]
            rows = np.empty((len(value), len(part.variables)), np.int32)
            for position in range(rows.shape[1]):
                rows[:, position] = columns[f"c{position}"][mine]
            yield Factor(part.variables, rows, narrow_integers(value))


def exact_type(largest: int, dialect: Dialect) -> str:
    """The type for values so large, where remainders would not do."""
    found = dialect.integer(largest)
    if found is None:
        raise TooLarge(
            f"counts of up to {len(str(largest))} digits do not fit the integers of {dialect.name}",
            code="too-wide",
            hint="use --engine postgresql://…, or work in memory",
        )
    return found


def _parts(plan: QueryPlan) -> list[Expression]:
    return list(dict.fromkeys(part for term in plan.terms for part in term.parts))


def _in_order(columns: Columns) -> dict[str, np.ndarray]:
    """The rows by part and codes, as every run of a statement has them."""
    order = np.lexsort([column for name, column in columns.items() if name != "n"])
    return {name: column[order] for name, column in columns.items()}


LARGEST = 2**61 - 1


def moduli(bound: int) -> list[int]:
    """Coprime numbers whose product exceeds the bound."""
    found: list[int] = []
    product = 1
    for candidate in range(LARGEST, 2, -2):
        if product > bound:
            break
        if math.gcd(candidate, product) == 1:
            found.append(candidate)
            product *= candidate
    return found


def combine(remainders: Sequence[np.ndarray], modulus: Sequence[int]) -> np.ndarray:
    """object[n], the smallest integers ≥ 0 with the given remainders, each int64 or object[n]."""
    product = math.prod(modulus)
    total = np.zeros(len(remainders[0]), object)
    for remainder, number in zip(remainders, modulus, strict=True):
        others = product // number
        total += remainder.astype(object) * (others * pow(others, -1, number))
    total %= product
    return total
