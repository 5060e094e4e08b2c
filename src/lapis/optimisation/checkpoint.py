"""Checkpoint files of runs; a resumed run gives the same results as an uninterrupted one.

The file is an npz archive: a JSON header with the method, a fingerprint of the problem and the
version of Lapis, and arrays in sections (`state.weights`, `window.start`, `log.result`). The points
of an optimiser are not saved but evaluated again, which gives equal numbers if the objective is
exact. If it moves chains, two states of each chain are saved: that before the point was evaluated,
and the present one. Files are written atomically. Reading executes no code of the file.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lapis.data.archives import DAMAGED, read_arrays, write_arrays
from lapis.data.atomic_write import is_stream, replace_path, require_writable, save_path
from lapis.errors import LapisError, Warning, issue_warnings

CHECKPOINT_SECONDS = 5.0
FORMAT = "lapis checkpoint 3"

T = TypeVar("T")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Checkpoint:
    """The saved state of a run."""

    method: str  # the optimiser or the search
    fingerprint: str  # of the problem: data, model, options
    seconds: float  # spent so far
    arrays: Arrays  # by section and name

    def section(self, name: str) -> dict[str, np.ndarray]:
        """Return the arrays of one section, without its name."""
        start = f"{name}."
        return {n.removeprefix(start): a for n, a in self.arrays.items() if n.startswith(start)}


def join_sections(**parts: Arrays) -> dict[str, np.ndarray]:
    """Merge the arrays of several sections into one mapping.

    >>> join_sections(state={"weights": np.zeros(2)}, window={})
    {'state.weights': array([0., 0.])}
    """
    return {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; replaces an earlier one."""
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
    """Read the checkpoint of a method on a problem; None if there is no file."""
    from lapis import __version__

    found = read_archive(path, FORMAT, parse_checkpoint)
    if found is None:
        return None
    version, checkpoint = found
    if version != __version__:
        raise mismatch_error(path, f"lapis {version}; this is lapis {__version__}")
    if checkpoint.method != method:
        raise mismatch_error(path, f"the method {checkpoint.method}, not {method}")
    if checkpoint.fingerprint != fingerprint:
        raise mismatch_error(path, "other rules, data or options")
    return checkpoint


def parse_checkpoint(header: Mapping[str, Any], arrays: Arrays) -> tuple[str, Checkpoint]:
    """Return version and checkpoint of an archive; KeyError or ValueError if it has none."""
    seconds = float(header["seconds"])
    if "log.length" in arrays:
        logged = int(arrays["log.length"].sum()), len(arrays["log.length"])
        if logged != (len(arrays["log.result"]), len(arrays["log.digest"])):
            raise ValueError("log.length")
    checkpoint = Checkpoint(header["method"], header["fingerprint"], seconds, arrays)
    return str(header["version"]), checkpoint


def write_archive(
    path: Path, header: Mapping[str, object], arrays: Arrays, is_result: bool = False
) -> None:
    """Write a header, which contains its format, and arrays; replaces an earlier file.

    A result is saved elsewhere if the file cannot be written.
    """
    content = {"header": np.array(json.dumps({**header, "digest": hash_arrays(arrays)})), **arrays}
    save = save_path if is_result else replace_path
    save(path, lambda place: write_arrays(place, content))


def hash_arrays(arrays: Arrays) -> str:
    """Return a hash of named arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(repr((name, array.dtype.str, arrays[name].shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def read_archive(
    path: Path,
    format: str,
    build: Callable[[Mapping[str, Any], Arrays], T],
    kind: str = "checkpoint",
    hint: str = "delete it, or name another file",
) -> T | None:
    """Read an archive and return `build(header, arrays)`; None if there is no file.

    `kind` (the expected kind of file) and `hint` are used in the error message.
    """
    if is_stream(path) or not path.exists():
        return None
    try:
        arrays = read_arrays(path)
        header = json.loads(str(arrays.pop("header")))
        if header["format"] == format:
            if header["digest"] != hash_arrays(arrays):
                raise ValueError("digest")
            return build(header, arrays)
        is_other_version = str(header["format"]).startswith(format.rstrip("0123456789"))
    except (OSError, RecursionError, AttributeError, *DAMAGED):
        is_other_version = False
    if is_other_version:
        raise mismatch_error(
            path, f"another version of lapis ({header['format']}, not {format})", kind
        )
    raise LapisError(
        f"{path}: not a {kind}, or a damaged one", code=f"damaged-{kind}", hint=hint
    ) from None


@dataclass
class CheckpointFile:
    """The checkpoint file of a run, written every few seconds; without a path, none is written."""

    path: Path | None
    method: str = ""
    fingerprint: str = ""
    saved_at: float = field(default_factory=time.monotonic)
    pack: Callable[[], tuple[float, Arrays]] | None = None  # returns seconds and arrays to save

    def __post_init__(self) -> None:
        if self.path is not None:
            require_writable(self.path)

    def read(self, num_parameters: int | None = None) -> Checkpoint | None:
        """Read the checkpoint; raise LapisError if it does not have `num_parameters` weights."""
        if self.path is None:
            return None
        found = read_checkpoint(self.path, self.method, self.fingerprint)
        if found is not None and num_parameters is not None:
            weights = found.arrays.get("state.weights")
            if weights is None or len(weights) != num_parameters:
                raise mismatch_error(self.path, "other rules, data or options")
        return found

    def schedule(self, pack: Callable[[], tuple[float, Arrays]]) -> None:
        """Save the result of `pack` at the next write; write now if the last one is long ago."""
        self.pack = pack
        if time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
            self.write()

    def schedule_arrays(self, seconds: float, arrays: Arrays) -> None:
        """Schedule arrays that the run will not change in place."""
        self.schedule(lambda: (seconds, arrays))

    def write(self) -> None:
        """Write the checkpoint; if that fails, warn and write no more of them."""
        self.saved_at = time.monotonic()
        if self.path is None or self.pack is None:
            return
        try:
            write_checkpoint(self.path, Checkpoint(self.method, self.fingerprint, *self.pack()))
        except LapisError as error:
            if error.code != "unwritable":
                raise
            self.path = None
            message = f"{error.message}; the run continues without checkpoints"
            issue_warnings([Warning(message, "no-checkpoint")])


def mismatch_error(path: Path, what: str, kind: str = "checkpoint") -> LapisError:
    return LapisError(
        f"{path}: a {kind} of {what}",
        code=f"foreign-{kind}",
        hint="delete it, or name another file",
    )


def pack_state(fields: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Convert the fields of a state, without its point, to arrays."""
    return {name: np.asarray(value) for name, value in fields.items() if name != "point"}


def unpack_state(arrays: Arrays) -> dict[str, Any]:
    """Convert arrays back to fields; arrays without axes become numbers."""
    return {name: array if array.ndim else array.item() for name, array in arrays.items()}
