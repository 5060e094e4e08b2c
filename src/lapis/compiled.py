"""How kernels are compiled, and where they are kept.

An entry is called from Python, an inner function only by kernels. Inner functions get no Python
wrapper, which for tuples of a dozen arrays takes longer to compile than the function. Kernels
index with non-negative integers and never raise; those that allocate say so, because counting
references doubles the code of the others for nothing.

What is compiled is kept beside the source, or in the user's folder for caches. Where neither can
be written to, it is kept in a folder of the user's own among the temporary ones.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event

from lapis.progress import Progress, compilations


def is_kept(kernel: Any) -> bool:
    """Whether some version of the kernel was compiled before."""
    return Path(kernel._cache._cache_file._index_path).exists()


def find_place() -> None:
    """Let numba keep kernels in a temporary folder if it finds no other."""
    try:
        njit(cache=True)(is_kept)
    except RuntimeError:  # no folder for the cache
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


def private_folder(parent: Path) -> Path:
    """A folder that nobody else can write to, the same in the next run if there is no doubt."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = parent / f"lapis-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="lapis-kernels-", dir=parent))


class Compilations(event.Listener):  # type: ignore[misc]
    """Passes on what numba says of kernels that are compiled."""

    def __init__(self) -> None:
        self.done, self.began = 0, time.monotonic()

    def on_start(self, event: event.Event) -> None:
        seconds, name = time.monotonic() - self.began, event.data["dispatcher"].__name__
        news = Progress("compiling for the first use, kernel", self.done, None, seconds, {}, name)
        for report in tuple(compilations):
            report(news)

    def on_end(self, event: event.Event) -> None:
        self.done += 1


event.register("numba:compile", Compilations())
find_place()
entry = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, _nrt=False)
allocating_entry = njit(cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True)
inner = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    no_cfunc_wrapper=True,
    no_cpython_wrapper=True,
    _nrt=False,
)
allocating_inner = njit(
    cache=True, nogil=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True
)
