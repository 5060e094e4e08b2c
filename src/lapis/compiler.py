"""Numba, set up: where kernels are kept, who is told of one that is compiled, what waits meanwhile.

What is compiled is kept beside the source, or in the user's folder for caches. Where neither can
be written to, it is kept in a folder of the user's own among the temporary ones.

Importing this module imports numba, which takes half a second: `compiled.py` does so when the first
kernel is called.
"""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event

from lapis.cache_folder import private_folder
from lapis.progress import Progress, compilations


def make_dispatcher(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What numba calls a function that it compiles for each signature it is called with."""
    return njit(**options)(function)


def is_kept(kernel: Any) -> bool:
    """Whether some version of the kernel was compiled before."""
    return Path(kernel.dispatcher._cache._cache_file._index_path).exists()


def find_place() -> None:
    """Let numba keep kernels in a temporary folder if it finds no other."""
    try:
        njit(cache=True)(is_kept)
    except RuntimeError:  # no folder for the cache
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


class Compilations(event.Listener):  # type: ignore[misc]
    """Passes on what numba says of kernels that are compiled, and keeps the collector away.

    A compiler's trees are full of cycles that live until it is done: to walk them again and again
    takes a ninth of its time.
    """

    def __init__(self) -> None:
        self.done, self.began = 0, time.monotonic()
        self.lock, self.running, self.collects = threading.Lock(), 0, False

    def on_start(self, event: event.Event) -> None:
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
        with self.lock:
            self.done += 1
            self.running -= 1
            if self.running == 0 and self.collects:
                gc.enable()


event.register("numba:compile", Compilations())
find_place()
