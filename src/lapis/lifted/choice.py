"""Which way a problem is lifted, by what it contains and by what it is estimated to cost.

    circuit   a first-order circuit: most theories; the only one that has classes and a drawing
    cells     kinds of elements and pairs: two variables, also counting quantifiers, cardinality
              constraints and linear orders, at ten to a hundred times the cost of a circuit's sums
    ground    the ground network: few unknown atoms

A counting quantifier over k elements is k variables in a circuit, so cells come first where there
is one. Where the ground network is small it follows a circuit that may cost no more than the
network. Otherwise cells follow the circuit, and then the ground network, as far as its tables are
small. A way that refuses a problem leaves it to the next. All limits are numbers of terms, not
seconds, so that a problem is answered in the same way on every machine.

If all ways refuse, the first refusal is raised. It names the formula that is the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from lapis.errors import LapisError, TooLarge
from lapis.lifted.answer import Lifted, lift_by_circuit
from lapis.lifted.cells.answer import lift_by_cells
from lapis.lifted.cells.numbers import FEW_STEPS, MAX_STEPS
from lapis.lifted.ground import is_small, lift_by_ground
from lapis.lifted.lift import CANNOT, NOT_LIFTABLE
from lapis.logic.passes import counts_elements
from lapis.problem.problem import Problem

SOME_WORK = 25_000  # of compiling, where a circuit is not asked for by name: about a second
FEW_WORK = 6_000  # where the ground network is small
# Codes of errors that say that a way cannot answer, or not at a reasonable cost.
REFUSALS = {
    NOT_LIFTABLE, "too-many-combinations", "cancellation", "cells", "two-variables", "cardinality",
    "factor", "too-large", "too-wide", "too-many-states",
}  # fmt: skip
Found = TypeVar("Found")


def lift_by_choice(problem: Problem, sizes: Mapping[str, int], classes: bool) -> Lifted:
    """The method `auto` of `lapis lift`; only circuits tell classes apart."""
    if classes:
        return lift_by_circuit(problem, sizes, classes, max_work=SOME_WORK)
    small = is_small(problem, sizes)
    limits = circuit_limits(problem, small)
    ways: dict[str, Callable[[], Lifted]] = {
        "circuit": partial(lift_by_circuit, problem, sizes, classes, **limits._asdict()),
        "cells": partial(lift_by_cells, problem, sizes, classes, max_steps=FEW_STEPS),
        "ground": partial(lift_by_ground, problem, sizes, classes),
    }
    order = order_of_ways(problem, small)
    found, refusals = first_answer(problem, [ways[name] for name in order])
    if found.method != "ground":
        return found
    return replace(found, reasons=tuple(e.message.removeprefix(CANNOT) for e in refusals[:1]))


class CircuitLimits(NamedTuple):
    """How far a circuit goes before another way is tried; see `lift_problem`."""

    max_work: int
    may_search: bool


def circuit_limits(problem: Problem, small: bool) -> CircuitLimits:
    """A search over ground atoms is left to the ground network, which has no negative factors."""
    factors = any(predicate.factors for predicate in problem.model.predicates.values())
    return CircuitLimits(FEW_WORK if small and not factors else SOME_WORK, may_search=factors)


def order_of_ways(problem: Problem, small: bool) -> list[str]:
    """The ways that may answer a problem, in the order in which they are tried."""
    if problem.model.constraints:
        return ["cells"]
    if small:
        return ["circuit", "ground", "cells"]
    if any(counts_elements(rule.formula) for rule in problem.model.rules):
        return ["cells", "circuit", "ground"]
    return ["circuit", "cells", "ground"]


def first_answer(
    problem: Problem, ways: Sequence[Callable[[], Found]]
) -> tuple[Found, list[LapisError]]:
    """The answer of the first way that does not refuse, and the refusals before it.

    Raises
    ------
    TooLarge
        The first refusal, if all ways refuse.
    LapisError
        What is wrong with the input, if a way finds it.
    """
    refusals: list[LapisError] = []
    for way in ways:
        try:
            return way(), refusals
        except LapisError as error:
            if error.code not in REFUSALS:
                raise
            refusals.append(error)
    raise locate_refusal(problem, refusals[0])


def locate_refusal(problem: Problem, error: LapisError) -> TooLarge:
    """A refusal with a formula that is the reason.

    Sums over cells are long because of formulas that count; + tells constants apart.
    """
    message, span, hint = error.message, error.span, error.hint
    if error.code == "cells":
        hint = f"lapis lift --method cells goes on to {MAX_STEPS:,} steps"
    for rule in problem.model.rules:
        if span is None and error.code == "cells" and counts_elements(rule.formula):
            message, span = f"{message}; {rule.text!r} counts elements", rule.span
        if span is None and error.code == NOT_LIFTABLE and rule.plus:
            message, span = f"{message}; {rule.text!r} has a weight for each", rule.span
    return TooLarge(message, code=error.code, span=span, hint=hint)
