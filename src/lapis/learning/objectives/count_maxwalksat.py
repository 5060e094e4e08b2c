"""MaxWalkSAT by counts: the voted perceptron's most likely world without grounding.

Kautz, Selman & Jiang (1997): repeatedly choose a random violated ground formula and flip one of its
atoms: with probability `NOISE` a random one, else the one whose flip gains most. A formula of
positive weight is violated if it is false, one of negative weight if it is true. The best world of
the search is the result. Sarkhel et al. (2016) run the search by counts without giving details;
Venugopal, Sarkhel & Gogate (2015) run it by exact counts. Both steps use counts:

    a violated ground formula   choose a formula by its number of violated groundings, then one of
                                these: a solution of the constraint network in which the formula is
                                false (or true), drawn from the messages of IJGP(i)
    gains                       w · (n after the flip − n before it), of a `CountedWorld`: exact or
                                estimated

The groundings in which a formula of negative weight is true are the solutions of disjoint cubes,
about as many as its literals (`true_clauses`).

Deviations. If cycles make the drawn grounding only approximately uniform, so is the choice; a drawn
grounding is always violated. A block moves as a whole: its value changes to that of the violated
formula, or to a random other one. A literal with a quantifier stands for the atoms of one random
grounding of its part. While hard rules are violated, one of their violated groundings is repaired,
gains are compared by satisfied hard groundings before the score, and no such world is the best. One
search makes N flips, from a random world, from the data or from the last world. From the data,
weights of zero never move: no formula is violated.

The paper uses diagonal Newton. The counts of a best world are not continuous in the weights, so a
trust region rejects nearly every such step (on a third of the smokers' data weights stayed at
zero). Plain steps with averaged weights (`vp`) are the default, and Newton is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.ijgp import IjgpCounter, IjgpSettings
from lapis.counting.ijgp.counter import plus_shape
from lapis.counting.ijgp.estimated_differences import find_dependent_predicates
from lapis.errors import TooLarge
from lapis.inference.sampling.counted_world import CountedWorld
from lapis.language.syntax import ComparisonOperator, Constant
from lapis.learning.objectives.count_walk import Sites
from lapis.logic.clauses import Clause, Condition, Feature, Literal, NormalForm, SimpleTerm
from lapis.problem.problem import Problem

NOISE = 0.5  # share of random flips
TRIES = 32  # attempts to draw a violated grounding in a step
MAX_CUBES = 1000  # cubes of a formula of negative weight
LEAST_GAIN = 1e-9  # gain from which a world is better

NEGATED: Mapping[ComparisonOperator, ComparisonOperator] = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip


class GroundAtom(NamedTuple):
    predicate: str
    row: tuple[int, ...]


class Move(NamedTuple):
    """Atoms of one predicate that flip together."""

    predicate: str
    rows: np.ndarray  # int32[n, arity]; of a block, its old and its new value


def search_by_counts(
    chain: CountedWorld,
    sites: Sequence[Sites],
    problem: Problem,
    weights: np.ndarray,
    num_flips: int,
    rng: np.random.Generator,
    settings: IjgpSettings,
) -> list[Move]:
    """Search for a most likely world at weights float64[num_weights], flipping `sites`.

    The chain starts in a world that satisfies the hard rules and ends in the best world found.
    Returns the moves to it, for `undo`. Raises TooLarge if a formula of negative weight is true in
    more than `MAX_CUBES` ways.
    """
    chain.settle()
    movable = {own.predicate.name: own for own in sites}
    violated = ViolatedGroundings(problem, chain, movable, weights, settings)
    score = best = 0.0
    moves: list[Move] = []
    num_best = 0  # moves that led to the best world
    for _ in range(num_flips):
        if not violated.prepare(broken=chain.num_broken > 0):
            break  # no formula is violated, except by evidence
        atoms = dict.fromkeys(violated.draw(rng))
        options = [move for atom in atoms for move in find_moves(chain, movable, atom, rng)]
        if not options:
            continue
        gains = [chain.gain(*move, weights) for move in options]
        is_random = rng.random() < NOISE
        chosen = int(rng.integers(len(gains))) if is_random else gains.index(max(gains))
        chain.flip([options[chosen]])
        violated.apply_move(options[chosen], chain)
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
    """Yield the flips of an atom, with the value of its block; none if evidence decides it."""
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
    """Groundings that violate a formula: those in which one clause is false."""

    feature: int  # of the counter
    clause: int
    wanted: np.ndarray  # bool[num_weights of the rule], weights of the sign that is violated
    is_hard: bool


class ViolatedGrounding(NamedTuple):
    """A violated grounding that was drawn."""

    rule: int
    clause: Clause  # which is false
    value: dict[str, int]  # codes of the clause's variables


class ViolatedGroundings:
    """The violated groundings of a world's formulas, counted and drawn by IJGP.

    Clauses without a `movable` predicate are left out: evidence decides them.
    """

    def __init__(
        self,
        problem: Problem,
        chain: CountedWorld,
        movable: Iterable[str],
        weights: np.ndarray,  # float64[num_weights]
        settings: IjgpSettings,
    ) -> None:
        self.problem = problem
        form, offset = problem.normal_form, problem.weight_table.offset
        moving = set(movable)
        moving |= {derived for name in movable for derived in find_dependent_predicates(form, name)}
        self._features: list[Feature] = []
        self._violations: list[Violation] = []
        for feature in form.features:
            own = weights[offset[feature.rule] : offset[feature.rule + 1]]
            for clauses, wanted in violating_clauses(feature, own):
                kept = [c for c in clauses if any(each.predicate in moving for each in c.literals)]
                number = len(self._features)
                self._features.append(replace_clauses(feature, kept))
                self._violations += [
                    Violation(number, clause, wanted, feature.hard) for clause in range(len(kept))
                ]
        self._counter = IjgpCounter(
            NormalForm(tuple(self._features), form.definitions),
            problem.model,
            problem.domains,
            settings,
        )
        self._counter.count({name: chain.true_rows(name) for name in problem.model.predicates})
        self._ends = np.empty(0)  # float64[num_candidates + 1], of their numbers of groundings
        self._candidates: list[tuple[Violation, np.ndarray]] = []  # with ends of their constants

    def apply_move(self, move: Move, chain: CountedWorld) -> None:
        """Assign the atoms of a move that was made."""
        for row in move.rows.tolist():
            self._counter.assign(move.predicate, row, chain.is_true(move.predicate, row))

    def prepare(self, *, broken: bool = False) -> bool:
        """Count the violated groundings of soft or hard rules; return whether there are any."""
        self._candidates.clear()
        ends = [0.0]
        for each in self._violations:
            if each.is_hard != broken:
                continue
            counts = self._counter.false_groundings(each.feature, each.clause).ravel()
            counts = np.where(each.wanted, counts, 0.0).cumsum()
            if counts[-1] > 0.0:
                self._candidates.append((each, counts))
                ends.append(ends[-1] + float(counts[-1]))
        self._ends = np.array(ends)
        return bool(self._candidates)

    def draw(self, rng: np.random.Generator) -> list[GroundAtom]:
        """Draw the atoms of a violated ground formula; none if no grounding was found."""
        found = self.draw_grounding(rng)
        return [] if found is None else list(self._ground(found.clause.literals, found.value, rng))

    def draw_grounding(self, rng: np.random.Generator) -> ViolatedGrounding | None:
        """Draw a violated grounding in proportion to the counts of `prepare`."""
        for _ in range(TRIES):
            at = rng.random() * self._ends[-1]
            number = int(np.searchsorted(self._ends, at, "right")) - 1
            violation, counts = self._candidates[min(number, len(self._candidates) - 1)]
            within = int(np.searchsorted(counts, rng.random() * counts[-1], "right"))
            feature = self._features[violation.feature]
            shape = plus_shape(feature, self.problem.domains)
            plus = tuple(map(int, np.unravel_index(within, shape))) if shape else ()
            found = self._counter.sample_false(violation.feature, violation.clause, plus, rng)
            if found is not None:
                return ViolatedGrounding(feature.rule, feature.clauses[violation.clause], found)
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


def violating_clauses(
    feature: Feature, weights: np.ndarray
) -> Iterator[tuple[Sequence[Clause], np.ndarray]]:
    """Yield clauses that are false if a formula is violated, and the weights bool[n] they hold for.

    `weights` float64[n] are those of the rule.
    """
    if feature.hard:
        yield feature.clauses, np.array([True])
    elif (weights > 0.0).any():
        yield feature.clauses, weights > 0.0
    if not feature.hard and (weights < 0.0).any():
        yield true_clauses(feature), weights < 0.0


def replace_clauses(feature: Feature, clauses: Sequence[Clause]) -> Feature:
    """Return a soft feature over the same variables, with one weight if the rule is hard."""
    plus = () if feature.hard else feature.plus
    return Feature(feature.rule, feature.variables, plus, tuple(clauses), 0, hard=False)


def true_clauses(feature: Feature) -> list[Clause]:
    """Return clauses of which exactly one is false if the feature's formula is true, else none.

    The formula is true if all its clauses are. A clause a v b v c is true in the disjoint cubes a,
    ¬a b, ¬a ¬b c; the cubes of all clauses are multiplied out.
    """
    # A cube is represented by the clause of its negated literals and conditions.
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
    """Yield the disjoint parts of a cube in which a clause is true, represented as clauses."""
    parts: list[Literal | Condition] = [*clause.literals, *clause.conditions]
    negated = {negate_part(part) for part in parts}
    known = {*cube.literals, *cube.conditions}  # that are false in the cube
    if negated & known:
        yield cube
        return
    for number, part in enumerate(parts):
        if part in known:
            continue
        false = [*(each for each in parts[:number] if each not in known), negate_part(part)]
        yield Clause(
            (*cube.literals, *(each for each in false if isinstance(each, Literal))),
            (*cube.conditions, *(each for each in false if isinstance(each, Condition))),
        )


def negate_part(part: Literal | Condition) -> Literal | Condition:
    if isinstance(part, Literal):
        return part.negate()
    return part._replace(operator=NEGATED[part.operator])
