"""Functions and predicates that other systems have built in, written in our notation.

    succ(t), prec(t), plus(t, 2), minus(t, 2)                   t+1, t-1, t+2, t-2
    equals(x, y), lessThan(i, j), lessThanEq, greaterThan, …    x = y, i < j, …
    true, True, TRUE, false, False, FALSE                       truth values

A model that declares one of these names has its own meaning for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lapis.language.names import INTEGER
from lapis.language.syntax import (
    Application,
    Atom,
    Comparison,
    ComparisonOperator,
    Constant,
    Formula,
    Offset,
    Term,
    Truth,
    Variable,
    map_children,
    map_terms,
    subformulas,
    terms_of,
)
from lapis.language.type_inference import Declarations

COMPARING: Mapping[str, ComparisonOperator] = {
    "equals": "=",
    "lessThan": "<",
    "lessThanEq": "<=",
    "greaterThan": ">",
    "greaterThanEq": ">=",
}
STEPS = {"succ": 1, "prec": -1, "plus": 1, "minus": -1}
TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
UNSUPPORTED = {
    "plus": 2, "minus": 2, "times": 2, "dividedBy": 2, "mod": 2, "concat": 2, "succ": 1, "prec": 1
}  # fmt: skip


def evaluate_builtins(formula: Formula, declared: Declarations) -> Formula:
    """Replace built-in functions and predicates that the model does not declare."""

    def visit(node: Formula) -> Formula:
        node = map_terms(map_children(node, visit), put_term)
        if not isinstance(node, Atom) or node.predicate in declared.predicates:
            return node
        if node.predicate == "substr" and len(node.terms) == 2:
            refuse_builtin(node, declared)
        return evaluate_atom(node)

    def put_term(term: Term) -> Term:
        if not isinstance(term, Application):
            return term
        term = replace(term, terms=tuple(map(put_term, term.terms)))
        if term.function in declared.predicates:
            return term
        moved = move(term)
        if moved is None and UNSUPPORTED.get(term.function) == len(term.terms):
            refuse_builtin(term, declared)
        return moved or term

    return visit(formula) if needs_evaluation(formula, declared) else formula


def needs_evaluation(formula: Formula, declared: Declarations) -> bool:
    """Return whether a formula has functions, or predicates that are not declared."""
    return any(
        (isinstance(node, Atom) and node.predicate not in declared.predicates)
        or any(isinstance(term, Application) for term in terms_of(node))
        for node in subformulas(formula)
    )


def evaluate_atom(atom: Atom) -> Formula:
    """Return `true` and equals(x, y) as a truth value and a comparison, other atoms as they are."""
    if not atom.terms and atom.predicate in TRUTH:
        return Truth(TRUTH[atom.predicate], span=atom.span)
    if atom.predicate in COMPARING and len(atom.terms) == 2:
        left, right = atom.terms
        return Comparison(COMPARING[atom.predicate], left, right, span=atom.span)
    return atom


def refuse_builtin(node: Application | Atom, declared: Declarations) -> None:
    """Report a built-in that is not supported."""
    name = node.function if isinstance(node, Application) else node.predicate
    arguments = "its arguments and its value" if isinstance(node, Application) else "its arguments"
    declared.fail(
        f"{name} is supported for a variable and a whole number only"
        if name in STEPS
        else f"the built-in {name} is not supported",
        "builtin",
        node.span,
        hint=f"declare *{name[0].upper()}{name[1:]} with {arguments}, "
        "and state its true tuples as facts in the data",
    )


def move(term: Application) -> Term | None:
    """Return t+1 for succ(t), t-2 for minus(t, 2), 4 for succ(3); None for other terms."""
    step = STEPS.get(term.function)
    given = term.terms
    if step is None or len(given) != (1 if term.function in ("succ", "prec") else 2):
        return None
    amount = given[1] if len(given) == 2 else Constant("1")
    if not isinstance(amount, Constant) or not INTEGER.fullmatch(amount.name):
        return None
    return add(given[0], step * int(amount.name), term)


def add(term: Term, amount: int, whole: Application) -> Term | None:
    match term:
        case Variable():
            return Offset(term, amount, span=whole.span)
        case Offset(variable, before):
            total = before + amount
            return Offset(variable, total, span=whole.span) if total else variable
        case Constant(name) if INTEGER.fullmatch(name):
            return Constant(str(int(name) + amount), span=whole.span)
    return None
