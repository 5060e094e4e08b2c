"""Formulas in words, for people who meet them for the first time."""

from __future__ import annotations

from collections.abc import Mapping

from lapis.language.model import Rule
from lapis.language.printer import print_formula
from lapis.language.syntax import (
    And,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Quantifier,
)

MANY = 20.0  # beyond this a weight is as good as certain
COUNTS = {"=": "exactly", "<=": "at most", ">=": "at least"}


def describe_rule(rule: Rule) -> str:
    """The rule as a sentence.

    >>> from lapis.language import parse_model
    >>> text = "Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)"
    >>> describe_rule(parse_model(text).rules[0])
    'for each person x: if Smokes(x) then Cancer(x); odds e^1.5 = 4.48 in favour'
    """
    types = dict(rule.variables + rule.bound)
    scope = ", ".join(f"{type_name} {name}" for name, type_name in rule.variables)
    head = f"for each {scope}: " if scope else ""
    return f"{head}{words(rule.formula, types)}; {describe_weight(rule)}"


def describe_weight(rule: Rule) -> str:
    if rule.hard:
        return "always, in every world"
    if rule.weight is None:
        each = f" for each {', '.join(rule.plus)}" if rule.plus else ""
        return f"a weight to be learned{each}"
    if rule.instance_weights is not None:
        low, high = min(rule.instance_weights.value), max(rule.instance_weights.value)
        each = f"{len(rule.instance_weights.value):,} constants of {', '.join(rule.plus)}"
        return f"weights of {low:g} to {high:g} at {each}, {rule.weight:g} at others"
    if rule.weight == 0:
        return "weight 0: no preference"
    if abs(rule.weight) > MANY:
        return f"odds e^{rule.weight:g}: nearly {'always' if rule.weight > 0 else 'never'}"
    import math

    side = "in favour" if rule.weight > 0 else "against"
    return f"odds e^{abs(rule.weight):g} = {math.exp(abs(rule.weight)):.3g} {side}"


def words(formula: Formula, types: Mapping[str, str]) -> str:
    """The formula in words; commas and 'both' keep the grouping readable."""
    match formula:
        case Not(body):
            return f"not {grouped(body, types)}"
        case And(parts):
            return " and ".join(grouped(part, types) for part in parts)
        case Or(parts):
            return " or ".join(grouped(part, types) for part in parts)
        case Implies(premise, conclusion):
            return f"if {words(premise, types)} then {words(conclusion, types)}"
        case Iff(left, right):
            return f"{grouped(left, types)} exactly if {grouped(right, types)}"
        case Exists(variables, body):
            return f"there is {named(variables, types)} with {grouped(body, types)}"
        case CountExists(variables, body, operator, bound):
            number = f"{COUNTS[operator]} {bound} {named(variables, types)}"
            return f"there are {number} with {grouped(body, types)}"
        case ForAll(variables, body):
            return f"for all {named(variables, types)}, {grouped(body, types)}"
        case _:
            return print_formula(formula)


def named(variables: tuple[str, ...], types: Mapping[str, str]) -> str:
    return ", ".join(f"{types.get(name, '')} {name}".strip() for name in variables)


def grouped(formula: Formula, types: Mapping[str, str]) -> str:
    text = words(formula, types)
    simple = isinstance(formula, Not) or not isinstance(
        formula, And | Or | Implies | Iff | Quantifier
    )
    return text if simple else f"({text})"
