"""A plan of how to count or list the groundings of conjunctions in a world.

    n(k) = Σ_terms coefficient · multiplier · Π_parts expression(k)

over the assignments k of the kept variables. A plan is a value: it can be printed (`explain_plan`),
its cost estimated, and it can run in memory or in a database. The value of a term is a
`FactorProduct`; the values of all terms add up to a number, a table over the kept variables, or
rows.

Join orders, filters and refusals depend on one estimate of sizes. It uses the rows n and the
distinct values d of each column (Selinger et al. 1979, "Access Path Selection in a Relational
Database Management System"): |f ⋈ g| ≈ |f|·|g| / Π_shared max(d_f, d_g). Skewed data deviate from
it, so limits are also checked while a plan runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.logic.clauses import TypedVariable
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
from lapis.relational.exact_sums import max_magnitude_exactly
from lapis.relational.factor import (
    Factor,
    add_factors,
    constant_factor,
    multiply_factors,
    sort_rows,
)


@dataclass(frozen=True)
class Term:
    """coefficient · Π|domain of free variables| · Π of the factors that the parts denote."""

    coefficient: int
    parts: tuple[Expression, ...]  # empty: 1
    free: tuple[TypedVariable, ...]  # summed out, in no part
    multiplier: int  # Π of the free variables' domain sizes
    rows: float  # estimated, of the result
    cost: float  # estimated, rows touched


@dataclass(frozen=True)
class QueryPlan:
    variables: tuple[TypedVariable, ...]  # of the groundings
    keep: tuple[str, ...]  # one count for each assignment of these variables
    shape: tuple[int, ...]  # the sizes of their domains
    groundings: int  # Π of all variables' domain sizes
    terms: tuple[Term, ...]

    @property
    def cost(self) -> float:
        """Estimated rows touched."""
        return sum(term.cost for term in self.terms)

    @property
    def rows(self) -> float:
        """Estimated rows of the terms."""
        return sum(term.rows for term in self.terms)

    @cached_property
    def shared(self) -> frozenset[Expression]:
        """The expressions that occur more than once and are cached while the plan runs."""
        expressions = [part for term in self.terms for part in term.parts]
        return shared_expressions(expressions) if len(expressions) > 1 else frozenset()

    def domains(self, by_type: Mapping[str, Domain]) -> Mapping[str, Domain]:
        """Return the domain of each variable."""
        return {name: by_type[type_name] for name, type_name in self.variables}


def shared_expressions(expressions: Sequence[Expression]) -> frozenset[Expression]:
    """Find the subexpressions that occur more than once in the given expressions."""
    uses: Counter[Expression] = Counter()

    def visit(expression: Expression) -> None:
        uses[expression] += 1
        if uses[expression] == 1:
            for part in operands(expression):
                visit(part)

    for expression in expressions:
        visit(expression)
    return frozenset(expression for expression, count in uses.items() if count > 1)


def explain_plan(plan: QueryPlan) -> str:
    """Format the plan as indented text: one block for each term, outer joins first."""
    ranges = ", ".join(f"{name}:{type_name}" for name, type_name in plan.variables)
    lines = [
        f"count groundings of ({ranges})" + (f" by {', '.join(plan.keep)}" if plan.keep else ""),
        f"  {plan.groundings:,} groundings, {len(plan.terms)} terms, "
        f"about {plan.cost:,.0f} rows touched",
    ]
    numbers: dict[Expression, int] = {}
    for term in plan.terms:
        sizes = "".join(f" · |{type_name}|" for _, type_name in term.free)
        lines.append(f"  {term.coefficient:+d}{sizes}  (about {term.rows:,.0f} rows)")
        for part in term.parts:
            lines += ["    " + line for line in _explain_expression(part, plan.shared, numbers)]
    return "\n".join(lines)


def _explain_expression(
    expression: Expression, shared: frozenset[Expression], numbers: dict[Expression, int]
) -> Iterator[str]:
    if expression in numbers:
        yield f"as #{numbers[expression]}"
        return
    label = ""
    if expression in shared and operands(expression):
        numbers[expression] = len(numbers) + 1
        label = f"#{numbers[expression]} "
    yield label + _format_expression(expression)
    for part in operands(expression):
        if not (isinstance(expression, Without) and part is expression.excluded):
            yield from ("  " + line for line in _explain_expression(part, shared, numbers))


def _format_expression(expression: Expression) -> str:
    match expression:
        case Tuples(relation, terms):
            return f"{relation}({', '.join(map(str, terms))})"
        case Universe(variable, type_name):
            return f"all {variable} of {type_name}"
        case Matches(test):
            return f"pairs with {_format_test(test)}"
        case Join(left, right, keep):
            dropped = [name for name in (*left.variables, *right.variables) if name not in keep]
            summed = f", sum out {', '.join(dict.fromkeys(dropped))}" if dropped else ""
            common = [name for name in left.variables if name in right.variables]
            return (f"join on {', '.join(common)}" if common else "product") + summed
        case RangeJoin(left, right, test, keep):
            dropped = [name for name in (*left.variables, *right.variables) if name not in keep]
            summed = f", sum out {', '.join(dropped)}" if dropped else ""
            return f"join where {_format_test(test)}" + summed
        case Project(part, keep):
            dropped = [name for name in part.variables if name not in keep]
            return f"sum out {', '.join(dropped)}" if dropped else f"as ({', '.join(keep)})"
        case Without(_, excluded):
            return f"rows without {_format_expression(excluded)}"
        case Restrict(_, test):
            return f"rows with {_format_test(test)}"


def _format_test(test: Test) -> str:
    condition = test.condition
    offset = f" {condition.offset:+d}" if condition.offset else ""
    text = f"{condition.left.name} {condition.operator} {condition.right.name}{offset}"
    return text if test.expected else f"not ({text})"


class FactorProduct(NamedTuple):
    """The value of one term: scale · Π factors."""

    scale: int
    factors: tuple[Factor, ...] = ()  # each over at least one variable

    @property
    def factor(self) -> Factor | None:
        """The product of the factors; None if there are none."""
        return reduce(multiply_factors, self.factors) if self.factors else None


def fold_scalars(scale: int, factors: Sequence[Factor]) -> FactorProduct:
    """Multiply the factors over no variables into the scale."""
    for factor in factors:
        if not factor.variables:
            scale *= factor.total()
    return FactorProduct(scale, tuple(factor for factor in factors if factor.variables))


def tabulate_answers(plan: QueryPlan, answers: Sequence[FactorProduct]) -> np.ndarray:
    """Return int64 or object[plan.shape], the sum of the answers."""
    parts = [(answer.scale, answer.factor) for answer in answers]
    # Every partial sum is at most Σ |scale|·max|factor|.
    bound = sum(
        abs(scale) * (1 if factor is None else max_magnitude_exactly(factor.value))
        for scale, factor in parts
    )
    table = np.zeros(plan.shape, np.int64 if bound < 2**63 else object)
    for scale, factor in parts:
        if factor is None:
            table += scale
            continue
        held = [name in factor.variables for name in plan.keep]
        part = np.zeros(
            tuple(size if has else 1 for has, size in zip(held, plan.shape, strict=True)),
            table.dtype,
        )
        index = tuple(
            factor.column(name) if has else 0 for has, name in zip(held, plan.keep, strict=True)
        )
        part[index] = factor.value.astype(table.dtype) * scale
        table += part
    return table


def list_answer_rows(plan: QueryPlan, answers: Sequence[FactorProduct]) -> Factor:
    """Return the sum of the answers as a factor; each answer must bind all kept variables.

    Rows are sorted and without zeros, so that every engine returns the same.
    """
    found = []
    for answer in answers:
        factor = answer.factor
        found.append((constant_factor(1) if factor is None else factor).scale(answer.scale))
    if len(found) == 1:
        return sort_rows(found[0].reorder(plan.keep))
    return add_factors(plan.keep, found)


OVERHEAD = 300.0  # the cost of one operation on empty factors, in rows


class FactorSize(NamedTuple):
    """The estimated size of a factor."""

    rows: float
    distinct: Mapping[str, float]  # values taken by each variable


def estimate_join(left: FactorSize, right: FactorSize) -> FactorSize:
    """Estimate the size of left · right over the variables of both."""
    rows = left.rows * right.rows
    distinct = dict(left.distinct)
    for name, count in right.distinct.items():
        if name in distinct:
            rows /= max(1.0, distinct[name], count)
            distinct[name] = min(distinct[name], count)
        else:
            distinct[name] = count
    return FactorSize(min(rows, math.prod(distinct.values())), distinct)


def estimate_projection(shape: FactorSize, keep: tuple[str, ...]) -> FactorSize:
    """Estimate the size after summing out all variables but `keep`."""
    distinct = {name: min(shape.distinct[name], shape.rows) for name in keep}
    return FactorSize(min(shape.rows, math.prod(distinct.values())), distinct)


def estimate_matches(
    rows: int, distinct: tuple[int, ...], terms: tuple[str | int, ...]
) -> FactorSize:
    """Estimate the tuples that match terms, from the rows and distinct values of a relation."""
    found = float(rows)
    values: dict[str, float] = {}
    for term, count in zip(terms, distinct, strict=True):
        if isinstance(term, int):
            found /= max(1, count)
        elif term in values:
            found /= max(1, count)
            values[term] = min(values[term], count)
        else:
            values[term] = float(count)
    return FactorSize(found, {name: min(count, found) for name, count in values.items()})


def count_distinct(column: np.ndarray) -> int:
    if len(column) == 0:
        return 0
    seen = np.zeros(int(column.max()) + 1, bool)
    seen[column] = True
    return int(np.count_nonzero(seen))
