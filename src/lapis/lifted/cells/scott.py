"""Translate a problem to Scott normal form: formulas about one or two elements, not nested.

A quantified part with one free variable becomes an atom with a `CountedDefinition`,

    A(x) ⇔ the number of y with φ(x, y) is (=, ≤, ≥) k,

innermost first (Scott 1962, "A decision method for validity of sentences in two variables"; Grädel,
Kolaitis and Vardi 1997), so that rules become quantifier-free `CellFormula`s of at most two
variables. ∃ is ≥ 1, ∀ is ¬∃¬, a block is = 1. A hard formula that is itself quantified needs no
atom.

Elements are grouped by type and by the known values of their unary atoms. A constant that a formula
or a known binary atom names has a group of its own. A variable ranges over the groups that it
reaches. A constant in a formula becomes a variable that reaches one group of one element, so that
F(x, A) is a formula about pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.language.formulas import rename_variable
from lapis.language.model import Model, Rule
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    CountExists,
    Exists,
    Formula,
    Not,
    Or,
    Term,
    Truth,
    Variable,
    free_variables,
    map_children,
    subformulas,
    terms_of,
)
from lapis.lifted.cells.sentence import (
    HARD,
    CellFormula,
    CountedDefinition,
    ElementGroup,
    Sentence,
    Total,
    WeightParameter,
    find_order,
)
from lapis.lifted.kinds import extra_constants
from lapis.logic.passes import negate, tidy
from lapis.problem.problem import Problem
from lapis.relational.comparison import COMPARE


@dataclass
class Facts:
    """Known atoms, as (predicate, *constants)."""

    known: dict[tuple[str, ...], bool] = field(default_factory=dict)
    unknown: set[tuple[str, ...]] = field(default_factory=set)  # of closed predicates
    closed: set[str] = field(default_factory=set)  # binary predicates, false by default
    contradictory: bool = False

    def add(self, predicate: str, constants: list[str], value: bool) -> None:
        """Add a hard literal of the model to the facts of the data."""
        atom = predicate, *constants
        before = self.known.get(atom)
        if before is None and predicate in self.closed and atom not in self.unknown:
            before = False
        self.contradictory |= before is not None and before != value
        self.known.setdefault(atom, value)

    def read_evidence(self, problem: Problem) -> None:
        """Read the data; atoms of closed unary predicates are false by default."""
        for name, evidence in problem.evidence.items():
            domains = [problem.domains[t].constants for t in evidence.predicate.types]

            def list_atoms(
                rows: np.ndarray, name: str = name, domains: list[tuple[str, ...]] = domains
            ) -> list[tuple[str, ...]]:
                return [
                    (name, *(domain[code] for domain, code in zip(domains, row, strict=True)))
                    for row in rows.tolist()
                ]

            self.known |= dict.fromkeys(list_atoms(evidence.true), True)
            self.known |= dict.fromkeys(list_atoms(evidence.false), False)
            self.unknown |= set(list_atoms(evidence.unknown))
            if not evidence.open and evidence.predicate.arity == 2:
                self.closed.add(name)
            elif not evidence.open:
                for names in product(*domains):
                    if (name, *names) not in self.unknown:
                        self.known.setdefault((name, *names), False)


class ElementGroups(NamedTuple):
    members: list[ElementGroup]
    of_type: dict[str, frozenset[int]]
    of_constant: dict[tuple[str, str], int]  # (type, constant) of groups of one constant
    of_constants: dict[str, list[int]]  # by type: the group of each constant


def group_elements(
    problem: Problem, sizes: Mapping[str, int], facts: Facts, named: set[tuple[str, str]]
) -> ElementGroups:
    """Group the constants of each type; those named, or in a binary fact, are single."""
    predicates = problem.model.predicates
    unary: dict[tuple[str, str], dict[str, bool]] = {}
    for (name, *constants), value in facts.known.items():
        if len(constants) == 1:
            unary.setdefault((predicates[name].types[0], constants[0]), {})[name] = value
    for name, *constants in (*facts.known, *facts.unknown):
        if len(constants) == 2:
            named.update(zip(predicates[name].types, constants, strict=True))
    found = ElementGroups([], {}, {}, {})
    members = found.members
    extra = extra_constants(problem, sizes)
    for type_name, domain in problem.domains.items():
        first = len(members)
        alike: dict[frozenset[tuple[str, bool]], int] = {}
        numbers = found.of_constants[type_name] = []
        for constant in domain.constants:
            known = unary.get((type_name, constant), {})
            if (type_name, constant) in named:
                found.of_constant[type_name, constant] = len(members)
                numbers.append(len(members))
                members.append(ElementGroup(type_name, 1, known, constant))
                continue
            numbers.append(add_to_group(members, alike, ElementGroup(type_name, 1, known)))
        if extra.get(type_name):
            known = closed_facts(problem, type_name)
            add_to_group(members, alike, ElementGroup(type_name, extra[type_name], known))
        found.of_type[type_name] = frozenset(range(first, len(members)))
    return found


def add_to_group(
    members: list[ElementGroup], alike: dict[frozenset[tuple[str, bool]], int], new: ElementGroup
) -> int:
    """Add elements to the group with the same known atoms; return its number."""
    group = alike.setdefault(frozenset(new.known.items()), len(members))
    if group == len(members):
        members.append(new)
    else:
        members[group] = members[group]._replace(size=members[group].size + new.size)
    return group


def closed_facts(problem: Problem, type_name: str) -> dict[str, bool]:
    """Return the known unary atoms of an element that the data does not name."""
    return {
        name: False
        for name, evidence in problem.evidence.items()
        if not evidence.open and evidence.predicate.types == (type_name,)
    }


NEGATED = {"<=": ">=", ">=": "<="}


def two_variable_error(reason: str, rule: Rule | None = None) -> LapisError:
    subject = f"{rule.text!r} " if rule else ""
    return LapisError(
        f"{subject}{reason}",
        code="two-variables",
        span=rule.span if rule else None,
        hint="counting by cells takes formulas that tie at most two elements together",
    )


def tied_elements_error(variables: Sequence[str], rule: Rule) -> LapisError:
    names = ", ".join(name.rpartition(".")[0] or name[1:] for name in variables)
    return two_variable_error(f"ties {len(variables)} elements together ({names})", rule)


class RulePart(NamedTuple):
    """A rule, or a conjunct of a hard rule."""

    number: int
    formula: Formula
    variables: tuple[str, ...]


@dataclass
class SentenceBuilder:
    """Translates a problem to a `Sentence`."""

    problem: Problem
    sizes: Mapping[str, int]  # of types with more elements than the problem names
    facts: Facts = field(default_factory=Facts)
    groups: ElementGroups = field(default_factory=lambda: ElementGroups([], {}, {}, {}))
    reach: dict[str, frozenset[int]] = field(default_factory=dict)
    places: dict[str, tuple[frozenset[int], ...]] = field(default_factory=dict)
    factors: list[CellFormula] = field(default_factory=list)
    counted: list[CountedDefinition] = field(default_factory=list)

    @property
    def model(self) -> Model:
        return self.problem.model

    def build(self) -> Sentence:
        """Build the sentence. Raises LapisError for formulas about more than two elements."""
        self.check_model()
        order, used = find_order(self.model)
        self.facts.read_evidence(self.problem)
        parts: list[RulePart] = []
        for number, rule in enumerate(self.model.rules):
            if number not in used:
                parts += [p for p in self.split_rule(number, rule) if not self.read_fact(p)]
        if self.facts.contradictory:
            self.factors.append(CellFormula(Truth(False), (), HARD))
        self.groups = group_elements(
            self.problem, self.sizes, self.facts, self.find_constants(parts)
        )
        for name, predicate in self.model.predicates.items():
            self.places[name] = tuple(self.groups.of_type[t] for t in predicate.types)
        parameters, number_of = self.list_parameters()
        for part in parts:
            self.add_part(part, number_of)
        literal_parameters = self.add_literal_parameters(parameters)
        totals = [Total(c.parts, c.operator, c.bound) for c in self.model.constraints]
        totals += self.add_blocks()
        known = self.facts.known
        if order and any(name in order.names for name, *_ in known):
            raise two_variable_error("facts about a linear order are known")
        return Sentence(
            tuple(self.groups.members), self.reach, self.places,
            tuple(self.factors), tuple(self.counted), tuple(totals),
            tuple(parameters), literal_parameters,
            {n: v for (n, *c), v in known.items() if not c},
            {(n, c[0], c[1]): v for (n, *c), v in known.items() if len(c) == 2},
            frozenset(self.facts.unknown),
            frozenset(self.facts.closed),
            order,
        )  # fmt: skip

    def check_model(self) -> None:
        for rule in self.model.rules:
            if rule.numbers:
                raise two_variable_error("is multiplied by numbers", rule)
        for predicate in self.model.predicates.values():
            if predicate.arity > 2:
                raise two_variable_error(f"{predicate.name!r} has {predicate.arity} arguments")
        for rule in self.model.rules:
            if rule.instance_weights is not None or rule.weight_by is not None:
                raise two_variable_error("has a weight for each constant", rule)
            for node in subformulas(rule.formula):
                if isinstance(node, Comparison) and not all(
                    isinstance(t, Variable | Constant) for t in terms_of(node)
                ):
                    raise two_variable_error("compares numbers", rule)
                if isinstance(node, Comparison) and node.operator not in ("=", "!="):
                    raise two_variable_error("compares numbers", rule)

    def split_rule(self, number: int, rule: Rule) -> Iterator[RulePart]:
        formula = tidy(rule.formula)
        own = tuple(name for name, _ in rule.variables)
        if not rule.hard:
            yield RulePart(number, formula, own)
            return
        for names, part in split_conjuncts(formula):
            yield RulePart(number, part, own + names)

    def read_fact(self, part: RulePart) -> bool:
        """Read a hard ground literal as a fact; return whether the part is one."""
        positive = not isinstance(part.formula, Not)
        atom = part.formula.body if isinstance(part.formula, Not) else part.formula
        if not self.model.rules[part.number].hard or not isinstance(atom, Atom):
            return False
        names = [term.name for term in atom.terms if isinstance(term, Constant)]
        if len(names) < len(atom.terms) or not self.has_groundings(part):
            return False
        self.facts.add(atom.predicate, names, positive)
        return True

    def has_groundings(self, part: RulePart) -> bool:
        """Return whether no variable has an empty domain, so that the formula has groundings."""
        types = self.find_types(part)
        return all(
            self.sizes.get(types[name]) or len(self.problem.domains[types[name]])
            for name in part.variables
        )

    def num_elements(self, variable: str) -> int:
        return sum(self.groups.members[g].size for g in self.reach[variable])

    def find_constants(self, parts: list[RulePart]) -> set[tuple[str, str]]:
        """Return (type, constant) of the constants in formulas."""
        return {
            (type_name, term.name)
            for part in parts
            for node in subformulas(part.formula)
            for term, type_name in self.typed_terms(node, self.find_types(part))
            if isinstance(term, Constant)
        }

    def find_types(self, part: RulePart) -> dict[str, str]:
        rule = self.model.rules[part.number]
        return dict(rule.variables + rule.bound)

    def typed_terms(self, node: Formula, types: Mapping[str, str]) -> list[tuple[Term, str]]:
        """Return the terms of an atom or an equation with types; [] for two constants."""
        if isinstance(node, Atom):
            return list(zip(node.terms, self.model.predicates[node.predicate].types, strict=True))
        sides = terms_of(node)
        found = [types[side.name] for side in sides if isinstance(side, Variable)]
        return [(side, found[0]) for side in sides] if found else []

    def list_parameters(self) -> tuple[list[WeightParameter], dict[int, int]]:
        """Return a parameter for each soft rule, and its number by rule."""
        found: list[WeightParameter] = []
        number_of: dict[int, int] = {}
        for number, rule in enumerate(self.model.rules):
            if not rule.hard:
                number_of[number] = len(found)
                weight = rule.weight or 0.0
                found.append(WeightParameter(number, weight, rational_factor(weight)))
        return found, number_of

    def add_literal_parameters(
        self, parameters: list[WeightParameter]
    ) -> dict[str, tuple[int, int]]:
        """Add the literal weights of predicates that cannot be rules: one is not positive."""
        found: dict[str, tuple[int, int]] = {}
        for predicate in self.model.predicates.values():
            if predicate.factors is not None:
                found[predicate.name] = len(parameters), len(parameters) + 1
                parameters += [
                    WeightParameter(-1, 0.0, Fraction(repr(f))) for f in predicate.factors
                ]
        return found

    def add_blocks(self) -> list[Total]:
        """Translate P(x, y!) to ∃=1 y P(x, y), or to a total if the block has all arguments."""
        totals: list[Total] = []
        for predicate in self.model.predicates.values():
            if not predicate.block:
                continue
            operator = "=" if predicate.exactly_one else "<="
            if len(predicate.block) == predicate.arity:
                totals.append(Total(((1, predicate.name),), operator, 1))
                continue
            names = [f"{predicate.name}.{i}" for i in range(2)]
            self.reach |= dict(zip(names, self.places[predicate.name], strict=True))
            inner = predicate.block[0]
            body = Atom(predicate.name, (Variable(names[0]), Variable(names[1])))
            self.counted.append(
                CountedDefinition(body, names[1 - inner], names[inner], operator, 1, predicate=None)
            )
        return totals

    def add_part(self, part: RulePart, number_of: Mapping[int, int]) -> None:
        """Add the factor of a part."""
        rule = self.model.rules[part.number]
        types = self.find_types(part)
        rename = {name: f"{name}.{part.number}" for name in types}
        for name, type_name in types.items():
            self.reach[rename[name]] = self.groups.of_type[type_name]
        own = [rename[name] for name in part.variables]
        if not all(self.reach[name] for name in own):
            return  # no grounding
        formula = self.rename_terms(part.formula, types, rename)
        formula = (
            self.require_count(formula, rule)
            if rule.hard
            else self.remove_quantifiers(formula, rule)
        )
        used = free_variables(formula)
        if len(used) > 2:
            raise tied_elements_error(used, rule)
        times = 1
        for name in own:
            if name not in used:
                times *= self.num_elements(name)
        parameter = HARD if rule.hard else number_of[part.number]
        self.factors.append(CellFormula(formula, used, parameter, times))

    def rename_terms(
        self, formula: Formula, types: Mapping[str, str], rename: Mapping[str, str]
    ) -> Formula:
        """Rename variables to unique names, and replace constants by variables."""
        formula = map_children(formula, lambda child: self.rename_terms(child, types, rename))
        if isinstance(formula, Exists | CountExists):
            return replace(formula, variables=tuple(rename[name] for name in formula.variables))
        typed = self.typed_terms(formula, types)
        if isinstance(formula, Comparison) and not typed:
            return Truth(formula.left == formula.right)
        moved = [Variable(self.local_name(term, kind, rename)) for term, kind in typed]
        if isinstance(formula, Atom):
            return Atom(formula.predicate, tuple(moved))
        if isinstance(formula, Comparison):
            if not all(self.reach[variable.name] for variable in moved):
                return Truth(False)  # one side is a constant of another type
            return Comparison("=", moved[0], moved[1])
        return formula

    def local_name(self, term: Term, type_name: str, rename: Mapping[str, str]) -> str:
        assert isinstance(term, Variable | Constant)
        if isinstance(term, Variable):
            return rename[term.name]
        group = self.groups.of_constant.get((type_name, term.name))
        name = f"={type_name}:{term.name}"
        self.reach[name] = frozenset() if group is None else frozenset({group})
        return name

    def require_count(self, formula: Formula, rule: Rule) -> Formula:
        """Turn the outermost quantifier of a hard formula into a requirement."""
        operator, bound, inner = ">=", 1, formula
        if isinstance(formula, Not) and isinstance(formula.body, CountExists):
            count = formula.body
            if count.operator == "=" or (count.operator, count.bound) == (">=", 0):
                return self.remove_quantifiers(formula, rule)
            operator = NEGATED[count.operator]
            bound, inner = count.bound + (1 if operator == ">=" else -1), count
        elif isinstance(formula, CountExists):
            operator, bound = formula.operator, formula.bound
        elif not isinstance(formula, Exists):
            return self.remove_quantifiers(formula, rule)
        assert isinstance(inner, Exists | CountExists)
        first, *more = inner.variables
        body = inner.body if not more else Exists(tuple(more), inner.body)
        return self.define_count(
            first, self.remove_quantifiers(body, rule), operator, bound, rule, must=True
        )

    def remove_quantifiers(self, formula: Formula, rule: Rule) -> Formula:
        """Replace quantified parts by the atoms of their definitions, innermost first."""
        if isinstance(formula, Exists | CountExists):
            found = self.remove_quantifiers(formula.body, rule)
            if isinstance(formula, CountExists):
                return self.define_count(
                    formula.variables[0], found, formula.operator, formula.bound, rule
                )
            for name in reversed(formula.variables):
                found = self.define_count(name, found, ">=", 1, rule)
            return found
        return map_children(formula, lambda child: self.remove_quantifiers(child, rule))

    def define_count(
        self, name: str, body: Formula, operator: str, bound: int, rule: Rule, *, must: bool = False
    ) -> Formula:
        """Define "the number of `name` with `body` is (operator) bound"; return its atom.

        With `must` the definition is required to hold, and the result is true.
        """
        others = [variable for variable in free_variables(body) if variable != name]
        size = self.num_elements(name)
        if len(others) == len(free_variables(body)):
            some, none = (COMPARE[operator](number, bound) for number in (size, 0))
            return Or((And((body, Truth(some))), And((Not(body), Truth(none)))))
        if (operator, bound) == (">=", 1) and isinstance(body, And | Or):
            inside = [part for part in body.parts if name in free_variables(part)]
            outside = [part for part in body.parts if name not in free_variables(part)]
            if isinstance(body, And) and outside:
                rest = inside[0] if len(inside) == 1 else And(tuple(inside))
                found = self.define_count(name, rest, operator, bound, rule)
                return And((*outside, found))
            if isinstance(body, Or) and len(others) > 1:
                found_parts = [
                    self.define_count(name, p, operator, bound, rule) for p in body.parts
                ]
                return Or(tuple(found_parts))
        if len(others) > 1:
            raise tied_elements_error([*others, name], rule)
        of = others[0] if others else None
        predicate = None if must else f"_count{len(self.counted)}"
        if predicate is not None:
            again = self.find_count(body, of, name, operator, bound)
            if again is not None:
                return again
            self.places[predicate] = (self.reach[of],) if of else ()
        self.counted.append(CountedDefinition(body, of, name, operator, bound, predicate))
        if predicate is None:
            return Truth(True)
        return Atom(predicate, (Variable(of),) if of else ())

    def find_count(
        self, body: Formula, of: str | None, name: str, operator: str, bound: int
    ) -> Atom | None:
        """Return the atom of an equal definition, if there is one."""
        for other in self.counted:
            if (
                other.predicate is None
                or (other.operator, other.bound) != (operator, bound)
                or self.reach[other.counted] != self.reach[name]
                or (other.of is None) != (of is None)
            ):
                continue
            renamed = rename_variable(other.body, other.counted, name)
            if other.of is not None and of is not None:
                if self.reach[other.of] != self.reach[of]:
                    continue
                renamed = rename_variable(renamed, other.of, of)
            if renamed == body:
                return Atom(other.predicate, (Variable(of),) if of else ())
        return None


def split_conjuncts(formula: Formula) -> Iterator[tuple[tuple[str, ...], Formula]]:
    """Yield (universal variables, formula) of the conjuncts of a tidied formula."""
    match formula:
        case And(parts):
            for part in parts:
                yield from split_conjuncts(part)
        case Not(Exists(variables, body)):
            for names, part in split_conjuncts(tidy(negate(body))):
                yield variables + names, part
        case _:
            yield (), formula


def rational_factor(weight: float) -> Fraction | None:
    """Return exp(weight) if the weight is the logarithm of a number of at most twelve digits."""
    import math

    if abs(weight) > 30.0:
        return None
    short = Fraction(f"{math.exp(weight):.12g}")
    return short if short > 0 and math.log(short) == weight else None
