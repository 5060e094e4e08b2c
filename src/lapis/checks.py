"""Warnings of `lapis check` about a model on its data, and each formula in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lapis.errors import Warning
from lapis.language.model import Model, Rule
from lapis.language.printer import print_formula, print_term
from lapis.language.syntax import (
    And,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Quantifier,
    atoms,
)
from lapis.logic.clauses import Clause, Condition, Literal
from lapis.logic.normalize import is_constant
from lapis.problem.problem import Problem, build_problem
from lapis.problem.task import DataLike, ModelLike, open_inputs
from lapis.results.result import Columns, Result, View, new_view


@dataclass(frozen=True, slots=True)
class Explanation:
    """One formula, taken apart."""

    formula: str
    weight: float | None
    hard: bool
    words: str
    variables: tuple[tuple[str, str], ...]
    groundings: int
    clauses: tuple[str, ...]

    @property
    def weight_text(self) -> str:
        return "hard" if self.hard else "?" if self.weight is None else f"{self.weight:g}"

    def to_json(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in self.__slots__}
        variables = [{"name": name, "type": type_} for name, type_ in self.variables]
        return {**found, "variables": variables, "clauses": list(self.clauses)}


@dataclass(frozen=True, repr=False)
class Report(Result):
    """Each formula explained, and what is doubtful about the model on its data."""

    warnings: tuple[Warning, ...]
    formulas: tuple[Explanation, ...]
    constants: dict[str, int]  # number of constants of each type

    def columns(self) -> Columns:
        names = ("formula", "weight", "hard", "words", "groundings")
        return {name: [getattr(formula, name) for formula in self.formulas] for name in names}

    def views(self) -> list[View]:
        rows = [(f.weight_text, f.formula, f.words, f"{f.groundings:,}") for f in self.formulas]
        headings = ("weight", "formula", "in words", "groundings")
        return [new_view(headings, rows, numbers=["weight", "groundings"])]

    def summary(self) -> str:
        counted = (number_of(self.formulas, "formula"), number_of(self.warnings, "warning"))
        return f"{', '.join(counted)}, no errors"

    def remarks(self) -> list[str]:
        return [str(warning) for warning in self.warnings]

    def document(self) -> dict[str, Any]:
        """The contract of `lapis check --json`."""
        return {
            "warnings": [
                {"message": w.message, "code": w.code, "where": str(w.span) if w.span else None}
                for w in self.warnings
            ],
            "formulas": [formula.to_json() for formula in self.formulas],
            "types": self.constants,
        }


def number_of(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def check(model: ModelLike, data: DataLike = None, *, strict: bool = False) -> Report:
    """Warnings and explanations; raises the errors that binding the data finds."""
    inputs = open_inputs(model, data, strict=strict, probabilities=False, quiet=True)
    model, worlds = inputs.model, [] if data is None else inputs.databases
    problems = [build_problem(model, world) for world in inputs.databases]
    warnings = [*model.warnings, *inputs.warnings]
    warnings += unused_predicates(model, problems if worlds else [])
    for rule in model.rules:
        warnings += rule_warnings(rule)
    if worlds:
        warnings += empty_types(model, problems)
    constants = {
        name: max(len(problem.domains[name]) for problem in problems) for name in model.types
    }
    explained = explain(model, problems)
    return Report(tuple(warnings), tuple(explained), constants)


def unused_predicates(model: Model, problems: Sequence[Problem]) -> list[Warning]:
    """Predicates that no formula mentions and of which the data says nothing either."""
    if not model.rules:
        return []
    used = {atom.predicate for rule in model.rules for atom in atoms(rule.formula)}
    used |= {
        name
        for problem in problems
        for name, evidence in problem.evidence.items()
        if len(evidence.true) + len(evidence.unknown)
    }
    used |= {name for constraint in model.constraints for _, name in constraint.parts}
    return [
        Warning(f"predicate {predicate.name!r} is never used", "unused-predicate", predicate.span)
        for predicate in model.predicates.values()
        if predicate.name not in used
    ]


def rule_warnings(rule: Rule) -> list[Warning]:
    """A formula that is true, or false, whatever the world is."""
    constant = is_constant(rule.formula)
    if constant is None:
        return []
    kind = "hard formula" if rule.hard else "weight on a formula"
    effect = "it has no effect" if constant or not rule.hard else "no world is possible"
    message = f"this {kind} is always {str(constant).lower()}: {effect}"
    return [Warning(message, "constant-formula", rule.span)]


def empty_types(model: Model, problems: Sequence[Problem]) -> list[Warning]:
    return [
        Warning(
            f"type {name!r} has no constants"
            + (f" in {problem.name}" if len(problems) > 1 else "")
            + ": formulas over it have no groundings",
            "empty-type",
        )
        for problem in problems
        for name in model.types
        if not len(problem.domains[name])
    ]


def explain(model: Model, problems: Sequence[Problem]) -> list[Explanation]:
    features = problems[0].normal_form.features
    return [
        Explanation(
            rule.text,
            rule.weight,
            rule.hard,
            describe_rule(rule),
            rule.variables,
            sum(problem.num_groundings(rule.variables) for problem in problems),
            tuple(
                print_clause(clause)
                for feature in features
                if feature.rule == index
                for clause in feature.clauses
            ),
        )
        for index, rule in enumerate(model.rules)
    ]


def print_clause(clause: Clause) -> str:
    parts = [*map(print_literal, clause.literals), *map(print_condition, clause.conditions)]
    return " v ".join(parts) or "false"


def print_literal(literal: Literal) -> str:
    arguments = ", ".join(map(print_term, literal.terms))
    atom = f"{literal.predicate}({arguments})" if literal.terms else literal.predicate
    return atom if literal.positive else f"!{atom}"


def print_condition(condition: Condition) -> str:
    moved = f"{condition.offset:+d}" if condition.offset else ""
    left, right = print_term(condition.left), print_term(condition.right)
    return f"{left} {condition.operator} {right}{moved}"


MANY = 20.0  # beyond this a weight is as good as certain
COUNTS = {"=": "exactly", "<=": "at most", ">=": "at least"}


def describe_rule(rule: Rule) -> str:
    """The rule as a sentence.

    >>> from lapis.language import parse_model
    >>> text = "Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)"
    >>> describe_rule(parse_model(text).rules[0])
    'for each person x: if Smokes(x) then Cancer(x); odds e^1.5 = 4.48 in favour'
    """
    types = dict(rule.variables + rule.bound)
    scope = ", ".join(f"{type_name} {name}" for name, type_name in rule.variables)
    head = f"for each {scope}: " if scope else ""
    return f"{head}{words(rule.formula, types)}; {describe_weight(rule)}"


def describe_weight(rule: Rule) -> str:
    if rule.hard:
        return "always, in every world"
    if rule.weight is None:
        each = f" for each {', '.join(rule.plus)}" if rule.plus else ""
        return f"a weight to be learned{each}"
    if rule.instance_weights is not None:
        low, high = min(rule.instance_weights.value), max(rule.instance_weights.value)
        each = f"{len(rule.instance_weights.value):,} constants of {', '.join(rule.plus)}"
        return f"weights of {low:g} to {high:g} at {each}, {rule.weight:g} at others"
    if rule.weight == 0:
        return "weight 0: no preference"
    if abs(rule.weight) > MANY:
        return f"odds e^{rule.weight:g}: nearly {'always' if rule.weight > 0 else 'never'}"
    import math

    side = "in favour" if rule.weight > 0 else "against"
    return f"odds e^{abs(rule.weight):g} = {math.exp(abs(rule.weight)):.3g} {side}"


def words(formula: Formula, types: Mapping[str, str]) -> str:
    """The formula in words; commas and 'both' keep the grouping readable."""
    match formula:
        case Not(body):
            return f"not {grouped(body, types)}"
        case And(parts):
            return " and ".join(grouped(part, types) for part in parts)
        case Or(parts):
            return " or ".join(grouped(part, types) for part in parts)
        case Implies(premise, conclusion):
            return f"if {words(premise, types)} then {words(conclusion, types)}"
        case Iff(left, right):
            return f"{grouped(left, types)} exactly if {grouped(right, types)}"
        case Exists(variables, body):
            return f"there is {named(variables, types)} with {grouped(body, types)}"
        case CountExists(variables, body, operator, bound):
            number = f"{COUNTS[operator]} {bound} {named(variables, types)}"
            return f"there are {number} with {grouped(body, types)}"
        case ForAll(variables, body):
            return f"for all {named(variables, types)}, {grouped(body, types)}"
        case _:
            return print_formula(formula)


def named(variables: tuple[str, ...], types: Mapping[str, str]) -> str:
    return ", ".join(f"{types.get(name, '')} {name}".strip() for name in variables)


def grouped(formula: Formula, types: Mapping[str, str]) -> str:
    text = words(formula, types)
    simple = isinstance(formula, Not) or not isinstance(
        formula, And | Or | Implies | Iff | Quantifier
    )
    return text if simple else f"({text})"
