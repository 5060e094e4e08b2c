"""Numbers that multiply formulas: their values, their sums, and whether they are known.

The value of a function s(x) is a constant v of the type of numbers, and the fact s(x, v) a row of a
relation. A plan keeps v as it keeps a + variable, and the count of each row is multiplied by v
(`weigh_rows`): counts stay exact integers until the last step.

A number is needed for constants x if the formula may be true there: for s(x) * (R(x) ^ F) where the
data make R(x) true. These conditions are read off the formula: at every conjunction, implication
and disjunction above the number, the other parts that the data decide (`find_needs`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.data.keys import number_rows, pack
from lapis.errors import LapisError
from lapis.language.model import Model, Rule, Scale
from lapis.language.names import format_atom
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Formula,
    Implies,
    Not,
    Or,
    Term,
    Variable,
    children,
    free_variables,
    subformulas,
)
from lapis.logic.clauses import Feature, Literal, SimpleTerm, TypedVariable, simple_term
from lapis.logic.normalize import make_condition
from lapis.logic.passes import negate, normalize_comparisons
from lapis.problem.problem import Problem
from lapis.relational.conjunction import (
    Conjunction,
    conjoin,
    require_conditions,
    require_literals,
)
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import list_answer_rows

Values = Mapping[str, np.ndarray]  # float64[domain size] of each variable of numbers


def scale_numbers(values: np.ndarray, scale: Scale) -> np.ndarray:
    """Return the factors of numbers on a scale; not finite where there is none."""
    if not scale:
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled: np.ndarray = np.log(values)
        return scaled if scale == "log" else scaled - np.log1p(-values)


def number_values(feature: Feature, domains: Mapping[str, Domain]) -> Values:
    """Return for each variable of numbers the factor of each of its constants."""
    types = dict(feature.variables)
    found: dict[str, np.ndarray] = {}
    for name, _, scale in feature.numbers:
        factor = scale_numbers(domains[types[name]].numeric, scale)
        # Numbers of other functions may have no logarithm.
        with np.errstate(invalid="ignore"):
            found[name] = found[name] * factor if name in found else factor
    return found


def weigh_rows(factor: Factor, values: Values) -> np.ndarray:
    """Return float64[num_rows], the value of each row times its numbers."""
    weighed = factor.value.astype(np.float64)
    for name, own in values.items():
        weighed *= own[factor.column(name)]
    return weighed


def fold_numbers(factor: Factor, values: Values) -> Factor:
    """Multiply a factor by its numbers and sum their variables out; its values become floats."""
    own = {name: values[name] for name in factor.variables if name in values}
    if not own:
        return factor
    kept = tuple(name for name in factor.variables if name not in own)
    rows = factor.columns(kept)
    first, number = number_rows(list(rows.T), len(rows))
    value = np.bincount(number, weigh_rows(factor, own), len(first))
    return Factor(kept, rows[first], value)


def sum_numbers(feature: Feature, world: Interpretation) -> np.ndarray:
    """Return float64[num_weights], for each weight the sum of the numbers over all groundings."""
    return sum_weighed(feature, [require_literals(feature.guards)], world)


def sum_powers(feature: Feature, world: Interpretation) -> np.ndarray:
    """Return float64[3], the number of groundings with numbers, the numbers' sum and squares' sum.

    The number of a grounding is the product of its numbers.
    """
    keep = feature.values
    guards = [require_literals(feature.guards)]
    plan = compile_plan(guards, feature.variables, world, PlanOutput(keep, keep))
    rows = list_answer_rows(plan, world.run(plan))
    count = rows.value.astype(np.float64)
    number = weigh_rows(rows, number_values(feature, world.domains)) / count
    return np.array([count.sum(), count @ number, count @ number**2])


def sum_weighed(
    feature: Feature, conjunctions: Sequence[Conjunction], world: Interpretation
) -> np.ndarray:
    """Return float64[num_weights], the numbers of the groundings in the conjunctions, summed."""
    types = dict(feature.variables)
    keep = feature.selecting
    plan = compile_plan(conjunctions, feature.variables, world, PlanOutput(keep, keep))
    rows = list_answer_rows(plan, world.run(plan))
    shape = [world.size(types[name]) for name in feature.plus]
    code = pack([rows.column(name) for name in feature.plus], shape, len(rows))
    size = int(np.prod(shape, dtype=np.int64))
    return np.bincount(code, weigh_rows(rows, number_values(feature, world.domains)), size)


def number_world(problem: Problem) -> Interpretation:
    """Return the relations of a problem's predicates that are known, in memory."""
    return Interpretation(
        problem.domains,
        {
            name: Extension(evidence.predicate.types, evidence.true)
            for name, evidence in problem.evidence.items()
            if not evidence.open and not len(evidence.unknown)
        },
    )


def has_numbers(model: Model) -> bool:
    """Return whether some rule is multiplied by numbers or compares them."""
    names = {predicate.name for predicate in model.predicates.values() if predicate.is_number}
    return bool(names) and any(
        rule.numbers
        or any(isinstance(n, Atom) and n.predicate in names for n in subformulas(rule.formula))
        for rule in model.rules
    )


def require_numbers(
    problem: Problem, world: Interpretation | None = None, uncertain: Collection[str] = ()
) -> None:
    """Raise if a number that a formula needs is missing, or has no logarithm.

    `world` has the relations that are known; it is built from the evidence if absent. Atoms of
    `uncertain` predicates may change: they decide nothing.
    """
    model = problem.model
    if not has_numbers(model):
        return
    world = number_world(problem) if world is None else world
    for rule in model.rules:
        for number in rule.numbers:
            if number.scale == "log":
                _require_positive(rule, number.function, world)
        if model.missing == "error" and not any(n.scale == "logit" for n in rule.numbers):
            for need in find_needs(rule, model, world.relations.keys() - set(uncertain)):
                _require_known(rule, need, model, world)


def _require_positive(rule: Rule, function: str, world: Interpretation) -> None:
    """Raise if some value of a function has no logarithm."""
    extension = world.relations[function]
    number = world.domains[extension.types[-1]].numeric
    wrong = np.flatnonzero(number[extension.tuples[:, -1]] <= 0)
    if len(wrong):
        names = _name_row(extension.tuples[wrong[0]], extension.types, world.domains)
        raise LapisError(
            f"{rule.text!r} needs the logarithm of a number that is not positive: "
            f"{format_atom(function, names, function=True)}",
            code="logarithm",
            span=rule.span,
        )


class Need(NamedTuple):
    """A number that is needed wherever the conditions hold."""

    function: str
    terms: tuple[SimpleTerm, ...]  # its arguments
    conditions: Conjunction
    variables: tuple[TypedVariable, ...]  # of the terms and conditions


def find_needs(rule: Rule, model: Model, known: Collection[str]) -> Iterator[Need]:
    """Yield the numbers of a rule, and those that its comparisons need.

    `known` are the predicates whose atoms the data decide.
    """
    return NeedFinder(rule, model, known).needs()


class NeedFinder:
    """Finds the numbers of a rule with the conditions that the data decide."""

    def __init__(self, rule: Rule, model: Model, known: Collection[str]) -> None:
        self.rule = rule
        self.types = dict(rule.variables + rule.bound)
        self.numbers = {name for name, each in model.predicates.items() if each.is_number}
        self.known = set(known) - self.numbers
        last = [
            node.terms[-1]
            for node in subformulas(rule.formula)
            if isinstance(node, Atom) and node.predicate in self.numbers
        ]
        self.values = {term.name for term in last if isinstance(term, Variable)}

    def needs(self) -> Iterator[Need]:
        top = self.conditions(conjuncts(self.rule.formula))
        for number in self.rule.numbers:
            yield self.need(number.function, number.terms, top)
        yield from self.visit(self.rule.formula, [])

    def visit(self, node: Formula, above: list[Conjunction]) -> Iterator[Need]:
        """Yield the numbers inside a part that matters only where the conditions hold."""
        if isinstance(node, Atom) and node.predicate in self.numbers:
            yield self.need(node.predicate, node.terms[:-1], above)
        for part, others in self.beside(node):
            yield from self.visit(part, above + self.conditions(others))

    def beside(self, node: Formula) -> Iterator[tuple[Formula, Sequence[Formula]]]:
        """Yield the parts of a formula, each with formulas that must hold for it to matter."""
        match node:
            case And(parts):
                for place, part in enumerate(parts):
                    yield part, [*parts[:place], *parts[place + 1 :]]
            case Or(parts):
                for place, part in enumerate(parts):
                    yield part, list(map(negate, [*parts[:place], *parts[place + 1 :]]))
            case Implies(premise, conclusion):
                yield premise, [negate(conclusion)]
                yield conclusion, conjuncts(premise)
            case _:
                yield from ((part, []) for part in children(node))

    def conditions(self, parts: Sequence[Formula]) -> list[Conjunction]:
        found = map(self.decided, parts)
        return [condition for condition in found if condition is not None]

    def decided(self, part: Formula) -> Conjunction | None:
        """Return a literal that the data decide, as a conjunction; None for other formulas."""
        if self.values.intersection(free_variables(part)):
            return None
        if not isinstance(part, Atom):
            part = normalize_comparisons(part)
        positive = not isinstance(part, Not)
        leaf = part.body if isinstance(part, Not) else part
        if isinstance(leaf, Comparison):
            return require_conditions([make_condition(leaf, positive)], True)
        if isinstance(leaf, Atom) and leaf.predicate in self.known:
            terms = tuple(map(simple_term, leaf.terms))
            return require_literals([Literal(leaf.predicate, terms, positive)])
        return None

    def need(self, function: str, terms: Sequence[Term], above: Sequence[Conjunction]) -> Need:
        simple = tuple(map(simple_term, terms))
        joined = conjoin(*above)
        names = {term.name for term in simple if isinstance(term, Variable)}
        for atom in (*joined.true, *joined.false):
            names |= atom.variables
        for test in joined.tests:
            names.update(test.variables)
        typed = tuple((name, type_name) for name, type_name in self.types.items() if name in names)
        return Need(function, simple, joined, typed)


def conjuncts(formula: Formula) -> list[Formula]:
    """Return the parts of a conjunction, also of nested ones."""
    if isinstance(formula, And):
        return [inner for part in formula.parts for inner in conjuncts(part)]
    return [formula]


def _require_known(rule: Rule, need: Need, model: Model, world: Interpretation) -> None:
    """Raise if a needed number is missing, and name the first one."""
    value = Variable("$value")
    *_, value_type = model.predicates[need.function].types
    known = require_literals([Literal(need.function, (*need.terms, value), True)])
    known = conjoin(need.conditions, known)
    typed = (*need.variables, (value.name, value_type))
    fixed: dict[str, int] = {}
    names = [term.name for term in need.terms if isinstance(term, Variable)]
    for name in dict.fromkeys(names):
        needed = _count_by(name, need.conditions, need.variables, fixed, world)
        found = _count_by(name, known, typed, fixed, world)
        missing = np.flatnonzero(needed != found)
        if not len(missing):
            return
        fixed[name] = int(missing[0])
    types = dict(need.variables)
    if not names:
        plans = (
            compile_plan([part], own, world, PlanOutput())
            for part, own in ((need.conditions, need.variables), (known, typed))
        )
        needed, found = (world.count_table(plan) for plan in plans)
        if needed == found:
            return
    constants = [
        world.domains[types[term.name]].constants[fixed[term.name]]
        if isinstance(term, Variable)
        else term.name
        for term in need.terms
    ]
    raise LapisError(
        f"{format_atom(need.function, constants)} has no value, but {rule.text!r} needs it",
        code="missing-number",
        span=rule.span,
        hint="state it, restrict the formula to known numbers, as in "
        "sim(x, y) * (Near(x, y) ^ …), or leave out such groundings: "
        '--missing skip (missing="skip")',
    )


def _count_by(
    name: str,
    conjunction: Conjunction,
    variables: tuple[TypedVariable, ...],
    fixed: Mapping[str, int],
    world: Interpretation,
) -> np.ndarray:
    """Return the number of groundings for each constant of a variable, others fixed."""
    types = dict(variables)
    atoms = require_literals(Literal(f"$at {other}", (Variable(other),), True) for other in fixed)
    own: Interpretation = world
    for other, code in fixed.items():
        extension = Extension((types[other],), np.array([[code]], np.int32))
        own = own.with_relation(f"$at {other}", extension)
    plan = compile_plan([conjoin(conjunction, atoms)], variables, own, PlanOutput((name,)))
    return own.count_table(plan)


def _name_row(row: np.ndarray, types: Sequence[str], domains: Mapping[str, Domain]) -> list[str]:
    return [domains[t].constants[int(code)] for t, code in zip(types, row, strict=True)]
