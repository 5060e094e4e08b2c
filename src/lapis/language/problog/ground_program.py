"""Ground a program bottom-up: the clauses whose positive bodies may hold.

An atom may hold if a clause derives it from atoms that may hold, whatever is chosen and whatever is
negated. Each assignment of constants to the variables of a probabilistic clause is a random choice
of its own, as in ProbLog 2.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lapis.errors import LapisError, Span, TooLarge
from lapis.language.problog.program import (
    Expression,
    Goal,
    Operation,
    ProbabilisticClause,
    ProgramTerm,
    ProgramTest,
)
from lapis.runtime.progress import check_time

GroundGoal = tuple[str, tuple[str, ...]]  # functor and constants
Binding = dict[str, str]
Relations = dict[tuple[str, int], dict[tuple[str, ...], None]]  # by functor and arity
MAX_GROUND_CLAUSES = 500_000

NUMBER_TESTS: Mapping[str, Callable[[float, float], bool]] = {
    "=:=": operator.eq, "=\\=": operator.ne, "<": operator.lt, ">": operator.gt,
    "=<": operator.le, ">=": operator.ge,
}  # fmt: skip


class GroundClause(NamedTuple):
    """An instance of a clause: heads with probabilities, and the atoms of its body with signs."""

    heads: tuple[tuple[float | None, GroundGoal], ...]
    body: tuple[tuple[GroundGoal, bool], ...]
    span: Span


def ground_clauses(clauses: Sequence[ProbabilisticClause]) -> list[GroundClause]:
    """Return all instances of the clauses whose positive bodies may hold.

    Semi-naive evaluation: after the first round, one goal of a body must be new.
    """
    ordered = [order_body(clause) for clause in clauses]
    known: Relations = {}
    recent: Relations | None = None
    found: dict[tuple[int, tuple[tuple[str, str], ...]], GroundClause] = {}
    while recent is None or recent:
        added: Relations = {}
        for number, (clause, body) in enumerate(zip(clauses, ordered, strict=True)):
            check_time("grounding the program")
            for binding in new_bindings(body, known, recent, clause.span):
                key = number, tuple(sorted(binding.items()))
                if key in found:
                    continue
                if len(found) >= MAX_GROUND_CLAUSES:
                    raise TooLarge(
                        f"more than {MAX_GROUND_CLAUSES:,} ground clauses",
                        code="too-large",
                        span=clause.span,
                        hint="does an arithmetic recursion not end?",
                    )
                found[key] = instance = instantiate(clause, binding)
                for _, (functor, constants) in instance.heads:
                    place = functor, len(constants)
                    if constants not in known.get(place, ()):
                        added.setdefault(place, {})[constants] = None
        for place, rows in added.items():
            known.setdefault(place, {}).update(rows)
        recent = added
    return [clause for _, clause in sorted(found.items(), key=lambda pair: pair[0][0])]


def new_bindings(
    body: Sequence[Goal | ProgramTest], known: Relations, recent: Relations | None, span: Span
) -> Iterator[Binding]:
    """Yield the bindings of a body that uses a recent atom; all of them in the first round."""
    if recent is None:
        yield from match(body, [known] * len(body), {}, span)
        return
    for place, goal in enumerate(body):
        if isinstance(goal, Goal) and goal.positive and recent.get((goal.functor, len(goal.terms))):
            sources = [known] * len(body)
            sources[place] = recent
            yield from match(body, sources, {}, span)


def order_body(clause: ProbabilisticClause) -> list[Goal | ProgramTest]:
    """Order the goals so that tests and negations follow the goals that bind their variables."""
    waiting, ordered = list(clause.body), []
    bound: set[str] = set()
    while waiting:
        ready = next((goal for goal in waiting if is_ready(goal, bound)), None)
        if ready is None:
            ready = next((g for g in waiting if isinstance(g, Goal) and g.positive), None)
        if ready is None:
            missing = sorted(set().union(*map(variables_of, waiting)) - bound)[0]
            raise unbound_error(missing, clause.span)
        waiting.remove(ready)
        ordered.append(ready)
        bound |= variables_of(ready)
    free = sorted(set().union(*(variables_of(head) for _, head in clause.heads)) - bound)
    if free:
        raise unbound_error(free[0], clause.span)
    return ordered


def unbound_error(name: str, span: Span) -> LapisError:
    shown = "_" if name[1:].isdigit() else name
    return LapisError(
        f"variable {shown} is bound by no positive goal of the body",
        code="problog-unbound",
        span=span,
        hint="add a goal that lists its values, as in 0.3::a(X) :- person(X).",
    )


def is_ready(goal: Goal | ProgramTest, bound: set[str]) -> bool:
    """Return whether a test or negation can be evaluated; an assignment binds its left side."""
    if isinstance(goal, Goal):
        return not goal.positive and variables_of(goal) <= bound
    if goal.sign in ("is", "="):
        right = expression_variables(goal.right)
        left = expression_variables(goal.left)
        assigns = isinstance(goal.left, ProgramTerm) and right <= bound
        return assigns or (
            goal.sign == "=" and isinstance(goal.right, ProgramTerm) and left <= bound
        )
    return variables_of(goal) <= bound


def variables_of(goal: Goal | ProgramTest) -> set[str]:
    if isinstance(goal, Goal):
        return {term.text for term in goal.terms if term.is_variable}
    return expression_variables(goal.left) | expression_variables(goal.right)


def expression_variables(expression: Expression) -> set[str]:
    if isinstance(expression, Operation):
        return expression_variables(expression.left) | expression_variables(expression.right)
    return {expression.text} if expression.is_variable else set()


def match(
    body: Sequence[Goal | ProgramTest],
    sources: Sequence[Relations],
    binding: Binding,
    span: Span,
) -> Iterator[Binding]:
    """Yield the bindings under which the positive goals, each of its source, and the tests hold."""
    if not body:
        yield binding
        return
    goal, rest, others = body[0], body[1:], sources[1:]
    if isinstance(goal, ProgramTest):
        extended = evaluate_test(goal, binding, span)
        if extended is not None:
            yield from match(rest, others, extended, span)
        return
    if not goal.positive:
        yield from match(rest, others, binding, span)
        return
    for constants in sources[0].get((goal.functor, len(goal.terms)), ()):
        extended = match_terms(goal.terms, constants, binding)
        if extended is not None:
            yield from match(rest, others, extended, span)


def match_terms(
    terms: Sequence[ProgramTerm], constants: Sequence[str], binding: Binding
) -> Binding | None:
    extended = binding
    for term, constant in zip(terms, constants, strict=True):
        value = extended.get(term.text) if term.is_variable else term.text
        if value is None:
            extended = {**extended, term.text: constant}
        elif value != constant:
            return None
    return extended


def evaluate_test(test: ProgramTest, binding: Binding, span: Span) -> Binding | None:
    """Return the binding if a test holds, extended by what it assigns; None otherwise."""
    if test.sign == "is":
        value = format_result(evaluate(test.right, binding, span))
        assert isinstance(test.left, ProgramTerm)
        return match_terms([test.left], [value], binding)
    if test.sign in NUMBER_TESTS:
        numbers = [evaluate(side, binding, span) for side in (test.left, test.right)]
        return binding if NUMBER_TESTS[test.sign](*numbers) else None
    sides = [value_of(side, binding, span) for side in (test.left, test.right)]
    if test.sign == "=" and None in sides:
        left, right = (test.left, sides[1]) if sides[0] is None else (test.right, sides[0])
        assert isinstance(left, ProgramTerm)
        assert right is not None
        return {**binding, left.text: right}
    same = sides[0] == sides[1]
    return binding if same == (test.sign in ("=", "==")) else None


def value_of(expression: Expression, binding: Binding, span: Span) -> str | None:
    """Return the constant that a term stands for, None if it is not bound."""
    if isinstance(expression, Operation):
        raise LapisError(
            "arithmetic is evaluated by is, =:=, =\\=, <, >, =< and >= only",
            code="problog-syntax",
            span=span,
        )
    return binding.get(expression.text) if expression.is_variable else expression.text


def evaluate(expression: Expression, binding: Binding, span: Span) -> float:
    if isinstance(expression, Operation):
        left, right = (evaluate(e, binding, span) for e in (expression.left, expression.right))
        if expression.sign == "/" and right == 0:
            raise LapisError("division by zero", code="problog-number", span=span)
        operations: dict[str, Callable[[float, float], float]] = {
            "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
        }  # fmt: skip
        return operations[expression.sign](left, right)
    text = value_of(expression, binding, span)
    try:
        return float(text or "")
    except ValueError:
        raise LapisError(f"{text} is not a number", code="problog-number", span=span) from None


def format_result(value: float) -> str:
    if not math.isfinite(value):
        raise LapisError(f"{value} is no number of a program", code="problog-number")
    return str(int(value)) if value == int(value) else repr(value)


def instantiate(clause: ProbabilisticClause, binding: Binding) -> GroundClause:
    def put(goal: Goal) -> GroundGoal:
        return goal.functor, tuple(
            binding[term.text] if term.is_variable else term.text for term in goal.terms
        )

    heads = tuple((probability, put(head)) for probability, head in clause.heads)
    body = tuple((put(goal), goal.positive) for goal in clause.body if isinstance(goal, Goal))
    return GroundClause(heads, body, clause.span)
