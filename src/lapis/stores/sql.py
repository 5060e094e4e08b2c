"""Plans as SQL: one statement for all parts of a plan, in any dialect.

Every expression becomes a common table expression with columns c0, c1, … for its variables and n
for its value. Shared ones are materialised if the dialect supports it. Values are counts, so no
value and no partial sum exceeds the sum over all variables. `upper_bound` bounds that sum and
selects the type of n (`Dialect.integer`). If no type is wide enough, the plan is run modulo several
numbers, and `store_engine` combines the residues. Nothing is rounded.

Statements contain no names of constants: a constant is compared by its code, and so are two
variables of one type. Variables of different types are compared by the names in the tables of their
domains. Why we write SQL ourselves: decision 020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

from lapis.language.names import read_number
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
    operands,
)
from lapis.relational.comparison import compare_constants
from lapis.relational.interpretation import Interpretation
from lapis.relational.query_plan import QueryPlan
from lapis.stores.dialect import Dialect
from lapis.stores.store import StoredTable


class TableLookup(Protocol):
    """The tables of a world's relations and domains."""

    @property
    def world(self) -> Interpretation: ...

    def relation_table(self, name: str) -> StoredTable:
        """Return a table of codes c0, c1, …; without arguments, of a column n."""

    def domain_table(self, type_name: str) -> StoredTable:
        """Return a table of code, name and value: the name as a number, or NULL."""


class Integer(NamedTuple):
    """The type of values."""

    type: str
    modulus: int | None = None  # compute remainders only


def write_parts(
    expressions: Sequence[Expression],
    plan: QueryPlan,
    tables: TableLookup,
    dialect: Dialect,
    integer: Integer,
) -> str:
    """Write one statement: number of the part, codes of its variables (padded by 0), and value."""
    writer = SqlWriter(plan, tables, dialect, integer)
    width = max(len(part.variables) for part in expressions)
    selects = []
    for number, part in enumerate(expressions):
        filled = range(len(part.variables))
        columns = [f"c{i}" if i in filled else f"CAST(0 AS INTEGER) AS c{i}" for i in range(width)]
        selects.append(
            f"SELECT {', '.join([f'CAST({number} AS INTEGER) AS part', *columns, 'n'])} "
            f"FROM {writer.name(part)}"
        )
    return writer.definitions() + "\nUNION ALL ".join(selects)


def upper_bound(expression: Expression, plan: QueryPlan, world: Interpretation) -> int:
    """Return an upper bound of Σ of the expression's values over all its variables."""
    sizes = {name: world.size(type_name) for name, type_name in plan.variables}

    @cache
    def visit(part: Expression) -> tuple[int, frozenset[str]]:
        """Return the bound and the variables in or below the part."""
        scope = frozenset(part.variables)
        match part:
            case Tuples(relation):
                found = world.relations[relation].num_tuples
            case Universe() | Matches():
                found = math.prod(sizes[v] for v in part.variables)
            case Without(kept):
                found, scope = visit(kept)
            case _:
                below = [visit(child) for child in operands(part)]
                found = math.prod(number for number, _ in below)
                scope = frozenset[str]().union(*(variables for _, variables in below))
        return min(found, math.prod(sizes[name] for name in scope)), scope

    return visit(expression)[0]


class SqlWriter:
    """Writes each expression once, as a common table expression with a name."""

    def __init__(
        self, plan: QueryPlan, tables: TableLookup, dialect: Dialect, integer: Integer
    ) -> None:
        self.shared = plan.shared
        self.types = dict(plan.variables)
        self.tables = tables
        self.dialect = dialect
        self.integer = integer
        self.names: dict[Expression, str] = {}
        self.expressions: list[str] = []

    def name(self, expression: Expression) -> str:
        """Return the name of an expression, written after those that it contains."""
        if expression not in self.names:
            body = self._select(expression)
            name = f"e{len(self.names)}"
            kept = self.dialect.materialized if expression in self.shared else ""
            self.expressions.append(f"{name} AS {kept}({body})")
            self.names[expression] = name
        return self.names[expression]

    def definitions(self) -> str:
        """Write the WITH clause of all named expressions."""
        return "WITH " + ",\n".join(self.expressions) + "\n"

    def _select(self, expression: Expression) -> str:
        match expression:
            case Tuples():
                return self._tuples(expression)
            case Universe(_, type_name):
                source = self.dialect.numbers.format(size=self.tables.world.size(type_name))
                return f"SELECT CAST(i AS INTEGER) AS c0, {self._one()} FROM {source}"
            case Matches(test):
                left, right = (self._domain(name) for name in test.variables)
                return (
                    f"SELECT l.code AS c0, r.code AS c1, {self._one()} "
                    f"FROM {left} l JOIN {right} r ON {self._comparison(test, 'l', 'r')}"
                )
            case Join(left, right, keep):
                matches = _matching(left.variables, right.variables)
                source = f"{self.name(left)} l JOIN {self.name(right)} r ON {matches}"
                width = len(set(left.variables) | set(right.variables))
                return self._grouped(_kept_columns(left, right, keep), "l.n * r.n", source, width)
            case RangeJoin():
                return self._range_join(expression)
            case Project(part, keep):
                columns = [f"c{part.variables.index(name)}" for name in keep]
                return self._grouped(columns, "n", self.name(part), len(part.variables))
            case Without(part, excluded):
                matches = _matching(part.variables, excluded.variables)
                return (
                    f"SELECT l.* FROM {self.name(part)} l "
                    f"WHERE NOT EXISTS (SELECT 1 FROM {self.name(excluded)} r WHERE {matches})"
                )
            case Restrict():
                return self._restrict(expression)

    def _restrict(self, expression: Restrict) -> str:
        part, test = expression.part, expression.test
        text = f"SELECT e.* FROM {self.name(part)} e"
        for alias, term in zip("lr", _test_terms(test), strict=True):
            if not isinstance(term, Constant):
                column = f"e.c{part.variables.index(term.name)}"
                text += f" JOIN {self._domain(term.name)} {alias} ON {alias}.code = {column}"
        return f"{text} WHERE {self._comparison(test, 'l', 'r')}"

    def _one(self) -> str:
        return f"CAST(1 AS {self.integer.type}) AS n"

    def _exact(self, value: str) -> str:
        """Write the value, or its remainder, in its type."""
        if self.integer.modulus is not None:
            value = f"({value}) % {self.integer.modulus}"
        return f"CAST({value} AS {self.integer.type})"

    def _domain(self, variable: str) -> StoredTable:
        return self.tables.domain_table(self.types[variable])

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
        text = f"SELECT {', '.join([*columns, self._one()])}"
        text += f" FROM {self.tables.relation_table(tuples.relation)}"
        return text + (f" WHERE {' AND '.join(conditions)}" if conditions else "")

    def _range_join(self, join: RangeJoin) -> str:
        left, right, test = join.left, join.right, join.test
        source = f"{self.name(left)} l JOIN {self.name(right)} r ON TRUE"
        for side, part, term in zip("lr", (left, right), _test_terms(test), strict=True):
            column = f"{side}.c{part.variables.index(term.name)}"
            source += f" JOIN {self._domain(term.name)} {side}d ON {side}d.code = {column}"
        source += f" WHERE {self._comparison(test, 'ld', 'rd')}"
        width = len(left.variables) + len(right.variables)
        return self._grouped(_kept_columns(left, right, join.keep), "l.n * r.n", source, width)

    def _grouped(self, columns: list[str], value: str, source: str, width: int) -> str:
        """Write Σ value by the columns, over a source with `width` variables."""
        named = [f"{column} AS c{i}" for i, column in enumerate(columns)]
        if len(columns) == width:
            return f"SELECT {', '.join([*named, f'{self._exact(value)} AS n'])} FROM {source}"
        summand = value if self.integer.modulus is None else self._exact(value)
        total = f"{self._exact(f'coalesce(sum({summand}), 0)')} AS n"
        text = f"SELECT {', '.join([*named, total])} FROM {source}"
        return text + (f" GROUP BY {', '.join(columns)}" if columns else "")

    def _comparison(self, test: Test, left: str, right: str) -> str:
        """Write the test on rows of domain tables, where value is NULL for non-numbers."""
        if not test.variables:
            return "TRUE" if compare_constants(test) else "FALSE"
        condition = test.condition
        operator = "<>" if condition.operator == "!=" else condition.operator
        first, second = _test_terms(test)
        if not test.numeric:
            first_side, second_side = self._compared(first, second, left, right)
        else:
            first_side, second_side = self._value(first, left), self._value(second, right)
        offset = f" + {condition.offset}" if condition.offset else ""
        holds = f"coalesce({first_side} {operator} {second_side}{offset}, FALSE)"
        return holds if test.expected else f"NOT {holds}"

    def _compared(
        self, first: SimpleTerm, second: SimpleTerm, left: str, right: str
    ) -> tuple[str, str]:
        """Write the columns to compare: codes, or names if the types differ."""
        if isinstance(first, Constant):
            return str(self._code(first, second)), f"{right}.code"
        if isinstance(second, Constant):
            return f"{left}.code", str(self._code(second, first))
        alike = self.types[first.name] == self.types[second.name]
        column = "code" if alike else "name"
        return f"{left}.{column}", f"{right}.{column}"

    def _code(self, constant: Constant, variable: SimpleTerm) -> int:
        """Return the constant's code in the variable's domain, −1 if it is not there."""
        domain = self.tables.world.domains[self.types[variable.name]]
        return domain.index.get(constant.name, -1)

    def _value(self, term: SimpleTerm, alias: str) -> str:
        if not isinstance(term, Constant):
            return f"{alias}.value"
        real = self.dialect.real
        number = read_number(term.name)
        if math.isnan(number):
            return f"CAST(NULL AS {real})"
        text = repr(number).replace("inf", "Infinity")
        return f"CAST('{text}' AS {real})"


def _kept_columns(left: Expression, right: Expression, keep: tuple[str, ...]) -> list[str]:
    return [
        f"l.c{left.variables.index(name)}"
        if name in left.variables
        else f"r.c{right.variables.index(name)}"
        for name in keep
    ]


def _matching(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    equal = [f"l.c{left.index(name)} = r.c{i}" for i, name in enumerate(right) if name in left]
    return " AND ".join(equal) or "TRUE"


def _test_terms(test: Test) -> tuple[SimpleTerm, SimpleTerm]:
    return test.condition.left, test.condition.right
