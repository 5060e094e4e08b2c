"""WFOMC weights of a predicate's atoms, as rules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from lapis.language.model import Predicate, Rule
from lapis.language.printer import print_formula
from lapis.language.syntax import Atom, Formula, Not, Variable


def factor_rules(predicates: Iterable[Predicate]) -> list[Rule]:
    """WFOMC weights of a predicate's atoms as two fixed unit rules: log t on P, log f on ¬P."""
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
    """Positive factors have become rules; others have no Markov logic meaning and stay."""
    if predicate.factors is None or min(predicate.factors) <= 0:
        return predicate
    return replace(predicate, factors=None)
