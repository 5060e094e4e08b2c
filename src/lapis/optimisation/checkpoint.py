"""Checkpoints: a climb as one file, from which it continues as if it had never stopped.

The file is an npz archive: the arrays and numbers of the optimiser's state, of the window that
judges convergence, and of the curve, and a JSON header that names the optimiser and the problem.
A state's point is not kept: it is evaluated again, which gives the same numbers where the objective
is exact. Where it moves chains, their worlds and generators are kept as they were before the point
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

from lapis.data.whole_path import whole_path
from lapis.errors import LapisError

CHECKPOINT_SECONDS = 5.0
FORMAT = "lapis learning 2"

T = TypeVar("T")


@dataclass(frozen=True)
class Checkpoint:
    """What is kept of a climb."""

    optimizer: str
    fingerprint: str  # of the problem: what is learned from what
    seconds: float  # spent so far
    state: Mapping[str, np.ndarray]  # fields of the optimiser's state
    window: Mapping[str, np.ndarray]  # fields of the convergence window; empty where not used
    curve: np.ndarray  # float64[num_points, 5], a CurvePoint a row; NaN for no value
    chains: Mapping[str, np.ndarray] = field(default_factory=dict)  # of a moving objective


Arrays = Mapping[str, np.ndarray]
Kept = tuple[float, Arrays, Arrays, np.ndarray, Arrays]  # seconds, state, window, curve, chains


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, replacing an earlier one in one go."""
    header = {
        "format": FORMAT,
        "optimizer": checkpoint.optimizer,
        "fingerprint": checkpoint.fingerprint,
        "seconds": checkpoint.seconds,
    }
    arrays = {f"state.{name}": value for name, value in checkpoint.state.items()}
    arrays |= {f"window.{name}": value for name, value in checkpoint.window.items()}
    arrays |= {f"chains.{name}": value for name, value in checkpoint.chains.items()}
    write_archive(path, header, arrays | {"curve": checkpoint.curve})


def read_checkpoint(
    path: Path, optimizer: str, fingerprint: str, num_parameters: int
) -> Checkpoint | None:
    """The checkpoint of this optimiser on this problem; None where there is no file."""
    found = read_archive(path, FORMAT, climb_of)
    if found is None:
        return None
    if found.optimizer != optimizer:
        raise foreign(path, f"the optimizer {found.optimizer}, not {optimizer}")
    if found.fingerprint != fingerprint or len(found.state["weights"]) != num_parameters:
        raise foreign(path, "other rules, data or options")
    return found


def climb_of(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Checkpoint:
    state = fields_of(arrays, "state.")
    if "weights" not in state:
        raise KeyError("weights")
    return Checkpoint(
        header["optimizer"],
        header["fingerprint"],
        float(header["seconds"]),
        state,
        fields_of(arrays, "window."),
        arrays["curve"],
        fields_of(arrays, "chains."),
    )


def write_archive(
    path: Path, header: Mapping[str, object], arrays: Mapping[str, np.ndarray]
) -> None:
    """A header, which names its format, and arrays, in place of an earlier file in one go."""
    with whole_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)


def read_archive(
    path: Path,
    format: str,
    build: Callable[[Mapping[str, Any], Mapping[str, np.ndarray]], T],
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
            arrays = {name: archive[name] for name in archive.files}
        if header["format"] != format:
            raise ValueError(header["format"])
        return build(header, arrays)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error):
        raise LapisError(
            f"{path}: not a {kind}, or a damaged one",
            code=f"damaged-{kind}",
            hint=hint,
        ) from None


@dataclass
class Keeper:
    """The checkpoint of a run, kept up to date every few seconds; none where there is no path."""

    path: Path | None
    optimizer: str = ""
    fingerprint: str = ""
    saved_at: float = field(default_factory=time.monotonic)
    pack: Callable[[], Kept] | None = None  # what is to be kept now

    def read(self, num_parameters: int) -> Checkpoint | None:
        if self.path is None:
            return None
        return read_checkpoint(self.path, self.optimizer, self.fingerprint, num_parameters)

    def note(self, pack: Callable[[], Kept]) -> None:
        """There is more to keep; it is packed when it is written."""
        self.pack = pack
        if time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
            self.write()

    def keep(self, kept: Kept) -> None:
        """The same of a run that moves on before it is written."""
        self.note(lambda: kept)

    def write(self) -> None:
        self.saved_at = time.monotonic()
        if self.path is not None and self.pack is not None:
            kept = Checkpoint(self.optimizer, self.fingerprint, *self.pack())
            write_checkpoint(self.path, kept)


def foreign(path: Path, what: str) -> LapisError:
    return LapisError(
        f"{path}: a checkpoint of {what}",
        code="foreign-checkpoint",
        hint="delete it, or name another file",
    )


def fields_of(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def pack(fields: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Numbers and arrays of a state, without its point."""
    return {name: np.asarray(value) for name, value in fields.items() if name != "point"}


def unpack(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields as they were: numbers for arrays without axes."""
    return {name: array if array.ndim else array.item() for name, array in arrays.items()}
