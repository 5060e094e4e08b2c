"""A folder for what is made once: beside the source, the user's for caches, or a temporary one.

Kernels have their own way to the first two, which is numba's (`compiler.py`).
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def find_folder() -> Path:
    """The first folder that can be written to; there is always one for this run at least."""
    for folder in (Path(__file__).parent / "__pycache__", user_folder() / "lapis"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return private_folder(Path(tempfile.gettempdir()))


def user_folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        return Path(named) if named else Path.home() / ".cache"
    except RuntimeError:  # no home
        return Path(os.devnull)


def private_folder(parent: Path) -> Path:
    """A folder that nobody else can write to, the same in the next run if there is no doubt."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = parent / f"lapis-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="lapis-kernels-", dir=parent))
