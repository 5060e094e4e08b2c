"""The formulas a + variable stands for: one for each constant."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lapis.language.parser import parse_formula
from lapis.language.printer import print_formula
from lapis.language.syntax import (
    Constant,
    Formula,
    Offset,
    Term,
    Variable,
    children,
    map_terms,
    with_children,
)

if TYPE_CHECKING:
    from lapis.language.model import Rule


def instances(rule: Rule, constants: Sequence[Sequence[str]]) -> list[str]:
    """The texts of a rule for each combination of constants of its plus variables."""
    # Printed once with placeholders and then filled in: there may be many thousands.
    placeholders = [f"\0{i}\0" for i in range(len(rule.plus))]
    template = print_formula(
        substitute(parse_formula(rule.text), dict(zip(rule.plus, placeholders, strict=True)))
    )
    from lapis.language.names import format_constant

    for placeholder in placeholders:
        template = template.replace(format_constant(placeholder), placeholder)
    spelled = [[format_constant(name) for name in names] for names in constants]
    found: list[str] = []
    for chosen in itertools.product(*spelled):
        text = template
        for placeholder, constant in zip(placeholders, chosen, strict=True):
            text = text.replace(placeholder, constant)
        found.append(text)
    return found


def substitute(formula: Formula, values: dict[str, str]) -> Formula:
    """Constants for free variables; the formula binds none of them."""

    def replaced(term: Term) -> Term:
        if isinstance(term, Variable) and term.name in values:
            return Constant(values[term.name])
        if isinstance(term, Offset) and term.variable.name in values:
            return Constant(f"{values[term.variable.name]}{term.amount:+d}")
        return term

    inner = tuple(substitute(child, values) for child in children(formula))
    return map_terms(with_children(formula, inner), replaced)
