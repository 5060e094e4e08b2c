"""Encode a Markov logic network as a weighted theory over regions.

A formula becomes one clause for each assignment of its variables to elements or to different
members of regions (`kinds`). A quantified part becomes a derived predicate E with

    E(x) ⇔ ∃y φ(x, y)    as    φ(x, y) ⇒ E(x),  φ(x, y) ⇒ S(x),  E(x) ∨ S(x),

where S has weight 1 if true and −1 if false (Van den Broeck, Meert and Darwiche 2014,
"Skolemization for weighted first-order model counting"): if E is true without a witness, the two
values of S cancel. A block is an existential and pairwise exclusions. Facts are unit clauses, one
for all atoms of a shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lapis.language.model import Predicate
from lapis.language.syntax import Constant, Variable
from lapis.lifted.compilation.compiler import describe_shape
from lapis.lifted.compilation.theory import (
    ALWAYS,
    AtomShape,
    Exponent,
    Need,
    Region,
    Size,
    Term,
    Theory,
    TheoryAtom,
    TheoryLiteral,
    atom_shape,
    build_theory,
)
from lapis.lifted.kinds import Assignment, Kinds, all_shapes, assignments, num_assignments
from lapis.logic.clauses import Condition, Cube, Feature, Literal, SimpleTerm, TypedVariable
from lapis.problem.problem import Problem
from lapis.relational.algebra import Test
from lapis.relational.comparison import compare_constants

SKOLEM = (1.0, -1.0)  # weights of a true and a false atom of S
Row = tuple[frozenset[TheoryLiteral], Mapping[int, Region]]


class ExponentColumn(NamedTuple):
    """What an exponent of the theory counts: groundings of a formula, or atoms of a shape."""

    weight: int  # of the problem; −1 for atoms, whose weight is 0
    rule: int  # of the model; −1 for atoms
    shape: AtomShape | None  # of the atoms
    text: str  # the class, for display
    size: Size  # its number of groundings or atoms
    positive: bool = True  # whether true atoms are counted, or false ones


@dataclass(frozen=True)
class Encoding:
    """Z of the problem = Z of the theory · exp(certain) · Π free atoms' literal weights."""

    theory: Theory
    certain: Exponent  # of groundings that are true in every world
    free: tuple[AtomShape, ...]  # atoms that no clause mentions
    literal_weights: Mapping[str, tuple[float, float]]  # of a true and a false atom, if not 1
    kinds: Kinds
    columns: tuple[ExponentColumn, ...]  # what the exponents' numbers stand for


def encode_problem(
    problem: Problem, kinds: Kinds, classes: Iterable[str] | None = None
) -> Encoding:
    """Encode a problem; with `classes`, count each class of groundings, and atoms of `classes`."""
    encoder = Encoder(problem, kinds, classes is not None)
    certain: list[tuple[int, Size]] = []
    for definition in problem.normal_form.definitions:
        encoder.define(
            definition.predicate, definition.variables, definition.bound, definition.cubes
        )
    for predicate in problem.model.predicates.values():
        encoder.add_predicate(predicate)
    for feature in problem.normal_form.features:
        certain += encoder.add_feature(feature)
    for name in classes or ():
        encoder.count_atoms(problem.model.predicates[name])
    theory, more = build_theory(encoder.hard, encoder.soft)
    shapes = {
        shape
        for predicate in encoder.predicates.values()
        for shape in all_shapes(predicate.name, predicate.types, kinds)
    }
    free = tuple(sorted(shapes - theory.shapes))
    return Encoding(
        theory, (*certain, *more), free, encoder.literal_weights, kinds, tuple(encoder.columns)
    )


def encoding_work(problem: Problem, kinds: Kinds) -> dict[int, int]:
    """Return for each rule the work of encoding it and the definitions that it uses first.

    The unit is that of `clause_work`: a literal in one order of its clause's variables.
    """
    form = problem.normal_form
    found: Counter[int] = Counter()
    user: dict[str, int] = {}  # the rule of a derived predicate
    for feature in form.features:
        size = sum(len(clause.literals) + 1 for clause in feature.clauses)
        found[feature.rule] += size * num_assignments(feature.variables, kinds)
        for clause in feature.clauses:
            for literal in clause.literals:
                user.setdefault(literal.predicate, feature.rule)
    for definition in reversed(form.definitions):
        rule = user[definition.predicate.name]
        size = sum(2 * (len(cube.literals) + 1) for cube in definition.cubes)
        found[rule] += size * num_assignments(definition.variables + definition.bound, kinds)
        for cube in definition.cubes:
            for literal in cube.literals:
                user.setdefault(literal.predicate, rule)
    return dict(found)


@dataclass
class Encoder:
    problem: Problem
    kinds: Kinds
    by_class: bool
    hard: list[tuple[frozenset[TheoryLiteral], Mapping[int, Region], frozenset[Need]]] = field(
        default_factory=list
    )
    soft: list[tuple[frozenset[TheoryLiteral], Mapping[int, Region], Exponent]] = field(
        default_factory=list
    )
    literal_weights: dict[str, tuple[float, float]] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    columns: list[ExponentColumn] = field(default_factory=list)
    column_of_weight: dict[int, int] = field(default_factory=dict)

    def add_column(self, column: ExponentColumn) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def column_of(self, feature: Feature, assignment: Assignment) -> int:
        """Return the column that counts the groundings of a soft rule under an assignment."""
        weight = self.weight_of(feature, assignment)
        if self.by_class:
            text = describe_assignment(feature.variables, assignment, self.kinds)
            return self.add_column(
                ExponentColumn(weight, feature.rule, None, text, assignment.num_groundings)
            )
        if weight not in self.column_of_weight:
            column = ExponentColumn(weight, feature.rule, None, "", Size())
            self.column_of_weight[weight] = self.add_column(column)
        return self.column_of_weight[weight]

    def count_atoms(self, predicate: Predicate) -> None:
        """Add two features of weight 0 for each shape of its atoms: true atoms, false atoms."""
        for atom, assignment in self.atoms_of(predicate):
            shape = atom_shape(atom, assignment.regions)
            for sign in (True, False):
                size = assignment.num_groundings
                column = self.add_column(
                    ExponentColumn(-1, -1, shape, describe_shape(shape), size, sign)
                )
                clause = frozenset([TheoryLiteral(atom, sign)])
                self.soft.append((clause, assignment.regions, ((column, Size()),)))

    def atoms_of(self, predicate: Predicate) -> Iterator[tuple[TheoryAtom, Assignment]]:
        """Yield an atom for each shape of a predicate."""
        variables = [(str(position), t) for position, t in enumerate(predicate.types)]
        for assignment in assignments(variables, self.kinds):
            yield (
                TheoryAtom(predicate.name, tuple(assignment.term[n] for n, _ in variables)),
                assignment,
            )

    def require(self, literals: Iterable[TheoryLiteral], regions: Mapping[int, Region]) -> None:
        self.hard.append((frozenset(literals), regions, frozenset()))

    def add_feature(self, feature: Feature) -> list[tuple[int, Size]]:
        """Add the clauses of a feature; return the exponent of its constant."""
        certain: list[tuple[int, Size]] = []
        for assignment in assignments(feature.variables, self.kinds):
            column = -1 if feature.hard else self.column_of(feature, assignment)
            if feature.constant and not feature.hard:
                size = assignment.num_groundings
                certain.append((column, size._replace(coefficient=feature.constant)))
            for clause in feature.clauses:
                row = assign_clause(clause.literals, clause.conditions, assignment)
                if feature.hard:
                    if row is not None:
                        self.require(*row)
                else:
                    always = frozenset(ALWAYS), assignment.regions
                    self.soft.append((*(row or always), ((column, Size()),)))
        return certain

    def weight_of(self, feature: Feature, assignment: Assignment) -> int:
        """Return the weight that the constants of the plus variables select."""
        table, types = self.problem.weight_table, dict(feature.variables)
        number = 0
        for name, size in zip(feature.plus, table.shape[feature.rule], strict=True):
            element = assignment.term[name]
            assert isinstance(element, str)
            number = number * size + self.problem.domains[types[name]].index[element]
        return int(table.offset[feature.rule]) + number

    def define(
        self,
        predicate: Predicate,
        variables: tuple[TypedVariable, ...],
        bound: tuple[TypedVariable, ...],
        cubes: Sequence[Cube],
    ) -> None:
        """Add predicate(variables) ⇔ ∃ bound: some cube."""
        skolem = Predicate(f"{predicate.name}?", predicate.types)
        self.literal_weights[skolem.name] = SKOLEM
        self.predicates |= {predicate.name: predicate, skolem.name: skolem}

        def heads(assignment: Assignment) -> list[TheoryLiteral]:
            terms = tuple(assignment.term[name] for name, _ in variables)
            return [
                TheoryLiteral(TheoryAtom(name, terms), True)
                for name in (predicate.name, skolem.name)
            ]

        for assignment in assignments(variables, self.kinds):
            self.require(heads(assignment), assignment.regions)
        for cube in cubes:
            for assignment in assignments((*variables, *bound), self.kinds):
                negated = [literal.negate() for literal in cube.literals]
                holds = [evaluate_condition(condition, assignment) for condition in cube.conditions]
                row = assign_clause(negated, (), assignment)
                if all(holds) and row is not None:
                    for head in heads(assignment):
                        self.require(row[0] | {head}, row[1])

    def add_predicate(self, predicate: Predicate) -> None:
        """Add the block, the literal weights and the evidence of a predicate."""
        self.predicates[predicate.name] = predicate
        if predicate.factors is not None:
            self.literal_weights[predicate.name] = predicate.factors
        if predicate.block:
            self.add_block(predicate)
        self.add_evidence(predicate)

    def add_block(self, predicate: Predicate) -> None:
        variables = tuple((f"a{i}", t) for i, t in enumerate(predicate.types))
        others = {i: (f"b{i}", predicate.types[i]) for i in predicate.block}
        for assignment in assignments((*variables, *others.values()), self.kinds):
            terms = tuple(assignment.term[name] for name, _ in variables)
            again = tuple(
                assignment.term[others[i][0]] if i in others else term
                for i, term in enumerate(terms)
            )
            if terms != again:
                pair = (TheoryLiteral(TheoryAtom(predicate.name, t), False) for t in (terms, again))
                self.require(pair, assignment.regions)
        if not predicate.exactly_one:
            return
        kept = tuple(v for i, v in enumerate(variables) if i not in others)
        bound = tuple(v for i, v in enumerate(variables) if i in others)
        some = Predicate(f"{predicate.name}!", tuple(t for _, t in kept))
        atom = Literal(predicate.name, tuple(Variable(name) for name, _ in variables), True)
        self.define(some, kept, bound, [Cube((atom,))])
        for assignment in assignments(kept, self.kinds):
            terms = tuple(assignment.term[name] for name, _ in kept)
            self.require([TheoryLiteral(TheoryAtom(some.name, terms), True)], assignment.regions)

    def add_evidence(self, predicate: Predicate) -> None:
        """Add a unit clause for each shape whose atoms are known."""
        is_open = self.problem.evidence[predicate.name].open
        for atom, assignment in self.atoms_of(predicate):
            shape = atom_shape(atom, assignment.regions)
            value = self.kinds.facts.get(shape, None if is_open else False)
            if value is not None:
                self.require([TheoryLiteral(atom, value)], assignment.regions)


def describe_assignment(
    variables: Sequence[TypedVariable], assignment: Assignment, kinds: Kinds
) -> str:
    """Describe which variables are equal, which are constants, and the regions of the others."""
    words: dict[Term, list[str]] = {}
    for name, _ in variables:
        words.setdefault(assignment.term[name], []).append(name)
    parts = []
    for term, names in words.items():
        if isinstance(term, str):
            parts.append(" = ".join([*names, term]))
        else:
            parts.append(f"{' = '.join(names)} in {kinds.names[assignment.regions[term]]}")
    return ", ".join(parts)


def assign_clause(
    literals: Iterable[Literal], conditions: Iterable[Condition], assignment: Assignment
) -> Row | None:
    """Return a clause under an assignment; None if a condition makes it true."""
    if any(evaluate_condition(condition, assignment) for condition in conditions):
        return None
    return (
        frozenset(
            TheoryLiteral(
                TheoryAtom(literal.predicate, tuple(term_of(t, assignment) for t in literal.terms)),
                literal.positive,
            )
            for literal in literals
        ),
        assignment.regions,
    )


def term_of(term: SimpleTerm, assignment: Assignment) -> Term:
    return term.name if isinstance(term, Constant) else assignment.term[term.name]


def evaluate_condition(condition: Condition, assignment: Assignment) -> bool:
    """Evaluate a condition; only elements are compared as numbers."""
    left, right = term_of(condition.left, assignment), term_of(condition.right, assignment)
    if condition.operator in ("=", "!=") and not condition.offset:
        return (left == right) == (condition.operator == "=")
    assert isinstance(left, str)
    assert isinstance(right, str)
    named = condition._replace(left=Constant(left), right=Constant(right))
    return compare_constants(Test(named))
