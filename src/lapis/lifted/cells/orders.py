"""Which rules of a model make a predicate a linear order, and others its neighbours.

The axioms are recognised as they are written in `language/resolution/sugar.py`, up to the names of
variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.language.formulas import rename_variable
from lapis.language.model import Model
from lapis.language.resolution.sugar import circular_predecessor, linear_order, predecessor
from lapis.language.syntax import (
    CountExists,
    Formula,
    Quantifier,
    atoms,
    free_variables,
    map_children,
    subformulas,
)


class Order(NamedTuple):
    """x ≤ y of one type, and which predicates hold of elements so many places apart."""

    predicate: str
    type: str
    distance: Mapping[str, int]
    circular: frozenset[str]
    path: frozenset[str] = frozenset()  # neighbours in another order, and that order

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.predicate, *self.distance}) | self.circular | self.path


def find_order(model: Model) -> tuple[Order | None, set[int]]:
    """The model's linear order, and the numbers of the rules that define it."""
    hard = {canonical(rule.formula): i for i, rule in enumerate(model.rules) if rule.hard}
    orders: list[Order] = []
    used: set[int] = set()
    for name, predicate in model.predicates.items():
        axioms = [hard.get(canonical(axiom)) for axiom in linear_order(name)]
        if predicate.arity != 2 or len(set(predicate.types)) > 1 or None in axioms:
            continue
        used |= {i for i in axioms if i is not None}
        distance: dict[str, int] = {}
        circular: set[str] = set()
        for number, rule in enumerate(model.rules):
            if not rule.hard or name not in {atom.predicate for atom in atoms(rule.formula)}:
                continue
            heads = {a.predicate for a in atoms(rule.formula)} - {name}
            bounds = [n.bound for n in subformulas(rule.formula) if isinstance(n, CountExists)]
            if len(heads) != 1 or len(bounds) != 1:
                continue
            [head], [bound] = heads, bounds
            form = canonical(rule.formula)
            if bound and form == canonical(predecessor(head, name, bound)):
                distance[head] = bound
            elif form == canonical(circular_predecessor(head, name)):
                circular.add(head)
            else:
                continue
            used.add(number)
        orders.append(Order(name, predicate.types[0], distance, frozenset(circular)))
    if len(orders) == 2:
        spoken_of = {
            atom.predicate
            for number, rule in enumerate(model.rules)
            if number not in used
            for atom in atoms(rule.formula)
        }
        spoken_of |= {name for constraint in model.constraints for _, name in constraint.parts}
        for order, other in (orders, orders[::-1]):
            only_neighbours = set(other.distance.values()) == {1} and not other.circular
            hidden = other.predicate not in spoken_of
            if only_neighbours and hidden and order.type == other.type:
                return order._replace(path=other.names), used
    if len(orders) > 1:
        names = " and ".join(repr(order.predicate) for order in orders)
        raise LapisError(
            f"{names} are linear orders of their own, and counting by cells takes one, and "
            "neighbours in a second",
            code="two-variables",
        )
    return (orders[0] if orders else None), used


def canonical(formula: Formula) -> Formula:
    """Variables renamed in the order in which they are met, outermost quantifiers first."""
    for number, name in enumerate(free_variables(formula)):
        formula = rename_variable(formula, name, f"free{number}")
    numbers = iter(range(len(list(subformulas(formula))) * 2))

    def visit(node: Formula) -> Formula:
        if not isinstance(node, Quantifier):
            return map_children(node, visit)
        body, names = node.body, []
        for name in node.variables:
            names.append(f"bound{next(numbers)}")
            body = rename_variable(body, name, names[-1])
        return replace(node, variables=tuple(names), body=visit(body))

    return visit(formula)
