"""A count plan: what to compute to count the groundings of a conjunction in a world.

    n(k) = #{groundings with keep = k in which every literal and condition is true}
         = Σ_terms coefficient · multiplier · expression(k)

Terms come from `expansion`, join orders from `elimination`. A plan is a value: it can be printed
(`explain`), priced, and run by any executor. The expressions of its terms share subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lapis.language.syntax import Constant
from lapis.logic.clauses import Clause, Condition, Cube, Literal, SimpleTerm, TypedVariable
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
    parts,
)
from lapis.relational.expansion import Term, choose_terms
from lapis.relational.interpretation import Interpretation


@dataclass(frozen=True)
class CountPlan:
    variables: tuple[TypedVariable, ...]  # what the groundings range over
    keep: tuple[str, ...]  # counts are wanted for each assignment of these
    shape: tuple[int, ...]  # the sizes of their domains
    groundings: int  # Π of all variables' domain sizes
    terms: tuple[Term, ...]

    @property
    def cost(self) -> float:
        """Estimated rows touched."""
        return sum(term.cost for term in self.terms)


def plan_cube(
    cube: Cube,
    variables: tuple[TypedVariable, ...],
    extensions: Interpretation,
    keep: tuple[str, ...] = (),
) -> CountPlan:
    """Count the groundings in which the cube is true."""
    types = dict(variables)
    tests = [make_test(condition, types, True) for condition in cube.conditions]
    return _plan(cube.literals, tests, variables, extensions, keep)


def plan_violations(
    clause: Clause,
    variables: tuple[TypedVariable, ...],
    extensions: Interpretation,
    keep: tuple[str, ...] = (),
) -> CountPlan:
    """Count the groundings in which the clause is false: all its literals and conditions are."""
    literals = [literal.negate() for literal in clause.literals]
    types = dict(variables)
    tests = [make_test(condition, types, False) for condition in clause.conditions]
    return _plan(literals, tests, variables, extensions, keep)


def make_test(condition: Condition, types: Mapping[str, str], expected: bool) -> Test:
    """The condition over variables of the given types, required to come out as `expected`."""

    def kind(term: SimpleTerm) -> str | None:
        return None if isinstance(term, Constant) else types[term.name]

    return Test(condition, (kind(condition.left), kind(condition.right)), expected)


def shared_expressions(terms: Sequence[Term]) -> frozenset[Expression]:
    """The expressions that occur more than once, worth remembering while a plan runs."""
    uses: Counter[Expression] = Counter()

    def visit(expression: Expression) -> None:
        uses[expression] += 1
        if uses[expression] == 1:
            for part in parts(expression):
                visit(part)

    for term in terms:
        if term.expression is not None:
            visit(term.expression)
    return frozenset(expression for expression, count in uses.items() if count > 1)


def explain(plan: CountPlan) -> str:
    """The plan as indented text: one block for each term, joins from the outside in."""
    ranges = ", ".join(f"{name}:{type_name}" for name, type_name in plan.variables)
    lines = [
        f"count groundings of ({ranges})" + (f" by {', '.join(plan.keep)}" if plan.keep else ""),
        f"  {plan.groundings:,} groundings, {len(plan.terms)} terms, "
        f"about {plan.cost:,.0f} rows touched",
    ]
    shared = shared_expressions(plan.terms)
    numbers: dict[Expression, int] = {}
    for term in plan.terms:
        sizes = "".join(f" · |{type_name}|" for _, type_name in term.free)
        lines.append(f"  {term.coefficient:+d}{sizes}  (about {term.rows:,.0f} rows)")
        if term.expression is not None:
            lines += ["    " + line for line in _describe(term.expression, shared, numbers)]
    return "\n".join(lines)


def _plan(
    literals: Sequence[Literal],
    tests: Sequence[Test],
    variables: tuple[TypedVariable, ...],
    extensions: Interpretation,
    keep: tuple[str, ...],
) -> CountPlan:
    groundings = 1
    for _, type_name in variables:
        groundings *= extensions.size(type_name)
    types = dict(variables)
    shape = tuple(extensions.size(types[name]) for name in keep)
    terms = choose_terms(literals, tests, variables, keep, extensions) if groundings else ()
    return CountPlan(variables, keep, shape, groundings, terms)


def _describe(
    expression: Expression, shared: frozenset[Expression], numbers: dict[Expression, int]
) -> Iterator[str]:
    if expression in numbers:
        yield f"as #{numbers[expression]}"
        return
    label = ""
    if expression in shared and parts(expression):
        numbers[expression] = len(numbers) + 1
        label = f"#{numbers[expression]} "
    yield label + _headline(expression)
    for part in parts(expression):
        if not (isinstance(expression, Without) and part is expression.excluded):
            yield from ("  " + line for line in _describe(part, shared, numbers))


def _headline(expression: Expression) -> str:
    match expression:
        case Tuples(predicate, terms):
            return f"{predicate}({', '.join(map(str, terms))})"
        case Universe(variable, type_name):
            return f"all {variable} of {type_name}"
        case Matches(test):
            return f"pairs with {_show_test(test)}"
        case Given(number, variables):
            return f"factor {number} ({', '.join(variables)})"
        case Join(left, right, keep):
            dropped = [name for name in (*left.variables, *right.variables) if name not in keep]
            summed = f", sum out {', '.join(dict.fromkeys(dropped))}" if dropped else ""
            common = [name for name in left.variables if name in right.variables]
            return (f"join on {', '.join(common)}" if common else "product") + summed
        case RangeJoin(left, right, test, keep):
            dropped = [name for name in (*left.variables, *right.variables) if name not in keep]
            summed = f", sum out {', '.join(dropped)}" if dropped else ""
            return f"join where {_show_test(test)}" + summed
        case Project(part, keep):
            dropped = [name for name in part.variables if name not in keep]
            return f"sum out {', '.join(dropped)}" if dropped else f"as ({', '.join(keep)})"
        case Without(_, excluded):
            return f"rows without {_headline(excluded)}"
        case Restrict(_, test):
            return f"rows with {_show_test(test)}"


def _show_test(test: Test) -> str:
    condition = test.condition
    offset = f" {condition.offset:+d}" if condition.offset else ""
    text = f"{condition.left.name} {condition.operator} {condition.right.name}{offset}"
    return text if test.expected else f"not ({text})"
