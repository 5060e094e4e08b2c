"""Compile conjunctions to plans: signed terms over sparse factors with a join order.

An atom that must be false (or x ≠ y) is either a filter on rows or expanded by
inclusion–exclusion (`conjunction`). A filter needs all its variables in one factor; an expansion
keeps factors small but doubles the number of terms. Which is cheaper depends on the data. The cost
of both is estimated (`elimination`) in two greedy searches that switch one negative at a time, one
from "all filters" and one from "all expanded"; the cheaper result is taken. A negative whose
variables one true atom contains is always a filter, and so is everything if there are few
groundings. At most MOST_TERMS terms are considered.

A variable that only filters mention is bound to its whole domain. A kept variable that was
replaced by an equal one is restored by a factor of equal pairs.

With `factored` output the factors of a term that share no summed variable are not multiplied: over
the kept variables the product may be a large cross product.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Condition, SimpleTerm, TypedVariable
from lapis.relational.algebra import Filter, Matches, Restrict, Test, Tuples, Universe
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
from lapis.relational.contraction import Contraction, plan_contraction
from lapis.relational.interpretation import Interpretation
from lapis.relational.query_plan import FactorSize, QueryPlan, Term

FEW = 10_000  # groundings up to which a search costs more than it can save
MOST_TERMS = 256  # of one conjunction, and sixteen times that of all conjunctions of a plan


class PlanOutput(NamedTuple):
    """The form in which a plan returns its counts."""

    keep: tuple[str, ...] = ()  # one count for each assignment of these variables
    listed: tuple[str, ...] = ()  # those of them that every row binds, even if unrestricted
    factored: bool = False  # terms are products of factors over some of the kept variables
    determined: Mapping[str, str] = MappingProxyType({})  # variables that never multiply a count


def plan_violations(
    clause: Clause,
    variables: tuple[TypedVariable, ...],
    world: Interpretation,
    keep: tuple[str, ...] = (),
) -> QueryPlan:
    """Plan the number of groundings in which the clause is false."""
    return compile_plan([falsify_clause(clause)], variables, world, PlanOutput(keep))


def compile_plan(
    conjunctions: Iterable[Conjunction],
    variables: tuple[TypedVariable, ...],
    world: Interpretation,
    output: PlanOutput,
) -> QueryPlan:
    """Plan Σ over the variables not kept of the signed conjunctions."""
    conjunctions = list(conjunctions)
    compiler = PlanCompiler(variables, world, output, len(conjunctions))
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
    shape = tuple(world.size(types[name]) for name in output.keep)
    every = (*variables, *output.determined.items())
    return QueryPlan(every, output.keep, shape, compiler.groundings, terms)


def match_atom(atom: RelationAtom, world: Interpretation) -> Tuples:
    """Return the expression of the tuples that match an atom; unknown constants match none."""
    terms = (
        term.name
        if isinstance(term, Variable)
        else world.domains[type_name].index.get(term.name, -1)
        for term, type_name in zip(atom.terms, world.relations[atom.relation].types, strict=True)
    )
    return Tuples(atom.relation, tuple(terms))


def swap_complemented(conjunction: Conjunction, world: Interpretation) -> Conjunction:
    """Move atoms of complemented relations to the other side.

    Afterwards `true` must match a listed tuple and `false` must match none.
    """

    def pick(atoms: tuple[RelationAtom, ...], complemented: bool) -> tuple[RelationAtom, ...]:
        return tuple(a for a in atoms if world.relations[a.relation].complemented == complemented)

    true, false = conjunction.true, conjunction.false
    return conjunction._replace(
        true=pick(true, False) + pick(false, True), false=pick(false, False) + pick(true, True)
    )


@dataclass(frozen=True)
class _Piece:
    """A conjunction with nothing left to expand: leaves to join and filters on them."""

    leaves: tuple[Contraction, ...]
    filters: tuple[Filter, ...]
    free: tuple[TypedVariable, ...]


class PlanCompiler:
    """Plans terms over the same variables and caches their contractions."""

    def __init__(
        self,
        variables: tuple[TypedVariable, ...],
        world: Interpretation,
        output: PlanOutput,
        num_conjunctions: int = 1,
    ) -> None:
        self.world = world
        self.output = output
        self.variables = variables
        self.scope = Scope(
            {**dict(variables), **output.determined},
            output.keep,
            world.domains,
            frozenset(output.determined),
        )
        self.groundings = math.prod(world.size(type_name) for _, type_name in variables)
        most_terms = min(MOST_TERMS, 16 * MOST_TERMS // max(num_conjunctions, 1))
        self.most_expanded = max(most_terms.bit_length() - 1, 0)
        self.known: dict[object, tuple[Contraction, ...]] = {}

    def choose_terms(self, conjunction: Conjunction) -> list[Term]:
        """Return the cheapest terms found for one conjunction."""
        unified = unify(swap_complemented(conjunction, self.world), self.scope)
        if unified is None:
            return []
        choosable = [each for each in unified.negatives if not self._is_filter(unified, each)]
        if not choosable or self.groundings <= FEW:
            return self.expand_terms(unified, ())
        found = [self._search_greedily(unified, choosable, ())]
        if (
            1 < len(choosable) <= self.most_expanded
        ):  # the first search tries a single one both ways
            found.append(self._search_greedily(unified, choosable, tuple(choosable)))
        return self.expand_terms(unified, min(found, key=lambda each: each[0])[1])

    def expand_terms(self, unified: Conjunction, chosen: Sequence[Negative]) -> list[Term]:
        """Return the terms if exactly these negatives are expanded."""
        return [
            self._term(coefficient, piece) for coefficient, piece in self._pieces(unified, chosen)
        ]

    def _is_filter(self, conjunction: Conjunction, negative: Negative) -> bool:
        """Return whether filtering is cheap: one true atom, or one domain, has its variables."""
        names = frozenset(negative.variables)
        if self.output.factored and len(names) <= 1:
            return True
        if self.output.listed and not self.output.factored:  # these rows are listed in any case
            names -= set(self.output.listed)
            return names <= frozenset[str]().union(*(atom.variables for atom in conjunction.true))
        return any(names <= atom.variables for atom in conjunction.true)

    def _search_greedily(
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
        """Estimate the cost of all terms; infinite beyond the limit."""
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
        """Collect leaves and filters; None if an atom without variables makes it false."""
        true = [match_atom(atom, self.world) for atom in conjunction.true]
        false = [match_atom(atom, self.world) for atom in conjunction.false]
        if not self._ground_atoms_agree(true, True) or not self._ground_atoms_agree(false, False):
            return None
        equalities = [
            test
            for test in conjunction.tests
            if test.expected and test.condition.operator == "=" and len(test.variables) == 2
        ]
        bound = dict(conjunction.bindings)
        leaves = [
            *(self._leaf(tuples) for tuples in true if tuples.variables),
            *(self._matches(test) for test in equalities),
            *(self._binding(name, bound[name]) for name in self.output.keep if name in bound),
        ]
        filters: list[Filter] = [tuples for tuples in false if tuples.variables]
        filters += [test for test in conjunction.tests if test not in equalities]
        held = {name for leaf in leaves for name in leaf.variables}
        loose = {name for each in filters for name in each.variables}
        loose.update(name for name in self.output.listed if name not in bound)
        loose -= held
        leaves += [self._universe(name) for name in self.scope.types if name in loose]
        used = held | loose | bound.keys() | set(self.output.keep)
        free = tuple(pair for pair in self.variables if pair[0] not in used)
        distinct = {leaf.expression: leaf for leaf in leaves}
        return _Piece(tuple(distinct.values()), tuple(dict.fromkeys(filters)), free)

    def _ground_atoms_agree(self, atoms: Sequence[Tuples], expected: bool) -> bool:
        """Return whether the atoms without variables match a listed tuple, or none, as expected."""
        return all(
            self.world.relations[tuples.relation].holds(tuples.terms) == expected
            for tuples in atoms
            if not tuples.variables
        )

    def _leaf(self, tuples: Tuples) -> Contraction:
        shape = self.world.relations[tuples.relation].shape(tuples.terms)
        return Contraction(tuples, shape, 0.0)

    def _matches(self, test: Test) -> Contraction:
        size = float(min(self._size(name) for name in test.variables))
        shape = FactorSize(size, dict.fromkeys(test.variables, size))
        return Contraction(Matches(test), shape, 0.0)

    def _binding(self, name: str, term: SimpleTerm) -> Contraction:
        """Return the factor 1[name = term]."""
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
        """Plan the contraction of each group of one term."""
        key = frozenset(leaf.expression for leaf in piece.leaves), frozenset(piece.filters)
        if key not in self.known:
            groups = [(piece.leaves, piece.filters)] if piece.leaves else []
            if self.output.factored:
                groups = split_groups(piece.leaves, piece.filters, self.output.keep)
            self.known[key] = tuple(
                plan_contraction(leaves, filters, _kept_variables(self.output.keep, leaves))
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
    """Group leaves that share a summed variable, or a filter that no single leaf covers."""
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
