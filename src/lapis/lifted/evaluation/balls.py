"""Circuits in ball arithmetic, where floating point loses the digits of a difference.

Values are balls (python-flint's arb): a midpoint of so many bits and a radius that certainly holds
the true value. Their exponents are unbounded, so numbers are held as they are, without logarithms.
Arrays over combinations of counting indices are numpy arrays of such objects; slow beside floats, a
microsecond an operation, which is why floats come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from flint import arb, fmpz

from lapis.lifted.compilation.circuit import FactorNode
from lapis.lifted.compilation.theory import subtract_size
from lapis.lifted.evaluation.walk import (
    CircuitSweep,
    Frame,
    Number,
    Numbers,
    Weights,
    add_within,
    innermost_frame,
    number_at,
    spread_to_frame,
)

ZERO, ONE = arb(0), arb(1)
exp_of = np.frompyfunc(lambda ball: ball.exp(), 1, 1)
power_of = np.frompyfunc(lambda base, exponent: base ** fmpz(int(exponent)), 2, 1)
binomial = np.frompyfunc(lambda n, m: arb.bin_uiui(int(n), int(m)) if m <= n else ZERO, 2, 1)


@dataclass
class BallValue:
    """A ball for each combination of a frame; the backward sweep fills in the derivative."""

    frame: Frame
    ball: np.ndarray  # object[frame.size], arb
    slope: Any = ZERO  # ∂ Z / ∂ v, balls

    def add_slope(self, slope: Any, frame: Frame) -> None:
        self.slope = self.slope + add_within(as_row(slope), frame, self.frame, len(self.ball))


class Balls(CircuitSweep[BallValue]):
    """An evaluation with balls of the precision that flint is set to."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, np.dtype(object))
        self.slopes = np.full(len(weights.value), ZERO, object)

    def factor(self, node: FactorNode, sizes: Numbers) -> BallValue:
        numbers = [(weight, number_at(size, sizes)) for weight, size in node.exponent]
        bases = [
            (arb(self.weights.of(p)[0 if is_true else 1]), number_at(s, sizes))
            for p, is_true, s in node.literals
        ]
        bases += [
            (arb(self.weights.of(p)[0]) + arb(self.weights.of(p)[1]), number_at(s, sizes))
            for p, s in node.free
        ]
        frame = innermost_frame(n.frame for _, n in (*numbers, *bases))
        score = np.full(frame.size, ZERO, object)
        for weight, (own, number) in numbers:
            score = score + spread_to_frame(
                as_ball(self.weights.value[weight]) * number, own, frame
            )
        ball = as_row(exp_of(score))
        for base, (own, number) in bases:
            ball = ball * spread_to_frame(as_row(power_of(base, number)), own, frame)
        result = BallValue(frame, ball)

        def back() -> None:
            slope = result.slope * result.ball
            for weight, (own, number) in numbers:
                self.slopes[weight] += (slope * spread_to_frame(number, own, frame)).sum()

        self.tape.append(back)
        return result

    def product(self, parts: Sequence[BallValue]) -> BallValue:
        frame = innermost_frame(part.frame for part in parts)
        balls = [spread_to_frame(part.ball, part.frame, frame) for part in parts]
        one = np.full(frame.size, ONE, object)
        result = BallValue(frame, reduce(lambda a, b: a * b, balls, one))

        def back() -> None:
            # The product of the others, also where one is zero.
            before = [one]
            for ball in balls[:-1]:
                before.append(before[-1] * ball)
            after = one
            for part, ball, earlier in zip(
                reversed(parts), reversed(balls), reversed(before), strict=True
            ):
                part.add_slope(result.slope * earlier * after, frame)
                after = after * ball

        self.tape.append(back)
        return result

    def sum(self, parts: Sequence[BallValue], signs: Sequence[int]) -> BallValue:
        frame = innermost_frame(part.frame for part in parts)
        total = np.full(frame.size, ZERO, object)
        for sign, part in zip(signs, parts, strict=True):
            total = total + sign * spread_to_frame(part.ball, part.frame, frame)
        result = BallValue(frame, total)

        def back() -> None:
            for sign, part in zip(signs, parts, strict=True):
                part.add_slope(sign * result.slope, frame)

        self.tape.append(back)
        return result

    def power(self, part: BallValue, exponent: Number) -> BallValue:
        frame = innermost_frame((part.frame, exponent.frame))
        times = spread_to_frame(exponent.value, exponent.frame, frame)
        ball = spread_to_frame(part.ball, part.frame, frame)
        one = np.full(frame.size, ONE, object)
        result = BallValue(frame, one * power_of(ball, times))

        def back() -> None:
            less = power_of(ball, subtract_size(times, 1))
            part.add_slope(result.slope * (one * less * times), frame)

        self.tape.append(back)
        return result

    def add_choices(self, part: BallValue, whole: np.ndarray, number: Number) -> BallValue:
        frame = number.frame
        assert frame.parent is not None
        assert frame.start is not None
        choices = as_row(binomial(spread_to_frame(whole, frame.parent, frame), number.value))
        terms = spread_to_frame(part.ball, part.frame, frame) * choices
        result = BallValue(frame.parent, np.add.reduceat(terms, frame.start))

        def back() -> None:
            assert frame.parent is not None
            part.add_slope(
                spread_to_frame(as_row(result.slope), frame.parent, frame) * choices, frame
            )

        self.tape.append(back)
        return result

    def choose(self, is_met: Number, met: BallValue, unmet: BallValue) -> BallValue:
        frame = innermost_frame((is_met.frame, met.frame, unmet.frame))
        where = np.broadcast_to(spread_to_frame(is_met.value, is_met.frame, frame), (frame.size,))
        both = (spread_to_frame(part.ball, part.frame, frame) for part in (met, unmet))
        result = BallValue(frame, np.where(where, *both))

        def back() -> None:
            met.add_slope(np.where(where, result.slope, ZERO), frame)
            unmet.add_slope(np.where(where, ZERO, result.slope), frame)

        self.tape.append(back)
        return result

    def gather(self, values: Sequence[BallValue], where: np.ndarray, frame: Frame) -> BallValue:
        result = BallValue(frame, np.concatenate([value.ball for value in values])[where])

        def back() -> None:
            totals = np.full(sum(value.frame.size for value in values), ZERO, object)
            np.add.at(totals, where, np.broadcast_to(as_row(result.slope), (frame.size,)))
            first = 0
            for value in values:
                last = first + value.frame.size
                value.add_slope(totals[first:last], value.frame)
                first = last

        self.tape.append(back)
        return result

    def indicator(self, holds: Number) -> BallValue:
        return BallValue(holds.frame, np.where(holds.value, ONE, ZERO))


def as_ball(weight: Any) -> arb:
    return weight if isinstance(weight, arb) else arb(float(weight))


def as_row(value: Any) -> np.ndarray:
    """An array of objects; a bare one is an array of one entry."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.astype(object)
    found = np.empty(1, object)
    found[0] = value
    return found
