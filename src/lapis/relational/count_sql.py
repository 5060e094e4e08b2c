"""Run count plans as SQL: the same plan as in memory, one statement for all its terms.

Every expression becomes a common table expression with columns c0, c1, … for its variables and n
for the value; shared ones are materialised. Values are HUGEINT. No value or partial sum of a plan
exceeds the number of groundings, so plans with 2^126 groundings or more, which 128 bits might not
hold, are run in memory instead (`fits_sql` tells); nothing is ever rounded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from lapis.language.syntax import Constant
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import (
    Expression,
    Given,
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
from lapis.relational.count_plan import CountPlan, shared_expressions
from lapis.relational.execute import Scaled, run_terms, tabulate, total
from lapis.relational.factor import Factor, narrow
from lapis.relational.interpretation import Interpretation

if TYPE_CHECKING:
    import duckdb

_prefixes = itertools.count()


class SqlRunner(Protocol):
    """What the executor needs of a database."""

    def create_table(self, name: str, columns: Mapping[str, np.ndarray]) -> None:
        """Make a temporary table of equally long columns; NaN becomes NULL."""

    def drop_table(self, name: str) -> None:
        """Remove a table made here."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query."""


class DuckDBRunner:
    """DuckDB in this process."""

    def __init__(self, connection: duckdb.DuckDBPyConnection | None = None) -> None:
        import duckdb

        self.connection = connection if connection is not None else duckdb.connect()

    def create_table(self, name: str, columns: Mapping[str, np.ndarray]) -> None:
        self.connection.register(f"{name}_new", dict(columns))
        selected = [
            f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
            if values.dtype.kind == "f"
            else column
            for column, values in columns.items()
        ]
        text = f"CREATE TEMP TABLE {name} AS SELECT {', '.join(selected)} FROM {name}_new"
        self.connection.execute(text).fetchall()
        self.connection.unregister(f"{name}_new")

    def drop_table(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE {name}").fetchall()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return found


def fits_sql(plan: CountPlan) -> bool:
    """Whether 128-bit integers surely hold every value of the plan."""
    return plan.groundings < 2**126


class SqlExecutor:
    """Counts on one world whose relations it copies into the database when first needed."""

    def __init__(self, extensions: Interpretation, runner: SqlRunner) -> None:
        self.extensions = extensions
        self.runner = runner
        self.prefix = f"count{next(_prefixes)}_"
        self.tables: dict[tuple[str, str], str] = {}

    def close(self) -> None:
        """Drop the tables."""
        for table in self.tables.values():
            self.runner.drop_table(table)
        self.tables.clear()

    def count(self, plan: CountPlan) -> int:
        """The number of groundings, over all values of the kept variables."""
        return total(plan, self.run_terms(plan))

    def count_table(self, plan: CountPlan) -> np.ndarray:
        """int64 or object[plan.shape], the number of groundings for each value of `plan.keep`."""
        return tabulate(plan, self.run_terms(plan))

    def run_terms(self, plan: CountPlan) -> list[Scaled]:
        if not fits_sql(plan):
            return run_terms(plan.terms, self.extensions)
        text = self.compile(plan)
        found: dict[int, list[tuple[Any, ...]]] = {}
        for number, *row in self.runner.rows(text) if text else ():
            found.setdefault(number, []).append(tuple(row))
        results = []
        for number, term in enumerate(plan.terms):
            scale = term.coefficient * term.multiplier
            rows = found.get(number, [])
            if term.expression is None:
                results.append(Scaled(scale))
            elif term.expression.variables:
                results.append(Scaled(scale, _factor(term.expression.variables, rows)))
            else:
                results.append(Scaled(scale * sum(int(row[-1]) for row in rows)))
        return results

    def compile(self, plan: CountPlan) -> str:
        """One statement: (number of the term, its variables' codes, padded, and the value)."""
        compiler = _Compiler(self, shared_expressions(plan.terms))
        selects = []
        for number, term in enumerate(plan.terms):
            if term.expression is None:
                continue
            name = compiler.name(term.expression)
            width = len(term.expression.variables)
            columns = [f"c{i}" if i < width else "NULL" for i in range(len(plan.keep))]
            selects.append(f"SELECT {', '.join([str(number), *columns, 'n'])} FROM {name}")
        if not selects:
            return ""
        return f"WITH {', '.join(compiler.ctes)}\n" + "\nUNION ALL ".join(selects)

    def relation_table(self, predicate: str) -> str:
        tuples = self.extensions.relations[predicate].tuples
        # The constant column gives a nullary relation something to hold its one row with.
        columns = {f"c{i}": np.ascontiguousarray(column) for i, column in enumerate(tuples.T)}
        return self._table("relation", predicate, {**columns, "n": np.ones(len(tuples), np.int8)})

    def domain_table(self, type_name: str) -> str:
        domain = self.extensions.domains[type_name]
        columns = {
            "code": np.arange(len(domain), dtype=np.int32),
            "name": np.array(domain.constants, dtype=object),
            "value": domain.numeric,
        }
        return self._table("domain", type_name, columns)

    def _table(self, kind: str, name: str, columns: Mapping[str, np.ndarray]) -> str:
        if (kind, name) not in self.tables:
            table = f"{self.prefix}{len(self.tables)}"
            self.runner.create_table(table, columns)
            self.tables[kind, name] = table
        return self.tables[kind, name]


class _Compiler:
    """Names expressions and writes each as a common table expression once."""

    def __init__(self, executor: SqlExecutor, shared: frozenset[Expression]) -> None:
        self.executor = executor
        self.shared = shared
        self.names: dict[Expression, str] = {}
        self.ctes: list[str] = []

    def name(self, expression: Expression) -> str:
        if expression not in self.names:
            body = self._select(expression)
            name = f"e{len(self.names)}"
            kept = "MATERIALIZED " if expression in self.shared else ""
            self.ctes.append(f"{name} AS {kept}({body})")
            self.names[expression] = name
        return self.names[expression]

    def _select(self, expression: Expression) -> str:
        match expression:
            case Tuples():
                return self._tuples(expression)
            case Universe(_, type_name):
                size = self.executor.extensions.size(type_name)
                return f"SELECT range::INTEGER AS c0, 1::HUGEINT AS n FROM range({size})"
            case Matches(test):
                return self._matches(test)
            case Join(left, right, keep):
                return self._join(left, right, keep)
            case RangeJoin(left, right, test, keep):
                return self._range_join(left, right, test, keep)
            case Project(part, keep):
                columns = [f"c{part.variables.index(name)}" for name in keep]
                return _grouped(columns, "n", self.name(part), len(part.variables))
            case Without(part, excluded):
                matches = _matching(part.variables, excluded.variables)
                return (
                    f"SELECT l.* FROM {self.name(part)} l "
                    f"ANTI JOIN {self.name(excluded)} r ON {matches}"
                )
            case Restrict(part, test):
                return self._restrict(part, test)
            case Given():
                raise ValueError("a factor given in memory has no table")

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
        text = f"SELECT {', '.join([*columns, 'n::HUGEINT AS n'])}"
        text += f" FROM {self.executor.relation_table(tuples.predicate)}"
        return text + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _join(self, left: Expression, right: Expression, keep: tuple[str, ...]) -> str:
        matches = _matching(left.variables, right.variables)
        source = f"{self.name(left)} l JOIN {self.name(right)} r ON {matches}"
        width = len(set(left.variables) | set(right.variables))
        return _grouped(_kept(left, right, keep), "l.n * r.n", source, width)

    def _range_join(
        self, left: Expression, right: Expression, test: Test, keep: tuple[str, ...]
    ) -> str:
        source = f"{self.name(left)} l JOIN {self.name(right)} r ON TRUE"
        for side, part, name, kind in (
            ("l", left, test.condition.left.name, test.types[0]),
            ("r", right, test.condition.right.name, test.types[1]),
        ):
            assert kind is not None
            column = f"{side}.c{part.variables.index(name)}"
            source += f" JOIN {self.executor.domain_table(kind)} {side}d ON {side}d.code = {column}"
        source += f" WHERE {_comparison(test, 'ld', 'rd')}"
        width = len(left.variables) + len(right.variables)
        return _grouped(_kept(left, right, keep), "l.n * r.n", source, width)

    def _matches(self, test: Test) -> str:
        tables = [self.executor.domain_table(kind) for kind in test.types if kind is not None]
        return (
            f"SELECT l.code AS c0, r.code AS c1, 1::HUGEINT AS n FROM {tables[0]} l, {tables[1]} r "
            f"WHERE {_comparison(test, 'l', 'r')}"
        )

    def _restrict(self, part: Expression, test: Test) -> str:
        text = f"SELECT e.* FROM {self.name(part)} e"
        aliases = []
        sides = (test.condition.left, test.types[0]), (test.condition.right, test.types[1])
        for alias, (term, kind) in zip("lr", sides, strict=True):
            aliases.append(alias)
            if kind is not None:
                column = f"e.c{part.variables.index(term.name)}"
                table = self.executor.domain_table(kind)
                text += f" JOIN {table} {alias} ON {alias}.code = {column}"
        return f"{text} WHERE {_comparison(test, *aliases)}"


def _grouped(columns: list[str], value: str, source: str, width: int) -> str:
    """Σ value by the columns, of a source with `width` variables."""
    named = [f"{column} AS c{i}" for i, column in enumerate(columns)]
    if len(columns) == width:
        return f"SELECT {', '.join([*named, f'({value}) AS n'])} FROM {source}"
    text = f"SELECT {', '.join([*named, f'coalesce(sum({value}), 0)::HUGEINT AS n'])} FROM {source}"
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


def _comparison(test: Test, left: str, right: str) -> str:
    """The test on rows of domain tables; what is not a number has value NULL."""
    condition = test.condition
    sides = list(_sides(test, left, right))
    operator = "<>" if condition.operator == "!=" else condition.operator
    offset = f" + {condition.offset}" if condition.offset else ""
    holds = f"coalesce({sides[0]} {operator} {sides[1]}{offset}, FALSE)"
    return holds if test.expected else f"NOT {holds}"


def _sides(test: Test, left: str, right: str) -> Iterator[str]:
    for term, alias in ((test.condition.left, left), (test.condition.right, right)):
        if not isinstance(term, Constant):
            yield f"{alias}.{'value' if test.numeric else 'name'}"
        elif test.numeric:
            yield _number(term)
        else:
            yield "'" + term.name.replace("'", "''") + "'"


def _number(term: SimpleTerm) -> str:
    try:
        return f"{float(term.name)!r}::DOUBLE"
    except ValueError:
        return "NULL::DOUBLE"


def _factor(variables: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Factor:
    width = len(variables)
    codes = np.array([row[:width] for row in rows], np.int32).reshape(len(rows), width)
    value = np.empty(len(rows), dtype=object)
    value[:] = [int(row[-1]) for row in rows]
    return Factor(variables, codes, narrow(value))
