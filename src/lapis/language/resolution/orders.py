"""Linear orders in first-order logic: what the names LEQ, PRED and SUC of counting files mean."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    CountExists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Or,
    Variable,
)

X, Y, Z, W = (Variable(name) for name in "xyzw")
DISTANCE = re.compile(r"PRED(\d*)")


def linear_order(name: str) -> tuple[Formula, ...]:
    """Total and reflexive, antisymmetric, transitive."""
    return (
        Or((Atom(name, (X, Y)), Atom(name, (Y, X)))),
        Implies(And((Atom(name, (X, Y)), Atom(name, (Y, X)))), Comparison("=", X, Y)),
        Implies(And((Atom(name, (X, Y)), Atom(name, (Y, Z)))), Atom(name, (X, Z))),
    )


def steps_apart(order: str, distance: int) -> Formula:
    """y comes `distance` places after x: so many z have x < z ≤ y."""
    between = Comparison("!=", Z, X), Atom(order, (X, Z)), Atom(order, (Z, Y))
    return CountExists(("z",), And(between), "=", distance)


def predecessor(name: str, order: str, distance: int = 1) -> Formula:
    return Iff(Atom(name, (X, Y)), steps_apart(order, distance))


def circular_predecessor(name: str, order: str) -> Formula:
    """The next one, and the first after the last."""
    last, first = ForAll(("z",), Atom(order, (Z, X))), ForAll(("w",), Atom(order, (Y, W)))
    return Iff(Atom(name, (X, Y)), Or((steps_apart(order, 1), And((last, first)))))


def order_axioms(names: Iterable[str]) -> list[Formula]:
    """What must hold of the predicates named, as far as they speak of orders.

    LEQ is a linear order, PRED and PRED1 hold of neighbours in it, PREDk of those k places apart,
    CIRCULAR_PRED of neighbours in a circle. SUC holds of neighbours in another order.
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
