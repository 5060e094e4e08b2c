"""Rewriting passes from formula to formula; `PASSES` gives their order.

Each keeps the meaning in every world, also over empty domains: ∃y A(x) is false if the type of y
has no constant, so a quantifier is not dropped if its variable is unused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from math import isnan

from lapis.errors import LapisError
from lapis.language.formulas import rename_variable
from lapis.language.names import read_number
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Term,
    Truth,
    Variable,
    free_variables,
    map_children,
    subformulas,
)


def normalize_comparisons(formula: Formula) -> Formula:
    """Express comparisons by = and <, with offsets on the right.

    a != b is ¬(a = b), a > b is b < a, a <= b is ¬(b < a), a >= b is ¬(a < b).
    """
    formula = map_children(formula, normalize_comparisons)
    if not isinstance(formula, Comparison):
        return formula
    left, right = formula.left, formula.right
    match formula.operator:
        case "=" | "!=":
            if isinstance(left, Offset) or is_before(right, left):
                left, right = right, left
            equal = make_comparison("=", left, right)
            return equal if formula.operator == "=" else negate(equal)
        case "<":
            return make_comparison("<", left, right)
        case ">":
            return make_comparison("<", right, left)
        case "<=":
            return negate(make_comparison("<", right, left))
        case ">=":
            return negate(make_comparison("<", left, right))


def is_before(first: Term, second: Term) -> bool:
    """Order two terms without offsets, so that x = y and y = x become the same."""

    def key(term: Term) -> tuple[bool, str]:
        return isinstance(term, Constant), term.name if isinstance(
            term, Variable | Constant
        ) else ""

    return (
        not isinstance(first, Offset)
        and not isinstance(second, Offset)
        and key(first) < key(second)
    )


def make_comparison(operator: str, left: Term, right: Term) -> Formula:
    """Return left operator right with all offsets on the right, or its truth value."""
    left, moved = without_offset(left)
    right, amount = without_offset(right)
    amount -= moved
    if isinstance(left, Constant) and isinstance(right, Constant):
        if operator == "=" and amount == 0:
            return Truth(left.name == right.name)
        values = numeric_value(left), numeric_value(right)
        if values[0] is not None and values[1] is not None:
            shifted = values[1] + amount
            return Truth(values[0] == shifted if operator == "=" else values[0] < shifted)
    if left == right:
        return Truth(amount == 0 if operator == "=" else amount > 0)
    if isinstance(right, Constant) and amount:
        assert isinstance(left, Variable)
        if operator == "=":
            return Comparison("=", right, Offset(left, -amount))
        value = numeric_value(right)
        if value is None:
            raise LapisError(
                f"{right.name!r} is not a number, so no offset can be added",
                code="not-a-number",
                span=right.span,
            )
        right, amount = Constant(f"{value + amount:.17g}", span=right.span), 0
    shifted_right = Offset(right, amount) if isinstance(right, Variable) and amount else right
    return Comparison("=" if operator == "=" else "<", left, shifted_right)


def without_offset(term: Term) -> tuple[Term, float]:
    return (term.variable, term.amount) if isinstance(term, Offset) else (term, 0)


def numeric_value(constant: Constant) -> float | None:
    value = read_number(constant.name)
    return None if isnan(value) else value


def simplify(formula: Formula) -> Formula:
    """Fold truth values, remove double negations, flatten nested conjunctions and disjunctions."""
    formula = map_children(formula, simplify)
    match formula:
        case Not(body):
            return negate(body)
        case And(parts):
            return conjunction(parts)
        case Or(parts):
            return disjunction(parts)
        case Implies(premise, conclusion):
            return disjunction((negate(premise), conclusion))
        case Iff(left, Truth(value)) | Iff(Truth(value), left):
            return left if value else negate(left)
        case Iff(left, right) if left == right:
            return Truth(True)
        case Exists(_, Truth(False)):
            return Truth(False)
        case ForAll(_, Truth(True)):
            return Truth(True)
        case _:
            return formula


def negate(formula: Formula) -> Formula:
    match formula:
        case Truth(value):
            return Truth(not value)
        case Not(body):
            return body
        case _:
            return Not(formula)


def conjunction(parts: tuple[Formula, ...]) -> Formula:
    """Conjoin parts without true and repeated ones; false if a part and its negation occur."""
    found: dict[Formula, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, And) else (part,):
            if piece == Truth(False) or negate(piece) in found:
                return Truth(False)
            if piece != Truth(True):
                found.setdefault(piece)
    pieces = tuple(found)
    return Truth(True) if not pieces else pieces[0] if len(pieces) == 1 else And(pieces)


def disjunction(parts: tuple[Formula, ...]) -> Formula:
    """Return ¬(¬a ∧ ¬b ∧ …), simplified."""
    flat = [piece for part in parts for piece in (part.parts if isinstance(part, Or) else (part,))]
    inner = conjunction(tuple(negate(piece) for piece in flat))
    if isinstance(inner, And):
        return Or(tuple(negate(piece) for piece in inner.parts))
    return negate(inner)


def exists_only(formula: Formula) -> Formula:
    """Replace ∀ by ¬∃¬, and merge directly nested ∃."""
    formula = map_children(formula, exists_only)
    if isinstance(formula, ForAll):
        return negate(exists_only(Exists(formula.variables, negate(formula.body))))
    if isinstance(formula, Exists) and isinstance(formula.body, Exists):
        return Exists(formula.variables + formula.body.variables, formula.body.body)
    return formula


def push_negations(formula: Formula) -> Formula:
    """Move negations inward through ∧ and ∨, which exposes conjunctions under quantifiers."""
    match formula:
        case Not(And(parts)):
            return disjunction(tuple(push_negations(negate(part)) for part in parts))
        case Not(Or(parts)):
            return conjunction(tuple(push_negations(negate(part)) for part in parts))
        case _:
            return map_children(formula, push_negations)


def narrow_scopes(formula: Formula) -> Formula:
    """Move parts of a conjunction that do not use the quantified variables out of the quantifier.

    ∃y (A(x) ∧ B(x,y)) is A(x) ∧ ∃y B(x,y): the derived atom has fewer arguments.
    """
    formula = map_children(formula, narrow_scopes)
    if not isinstance(formula, Exists) or not isinstance(formula.body, And):
        return formula
    own = set(formula.variables)
    inside = tuple(p for p in formula.body.parts if own & set(free_variables(p)))
    outside = tuple(p for p in formula.body.parts if not own & set(free_variables(p)))
    if not inside or not outside:
        return formula
    return conjunction((*outside, replace(formula, body=conjunction(inside))))


KeepCount = Callable[[CountExists], bool]  # whether a counting quantifier is not expanded


def expand_counts(formula: Formula, keep: KeepCount | None = None) -> Formula:
    """Expand ∃≥k y F to ∃ y₁…y_k (all different ∧ F(y₁) ∧ … ∧ F(y_k)); ∃≤k is ¬∃≥k+1, ∃=k both.

    Quantifiers to `keep` become ∃≥k, ¬∃≥k+1 or ∃=k.
    """
    formula = map_children(formula, lambda child: expand_counts(child, keep))
    if not isinstance(formula, CountExists):
        return formula
    if keep is not None and keep(formula):
        if formula.operator == "<=":
            return Not(replace(formula, operator=">=", bound=formula.bound + 1))
        return formula
    at_least, beyond = at_least_count(formula, formula.bound), formula.bound + 1
    if formula.operator == ">=":
        return at_least
    at_most = negate(at_least_count(formula, beyond))
    return at_most if formula.operator == "<=" else conjunction((at_least, at_most))


def counts_elements(formula: Formula) -> bool:
    """Return whether a formula has a counting quantifier with a bound above 1."""
    return any(isinstance(n, CountExists) and n.bound > 1 for n in subformulas(formula))


def at_least_count(formula: CountExists, number: int) -> Formula:
    if not number:
        return Truth(True)
    names = name_copies(formula.variables[0], number)
    different = tuple(
        negate(Comparison("=", Variable(first), Variable(second)))
        for i, second in enumerate(names)
        for first in names[:i]
    )
    held = tuple(rename_variable(formula.body, names[0], name) for name in names)
    return Exists(names, conjunction((*held, *different)))


def name_copies(name: str, number: int) -> tuple[str, ...]:
    """Return names for several values of one variable; files can contain only the first."""
    return (name, *(f"{name}#{i}" for i in range(2, number + 1)))


PASSES: tuple[Callable[[Formula], Formula], ...] = (
    expand_counts,
    normalize_comparisons,
    simplify,
    exists_only,
    push_negations,
    narrow_scopes,
    simplify,
)


def rewrite(formula: Formula, keep: KeepCount | None = None) -> Formula:
    """Apply all passes in order; `keep` chooses counting quantifiers that stay."""
    return tidy(expand_counts(formula, keep))


def tidy(formula: Formula) -> Formula:
    """Apply all passes but the first: counting quantifiers stay."""
    return reduce(lambda current, apply: apply(current), PASSES[1:], formula)


def split_hard(formula: Formula) -> tuple[tuple[tuple[str, ...], Formula], ...]:
    """Split a rewritten hard formula into parts (extra variables, formula) that must all hold.

    A conjunction holds iff its parts hold. ∀x F, rewritten as ¬∃x ¬F, holds iff F holds for every
    x, so x becomes a free variable.
    """
    match formula:
        case And(parts):
            return tuple(found for part in parts for found in split_hard(part))
        case Not(Exists(variables, body)):
            inner = split_hard(tidy(negate(body)))
            return tuple((variables + names, part) for names, part in inner)
        case _:
            return (((), formula),)


def is_leaf(formula: Formula) -> bool:
    return isinstance(formula, Atom | Comparison | Exists | CountExists)
