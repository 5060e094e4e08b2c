"""How kernels are compiled: when they are first called, and not before numba is needed.

An entry is called from Python, an inner function only by kernels. Inner functions get no Python
wrapper, which for tuples of a dozen arrays takes longer to compile than the function. Kernels
index with non-negative integers and never raise; those that allocate say so, because counting
references doubles the code of the others for nothing.

Loading numba takes half a second, as long as a small job may take in all, and compiling a kernel
takes another second or two. So a decorator only remembers the function, modules of kernels are free
to be imported by whoever may call them, and a caller that knows how little there is to do asks
`for_work`: a kernel is a Python function too, and some thousand steps of it are interpreted before
numba has begun. Only kernels of whole numbers and of sums are asked, whose results are the same to
the last bit.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

FEW_STEPS = 30_000  # of a microsecond or two, interpreted: less than loading numba takes
MANY_STEPS = 300_000  # less than compiling takes
LOCK = threading.RLock()


class Kernel:
    """A function that numba sees when it is first called, by Python or by another kernel."""

    dispatcher: Any

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        """The dispatcher, on the first call; afterwards it is found without asking here."""
        if name != "dispatcher":
            raise AttributeError(name)
        from lapis.compiler import make_dispatcher

        with LOCK:
            if "dispatcher" not in self.__dict__:
                self.dispatcher = make_dispatcher(self.py_func, self.options)
        return self.__dict__["dispatcher"]

    @property
    def _numba_type_(self) -> Any:
        """What kernels that call this one see of it."""
        return self.dispatcher._numba_type_

    def for_work(self, steps: int) -> Callable[..., Any]:
        """The kernel, or its function where that is done with so many steps before the kernel is
        loaded, or compiled if it never was."""
        is_loaded = "dispatcher" in self.__dict__ and bool(self.dispatcher.overloads)
        if is_loaded or steps > MANY_STEPS:
            return self
        if "lapis.compiler" not in sys.modules and steps <= FEW_STEPS:
            return self.interpret
        from lapis.compiler import is_kept

        return self if is_kept(self) else self.interpret

    def interpret(self, *arguments: Any) -> Any:
        """The kernel as Python runs it, with the whole numbers of numba, which wrap in silence."""
        import numpy as np

        with np.errstate(all="ignore"):
            return self.py_func(*arguments)


class InnerKernel(Kernel):
    """A kernel that only kernels call: one that comes from Python is interpreted."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def entry_with(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return functools.partial(Kernel, options=EVERYWHERE | {"cache": True} | options)


def inner_with(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return functools.partial(
        InnerKernel, options=EVERYWHERE | {"no_cpython_wrapper": True} | options
    )


EVERYWHERE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
entry = entry_with(_nrt=False)
allocating_entry = entry_with()
inner = inner_with(_nrt=False, cache=True)
allocating_inner = inner_with(cache=True)
