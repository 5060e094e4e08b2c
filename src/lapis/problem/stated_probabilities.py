"""Stated probabilities: formulas whose weights are fitted until they have these probabilities.

    R(F) = p, and soft facts read as posterior constraints    P(F | evidence) = p
    P(F) = p                                                  P(F) = p in the model without evidence

Each becomes a rule F with a weight that inference fits (`inference.fitting`). Probabilities 0 and 1
make the rule hard. A formula with free variables has one weight; the expected share of its true
groundings is p. Without evidence this is the probability of each grounding, since constants that
the model does not name are interchangeable.

ProbCog (Jain 2012, Probabilistic Cognition for Technical Systems, section 3.4) fits P(F) before the
evidence is applied, by iterative proportional fitting of the weight of F, and R(F) after it. There
F must be a formula of the model. Here a rule is added, which has the same effect, because the
weights of equal formulas add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lapis.data.database import empty_tuples
from lapis.errors import LapisError, Span
from lapis.language.model import Model, Rule
from lapis.language.printer import print_formula
from lapis.language.resolve import with_statements
from lapis.language.syntax import Not, WeightedFormula
from lapis.logic.normalize import normalize
from lapis.problem.problem import Evidence, Problem
from lapis.problem.soft_evidence import Belief, belief_rule


class StatedRule(NamedTuple):
    """A rule whose weight is fitted, or a hard rule if its probability is 0 or 1."""

    rule: Rule
    probability: float
    posterior: bool
    name: str


class Constraint(NamedTuple):
    """A probability that a weight is fitted to."""

    name: str
    weight_id: int
    groundings: int
    probability: float
    posterior: bool
    span: Span | None


def stated_rules(model: Model) -> list[StatedRule]:
    """Return the rules of the model's probability constraints."""
    stated = model.probability_constraints
    if not stated:
        return []
    formulas = [WeightedFormula(each.formula, 0.0, fixed=True, span=each.span) for each in stated]
    found: list[StatedRule] = []
    for each, formula in zip(stated, formulas, strict=True):
        rules = with_statements(model, formula).rules[len(model.rules) :]
        if len(rules) != 1:
            raise LapisError(
                f"a probability is stated for one formula, not for {len(rules)}: "
                f"{print_formula(each.formula)}",
                code="probability",
                span=each.span,
                hint="remove the * from its atoms",
            )
        rule = rules[0]
        if each.probability in (0.0, 1.0):
            whole = rule.formula if each.probability else Not(rule.formula)
            rule = replace(rule, formula=whole, weight=None, hard=True)
        found.append(StatedRule(rule, each.probability, each.posterior, rule.text))
    return found


def stated_beliefs(beliefs: Sequence[Belief]) -> list[StatedRule]:
    """Return the rules of soft facts that are posterior constraints."""
    found: list[StatedRule] = []
    for belief in beliefs:
        rule = belief_rule(belief)
        rule = rule if rule.hard else replace(rule, weight=0.0)
        found.append(StatedRule(rule, belief.probability, True, belief.name))
    return found


def with_stated(model: Model, stated: Sequence[StatedRule]) -> Model:
    """Add the rules after the others."""
    return replace(model, rules=model.rules + tuple(each.rule for each in stated))


def find_constraints(
    problem: Problem, first: int, stated: Sequence[StatedRule]
) -> tuple[Constraint, ...]:
    """Return the constraints of the rules from number `first` on; hard rules have none."""
    offset = problem.weight_table.offset
    return tuple(
        Constraint(
            each.name, int(offset[first + place]), problem.num_groundings(each.rule.variables),
            each.probability, each.posterior, each.rule.span,
        )
        for place, each in enumerate(stated)
        if not each.rule.hard and problem.num_groundings(each.rule.variables)
    )  # fmt: skip


def without_evidence(problem: Problem, num_rules: int) -> Problem:
    """Return the problem of the first rules over the same constants, with every atom unknown."""
    model = problem.model.with_rules(problem.model.rules[:num_rules])
    evidence = {}
    for name, known in problem.evidence.items():
        none = empty_tuples(known.predicate.arity)
        evidence[name] = Evidence(known.predicate, True, none, none, none)
    return replace(problem, model=model, normal_form=normalize(model), evidence=evidence)
