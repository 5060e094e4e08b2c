"""Differences d(g) = n(g = 1) − n(g = 0) as signed conjunctions, for all atoms g of a predicate.

A clause is false if all its literals are. Write L_i for 1[literal i is false] in the current world,
in which g has the truth value p, and δ_i for L_i(g = 1) − L_i(g = 0). Flipping g turns L_i into
L_i + (1 − 2p) δ_i, so the number of true groundings differs by

    d(g) = − Σ_{∅ ≠ U} (1 − 2p)^{|U|+1} Σ_θ Π_{i∈U} δ_i · Π_{i∉U} L_i

over the sets U of literals that g may change. For a literal of g's own predicate
δ_i = ∓1[its atom is g], so U is the set of literals that unify with g: this is shattering into the
cases "x = y" and "x ≠ y" with the inequalities expanded, and it is exact for literals of equal and
of opposite sign. Only the current world occurs, and p only in signs; terms with |U| = 1 do not
depend on p, so most clauses need one sum for both values.

A literal of a derived predicate D changes if the first witness of D(x) appears or the last one
disappears (`complete_world`). Flipping g changes the witness count W(x) by e = Σ_U ± z_U, where z_U
is the indicator that the cube's literals U are g and the others hold. Since W + e ≥ 0 always,

    D(g = 1) − D(g = 0) = (1 − 2p) · (1[W = 0] 1[e ≥ 1] − Σ_{m ≥ 1} 1[W = m] 1[e = −m]),

and 1[e ≥ 1], 1[e = −m] are polynomials in the z_U (Möbius inversion over their 2^k values). So
everything stays a signed sum of conjunctions, over the relations {x : W(x) = m}.

The values of a block (`arg!`) exclude each other, so the difference of a value is what it adds to
the empty block, D(v) = n(only v) − n(none). That is d of the atom in the world with its block
cleared: p = 0, and each other literal of the predicate loses its matches inside the block
(`FlipTarget.clears_block`).

The sums over definitions need z_U to be an indicator: g and x must determine the witness. A nested
quantifier, or a bound variable that g does not mention, violates this; `is_direct` checks it, and
such formulas are evaluated atom by atom (`flipping_world`).

The number of subsets doubles with each literal, so it is computed and limited beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

from lapis.counting.complete_world import name_level
from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.language.model import Predicate
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Cube, Definition, Literal, SimpleTerm, TypedVariable
from lapis.relational.conjunction import (
    Conjunction,
    RelationAtom,
    Scope,
    conjoin,
    equate_terms,
    flip_sign,
    require_conditions,
    require_literals,
    unify,
)

MAX_CHANGES = 6  # ways in which an atom may change the witnesses of a definition
MAX_TERMS = 2048  # conjunctions in the difference of one clause


class FlipTarget(NamedTuple):
    """The predicate whose atoms are flipped, and the definitions that its atoms may change."""

    predicate: Predicate
    definitions: Mapping[str, Definition]  # all derived predicates
    domains: Mapping[str, Domain]
    clears_block: bool = False  # all atoms of the flipped atom's block are taken as false

    @property
    def positions(self) -> tuple[str, ...]:
        """The names of the flipped atom's arguments; no variable of a rule starts with @."""
        return tuple(f"@{number}" for number in range(self.predicate.arity))

    @property
    def atom(self) -> tuple[SimpleTerm, ...]:
        return tuple(map(Variable, self.positions))

    @property
    def types(self) -> Mapping[str, str]:
        return dict(zip(self.positions, self.predicate.types, strict=True))

    def touches(self, name: str) -> bool:
        """Return whether flipping an atom of the target may change an atom of this predicate."""
        if name == self.predicate.name:
            return True
        definition = self.definitions.get(name)
        return definition is not None and any(
            self.touches(literal.predicate)
            for cube in definition.cubes
            for literal in cube.literals
        )


class SignedConjunctions(NamedTuple):
    """Signed conjunctions over positions and variables (with types), for false and true atoms."""

    variables: Mapping[str, str]  # positions included
    determined: Mapping[str, str]  # variables that the others determine wherever they occur
    when_false: tuple[Conjunction, ...]
    when_true: tuple[Conjunction, ...]


def clause_difference(
    clause: Clause, variables: Sequence[TypedVariable], target: FlipTarget
) -> SignedConjunctions:
    """Return d(g) of one clause as conjunctions, to be summed over all variables but positions."""
    falsified = [literal.negate() for literal in clause.literals]
    conditions = require_conditions(clause.conditions, False)
    found = _difference(falsified, conditions, variables, target)
    when_false, when_true = (tuple(map(flip_sign, side)) for side in found[2:])
    return found._replace(when_false=when_false, when_true=when_true)


def cube_difference(
    cube: Cube, variables: Sequence[TypedVariable], target: FlipTarget
) -> SignedConjunctions:
    """Return the same for the number of groundings in which a cube is true."""
    conditions = require_conditions(cube.conditions, True)
    return _difference(cube.literals, conditions, variables, target)


def is_direct(clause: Clause, target: FlipTarget) -> bool:
    """Return whether `clause_difference` applies: all changed definitions determine witnesses.

    There may be at most MAX_CHANGES ways to change W, since n ways expand into up to 3^n products,
    and at most MAX_TERMS terms.
    """
    touched = {
        literal.predicate
        for literal in clause.literals
        if literal.predicate != target.predicate.name and target.touches(literal.predicate)
    }
    definitions = [target.definitions[name] for name in touched]
    return all(
        _num_changes(definition, target) <= MAX_CHANGES
        and _has_determined_witnesses(definition, target)
        for definition in definitions
    ) and (not touched or num_terms(clause.literals, target) <= MAX_TERMS)


def num_terms(literals: Sequence[Literal], target: FlipTarget) -> int:
    """Bound the number of conjunctions in the difference of these literals."""
    own = 1 + target.clears_block  # terms of `_hold` for a literal of the target's predicate

    def ways(literal: Literal) -> int:
        if literal.predicate == target.predicate.name:
            return 1 + own
        if not target.touches(literal.predicate):
            return 1
        changes = _num_changes(target.definitions[literal.predicate], target)
        return 1 + int(3 ** min(changes, 99))

    return prod(map(ways, literals)) - 1


def _refuse_terms(literals: Sequence[Literal], target: FlipTarget) -> None:
    terms = num_terms(literals, target)
    if terms > MAX_TERMS:
        raise TooLarge(
            f"the difference of a formula with an atom of {target.predicate.name!r} has about "
            f"{terms:,} terms; the limit is {MAX_TERMS:,}",
            code="too-many-terms",
            hint=f"write the formula with fewer literals of {target.predicate.name!r}",
        )


def num_levels(target: FlipTarget) -> int:
    """Return the largest m for which the relations {x : W(x) = m} occur."""
    touched = [d for d in target.definitions.values() if target.touches(d.predicate.name)]
    return max((_num_changes(definition, target) for definition in touched), default=0)


def _num_changes(definition: Definition, target: FlipTarget) -> int:
    """Count the ways in which an atom changes the witnesses: subsets of literals of each cube."""
    return sum(2 ** len(_touched(cube.literals, target)) - 1 for cube in definition.cubes)


class _Flip(NamedTuple):
    """The atom that is flipped, and its value in the data."""

    target: FlipTarget
    truth: bool
    fresh: _FreshNames

    @property
    def turn(self) -> int:
        """1 − 2p."""
        return -1 if self.truth else 1


def _difference(
    literals: Sequence[Literal],
    conditions: Conjunction,
    variables: Sequence[TypedVariable],
    target: FlipTarget,
) -> SignedConjunctions:
    """Return 1[all literals and conditions hold] with g = 1 minus that with g = 0."""
    _refuse_terms(literals, target)
    fresh = _FreshNames()
    sides = [
        tuple(
            conjoin(change, conditions)
            for flipped in _subsets(_touched(literals, target))
            for change in _flip_together(literals, flipped, _Flip(target, truth, fresh))
        )
        for truth in (False, True)
    ]
    return SignedConjunctions({**dict(variables), **target.types}, fresh.types, *sides)


def _flip_together(
    literals: Sequence[Literal], flipped: tuple[int, ...], flip: _Flip
) -> list[Conjunction]:
    """Return the term of U = flipped: (1 − 2p)^{|U|+1} Π_U δ · Π_rest L."""
    changes = [Conjunction(flip.turn ** (len(flipped) + 1))]
    for number, literal in enumerate(literals):
        if number not in flipped:
            parts = _hold(literal, flip.target)
        else:
            parts = _flip_atom(literal, flip)
            if not literal.positive:
                parts = list(map(flip_sign, parts))
        changes = [conjoin(change, part) for change in changes for part in parts]
    return changes


def _hold(literal: Literal, target: FlipTarget) -> list[Conjunction]:
    """Return 1[the literal holds], with the flipped atom's block cleared if `clears_block`.

    Clearing turns P(t) into P(t) − P(t)·1[t is in the block].
    """
    holds = require_literals([literal])
    if not target.clears_block or literal.predicate != target.predicate.name:
        return [holds]
    inside = conjoin(
        require_literals([literal._replace(positive=True)]),
        *(
            equate_terms([term], [argument])
            for place, (term, argument) in enumerate(zip(literal.terms, target.atom, strict=True))
            if place not in target.predicate.block
        ),
    )
    return [holds, flip_sign(inside) if literal.positive else inside]


def _flip_atom(literal: Literal, flip: _Flip) -> list[Conjunction]:
    """Return the atom's truth with g = 1 minus that with g = 0."""
    if literal.predicate == flip.target.predicate.name:
        return [equate_terms(literal.terms, flip.target.atom)]
    return _flip_derived(flip.target.definitions[literal.predicate], literal.terms, flip)


def _flip_derived(
    definition: Definition, terms: tuple[SimpleTerm, ...], flip: _Flip
) -> list[Conjunction]:
    """Return D(g = 1) − D(g = 0) at D(terms), by the formula in the module's docstring."""
    turn, name = flip.turn, definition.predicate.name
    changes = list(_witness_changes(definition, terms, flip))
    signs = [turn * change.coefficient for change in changes]
    indicators = [change._replace(coefficient=1) for change in changes]
    result = []
    for level in range(len(changes) + 1):
        if level == 0:
            holds = Conjunction(turn, false=(RelationAtom(name, terms),))
        else:
            holds = Conjunction(-turn, true=(RelationAtom(name_level(name, level), terms),))
        for chosen, coefficient in _polynomial(signs, level):
            own = (indicators[number] for number in chosen)
            result.append(conjoin(holds, Conjunction(coefficient), *own))
    return result


def _polynomial(signs: Sequence[int], level: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Expand 1[Σ signs·z ≥ 1] (level 0) or 1[Σ signs·z = −level] as Σ coefficient · Π_chosen z."""

    def value(chosen: Sequence[int]) -> int:
        total = sum(signs[number] for number in chosen)
        return int(total >= 1) if level == 0 else int(total == -level)

    for chosen in _subsets(range(len(signs))):
        coefficient = sum(
            (-1) ** (len(chosen) - size) * value(part)
            for size in range(len(chosen) + 1)
            for part in combinations(chosen, size)
        )
        if coefficient:
            yield chosen, coefficient


def _witness_changes(
    definition: Definition, terms: tuple[SimpleTerm, ...], flip: _Flip
) -> Iterator[Conjunction]:
    """Yield W(g = 1) − W(g = 0) at x = terms as signed indicators with fresh bound variables."""
    for cube in definition.cubes:
        for flipped in _subsets(_touched(cube.literals, flip.target)):
            heads = (name for name, _ in definition.variables)
            renaming: dict[str, SimpleTerm] = dict(zip(heads, terms, strict=True))
            renaming |= {
                name: flip.fresh.variable(type_name) for name, type_name in definition.bound
            }
            renamed = cube.substitute(renaming)
            conditions = require_conditions(renamed.conditions, True)
            (change,) = _flip_together(renamed.literals, flipped, flip)
            yield conjoin(change, conditions)


def _has_determined_witnesses(definition: Definition, target: FlipTarget) -> bool:
    """Return whether g and x determine the witness for every set of changed literals of a cube."""
    types = {**dict(definition.variables), **dict(definition.bound), **target.types}
    heads = tuple(name for name, _ in definition.variables)
    scope = Scope(types, (*target.positions, *heads), target.domains)
    for cube in definition.cubes:
        if any(
            literal.predicate != target.predicate.name and target.touches(literal.predicate)
            for literal in cube.literals
        ):
            return False
        for flipped in _subsets(_touched(cube.literals, target)):
            unified = unify(
                conjoin(
                    *(equate_terms(cube.literals[number].terms, target.atom) for number in flipped),
                    require_conditions(cube.conditions, True),
                ),
                scope,
            )
            if unified is None:
                continue
            determined = {
                name
                for name, term in unified.bindings
                if not isinstance(term, Variable) or term.name in scope.keep
            }
            if any(name not in determined for name, _ in definition.bound):
                return False
    return True


def _touched(literals: Sequence[Literal], target: FlipTarget) -> list[int]:
    return [number for number, literal in enumerate(literals) if target.touches(literal.predicate)]


def _subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all non-empty subsets."""
    for size in range(1, len(members) + 1):
        yield from combinations(members, size)


class _FreshNames:
    """Generates names for the bound variables of definitions used in a clause."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}

    def variable(self, type_name: str) -> Variable:
        name = f"#{len(self.types)}"
        self.types[name] = type_name
        return Variable(name)
