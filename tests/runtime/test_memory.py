"""Free pages are returned to the system if the C library supports it."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from lapis.runtime import processes
from lapis.runtime.processes import MIN_TRIMMED_BYTES, find_malloc_trim, trim_heap


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_little_is_not_worth_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(processes, "find_malloc_trim", lambda: asked.append)
    trim_heap(MIN_TRIMMED_BYTES - 1)
    assert asked == []
    trim_heap(MIN_TRIMMED_BYTES)
    assert asked == [0]


def test_a_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    find_malloc_trim.cache_clear()
    trim_heap(MIN_TRIMMED_BYTES)
    find_malloc_trim.cache_clear()


def test_holes_between_arrays_are_given_back() -> None:
    if not sys.platform.startswith("linux") or find_malloc_trim() is bool:
        return  # nothing is promised there
    size = 1 << 16  # bytes: from the heap
    arrays = [np.ones(size, np.uint8) for _ in range(2000)]
    kept = arrays[::2]
    del arrays
    before = resident_bytes()
    trim_heap(MIN_TRIMMED_BYTES)
    assert resident_bytes() < before - size * len(kept) // 2
