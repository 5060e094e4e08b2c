"""Ground counting quantifiers and cardinality constraints by sequential counters.

∃≥k y F expanded over k variables has C(n, k) groundings of n constants. A sequential counter (Sinz
2005, "Towards an Optimal CNF Encoding of Boolean Cardinality Constraints") needs n·k auxiliary
atoms. Of the literals l₁ … l_n of an instance, s(i, j) is "at least j of the first i are true":

    s(i, j) ⇔ s(i−1, j) ∨ b(i, j)        b(i, j) ⇔ l_i ∧ s(i−1, j−1)

Sinz writes implications in one direction, which is sufficient for satisfiability. Here both
directions are written, so that each world of the base atoms extends to exactly one world of the
auxiliary atoms and probabilities do not change. At least t of n literals are true iff fewer than
n − t + 1 are false; the smaller side is counted. A junction tree of one counter has tables over
about 2k variables.

∃=k is one counter to k + 1. Quantifiers of few groundings are expanded instead: they need no
auxiliary atoms, and keep the symmetry that `inference.symmetry` looks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.grounding.limits import QueryBudget
from lapis.language.model import Model, Rule
from lapis.language.printer import print_statement
from lapis.language.syntax import (
    Atom,
    Cardinality,
    ComparisonOperator,
    CountExists,
    Formula,
    Truth,
    Variable,
    subformulas,
)
from lapis.logic.clauses import Definition
from lapis.logic.normalize import normalize
from lapis.logic.passes import negate
from lapis.network.csr import row_starts
from lapis.problem.problem import Problem
from lapis.runtime.progress import check_time

FEW_GROUNDINGS = 6  # times the number of constants: expanded
PAIRS_UP_TO = 500  # constants: quantifiers that expand to pairs are expanded
UNDECIDED = -1
MIRRORED: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
CLAUSES = 3  # of an auxiliary atom over two literals
WIDTH = 7 / 3  # their average length


class Instances(NamedTuple):
    """The resolved instances of one derived predicate."""

    code: np.ndarray  # int64[num_instances], sorted
    value: np.ndarray  # int8[num_instances]: 1 true, 0 false, −1 undecided
    literal: np.ndarray  # int32[num_instances], of the undecided ones: single literal or auxiliary
    start: np.ndarray  # int64[num_instances + 1], of the rows of `member`
    member: np.ndarray  # int32[...], the disjunction of each undecided instance


class AuxiliaryGroup(NamedTuple):
    """Auxiliary atoms of one kind, consecutively numbered."""

    predicate: str
    tuples: np.ndarray  # int32[num_atoms, arity]
    start: np.ndarray  # int64[num_atoms + 1], of the rows of `member`
    member: np.ndarray  # int32[...], the disjunction that each atom is equivalent to


@dataclass
class Auxiliaries:
    """Auxiliary atoms as they are introduced; unused ones are dropped later."""

    first: int  # number of the first one
    groups: list[AuxiliaryGroup] = field(default_factory=list)
    count: int = 0

    def add(self, group: AuxiliaryGroup) -> np.ndarray:
        """Add a group and return its literals, int32[num_atoms]."""
        begin = self.first + self.count + 1
        self.count += len(group.tuples)
        self.groups.append(group)
        return np.arange(begin, begin + len(group.tuples), dtype=np.int32)


class CountedLiterals(NamedTuple):
    """The cubes that the instances of a definition count."""

    num_true: np.ndarray  # int64[num_instances], cubes that are true by evidence
    owner: np.ndarray  # int64[num_literals], the instance of each undecided cube
    literal: np.ndarray  # int32[num_literals], one for each undecided cube


def keep_counts(problem: Problem) -> Problem:
    """Return the problem with counting quantifiers in definitions, cardinalities as hard rules."""
    model = add_cardinalities(problem.model)
    nodes = [node for rule in model.rules for node in subformulas(rule.formula)]
    if model is problem.model and not any(isinstance(node, CountExists) for node in nodes):
        return problem
    sizes = {name: len(domain) for name, domain in problem.domains.items()}

    def keep(node: CountExists, type_name: str) -> bool:
        return len(node.variables) > 1 or not is_expanded(node, sizes[type_name])

    form = normalize(model, keep)
    if model is problem.model and not any(each.counts for each in form.definitions):
        return problem
    return replace(problem, model=model, normal_form=form)


def is_expanded(node: CountExists, size: int) -> bool:
    """Return whether a counting quantifier over a type of this size has few groundings."""
    copies = node.bound if node.operator == ">=" else node.bound + 1
    if copies < 2 or (copies == 2 and size <= PAIRS_UP_TO):
        return True
    return copies <= 4 and math.perm(size, copies) <= FEW_GROUNDINGS * size


def add_cardinalities(model: Model) -> Model:
    """Turn the cardinality constraints into hard rules."""
    if not model.constraints:
        return model
    rules = tuple(cardinality_rule(constraint, model) for constraint in model.constraints)
    return replace(model, rules=(*model.rules, *rules), constraints=())


def cardinality_rule(constraint: Cardinality, model: Model) -> Rule:
    """Return the hard rule of a constraint on the number of true atoms of one predicate."""
    (sign, name), *others = constraint.parts
    if others or abs(sign) != 1:
        raise LapisError(
            "only the number of true atoms of one predicate can be ground: |P| = 3",
            code="cardinality",
            span=constraint.span,
            hint="use method 'cells'",
        )
    types = model.predicates[name].types
    bound = tuple((f"{name}#{place}", type_name) for place, type_name in enumerate(types))
    names = tuple(variable for variable, _ in bound)
    atom = Atom(name, tuple(map(Variable, names)))
    operator = MIRRORED[constraint.operator] if sign < 0 else constraint.operator
    formula = compare_count(names, atom, operator, sign * constraint.bound)
    return Rule(formula, (), bound, None, True, print_statement(constraint), span=constraint.span)


def compare_count(
    names: tuple[str, ...], body: Formula, operator: ComparisonOperator, bound: int
) -> Formula:
    """Return the formula that compares the number of true instances of `body`."""

    def at_least(number: int) -> Formula:
        if number <= 0:
            return Truth(True)
        return CountExists(names, body, ">=", number)

    match operator:
        case ">=":
            return at_least(bound)
        case ">":
            return at_least(bound + 1)
        case "<":
            return negate(at_least(bound))
        case "<=":
            return negate(at_least(bound + 1))
        case "!=":
            return negate(compare_count(names, body, "=", bound))
        case "=":
            if bound > 0:
                return CountExists(names, body, "=", bound)
            return negate(at_least(1)) if bound == 0 else Truth(False)


def is_between(number: np.ndarray, definition: Definition) -> np.ndarray:
    """Return whether a definition that counts is true at these numbers of true cubes."""
    high = np.inf if definition.high is None else definition.high
    return (number >= definition.low) & (number <= high)


def count_instances(
    definition: Definition,
    demanded: np.ndarray,
    counted: CountedLiterals,
    auxiliaries: Auxiliaries,
    budget: QueryBudget,
) -> Instances:
    """Decide the instances of a definition that counts, or define them by counters."""
    num_true, owner, literal = drop_opposites(counted)
    length = np.bincount(owner, minlength=len(demanded))
    low = np.maximum(definition.low - num_true, 0)
    beyond = np.zeros(len(demanded), np.int64)  # the least number that is too large; 0: none
    is_high = np.zeros(len(demanded), bool)
    if definition.high is not None:
        beyond = np.maximum(definition.high + 1 - num_true, 0)
        is_high = beyond == 0
        beyond[beyond > length] = 0
    value = np.full(len(demanded), UNDECIDED, np.int8)
    value[(low == 0) & (beyond == 0)] = 1
    value[(low > length) | is_high] = 0
    left = np.flatnonzero(value == UNDECIDED)
    start = row_starts(length)[left]
    counter = Counter.build(start, length[left], literal, low[left], beyond[left])
    most = int(counter.length.max(initial=0))
    clauses = 2.0 * CLAUSES * float(counter.length @ counter.most)
    budget.admit_rows(clauses, WIDTH, f"a count of {most:,} atoms")
    found = counter.ground(definition.predicate.name, auxiliaries)
    literal_of = np.zeros(len(demanded), np.int32)
    literal_of[left] = found
    return Instances(demanded, value, literal_of, row_starts(value == UNDECIDED), found)


def drop_opposites(counted: CountedLiterals) -> CountedLiterals:
    """Sort by instance and literal; an atom and its negation become one true cube."""
    num_true, owner, literal = counted
    order = np.lexsort((literal, np.abs(literal), owner))
    owner, literal = owner[order], literal[order]
    is_new = np.ones(len(owner), bool)
    is_new[1:] = (owner[1:] != owner[:-1]) | (np.abs(literal[1:]) != np.abs(literal[:-1]))
    atom = np.cumsum(is_new) - 1  # of each place
    place = np.arange(len(owner))
    first = np.flatnonzero(is_new)
    size = np.bincount(atom)
    pairs = np.minimum(np.bincount(atom, literal < 0), np.bincount(atom, literal > 0))
    pairs = pairs.astype(np.int64)
    begin, end = (first + pairs)[atom], (first + size - pairs)[atom]  # negative ones are first
    keep = (place >= begin) & (place < end)
    more = np.bincount(owner[first], pairs, len(num_true)).astype(np.int64)
    return CountedLiterals(num_true + more, owner[keep], literal[keep])


@dataclass(frozen=True)
class Counter:
    """Counters of several instances, extended by one literal of each at a time.

    An instance is true if at least `low` of its literals are true, and fewer than `beyond`; a bound
    that is 0 is absent. If it is flipped, false literals are counted.
    """

    start: np.ndarray  # int64[num_instances], of the instance's literals
    length: np.ndarray  # int64[num_instances], number of literals
    literal: np.ndarray  # int32[...]
    low: np.ndarray  # int64[num_instances]
    beyond: np.ndarray  # int64[num_instances]
    is_flipped: np.ndarray  # bool[num_instances]

    @staticmethod
    def build(
        start: np.ndarray,
        length: np.ndarray,
        literal: np.ndarray,
        low: np.ndarray,
        beyond: np.ndarray,
    ) -> Counter:
        """Count true or false literals, whichever needs the smaller counter."""
        most = np.maximum(low, beyond)
        least = np.where((low == 0) | ((beyond > 0) & (beyond < low)), beyond, low)
        is_flipped = length + 1 - least < most
        # At least t of n are true iff fewer than n + 1 − t are false.
        low, beyond = (
            np.where(is_flipped & (bound > 0), length + 1 - bound, bound) for bound in (low, beyond)
        )
        return Counter(start, length, literal, low, beyond, is_flipped)

    @property
    def most(self) -> np.ndarray:
        """The largest number that each instance counts to, int64[num_instances]."""
        return np.maximum(self.low, self.beyond)

    def ground(self, name: str, auxiliaries: Auxiliaries) -> np.ndarray:
        """Add the auxiliary atoms; return the literal of each instance, int32[num_instances]."""
        width = int(self.most.max(initial=0)) + 1
        reached = np.zeros((len(self.start), width), np.int32)  # s(i, j); 0 is false
        for place in range(int(self.length.max(initial=0))):
            check_time("grounding counts")
            self._add_literal(place, reached, f"{name} counts {place + 1}", auxiliaries)
        rows = np.arange(len(self.start))
        sign = np.where(self.is_flipped, -1, 1).astype(np.int32)
        low = sign * reached[rows, self.low]
        beyond = -sign * reached[rows, self.beyond]
        both = (low != 0) & (beyond != 0)
        result = np.where(low != 0, low, beyond)
        result[both] = -disjoin(-low[both], -beyond[both], f"{name} is outside", auxiliaries)
        return result

    def _add_literal(
        self, place: int, reached: np.ndarray, name: str, auxiliaries: Auxiliaries
    ) -> None:
        """Turn s(place, j) into s(place + 1, j) for the instances that are longer."""
        active = np.flatnonzero(self.length > place)
        before = reached[active]
        literal = self.literal[self.start[active] + place]
        literal = np.where(self.is_flipped[active], -literal, literal)
        both = np.zeros_like(before)  # b(i, j)
        both[:, 1] = literal
        row, column = np.nonzero(before[:, 1:-1])
        inside = column + 2 <= self.most[active][row]
        row, column = row[inside], column[inside] + 1
        both[row, column + 1] = -disjoin(
            -literal[row], -before[row, column], f"{name} both", auxiliaries
        )
        after = np.where(before == 0, both, before)
        row, column = np.nonzero((before != 0) & (both != 0))
        after[row, column] = disjoin(before[row, column], both[row, column], name, auxiliaries)
        reached[active] = after


def disjoin(
    first: np.ndarray, second: np.ndarray, name: str, auxiliaries: Auxiliaries
) -> np.ndarray:
    """Return literals of the disjunctions of two literals each, int32[num_literals]."""
    result = first.copy()
    different = np.flatnonzero(first != second)
    if len(different):
        member = np.stack((first[different], second[different]), axis=1).ravel()
        numbers = np.arange(len(different), dtype=np.int32)[:, None]
        start = 2 * np.arange(len(different) + 1, dtype=np.int64)
        result[different] = auxiliaries.add(AuxiliaryGroup(name, numbers, start, member))
    return result
