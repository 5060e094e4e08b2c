"""A circuit at weights and sizes: log Z, its derivatives and a bound on the error of log Z.

Three kinds of numbers are tried, the cheap ones first, until the bound is good enough: doubles,
long doubles, and balls whose precision doubles. In floats the bound is a running analysis of
roundings (`floats`), rigorous as far as the machine's exp and log are good to two units in the last
place; balls are rigorous. Derivatives come from the same numbers: balls hold them to nine digits,
floats make no promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.lifted.compilation.circuit import Node
from lapis.lifted.compilation.compile import MAX_STATES
from lapis.lifted.compilation.theory import Region
from lapis.lifted.evaluation.floats import Floats, FloatValue
from lapis.lifted.evaluation.walk import Weights, count_index_states

if TYPE_CHECKING:
    from flint import arb

ABSOLUTE, RELATIVE = 1e-9, 1e-13  # errors of log Z that are good enough
DOUBLE_BITS, EXTENDED_BITS = 53, 64
FLOATS: Mapping[int, np.dtype] = {
    DOUBLE_BITS: np.dtype(np.float64),
    EXTENDED_BITS: np.dtype(np.longdouble),
}
FIRST_BITS, LAST_BITS = 128, 1 << 17
SPARE_BITS = 60  # of a difference quotient
MAX_BALLS = 1 << 21  # index combinations
STEP = 1e-30  # of complex-step differentiation; no rounding depends on it


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
    """log Z and the expected counts. Raises LapisError if no world is possible."""
    states = count_index_states(root, sizes)
    if states > MAX_STATES:
        raise TooLarge(
            f"log Z is a sum over {states:,} combinations of numbers, more than the "
            f"{MAX_STATES:,} that are gone through",
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
    """Z as a float, and dtype[num_weights], the derivatives of its logarithm."""
    walk = Floats(weights, dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # log Z is infinite then, and refused
        found = walk.at(root, sizes)
        found.slope = np.ones(1, dtype)
        walk.sweep_back()
    return found, walk.slopes


def run_balls(root: Node, weights: Weights, sizes: Mapping[Region, int]) -> LiftedPartition:
    """Balls of twice the bits until the one of log Z is small."""
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
    """Whether a ball holds a number to nine digits, or nine decimals."""
    return bool(ball.rad() <= ABSOLUTE * max(1.0, abs(float(ball.mid()))))


def is_impossible(root: Node, weights: Weights, sizes: Mapping[Region, int], bits: int) -> bool:
    """Whether there certainly is no world: at weights of zero Z is their number, a whole one."""
    zero = Weights(np.zeros(len(weights.value)), weights.literals)
    return bool(balls_of_bits(root, zero, sizes, bits)[0] == 0)


def balls_of_bits(
    root: Node, weights: Weights, sizes: Mapping[Region, int], bits: int
) -> tuple[arb, np.ndarray]:
    """Z as a ball, and object[num_weights], balls of the derivatives of its logarithm."""
    from flint import ctx

    from lapis.lifted.evaluation.balls import ONE, Balls, as_row

    with ctx.workprec(bits):
        walk = Balls(weights)
        found = walk.at(root, sizes)
        found.slope = as_row(ONE)
        walk.sweep_back()
        return found.ball[0], walk.slopes / found.ball[0]


def log_counts(
    root: Node, weights: Weights, sizes: Mapping[Region, int], counts: np.ndarray
) -> np.ndarray:
    """float64[num_weights], logarithms of expected counts, some of which floats have as zero.

    In balls, whose exponents have no limit; −∞ where a count is certainly zero. Where balls would
    be too many, or cannot tell a count from zero, floats are taken at their word.
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
    """float64[num_weights], ∂²log Z / ∂w² · direction: the counts' covariance with a direction."""
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
    """object[num_weights], balls of the gradient's change; with so many bits as good as a slope."""
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
