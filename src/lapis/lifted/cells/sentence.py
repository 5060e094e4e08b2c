"""A sentence about elements and pairs of elements, in Scott normal form (see scott.py).

Which rules of a model make a predicate a linear order, and others its neighbours.

The axioms are recognised as they are written in `language/sugar.py`, up to the names of
variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.language.formulas import rename_variable
from lapis.language.model import Model
from lapis.language.sugar import circular_predecessor, linear_order, predecessor
from lapis.language.syntax import (
    CountExists,
    Formula,
    Quantifier,
    atoms,
    free_variables,
    map_children,
    subformulas,
)

HARD = -1


class ElementGroup(NamedTuple):
    """Elements that nothing known tells apart."""

    type: str
    size: int
    known: Mapping[str, bool]  # by unary predicate
    constant: str | None = None  # of a group of one that formulas or known pairs name


class CellFormula(NamedTuple):
    """A formula without quantifiers; each grounding multiplies by a parameter where it is true."""

    formula: Formula
    variables: tuple[str, ...]  # at most two
    parameter: int  # HARD: the grounding must be true
    times: int = 1  # groundings of variables that the formula does not depend on


class CountedDefinition(NamedTuple):
    """predicate(of) ⇔ the number of `counted` with `body` is (operator) bound."""

    body: Formula
    of: str | None
    counted: str
    operator: str
    bound: int
    predicate: str | None  # None: it must be


class Total(NamedTuple):
    """Σ coefficient · number of true atoms, (operator) bound."""

    parts: tuple[tuple[int, str], ...]
    operator: str
    bound: int


class WeightParameter(NamedTuple):
    """A factor of the weight of a world: exp(weight) of a rule, or one of a predicate."""

    rule: int  # -1: of a predicate
    weight: float
    value: Fraction | None  # exp(weight), where it is a rational number


@dataclass(frozen=True)
class Sentence:
    groups: tuple[ElementGroup, ...]
    reach: Mapping[str, frozenset[int]]  # the groups that a variable ranges over
    places: Mapping[str, tuple[frozenset[int], ...]]  # and each argument of a predicate
    factors: tuple[CellFormula, ...]
    counted: tuple[CountedDefinition, ...]
    totals: tuple[Total, ...]
    parameters: tuple[WeightParameter, ...]
    literal_parameters: Mapping[str, tuple[int, int]]  # of a true and a false atom
    known_propositions: Mapping[str, bool]
    known_pairs: Mapping[tuple[str, str, str], bool]
    unknown_pairs: frozenset[tuple[str, ...]]  # exceptions of closed predicates
    closed: frozenset[str]  # binary predicates false wherever no pair is known
    order: LinearOrder | None

    def num_elements(self, groups: frozenset[int]) -> int:
        return sum(self.groups[g].size for g in groups)


class LinearOrder(NamedTuple):
    """x ≤ y of one type, and which predicates hold of elements so many places apart."""

    predicate: str
    type: str
    distance: Mapping[str, int]
    circular: frozenset[str]
    path: frozenset[str] = frozenset()  # neighbours in another order, and that order

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.predicate, *self.distance}) | self.circular | self.path


def find_order(model: Model) -> tuple[LinearOrder | None, set[int]]:
    """The model's linear order, and the numbers of the rules that define it."""
    hard = {
        canonicalize_formula(rule.formula): i for i, rule in enumerate(model.rules) if rule.hard
    }
    orders: list[LinearOrder] = []
    used: set[int] = set()
    for name, predicate in model.predicates.items():
        axioms = [hard.get(canonicalize_formula(axiom)) for axiom in linear_order(name)]
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
            form = canonicalize_formula(rule.formula)
            if bound and form == canonicalize_formula(predecessor(head, name, bound)):
                distance[head] = bound
            elif form == canonicalize_formula(circular_predecessor(head, name)):
                circular.add(head)
            else:
                continue
            used.add(number)
        orders.append(LinearOrder(name, predicate.types[0], distance, frozenset(circular)))
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


def canonicalize_formula(formula: Formula) -> Formula:
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
