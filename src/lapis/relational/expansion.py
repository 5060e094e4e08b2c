"""From a conjunction to signed terms over sparse factors.

What must be false is either a filter on rows or expanded by inclusion–exclusion (DESIGN section
3): 1[¬A] = 1 − 1[A] for an atom or a numeric comparison, 1[x ≠ y] = 1 − 1[x = y] for an
inequality, where the second part just writes x for y. A filter needs its variables side by side
in one factor; an expansion keeps the elimination narrow but doubles the terms. Which is cheaper
depends on the data: `choose_terms` prices both for each negative, by the estimates of
`elimination`, descending from "all filters" and from "all expanded" one negative at a time and
taking the better end. What a present atom covers is a filter without asking.

A variable that only filters mention is bound to its whole domain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from lapis.logic.clauses import Literal, TypedVariable
from lapis.relational.algebra import Expression, Filter, Test, Tuples, Universe
from lapis.relational.cost import Shape
from lapis.relational.elimination import Contraction, contract
from lapis.relational.interpretation import Interpretation
from lapis.relational.settled_conjunction import Conjunction, conjoin, settle


@dataclass(frozen=True)
class Term:
    """coefficient · Π|domain of free variables| · the factor that the expression denotes."""

    coefficient: int
    expression: Expression | None  # None stands for 1
    free: tuple[TypedVariable, ...]  # summed out, in no factor
    multiplier: int  # Π of the free variables' domain sizes
    rows: float  # estimated, of the result
    cost: float  # estimated, rows touched


def choose_terms(
    literals: Sequence[Literal],
    tests: Sequence[Test],
    variables: tuple[TypedVariable, ...],
    keep: tuple[str, ...],
    extensions: Interpretation,
) -> tuple[Term, ...]:
    """Σ over the variables not in `keep` of 1[all literals true, all tests passed], as terms."""
    conjunction = settle(conjoin(literals, tests, variables, keep, extensions), extensions)
    if conjunction is None:
        return ()
    pricing = _Pricing(extensions)
    expandable = [at for at in find_expandable(conjunction) if not _is_covered(conjunction, at)]
    if not expandable:
        return pricing.terms(conjunction)
    ends = [_descend(conjunction, expandable, start, pricing) for start in (False, True)]
    return pricing.terms(min(ends, key=lambda end: end[0])[1])


def find_expandable(conjunction: Conjunction) -> list[int]:
    """Positions of the negatives that may be expanded.

    Any may, but for an inequality between kept variables, which cannot stand for each other.
    """
    kept = set(conjunction.keep)
    return [
        at
        for at, (item, _) in enumerate(conjunction.negatives)
        if isinstance(item, Tuples) or item.numeric or not kept.issuperset(item.variables)
    ]


def expand_terms(
    conjunction: Conjunction, expanded: Collection[int], extensions: Interpretation
) -> tuple[Term, ...]:
    """The terms of a settled conjunction when exactly these of its negatives are expanded."""
    for at in range(len(conjunction.negatives)):
        conjunction = _switch(conjunction, at, at in expanded)
    return _Pricing(extensions).terms(conjunction)


def _is_covered(conjunction: Conjunction, at: int) -> bool:
    """Whether one present atom binds all variables: then a filter costs next to nothing."""
    names = conjunction.negatives[at].item.variables
    return any(set(tuples.variables).issuperset(names) for tuples in conjunction.present)


def _descend(
    conjunction: Conjunction, expandable: list[int], start: bool, pricing: _Pricing
) -> tuple[float, Conjunction]:
    """Switch one negative at a time between filter and expansion while that is cheaper."""
    for at in expandable:
        conjunction = _switch(conjunction, at, start)
    cost = pricing.cost(conjunction, float("inf"))
    for at in expandable:
        other = _switch(conjunction, at, not start)
        price = pricing.cost(other, cost)
        if price < cost:
            conjunction, cost = other, price
    return cost, conjunction


def _switch(conjunction: Conjunction, at: int, expand: bool) -> Conjunction:
    negatives = list(conjunction.negatives)
    negatives[at] = negatives[at]._replace(expand=expand)
    return replace(conjunction, negatives=tuple(negatives))


class _Pricing:
    """Plans terms, remembering contractions: choices share most of them."""

    def __init__(self, extensions: Interpretation) -> None:
        self.extensions = extensions
        self.known: dict[object, Contraction | None] = {}

    def cost(self, conjunction: Conjunction, limit: float) -> float:
        """The estimated price of all terms; stops counting beyond the limit."""
        total = 0.0
        for _, leaf in self._expanded(conjunction, 1):
            planned = self._contract(leaf)
            total += planned.cost if planned else 0.0
            if total > limit:
                return float("inf")
        return total

    def terms(self, conjunction: Conjunction) -> tuple[Term, ...]:
        merged: dict[object, Term] = {}
        for coefficient, leaf in self._expanded(conjunction, 1):
            term = self._term(coefficient, leaf)
            key = term.expression, frozenset(term.free)
            if key in merged:
                coefficient += merged[key].coefficient
            merged[key] = replace(term, coefficient=coefficient)
        return tuple(term for term in merged.values() if term.coefficient)

    def _expanded(self, conjunction: Conjunction, sign: int) -> Iterator[tuple[int, Conjunction]]:
        """Inclusion–exclusion over the negatives marked to be expanded."""
        at = next((i for i, found in enumerate(conjunction.negatives) if found.expand), None)
        if at is None:
            yield sign, conjunction
            return
        item = conjunction.negatives[at].item
        others = conjunction.negatives[:at] + conjunction.negatives[at + 1 :]
        without = replace(conjunction, negatives=others)
        yield from self._expanded(without, sign)
        if isinstance(item, Tuples):
            affirmed = replace(without, present=(*without.present, item))
        else:
            equality = Test(item.condition, item.types, not item.expected)
            affirmed = replace(without, tests=(*without.tests, equality))
        settled = settle(affirmed, self.extensions)
        if settled is not None:
            yield from self._expanded(settled, -sign)

    def _contract(self, conjunction: Conjunction) -> Contraction | None:
        """The cheapest order found for one term; None for the empty product."""
        filters = [*(found.item for found in conjunction.negatives), *conjunction.tests]
        key = (
            frozenset(conjunction.present),
            frozenset(conjunction.matches),
            frozenset(filters),
            frozenset(conjunction.variables),
        )
        if key not in self.known:
            self.known[key] = self._order(conjunction, filters)
        return self.known[key]

    def _order(self, conjunction: Conjunction, filters: list[Filter]) -> Contraction | None:
        leaves: list[Contraction] = []
        for tuples in conjunction.present:
            extension = self.extensions.relations[tuples.predicate]
            leaves.append(Contraction(tuples, extension.shape(tuples.terms), 0.0))
        types = dict(conjunction.variables)
        for matches in conjunction.matches:
            sizes = [self.extensions.size(types[name]) for name in matches.variables]
            distinct = {name: float(min(sizes)) for name in matches.variables}
            leaves.append(Contraction(matches, Shape(float(min(sizes)), distinct), 0.0))
        bound = {name for leaf in leaves for name in leaf.variables}
        for name in dict.fromkeys(name for found in filters for name in found.variables):
            if name not in bound:
                size = float(self.extensions.size(types[name]))
                shape = Shape(size, {name: size})
                leaves.append(Contraction(Universe(name, types[name]), shape, size))
                bound.add(name)
        if not leaves:
            return None
        return contract(leaves, filters, tuple(name for name in conjunction.keep if name in bound))

    def _term(self, coefficient: int, conjunction: Conjunction) -> Term:
        planned = self._contract(conjunction)
        used = conjunction.mentioned.union(conjunction.keep)
        free = tuple(pair for pair in conjunction.variables if pair[0] not in used)
        multiplier = 1
        for _, type_name in free:
            multiplier *= self.extensions.size(type_name)
        if planned is None:
            return Term(coefficient, None, free, multiplier, 1.0, 0.0)
        rows, cost = planned.shape.rows, planned.cost
        return Term(coefficient, planned.expression, free, multiplier, rows, cost)
