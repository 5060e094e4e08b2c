"""How kernels are compiled: an entry is called from Python, an inner function only by kernels.

Inner functions get no Python wrapper, which for tuples of a dozen arrays takes longer to compile
than the function. Kernels index with non-negative integers, never raise and never allocate.
"""

from __future__ import annotations

from numba import njit

entry = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
inner = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    _nrt=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
