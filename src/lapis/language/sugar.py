"""Remove syntactic sugar: starred atoms, clashing names, offsets, WFOMC weights, linear orders.

WFOMC weights of a predicate's atoms become two fixed unit rules. For the predicates LEQ, PRED and
SUC of WFOMC files, axioms of linear orders are added.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lapis.errors import LapisError
from lapis.language.formulas import rename_variable
from lapis.language.model import Predicate, Rule
from lapis.language.printer import print_formula
from lapis.language.syntax import (
    And,
    Application,
    Atom,
    Comparison,
    CountExists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Quantifier,
    Term,
    Variable,
    all_variables,
    atoms,
    free_variables,
    fresh_name,
    map_children,
    map_terms,
    subformulas,
    term_variables,
    terms_of,
)

MAX_STARS = 10


def has_sugar(formula: Formula) -> bool:
    """Return whether a formula has quantifiers, starred atoms, functions or offsets."""
    return any(
        isinstance(node, Quantifier)
        or (isinstance(node, Atom) and node.starred)
        or any(isinstance(term, Application | Offset) for term in terms_of(node))
        for node in subformulas(formula)
    )


def plus_variables(formula: Formula) -> list[Variable]:
    return [
        variable
        for node in subformulas(formula)
        for term in terms_of(node)
        for variable in term_variables(term)
        if variable.plus
    ]


def without_plus(formula: Formula) -> Formula:
    def plain(term: Term) -> Term:
        if isinstance(term, Variable) and term.plus:
            return replace(term, plus=False)
        if isinstance(term, Offset) and term.variable.plus:
            return replace(term, variable=replace(term.variable, plus=False))
        return term

    return map_terms(map_children(formula, without_plus), plain)


def expand_stars(formula: Formula, errors: list[LapisError]) -> list[Formula]:
    """Return a formula for each choice of signs of the starred atoms."""
    starred = list(dict.fromkeys(atom for atom in atoms(formula) if atom.starred))
    if len(starred) > MAX_STARS:
        errors.append(
            LapisError(
                f"more than {MAX_STARS} starred atoms in one formula",
                code="too-many-stars",
                span=starred[MAX_STARS].span,
            )
        )
        return []

    def signed(node: Formula, signs: dict[Atom, bool]) -> Formula:
        if isinstance(node, Atom) and node.starred:
            plain = replace(node, starred=False)
            return plain if signs[node] else Not(plain, span=node.span)
        return map_children(node, lambda child: signed(child, signs))

    choices = itertools.product((True, False), repeat=len(starred))
    return [signed(formula, dict(zip(starred, signs, strict=True))) for signs in choices]


def rename_apart(formula: Formula, outside: Iterable[str] = ()) -> Formula:
    """Give every quantified variable a unique name, also none of the names outside."""
    taken = {*free_variables(formula), *outside}

    def fresh(name: str) -> str:
        chosen = fresh_name(name, taken)
        taken.add(chosen)
        return chosen

    def visit(node: Formula) -> Formula:
        if isinstance(node, Quantifier):
            body = node.body
            names = list(dict.fromkeys(node.variables))
            new_names = [fresh(name) for name in names]
            # By way of names that no file can contain, so that swapped names do not collide.
            for i, old in enumerate(names):
                body = rename_variable(body, old, f"\0{i}")
            for i, new in enumerate(new_names):
                body = rename_variable(body, f"\0{i}", new)
            return replace(node, variables=tuple(new_names), body=visit(body))
        return map_children(node, visit)

    return visit(formula)


def compile_offsets(formula: Formula, outside: Iterable[str] = ()) -> Formula:
    """Replace offsets in atoms by variables quantified around the scope of their variable."""
    taken = {*all_variables(formula), *outside}

    def visit(node: Formula) -> Formula:
        inner = map_children(node, visit)
        if isinstance(inner, Quantifier):
            return replace(inner, body=quantify_offsets(inner.body, inner.variables, taken))
        return inner

    return quantify_offsets(visit(formula), free_variables(formula), taken)


def quantify_offsets(body: Formula, names: Sequence[str], taken: set[str]) -> Formula:
    """Return ∀j (j = i+1 ⇒ body with j for i+1), for the offsets of the given variables."""
    found: dict[tuple[str, float], str] = {}

    def replace_offset(term: Term) -> Term:
        if isinstance(term, Offset) and term.variable.name in names:
            key = (term.variable.name, term.amount)
            sign = "plus" if term.amount >= 0 else "minus"
            if key not in found:
                name = f"{term.variable.name}_{sign}_{abs(term.amount)}"
                found[key] = fresh_name(name, taken)
                taken.add(found[key])
            return Variable(found[key], span=term.span)
        return term

    def in_atoms(node: Formula) -> Formula:
        if isinstance(node, Atom):
            return map_terms(node, replace_offset)
        return map_children(node, in_atoms)

    body = in_atoms(body)
    if not found:
        return body
    conditions = tuple(
        Comparison("=", Variable(name), Offset(Variable(variable), amount))
        for (variable, amount), name in found.items()
    )
    premise = conditions[0] if len(conditions) == 1 else And(conditions)
    return ForAll(tuple(found.values()), Implies(premise, body))


def factor_rules(predicates: Iterable[Predicate]) -> list[Rule]:
    """Return WFOMC weights as fixed unit rules: log t on P, log f on ¬P."""
    rules: list[Rule] = []
    for predicate in predicates:
        if predicate.factors is None or min(predicate.factors) <= 0:
            continue
        names = tuple(f"x{i + 1}" for i in range(predicate.arity))
        atom = Atom(predicate.name, tuple(Variable(name) for name in names))
        signed: tuple[Formula, Formula] = (atom, Not(atom))
        for factor, formula in zip(predicate.factors, signed, strict=True):
            if factor != 1.0:
                variables = tuple(zip(names, predicate.types, strict=True))
                rules.append(
                    Rule(
                        formula, variables, (), math.log(factor), False, print_formula(formula),
                        fixed=True, span=predicate.span,
                    )
                )  # fmt: skip
    return rules


def without_factors(predicate: Predicate) -> Predicate:
    """Drop positive factors, which became rules; others have no Markov logic meaning and stay."""
    if predicate.factors is None or min(predicate.factors) <= 0:
        return predicate
    return replace(predicate, factors=None)


X, Y, Z, W = (Variable(name) for name in "xyzw")
DISTANCE = re.compile(r"PRED([0-9]{0,9})")


def linear_order(name: str) -> tuple[Formula, ...]:
    """Return axioms: total and reflexive, antisymmetric, transitive."""
    return (
        Or((Atom(name, (X, Y)), Atom(name, (Y, X)))),
        Implies(And((Atom(name, (X, Y)), Atom(name, (Y, X)))), Comparison("=", X, Y)),
        Implies(And((Atom(name, (X, Y)), Atom(name, (Y, Z)))), Atom(name, (X, Z))),
    )


def steps_apart(order: str, distance: int) -> Formula:
    """Return "y is `distance` places after x": `distance` constants z have x < z ≤ y."""
    between = Comparison("!=", Z, X), Atom(order, (X, Z)), Atom(order, (Z, Y))
    return CountExists(("z",), And(between), "=", distance)


def predecessor(name: str, order: str, distance: int = 1) -> Formula:
    return Iff(Atom(name, (X, Y)), steps_apart(order, distance))


def circular_predecessor(name: str, order: str) -> Formula:
    """Return the axiom of a predecessor relation in which the first follows the last."""
    last, first = ForAll(("z",), Atom(order, (Z, X))), ForAll(("w",), Atom(order, (Y, W)))
    return Iff(Atom(name, (X, Y)), Or((steps_apart(order, 1), And((last, first)))))


def order_axioms(names: Iterable[str]) -> list[Formula]:
    """Return the axioms of the order predicates among the given names.

    LEQ is a linear order. PRED and PRED1 relate neighbours in it, PREDk constants k places apart,
    CIRCULAR_PRED neighbours on a circle. SUC relates neighbours in a second order.
    """
    found: list[Formula] = []
    for name in sorted(set(names)):
        match = DISTANCE.fullmatch(name)
        if match and match[1] != "0":
            found.append(predecessor(name, "LEQ", int(match[1] or 1)))
        elif name == "CIRCULAR_PRED":
            found.append(circular_predecessor(name, "LEQ"))
        elif name == "SUC":
            found += [*linear_order("SUC_LEQ"), predecessor(name, "SUC_LEQ")]
    if found or "LEQ" in names:
        found += linear_order("LEQ")
    return found
