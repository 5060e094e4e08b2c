"""Evaluate circuits in ball arithmetic, for sums that cancel beyond the digits of floats.

Values are balls (python-flint's arb): a midpoint and a radius such that the ball contains the true
value. Their exponents are unbounded, so logarithms are not needed. Arrays over combinations of
counting indices are numpy arrays of objects, which take a microsecond an operation; so floats are
tried first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from flint import arb, fmpz

from lapis.lifted.compilation.lifted_circuit import FactorNode
from lapis.lifted.compilation.theory import subtract_size
from lapis.lifted.evaluation.sweep import (
    CircuitSweep,
    Frame,
    FrameNumber,
    FrameSizes,
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
    """A ball for each combination of a frame."""

    frame: Frame
    ball: np.ndarray  # object[frame.size], arb
    slope: np.ndarray = field(default_factory=lambda: np.full(1, ZERO, object))  # ∂ Z / ∂ v

    def add_slope(self, slope: np.ndarray, frame: Frame) -> None:
        self.slope = self.slope + add_within(slope, frame, self.frame, len(self.ball))


class Balls(CircuitSweep[BallValue]):
    """An evaluation with balls of flint's working precision."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights, np.dtype(object))
        self.slopes = np.full(len(weights.value), ZERO, object)
        self.zero = np.full(1, ZERO, object)

    def factor(self, node: FactorNode, sizes: FrameSizes) -> BallValue:
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
        ball = exp_of(score)
        for base, (own, number) in bases:
            ball = ball * spread_to_frame(power_of(base, number), own, frame)
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

    def power(self, part: BallValue, exponent: FrameNumber) -> BallValue:
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

    def add_choices(self, part: BallValue, whole: np.ndarray, number: FrameNumber) -> BallValue:
        frame = number.frame
        assert frame.parent is not None
        assert frame.start is not None
        choices = binomial(spread_to_frame(whole, frame.parent, frame), number.value)
        terms = spread_to_frame(part.ball, part.frame, frame) * choices
        result = BallValue(frame.parent, np.add.reduceat(terms, frame.start))

        def back() -> None:
            assert frame.parent is not None
            part.add_slope(spread_to_frame(result.slope, frame.parent, frame) * choices, frame)

        self.tape.append(back)
        return result

    def select(
        self, where: np.ndarray, met: BallValue, unmet: BallValue, frame: Frame
    ) -> BallValue:
        both = (spread_to_frame(part.ball, part.frame, frame) for part in (met, unmet))
        return BallValue(frame, np.where(where, *both))

    def take(self, values: Sequence[BallValue], places: np.ndarray, frame: Frame) -> BallValue:
        return BallValue(frame, np.concatenate([value.ball for value in values])[places])

    def indicator(self, holds: FrameNumber) -> BallValue:
        return BallValue(holds.frame, np.where(holds.value, ONE, ZERO))


def as_ball(weight: arb | float) -> arb:
    return weight if isinstance(weight, arb) else arb(float(weight))
