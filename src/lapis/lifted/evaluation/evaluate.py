"""Evaluate a circuit at weights and sizes: log Z with an error bound, and its derivatives.

Doubles are tried first, then long doubles, then balls whose precision doubles, until the bound is
small enough. For floats the bound is a running error analysis (`floats`), rigorous if exp and log
are accurate to two units in the last place; balls are rigorous. Derivatives come from the same
numbers: balls have at least nine digits, floats give no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.lifted.compilation.compiler import MAX_STATES
from lapis.lifted.compilation.lifted_circuit import Node
from lapis.lifted.compilation.theory import Region
from lapis.lifted.evaluation.floats import Floats, FloatValue
from lapis.lifted.evaluation.sweep import Weights, count_index_states

if TYPE_CHECKING:
    from flint import arb

ABSOLUTE, RELATIVE = 1e-9, 1e-13  # errors of log Z that are small enough
DOUBLE_BITS, EXTENDED_BITS = 53, 64
FLOATS: Mapping[int, np.dtype] = {
    DOUBLE_BITS: np.dtype(np.float64),
    EXTENDED_BITS: np.dtype(np.longdouble),
}
FIRST_BITS, LAST_BITS = 128, 1 << 17
SPARE_BITS = 60  # −log₂ of the step of a difference quotient
MAX_BALLS = 1 << 21  # index combinations
STEP = 1e-30  # of complex-step differentiation, which has no cancellation


@dataclass(frozen=True)
class LiftedPartition:
    """log Z at some weights and sizes."""

    log_partition: float
    error_bound: float  # |log_partition − log Z| is at most this
    expected_count: np.ndarray  # float64[num_weights], ∂ log Z / ∂ weight
    bits: int  # of the numbers it was computed with

    @property
    def arithmetic(self) -> str:
        if self.bits <= EXTENDED_BITS:
            return "doubles" if self.bits == DOUBLE_BITS else "long doubles"
        return f"balls of {self.bits} bits"


def evaluate_circuit(root: Node, weights: Weights, sizes: Mapping[Region, int]) -> LiftedPartition:
    """Return log Z and expected counts. Raises LapisError if no world is possible."""
    states = count_index_states(root, sizes)
    if states > MAX_STATES:
        raise TooLarge(
            f"log Z is a sum over {states:,} combinations of numbers, and at most {MAX_STATES:,} "
            "are allowed",
            code="too-many-combinations",
            hint="take smaller domains: the sums grow with the numbers of constants",
        )
    for bits in (DOUBLE_BITS, EXTENDED_BITS):
        found, slopes = run_floats(root, weights, sizes, FLOATS[bits])
        log = float(found.log[0])
        bound = found.bound + math.ulp(log)
        good_enough = ABSOLUTE if bits == DOUBLE_BITS else max(ABSOLUTE, RELATIVE * abs(log))
        if found.sign[0] == 0 and found.bound == 0.0:
            raise unsatisfiable_error()
        refuse_infinite(log)
        if found.sign[0] > 0 and bound <= good_enough:
            return LiftedPartition(log, bound, slopes.astype(float), bits)
    return run_balls(root, weights, sizes)


def run_floats(
    root: Node, weights: Weights, sizes: Mapping[Region, int], dtype: np.dtype
) -> tuple[FloatValue, np.ndarray]:
    """Return Z as a float, and dtype[num_weights], the derivatives of its logarithm."""
    sweep = Floats(weights, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite log Z is refused later
        found = sweep.at(root, sizes)
        found.slope = np.ones(1, dtype)
        sweep.sweep_back()
    return found, sweep.slopes


def run_balls(root: Node, weights: Weights, sizes: Mapping[Region, int]) -> LiftedPartition:
    """Evaluate with balls, doubling the bits until the ball of log Z is small."""
    states = count_index_states(root, sizes)
    if states > MAX_BALLS:
        raise TooLarge(
            "positive and negative terms cancel beyond the digits of floating point, and sums over "
            f"{states:,} combinations of numbers are too many for ball arithmetic",
            code="cancellation",
            hint="existential quantifiers and blocks bring negative terms; take smaller domains",
        )
    bits = FIRST_BITS
    while bits <= LAST_BITS:
        ball, slopes = balls_of_bits(root, weights, sizes, bits)
        if ball < 0:
            raise LapisError(
                "with these weights the worlds sum to a negative number", code="negative"
            )
        if not ball > 0 and is_impossible(root, weights, sizes, bits):
            raise unsatisfiable_error()
        if ball > 0 and all(map(is_sharp, slopes)):
            log = ball.log()
            middle = float(log.mid())
            refuse_infinite(middle)
            bound = float(log.rad()) + math.ulp(middle)
            if bound <= max(ABSOLUTE, RELATIVE * abs(middle)):
                counts = np.array([float(slope.mid()) for slope in slopes])
                return LiftedPartition(middle, bound, counts, bits)
        bits *= 2
    raise TooLarge(
        f"positive and negative terms cancel beyond {LAST_BITS:,} bits",
        code="cancellation",
        hint="blocks and quantifiers bring negative terms, and large weights against them leave "
        "little: take smaller weights, a hard formula in their place, or another method",
    )


def is_sharp(ball: arb) -> bool:
    """Return whether a ball has nine digits, or nine decimals."""
    return bool(ball.rad() <= ABSOLUTE * max(1.0, abs(float(ball.mid()))))


def is_impossible(root: Node, weights: Weights, sizes: Mapping[Region, int], bits: int) -> bool:
    """Return whether there is certainly no world: at weights of 0, Z is the number of worlds."""
    zero = Weights(np.zeros(len(weights.value)), weights.literals)
    return bool(balls_of_bits(root, zero, sizes, bits)[0] == 0)


def balls_of_bits(
    root: Node, weights: Weights, sizes: Mapping[Region, int], bits: int
) -> tuple[arb, np.ndarray]:
    """Return Z as a ball, and object[num_weights], balls of the derivatives of its logarithm."""
    from flint import ctx

    from lapis.lifted.evaluation.balls import ONE, Balls

    with ctx.workprec(bits):
        sweep = Balls(weights)
        found = sweep.at(root, sizes)
        found.slope = np.full(1, ONE, object)
        sweep.sweep_back()
        return found.ball[0], sweep.slopes / found.ball[0]


def log_counts(
    root: Node, weights: Weights, sizes: Mapping[Region, int], counts: np.ndarray
) -> np.ndarray:
    """Return float64[num_weights], logarithms of expected counts that may underflow in floats.

    Counts that are 0 in floats are computed with balls, whose exponents are unbounded. They stay 0
    (−∞) if there are too many index combinations, or if the ball contains 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(counts, 0.0))
    if count_index_states(root, sizes) <= MAX_BALLS:
        _, slopes = balls_of_bits(root, weights, sizes, 4 * FIRST_BITS)
        for number in np.flatnonzero(counts <= 0).tolist():
            if slopes[number] > 0:
                logs[number] = float(slopes[number].log().mid())
    return logs


def refuse_infinite(log: float) -> None:
    if not math.isfinite(log):
        raise TooLarge(
            "log Z is larger than any floating-point number", code="too-many-combinations",
            hint="take smaller domains",
        )  # fmt: skip


def unsatisfiable_error() -> LapisError:
    return LapisError(
        "the hard formulas leave no possible world", code="unsatisfiable",
        hint="lapis infer --method exact names the formulas that contradict each other",
    )  # fmt: skip


def hessian_product(
    root: Node, weights: Weights, sizes: Mapping[Region, int], direction: np.ndarray
) -> np.ndarray:
    """Return float64[num_weights], ∂²log Z / ∂w² · direction."""
    bits = evaluate_circuit(root, weights, sizes).bits
    if bits <= EXTENDED_BITS:
        dtype = np.result_type(FLOATS[bits], np.complex64)
        moved = weights.value.astype(dtype) + 1j * STEP * direction
        _, slopes = run_floats(root, Weights(moved, weights.literals), sizes, dtype)
        return np.asarray(slopes.imag / STEP, float)
    while True:
        found = difference_quotient(root, weights, sizes, direction, bits + 3 * SPARE_BITS)
        if all(map(is_sharp, found)):
            return np.array([float(ball.mid()) for ball in found])
        bits *= 2


def difference_quotient(
    root: Node, weights: Weights, sizes: Mapping[Region, int], direction: np.ndarray, bits: int
) -> np.ndarray:
    """Return object[num_weights], balls of the difference quotient of the gradient."""
    from flint import arb, ctx

    ends = []
    with ctx.workprec(bits):
        step = arb(2) ** -SPARE_BITS
        for sign in (1, -1):
            moved = [
                arb(float(weight)) + sign * step * arb(float(along))
                for weight, along in zip(weights.value, direction, strict=True)
            ]
            there = Weights(np.array(moved, object), weights.literals)
            ends.append(balls_of_bits(root, there, sizes, bits)[1])
        return np.asarray((ends[0] - ends[1]) / (2 * step))
