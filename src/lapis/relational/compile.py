"""From conjunctions to plans: signed terms over sparse factors, in a good order.

What must be false is either a filter on rows or expanded by inclusion–exclusion (`conjunction`).
A filter needs its variables side by side in one factor; an expansion keeps the elimination narrow
but doubles the terms. Which is cheaper depends on the data: both are priced for each negative, by
the estimates of `elimination`, descending from "all filters" and from "all expanded" one negative
at a time and taking the better end. What a true atom covers is a filter without asking, and so is
everything where there are few groundings. Expansions that would double hundreds of terms are not
looked at (MOST_TERMS).

A variable that only filters mention is bound to its whole domain. A kept variable that another
one stands for comes back as a factor of equal pairs.

With `apart` the parts of a term that share no summed variable are not multiplied out: over the
kept variables that product may be the very cross product that is to be avoided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Condition, SimpleTerm, TypedVariable
from lapis.relational.algebra import Expression, Filter, Matches, Restrict, Test, Tuples, Universe
from lapis.relational.conjunction import (
    Conjunction,
    Negative,
    RelationAtom,
    Scope,
    expand_negatives,
    falsify_clause,
    substitute_terms,
    unify,
)
from lapis.relational.elimination import Contraction, plan_contraction
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import FactorSize, QueryPlan, Term

FEW = 10_000  # groundings up to which choosing costs more than any choice can save
MOST_TERMS = 256  # of one conjunction, and sixteen times that of all conjunctions of a plan


class PlanOutput(NamedTuple):
    """What a plan is for."""

    keep: tuple[str, ...] = ()  # counts are wanted for each assignment of these
    listed: tuple[str, ...] = ()  # those of them that rows must name even if nothing restricts them
    apart: bool = False
    determined: Mapping[str, str] = MappingProxyType({})  # variables that never multiply a count


def plan_violations(
    clause: Clause,
    variables: tuple[TypedVariable, ...],
    world: Interpretation,
    keep: tuple[str, ...] = (),
) -> QueryPlan:
    """Count the groundings in which the clause is false: all its literals and conditions are."""
    return compile_plan([falsify_clause(clause)], variables, world, PlanOutput(keep))


def compile_plan(
    conjunctions: Iterable[Conjunction],
    variables: tuple[TypedVariable, ...],
    world: Interpretation,
    wanted: PlanOutput,
) -> QueryPlan:
    """Σ over the variables not kept of the signed conjunctions."""
    conjunctions = list(conjunctions)
    compiler = PlanCompiler(variables, world, wanted, len(conjunctions))
    found: Iterator[Term] = iter(())
    if compiler.groundings:
        found = (term for each in conjunctions for term in compiler.choose_terms(each))
    terms = tuple(found)
    if len(terms) > 1:
        merged: dict[object, Term] = {}
        for term in terms:
            key = term.parts, frozenset(term.free)
            before = merged[key].coefficient if key in merged else 0
            merged[key] = replace(term, coefficient=term.coefficient + before)
        terms = tuple(term for term in merged.values() if term.coefficient)
    types = compiler.scope.types
    shape = tuple(world.size(types[name]) for name in wanted.keep)
    every = (*variables, *wanted.determined.items())
    return QueryPlan(every, wanted.keep, shape, compiler.groundings, terms)


def match_atom(atom: RelationAtom, world: Interpretation) -> Tuples:
    """The listed tuples that an atom is about; a constant of another type matches none."""
    terms = (
        term.name
        if isinstance(term, Variable)
        else world.domains[type_name].index.get(term.name, -1)
        for term, type_name in zip(atom.terms, world.relations[atom.relation].types, strict=True)
    )
    return Tuples(atom.relation, tuple(terms))


def swap_complemented(conjunction: Conjunction, world: Interpretation) -> Conjunction:
    """`true` and `false` as what must and must not match: complemented relations swap sides."""

    def listed(atoms: tuple[RelationAtom, ...], wanted: bool) -> tuple[RelationAtom, ...]:
        return tuple(a for a in atoms if world.relations[a.relation].complemented != wanted)

    true, false = conjunction.true, conjunction.false
    if not any(world.relations[atom.relation].complemented for atom in (*true, *false)):
        return conjunction
    return conjunction._replace(
        true=listed(true, True) + listed(false, False),
        false=listed(false, True) + listed(true, False),
    )


@dataclass(frozen=True)
class _Piece:
    """A conjunction without anything left to expand: leaves to join and filters on them."""

    leaves: tuple[Contraction, ...]
    filters: tuple[Filter, ...]
    free: tuple[TypedVariable, ...]


class PlanCompiler:
    """Plans terms over the same variables, remembering contractions: choices share most."""

    def __init__(
        self,
        variables: tuple[TypedVariable, ...],
        world: Interpretation,
        wanted: PlanOutput,
        num_conjunctions: int = 1,
    ) -> None:
        self.world = world
        self.wanted = wanted
        self.variables = variables
        self.scope = Scope(
            {**dict(variables), **wanted.determined},
            wanted.keep,
            world.domains,
            frozenset(wanted.determined),
        )
        self.groundings = math.prod(world.size(type_name) for _, type_name in variables)
        most_terms = min(MOST_TERMS, 16 * MOST_TERMS // max(num_conjunctions, 1))
        self.most_expanded = max(most_terms.bit_length() - 1, 0)
        self.known: dict[object, tuple[Contraction, ...]] = {}

    def choose_terms(self, conjunction: Conjunction) -> list[Term]:
        """The cheapest terms found for one conjunction."""
        unified = unify(swap_complemented(conjunction, self.world), self.scope)
        if unified is None:
            return []
        choosable = [each for each in unified.negatives if not self._is_filter(unified, each)]
        if not choosable or self.groundings <= FEW:
            return self.expand_terms(unified, ())
        ends = [self._descend(unified, choosable, ())]
        if 1 < len(choosable) <= self.most_expanded:  # a single one has been tried both ways
            ends.append(self._descend(unified, choosable, tuple(choosable)))
        return self.expand_terms(unified, min(ends, key=lambda end: end[0])[1])

    def expand_terms(self, unified: Conjunction, chosen: Sequence[Negative]) -> list[Term]:
        """The terms when exactly these negatives are expanded."""
        return [
            self._term(coefficient, piece) for coefficient, piece in self._pieces(unified, chosen)
        ]

    def _is_filter(self, conjunction: Conjunction, negative: Negative) -> bool:
        """Whether filtering costs next to nothing: one true atom, or one domain, covers it."""
        names = frozenset(negative.variables)
        if self.wanted.apart and len(names) <= 1:
            return True
        if self.wanted.listed and not self.wanted.apart:  # these rows are listed in any case
            names -= set(self.wanted.listed)
            return names <= frozenset[str]().union(*(atom.variables for atom in conjunction.true))
        return any(names <= atom.variables for atom in conjunction.true)

    def _descend(
        self, conjunction: Conjunction, choosable: Sequence[Negative], start: tuple[Negative, ...]
    ) -> tuple[float, tuple[Negative, ...]]:
        """Switch one negative at a time between filter and expansion while that is cheaper."""
        chosen, cost = start, self._cost(conjunction, start, math.inf)
        for negative in choosable:
            others = tuple(each for each in chosen if each != negative)
            other = others if negative in chosen else (*chosen, negative)
            price = math.inf
            if len(other) <= self.most_expanded:
                price = self._cost(conjunction, other, cost)
            if price < cost:
                chosen, cost = other, price
        return cost, chosen

    def _cost(self, conjunction: Conjunction, chosen: Sequence[Negative], limit: float) -> float:
        """The estimated price of all terms; stops counting beyond the limit."""
        total = 0.0
        for _, piece in self._pieces(conjunction, chosen):
            total += sum(planned.cost for planned in self._contract(piece))
            if total > limit:
                return math.inf
        return total

    def _pieces(
        self, conjunction: Conjunction, chosen: Sequence[Negative]
    ) -> Iterator[tuple[int, _Piece]]:
        def is_chosen(current: Conjunction, negative: Negative) -> bool:
            swap = dict(current.bindings)
            return any(negative == substitute_terms(each, swap) for each in chosen)

        found = expand_negatives([conjunction], self.scope, is_chosen) if chosen else [conjunction]
        for each in found:
            piece = self._piece(each)
            if piece is not None:
                yield each.coefficient, piece

    def _piece(self, conjunction: Conjunction) -> _Piece | None:
        """None where an atom without variables decides that the conjunction is false."""
        leaves: dict[Expression, Contraction] = {}

        def add(leaf: Contraction) -> None:
            leaves[leaf.expression] = leaf

        filters: list[Filter] = []
        for atoms, wanted in ((conjunction.true, True), (conjunction.false, False)):
            for atom in atoms:
                tuples = match_atom(atom, self.world)
                extension = self.world.relations[atom.relation]
                if not tuples.variables:
                    if extension.holds(tuples.terms) != wanted:
                        return None
                elif wanted:
                    add(Contraction(tuples, extension.shape(tuples.terms), 0.0))
                else:
                    filters.append(tuples)
        bound = dict(conjunction.bindings)
        mentioned = {name for each in conjunction.false for name in each.variables}
        for test in conjunction.tests:
            mentioned.update(test.variables)
            if test.expected and test.condition.operator == "=" and len(test.variables) == 2:
                add(self._matches(test))
            else:
                filters.append(test)
        for name in self.wanted.keep:
            if name in bound:
                add(self._binding(name, bound[name]))
        held = {name for leaf in leaves for name in leaf.variables}
        mentioned.update(name for name in self.wanted.listed if name not in bound)
        for name in (name for name in self.scope.types if name in mentioned and name not in held):
            add(self._universe(name))
        held |= mentioned
        free = tuple(
            pair
            for pair in self.variables
            if pair[0] not in held and pair[0] not in bound and pair[0] not in self.wanted.keep
        )
        return _Piece(tuple(leaves.values()), tuple(dict.fromkeys(filters)), free)

    def _matches(self, test: Test) -> Contraction:
        size = float(min(self._size(name) for name in test.variables))
        shape = FactorSize(size, dict.fromkeys(test.variables, size))
        return Contraction(Matches(test), shape, 0.0)

    def _binding(self, name: str, term: SimpleTerm) -> Contraction:
        """1[name = term]."""
        test = Test(Condition("=", term, Variable(name)))
        if isinstance(term, Constant):
            universe = Universe(name, self.scope.types[name])
            return Contraction(Restrict(universe, test), FactorSize(1.0, {name: 1.0}), 0.0)
        return self._matches(test)

    def _universe(self, name: str) -> Contraction:
        size = float(self._size(name))
        return Contraction(
            Universe(name, self.scope.types[name]), FactorSize(size, {name: size}), size
        )

    def _size(self, name: str) -> int:
        return self.world.size(self.scope.types[name])

    def _contract(self, piece: _Piece) -> tuple[Contraction, ...]:
        """The cheapest orders found for the parts of one term."""
        key = frozenset(leaf.expression for leaf in piece.leaves), frozenset(piece.filters)
        if key not in self.known:
            groups = [(piece.leaves, piece.filters)] if piece.leaves else []
            if self.wanted.apart:
                groups = split_groups(piece.leaves, piece.filters, self.wanted.keep)
            self.known[key] = tuple(
                plan_contraction(leaves, filters, _kept_variables(self.wanted.keep, leaves))
                for leaves, filters in groups
            )
        return self.known[key]

    def _term(self, coefficient: int, piece: _Piece) -> Term:
        planned = self._contract(piece)
        multiplier = math.prod(self.world.size(type_name) for _, type_name in piece.free)
        return Term(
            coefficient,
            tuple(part.expression for part in planned),
            piece.free,
            multiplier,
            math.prod(part.shape.rows for part in planned),
            sum(part.cost for part in planned),
        )


def _kept_variables(keep: tuple[str, ...], leaves: Sequence[Contraction]) -> tuple[str, ...]:
    return tuple(name for name in keep if any(name in leaf.variables for leaf in leaves))


Group = tuple[tuple[Contraction, ...], tuple[Filter, ...]]


def split_groups(
    leaves: Sequence[Contraction], filters: Sequence[Filter], keep: tuple[str, ...]
) -> list[Group]:
    """Leaves in groups that share a summed variable, or a filter that no single leaf covers."""
    holders: dict[str, list[int]] = {}
    for number, leaf in enumerate(leaves):
        for name in leaf.variables:
            holders.setdefault(name, []).append(number)
    group = list(range(len(leaves)))

    def link(members: Sequence[int]) -> None:
        joined = {group[number] for number in members}
        group[:] = [min(joined) if each in joined else each for each in group]

    for name, members in holders.items():
        if name not in keep:
            link(members)
    homes: list[int] = []
    for found in filters:
        sets = [holders[name] for name in found.variables]
        covers = set(sets[0]).intersection(*sets[1:])
        if covers:
            homes.append(min(covers, key=lambda number: leaves[number].shape.rows))
        else:
            link([members[0] for members in sets])
            homes.append(sets[0][0])
    return [
        (
            tuple(leaf for leaf, label in zip(leaves, group, strict=True) if label == number),
            tuple(f for f, home in zip(filters, homes, strict=True) if group[home] == number),
        )
        for number in dict.fromkeys(group)
    ]
