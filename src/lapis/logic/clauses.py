"""Clauses with tied weights, and definitions of quantified subformulas.

A rule with formula F, free variables x and weight w contributes w·Σ_x 1[F(x)] to the score of
a world. Writing ¬F as disjoint cubes c₁ ⊎ … ⊎ c_J gives

    1[F] = (1 − J) + Σ_j 1[¬c_j],

so a `Feature` is the integer `constant` = 1 − J and the J clauses ¬c_j, all with weight w, all
over the rule's full list of variables. A quantified subformula becomes an atom of a derived
predicate with a `Definition`:

    derived(x) ⇔ ∃ bound: cube₁ ∨ cube₂ ∨ …

or, if it counts,

    derived(x) ⇔ low ≤ Σ_{bound, j} 1[cube_j] ≤ high      (disjoint cubes)

Only grounding reads definitions that count (`normalize(…, keep=…)`). Each definition uses only base
predicates and earlier definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lapis.language.model import Predicate
from lapis.language.syntax import ComparisonOperator, Constant, Term, Variable

SimpleTerm = Variable | Constant  # a Variable here always has plus=False
TypedVariable = tuple[str, str]  # (name, type)


class Literal(NamedTuple):
    """An atom of a base or derived predicate, or its negation."""

    predicate: str
    terms: tuple[SimpleTerm, ...]
    positive: bool

    def negate(self) -> Literal:
        return self._replace(positive=not self.positive)


class Condition(NamedTuple):
    """A comparison, left operator right + offset, which every grounding decides.

    With operator = or != and offset 0 it compares constants, otherwise numeric values. A numeric
    comparison is false if a constant is not a number.
    """

    operator: ComparisonOperator
    left: SimpleTerm
    right: SimpleTerm
    offset: int = 0


class Cube(NamedTuple):
    """A conjunction: true when every literal and every condition is."""

    literals: tuple[Literal, ...]
    conditions: tuple[Condition, ...] = ()

    def substitute(self, terms: Mapping[str, SimpleTerm]) -> Cube:
        """Replace variables by terms; variables without a term stay."""

        def value(term: SimpleTerm) -> SimpleTerm:
            return terms.get(term.name, term) if isinstance(term, Variable) else term

        return Cube(
            tuple(each._replace(terms=tuple(map(value, each.terms))) for each in self.literals),
            tuple(
                each._replace(left=value(each.left), right=value(each.right))
                for each in self.conditions
            ),
        )


class Clause(NamedTuple):
    """A disjunction: true when some literal or some condition is. The empty clause is false."""

    literals: tuple[Literal, ...]
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Feature:
    """A rule as clauses: its count in a world is constant·groundings + Σ_clauses true count."""

    rule: int  # index in Model.rules
    variables: tuple[TypedVariable, ...]  # each assignment to these is one grounding
    plus: tuple[str, ...]  # the variables that select the weight
    clauses: tuple[Clause, ...]
    constant: int
    hard: bool  # every clause must be true in every grounding


@dataclass(frozen=True, slots=True)
class Definition:
    """predicate(variables) ⇔ ∃ bound: some cube is true; or as many as from `low` to `high` are."""

    predicate: Predicate  # derived; its types are those of `variables`
    variables: tuple[TypedVariable, ...]
    bound: tuple[TypedVariable, ...]
    cubes: tuple[Cube, ...]
    low: int = 1  # at least 1
    high: int | None = None  # None: no upper bound

    @property
    def counts(self) -> bool:
        """Whether true cubes are counted, so that they must be disjoint."""
        return self.low > 1 or self.high is not None


@dataclass(frozen=True, slots=True)
class NormalForm:
    features: tuple[Feature, ...]  # in order of rules: one each, one or more for a hard rule
    definitions: tuple[Definition, ...]  # in dependency order

    @property
    def derived(self) -> Mapping[str, Definition]:
        return {definition.predicate.name: definition for definition in self.definitions}


def simple_term(term: Term) -> SimpleTerm:
    assert isinstance(term, Variable | Constant)
    return Variable(term.name) if isinstance(term, Variable) else Constant(term.name)
