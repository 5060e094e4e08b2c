"""One spelling for each ground atom and ground formula, so that answers can be looked up by name.

In facts, queries and lookups a name is a constant, quoted or not: `Smokes(anna)`,
`Smokes( "anna" )` and `Smokes("anna")` are the same atom.
"""

from __future__ import annotations

from lapis.language.names import format_atom
from lapis.language.parser import parse_formula
from lapis.language.printer import print_formula
from lapis.language.resolution.instances import moved_by_offset, substitute
from lapis.language.syntax import (
    Application,
    Atom,
    Comparison,
    Constant,
    Formula,
    free_variables,
    subformulas,
)


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
