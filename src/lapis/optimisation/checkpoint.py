"""Checkpoints: a run as one file, from which it continues as if it had never stopped.

The file is an npz archive: a JSON header that names the method, the problem and the version of
Lapis, and arrays in sections (`state.weights`, `window.start`, `log.result`). The points of an
optimiser are not saved: they are evaluated again, which gives the same numbers where the objective
is exact. Where it moves chains, the states of the chains are saved as they were before the point
was evaluated, and as they are now. The file appears whole or not at all, and nothing in it is
executed when it is read.
"""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lapis.data.atomic_write import require_writable, whole_path
from lapis.errors import LapisError

CHECKPOINT_SECONDS = 5.0
FORMAT = "lapis checkpoint 3"

T = TypeVar("T")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """A run as it is saved."""

    method: str  # the optimiser, or the search
    fingerprint: str  # of the problem: what is learned from what
    seconds: float  # spent so far
    arrays: Arrays  # by section and name

    def section(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one section, without its name."""
        start = f"{name}."
        return {n.removeprefix(start): a for n, a in self.arrays.items() if n.startswith(start)}


def sections(**parts: Arrays) -> dict[str, np.ndarray]:
    """Arrays of several sections in one mapping.

    >>> sections(state={"weights": np.zeros(2)}, window={})
    {'state.weights': array([0., 0.])}
    """
    return {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of an earlier one."""
    from lapis import __version__

    header = {
        "format": FORMAT,
        "version": __version__,
        "method": checkpoint.method,
        "fingerprint": checkpoint.fingerprint,
        "seconds": checkpoint.seconds,
    }
    write_archive(path, header, checkpoint.arrays)


def read_checkpoint(path: Path, method: str, fingerprint: str) -> Checkpoint | None:
    """The checkpoint of this method on this problem; None where there is no file."""
    from lapis import __version__

    found = read_archive(path, FORMAT, as_checkpoint)
    if found is None:
        return None
    version, checkpoint = found
    if version != __version__:
        raise foreign(path, f"lapis {version}; this is lapis {__version__}")
    if checkpoint.method != method:
        raise foreign(path, f"the method {checkpoint.method}, not {method}")
    if checkpoint.fingerprint != fingerprint:
        raise foreign(path, "other rules, data or options")
    return checkpoint


def as_checkpoint(header: Mapping[str, Any], arrays: Arrays) -> tuple[str, Checkpoint]:
    """The version and the checkpoint in an archive; KeyError or ValueError if it has none."""
    seconds = float(header["seconds"])
    if "log.length" in arrays:
        logged = int(arrays["log.length"].sum()), len(arrays["log.length"])
        if logged != (len(arrays["log.result"]), len(arrays["log.digest"])):
            raise ValueError("log.length")
    checkpoint = Checkpoint(header["method"], header["fingerprint"], seconds, arrays)
    return str(header["version"]), checkpoint


def write_archive(path: Path, header: Mapping[str, object], arrays: Arrays) -> None:
    """Write a header, which names its format, and arrays, in place of an earlier file."""
    with whole_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)


def read_archive(
    path: Path,
    format: str,
    build: Callable[[Mapping[str, Any], Arrays], T],
    kind: str = "checkpoint",
    hint: str = "delete it, or name another file",
) -> T | None:
    """What `build` makes of header and arrays; None where there is no file.

    `kind` and `hint` are for the error: what the file should have been, and what to do.
    """
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {name: archive[name] for name in archive.files if name != "header"}
        if header["format"] == format:
            return build(header, arrays)
        is_other_version = str(header["format"]).startswith(format.rstrip("0123456789"))
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error):
        is_other_version = False
    if is_other_version:
        raise foreign(path, f"another version of lapis ({header['format']}, not {format})", kind)
    raise LapisError(
        f"{path}: not a {kind}, or a damaged one", code=f"damaged-{kind}", hint=hint
    ) from None


@dataclass
class CheckpointFile:
    """The checkpoint of a run, written every few seconds; none without a path."""

    path: Path | None
    method: str = ""
    fingerprint: str = ""
    saved_at: float = field(default_factory=time.monotonic)
    pack: Callable[[], tuple[float, Arrays]] | None = None  # seconds and arrays to save

    def __post_init__(self) -> None:
        if self.path is not None:
            require_writable(self.path)

    def read(self, num_parameters: int | None = None) -> Checkpoint | None:
        """The checkpoint to continue; with `num_parameters`, its state has that many weights."""
        if self.path is None:
            return None
        found = read_checkpoint(self.path, self.method, self.fingerprint)
        if found is not None and num_parameters is not None:
            weights = found.arrays.get("state.weights")
            if weights is None or len(weights) != num_parameters:
                raise foreign(self.path, "other rules, data or options")
        return found

    def note(self, pack: Callable[[], tuple[float, Arrays]]) -> None:
        """Save later what `pack` returns then, or now if the last time is long ago."""
        self.pack = pack
        if time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
            self.write()

    def keep(self, seconds: float, arrays: Arrays) -> None:
        """The same for arrays that the run will replace, not change."""
        self.note(lambda: (seconds, arrays))

    def write(self) -> None:
        self.saved_at = time.monotonic()
        if self.path is not None and self.pack is not None:
            write_checkpoint(self.path, Checkpoint(self.method, self.fingerprint, *self.pack()))


def foreign(path: Path, what: str, kind: str = "checkpoint") -> LapisError:
    return LapisError(
        f"{path}: a {kind} of {what}",
        code=f"foreign-{kind}",
        hint="delete it, or name another file",
    )


def pack(fields: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Numbers and arrays of a state, without its point."""
    return {name: np.asarray(value) for name, value in fields.items() if name != "point"}


def unpack(arrays: Arrays) -> dict[str, Any]:
    """The fields as they were: numbers for arrays without axes."""
    return {name: array if array.ndim else array.item() for name, array in arrays.items()}
