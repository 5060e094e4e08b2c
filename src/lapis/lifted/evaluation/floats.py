"""Circuits in floating point: values as (log, sign), each with a bound on its error.

A number v is held as log |v| and its sign, which is 0 where v is zero (log |v| then means nothing).
Beside it stands its blur, the logarithm of a bound on the error of v, from a running analysis of
every rounding. A sum of positive terms is no more blurred than they are; a difference keeps the
blur of terms much larger than itself, so cancellation shows itself. The bound takes for granted
that exp and log of the machine are good to two units in the last place, and that sums are pairwise,
as numpy's are.

At n = 1,000,000 people log Z is about 10¹², of which a double keeps three decimals, too few for
the differences that the terms of a sum are weighed by; then the logarithms are long doubles. With
complex weights w + iεv the same sweeps give the products of the Hessian with v: the imaginary
part of a derivative is ε times its derivative in the direction v (complex-step differentiation),
without the cancellation of finite differences.

Counting sums with more index combinations than `max_states` are cut into ranges of the outermost
index that fits; the backward sweep evaluates a range again, as its tape was not kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lapis.lifted.compilation.circuit import Call, Count, Factor, Node, Recursion, Rest, children
from lapis.lifted.compilation.regions import Region, Sizes
from lapis.lifted.evaluation.walk import Walk, Weights, reduce_to, split

MAX_STATES = 1 << 20  # index combinations that are held at a time
ULPS = 2.0  # of exp and log
PAIRWISE = 20.0  # roundings of a pairwise sum beside the logarithm of its length


@dataclass
class Value:
    """Arrays of shapes that broadcast; the derivative is filled in by the backward sweep."""

    log: np.ndarray
    sign: np.ndarray  # float64: 1, −1, or 0 where the value is zero
    blur: np.ndarray  # float64, log of a bound on the error of the value
    slope: np.ndarray | float = 0.0  # ∂ log Z / ∂ log |v|

    @property
    def error(self) -> float:
        """A bound on the error of log |v|, for a single value."""
        if self.sign == 0:
            return 0.0 if self.blur == -np.inf else np.inf
        relative = float(np.exp(np.minimum(self.blur - float(self.log.real), 0.0)))
        return float(-np.log1p(-relative)) if relative < 1 else np.inf

    def add_slope(self, slope: np.ndarray) -> None:
        self.slope = self.slope + reduce_to(slope, self.log.shape)


class Floats(Walk[Value]):
    """An evaluation in float64 or long doubles; `dtype` may be complex."""

    def __init__(self, weights: Weights, dtype: np.dtype, max_states: int = MAX_STATES) -> None:
        super().__init__(weights)
        self.dtype = dtype
        self.real = np.zeros((), dtype).real.dtype
        self.eps = float(np.finfo(self.real).eps)
        self.max_states = max_states
        self.slopes = np.zeros(len(weights.value), dtype)

    def rounded(self, log: np.ndarray, sign: np.ndarray, units: np.ndarray | float) -> np.ndarray:
        """The blur of a value whose logarithm is wrong by so many units of rounding."""
        with np.errstate(divide="ignore", over="ignore"):  # no digit is left: the bound is infinite
            wrong = np.log(np.expm1(self.eps * np.asarray(units, float)))
        return np.where(sign == 0, -np.inf, log.real.astype(float) + wrong)

    def factor(self, node: Factor, sizes: Sizes) -> Value:
        log = np.zeros((), self.dtype)
        sign, units = np.ones(()), np.zeros(())
        steps = 3 + len(node.exponent) + len(node.literals) + len(node.free)
        numbers = [(weight, size.at(sizes)) for weight, size in node.exponent]
        terms = [self.dtype.type(self.weights.value[weight]) * number for weight, number in numbers]
        bases = [(self.weights.of(p)[0 if positive else 1], s) for p, positive, s in node.literals]
        bases += [(sum(self.weights.of(p)), s) for p, s in node.free]
        for base, size in bases:
            exponent = size.at(sizes)
            if base == 0.0:
                sign = sign * (exponent == 0)
            elif base != 1.0:
                terms.append(np.log(self.real.type(abs(base))) * exponent)
            if base < 0.0:
                sign = sign * (1.0 - 2.0 * (exponent % 2 == 1))
        for term in terms:
            log, units = log + term, units + steps * np.abs(term).astype(float)
        result = Value(*spread(log, sign, self.rounded(*np.broadcast_arrays(log, sign, units))))

        def back() -> None:
            slope = np.broadcast_to(result.slope, result.log.shape)
            for weight, number in numbers:
                self.slopes[weight] += (slope * number).sum()

        self.tape.append(back)
        return result

    def product(self, parts: Sequence[Value]) -> Value:
        log, sign, blur = parts[0].log, parts[0].sign, parts[0].blur
        for part in parts[1:]:
            one, other = size_of(log, sign), size_of(part.log, part.sign)
            blur = np.logaddexp(one + part.blur, np.logaddexp(other, part.blur) + blur)
            log, sign = log + part.log, sign * part.sign
            blur = np.logaddexp(blur, self.rounded(*spread(log, sign, np.abs(log).astype(float))))
        result = Value(*spread(log, sign, blur))

        def back() -> None:
            slope = np.broadcast_to(result.slope, result.log.shape)
            for part in parts:
                part.add_slope(slope)

        self.tape.append(back)
        return result

    def sum(self, parts: Sequence[Value], signs: Sequence[int]) -> Value:
        shape = np.broadcast_shapes(*(part.log.shape for part in parts))
        terms = Value(
            np.stack([np.broadcast_to(part.log, shape) for part in parts], -1),
            np.stack(
                [np.broadcast_to(s * p.sign, shape) for s, p in zip(signs, parts, strict=True)], -1
            ),
            np.stack([np.broadcast_to(part.blur, shape) for part in parts], -1),
        )
        result, share = self.add_up(terms)

        def back() -> None:
            for index, part in enumerate(parts):
                part.add_slope(result.slope * share[..., index])

        self.tape.append(back)
        return result

    def power(self, part: Value, exponent: np.ndarray) -> Value:
        log = part.log * exponent
        sign = np.where(exponent % 2 == 1, part.sign, np.where(exponent == 0, 1.0, part.sign**2))
        times = np.asarray(exponent, float)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            # (|v| + e)ⁿ − |v|ⁿ = |v|ⁿ (exp(n log(1 + e/|v|)) − 1), or eⁿ where v is zero
            growth = times * np.logaddexp(0.0, part.blur - part.log.real.astype(float))
            more = np.where(
                growth > 1, growth + np.log1p(-np.exp(-growth)), np.log(np.expm1(growth))
            )
            blur = np.where(part.sign == 0, times * part.blur, log.real.astype(float) + more)
        blur = np.where(times == 0, -np.inf, blur)
        units = 3 * np.abs(log).astype(float)
        blur = np.logaddexp(blur, self.rounded(*spread(log, sign, units)))
        result = Value(*spread(log, sign, blur))

        def back() -> None:
            part.add_slope(np.broadcast_to(result.slope * exponent, result.log.shape))

        self.tape.append(back)
        return result

    def count(self, node: Count, sizes: Sizes) -> Value:
        """Σ_m over a new last axis, m = 0 … the largest size there is, in ranges that fit."""
        numbers = np.arange(int(np.max(sizes[node.region], initial=0)) + 1).astype(self.real)
        width = self.max_states // num_states(node.part, split(node, sizes, numbers[-1:]))
        if width >= len(numbers):
            return self.count_range(node, sizes, numbers)
        width = max(1, width)
        ranges = [numbers[i : i + width] for i in range(0, len(numbers), width)]
        sums = [self.fresh().count_range(node, sizes, some) for some in ranges]
        parts = [Value(found.log, found.sign, found.blur) for found in sums]
        result = self.sum(parts, [1] * len(parts))

        def back() -> None:
            for some, part in zip(ranges, parts, strict=True):
                again = self.fresh()
                found = again.count_range(node, sizes, some)
                found.slope = part.slope
                again.sweep_back()
                self.slopes += again.slopes

        # The sum's own step stands on the tape after this one, so it is swept before it.
        self.tape.insert(len(self.tape) - 1, back)
        return result

    def fresh(self) -> Floats:
        return Floats(self.weights, self.dtype, self.max_states)

    def count_range(self, node: Count, sizes: Sizes, numbers: np.ndarray) -> Value:
        whole = np.asarray(sizes[node.region], self.real)[..., None]
        part = self.value(node.part, split(node, sizes, numbers))
        parts = (
            log_factorial(whole),
            log_factorial(numbers),
            log_factorial(np.maximum(whole - numbers, 0)),
        )
        choices = parts[0] - parts[1] - parts[2]
        units = 8 * np.asarray(parts[0] + parts[1] + parts[2] + 3, float)
        log, sign, units = spread(part.log + choices, part.sign * (numbers <= whole), units)
        units = units + np.abs(log).astype(float)
        blur = np.where(numbers <= whole, part.blur + choices.astype(float), -np.inf)
        terms = Value(log, sign, np.logaddexp(blur, self.rounded(log, sign, units)))
        result, share = self.add_up(terms)

        def back() -> None:
            slope = np.broadcast_to(result.slope, result.log.shape)
            part.add_slope(slope[..., None] * share)

        self.tape.append(back)
        return result

    def choose(self, is_met: np.ndarray, met: Value, unmet: Value) -> Value:
        fields = zip(
            (met.log, met.sign, met.blur), (unmet.log, unmet.sign, unmet.blur), strict=True
        )
        result = Value(*(np.where(is_met, one, other) for one, other in fields))

        def back() -> None:
            met.add_slope(np.where(is_met, result.slope, 0.0))
            unmet.add_slope(np.where(is_met, 0.0, result.slope))

        self.tape.append(back)
        return result

    def gather(self, values: Sequence[Value], where: np.ndarray) -> Value:
        fields = ([getattr(v, name)[()] for v in values] for name in ("log", "sign", "blur"))
        result = Value(*(np.array(found)[where] for found in fields))

        def back() -> None:
            slope = np.broadcast_to(result.slope, where.shape)
            totals = np.zeros(len(values), self.dtype)
            np.add.at(totals, where, slope)
            for value, total in zip(values, totals, strict=True):
                value.add_slope(np.asarray(total))

        self.tape.append(back)
        return result

    def indicator(self, holds: np.ndarray) -> Value:
        exact = np.full(holds.shape, -np.inf)
        return Value(np.zeros(holds.shape, self.dtype), holds.astype(float), exact)

    def add_up(self, terms: Value) -> tuple[Value, np.ndarray]:
        """Σ of the terms along the last axis, and each term's share of it."""
        dead = terms.sign == 0
        top = np.where(dead, -np.inf, terms.log.real).max(axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, self.real.type(0))
        below = np.where(dead, -np.inf, (terms.log - top).real)
        if self.dtype.kind == "c":
            values = np.exp(np.where(dead, 0, terms.log - top)) * terms.sign
        else:
            values = np.exp(below) * terms.sign
        total = values.sum(axis=-1, keepdims=True)
        sign = np.sign(total.real)
        safe = np.where(sign == 0, 1, total * sign)
        log = np.where(sign == 0, 0, np.log(safe) + top)
        length = values.shape[-1]
        roundings = ULPS + min(length, PAIRWISE + np.log2(length))
        # Where all terms are zero their blur is what there is to scale by.
        scale = np.where(
            dead.all(axis=-1, keepdims=True), terms.blur.max(axis=-1, keepdims=True), top
        )
        scale = np.where(np.isfinite(scale), scale, 0.0).astype(float)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            units = roundings - np.where(dead, 0.0, below.astype(float))
            wrong = np.exp(terms.blur - scale) + np.abs(values).astype(float) * units * self.eps
            blur = np.log(wrong.sum(axis=-1, keepdims=True)) + scale
        units = ULPS + 2 * np.abs(log).astype(float)
        blur = np.logaddexp(blur, self.rounded(log, sign, units))
        found = Value(*(x.squeeze(-1) for x in (log, np.asarray(sign, float), blur)))
        return found, np.where(sign == 0, 0, values / (safe * np.where(sign == 0, 1, sign)))


def size_of(log: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """float64[...], log |v|, −∞ where v is zero."""
    return np.where(sign == 0, -np.inf, log.real.astype(float))


def spread(*arrays: np.ndarray) -> list[np.ndarray]:
    return list(np.broadcast_arrays(*arrays))


def num_states(node: Node, sizes: Mapping[Region, np.ndarray | int]) -> int:
    """How many index combinations are held at once below a node, at most."""
    here = np.broadcast_shapes(*(np.shape(size) for size in sizes.values()))
    largest = {region: int(np.max(size, initial=0)) for region, size in sizes.items()}
    return int(np.prod(here, dtype=np.int64)) * deepest(node, largest)


def deepest(node: Node, largest: dict[Region, int]) -> int:
    """The most index combinations of nested counts, by the largest sizes of regions."""
    match node:
        case Count(part, region, plus, minus):
            size = largest.get(region, 0)
            return (size + 1) * deepest(part, {**largest, plus: size, minus: size})
        case Call(inner, names):
            return deepest(inner, {own: largest.get(ours, 0) for own, ours in names})
        case Rest(part, region, rest):
            return deepest(part, {**largest, rest: largest.get(region, 0)})
        case Recursion():
            return 1  # evaluated size by size
        case _:
            return max((deepest(child, largest) for child in children(node)), default=1)


def log_factorial(number: np.ndarray) -> np.ndarray:
    """log n! in the precision of its argument: Stirling's series, a table below 21.

    >>> [float(log_factorial(np.asarray(float(n)))) for n in (0, 1, 10)] == [0, 0, np.log(3628800)]
    True
    """
    n = np.asarray(number)
    table = np.log(np.cumprod(np.maximum(np.arange(21), 1)).astype(n.dtype))
    x = np.maximum(n, 21) + 1
    inverse = 1 / x
    square = inverse * inverse
    tail = np.zeros_like(x)
    for top, bottom in STIRLING:
        tail = tail * square + n.dtype.type(top) / bottom
    half_log = np.log(n.dtype.type(2) * PI.astype(n.dtype)) / 2
    large = (x - 0.5) * np.log(x) - x + half_log + tail * inverse
    return np.where(n <= 20, table[np.minimum(n, 20).astype(np.int64)], large)


PI = np.arctan(np.longdouble(1)) * 4
STIRLING = ((1, 156), (-691, 360360), (1, 1188), (-1, 1680), (1, 1260), (-1, 360), (1, 12))
