"""How kernels are compiled: when they are first called, and not before numba is needed.

An entry is called from Python, an inner function only by kernels. Inner functions get no Python
wrapper, which for tuples of a dozen arrays takes longer to compile than the function. Kernels
index with non-negative integers and never raise; those that allocate say so, because counting
references doubles the code of the others for nothing. Only entries are kept on disk: they have
their inner functions in them.

Loading numba takes half a second, as long as a small job may take in all, and compiling a kernel
takes another second or two. So a decorator only remembers the function, modules of kernels are free
to be imported by whoever may call them, and a caller that knows how much there is to do says so by
`for_work`: a kernel is a Python function too, and some thousand steps of it are interpreted before
numba has begun. A kernel that is asked again and again is compiled once it has been interpreted for
as long as compiling takes: at most twice the time is spent that hindsight would spend. Results are
the same to the last bit: kernels asked so take logarithms from `math`, as numba does.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Container, Mapping
from typing import Any

from lapis.progress import work_clock

STEPS_A_SECOND = 1_000_000  # interpreted; what is said of a kernel's work is a rough guess
LITTLE = 0.05  # seconds of interpreting, for which neither numba nor anybody else is called
LOCK = threading.RLock()
# Modules whose kernels are compiled even where small jobs could interpret them (`cli/warm.py`).
always_compiled: Container[str] = ()

# Told of entries: that were never compiled, when they are interpreted for some time; and of all
# (True) just before numba looks for them on disk (`cli/warm.py`).
watchers: list[Callable[[Kernel, bool], None]] = []


class Kernel:
    """A function that numba sees when it is first called, by Python or by another kernel."""

    dispatcher: Any

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options = function, options
        self.spent = 0.0  # seconds, interpreting
        self.is_new: bool | None = None  # never compiled; None: nobody looked

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        """The dispatcher, on the first call; afterwards it is found without asking here."""
        if name != "dispatcher":
            raise AttributeError(name)
        with work_clock.paused():
            from lapis.compiler import make_dispatcher

            with LOCK:
                if "dispatcher" not in self.__dict__:
                    self.tell(is_called=True)  # some wait for what another process compiles
                    self.dispatcher = make_dispatcher(self.py_func, self.options)
        return self.__dict__["dispatcher"]

    @property
    def _numba_type_(self) -> Any:
        """What kernels that call this one see of it."""
        return self.dispatcher._numba_type_

    def for_work(self, steps: int, seconds: float = 1.0) -> Callable[..., Any]:
        """The kernel, or its function where that is done with so many steps before the kernel is
        loaded, or compiled if it never was, which takes so many seconds."""
        expected = self.spent + steps / STEPS_A_SECOND
        is_loaded = "dispatcher" in self.__dict__ and bool(self.dispatcher.overloads)
        is_wanted = self.py_func.__module__ in always_compiled
        if is_loaded or is_wanted or expected > seconds:
            return self
        if expected <= LITTLE and "lapis.compiler" not in sys.modules:
            return self.interpret
        if self.is_new is None:
            from lapis.compiler import is_kept

            self.is_new = not is_kept(self)
        if not self.is_new:
            return self
        if expected > LITTLE:
            self.tell(is_called=False)
        return self.interpret

    def tell(self, is_called: bool) -> None:
        """Tell the watchers."""
        for watch in tuple(watchers):
            watch(self, is_called)

    def interpret(self, *arguments: Any) -> Any:
        """The kernel as Python runs it, with the whole numbers of numba, which wrap in silence."""
        import numpy as np

        began = time.thread_time()
        with np.errstate(all="ignore"):
            found = self.py_func(*arguments)
        self.spent += time.thread_time() - began
        return found


class InnerKernel(Kernel):
    """A kernel that only kernels call: one that comes from Python is interpreted."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)

    def tell(self, is_called: bool) -> None:
        """Nobody is told: inner kernels are compiled in every entry anew."""


def entry_with(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return functools.partial(Kernel, options=EVERYWHERE | {"cache": True} | options)


def inner_with(**options: Any) -> Callable[[Callable[..., Any]], Kernel]:
    return functools.partial(
        InnerKernel, options=EVERYWHERE | {"no_cpython_wrapper": True} | options
    )


EVERYWHERE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
entry = entry_with(_nrt=False)
allocating_entry = entry_with()
inner = inner_with(_nrt=False)
allocating_inner = inner_with()
