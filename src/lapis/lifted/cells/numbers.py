"""Numbers of sums over cells: rationals, or balls that contain the true value (python-flint).

The algorithms only add, multiply, divide and raise to powers, so they work with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lapis.lifted.cells.cell_tables import Monomials
from lapis.lifted.cells.sentence import WeightParameter

MAX_STEPS = 100_000_000  # of a sum: about a quarter of an hour
FEW_STEPS = 100_000  # for the methods `auto` and `lifted`
Number = Any  # fmpq, arb, or a polynomial of them; flint has no types for mixed operations


class TooManyDigits(Exception):
    """Rationals would need too much memory; balls do not."""


@dataclass(frozen=True)
class Numbers:
    """Values of the parameters, all rationals or all balls."""

    values: tuple[Number, ...]
    exact: bool
    max_steps: int = MAX_STEPS  # of a sum

    @property
    def one(self) -> Number:
        from flint import arb, fmpq

        return fmpq(1) if self.exact else arb(1)

    def of(self, weight: Monomials) -> Number:
        """Return Σ coefficient · Π parameter^exponent."""
        total = 0 * self.one
        for exponents, times in weight.items():
            term = times * self.one
            for value, exponent in zip(self.values, exponents, strict=True):
                if exponent:
                    term *= value**exponent
            total += term
        return total


def exact_numbers(
    parameters: Sequence[WeightParameter], max_steps: int = MAX_STEPS
) -> Numbers | None:
    """Return rationals; None if a parameter is irrational."""
    from flint import fmpq

    found = [p.value for p in parameters]
    rational = [v for v in found if v is not None]
    if len(rational) < len(found):
        return None
    values = tuple(fmpq(v.numerator, v.denominator) for v in rational)
    return Numbers(values, exact=True, max_steps=max_steps)


def balls(
    parameters: Sequence[WeightParameter], max_steps: int, rule: int = -1, shift: Number = 0
) -> Numbers:
    """Return balls at the working precision; the weight of one rule may be shifted."""
    from flint import arb, fmpq

    values = []
    for p in parameters:
        if p.value is not None:
            value = arb(fmpq(p.value.numerator, p.value.denominator))
        else:
            value = arb(p.weight).exp()
        values.append(value * shift.exp() if shift and p.rule == rule else value)
    return Numbers(tuple(values), exact=False, max_steps=max_steps)


def num_bits(number: Number) -> int:
    """Return by how many bits the powers of a rational grow; 0 for 0, 1 and −1."""
    largest = int(max(abs(number.p), number.q))
    return largest.bit_length() if largest > 1 else 0
