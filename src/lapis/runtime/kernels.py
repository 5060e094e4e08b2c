"""Kernels: functions that numba compiles on first use and keeps on disk.

`@entry` marks a kernel that Python calls. `@inner` marks a kernel that only kernels call. Numba
builds no Python wrapper for it (for a NamedTuple of a dozen arrays, the wrapper takes as long to
compile as the function), does not store it, and inlines it (`forceinline`; without it, recovering
eliminated atoms was 4 times slower and compilation no faster). Kernels index with non-negative
integers and never raise.

Kernels that allocate arrays are `@allocating_entry` and `@allocating_inner`. The others are
compiled without reference counting (`_nrt=False`, as numba compiles its own string functions).
Counting the arrays of a NamedTuple at each inner call made MaxWalkSAT 36 times slower, MC-SAT 5
times and Gibbs sampling 3 times.

Numba stores compiled kernels beside the source or in the user's cache folder, or in
`NUMBA_CACHE_DIR`. If none of these is writable, they are stored in a private temporary folder.

Importing this module imports numba. Modules that fast commands load import kernels in functions.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import config, njit
from numba.core import event

import lapis
from lapis.runtime.progress import Progress, compilations, work_clock

TEMPORARY = "lapis-kernels-"  # begins the name of a folder for kernels that have no other


def private_folder(parent: Path) -> Path:
    """Return a folder that only the user can write to; later runs use the same one."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = parent / f"{TEMPORARY}{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=parent))


Kernel = Callable[..., Any]
PACKAGE = Path(lapis.__file__).parent
VERSION_FILE = "lapis-version.txt"  # in each folder of kernels
COMPILING = "compiling for the first use, kernel"
LINE_WIDTH = 79
num_kernels = 0  # kernels defined by the modules imported so far


def entry(function: Kernel) -> Kernel:
    """Compile a function that Python calls."""
    return define_kernel(function, cache=True, _nrt=False)


def allocating_entry(function: Kernel) -> Kernel:
    """Compile a function that Python calls and that allocates arrays."""
    return define_kernel(function, cache=True)


def inner(function: Kernel) -> Kernel:
    """Compile a function that only kernels call."""
    return define_kernel(function, no_cpython_wrapper=True, forceinline=True, _nrt=False)


def allocating_inner(function: Kernel) -> Kernel:
    """Compile a function that only kernels call and that allocates arrays."""
    return define_kernel(function, no_cpython_wrapper=True, forceinline=True)


def define_kernel(function: Kernel, **options: bool) -> Kernel:
    global num_kernels
    num_kernels += 1
    kernel = njit(nogil=True, error_model="numpy", **options)(function)
    if "cache" in options:
        drop_other_versions(kernel.stats.cache_path)
    return kernel


@functools.cache
def drop_other_versions(folder: str) -> None:
    """Delete the kernels that another version of Lapis stored in a folder.

    Numba unpickles the argument types of all stored versions of a kernel before it compares dates,
    and fails if a NamedTuple has moved to another module.
    """
    version, stamp = version_of_kernels(), Path(folder, VERSION_FILE)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != version:
        for index in stamp.parent.glob("*.nbi"):
            index.unlink(missing_ok=True)
        stamp.write_text(version, encoding="utf-8")


@functools.cache
def version_of_kernels() -> str:
    """Return the version of Lapis and a digest of its module names, for development trees."""
    names = sorted(
        os.path.join(folder, name)
        for folder, _, files in os.walk(PACKAGE)
        for name in files
        if name.endswith(".py")
    )
    return f"{lapis.__version__} {sha256(repr(names).encode()).hexdigest()}"


def choose_cache_folder() -> None:
    """Let numba store kernels in a temporary folder if it finds no other."""
    try:
        njit(cache=True)(choose_cache_folder)
    except RuntimeError:  # no folder for the cache
        config.CACHE_DIR = str(private_folder(Path(tempfile.gettempdir())))


def stored_kernels() -> tuple[int, bool]:
    """Return how many compiled kernels are on disk, and whether their folder is a lasting one."""
    folder = Path(njit(cache=True)(stored_kernels).stats.cache_path)
    if folder.name == "__pycache__":
        folders = {path.parent for path in PACKAGE.rglob("*.nbi")}
    else:  # one folder for each folder of sources, beside those of other packages
        folders = {path.parent for path in folder.parent.glob(f"*/{VERSION_FILE}")}
    number = sum(1 for each in folders for _ in each.glob("*.nbi"))
    return number, not any(part.startswith(TEMPORARY) for part in folder.parts)


class Compilations(event.Listener):  # type: ignore[misc]
    """Report the kernels of Lapis that numba compiles, and pause the work clock meanwhile.

    Without a callback in `compilations`, a line on the terminal or below a notebook cell shows
    them.
    """

    def __init__(self) -> None:
        self.kernels: set[Any] = set()
        self.running, self.seconds, self.began = 0, 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        if not is_ours(event):
            return
        work_clock.pause()
        if self.running == 0:
            self.began = time.monotonic()
        self.running += 1
        kernel = event.data["dispatcher"]
        self.kernels.add(kernel)
        seconds = self.seconds + time.monotonic() - self.began
        number, total = len(self.kernels), max(num_kernels, len(self.kernels))
        news = Progress(COMPILING, number, total, seconds, {}, kernel.__name__)
        for report in tuple(compilations) or (show_line,):
            report(news)

    def on_end(self, event: event.Event) -> None:
        if not is_ours(event):
            return
        work_clock.resume()
        self.running -= 1
        if self.running == 0:
            self.seconds += time.monotonic() - self.began
            if not compilations:
                clear_line()


def show_line(news: Progress) -> None:
    """Write an event over the previous one, on a terminal or in a notebook."""
    if has_display():
        text = f"lapis: {news}, {news.seconds:.0f} s: {news.text}"
        sys.stderr.write(f"\r{text[:LINE_WIDTH]:{LINE_WIDTH}}")
        sys.stderr.flush()


def clear_line() -> None:
    if has_display():
        sys.stderr.write(f"\r{'':{LINE_WIDTH}}\r")
        sys.stderr.flush()


def has_display() -> bool:
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def is_ours(event: event.Event) -> bool:
    return str(event.data["dispatcher"].__module__).partition(".")[0] == "lapis"


event.register("numba:compile", Compilations())
choose_cache_folder()
