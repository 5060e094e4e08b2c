"""Resume by replay: results of expensive calls are logged, and a resumed run replays the log.

An optimiser such as scipy's L-BFGS does not show its memory, and a search for rules has no state
that could be saved. But each is a function of its inputs, its seed and the results of a few calls
that take nearly all of the time. A resumed run starts again from the beginning and replays their
results until the log ends. Each result carries a digest of the call's arguments.

A log is always the beginning of the run that was never stopped. Once a stop is requested, calls
come out of order (a search finishes with the clauses so far), and none is logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lapis.optimisation.checkpoint import CheckpointFile
from lapis.runtime.progress import Stop


class ReplayMismatchError(Exception):
    """The run makes another call than the logged one."""


@dataclass
class ReplayLog:
    """Digests and results of calls, in order."""

    digests: list[int] = field(default_factory=list)  # of the arguments
    results: list[np.ndarray] = field(default_factory=list)  # float64 each
    max_bytes: int | None = None  # of results; a larger log is dropped
    file: CheckpointFile | None = None  # where the log is saved every few seconds
    stop: Stop | None = None
    num_replayed: int = 0
    num_bytes: int = 0
    is_open: bool = True  # whether calls are logged

    def __post_init__(self) -> None:
        self.num_logged = len(self.results)  # by the earlier run
        self.num_bytes = sum(result.nbytes for result in self.results)

    def call(self, arguments: object, compute: Callable[[], Sequence[float]]) -> list[float]:
        """Return the logged result of a call; compute and log it after the end of the log."""
        known = self.replay(arguments)
        if known is not None:
            return known.tolist()
        result = compute()
        self.record(arguments, result)
        return list(result)

    def replay(self, arguments: object) -> np.ndarray | None:
        """Return the next logged result; None at the end of the log, or after a stop.

        Raises ReplayMismatchError if the log has another call here.
        """
        if self.num_replayed == self.num_logged or self._is_stopped():
            return None
        at = self.num_replayed
        if self.digests[at] != digest(arguments):
            raise ReplayMismatchError
        self.num_replayed += 1
        return self.results[at]

    def record(self, arguments: object, result: Sequence[float] | np.ndarray) -> None:
        """Log a call that was not replayed."""
        if not self.is_open or self._is_stopped():
            return
        numbers = np.array(result, np.float64)
        self.num_bytes += numbers.nbytes
        if self.max_bytes is not None and self.num_bytes > self.max_bytes:
            self.drop()
            return
        self.digests.append(digest(arguments))
        self.results.append(numbers)
        if self.file is not None:
            self.file.note(lambda: (0.0, self.arrays()))

    def drop(self) -> None:
        """Forget all calls, and log no more: the run cannot be replayed."""
        self.digests, self.results = [], []
        self.num_logged, self.num_replayed, self.is_open = 0, 0, False

    def arrays(self) -> dict[str, np.ndarray]:
        """The log as a checkpoint holds it."""
        return {
            "log.digest": np.array(self.digests, np.uint64),
            "log.length": np.array([len(result) for result in self.results], np.int64),
            "log.result": np.concatenate([*self.results, np.zeros(0)]),
        }

    def _is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_over()


def open_log(file: CheckpointFile, stop: Stop) -> ReplayLog:
    """The log that is a checkpoint of its own, continued if the file exists."""
    saved = file.read()
    log = ReplayLog() if saved is None else read_log(saved.arrays)
    log.file, log.stop = file, stop
    file.pack = lambda: (0.0, log.arrays())
    return log


def read_log(arrays: Mapping[str, np.ndarray], *, max_bytes: int | None = None) -> ReplayLog:
    """The log in the arrays of a checkpoint."""
    ends = np.cumsum(arrays["log.length"])
    results = np.split(arrays["log.result"], ends[:-1]) if len(ends) else []
    return ReplayLog(arrays["log.digest"].tolist(), results, max_bytes)


def digest(arguments: object) -> int:
    """64 bits of a hash of bytes, or of how the arguments are written."""
    content = arguments if isinstance(arguments, bytes) else repr(arguments).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
