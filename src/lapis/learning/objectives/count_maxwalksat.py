"""MaxWalkSAT by counts: the voted perceptron's most likely world without grounding.

Kautz, Selman and Jiang (1997): again and again a violated ground formula is chosen at random, and
one of its atoms is flipped, with probability `NOISE` a random one and else the one whose flip gains
most. A formula of positive weight is violated where it is false, one of negative weight where it
is true. The best world on the way is the answer. Sarkhel et al. 2016 run the search by counts and
leave out the details, for lack of space; Venugopal, Sarkhel and Gogate (2015) run it by exact
counts. Two things are needed, and both come from counts:

    a violated ground formula   a formula is chosen by its number of violated groundings, then one
                                of these: a solution of the constraint network in which the formula
                                is false (or true), drawn from the messages of IJGP(i)
    gains                       w · (n after the flip − n before it), of a `CountedWorld`: exact,
                                or estimated in either way

The groundings in which a formula of negative weight is true are the solutions of disjoint cubes, as
many as its literals or a few more (`true_clauses`).

Deviations. Where cycles make the drawn grounding only roughly uniform, the choice is too; it is a
choice at random anyway, and a drawn grounding is always a violated one. A block moves as one: its
value gives way to the one that the violated formula asks for, or to a random other one. A literal
with a quantifier stands for the atoms of one random grounding of its part. While hard rules are
broken one of their violated groundings is repaired, gains are compared by the hard groundings kept
and then by the score, and no such world is the best. It is one search of N flips, from a random
world, from the data or from where the last search ended. From the data weights of zero never move:
no formula is violated, and the data are as likely as any world.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.ijgp import IjgpCounter, IjgpSettings
from lapis.counting.ijgp.counter import plus_shape
from lapis.counting.ijgp.delta import depending
from lapis.counting.weight_keys import number_weights
from lapis.errors import TooLarge
from lapis.inference.sampling.counted_world import CountedWorld
from lapis.language.syntax import ComparisonOperator, Constant
from lapis.learning.objectives.count_walk import Sites
from lapis.logic.clauses import Clause, Condition, Feature, Literal, NormalForm, SimpleTerm
from lapis.problem.problem import Problem

NOISE = 0.5  # share of random flips
TRIES = 32  # groundings drawn where messages lead to none, before a step is given up
MAX_CUBES = 1000  # of a formula of negative weight
LEAST_GAIN = 1e-9  # of a world that counts as better

NEGATED: Mapping[ComparisonOperator, ComparisonOperator] = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


class GroundAtom(NamedTuple):
    predicate: str
    row: tuple[int, ...]


class Move(NamedTuple):
    """Atoms of one predicate that flip together."""

    predicate: str
    rows: np.ndarray  # int32[n, arity], of a block the value that goes and the one that comes


def search(
    chain: CountedWorld,
    sites: Sequence[Sites],
    problem: Problem,
    weights: np.ndarray,
    num_flips: int,
    rng: np.random.Generator,
    settings: IjgpSettings,
) -> list[Move]:
    """Leave the chain in the best world of `num_flips` flips; the moves that led there.

    The chain starts in a world that keeps the hard rules.
    """
    chain.settle()
    movable = {own.predicate.name: own for own in sites}
    violated = ViolatedGroundings(problem, chain, movable, settings)
    score = best = 0.0
    moves: list[Move] = []
    num_best = 0  # moves that led to the best world
    for _ in range(num_flips):
        if not violated.prepare(weights, broken=chain.num_broken > 0):
            break  # every formula is as its weight wants it, or evidence decides it
        atoms = dict.fromkeys(violated.draw(rng))
        options = [move for atom in atoms for move in find_moves(chain, movable, atom, rng)]
        if not options:
            continue
        gains = [chain.gain(*move, weights) for move in options]
        is_random = rng.random() < NOISE
        chosen = int(rng.integers(len(gains))) if is_random else gains.index(max(gains))
        chain.flip([options[chosen]])
        violated.follow(options[chosen], chain)
        moves.append(options[chosen])
        score += gains[chosen].score
        if score > best + LEAST_GAIN and not chain.num_broken:
            best, num_best = score, len(moves)
    undo(chain, moves[num_best:])
    return moves[:num_best]


def undo(chain: CountedWorld, moves: Sequence[Move]) -> None:
    chain.flip([(move.predicate, move.rows[::-1]) for move in reversed(moves)])


def find_moves(
    chain: CountedWorld, movable: Mapping[str, Sites], atom: GroundAtom, rng: np.random.Generator
) -> Iterator[Move]:
    """The flip of an atom, with that of its block's value; none where evidence decides it."""
    own, row = movable.get(atom.predicate), np.array(atom.row, np.int32)
    if own is None or not own.includes(row):
        return
    if own.shape is None:
        yield Move(atom.predicate, row[None])
        return
    block = own.block_around(row)
    true = np.array([chain.is_true(atom.predicate, each) for each in block.tolist()], bool)
    if chain.is_true(atom.predicate, atom.row):
        others = block[~true]
        if not own.predicate.exactly_one:
            yield Move(atom.predicate, row[None])
        if len(others):
            other = others[rng.integers(len(others))]
            yield Move(atom.predicate, np.stack([row, other]))
    else:
        yield Move(atom.predicate, np.concatenate([block[true], row[None]]))


class Violation(NamedTuple):
    """Groundings that violate a formula: those in which one of its cubes is true."""

    feature: int  # of the counter
    clause: int
    offset: int  # of the rule's weights
    shape: tuple[int, ...]  # of its plus variables
    sign: int  # of the weights for which they are violated; 0 of a hard rule


class ViolatedGroundings:
    """The violated groundings of a world's formulas, counted and drawn by IJGP.

    Only those cubes count that mention a `movable` predicate: evidence decides the others.
    """

    def __init__(
        self,
        problem: Problem,
        chain: CountedWorld,
        movable: Iterable[str],
        settings: IjgpSettings,
    ) -> None:
        self.problem = problem
        form, keys = problem.normal_form, number_weights(problem)
        moving = set(movable)
        moving |= {derived for name in movable for derived in depending(form, name)}
        false = [replace_clauses(feature, feature.clauses) for feature in form.features]
        soft = [feature for feature in form.features if not feature.hard]
        true = [replace_clauses(feature, true_clauses(feature)) for feature in soft]
        self._features = (*false, *true)
        signs = [0 if each.hard else 1 for each in form.features] + [-1] * len(true)
        self._counter = IjgpCounter(
            NormalForm(self._features, form.definitions), problem.model, problem.domains, settings
        )
        self._counter.count({name: chain.true_rows(name) for name in problem.model.predicates})
        self._violations = [
            Violation(
                number,
                clause,
                keys.of_rule[feature.rule].offset if sign else 0,
                plus_shape(feature, problem.domains) if sign else (),
                sign,
            )
            for number, (feature, sign) in enumerate(zip(self._features, signs, strict=True))
            for clause, each in enumerate(feature.clauses)
            if any(literal.predicate in moving for literal in each.literals)
        ]
        self._cumulative = np.empty(0)  # float64[num_candidates]
        self._candidates: list[tuple[Violation, np.ndarray]] = []  # with ends of their constants

    def follow(self, move: Move, chain: CountedWorld) -> None:
        """Take over the atoms of a move that was made."""
        for row in move.rows.tolist():
            value = chain.is_true(move.predicate, row)
            self._counter.assign(move.predicate, row, value)

    def prepare(self, weights: np.ndarray, *, broken: bool = False) -> bool:
        """Count the violated groundings at weights float64[num_weights]; whether there are any.

        With `broken` those of hard rules, else those of soft ones.
        """
        self._candidates.clear()
        ends = [0.0]
        for each in self._violations:
            own = weights[each.offset : each.offset + math.prod(each.shape)]
            wanted = each.sign * own > 0.0 if each.sign else np.array([True])
            if broken != (each.sign == 0) or not wanted.any():
                continue
            counts = self._counter.false_groundings(each.feature, each.clause).ravel()
            counts = np.where(wanted, counts, 0.0).cumsum()
            if counts[-1] > 0.0:
                self._candidates.append((each, counts))
                ends.append(ends[-1] + float(counts[-1]))
        self._cumulative = np.array(ends)
        return bool(self._candidates)

    def draw(self, rng: np.random.Generator) -> list[GroundAtom]:
        """The atoms of a violated ground formula; none where no grounding was found."""
        found = self.draw_grounding(rng)
        if found is None:
            return []
        feature, clause, value = found
        literals = self._features[feature].clauses[clause].literals
        return list(self._ground(literals, value, rng))

    def draw_grounding(self, rng: np.random.Generator) -> tuple[int, int, dict[str, int]] | None:
        """Draw a violated grounding: feature, clause, and values of the clause's variables.

        Features are numbered as in the normal form, then the soft ones among them, negated.
        """
        for _ in range(TRIES):
            at = rng.random() * self._cumulative[-1]
            number = int(np.searchsorted(self._cumulative, at, "right")) - 1
            violation, counts = self._candidates[min(number, len(self._candidates) - 1)]
            within = int(np.searchsorted(counts, rng.random() * counts[-1], "right"))
            plus = np.unravel_index(within, violation.shape) if violation.shape else ()
            found = self._counter.sample_false(
                violation.feature, violation.clause, tuple(map(int, plus)), rng
            )
            if found is not None:
                return violation.feature, violation.clause, found
        return None

    def _ground(
        self, literals: Sequence[Literal], value: Mapping[str, int], rng: np.random.Generator
    ) -> Iterator[GroundAtom]:
        derived, domains = self.problem.normal_form.derived, self.problem.domains
        for literal in literals:
            definition = derived.get(literal.predicate)
            if definition is None:
                types = self.problem.model.predicates[literal.predicate].types
                yield GroundAtom(literal.predicate, self._row(literal.terms, types, value))
                continue
            row = self._row(literal.terms, definition.predicate.types, value)
            inner = dict(zip((name for name, _ in definition.variables), row, strict=True))
            for name, kind in definition.bound:
                inner[name] = int(rng.integers(len(domains[kind])))
            cube = definition.cubes[rng.integers(len(definition.cubes))]
            yield from self._ground(cube.literals, inner, rng)

    def _row(
        self, terms: Sequence[SimpleTerm], types: Sequence[str], value: Mapping[str, int]
    ) -> tuple[int, ...]:
        return tuple(
            self.problem.domains[kind].index[term.name]
            if isinstance(term, Constant)
            else value[term.name]
            for term, kind in zip(terms, types, strict=True)
        )


def replace_clauses(feature: Feature, clauses: Sequence[Clause]) -> Feature:
    """A soft feature over the same variables."""
    return Feature(feature.rule, feature.variables, feature.plus, tuple(clauses), 0, hard=False)


def true_clauses(feature: Feature) -> list[Clause]:
    """Clauses that are false, one at a time, exactly where the feature's formula is true.

    The formula is true where all its clauses are. A clause a v b v c is true in the disjoint cubes
    a, ¬a b, ¬a ¬b c; the cubes of all clauses are multiplied out.
    """
    # A cube as the clause of its negated literals; conditions that hold stand there negated.
    cubes = [Clause(())]
    for clause in feature.clauses:
        cubes = [extended for cube in cubes for extended in satisfy(cube, clause)]
        if len(cubes) > MAX_CUBES:
            raise TooLarge(
                f"a formula of negative weight is true in more than {MAX_CUBES:,} ways",
                code="too-many-cubes",
                hint="split the formula, or use the expectation 'count-map'",
            )
    return cubes


def satisfy(cube: Clause, clause: Clause) -> Iterator[Clause]:
    """The disjoint parts of a cube in which a clause is true; both as `true_clauses` has them."""
    parts: list[Literal | Condition] = [*clause.literals, *clause.conditions]
    negated = {negate(part) for part in parts}
    known = {*cube.literals, *cube.conditions}  # that are false in the cube
    if negated & known:
        yield cube
        return
    for number, part in enumerate(parts):
        if part in known:
            continue
        false = [*(each for each in parts[:number] if each not in known), negate(part)]
        yield Clause(
            (*cube.literals, *(each for each in false if isinstance(each, Literal))),
            (*cube.conditions, *(each for each in false if isinstance(each, Condition))),
        )


def negate(part: Literal | Condition) -> Literal | Condition:
    if isinstance(part, Literal):
        return part.negate()
    return part._replace(operator=NEGATED[part.operator])
