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

from lapis.language.model import NUMBER_TYPE, Predicate, Rule, Scale
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
    offset: float = 0


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


class NumberVariable(NamedTuple):
    """A variable of a feature whose constant, a number, multiplies the count."""

    name: str
    function: str  # whose value it is
    scale: Scale


@dataclass(frozen=True, slots=True)
class Feature:
    """A rule as clauses: its count in a world is constant·groundings + Σ_clauses true count.

    The count of a rule that is multiplied by numbers s(x), with a variable v for each value, is

        Σ_{x, v} 1[s(x) = v] v (constant + Σ_clauses 1[clause])

    Its `guards` are the atoms s(x, v). Each clause has their negations, and can be false only where
    they hold; `variables` includes v. So a false grounding (x, v) of a clause subtracts v.
    """

    rule: int  # index in Model.rules
    variables: tuple[TypedVariable, ...]  # each assignment to these is one grounding
    plus: tuple[str, ...]  # the variables that select the weight
    clauses: tuple[Clause, ...]
    constant: int
    hard: bool  # every clause must be true in every grounding
    guards: tuple[Literal, ...] = ()  # s(x, v), positive
    numbers: tuple[NumberVariable, ...] = ()  # the factors; v² has v twice

    @property
    def values(self) -> tuple[str, ...]:
        """The variables of numbers."""
        return tuple(dict.fromkeys(number.name for number in self.numbers))

    @property
    def selecting(self) -> tuple[str, ...]:
        """The variables on which the weight of a grounding depends, and its factor."""
        return (*self.plus, *self.values)

    @property
    def arguments(self) -> tuple[TypedVariable, ...]:
        """The variables without those of numbers."""
        values = self.values
        return tuple(pair for pair in self.variables if pair[0] not in values)


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


def number_guards(rule: Rule) -> tuple[tuple[Literal, ...], tuple[NumberVariable, ...]]:
    """Return the atoms of a rule's numbers and the variables of their values."""
    guards: dict[tuple[str, tuple[Term, ...]], Literal] = {}
    numbers = []
    for number in rule.numbers:
        key = number.function, number.terms
        if key not in guards:
            # No variable of a file starts with $.
            terms = (*map(simple_term, number.terms), Variable(f"${len(guards)}"))
            guards[key] = Literal(number.function, terms, True)
        name = str(guards[key].terms[-1].name)
        numbers.append(NumberVariable(name, number.function, number.scale))
    return tuple(guards.values()), tuple(numbers)


def guard_clause(clause: Clause, guards: tuple[Literal, ...]) -> Clause:
    """Return the clause with the negations of the guards."""
    return clause._replace(literals=(*(guard.negate() for guard in guards), *clause.literals))


def value_variables(numbers: tuple[NumberVariable, ...]) -> tuple[TypedVariable, ...]:
    return tuple((name, NUMBER_TYPE) for name in dict.fromkeys(n.name for n in numbers))


def simple_term(term: Term) -> SimpleTerm:
    assert isinstance(term, Variable | Constant)
    return Variable(term.name) if isinstance(term, Variable) else Constant(term.name)
