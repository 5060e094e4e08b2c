"""What is known of elements, and which of them nothing known tells apart.

A problem in Scott normal form: every formula about one element or a pair, nothing nested.

A quantified part with one free variable becomes an atom with a `CountedDefinition` definition,

    A(x) ⇔ the number of y with φ(x, y) is (=, ≤, ≥) k,

innermost first (Scott 1962; Grädel, Kolaitis and Vardi 1997), so that rules, whatever their
weights, are quantifier-free `CellFormula`s of at most two variables. ∃ is ≥ 1, ∀ is ¬∃¬, a block is
= 1. A hard formula that is itself quantified needs no atom.

Elements are told apart by type, by what is known of them alone, and by name where a formula or a
known pair names them: each set of elements that remain alike is a `ElementGroup`, and a variable
ranges over the groups it can reach. A constant in a formula is a variable that reaches one group of
one element, so that F(x, A) is a formula about pairs like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

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
from lapis.logic.passes import negated, tidy
from lapis.problem.problem import Problem
from lapis.relational.comparison import COMPARE


@dataclass
class Facts:
    """Known atoms, as (predicate, *constants)."""

    known: dict[tuple[str, ...], bool] = field(default_factory=dict)
    unknown: set[tuple[str, ...]] = field(default_factory=set)  # exceptions of closed predicates
    closed: set[str] = field(default_factory=set)  # predicates of pairs, false where data is silent
    contradictory: bool = False

    def know(self, predicate: str, constants: list[str], value: bool) -> None:
        """What a formula says, after the data."""
        atom = predicate, *constants
        before = self.known.get(atom)
        if before is None and predicate in self.closed and atom not in self.unknown:
            before = False
        self.contradictory |= before is not None and before != value
        self.known.setdefault(atom, value)

    def read_evidence(self, problem: Problem) -> None:
        """What the data says; of closed predicates of one element, all else is false."""
        for name, evidence in problem.evidence.items():
            domains = [problem.domains[t].constants for t in evidence.predicate.types]

            def spelled(row: list[int], domains: list[tuple[str, ...]] = domains) -> list[str]:
                return [domain[code] for domain, code in zip(domains, row, strict=True)]

            for rows, value in ((evidence.true, True), (evidence.false, False)):
                self.known |= {(name, *spelled(row)): value for row in rows.tolist()}
            self.unknown |= {(name, *spelled(row)) for row in evidence.unknown.tolist()}
            if not evidence.open and evidence.predicate.arity == 2:
                self.closed.add(name)
            elif not evidence.open:
                for names in product(*domains):
                    if (name, *names) not in self.unknown:
                        self.known.setdefault((name, *names), False)


class ElementGroups(NamedTuple):
    members: list[ElementGroup]
    of_type: dict[str, frozenset[int]]
    of_constant: dict[tuple[str, str], int]  # of constants that are told apart: (type, constant)
    of_constants: dict[str, list[int]]  # the group of each constant of a type


def group_elements(
    problem: Problem, sizes: Mapping[str, int], facts: Facts, named: set[tuple[str, str]]
) -> ElementGroups:
    """Groups of each type: constants named by formulas or known pairs, the others by facts."""
    predicates = problem.model.predicates
    alone: dict[tuple[str, str], dict[str, bool]] = {}
    for (name, *constants), value in facts.known.items():
        if len(constants) == 2:
            named.update(zip(predicates[name].types, constants, strict=True))
        elif constants:
            alone.setdefault((predicates[name].types[0], constants[0]), {})[name] = value
    for name, *constants in facts.unknown:
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
            known = alone.get((type_name, constant), {})
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
    """Add elements to the group of which the same is known; its number."""
    group = alike.setdefault(frozenset(new.known.items()), len(members))
    if group == len(members):
        members.append(new)
    else:
        members[group] = members[group]._replace(size=members[group].size + new.size)
    return group


def closed_facts(problem: Problem, type_name: str) -> dict[str, bool]:
    """What is known of an element without a name."""
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
    """What a rule says, tidied; a hard rule may have several parts."""

    number: int
    formula: Formula
    variables: tuple[str, ...]


@dataclass
class SentenceBuilder:
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
        """Raises a LapisError, with the formula, for what two variables cannot say."""
        self.check_model()
        order, used = find_order(self.model)
        self.facts.read_evidence(self.problem)
        parts: list[RulePart] = []
        for number, rule in enumerate(self.model.rules):
            if number not in used:
                parts += [p for p in self.parts(number, rule) if not self.take_fact(p)]
        if self.facts.contradictory:
            self.factors.append(CellFormula(Truth(False), (), HARD))
        self.groups = group_elements(self.problem, self.sizes, self.facts, self.named_in(parts))
        for name, predicate in self.model.predicates.items():
            self.places[name] = tuple(self.groups.of_type[t] for t in predicate.types)
        parameters, number_of = self.parameters()
        for part in parts:
            self.add_part(part, number_of)
        literal_parameters = self.literal_parameters(parameters)
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
        for predicate in self.model.predicates.values():
            if predicate.arity > 2:
                raise two_variable_error(f"{predicate.name!r} has {predicate.arity} arguments")
        for rule in self.model.rules:
            if rule.instance_weights is not None:
                raise two_variable_error("has a weight for each constant", rule)
            for node in subformulas(rule.formula):
                if isinstance(node, Comparison) and not all(
                    isinstance(t, Variable | Constant) for t in terms_of(node)
                ):
                    raise two_variable_error("compares numbers", rule)
                if isinstance(node, Comparison) and node.operator not in ("=", "!="):
                    raise two_variable_error("compares numbers", rule)

    def parts(self, number: int, rule: Rule) -> Iterator[RulePart]:
        formula = tidy(rule.formula)
        own = tuple(name for name, _ in rule.variables)
        if not rule.hard:
            yield RulePart(number, formula, own)
            return
        for names, part in split_conjuncts(formula):
            yield RulePart(number, part, own + names)

    def take_fact(self, part: RulePart) -> bool:
        """A hard literal about constants is known; whether the part was one."""
        positive = not isinstance(part.formula, Not)
        atom = part.formula.body if isinstance(part.formula, Not) else part.formula
        if not self.model.rules[part.number].hard or not isinstance(atom, Atom):
            return False
        names = [term.name for term in atom.terms if isinstance(term, Constant)]
        if len(names) < len(atom.terms) or not self.has_groundings(part):
            return False
        self.facts.know(atom.predicate, names, positive)
        return True

    def has_groundings(self, part: RulePart) -> bool:
        """Whether all variables have values: `A ^ P(x)` says nothing of A where there is no x."""
        types = self.types(part)
        return all(
            self.sizes.get(types[name]) or len(self.problem.domains[types[name]])
            for name in part.variables
        )

    def num_elements(self, variable: str) -> int:
        return sum(self.groups.members[g].size for g in self.reach[variable])

    def named_in(self, parts: list[RulePart]) -> set[tuple[str, str]]:
        """(type, constant) of constants in formulas."""
        return {
            (type_name, term.name)
            for part in parts
            for node in subformulas(part.formula)
            for term, type_name in self.typed_terms(node, self.types(part))
            if isinstance(term, Constant)
        }

    def types(self, part: RulePart) -> dict[str, str]:
        rule = self.model.rules[part.number]
        return dict(rule.variables + rule.bound)

    def typed_terms(self, node: Formula, types: Mapping[str, str]) -> list[tuple[Term, str]]:
        """The terms of an atom or an equation with their types; two constants have none."""
        if isinstance(node, Atom):
            return list(zip(node.terms, self.model.predicates[node.predicate].types, strict=True))
        sides = terms_of(node)
        found = [types[side.name] for side in sides if isinstance(side, Variable)]
        return [(side, found[0]) for side in sides] if found else []

    def parameters(self) -> tuple[list[WeightParameter], dict[int, int]]:
        """One for each soft rule with a weight other than 0."""
        found: list[WeightParameter] = []
        number_of: dict[int, int] = {}
        for number, rule in enumerate(self.model.rules):
            if not rule.hard:
                number_of[number] = len(found)
                weight = rule.weight or 0.0
                found.append(WeightParameter(number, weight, rational_factor(weight)))
        return found, number_of

    def literal_parameters(self, parameters: list[WeightParameter]) -> dict[str, tuple[int, int]]:
        """Weights of predicates that are no rules, because one is not positive."""
        found: dict[str, tuple[int, int]] = {}
        for predicate in self.model.predicates.values():
            if predicate.factors is not None:
                found[predicate.name] = len(parameters), len(parameters) + 1
                parameters += [
                    WeightParameter(-1, 0.0, Fraction(repr(f))) for f in predicate.factors
                ]
        return found

    def add_blocks(self) -> list[Total]:
        """P(x, y!) is ∃=1 y P(x, y); where all arguments are in the block, a total."""
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
        """The factor of a part, or the quantity counted that a hard part is about."""
        rule = self.model.rules[part.number]
        types = self.types(part)
        rename = {name: f"{name}.{part.number}" for name in types}
        for name, type_name in types.items():
            self.reach[rename[name]] = self.groups.of_type[type_name]
        own = [rename[name] for name in part.variables]
        if not all(self.reach[name] for name in own):
            return  # no grounding
        formula = self.localise(part.formula, types, rename)
        formula = self.require_count(formula, rule) if rule.hard else self.flatten(formula, rule)
        used = free_variables(formula)
        if len(used) > 2:
            raise tied_elements_error(used, rule)
        times = 1
        for name in own:
            if name not in used:
                times *= self.num_elements(name)
        parameter = HARD if rule.hard else number_of[part.number]
        self.factors.append(CellFormula(formula, used, parameter, times))

    def localise(
        self, formula: Formula, types: Mapping[str, str], rename: Mapping[str, str]
    ) -> Formula:
        """Variables by names of their own, constants as variables."""
        formula = map_children(formula, lambda child: self.localise(child, types, rename))
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
                return Truth(False)  # a constant of another type
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
        """A hard formula without its outermost quantifier, which becomes a requirement."""
        operator, bound, inner = ">=", 1, formula
        if isinstance(formula, Not) and isinstance(formula.body, CountExists):
            count = formula.body
            if count.operator == "=" or (count.operator, count.bound) == (">=", 0):
                return self.flatten(formula, rule)
            operator = NEGATED[count.operator]
            bound, inner = count.bound + (1 if operator == ">=" else -1), count
        elif isinstance(formula, CountExists):
            operator, bound = formula.operator, formula.bound
        elif not isinstance(formula, Exists):
            return self.flatten(formula, rule)
        assert isinstance(inner, Exists | CountExists)
        first, *more = inner.variables
        body = inner.body if not more else Exists(tuple(more), inner.body)
        return self.count(first, self.flatten(body, rule), operator, bound, rule, must=True)

    def flatten(self, formula: Formula, rule: Rule) -> Formula:
        """Without quantifiers: atoms of counted quantities in their place, innermost first."""
        if isinstance(formula, Exists | CountExists):
            found = self.flatten(formula.body, rule)
            if isinstance(formula, CountExists):
                return self.count(
                    formula.variables[0], found, formula.operator, formula.bound, rule
                )
            for name in reversed(formula.variables):
                found = self.count(name, found, ">=", 1, rule)
            return found
        return map_children(formula, lambda child: self.flatten(child, rule))

    def count(
        self, name: str, body: Formula, operator: str, bound: int, rule: Rule, *, must: bool = False
    ) -> Formula:
        """The atom that says so many values of `name` make the body true."""
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
                found = self.count(name, rest, operator, bound, rule)
                return And((*outside, found))
            if isinstance(body, Or) and len(others) > 1:
                found_parts = [self.count(name, p, operator, bound, rule) for p in body.parts]
                return Or(tuple(found_parts))
        if len(others) > 1:
            raise tied_elements_error([*others, name], rule)
        of = others[0] if others else None
        predicate = None if must else f"_count{len(self.counted)}"
        if predicate is not None:
            again = self.known_count(body, of, name, operator, bound)
            if again is not None:
                return again
            self.places[predicate] = (self.reach[of],) if of else ()
        self.counted.append(CountedDefinition(body, of, name, operator, bound, predicate))
        if predicate is None:
            return Truth(True)
        return Atom(predicate, (Variable(of),) if of else ())

    def known_count(
        self, body: Formula, of: str | None, name: str, operator: str, bound: int
    ) -> Atom | None:
        """The atom of the same quantity, if it was counted before."""
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
    """(more variables, formula) that must each hold everywhere; of a tidied formula."""
    match formula:
        case And(parts):
            for part in parts:
                yield from split_conjuncts(part)
        case Not(Exists(variables, body)):
            for names, part in split_conjuncts(tidy(negated(body))):
                yield variables + names, part
        case _:
            yield (), formula


def rational_factor(weight: float) -> Fraction | None:
    """exp(weight) if the weight is the logarithm of a number of at most twelve digits."""
    import math

    if abs(weight) > 30.0:
        return None
    short = Fraction(f"{math.exp(weight):.12g}")
    return short if short > 0 and math.log(short) == weight else None
