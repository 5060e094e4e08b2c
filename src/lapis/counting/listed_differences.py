"""x"""
from __future__ import annotations
import numpy as np

def list_atoms(sizes: tuple[int, ...]) -> np.ndarray:
    """int32[Π sizes, len(sizes)], all tuples in lexicographic order."""
    total = 1
    for size in sizes:
        total *= size
    return np.ascontiguousarray(np.indices(sizes, np.int32).reshape(len(sizes), total).T)
