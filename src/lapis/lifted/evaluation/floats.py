"""Evaluate circuits in floating point: values as (log, sign), each with a bound on its error.

A number v is represented by a scale log, a sign and an error:

    v is in exp(log) · [sign − error, sign + error].

The sign is 1 or −1, and log is log |v|. Or the sign is 0: v is zero up to its error, and log is the
scale of the error. A sum of positive terms has no larger relative error than its terms. A
difference has the errors of terms much larger than itself, so cancellation shows in the bound. The
bound follows every rounding. It assumes that exp and log err by at most two units in the last
place.

At n = 1,000,000 people log Z is about 10¹², of which a double keeps three decimals, too few for the
differences between the terms of a sum; then the logarithms are long doubles. With complex weights
w + iεv the same sweeps compute products of the Hessian with v: the imaginary part of a derivative
is ε times its derivative in the direction v (complex-step differentiation), without the
cancellation of finite differences.

Counting sums with more index combinations than `max_states` are cut into ranges of the outermost
index. Each range has its own forward and backward sweep and leaves a number and its derivatives, so
memory holds the tape of one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lapis.lifted.compilation.lifted_circuit import CountNode, FactorNode
from lapis.lifted.evaluation.sweep import (
    CircuitSweep,
    Frame,
    FrameNumber,
    FrameSizes,
    Weights,
    add_within,
    cut_ranges,
    innermost_frame,
    number_at,
    spread_to_frame,
    states_within,
)

HELD_STATES = 1 << 17  # index combinations in memory at a time
ULPS = 2.0  # error of exp and log
LARGE = 1e3  # relative error above which products of errors use logarithms
PAIRWISE = 20.0  # roundings of a pairwise sum, plus the logarithm of its length


@dataclass
class FloatValue:
    """A number for each combination of a frame; sign and error may have one entry for all."""

    frame: Frame
    log: np.ndarray  # [frame.size]
    sign: np.ndarray  # float64: 1, −1 or 0
    error: np.ndarray  # float64, relative to exp(log)
    slope: np.ndarray = field(default_factory=lambda: np.zeros(1))  # ∂ log Z / ∂ log |v|

    @property
    def bound(self) -> float:
        """Return a bound on the error of log |v|, for a single value."""
        error = float(self.error[0])
        if self.sign[0] == 0:
            return 0.0 if error == 0 else np.inf
        return float(-np.log1p(-error)) if error < 1 else np.inf

    def add_slope(self, slope: np.ndarray, frame: Frame) -> None:
        self.slope = self.slope + add_within(slope, frame, self.frame, len(self.log))


class Floats(CircuitSweep[FloatValue]):
    """An evaluation in float64 or long doubles; `dtype` may be complex."""

    def __init__(self, weights: Weights, dtype: np.dtype, max_states: int = HELD_STATES) -> None:
        self.dtype = dtype
        self.real = np.zeros((), dtype).real.dtype
        super().__init__(weights, self.real)
        self.eps = float(np.finfo(self.real).eps)
        self.max_states = max_states
        self.slopes = np.zeros(len(weights.value), dtype)
        self.zero = np.zeros(1, dtype)
        self.factorials = np.zeros(1, self.real)  # log n! for n = 0, 1, …, as far as needed

    def factor(self, node: FactorNode, sizes: FrameSizes) -> FloatValue:
        numbers = [(weight, number_at(size, sizes)) for weight, size in node.exponent]
        terms = [
            FrameNumber(n.frame, self.dtype.type(self.weights.value[weight]) * n.value)
            for weight, n in numbers
        ]
        bases = [
            (self.weights.of(p)[0 if positive else 1], number_at(size, sizes))
            for p, positive, size in node.literals
        ]
        bases += [(sum(self.weights.of(p)), number_at(size, sizes)) for p, size in node.free]
        frame = innermost_frame(n.frame for _, n in (*numbers, *bases))
        sign = np.ones(1)
        for base, (own, exponent) in bases:
            if base == 0.0:
                sign = sign * spread_to_frame((exponent == 0).astype(float), own, frame)
            elif base != 1.0:
                terms.append(FrameNumber(own, np.log(self.real.type(abs(base))) * exponent))
            if base < 0.0:
                odd = (exponent % 2 == 1).astype(float)
                sign = sign * spread_to_frame(1.0 - 2.0 * odd, own, frame)
        log, total = self.add_logs([(term.value, term.frame) for term in terms], frame)
        steps = 3 + len(node.exponent) + len(bases)
        result = FloatValue(frame, log, sign, bound_expm1(self.eps * steps * total) * np.abs(sign))

        def back() -> None:
            slope = np.broadcast_to(result.slope, (frame.size,))
            for weight, (own, number) in numbers:
                self.slopes[weight] += (slope * spread_to_frame(number, own, frame)).sum()

        self.tape.append(back)
        return result

    def add_logs(
        self, terms: Sequence[tuple[np.ndarray, Frame]], frame: Frame
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ terms in a frame, and Σ |terms| as float64."""
        log, total = np.zeros(frame.size, self.dtype), np.zeros(1)
        for term, own in terms:
            log += spread_to_frame(term, own, frame)
            total = total + spread_to_frame(np.abs(term).astype(float), own, frame)
        return log, total

    def product(self, parts: Sequence[FloatValue]) -> FloatValue:
        frame = innermost_frame(part.frame for part in parts)
        log, total = self.add_logs([(part.log, part.frame) for part in parts], frame)
        sign, error = np.ones(1), np.zeros(1)
        for part in parts:
            own_sign = spread_to_frame(part.sign, part.frame, frame)
            own_error = spread_to_frame(part.error, part.frame, frame)
            error = product_error(sign, error, own_sign, own_error)
            sign = sign * own_sign
        rounding = bound_expm1(self.eps * len(parts) * total)
        error = error + (np.abs(sign) + error) * rounding
        result = FloatValue(frame, log, sign, error)

        def back() -> None:
            slope = np.broadcast_to(result.slope, (frame.size,))
            for part in parts:
                part.add_slope(slope, frame)

        self.tape.append(back)
        return result

    def sum(self, parts: Sequence[FloatValue], signs: Sequence[int]) -> FloatValue:
        frame = innermost_frame(part.frame for part in parts)

        def row(arrays: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
            """Interleave the parts' entries: those of one combination are consecutive."""
            found = np.empty((frame.size, len(parts)), dtype)
            for place, (part, array) in enumerate(zip(parts, arrays, strict=True)):
                found[:, place] = spread_to_frame(array, part.frame, frame)
            return found.ravel()

        double = np.dtype(float)
        inner = frame.branch(np.full(frame.size, len(parts)))
        terms = FloatValue(
            inner,
            row([part.log for part in parts], self.dtype),
            row([s * part.sign for s, part in zip(signs, parts, strict=True)], double),
            row([part.error for part in parts], double),
        )
        result, share = self.add_up(terms)

        def back() -> None:
            slope = np.broadcast_to(result.slope, (frame.size,))
            shares = share.reshape(frame.size, len(parts))
            for place, part in enumerate(parts):
                part.add_slope(slope * shares[:, place], frame)

        self.tape.append(back)
        return result

    def power(self, part: FloatValue, exponent: FrameNumber) -> FloatValue:
        frame = innermost_frame((part.frame, exponent.frame))
        times = spread_to_frame(exponent.value, exponent.frame, frame)
        log = (
            np.zeros(frame.size, self.dtype) + spread_to_frame(part.log, part.frame, frame) * times
        )
        sign, error = part.sign, part.error
        roundings = bound_expm1(3 * self.eps * np.abs(log).astype(float))
        if (sign == 1).all():
            # (1 + e)ⁿ − 1
            grown = bound_expm1(power_error(spread_to_frame(error, part.frame, frame), times))
            result_sign, result_error = np.ones(1), grown + (1 + grown) * roundings
        else:
            sign, error = (spread_to_frame(x, part.frame, frame) for x in (sign, error))
            real = times.astype(float)
            grown = bound_expm1(power_error(error, times))
            with np.errstate(divide="ignore", invalid="ignore"):
                vanished = np.where(error == 0, 0.0, np.exp(real * np.log(error)))
            odd = np.where(times % 2 == 1, sign, sign**2)
            result_sign = np.where(times == 0, 1.0, odd)
            result_error = np.where(sign == 0, vanished, grown)
            result_error = np.where(times == 0, 0.0, result_error)
            result_error = result_error + (np.abs(result_sign) + result_error) * roundings
        result = FloatValue(frame, log, result_sign, result_error)

        def back() -> None:
            slope = np.broadcast_to(result.slope, (frame.size,))
            part.add_slope(slope * times, frame)

        self.tape.append(back)
        return result

    def count_in(self, node: CountNode, sizes: FrameSizes, frame: Frame) -> FloatValue:
        """Sum over ranges of m that fit in memory, if there is one combination of sizes."""
        if frame.size > 1:
            return super().count_in(node, sizes, frame)
        whole = sizes[node.region].value
        numbers = np.arange(int(whole[0]) + 1).astype(self.real)
        inner = frame.branch(np.array([len(numbers)]))
        split = {
            node.plus: FrameNumber(inner, numbers),
            node.minus: FrameNumber(inner, whole - numbers),
        }
        ranges = cut_ranges(states_within(node.part, {**sizes, **split}, inner), self.max_states)
        self.need_factorials(len(numbers))
        if len(ranges) == 1:
            return self.count_row(node, sizes, whole, FrameNumber(inner, numbers))
        parts: list[FloatValue] = []
        slopes: list[np.ndarray] = []
        for first, last in ranges:
            part_sweep = Floats(self.weights, self.dtype, self.max_states)
            part_sweep.factorials = self.factorials
            some = FrameNumber(frame.branch(np.array([last - first])), numbers[first:last])
            found = part_sweep.count_row(node, sizes, whole, some)
            found.slope = np.ones(1, self.dtype)
            part_sweep.sweep_back()
            parts.append(FloatValue(frame, found.log, found.sign, found.error))
            slopes.append(part_sweep.slopes)

        def back() -> None:
            for part, slope in zip(parts, slopes, strict=True):
                self.slopes += part.slope[0] * slope

        self.tape.append(back)
        return self.sum(parts, [1] * len(parts))

    def add_choices(self, part: FloatValue, whole: np.ndarray, number: FrameNumber) -> FloatValue:
        frame = number.frame
        assert frame.parent is not None
        table = self.need_factorials(int(whole.max(initial=0)) + 1)
        taken = number.value.astype(np.int64)
        size = spread_to_frame(whole, frame.parent, frame).astype(np.int64)
        parts = table[size], table[taken], table[size - taken]
        choices = parts[0] - parts[1] - parts[2]
        units = np.asarray(8 * (parts[0] + parts[1] + parts[2] + 3), float)
        log = spread_to_frame(part.log, part.frame, frame) + choices
        sign, error = (spread_to_frame(x, part.frame, frame) for x in (part.sign, part.error))
        units = units + np.abs(log).astype(float)
        error = error + (np.abs(sign) + error) * bound_expm1(self.eps * units)
        result, share = self.add_up(FloatValue(frame, log, sign, error))

        def back() -> None:
            assert frame.parent is not None
            slope = np.broadcast_to(result.slope, (frame.parent.size,))
            part.add_slope(spread_to_frame(slope, frame.parent, frame) * share, frame)

        self.tape.append(back)
        return result

    def need_factorials(self, length: int) -> np.ndarray:
        """Return the table of log n!, extended to at least `length` entries."""
        if len(self.factorials) < length:
            self.factorials = log_factorial(np.arange(length).astype(self.real))
        return self.factorials

    def select(
        self, where: np.ndarray, met: FloatValue, unmet: FloatValue, frame: Frame
    ) -> FloatValue:
        def pick(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            one, other = (
                spread_to_frame(one, met.frame, frame),
                spread_to_frame(other, unmet.frame, frame),
            )
            return np.where(where, one, other)

        log, sign = pick(met.log, unmet.log), pick(met.sign, unmet.sign)
        return FloatValue(frame, log, sign, pick(met.error, unmet.error))

    def take(self, values: Sequence[FloatValue], places: np.ndarray, frame: Frame) -> FloatValue:
        def row(name: str) -> np.ndarray:
            own = (np.broadcast_to(getattr(v, name), (v.frame.size,)) for v in values)
            return np.asarray(np.concatenate(list(own))[places])

        return FloatValue(frame, row("log"), row("sign"), row("error"))

    def indicator(self, holds: FrameNumber) -> FloatValue:
        sign = holds.value.astype(float)
        return FloatValue(holds.frame, np.zeros(holds.frame.size, self.dtype), sign, np.zeros(1))

    def add_up(self, terms: FloatValue) -> tuple[FloatValue, np.ndarray]:
        """Return Σ of the terms in the parent of their frame, and each term's share of it."""
        inner = terms.frame
        frame, start = inner.parent, inner.start
        assert frame is not None
        assert start is not None
        dead = terms.sign == 0
        vanished = dead & (terms.error == 0)
        log = terms.log.real
        top = np.maximum.reduceat(np.where(vanished, -np.inf, log), start)
        top = np.where(np.isfinite(top), top, self.real.type(0))
        below = terms.log - spread_to_frame(top, frame, inner)
        if vanished.any():
            below = np.where(vanished, -np.inf, below)
        size = np.exp(below.real)
        values = (np.exp(below) if self.dtype.kind == "c" else size) * terms.sign
        if frame.size == 1:  # numpy's sum is pairwise, its reduceat need not be
            total = values.sum().reshape(1)
            roundings = min(inner.size, PAIRWISE + np.log2(inner.size))
        else:
            total = np.add.reduceat(values, start)
            roundings = float(np.diff(start, append=inner.size).max())
        sign = np.sign(total.real)
        safe = np.where(sign == 0, 1, total * sign)
        # A term's exponent is rounded to eps · |below|, and exp of it to ULPS.
        distance = np.where(dead, 0.0, below.real.astype(float))
        relative = terms.error + np.abs(terms.sign) * self.eps * (ULPS + roundings - distance)
        wrong = scale_errors(size.astype(float), below.real, relative)
        error = wrong.sum().reshape(1) if frame.size == 1 else np.add.reduceat(wrong, start)
        log = np.where(sign == 0, top, np.log(safe) + top)
        error = error / np.where(sign == 0, 1.0, np.abs(safe).astype(float))
        units = ULPS + 2 * np.abs(log).astype(float)
        error = error + (np.abs(sign) + error) * bound_expm1(self.eps * units)
        found = FloatValue(frame, log.astype(self.dtype), sign.astype(float), error)
        shares = np.where(sign == 0, 0, 1 / (safe * np.where(sign == 0, 1, sign)))
        return found, values * spread_to_frame(shares, frame, inner)


def power_error(error: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return n · log(1 + e)."""
    with np.errstate(invalid="ignore"):
        found = np.log1p(error) * times.astype(float)
    return found if np.isfinite(error).all() else np.where(times == 0, 0.0, found)


def scale_errors(size: np.ndarray, log_size: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return size · error; by logarithms if an error is so large that the size may underflow."""
    if error.max(initial=0.0) < LARGE:
        return np.asarray(size * error)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        product = np.exp(log_size.astype(float) + np.log(error))
    return np.where(error == 0, 0.0, np.where(error == np.inf, np.inf, product))


def product_error(
    sign: np.ndarray, error: np.ndarray, other_sign: np.ndarray, other_error: np.ndarray
) -> np.ndarray:
    """Return the error of (sign ± error) · (other sign ± other error)."""
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.abs(sign) * other_error + error * (np.abs(other_sign) + other_error)
    if np.isfinite(found).all():
        return np.asarray(found)
    is_zero = ((sign == 0) & (error == 0)) | ((other_sign == 0) & (other_error == 0))
    return np.where(is_zero, 0.0, np.where(np.isnan(found), np.inf, found))


def bound_expm1(exponent: np.ndarray) -> np.ndarray:
    """Return an upper bound of exp(x) − 1 for x ≥ 0, close to x for small x."""
    if len(exponent) == 0 or exponent.max() < 1:
        return np.asarray(exponent / (1 - exponent / 2))
    with np.errstate(over="ignore"):
        return np.asarray(np.expm1(exponent) * (1 + 1e-12))


def log_factorial(number: np.ndarray) -> np.ndarray:
    """Return log n! in the precision of its argument: Stirling's series, a table below 21.

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
