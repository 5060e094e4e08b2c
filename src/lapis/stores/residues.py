"""Integers of any size from their remainders (Chinese remainders).

Engines whose widest integers have 38 digits count in them modulo m1, m2, …, coprime and below
2^61: a product of two remainders then has 37 digits, and a sum of 2^60 remainders does too. A
value below m1·m2·… is known by its remainders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LARGEST = 2**61 - 1


def moduli(bound: int) -> list[int]:
    """Coprime numbers whose product exceeds the bound."""
    found: list[int] = []
    product = 1
    for candidate in range(LARGEST, 2, -2):
        if product > bound:
            break
        if math.gcd(candidate, product) == 1:
            found.append(candidate)
            product *= candidate
    return found


def combine(remainders: Sequence[np.ndarray], modulus: Sequence[int]) -> np.ndarray:
    """object[n], the smallest integers ≥ 0 with the given remainders, each int64 or object[n]."""
    product = math.prod(modulus)
    total = np.zeros(len(remainders[0]), object)
    for remainder, number in zip(remainders, modulus, strict=True):
        others = product // number
        total += remainder.astype(object) * (others * pow(others, -1, number))
    total %= product
    return total
