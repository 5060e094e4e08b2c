"""Regions: sets of interchangeable constants, known by their size only, and counts over them.

A region is a type's constants without those that are told apart, or a part of a region:

    root      constants of a type that are known to be alike
    plus      those of the parent whose atom of a counted predicate is true; the size is summed over
    minus     the others of the parent
    rest      the parent without some elements that were taken out

A circuit is compiled for regions, never for numbers; numbers of groundings are `Size`s, products
of (size(region) − offset), read off when the circuit is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

Region = int  # numbers are given in the order of creation, so a parent comes before its parts
Sizes = Mapping[Region, np.ndarray]  # whole numbers in the dtype of the evaluation; they broadcast


class Size(NamedTuple):
    """coefficient · Π (size(region) − offset) / divisor."""

    factors: tuple[tuple[Region, int], ...] = ()  # sorted
    coefficient: int = 1
    divisor: int = 1

    def __mul__(self, other: object) -> Size:
        assert isinstance(other, Size)
        factors = tuple(sorted(self.factors + other.factors))
        return Size(factors, self.coefficient * other.coefficient, self.divisor * other.divisor)

    def at(self, sizes: Sizes) -> np.ndarray:
        """The number; 0 where a region is too small for as many different elements."""
        value = np.asarray(self.coefficient)
        for region, offset in self.factors:
            value = value * fewer(sizes[region], offset)
        # The division is exact, in floats as long as the product before it is.
        return value if self.divisor == 1 else value // self.divisor

    def rename(self, names: Mapping[Region, Region]) -> Size:
        factors = tuple(sorted((names.get(r, r), offset) for r, offset in self.factors))
        return self._replace(factors=factors)


def fewer(size: np.ndarray, number: int) -> np.ndarray:
    """max(size − number, 0); whole numbers of any length (objects) stay such."""
    kind = np.asarray(size).dtype
    return np.asarray(np.maximum(np.asarray(size - number), 0)).astype(kind)


def num_choices(regions: Iterable[Region], taken: Mapping[Region, int] | None = None) -> Size:
    """In how many ways variables of these regions can be different elements, some being taken."""
    used = dict(taken or {})
    factors: list[tuple[Region, int]] = []
    for region in regions:
        factors.append((region, used.get(region, 0)))
        used[region] = used.get(region, 0) + 1
    return Size(tuple(sorted(factors)))
