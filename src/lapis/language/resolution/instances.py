"""Ground instances of formulas: of + variables, and by name.

A formula with a + variable stands for one formula for each constant. Each ground atom and ground
formula has one canonical name, so that answers can be looked up. In facts, queries and lookups a
name is a constant, quoted or not: `Smokes(anna)`, `Smokes( "anna" )` and `Smokes("anna")` are the
same atom.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from math import isnan

from lapis.errors import LapisError
from lapis.language.model import Rule
from lapis.language.names import format_atom, format_constant, read_number
from lapis.language.parser import parse_formula
from lapis.language.printer import print_formula
from lapis.language.syntax import (
    Application,
    Atom,
    Comparison,
    Constant,
    Formula,
    Offset,
    Quantifier,
    Term,
    Variable,
    free_variables,
    map_children,
    map_terms,
    subformulas,
    terms_of,
)


def instances(rule: Rule, constants: Sequence[Sequence[str]]) -> list[str]:
    """The texts of a rule for each combination of constants of its plus variables."""
    rows = list(itertools.product(*constants))
    formula = parse_formula(rule.text)
    if any(moved_by_offset(node, rule.plus) for node in subformulas(formula)):
        return [
            print_formula(substitute(formula, dict(zip(rule.plus, row, strict=True))))
            for row in rows
        ]
    # Printed once with placeholders and then filled in: there may be many thousands.
    marks = [f"\0{i}\0" for i in range(len(rule.plus))]
    template = print_formula(substitute(formula, dict(zip(rule.plus, marks, strict=True))))
    for mark in marks:
        template = template.replace(format_constant(mark), mark)
    found: list[str] = []
    for row in rows:
        text = template
        for mark, constant in zip(marks, row, strict=True):
            text = text.replace(mark, format_constant(constant))
        found.append(text)
    return found


def moved_by_offset(node: Formula, names: Sequence[str]) -> bool:
    return any(isinstance(t, Offset) and t.variable.name in names for t in terms_of(node))


def substitute(formula: Formula, values: Mapping[str, str]) -> Formula:
    """Constants for the free occurrences of variables."""
    if isinstance(formula, Quantifier):
        values = {name: value for name, value in values.items() if name not in formula.variables}
    inner = map_children(formula, lambda child: substitute(child, values))
    return map_terms(inner, lambda term: put(term, values))


def put(term: Term, values: Mapping[str, str]) -> Term:
    match term:
        case Variable(name) if name in values:
            return Constant(values[name])
        case Offset(variable, amount) if variable.name in values:
            return Constant(f"{number_of(values[variable.name]) + amount:.17g}")
        case Application(function, terms, span):
            return Application(function, tuple(put(t, values) for t in terms), span)
    return term


def number_of(constant: str) -> float:
    value = read_number(constant)
    if isnan(value):
        raise LapisError(
            f"{constant!r} is not a number, so nothing can be added to it", code="not-a-number"
        )
    return value


def canonical_name(text: str) -> str:
    """The name that an answer gives to the ground atom or formula written so.

    >>> canonical_name('Friends( anna, "Bob, the second" )')
    'Friends("anna","Bob, the second")'
    >>> canonical_name("P(A,B)^P(B,A)"), canonical_name("MotherOf(Ann)=Eve")
    ('P(A, B) ^ P(B, A)', 'Eve = MotherOf(Ann)')
    """
    formula = parse_formula(text, "<name>")
    names = [
        name
        for name in free_variables(formula)
        if not any(moved_by_offset(node, (name,)) for node in subformulas(formula))
    ]
    return ground_name(substitute(formula, {name: name for name in names}))


def ground_name(formula: Formula) -> str:
    """A ground atom as facts are written, another formula as it is printed."""
    atom = as_atom(formula)
    if atom is not None:
        constants = [term.name for term in atom.terms if isinstance(term, Constant)]
        if len(constants) == len(atom.terms):
            return format_atom(atom.predicate, constants, function=not isinstance(formula, Atom))
    return print_formula(formula)


def as_atom(formula: Formula) -> Atom | None:
    """The formula as one atom; `Value = f(x)` is that of the function's graph, value last."""
    if isinstance(formula, Comparison) and formula.operator == "=":
        value, application = formula.left, formula.right
        if isinstance(value, Application):
            value, application = application, value
        if isinstance(application, Application) and not isinstance(value, Application):
            return Atom(application.function, (*application.terms, value), span=formula.span)
    return formula if isinstance(formula, Atom) else None
