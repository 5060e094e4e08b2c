"""Cells and pair tables: what one element can be, and what two can be to each other.

A 1-type says of an element a which unary atoms P(a) and loops R(a, a) are true. Two-variable
formulas see only some of these; elements alike in what they see, and in what is still required of
them, are of one `CellKind`, and the rest is summed into the weight of a `Cell`.

A requirement "the number of b with φ(a, b) is (=, ≤, ≥) k" is a signed sum of two simple ones, that
so many are left to come (tracked) and none (free):

    [≥ k] = free − [≤ k−1],    [≠ k] = free − [= k],    [> k] = free − [≤ k].

For ∃ this is Skolemisation with weight −1 (Van den Broeck, Meert and Darwiche 2014): free, minus
"no b at all". Only = and ≤ with k > 0 need to be counted down as pairs are decided, and then never
more than k.

Weights stay symbolic, as sums of monomials in the parameters, so that one table serves all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from operator import and_, or_
from typing import Any, NamedTuple, TypeVar

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

FREE = (1, "", 0)
MAX_ATOMS = 18  # 2^MAX_ATOMS 1-types, or ways of two elements to be related

Monomials = Mapping[tuple[int, ...], int]  # exponents of the parameters: how often
Vector = tuple[int, ...]
Key = TypeVar("Key")


class CellKind(NamedTuple):
    group: int
    seen: tuple[bool, ...]  # truth values of what two-variable formulas see of an element
    tracked: tuple[str, ...]  # for each counted quantity: "" free, "=" or "<=" so many to come


class Cell(NamedTuple):
    kind: int
    to_come: Vector  # for each counted quantity
    totals: Vector  # what the element alone adds to each total
    weight: Monomials


class PairState(NamedTuple):
    """One way for two elements to be related."""

    first: Vector  # what it counts for the first element's quantities
    second: Vector
    totals: Vector
    weight: Monomials


class Context(NamedTuple):
    """How an element lies to one that comes later in the linear order."""

    distance: int = 0  # 0: further away than any predicate asks
    closes: bool = False  # the earlier is the first of all, the later the last
    neighbour: int = 0  # in another order: 1 if the later comes next to the earlier, -1 before it


@dataclass
class CellTables:
    """The cells of a sentence whose propositions are decided, and its pair tables."""

    sentence: Sentence
    propositions: Mapping[str, bool]
    kinds: list[CellKind] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)  # for each group, the predicates seen

    def __post_init__(self) -> None:
        self.counted = [c for c in self.sentence.counted if c.of is not None]
        self._outcomes: dict[tuple[int, int, Context | None], list[PairState]] = {}
        self.seen = [self.seen_of(group) for group in range(len(self.sentence.groups))]
        number: dict[CellKind, int] = {}
        for group in range(len(self.sentence.groups)):
            for (kind, to_come, totals), weight in self.one_types(group).items():
                weight = {monomial: times for monomial, times in weight.items() if times}
                if weight:
                    index = number.setdefault(kind, len(number))
                    self.cells.append(Cell(index, to_come, totals, weight))
        self.kinds = list(number)

    def seen_of(self, group: int) -> list[str]:
        """Predicates of one element in formulas about two."""
        reach = self.sentence.reach
        bodies = [f.formula for f in self.sentence.factors if len(f.variables) == 2]
        bodies += [c.body for c in self.counted]
        return sorted(
            {
                atom.predicate
                for body in bodies
                for atom in atoms(body)
                if atom.terms and len(set(names_of(atom))) == 1
                if group in reach[names_of(atom)[0]]
            }
        )

    def one_types(self, group: int) -> dict[tuple[CellKind, Vector, Vector], dict[Vector, int]]:
        """The 1-types of a group's elements, those alike taken together."""
        sentence = self.sentence
        members = sentence.groups[group]
        open_atoms: list[str] = []
        column: dict[str, np.ndarray] = {}
        for name, places in sentence.places.items():
            if places and all(group in place for place in places):
                value = self.known_loop(name, group, len(places))
                if value is None:
                    open_atoms.append(name)
                else:
                    column[name] = np.array(value)
        column |= columns(open_atoms, f"elements of type {members.type!r}")
        rows = 1 << len(open_atoms)
        good, exponents, totals = self.start(rows)

        def atom(found: Atom) -> np.ndarray:
            return column[found.predicate] if found.terms else self.proposition(found)

        for factor in sentence.factors:
            if factor.variables and all(group in sentence.reach[v] for v in factor.variables):
                held = truth(factor.formula, atom, dict.fromkeys(factor.variables, 0))
                apply(factor, held, good, exponents)
        for name in column:
            self.weigh(name, column[name], exponents, totals)
        own = np.zeros((rows, len(self.counted)), np.int64)
        asked = np.ones((rows, len(self.counted)), np.int64)
        for q, counted in enumerate(self.counted):
            assert counted.of is not None
            if group in sentence.reach[counted.of]:
                if counted.predicate is not None:
                    asked[:, q] = column[counted.predicate]
                if group in sentence.reach[counted.counted]:
                    places_ = {counted.of: 0, counted.counted: 0}
                    own[:, q] = truth(counted.body, atom, places_)
        seen = [np.broadcast_to(column[name], rows) for name in self.seen[group]]
        matrix = np.column_stack([*seen, totals, own, asked, exponents]).astype(np.int64)[good]
        return self.gather(group, matrix)

    def gather(
        self, group: int, matrix: np.ndarray
    ) -> dict[tuple[CellKind, Vector, Vector], dict[Vector, int]]:
        """Rows (seen, totals, own, asked, exponents) to cells."""
        sizes = [len(self.seen[group]), len(self.sentence.totals), *[len(self.counted)] * 2]
        ends = np.cumsum(sizes).tolist()
        found: dict[tuple[CellKind, Vector, Vector], dict[Vector, int]] = {}
        for row, times in unique_rows(matrix):
            seen, totals = tuple(map(bool, row[: ends[0]])), row[ends[0] : ends[1]]
            own, asked, exponents = row[ends[1] : ends[2]], row[ends[2] : ends[3]], row[ends[3] :]
            choices = [
                self.requirement(counted, group, bool(asked[q]), own[q])
                for q, counted in enumerate(self.counted)
            ]
            for chosen in product(*choices):
                sign = int(np.prod([c[0] for c in chosen], dtype=np.int64))
                kind = CellKind(group, seen, tuple(c[1] for c in chosen))
                to_come = tuple(c[2] for c in chosen)
                cell = found.setdefault((kind, to_come, totals), {})
                cell[exponents] = cell.get(exponents, 0) + sign * times
        return found

    def requirement(
        self, counted: CountedDefinition, group: int, asked: bool, own: int
    ) -> list[tuple[int, str, int]]:
        """What an element of the group must meet, as in `split_requirement`."""
        assert counted.of is not None
        reach = self.sentence.reach
        if group not in reach[counted.of]:
            return [FREE]
        others = self.sentence.num_elements(reach[counted.counted])
        others -= group in reach[counted.counted]
        return split_requirement(counted, asked, own, others)

    def outcomes(self, first: int, second: int, context: Context | None = None) -> list[PairState]:
        """How elements of two kinds can be related, the second later if there is an order."""
        key = first, second, context
        if key not in self._outcomes:
            self._outcomes[key] = self.relate(self.kinds[first], self.kinds[second], context)
        return self._outcomes[key]

    def relate(self, first: CellKind, second: CellKind, context: Context | None) -> list[PairState]:
        sentence = self.sentence
        pair = first, second
        column: dict[tuple[str, int, int], np.ndarray] = {}
        open_atoms: list[tuple[str, int, int]] = []
        for name, places in sentence.places.items():
            for i, j in ((0, 1), (1, 0)):
                if len(places) != 2 or not (
                    pair[i].group in places[0] and pair[j].group in places[1]
                ):
                    continue
                value = self.known_pair(name, pair[i].group, pair[j].group, (i, j), context)
                if value is None:
                    open_atoms.append((name, i, j))
                else:
                    column[name, i, j] = np.array(value)
        column |= columns(open_atoms, "pairs of elements")
        rows = 1 << len(open_atoms)
        good, exponents, totals = self.start(rows)
        for side, kind in enumerate(pair):
            for name, value in zip(self.seen[kind.group], kind.seen, strict=True):
                column[name, side, side] = np.array(value)
        counts = [np.zeros((rows, len(self.counted)), np.int64) for _ in pair]

        def evaluate(formula: Formula, place: Mapping[str, int]) -> np.ndarray:
            def atom(found: Atom) -> np.ndarray:
                sides = [place[name] for name in names_of(found)]
                if not sides:
                    return self.proposition(found)
                return column[found.predicate, sides[0], sides[-1]]

            return truth(formula, atom, place)

        for factor in sentence.factors:
            if len(factor.variables) == 2:
                for place in self.placements(*factor.variables, pair):
                    apply(factor, evaluate(factor.formula, place), good, exponents)
        for q, counted in enumerate(self.counted):
            assert counted.of is not None
            for place in self.placements(counted.of, counted.counted, pair):
                side = place[counted.of]
                if pair[side].tracked[q]:
                    counts[side][:, q] = evaluate(counted.body, place)
        for name, i, j in column:
            if i != j:
                self.weigh(name, column[name, i, j], exponents, totals)
        matrix = np.column_stack([*counts, totals, exponents]).astype(np.int64)[good]
        grouped: dict[tuple[Vector, Vector, Vector], dict[Vector, int]] = {}
        n, t = len(self.counted), len(sentence.totals)
        for row, times in unique_rows(matrix):
            head = row[:n], row[n : 2 * n], row[2 * n : 2 * n + t]
            grouped.setdefault(head, {})[row[2 * n + t :]] = times
        return [PairState(*head, weight) for head, weight in grouped.items()]

    def placements(
        self, x: str, y: str, pair: tuple[CellKind, CellKind]
    ) -> Iterator[dict[str, int]]:
        """The ways in which two variables can stand for the two elements, one each."""
        for i, j in ((0, 1), (1, 0)):
            if pair[i].group in self.sentence.reach[x] and pair[j].group in self.sentence.reach[y]:
                yield {x: i, y: j}

    def start(self, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which rows are possible, exponents of parameters and totals of each."""
        sentence = self.sentence
        return (
            np.ones(rows, np.bool_),
            np.zeros((rows, len(sentence.parameters)), np.int64),
            np.zeros((rows, len(sentence.totals)), np.int64),
        )

    def weigh(
        self, name: str, value: np.ndarray, exponents: np.ndarray, totals: np.ndarray
    ) -> None:
        """What a predicate's atom adds to the exponents of its parameters and to totals."""
        if name in self.sentence.literal_parameters:
            if_true, if_false = self.sentence.literal_parameters[name]
            exponents[:, if_true] += value
            exponents[:, if_false] += 1 - value.astype(np.int64)
        for index, total in enumerate(self.sentence.totals):
            for coefficient, predicate in total.parts:
                if predicate == name:
                    totals[:, index] += coefficient * value.astype(np.int64)

    def proposition(self, atom: Atom) -> np.ndarray:
        return np.array(self.propositions[atom.predicate])

    def known_loop(self, name: str, group: int, arity: int) -> bool | None:
        """What is known of P(a), or of R(a, a)."""
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
    counted: CountedDefinition, asked: bool, own: int, others: int
) -> list[tuple[int, str, int]]:
    """(sign, tracked, to come) whose sum is that the number is as asked, or is not.

    `own` is what counts already, `others` how many may.
    """
    operator, bound = counted.operator, counted.bound
    if operator == ">=":
        operator, bound, asked = "<=", bound - 1, not asked
    left = bound - own
    if left < 0 or (operator == "=" and left > others):
        simple: list[tuple[int, str, int]] = []
    elif operator == "<=" and left >= others:
        simple = [FREE]
    else:
        simple = [(1, operator if left else "=", left)]
    return simple if asked else [FREE, *((-sign, t, n) for sign, t, n in simple)]


def columns(open_atoms: list[Key], where: str) -> dict[Key, np.ndarray]:
    """All truth values of the atoms: bool[2^number] each."""
    if len(open_atoms) > MAX_ATOMS:
        raise TooLarge(
            f"{len(open_atoms)} atoms are open for {where}, and at most {MAX_ATOMS} can be listed",
            code="cells",
        )
    rows = np.arange(1 << len(open_atoms))
    return {key: (rows >> i & 1).astype(np.bool_) for i, key in enumerate(open_atoms)}


def apply(factor: CellFormula, held: np.ndarray, good: np.ndarray, exponents: np.ndarray) -> None:
    if factor.parameter == HARD:
        good &= held
    else:
        exponents[:, factor.parameter] += factor.times * held.astype(np.int64)


def truth(
    formula: Formula, atom: Callable[[Atom], np.ndarray], place: Mapping[str, int]
) -> np.ndarray:
    """Where a formula holds; `place` says which element a variable stands for."""

    def visit(node: Formula) -> Any:
        match node:
            case Atom():
                return atom(node)
            case Comparison(_, Variable(left), Variable(right)):
                return np.array(place[left] == place[right])
            case Truth(value):
                return np.array(value)
            case Not(body):
                return ~visit(body)
            case And(parts):
                return reduce(and_, map(visit, parts), np.array(True))
            case Or(parts):
                return reduce(or_, map(visit, parts), np.array(False))
            case Implies(premise, conclusion):
                return ~visit(premise) | visit(conclusion)
            case Iff(left_side, right_side):
                return visit(left_side) == visit(right_side)
        raise AssertionError(node)

    return np.asarray(visit(formula))


def unique_rows(matrix: np.ndarray) -> Iterator[tuple[Vector, int]]:
    if not matrix.shape[1]:
        if len(matrix):
            yield (), len(matrix)
        return
    rows, times = np.unique(matrix, axis=0, return_counts=True)
    for row, number in zip(rows.tolist(), times.tolist(), strict=True):
        yield tuple(row), number


def names_of(atom: Atom) -> list[str]:
    return [term.name for term in atom.terms if isinstance(term, Variable)]
