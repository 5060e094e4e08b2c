"""The numbers that sums over cells are made of: exact rationals, or balls that hold the true value.

Both are python-flint's. Which one decides nothing else: the algorithms only add, multiply, divide
and raise to powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from lapis.lifted.cells.cell_tables import Monomials
from lapis.lifted.cells.sentence import WeightParameter

MAX_STEPS = 100_000_000  # of a sum: about a quarter of an hour
FEW_STEPS = 100_000  # where cells are not asked for by name
Number = Any  # fmpq or arb; flint does not say which of them a sum or a product is


class TooManyDigits(Exception):
    """Exact numbers would fill the memory; balls do not."""


@dataclass(frozen=True)
class Numbers:
    """Values of the parameters, in one kind of number."""

    values: tuple[Number, ...]
    exact: bool
    max_steps: int = MAX_STEPS  # that a sum of them may take

    @property
    def one(self) -> Number:
        from flint import arb, fmpq

        return fmpq(1) if self.exact else arb(1)

    def of(self, weight: Monomials) -> Number:
        """Σ times · Π parameter^exponent."""
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
    """Rationals, if all parameters are."""
    from flint import fmpq

    found = [p.value for p in parameters]
    rational = [v for v in found if v is not None]
    if len(rational) < len(found):
        return None
    values = tuple(fmpq(v.numerator, v.denominator) for v in rational)
    return Numbers(values, exact=True, max_steps=max_steps)


def balls(
    parameters: Sequence[WeightParameter],
    moved: int = -1,
    by: Number = 0,
    max_steps: int = MAX_STEPS,
) -> Numbers:
    """Balls at the working precision; the weight of one rule may be moved."""
    from flint import arb, fmpq

    values = []
    for p in parameters:
        if p.value is not None:
            value = arb(fmpq(p.value.numerator, p.value.denominator))
        else:
            value = arb(p.weight).exp()
        values.append(value * by.exp() if by and p.rule == moved else value)
    return Numbers(tuple(values), exact=False, max_steps=max_steps)


def num_bits(number: Number) -> int:
    """By how many bits a rational's powers grow; 0 for 0, 1 and −1."""
    largest = int(max(abs(number.p), number.q))
    return largest.bit_length() if largest > 1 else 0


def fraction(number: Number) -> Fraction:
    return Fraction(int(number.p), int(number.q))
