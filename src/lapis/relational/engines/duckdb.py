"""Plans as SQL on an embedded DuckDB: one statement for all parts of a plan.

Every expression becomes a common table expression with columns c0, c1, … for its variables and n
for the value; shared ones are materialised. No value or partial sum of a part exceeds the number
of groundings, so values are BIGINT where that fits and HUGEINT up to 2^126; plans beyond, which
128 bits might not hold, are run in memory instead (`fits` tells); nothing is ever rounded.

Relations are copied into tables when a plan first names them, so that the optimiser has
statistics; tables of different engines on one connection are told apart by a prefix.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import TooLarge
from lapis.language.syntax import Constant
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import (
    Expression,
    Join,
    Matches,
    Project,
    RangeJoin,
    Restrict,
    Test,
    Tuples,
    Universe,
    Without,
)
from lapis.relational.answers import Product, fold_numbers
from lapis.relational.engines.memory import run
from lapis.relational.exact_sums import narrow
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import Plan

if TYPE_CHECKING:
    import duckdb

_thread = threading.local()
_prefixes = itertools.count()


def fits(plan: Plan) -> bool:
    """Whether 128-bit integers surely hold every value of the plan."""
    return plan.groundings < 2**126


class DuckDBEngine:
    """Runs plans on a world whose relations it copies into tables when first needed."""

    def __init__(self, world: Interpretation, max_memory: int | None = None) -> None:
        self.world = world
        self._prefix = f"e{next(_prefixes)}_"
        self._tables: dict[tuple[str, str], str] = {}
        # The connection outlives the engine, so the limit is set by each.
        if max_memory is None:
            _connection().execute("RESET memory_limit")
        else:
            _connection().execute(f"SET memory_limit = '{max(max_memory, 2**26)}B'")

    def run(self, plan: Plan) -> list[Product]:
        if not fits(plan):
            return run(plan, self.world)
        parts = list(dict.fromkeys(part for term in plan.terms for part in term.parts))
        known = dict(zip(parts, self._fetch(parts, plan), strict=True))
        return [
            fold_numbers(term.coefficient * term.multiplier, [known[part] for part in term.parts])
            for term in plan.terms
        ]

    def close(self) -> None:
        """Drop the tables."""
        for table in self._tables.values():
            _connection().execute(f"DROP TABLE {table}")
        self._tables.clear()

    def compile(self, parts: list[Expression], plan: Plan) -> str:
        """One statement: (number of the part, its variables' codes, 0 for none, and the value)."""
        writer = _Writer(self, plan)
        width = max(len(part.variables) for part in parts)
        selects = []
        for number, part in enumerate(parts):
            filled = range(len(part.variables))
            columns = [f"c{i}" if i in filled else f"0::INTEGER AS c{i}" for i in range(width)]
            source = writer.name(part)
            selects.append(
                f"SELECT {', '.join([f'{number} AS part', *columns, 'n'])} FROM {source}"
            )
        return f"WITH {', '.join(writer.expressions)}\n" + "\nUNION ALL ".join(selects)

    def relation_table(self, name: str) -> str:
        tuples = self.world.relations[name].tuples
        # The constant column gives a nullary relation something to hold its one row with.
        columns = {f"c{i}": np.ascontiguousarray(column) for i, column in enumerate(tuples.T)}
        return self._table("relation", name, {**columns, "n": np.ones(len(tuples), np.int8)})

    def domain_table(self, type_name: str) -> str:
        domain = self.world.domains[type_name]
        columns = {
            "code": np.arange(len(domain), dtype=np.int32),
            "name": np.array(domain.constants, dtype=object),
            "value": domain.numeric,
        }
        return self._table("domain", type_name, columns)

    def _fetch(self, parts: list[Expression], plan: Plan) -> Iterator[Factor]:
        import duckdb

        if not parts:
            return
        try:
            found = _connection().execute(self.compile(parts, plan))
            if plan.groundings < 2**62:
                columns = {name: np.asarray(c) for name, c in found.fetchnumpy().items()}
            else:  # numpy would be given 128-bit integers as floating-point numbers
                names = [description[0] for description in found.description or ()]
                rows = np.array(found.fetchall(), dtype=object).reshape(-1, len(names))
                columns = dict(zip(names, rows.T, strict=True))
        except duckdb.OutOfMemoryException as error:
            raise TooLarge(
                "a join does not fit in the memory given",
                code="too-large",
                hint="raise the memory limit, or give more evidence",
            ) from error
        for number, part in enumerate(parts):
            mine = columns["part"] == number
            width = len(part.variables)
            rows = np.empty((int(np.count_nonzero(mine)), width), np.int32)
            for position in range(width):
                rows[:, position] = columns[f"c{position}"][mine]
            value = columns["n"][mine]
            yield Factor(part.variables, rows, narrow(value))

    def _table(self, kind: str, name: str, columns: Mapping[str, np.ndarray]) -> str:
        if (kind, name) not in self._tables:
            table = f"{self._prefix}{len(self._tables)}"
            selected = [
                f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
                if values.dtype.kind == "f"
                else column
                for column, values in columns.items()
            ]
            connection = _connection()
            connection.register(f"{table}_new", dict(columns))
            connection.execute(
                f"CREATE TEMP TABLE {table} AS SELECT {', '.join(selected)} FROM {table}_new"
            )
            connection.unregister(f"{table}_new")
            self._tables[kind, name] = table
        return self._tables[kind, name]


def _connection() -> duckdb.DuckDBPyConnection:
    """One connection per thread, opened on first use."""
    if not hasattr(_thread, "connection"):
        import duckdb

        _thread.connection = duckdb.connect()
        # Without this DuckDB would spill into a folder it makes in the working directory.
        _thread.connection.execute("SET temp_directory = ''")
    connection: duckdb.DuckDBPyConnection = _thread.connection
    return connection


class _Writer:
    """Names expressions and writes each as a common table expression once."""

    def __init__(self, engine: DuckDBEngine, plan: Plan) -> None:
        self.engine = engine
        self.shared = plan.shared
        self.types = dict(plan.variables)
        self.integer = "BIGINT" if plan.groundings < 2**62 else "HUGEINT"
        self.names: dict[Expression, str] = {}
        self.expressions: list[str] = []

    def name(self, expression: Expression) -> str:
        if expression not in self.names:
            body = self._select(expression)
            name = f"e{len(self.names)}"
            kept = "MATERIALIZED " if expression in self.shared else ""
            self.expressions.append(f"{name} AS {kept}({body})")
            self.names[expression] = name
        return self.names[expression]

    def _select(self, expression: Expression) -> str:
        match expression:
            case Tuples():
                return self._tuples(expression)
            case Universe(_, type_name):
                size = self.engine.world.size(type_name)
                return f"SELECT range::INTEGER AS c0, 1::{self.integer} AS n FROM range({size})"
            case Matches(test):
                tables = [self._domain(name) for name in test.variables]
                return (
                    f"SELECT l.code AS c0, r.code AS c1, 1::{self.integer} AS n "
                    f"FROM {tables[0]} l, {tables[1]} r WHERE {_comparison(test, 'l', 'r')}"
                )
            case Join(left, right, keep):
                matches = _matching(left.variables, right.variables)
                source = f"{self.name(left)} l JOIN {self.name(right)} r ON {matches}"
                width = len(set(left.variables) | set(right.variables))
                return self._grouped(_kept(left, right, keep), "l.n * r.n", source, width)
            case RangeJoin(left, right, test, keep):
                return self._range_join(left, right, test, keep)
            case Project(part, keep):
                columns = [f"c{part.variables.index(name)}" for name in keep]
                return self._grouped(columns, "n", self.name(part), len(part.variables))
            case Without(part, excluded):
                matches = _matching(part.variables, excluded.variables)
                return (
                    f"SELECT l.* FROM {self.name(part)} l "
                    f"ANTI JOIN {self.name(excluded)} r ON {matches}"
                )
            case Restrict(part, test):
                text = f"SELECT e.* FROM {self.name(part)} e"
                for alias, term in zip("lr", _sides(test), strict=True):
                    if not isinstance(term, Constant):
                        column = f"e.c{part.variables.index(term.name)}"
                        text += (
                            f" JOIN {self._domain(term.name)} {alias} ON {alias}.code = {column}"
                        )
                return f"{text} WHERE {_comparison(test, 'l', 'r')}"

    def _domain(self, variable: str) -> str:
        return self.engine.domain_table(self.types[variable])

    def _tuples(self, tuples: Tuples) -> str:
        first: dict[str, int] = {}
        conditions = []
        for position, term in enumerate(tuples.terms):
            if isinstance(term, int):
                conditions.append(f"c{position} = {term}")
            elif term in first:
                conditions.append(f"c{position} = c{first[term]}")
            else:
                first[term] = position
        columns = [f"c{position} AS c{at}" for at, position in enumerate(first.values())]
        text = f"SELECT {', '.join([*columns, f'n::{self.integer} AS n'])}"
        text += f" FROM {self.engine.relation_table(tuples.relation)}"
        return text + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _range_join(
        self, left: Expression, right: Expression, test: Test, keep: tuple[str, ...]
    ) -> str:
        source = f"{self.name(left)} l JOIN {self.name(right)} r ON TRUE"
        for side, part, term in zip("lr", (left, right), _sides(test), strict=True):
            column = f"{side}.c{part.variables.index(term.name)}"
            source += f" JOIN {self._domain(term.name)} {side}d ON {side}d.code = {column}"
        source += f" WHERE {_comparison(test, 'ld', 'rd')}"
        width = len(left.variables) + len(right.variables)
        return self._grouped(_kept(left, right, keep), "l.n * r.n", source, width)

    def _grouped(self, columns: list[str], value: str, source: str, width: int) -> str:
        """Σ value by the columns, of a source with `width` variables."""
        named = [f"{column} AS c{i}" for i, column in enumerate(columns)]
        if len(columns) == width:
            return f"SELECT {', '.join([*named, f'({value}) AS n'])} FROM {source}"
        total = f"coalesce(sum({value}), 0)::{self.integer} AS n"
        text = f"SELECT {', '.join([*named, total])} FROM {source}"
        return text + (f" GROUP BY {', '.join(columns)}" if columns else "")


def _kept(left: Expression, right: Expression, keep: tuple[str, ...]) -> list[str]:
    return [
        f"l.c{left.variables.index(name)}"
        if name in left.variables
        else f"r.c{right.variables.index(name)}"
        for name in keep
    ]


def _matching(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    equal = [f"l.c{left.index(name)} = r.c{i}" for i, name in enumerate(right) if name in left]
    return " AND ".join(equal) or "TRUE"


def _sides(test: Test) -> tuple[SimpleTerm, SimpleTerm]:
    return test.condition.left, test.condition.right


def _comparison(test: Test, left: str, right: str) -> str:
    """The test on rows of domain tables; what is not a number has value NULL."""
    condition = test.condition
    sides = [_operand(test, *side) for side in zip(_sides(test), (left, right), strict=True)]
    operator = "<>" if condition.operator == "!=" else condition.operator
    offset = f" + {condition.offset}" if condition.offset else ""
    holds = f"coalesce({sides[0]} {operator} {sides[1]}{offset}, FALSE)"
    return holds if test.expected else f"NOT {holds}"


def _operand(test: Test, term: SimpleTerm, alias: str) -> str:
    if not isinstance(term, Constant):
        return f"{alias}.{'value' if test.numeric else 'name'}"
    if not test.numeric:
        return "'" + term.name.replace("'", "''") + "'"
    try:
        return f"{float(term.name)!r}::DOUBLE"
    except ValueError:
        return "NULL::DOUBLE"
