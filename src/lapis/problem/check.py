"""Warnings of `lapis check` about a model on its data, and each formula in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lapis.errors import Warning
from lapis.language.model import Model, Rule
from lapis.language.printer import print_formula, print_numbers, print_term
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
from lapis.results.result import Columns, Result
from lapis.runtime.views import View, new_view


@dataclass(frozen=True, slots=True)
class CheckedFormula:
    """One formula: in words, its variables and its clauses."""

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
class CheckReport(Result):
    """Each formula explained, and the warnings about the model on its data."""

    warnings: tuple[Warning, ...]
    formulas: tuple[CheckedFormula, ...]
    constants: dict[str, int]  # number of constants of each type

    def columns(self) -> Columns:
        """Return a row for each formula; variables and clauses are joined to a text."""
        names = ("formula", "weight", "hard", "words", "variables", "groundings", "clauses")
        found = {name: [getattr(formula, name) for formula in self.formulas] for name in names}
        shown = (", ".join(map(": ".join, formula.variables)) for formula in self.formulas)
        clauses = ("; ".join(formula.clauses) for formula in self.formulas)
        return {**found, "variables": list(shown), "clauses": list(clauses)}

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


def check(model: ModelLike, data: DataLike = None, *, strict: bool = False) -> CheckReport:
    """Collect warnings and explain each formula; raise the errors of the model and its data."""
    inputs = open_inputs(
        model, data, strict=strict, probabilities=False, fits=True, tables=True, quiet=True
    )
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
    return CheckReport(tuple(warnings), tuple(explain_rules(model, problems)), constants)


def unused_predicates(model: Model, problems: Sequence[Problem]) -> list[Warning]:
    """Warn of predicates that occur in no formula, constraint or fact."""
    if not model.rules:
        return []
    used = {atom.predicate for rule in model.rules for atom in atoms(rule.formula)}
    used |= {number.function for rule in model.rules for number in rule.numbers}
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
    """Warn of a formula that has the same truth value in all worlds."""
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


def explain_rules(model: Model, problems: Sequence[Problem]) -> list[CheckedFormula]:
    features = problems[0].normal_form.features
    return [
        CheckedFormula(
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


MANY = 20.0  # weights beyond it are described as nearly always or never true
COUNTS = {"=": "exactly", "<=": "at most", ">=": "at least"}


def describe_rule(rule: Rule) -> str:
    """Return the rule as a sentence.

    >>> from lapis.language import parse_model
    >>> text = "Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)"
    >>> describe_rule(parse_model(text).rules[0])
    'for each person x: if Smokes(x) then Cancer(x); odds e^1.5 = 4.48 in favour'
    """
    types = dict(rule.variables + rule.bound)
    scope = ", ".join(f"{type_name} {name}" for name, type_name in rule.variables)
    head = f"for each {scope}: " if scope else ""
    times = "".join(f"; times {text}" for text in print_numbers(rule.numbers))
    return f"{head}{describe_formula(rule.formula, types)}; {describe_weight(rule)}{times}"


def describe_weight(rule: Rule) -> str:
    if rule.weight_by is not None:
        return f"the weight is the number {rule.weight_by}"
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
    side = "in favour" if rule.weight > 0 else "against"
    return f"odds e^{abs(rule.weight):g} = {math.exp(abs(rule.weight)):.3g} {side}"


def describe_formula(formula: Formula, types: Mapping[str, str]) -> str:
    """Return the formula in words."""
    match formula:
        case Not(body):
            return f"not {describe_part(body, types)}"
        case And(parts):
            return " and ".join(describe_part(part, types) for part in parts)
        case Or(parts):
            return " or ".join(describe_part(part, types) for part in parts)
        case Implies(premise, conclusion):
            return (
                f"if {describe_formula(premise, types)} then {describe_formula(conclusion, types)}"
            )
        case Iff(left, right):
            return f"{describe_part(left, types)} exactly if {describe_part(right, types)}"
        case Exists(variables, body):
            return (
                f"there is {describe_variables(variables, types)} with {describe_part(body, types)}"
            )
        case CountExists(variables, body, operator, bound):
            number = f"{COUNTS[operator]} {bound} {describe_variables(variables, types)}"
            return f"there are {number} with {describe_part(body, types)}"
        case ForAll(variables, body):
            return f"for all {describe_variables(variables, types)}, {describe_part(body, types)}"
        case _:
            return print_formula(formula)


def describe_variables(variables: tuple[str, ...], types: Mapping[str, str]) -> str:
    return ", ".join(f"{types.get(name, '')} {name}".strip() for name in variables)


def describe_part(formula: Formula, types: Mapping[str, str]) -> str:
    text = describe_formula(formula, types)
    simple = isinstance(formula, Not) or not isinstance(
        formula, And | Or | Implies | Iff | Quantifier
    )
    return text if simple else f"({text})"
