"""Disjoint cubes by Shannon expansion.

A quantifier-free formula F over leaves a₁…a_m (atoms, comparisons, quantified parts) is split on
one leaf at a time, F = (a ∧ F|a) ∨ (¬a ∧ F|¬a); every path that ends in `value` is a cube, and
two paths differ in the sign of a leaf, so the cubes are disjoint. A leaf that decides one side
at once is split first: that keeps a clause one cube and a conjunction of k literals k cubes.

Equal remainders are split once, so the formula becomes a decision diagram first. On it the number
of cubes is a sum over paths, known before any is listed: a parity of m leaves has a diagram of 2m
nodes and 2^(m−1) cubes.
"""

from __future__ import annotations

from lapis.errors import TooLarge
from lapis.language.syntax import And, Formula, Not, Or, Truth, children, map_children
from lapis.logic.passes import is_leaf, simplify

SignedLeaf = tuple[Formula, bool]
SignedCube = tuple[SignedLeaf, ...]
Diagram = dict[Formula, tuple[Formula, Formula, Formula]]  # remainder: (leaf, if true, if false)

MAX_CUBES = 4096
MAX_SPLITS = 4096


def disjoint_cubes(formula: Formula, value: bool) -> tuple[SignedCube, ...]:
    """Disjoint cubes whose union is where the formula has the truth value given.

    Raises TooLarge, with the number of cubes, if there are more than MAX_CUBES.
    """
    formula = simplify(formula)
    if (plain := cubes_of_literals(formula, value)) is not None:
        return plain
    diagram: Diagram = {}
    split_all(formula, diagram)
    number: dict[Formula, int] = {Truth(value): 1, Truth(not value): 0}
    for rest, (_, high, low) in diagram.items():
        number[rest] = number[high] + number[low]
    if number[formula] > MAX_CUBES:
        raise too_many(f"{number[formula]:,}")
    cubes: dict[Formula, list[SignedCube]] = {Truth(value): [()], Truth(not value): []}
    for rest, (leaf, high, low) in diagram.items():
        cubes[rest] = [((leaf, True), *cube) for cube in cubes[high]]
        cubes[rest] += [((leaf, False), *cube) for cube in cubes[low]]
    return tuple(cubes[formula])


def cubes_of_literals(formula: Formula, value: bool) -> tuple[SignedCube, ...] | None:
    """The same of a disjunction or conjunction of different literals, which none splits."""
    if not isinstance(formula, And | Or):
        return None
    parts = [(p.body, False) if isinstance(p, Not) else (p, True) for p in formula.parts]
    different = {leaf for leaf, _ in parts}
    if len(different) < len(parts) or not all(map(is_leaf, different)):
        return None
    decides = isinstance(formula, Or)  # a literal of this truth decides the formula alike
    if value == decides and len(parts) > MAX_CUBES:
        raise too_many(f"{len(parts):,}")
    passed = tuple((leaf, sign != decides) for leaf, sign in parts)
    if value != decides:
        return (passed,)
    first: list[SignedCube] = []  # as splitting lists them: where a leaf is true before where not
    last: list[SignedCube] = []
    for at, (leaf, sign) in enumerate(passed):
        (last if sign else first).append((*passed[:at], (leaf, not sign)))
    return (*first, *reversed(last))


def truth_values(formula: Formula) -> set[bool]:
    """The truth values that a formula takes; both are said of those too large to be split."""
    formula = simplify(formula)
    diagram: Diagram = {}
    try:
        split_all(formula, diagram)
    except TooLarge:
        return {True, False}
    sides = [formula, *(side for _, high, low in diagram.values() for side in (high, low))]
    return {side.value for side in sides if isinstance(side, Truth)}


def too_many(number: str) -> TooLarge:
    return TooLarge(
        f"{number} clauses; at most {MAX_CUBES:,} are possible",
        code="too-many-clauses",
        hint="introduce a predicate for a part of it, defined by a hard equivalence",
    )


def split_all(formula: Formula, diagram: Diagram) -> None:
    """Add what remains of the formula, leaf by leaf, to the diagram, and then the formula.

    On a stack of its own: a path is as long as the formula has leaves, which may be thousands.
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
            raise too_many(f"more than {MAX_SPLITS:,}")
        else:
            leaf, sides = best_split(rest)
            begun[rest] = leaf, sides[True], sides[False]
            waiting += [sides[False], sides[True]]


def best_split(formula: Formula) -> tuple[Formula, dict[bool, Formula]]:
    """The first leaf with a decided side, or the first leaf."""
    first: tuple[Formula, dict[bool, Formula]] | None = None
    for leaf in leaves(formula):
        sides = {sign: simplify(assume(formula, leaf, sign)) for sign in (True, False)}
        if isinstance(sides[True], Truth) or isinstance(sides[False], Truth):
            return leaf, sides
        first = first or (leaf, sides)
    assert first is not None
    return first


def leaves(formula: Formula) -> dict[Formula, None]:
    """Atoms, comparisons and quantified parts, in reading order, each once."""
    if is_leaf(formula):
        return {formula: None}
    return {leaf: None for child in children(formula) for leaf in leaves(child)}


def assume(formula: Formula, leaf: Formula, value: bool) -> Formula:
    if formula == leaf:
        return Truth(value)
    if is_leaf(formula):
        return formula
    return map_children(formula, lambda child: assume(child, leaf, value))
