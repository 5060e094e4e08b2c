"""Functions in formulas, compiled to the predicates of their graphs.

P(f(x)) means ∃v (f(x,v) ∧ P(v)), and f(x) = t is the atom f(x,t).
"""

from __future__ import annotations

from lapis.errors import suggestion
from lapis.language.resolution.sugar import fresh_name
from lapis.language.resolution.type_inference import Declarations, variable_like
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    Exists,
    Formula,
    Not,
    Term,
    Variable,
    map_children,
    map_terms,
)


def compile_terms(declared: Declarations, formula: Formula, taken: set[str]) -> Formula:
    """Functions in atoms and comparisons to the predicates of their graphs."""
    formula = map_children(formula, lambda child: compile_terms(declared, child, taken))
    if isinstance(formula, Comparison) and formula.operator in ("=", "!="):
        graph = compile_equation(declared, formula)
        if graph is not None:
            return compile_terms(declared, graph, taken)
    if not isinstance(formula, Atom | Comparison):
        return formula
    conditions: list[Atom] = []

    def flatten(term: Term) -> Term:
        if not isinstance(term, Application):
            return term
        inner = tuple(map(flatten, term.terms))
        value = Variable(fresh_name(variable_like(term.function), taken))
        taken.add(value.name)
        conditions.append(graph_atom(declared, term, (*inner, value)))
        return value

    flat = map_terms(formula, flatten)
    if not conditions:
        return flat
    names = tuple(str(atom.terms[-1].name) for atom in conditions)  # type: ignore[union-attr]
    return Exists(names, And((*conditions, flat)), formula.span)


def compile_equation(declared: Declarations, formula: Comparison) -> Formula | None:
    """f(x) = t as the atom f(x,t)."""
    left, right = formula.left, formula.right
    if not isinstance(left, Application):
        left, right = right, left
    if not isinstance(left, Application):
        return None
    atom = graph_atom(declared, left, (*left.terms, right))
    return atom if formula.operator == "=" else Not(atom, formula.span)


def graph_atom(declared: Declarations, term: Application, terms: tuple[Term, ...]) -> Atom:
    predicate = declared.predicates.get(term.function)
    if predicate is None or not predicate.function:
        known = [p.name for p in declared.predicates.values() if p.function]
        declared.fail(
            f"unknown function {term.function!r}",
            "unknown-function",
            term.span,
            hint=suggestion(term.function, known, "declare it, as in person MotherOf(person)"),
        )
    return Atom(term.function, terms, False, term.span)
