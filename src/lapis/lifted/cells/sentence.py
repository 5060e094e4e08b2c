"""`Sentence`: formulas about elements and pairs, in Scott normal form (see scott.py).

`find_order` recognises the axioms of linear orders and predecessors as `language/sugar.py` writes
them, up to the names of variables.
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
    """Interchangeable elements."""

    type: str
    size: int
    known: Mapping[str, bool]  # by unary predicate
    constant: str | None = None  # of a group of one that a formula or a known binary atom names


class CellFormula(NamedTuple):
    """A quantifier-free formula; each true grounding multiplies the weight by a parameter."""

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
    predicate: str | None  # None: the right-hand side must hold


class Total(NamedTuple):
    """Σ coefficient · number of true atoms, (operator) bound."""

    parts: tuple[tuple[int, str], ...]
    operator: str
    bound: int


class WeightParameter(NamedTuple):
    """A factor of the weight of a world: exp(weight) of a rule, or a literal weight."""

    rule: int  # -1 for a literal weight
    weight: float
    value: Fraction | None  # exp(weight), if it is rational


@dataclass(frozen=True)
class Sentence:
    groups: tuple[ElementGroup, ...]
    reach: Mapping[str, frozenset[int]]  # the groups that a variable ranges over
    places: Mapping[str, tuple[frozenset[int], ...]]  # the same for each argument of a predicate
    factors: tuple[CellFormula, ...]
    counted: tuple[CountedDefinition, ...]
    totals: tuple[Total, ...]
    parameters: tuple[WeightParameter, ...]
    literal_parameters: Mapping[str, tuple[int, int]]  # of a true and a false atom
    known_propositions: Mapping[str, bool]
    known_pairs: Mapping[tuple[str, str, str], bool]
    unknown_pairs: frozenset[tuple[str, ...]]  # of closed predicates
    closed: frozenset[str]  # binary predicates, false by default
    order: LinearOrder | None

    def num_elements(self, groups: frozenset[int]) -> int:
        return sum(self.groups[g].size for g in groups)


class LinearOrder(NamedTuple):
    """A linear order x ≤ y of one type, and its predecessor predicates."""

    predicate: str
    type: str
    distance: Mapping[str, int]  # of predecessor predicates
    circular: frozenset[str]  # predecessor predicates that also relate the last to the first
    path: frozenset[str] = frozenset()  # predecessors in a second order, and that order

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.predicate, *self.distance}) | self.circular | self.path


def find_order(model: Model) -> tuple[LinearOrder | None, set[int]]:
    """Return the model's linear order, and the numbers of the rules that define it."""
    numbers: dict[Formula, list[int]] = {}  # hard rules by canonical formula
    bounds: set[int] = set()
    for number, rule in enumerate(model.rules):
        if rule.hard:
            numbers.setdefault(canonicalize_formula(rule.formula), []).append(number)
            counts = (n for n in subformulas(rule.formula) if isinstance(n, CountExists))
            bounds |= {count.bound for count in counts if count.bound}
    orders: list[LinearOrder] = []
    used: set[int] = set()

    def find_rules(formula: Formula) -> list[int]:
        return numbers.get(canonicalize_formula(formula), [])

    for name, predicate in model.predicates.items():
        axioms = [find_rules(axiom) for axiom in linear_order(name)]
        if predicate.arity != 2 or len(set(predicate.types)) > 1 or [] in axioms:
            continue
        others = [head for head in model.predicates if head != name]
        distance = {
            (head, bound): find_rules(predecessor(head, name, bound))
            for head in others
            for bound in sorted(bounds)
        }
        circular = {head: find_rules(circular_predecessor(head, name)) for head in others}
        for found in (*axioms, *distance.values(), *circular.values()):
            used.update(found)
        orders.append(
            LinearOrder(
                name,
                predicate.types[0],
                {head: bound for (head, bound), found in distance.items() if found},
                frozenset(head for head, found in circular.items() if found),
            )
        )
    return choose_order(model, orders, used), used


def choose_order(model: Model, orders: list[LinearOrder], used: set[int]) -> LinearOrder | None:
    """Return the only order; of two, one of which only neighbours are mentioned is the path."""
    if len(orders) < 2:
        return orders[0] if orders else None
    mentioned = {
        atom.predicate
        for number, rule in enumerate(model.rules)
        if number not in used
        for atom in atoms(rule.formula)
    }
    mentioned |= {name for constraint in model.constraints for _, name in constraint.parts}
    for order, other in (orders, orders[::-1]) if len(orders) == 2 else ():
        only_neighbours = set(other.distance.values()) == {1} and not other.circular
        if only_neighbours and other.predicate not in mentioned and order.type == other.type:
            return order._replace(path=other.names)
    names = " and ".join(repr(order.predicate) for order in orders)
    raise LapisError(
        f"{names} are linear orders, and counting by cells supports one, and neighbours in a "
        "second",
        code="two-variables",
    )


def canonicalize_formula(formula: Formula) -> Formula:
    """Rename variables in the order of their occurrence, outermost quantifiers first."""
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
