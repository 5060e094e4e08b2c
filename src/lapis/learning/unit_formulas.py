"""A unit formula for each predicate that is learned about and has none.

Without `P(x)` the other rules have to say how common P is, and say it badly. Where arguments are
marked (`P(x, v!)`) the number of true atoms is fixed, so each value gets a weight: `P(x, +v)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from lapis.language.model import Model, Predicate, Rule
from lapis.language.resolution.resolve import with_statements
from lapis.language.syntax import Atom, Not, Variable, WeightedFormula


def add_units(model: Model, predicates: Iterable[str]) -> Model:
    """The model with unit formulas, weights to be learned, where they are missing.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nClass(page, kind!)\\n1 Smokes(x)")
    >>> [rule.text for rule in add_units(model, ["Smokes", "Class"]).rules]
    ['Smokes(x)', 'Class(x1, +x2)']
    """
    asked = [model.predicates[name] for name in predicates]
    missing = [p for p in asked if not any(is_unit(rule, p) for rule in model.rules)]
    return with_statements(model, *[WeightedFormula(unit(predicate)) for predicate in missing])


def is_unit(rule: Rule, predicate: Predicate) -> bool:
    """Whether a rule is P or ¬P at distinct variables, with a weight for each marked value."""
    formula = rule.formula.body if isinstance(rule.formula, Not) else rule.formula
    if rule.hard or not isinstance(formula, Atom) or formula.predicate != predicate.name:
        return False
    names = [term.name if isinstance(term, Variable) else None for term in formula.terms]
    marked = all(names[place] in rule.plus for place in predicate.block)
    return None not in names and len(set(names)) == len(names) and marked


def unit(predicate: Predicate) -> Atom:
    terms = [Variable(f"x{i + 1}", plus=i in predicate.block) for i in range(predicate.arity)]
    return Atom(predicate.name, tuple(terms))
