"""Cells and pair tables: the 1-types of one element, and the 2-types of a pair.

A 1-type of an element a gives the truth values of its unary atoms P(a) and loops R(a, a).
Two-variable formulas depend on some of these only. Elements with the same values of those, and the
same requirements, are of one `CellKind`; all other atoms are summed into the weight of a `Cell`.

A requirement "the number of b with φ(a, b) is (=, ≤, ≥) k" is a signed sum of requirements that are
tracked (a number of witnesses is still missing) or free (nothing is required):

    [≥ k] = free − [≤ k−1],    [≠ k] = free − [= k],    [> k] = free − [≤ k].

For ∃ this is the Skolemisation with weight −1 of Van den Broeck, Meert and Darwiche (2014,
"Skolemization for weighted first-order model counting"): free, minus "there is no b". Only = and ≤
with k > 0 are counted down as pairs are related, and never from more than k.

Weights are sums of monomials in the parameters, so that one table serves all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Truth,
    Variable,
    atoms,
)
from lapis.lifted.cells.sentence import HARD, CellFormula, CountedDefinition, Sentence

MAX_ATOMS = 18  # 2^MAX_ATOMS assignments are listed

Monomials = Mapping[tuple[int, ...], int]  # exponents of the parameters → coefficient
Vector = tuple[int, ...]
PlacedAtom = tuple[str, int, int]  # a predicate and the side (0 or 1) of its first, last argument


class Requirement(NamedTuple):
    sign: int
    tracked: str  # "" for free, "=" or "<="
    missing: int  # witnesses


FREE = Requirement(1, "", 0)


class CellKind(NamedTuple):
    group: int
    seen: tuple[bool, ...]  # values of the atoms that two-variable formulas depend on
    tracked: tuple[str, ...]  # `Requirement.tracked` of each counted quantity


class Cell(NamedTuple):
    kind: int
    missing: Vector  # witnesses, for each counted quantity
    totals: Vector  # that the element alone adds to each total
    weight: Monomials


class PairState(NamedTuple):
    """One way to relate two elements."""

    first: Vector  # witnesses that the first element gains, for each counted quantity
    second: Vector
    totals: Vector
    weight: Monomials


class Context(NamedTuple):
    """The position of an element relative to one later in the linear order."""

    distance: int = 0  # 0: larger than that of any predicate
    closes: bool = False  # the earlier is the first element, the later the last
    neighbour: int = 0  # in a second order: 1 if the later is next after the earlier, -1 before it


CellKey = tuple[CellKind, Vector, Vector]  # kind, missing, totals


class AtomAssignments:
    """All assignments to the unknown atoms about one or two elements, one row each."""

    def __init__(
        self, tables: CellTables, values: Mapping[PlacedAtom, bool | None], subject: str
    ) -> None:
        sentence = tables.sentence
        self.sentence, self.propositions = sentence, tables.propositions
        unknown = [atom for atom, value in values.items() if value is None]
        if len(unknown) > MAX_ATOMS:
            raise TooLarge(
                f"{len(unknown)} atoms about {subject} are unknown, and at most {MAX_ATOMS} can be "
                "enumerated",
                code="cells",
            )
        self.num_rows = 1 << len(unknown)
        rows = np.arange(self.num_rows)
        self.column = {a: np.array(value) for a, value in values.items() if value is not None}
        self.column |= {a: (rows >> i & 1).astype(np.bool_) for i, a in enumerate(unknown)}
        self.possible = np.ones(self.num_rows, np.bool_)
        self.exponents = np.zeros((self.num_rows, len(sentence.parameters)), np.int64)
        self.totals = np.zeros((self.num_rows, len(sentence.totals)), np.int64)

    def evaluate(self, formula: Formula, side: Mapping[str, int]) -> np.ndarray:
        """Return bool[num_rows]; `side` gives the element that each variable stands for."""

        def value(atom: Atom) -> np.ndarray:
            sides = [side[name] for name in atom_variables(atom)]
            if not sides:
                return np.array(self.propositions[atom.predicate])
            return self.column[atom.predicate, sides[0], sides[-1]]

        return evaluate_formula(formula, value, side)

    def apply_factor(self, factor: CellFormula, side: Mapping[str, int]) -> None:
        holds = self.evaluate(factor.formula, side)
        if factor.parameter == HARD:
            self.possible &= holds
        else:
            self.exponents[:, factor.parameter] += factor.times * holds.astype(np.int64)

    def apply_atom(self, atom: PlacedAtom) -> None:
        """Add the literal weights of an atom, and its coefficients in totals."""
        name, value = atom[0], self.column[atom].astype(np.int64)
        if name in self.sentence.literal_parameters:
            if_true, if_false = self.sentence.literal_parameters[name]
            self.exponents[:, if_true] += value
            self.exponents[:, if_false] += 1 - value
        for index, total in enumerate(self.sentence.totals):
            for coefficient, predicate in total.parts:
                if predicate == name:
                    self.totals[:, index] += coefficient * value

    def distinct_rows(self, *columns: np.ndarray) -> Iterator[tuple[list[Vector], int]]:
        """Yield the distinct rows of the columns, totals and exponents, with multiplicities."""
        blocks = [*columns, self.totals, self.exponents]
        ends = np.cumsum([block.shape[1] for block in blocks]).tolist()
        matrix = np.concatenate(blocks, axis=1).astype(np.int64)[self.possible]
        if not matrix.shape[1]:  # numpy does not count empty rows
            rows, times = matrix[:1].tolist(), [len(matrix)]
        else:
            found = np.unique(matrix, axis=0, return_counts=True)
            rows, times = (array.tolist() for array in found)
        for row, number in zip(rows, times, strict=False):
            yield [tuple(row[a:b]) for a, b in zip([0, *ends], ends, strict=False)], number


@dataclass
class CellTables:
    """The cells of a sentence whose propositions are decided, and its pair tables."""

    sentence: Sentence
    propositions: Mapping[str, bool]
    kinds: list[CellKind] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)  # by group: predicates of `CellKind.seen`

    def __post_init__(self) -> None:
        self.counted = [c for c in self.sentence.counted if c.of is not None]
        self._pair_states: dict[tuple[int, int, Context | None], list[PairState]] = {}
        groups = range(len(self.sentence.groups))
        self.seen = [self.find_seen(group) for group in groups]
        number: dict[CellKind, int] = {}
        for group in groups:
            for (kind, missing, totals), weight in self.build_cells(group).items():
                weight = {monomial: times for monomial, times in weight.items() if times}
                if weight:
                    index = number.setdefault(kind, len(number))
                    self.cells.append(Cell(index, missing, totals, weight))
        self.kinds = list(number)

    def find_seen(self, group: int) -> list[str]:
        """Return the predicates of one element in formulas about two."""
        bodies = [f.formula for f in self.sentence.factors if len(f.variables) == 2]
        bodies += [c.body for c in self.counted]
        return sorted(
            {
                atom.predicate
                for body in bodies
                for atom in atoms(body)
                if atom.terms and len(set(atom_variables(atom))) == 1
                if group in self.sentence.reach[atom_variables(atom)[0]]
            }
        )

    def build_cells(self, group: int) -> dict[CellKey, dict[Vector, int]]:
        """Sum the 1-types of a group's elements into cells."""
        sentence, reach = self.sentence, self.sentence.reach
        found = AtomAssignments(
            self,
            {
                (name, 0, 0): self.known_loop(name, group, len(places))
                for name, places in sentence.places.items()
                if places and all(group in place for place in places)
            },
            f"an element of type {sentence.groups[group].type!r}",
        )
        for factor in sentence.factors:
            if factor.variables and all(group in reach[v] for v in factor.variables):
                found.apply_factor(factor, dict.fromkeys(factor.variables, 0))
        for atom in found.column:
            found.apply_atom(atom)
        seen = np.zeros((found.num_rows, len(self.seen[group])), np.int64)
        for place, name in enumerate(self.seen[group]):
            seen[:, place] = found.column[name, 0, 0]
        cells: dict[CellKey, dict[Vector, int]] = {}
        columns = seen, *self.count_own(found, group)
        for (seen_row, own, required, totals, exponents), times in found.distinct_rows(*columns):
            requirements = [
                self.list_requirements(counted, group, bool(required[q]), own[q])
                for q, counted in enumerate(self.counted)
            ]
            for chosen in product(*requirements):
                sign = int(np.prod([each.sign for each in chosen], dtype=np.int64))
                tracked = tuple(each.tracked for each in chosen)
                kind = CellKind(group, tuple(map(bool, seen_row)), tracked)
                key = kind, tuple(each.missing for each in chosen), totals
                cell = cells.setdefault(key, {})
                cell[exponents] = cell.get(exponents, 0) + sign * times
        return cells

    def count_own(self, found: AtomAssignments, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Return int64[num_rows, num_counted] twice: own witnesses, and whether it is required."""
        reach = self.sentence.reach
        own = np.zeros((found.num_rows, len(self.counted)), np.int64)
        required = np.ones_like(own)
        for q, counted in enumerate(self.counted):
            assert counted.of is not None
            if group in reach[counted.of]:
                if counted.predicate is not None:
                    required[:, q] = found.column[counted.predicate, 0, 0]
                if group in reach[counted.counted]:
                    own[:, q] = found.evaluate(counted.body, {counted.of: 0, counted.counted: 0})
        return own, required

    def list_requirements(
        self, counted: CountedDefinition, group: int, is_required: bool, own: int
    ) -> list[Requirement]:
        """Return the requirements of an element of the group, as `split_requirement` does."""
        assert counted.of is not None
        reach = self.sentence.reach
        if group not in reach[counted.of]:
            return [FREE]
        others = self.sentence.num_elements(reach[counted.counted])
        others -= group in reach[counted.counted]
        return split_requirement(counted, is_required, own, others)

    def pair_states(
        self, first: int, second: int, context: Context | None = None
    ) -> list[PairState]:
        """Return the ways to relate elements of two kinds; with an order, the second is later."""
        key = first, second, context
        if key not in self._pair_states:
            pair = self.kinds[first], self.kinds[second]
            self._pair_states[key] = self.build_pair_states(pair, context)
        return self._pair_states[key]

    def build_pair_states(
        self, pair: tuple[CellKind, CellKind], context: Context | None
    ) -> list[PairState]:
        """Sum the 2-types of two elements that agree in witnesses and totals."""
        values: dict[PlacedAtom, bool | None] = {
            (name, i, j): self.known_pair(name, pair[i].group, pair[j].group, (i, j), context)
            for name, places in self.sentence.places.items()
            if len(places) == 2
            for i, j in ((0, 1), (1, 0))
            if pair[i].group in places[0] and pair[j].group in places[1]
        }
        between = list(values)
        for side, kind in enumerate(pair):
            for name, value in zip(self.seen[kind.group], kind.seen, strict=True):
                values[name, side, side] = value
        found = AtomAssignments(self, values, "two elements")
        for factor in self.sentence.factors:
            if len(factor.variables) == 2:
                for sides in self.list_sides(*factor.variables, pair):
                    found.apply_factor(factor, sides)
        for atom in between:
            found.apply_atom(atom)
        states: dict[tuple[Vector, Vector, Vector], dict[Vector, int]] = {}
        gained = self.count_gained(found, pair)
        for (first, second, totals, exponents), times in found.distinct_rows(*gained):
            states.setdefault((first, second, totals), {})[exponents] = times
        return [PairState(*key, weight) for key, weight in states.items()]

    def count_gained(
        self, found: AtomAssignments, pair: tuple[CellKind, CellKind]
    ) -> list[np.ndarray]:
        """Return int64[num_rows, num_counted] for each of two elements: witnesses gained."""
        gained = [np.zeros((found.num_rows, len(self.counted)), np.int64) for _ in pair]
        for q, counted in enumerate(self.counted):
            assert counted.of is not None
            for sides in self.list_sides(counted.of, counted.counted, pair):
                side = sides[counted.of]
                if pair[side].tracked[q]:
                    gained[side][:, q] = found.evaluate(counted.body, sides)
        return gained

    def list_sides(
        self, x: str, y: str, pair: tuple[CellKind, CellKind]
    ) -> Iterator[dict[str, int]]:
        """Yield the assignments of two variables to the two elements, one each."""
        for i, j in ((0, 1), (1, 0)):
            if pair[i].group in self.sentence.reach[x] and pair[j].group in self.sentence.reach[y]:
                yield {x: i, y: j}

    def known_loop(self, name: str, group: int, arity: int) -> bool | None:
        """Return the known value of P(a), or of R(a, a)."""
        sentence, members = self.sentence, self.sentence.groups[group]
        if arity == 1:
            return members.known.get(name)
        if sentence.order and name in sentence.order.names:
            alone = sentence.num_elements(sentence.places[name][0]) == 1
            return name == sentence.order.predicate or (name in sentence.order.circular and alone)
        return self.known_constants(name, members.constant, members.constant)

    def known_pair(
        self, name: str, first: int, second: int, sides: tuple[int, int], context: Context | None
    ) -> bool | None:
        """Return the known value of R(a, b) for elements of two groups."""
        order = self.sentence.order
        if order and name in order.names:
            assert context is not None
            if name == order.predicate:
                return sides == (0, 1)
            if name in order.path:
                return context.neighbour == (1 if sides == (0, 1) else -1)
            if sides == (1, 0):
                return name in order.circular and context.closes
            return context.distance == order.distance.get(name, 1)
        groups = self.sentence.groups
        return self.known_constants(name, groups[first].constant, groups[second].constant)

    def known_constants(self, name: str, first: str | None, second: str | None) -> bool | None:
        known, unknown = self.sentence.known_pairs, self.sentence.unknown_pairs
        if first is not None and second is not None:
            if (name, first, second) in known:
                return known[name, first, second]
            if (name, first, second) in unknown:
                return None
        return False if name in self.sentence.closed else None


def split_requirement(
    counted: CountedDefinition, is_required: bool, own: int, others: int
) -> list[Requirement]:
    """Write a requirement, or its negation, as a signed sum of tracked and free ones.

    `own` is the number of witnesses so far, `others` the number of further candidates.
    """
    operator, bound = counted.operator, counted.bound
    if operator == ">=":
        operator, bound, is_required = "<=", bound - 1, not is_required
    left = bound - own
    if left < 0 or (operator == "=" and left > others):
        simple: list[Requirement] = []
    elif operator == "<=" and left >= others:
        simple = [FREE]
    else:
        simple = [Requirement(1, operator if left else "=", left)]
    return simple if is_required else [FREE, *(each._replace(sign=-each.sign) for each in simple)]


def evaluate_formula(
    formula: Formula, value: Callable[[Atom], np.ndarray], side: Mapping[str, int]
) -> np.ndarray:
    """Return the rows in which a formula is true; variables of equal sides are equal."""

    def visit(node: Formula) -> np.ndarray:
        found: np.ndarray
        match node:
            case Atom():
                found = value(node)
            case Comparison(_, Variable(left), Variable(right)):
                found = np.array(side[left] == side[right])
            case Truth(truth):
                found = np.array(truth)
            case Not(body):
                found = ~visit(body)
            case And(parts):
                found = reduce(and_, map(visit, parts), np.array(True))
            case Or(parts):
                found = reduce(or_, map(visit, parts), np.array(False))
            case Implies(premise, conclusion):
                found = ~visit(premise) | visit(conclusion)
            case Iff(left_side, right_side):
                found = np.asarray(visit(left_side) == visit(right_side))
            case _:
                raise AssertionError(node)
        return found

    return visit(formula)


def atom_variables(atom: Atom) -> list[str]:
    return [term.name for term in atom.terms if isinstance(term, Variable)]
