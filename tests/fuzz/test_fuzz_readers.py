"""A short run of the fuzzer on every reader; `make fuzz` runs longer."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from fuzz.fuzz_readers import MUCH_AT_ONCE, PIECES, READERS, damage, find_failure, fuzz

BINARY = (".gz", ".npz", ".npy", ".parquet")
SLOW = {"csv", "csv.gz", "parquet", "rows.parquet"}  # DuckDB is opened for each file


@pytest.mark.parametrize("name", [*READERS])
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    tried = fuzz(READERS[name], tmp_path, "a fixed seed")
    for content, failure in islice(tried, 20 if name in SLOW else 100):
        assert failure is None, f"{failure}\n{content[:1000]!r}"


def test_files_are_damaged() -> None:
    """Nearly every file differs from its seed; texts stay below a bound."""
    rng = random.Random(0)
    for reader in (READERS["uai"], READERS["bif"], READERS["wcnf.gz"]):
        (seed, *_) = reader.seeds()
        found = [damage(reader, seed, rng) for _ in range(200)]
        assert sum(content != seed for content in found) > 180
        assert max(map(len, found)) < 20 * MUCH_AT_ONCE


TEXTS = [name for name, reader in READERS.items() if not reader.suffix.endswith(BINARY)]


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_readers_are_linear_in_repeated_pieces(name: str, tmp_path: Path) -> None:
    """Each piece of the format many times over, between the lines of a valid file."""
    reader = READERS[name]
    path = tmp_path / f"long{reader.suffix}"
    head, *rest = reader.seeds()[0].decode().splitlines(keepends=True)
    for piece in PIECES:
        path.write_text(head + piece * (MUCH_AT_ONCE // len(piece)) + "".join(rest), "utf-8")
        failure = find_failure(reader, path)
        assert failure is None, f"{piece!r}: {failure}"
