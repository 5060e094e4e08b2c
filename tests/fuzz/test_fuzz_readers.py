"""A short run of the fuzzer on every reader; `make fuzz` runs longer."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from fuzz.fuzz_readers import MUCH_AT_ONCE, READERS, damage, fuzz

SLOW = {"csv", "csv.gz", "parquet", "rows.parquet"}  # DuckDB is opened for each file


@pytest.mark.parametrize("name", [*READERS])
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    tried = fuzz(READERS[name], tmp_path, "a fixed seed")
    for content, failure in islice(tried, 20 if name in SLOW else 200):
        assert failure is None, f"{failure}\n{content[:1000]!r}"


def test_files_are_damaged() -> None:
    """Nearly every file differs from its seed; texts stay below a bound."""
    rng = random.Random(0)
    for reader in (READERS["uai"], READERS["bif"], READERS["wcnf.gz"]):
        (seed, *_) = reader.seeds()
        found = [damage(reader, seed, rng) for _ in range(200)]
        assert sum(content != seed for content in found) > 180
        assert max(map(len, found)) < 20 * MUCH_AT_ONCE
