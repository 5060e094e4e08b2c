"""Circuits in ball arithmetic, where floating point loses the digits of a difference.

Values are balls (python-flint's arb): a midpoint of so many bits and a radius that certainly holds
the true value. Their exponents are unbounded, so numbers are held as they are, without logarithms.
Arrays over the counting indices are numpy arrays of such objects; slow beside floats, a microsecond
an operation, which is why floats come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from flint import arb, fmpz

from lapis.lifted.compilation.circuit import Count, Factor
from lapis.lifted.compilation.regions import Sizes, fewer
from lapis.lifted.evaluation.walk import Walk, Weights, reduce_to, split

ZERO, ONE = arb(0), arb(1)
exp_of = np.frompyfunc(lambda ball: ball.exp(), 1, 1)
power_of = np.frompyfunc(lambda base, exponent: base ** fmpz(int(exponent)), 2, 1)
binomial = np.frompyfunc(lambda n, m: arb.bin_uiui(int(n), int(m)) if m <= n else ZERO, 2, 1)


@dataclass
class Value:
    ball: np.ndarray  # object[...], arb
    slope: Any = ZERO  # ∂ Z / ∂ v, balls

    def add_slope(self, slope: np.ndarray) -> None:
        self.slope = self.slope + reduce_to(as_objects(slope), self.ball.shape)


class Balls(Walk[Value]):
    """An evaluation with balls of the precision that flint is set to."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self.slopes = np.full(len(weights.value), ZERO, object)

    def factor(self, node: Factor, sizes: Sizes) -> Value:
        numbers = [(weight, as_objects(size.at(sizes))) for weight, size in node.exponent]
        score = as_objects(ZERO)
        for weight, number in numbers:
            score = score + as_ball(self.weights.value[weight]) * number
        ball = as_objects(exp_of(score))
        bases = [
            (arb(self.weights.of(p)[0 if is_true else 1]), s) for p, is_true, s in node.literals
        ]
        bases += [
            (arb(self.weights.of(p)[0]) + arb(self.weights.of(p)[1]), s) for p, s in node.free
        ]
        for base, size in bases:
            ball = ball * power_of(base, size.at(sizes))
        result = Value(as_objects(ball))

        def back() -> None:
            slope = result.slope * result.ball
            for weight, number in numbers:
                self.slopes[weight] += as_objects(slope * number).sum()

        self.tape.append(back)
        return result

    def product(self, parts: Sequence[Value]) -> Value:
        result = Value(as_objects(reduce(lambda a, b: a * b, [part.ball for part in parts])))

        def back() -> None:
            # The product of the others, also where one is zero.
            before = [as_objects(ONE)]
            for part in parts[:-1]:
                before.append(before[-1] * part.ball)
            after = as_objects(ONE)
            for part, earlier in zip(reversed(parts), reversed(before), strict=True):
                whole = np.broadcast_to(
                    as_objects(result.slope * earlier * after), result.ball.shape
                )
                part.add_slope(whole)
                after = after * part.ball

        self.tape.append(back)
        return result

    def sum(self, parts: Sequence[Value], signs: Sequence[int]) -> Value:
        signed = [sign * part.ball for sign, part in zip(signs, parts, strict=True)]
        result = Value(as_objects(reduce(lambda a, b: a + b, signed)))

        def back() -> None:
            for sign, part in zip(signs, parts, strict=True):
                part.add_slope(np.broadcast_to(as_objects(sign * result.slope), result.ball.shape))

        self.tape.append(back)
        return result

    def power(self, part: Value, exponent: np.ndarray) -> Value:
        result = Value(as_objects(power_of(part.ball, exponent)))

        def back() -> None:
            less = power_of(part.ball, fewer(as_objects(exponent), 1))
            slope = as_objects(result.slope * less * as_objects(exponent))
            part.add_slope(np.broadcast_to(slope, result.ball.shape))

        self.tape.append(back)
        return result

    def count(self, node: Count, sizes: Sizes) -> Value:
        largest = int(np.max(sizes[node.region], initial=0))
        numbers = np.arange(largest + 1).astype(object)
        part = self.value(node.part, split(node, sizes, numbers))
        choices = as_objects(binomial(np.asarray(sizes[node.region])[..., None], numbers))
        terms = as_objects(part.ball * choices)
        result = Value(as_objects(terms.sum(axis=-1)))

        def back() -> None:
            slope = np.broadcast_to(as_objects(result.slope), result.ball.shape)
            part.add_slope(slope[..., None] * choices)

        self.tape.append(back)
        return result

    def choose(self, is_met: np.ndarray, met: Value, unmet: Value) -> Value:
        result = Value(as_objects(np.where(is_met, met.ball, unmet.ball)))

        def back() -> None:
            met.add_slope(np.where(is_met, result.slope, ZERO))
            unmet.add_slope(np.where(is_met, ZERO, result.slope))

        self.tape.append(back)
        return result

    def gather(self, values: Sequence[Value], where: np.ndarray) -> Value:
        balls = np.empty(len(values), object)
        balls[:] = [value.ball[()] for value in values]
        result = Value(as_objects(balls[where]))

        def back() -> None:
            slope = np.broadcast_to(as_objects(result.slope), where.shape).ravel()
            for index, own in zip(where.ravel().tolist(), slope, strict=True):
                values[index].add_slope(as_objects(own))

        self.tape.append(back)
        return result

    def indicator(self, holds: np.ndarray) -> Value:
        return Value(as_objects(np.where(holds, ONE, ZERO)))


def as_ball(weight: Any) -> arb:
    return weight if isinstance(weight, arb) else arb(float(weight))


def as_objects(value: Any) -> np.ndarray:
    """An array of objects, also where arithmetic on arrays of no dimension gave a bare one."""
    if isinstance(value, np.ndarray):
        return value.astype(object)
    found = np.empty((), object)
    found[()] = value
    return found
