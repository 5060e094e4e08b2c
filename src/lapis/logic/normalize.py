"""Normalise a model to clauses with tied weights (`clauses.py`).

**Disjoint cubes by Shannon expansion.** A quantifier-free formula F over leaves a₁…a_m (atoms,
comparisons, quantified parts) is split on one leaf at a time, F = (a ∧ F|a) ∨ (¬a ∧ F|¬a). Every
path that ends in the truth value is a cube, and two paths differ in the sign of a leaf, so the
cubes are disjoint. A leaf that decides one side is split first: a clause stays one cube, and a
conjunction of k literals becomes k cubes.

Equal remainders are split once, which gives a decision diagram. The number of cubes is a sum over
its paths, computed before any cube is listed: a parity of m leaves has 2m nodes and 2^(m−1) cubes.

**Forms.** The cubes of a formula depend on its connectives and on which of its atoms are equal. A
formula of atoms is split into its form (connectives over numbers) and its list of different atoms.
Thousands of ground rules share a form, which is expanded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lapis.errors import TooLarge
from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    CountExists,
    Exists,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Truth,
    Variable,
    children,
    free_variables,
    map_children,
    subformulas,
)
from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Definition,
    Feature,
    Literal,
    NormalForm,
    TypedVariable,
    guard_clause,
    number_guards,
    simple_term,
    value_variables,
)
from lapis.logic.passes import is_leaf, name_copies, rewrite, simplify, split_hard

KeepTypedCount = Callable[[CountExists, str], bool]  # given the type of the variable
Form = Any  # number of an atom, or (connective, form, …)
ClauseForm = tuple[tuple[int, bool], ...]  # (number of an atom, sign)


CONNECTIVES = {And, Or, Not, Implies, Iff}


class FormTable:
    """Expanded forms, and the literals of atoms."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}  # by identity, which is faster than by value
        self._numbers: dict[Atom, int] = {}
        self._literals: list[tuple[Literal, Literal]] = []  # (negative, positive)
        self._clauses: dict[tuple[Form, bool], tuple[tuple[ClauseForm, ...], ...]] = {}

    def clauses(self, formula: Formula, hard: bool) -> list[tuple[Clause, ...]] | None:
        """Return the clauses of each part, or None for more than atoms and connectives.

        A hard formula may have several parts. The atoms must outlive the table.
        """
        own: dict[int, int] = {}
        form = self._form(formula, own)
        if form is None:
            return None
        parts = self._clauses.get((form, hard))
        if parts is None:
            parts = self._clauses[form, hard] = expand_form(form, hard)
        found = [self._literals[number] for number in own]
        return [
            tuple([Clause(tuple([found[atom][sign] for atom, sign in clause])) for clause in part])
            for part in parts
        ]

    def _form(self, formula: Formula, own: dict[int, int]) -> Form | None:
        if isinstance(formula, Atom):
            number = self._number_of.get(id(formula))
            if number is None:
                number = self._add(formula)
            return own.setdefault(number, len(own))
        if type(formula) not in CONNECTIVES:
            return None
        forms = [self._form(part, own) for part in children(formula)]
        return None if None in forms else (type(formula), *forms)

    def _add(self, atom: Atom) -> int:
        number = self._numbers.setdefault(atom, len(self._literals))
        if number == len(self._literals):
            terms = tuple(map(simple_term, atom.terms))
            pair = Literal(atom.predicate, terms, False), Literal(atom.predicate, terms, True)
            self._literals.append(pair)
        self._number_of[id(atom)] = number
        return number


def expand_form(form: Form, hard: bool) -> tuple[tuple[ClauseForm, ...], ...]:
    """Return the clauses of a form, over numbers of atoms."""
    number: dict[Formula, int] = {}
    formula = rewrite(build_formula(form, number))
    parts = [part for _, part in split_hard(formula)] if hard else [formula]
    return tuple(
        tuple(
            tuple((number[leaf], not sign) for leaf, sign in cube)
            for cube in disjoint_cubes(part, False)
        )
        for part in parts
    )


def build_formula(form: Form, number: dict[Formula, int]) -> Formula:
    """Build a formula of a form; its atoms are added to `number`."""
    if isinstance(form, int):
        atom = Atom(str(form), ())
        number[atom] = form
        return atom
    kind, *inner = form
    parts = tuple(build_formula(part, number) for part in inner)
    return kind(parts) if kind is And or kind is Or else kind(*parts)


def normalize(model: Model, keep: KeepTypedCount | None = None) -> NormalForm:
    """Return the features of all rules and the definitions that they use.

    Counting quantifiers are expanded, except those that `keep` accepts, given the quantifier and
    the type of its variable: they become definitions that count.

    >>> from lapis.language import parse_model
    >>> model = parse_model("P(t)\\nQ(t)\\n1 P(x) ^ Q(x)")
    >>> feature = normalize(model).features[0]
    >>> feature.constant, len(feature.clauses)
    (-1, 2)
    """
    normalizer = Normalizer(set(model.predicates), keep)
    features = [f for i, rule in enumerate(model.rules) for f in normalizer.features(i, rule)]
    return NormalForm(tuple(features), tuple(normalizer.definitions))


@dataclass
class Normalizer:
    taken: set[str]  # names of predicates
    keep: KeepTypedCount | None = None
    definitions: list[Definition] = field(default_factory=list)
    known: dict[tuple[Formula, tuple[TypedVariable, ...]], Predicate] = field(default_factory=dict)
    forms: FormTable = field(default_factory=FormTable)

    def features(self, index: int, rule: Rule) -> Iterator[Feature]:
        """Yield one feature; for a hard rule one for each part, over the variables of that part."""
        try:
            parts = self.parts(rule)
        except TooLarge as error:
            raise TooLarge(
                f"the formula {rule.text!r} becomes {error.message}",
                code=error.code,
                span=rule.span,
                hint=error.hint,
            ) from None
        guards, numbers = number_guards(rule)
        for variables, clauses in parts:
            constant = 0 if rule.hard else 1 - len(clauses)
            if guards:
                variables += value_variables(numbers)
                clauses = tuple(guard_clause(clause, guards) for clause in clauses)
            yield Feature(
                index, variables, rule.plus, clauses, constant, rule.hard, guards, numbers
            )

    def parts(self, rule: Rule) -> list[tuple[tuple[TypedVariable, ...], tuple[Clause, ...]]]:
        """Return the variables and clauses of each part of a rule."""
        found = self.forms.clauses(rule.formula, rule.hard)
        if found is not None:
            return [(rule.variables, clauses) for clauses in found]
        types = dict(rule.variables + rule.bound)
        for node in subformulas(rule.formula):
            if isinstance(node, CountExists) and not self.is_kept(node, types):
                name = node.variables[0]
                types |= dict.fromkeys(name_copies(name, node.bound + 1), types[name])

        def keep(node: CountExists) -> bool:
            return self.is_kept(node, types)

        formula = rewrite(rule.formula, keep)
        return [
            (
                rule.variables + tuple((name, types[name]) for name in names),
                tuple(self.clause(cube, types) for cube in disjoint_cubes(part, False)),
            )
            for names, part in (split_hard(formula) if rule.hard else (((), formula),))
        ]

    def is_kept(self, node: CountExists, types: dict[str, str]) -> bool:
        return self.keep is not None and self.keep(node, types[node.variables[0]])

    def clause(self, cube: tuple[SignedLeaf, ...], types: dict[str, str]) -> Clause:
        """Return the negation of a cube."""
        found = self.cube(tuple((leaf, not sign) for leaf, sign in cube), types)
        return Clause(found.literals, found.conditions)

    def cube(self, leaves: tuple[SignedLeaf, ...], types: dict[str, str]) -> Cube:
        literals: list[Literal] = []
        conditions: list[Condition] = []
        for leaf, sign in leaves:
            match leaf:
                case Atom(predicate, terms):
                    literals.append(Literal(predicate, tuple(map(simple_term, terms)), sign))
                case Comparison():
                    conditions.append(make_condition(leaf, sign))
                case Exists() | CountExists():
                    literals.append(self.derived(leaf, sign, types))
        return Cube(tuple(literals), tuple(conditions))

    def derived(self, formula: Exists | CountExists, sign: bool, types: dict[str, str]) -> Literal:
        """Return the literal of a quantified part; define its predicate at its first occurrence."""
        variables = tuple((name, types[name]) for name in free_variables(formula))
        terms = tuple(Variable(name) for name, _ in variables)
        predicate = self.known.get((formula, variables))
        if predicate is None:
            bound = tuple((name, types[name]) for name in formula.variables)
            low, high = 1, None
            parts = formula.body.parts if isinstance(formula.body, Or) else (formula.body,)
            if isinstance(formula, CountExists):
                low, high = formula.bound, formula.bound if formula.operator == "=" else None
                parts = (formula.body,)  # its cubes are disjoint
            cubes = tuple(
                self.cube(cube, types) for part in parts for cube in disjoint_cubes(part, True)
            )
            predicate = Predicate(self.fresh_name(), tuple(t for _, t in variables))
            self.definitions.append(Definition(predicate, variables, bound, cubes, low, high))
            self.known[formula, variables] = predicate
        return Literal(predicate.name, terms, sign)

    def fresh_name(self) -> str:
        number = len(self.definitions) + 1
        while (name := f"_exists_{number}") in self.taken:
            number += 1
        self.taken.add(name)
        return name


def make_condition(comparison: Comparison, sign: bool) -> Condition:
    """Return the condition of a comparison with = or <, or of its negation."""
    left, right = simple_term(comparison.left), comparison.right
    offset = right.amount if isinstance(right, Offset) else 0
    plain = simple_term(right.variable if isinstance(right, Offset) else right)
    if comparison.operator == "=":
        return Condition("=" if sign else "!=", left, plain, offset)
    return Condition("<" if sign else ">=", left, plain, offset)


def is_constant(formula: Formula) -> bool | None:
    """Return the truth value of a formula that is the same in all worlds, otherwise None.

    Comparisons are taken as independent, even if they contradict each other.
    """
    values = truth_values(rewrite(formula))
    return values.pop() if len(values) == 1 else None


SignedLeaf = tuple[Formula, bool]
SignedCube = tuple[SignedLeaf, ...]
Diagram = dict[Formula, tuple[Formula, Formula, Formula]]  # remainder: (leaf, if true, if false)

MAX_CUBES = 4096
MAX_SPLITS = 4096


def disjoint_cubes(formula: Formula, value: bool) -> tuple[SignedCube, ...]:
    """Return disjoint cubes whose union is the set of worlds with this truth value.

    Raises TooLarge if there are more than MAX_CUBES.
    """
    formula = simplify(formula)
    if (plain := cubes_of_literals(formula, value)) is not None:
        return plain
    diagram: Diagram = {}
    build_diagram(formula, diagram)
    number: dict[Formula, int] = {Truth(value): 1, Truth(not value): 0}
    for rest, (_, high, low) in diagram.items():
        number[rest] = number[high] + number[low]
    if number[formula] > MAX_CUBES:
        raise too_many_clauses(f"{number[formula]:,}")
    cubes: dict[Formula, list[SignedCube]] = {Truth(value): [()], Truth(not value): []}
    for rest, (leaf, high, low) in diagram.items():
        cubes[rest] = [((leaf, True), *cube) for cube in cubes[high]]
        cubes[rest] += [((leaf, False), *cube) for cube in cubes[low]]
    return tuple(cubes[formula])


def cubes_of_literals(formula: Formula, value: bool) -> tuple[SignedCube, ...] | None:
    """Return the cubes of a disjunction or conjunction of different literals, without a diagram."""
    if not isinstance(formula, And | Or):
        return None
    parts = [(p.body, False) if isinstance(p, Not) else (p, True) for p in formula.parts]
    different = {leaf for leaf, _ in parts}
    if len(different) < len(parts) or not all(map(is_leaf, different)):
        return None
    decides = isinstance(formula, Or)  # a literal of this value gives it to the formula
    if value == decides and len(parts) > MAX_CUBES:
        raise too_many_clauses(f"{len(parts):,}")
    passed = tuple((leaf, sign != decides) for leaf, sign in parts)
    if value != decides:
        return (passed,)
    first: list[SignedCube] = []  # in the order of the diagram: true leaves before false ones
    last: list[SignedCube] = []
    for at, (leaf, sign) in enumerate(passed):
        (last if sign else first).append((*passed[:at], (leaf, not sign)))
    return (*first, *reversed(last))


def truth_values(formula: Formula) -> set[bool]:
    """Return the truth values that a formula takes; both if it is too large to split."""
    formula = simplify(formula)
    diagram: Diagram = {}
    try:
        build_diagram(formula, diagram)
    except TooLarge:
        return {True, False}
    sides = [formula, *(side for _, high, low in diagram.values() for side in (high, low))]
    return {side.value for side in sides if isinstance(side, Truth)}


def too_many_clauses(number: str) -> TooLarge:
    return TooLarge(
        f"{number} clauses; at most {MAX_CUBES:,} are possible",
        code="too-many-clauses",
        hint="introduce a predicate for a part of it, defined by a hard equivalence",
    )


def build_diagram(formula: Formula, diagram: Diagram) -> None:
    """Add the remainders of a formula, and then the formula, to the diagram.

    It uses a list as its stack: a path is as long as the number of leaves, which may be thousands.
    """
    begun: Diagram = {}
    waiting = [formula]
    while waiting:
        rest = waiting[-1]
        if isinstance(rest, Truth) or rest in diagram:
            waiting.pop()
        elif rest in begun:
            diagram[waiting.pop()] = begun[rest]
        elif len(begun) >= MAX_SPLITS:
            raise too_many_clauses(f"more than {MAX_SPLITS:,}")
        else:
            leaf, sides = choose_leaf(rest)
            begun[rest] = leaf, sides[True], sides[False]
            waiting += [sides[False], sides[True]]


def choose_leaf(formula: Formula) -> tuple[Formula, dict[bool, Formula]]:
    """Return the first leaf that decides one side, or the first leaf, with both remainders."""
    first: tuple[Formula, dict[bool, Formula]] | None = None
    for leaf in list_leaves(formula):
        sides = {sign: simplify(assign_leaf(formula, leaf, sign)) for sign in (True, False)}
        if isinstance(sides[True], Truth) or isinstance(sides[False], Truth):
            return leaf, sides
        first = first or (leaf, sides)
    assert first is not None
    return first


def list_leaves(formula: Formula) -> dict[Formula, None]:
    """Return the different atoms, comparisons and quantified parts in reading order."""
    if is_leaf(formula):
        return {formula: None}
    return {leaf: None for child in children(formula) for leaf in list_leaves(child)}


def assign_leaf(formula: Formula, leaf: Formula, value: bool) -> Formula:
    if formula == leaf:
        return Truth(value)
    if is_leaf(formula):
        return formula
    return map_children(formula, lambda child: assign_leaf(child, leaf, value))
