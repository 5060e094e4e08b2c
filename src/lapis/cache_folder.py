"""A private temporary folder for compiled kernels, where numba finds no other."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def private_folder(parent: Path) -> Path:
    """A folder that only the user can write to; later runs use the same one."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = parent / f"lapis-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="lapis-kernels-", dir=parent))
