"""Amounts of memory, as people write them."""

from __future__ import annotations

import re

from lapis.errors import LapisError

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """Bytes in a text like 8GB, 500 MB or 1000000.

    >>> parse_size("2GB"), parse_size("1.5 M")
    (2147483648, 1572864)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise LapisError(f"{text!r} is not a size", code="size", hint="as in 8GB or 500MB")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])
