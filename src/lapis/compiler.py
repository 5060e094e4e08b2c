"""Numba, set up: where kernels are kept, who is told of one that is compiled, what waits meanwhile.

Numba optimises every inner function by itself, turns it to machine code that nobody calls, and does
so again in each function it was inlined into. Here a library of code is optimised when somebody
asks for a pointer into it, as happens to entries alone: a third of the time less for a sampler.

What is compiled is kept beside the source, or in the user's folder for caches. Where neither can
be written to, it is kept in a folder of the user's own among the temporary ones.

Importing this module imports numba, which takes half a second: `compiled.py` does so when the first
kernel is called.
"""

from __future__ import annotations

import gc
import importlib
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import caching, event
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target

from lapis.cache_folder import private_folder
from lapis.progress import Progress, compilations, work_clock


def make_dispatcher(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What numba calls a function that it compiles for each signature it is called with."""
    return njit(**options)(function)


def is_kept(kernel: Any) -> bool:
    """Whether some version of the kernel was compiled before."""
    dispatcher = make_dispatcher(kernel.py_func, kernel.options)
    index = Path(dispatcher._cache._cache_file._index_path)
    return any(index.parent.glob(f"{index.stem}.*.nbc"))


class LazyLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked at once, and optimised and made executable when it is asked for."""

    is_executable = False

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def make_executable(self) -> None:
        self._ensure_finalized()
        if not self.is_executable:
            self._codegen._check_llvm_bugs()
            self._optimize_final_module()
            self._final_module.verify()
            self._shared_module = None
            self._finalize_final_module()

    def _finalize_final_module(self) -> None:
        self.is_executable = True
        super()._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        if not self.is_executable:
            if not any(one.name == name for one in self.get_defined_functions()):
                return 0
            self.make_executable()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        self.make_executable()
        return super().serialize_using_object_code()


class LazyCodegen(JITCPUCodegen):  # type: ignore[misc]
    """Makes lazy libraries; those that are not executable have no environment to be set."""

    _library_class = LazyLibrary

    def set_env(self, env_name: str, env: Any) -> None:
        if self._engine.is_symbol_defined(env_name):
            super().set_env(env_name, env)


class KeptIndex(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Which versions of a kernel are kept: none, if it names types that have moved since.

    An upgrade leaves the index of the version before, and numba looks at its types before its date.
    """

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}


def find_place() -> None:
    """Let numba keep kernels in a temporary folder if it finds no other."""
    try:
        njit(cache=True)(is_kept)
    except RuntimeError:  # no folder for the cache
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


def load_without_blas() -> None:
    """Load numba's array functions without scipy.linalg, which they load only to see it is there.

    It is: scipy comes with us. A kernel that multiplies matrices still loads it, where it does.
    """
    from numba.np import linalg

    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = look


class Compilations(event.Listener):  # type: ignore[misc]
    """Passes on what numba says of kernels that are compiled; holds the clock and the collector.

    A compiler's trees are full of cycles that live until it is done: to walk them again and again
    takes a ninth of its time.
    """

    def __init__(self) -> None:
        self.done, self.began = 0, time.monotonic()
        self.lock, self.running, self.collects = threading.Lock(), 0, False

    def on_start(self, event: event.Event) -> None:
        work_clock.pause()
        with self.lock:
            if self.running == 0:
                self.collects = gc.isenabled()
                gc.disable()
            self.running += 1
        seconds, name = time.monotonic() - self.began, event.data["dispatcher"].__name__
        news = Progress("compiling for the first use, kernel", self.done, None, seconds, {}, name)
        for report in tuple(compilations):
            report(news)

    def on_end(self, event: event.Event) -> None:
        work_clock.resume()
        with self.lock:
            self.done += 1
            self.running -= 1
            if self.running == 0 and self.collects:
                gc.enable()


cpu_target.target_context.codegen().__class__ = LazyCodegen
caching.IndexDataCacheFile = KeptIndex
event.register("numba:compile", Compilations())
find_place()
load_without_blas()
