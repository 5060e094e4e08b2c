"""Kernels: functions that numba compiles on first use and keeps on disk.

`@entry` marks a kernel that Python calls. `@inner` marks one that only kernels call: numba then
builds no Python wrapper for it, which for a NamedTuple of a dozen arrays takes as long to compile as
the function. Kernels index with non-negative integers and never raise.

Numba keeps compiled kernels beside the source or in the user's cache folder; `NUMBA_CACHE_DIR`
names another place. Where none of these can be written to, they are kept in a private temporary
folder.

Importing this module imports numba. Modules that small commands load import kernels in functions.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event

import lapis
from lapis.cache_folder import private_folder
from lapis.progress import Progress, compilations, work_clock

PACKAGE = Path(lapis.__file__).parent
VERSION_FILE = "lapis-version.txt"  # in each folder of kernels


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls."""
    return kept_kernel(function)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call."""
    return kept_kernel(function, no_cpython_wrapper=True)


def kept_kernel(function: Callable[..., Any], **options: bool) -> Any:
    kernel = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    drop_other_versions(kernel.stats.cache_path)
    return kernel


@functools.cache
def drop_other_versions(folder: str) -> None:
    """Delete the kernels that another version of Lapis left in a folder.

    Numba unpickles the argument types of all kept versions of a kernel before it compares dates,
    and fails if a NamedTuple has moved to another module.
    """
    version, stamp = version_of_kernels(), Path(folder, VERSION_FILE)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != version:
        for index in stamp.parent.glob("*.nbi"):
            index.unlink(missing_ok=True)
        stamp.write_text(version, encoding="utf-8")


@functools.cache
def version_of_kernels() -> str:
    """The version of Lapis, and a digest of the names of its modules for trees under work."""
    names = sorted(
        os.path.join(folder, name)
        for folder, _, files in os.walk(PACKAGE)
        for name in files
        if name.endswith(".py")
    )
    return f"{lapis.__version__} {sha256(repr(names).encode()).hexdigest()}"


def find_place() -> None:
    """Let numba keep kernels in a temporary folder if it finds no other."""
    try:
        njit(cache=True)(find_place)
    except RuntimeError:  # no folder for the cache
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


class Compilations(event.Listener):  # type: ignore[misc]
    """Reports the kernels of Lapis that numba compiles, and pauses the work clock meanwhile."""

    def __init__(self) -> None:
        self.done, self.began = 0, time.monotonic()

    def on_start(self, event: event.Event) -> None:
        if is_ours(event):
            work_clock.pause()
            seconds, name = time.monotonic() - self.began, event.data["dispatcher"].__name__
            news = Progress(
                "compiling for the first use, kernel", self.done, None, seconds, {}, name
            )
            for report in tuple(compilations):
                report(news)

    def on_end(self, event: event.Event) -> None:
        if is_ours(event):
            work_clock.resume()
            self.done += 1


def is_ours(event: event.Event) -> bool:
    return str(event.data["dispatcher"].__module__).partition(".")[0] == "lapis"


event.register("numba:compile", Compilations())
find_place()
