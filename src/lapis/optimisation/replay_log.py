"""Resume by replay: results of expensive calls are logged, and a resumed run replays the log.

scipy's L-BFGS does not expose its memory, and a search for rules has no state that could be saved.
But both are functions of their inputs, the seed and the results of a few calls that take nearly all
of the time. A resumed run starts from the beginning and replays the logged results until the log
ends. Each result has a digest of the call's arguments. After a stop is requested, or a stage ended
at its deadline, calls come in another order (a search finishes with the clauses so far) and are not
logged, so a log is always a prefix of the uninterrupted run.

`RecordedObjective` logs the evaluations of such a solver. A stepwise optimiser needs no log: it is
restored at its last point. If the objective moves chains, that point is evaluated again from the
states that the chains had before it. Rejected steps move chains, too, so the present states of the
chains are saved as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from lapis.optimisation.checkpoint import Checkpoint, CheckpointFile, join_sections
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.runtime.progress import Stop, check_time


class ReplayMismatchError(Exception):
    """The run makes a call that differs from the logged one."""


@dataclass
class ReplayLog:
    """Digests and results of calls, in order."""

    digests: list[int] = field(default_factory=list)  # of the arguments
    results: list[np.ndarray] = field(default_factory=list)  # float64 each
    max_bytes: int | None = None  # of results; a larger log is dropped
    file: CheckpointFile | None = None  # where the log is saved every few seconds
    stop: Stop | None = None
    num_replayed: int = 0
    is_open: bool = True  # whether calls are logged

    def __post_init__(self) -> None:
        self.num_logged = len(self.results)  # of the earlier run
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
        if self.digests[at] != hash_arguments(arguments):
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
        self.digests.append(hash_arguments(arguments))
        self.results.append(numbers)
        if self.file is not None:
            self.file.schedule(lambda: (0.0, self.arrays()))

    def drop(self) -> None:
        """Delete the log and stop logging: the run cannot be replayed."""
        self.digests, self.results = [], []
        self.num_logged, self.num_replayed, self.is_open = 0, 0, False

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the log as arrays of a checkpoint."""
        return {
            "log.digest": np.array(self.digests, np.uint64),
            "log.length": np.array([len(result) for result in self.results], np.int64),
            "log.result": np.concatenate([*self.results, np.zeros(0)]),
        }

    def _is_stopped(self) -> bool:
        return self.stop is not None and (self.stop.is_cut or self.stop.is_over())


def open_log(file: CheckpointFile, stop: Stop) -> ReplayLog:
    """Open a log that is the whole content of a checkpoint file; continue it if it exists."""
    saved = file.read()
    log = ReplayLog() if saved is None else read_log(saved.arrays)
    log.file, log.stop = file, stop
    file.pack = lambda: (0.0, log.arrays())
    return log


def read_log(arrays: Mapping[str, np.ndarray], *, max_bytes: int | None = None) -> ReplayLog:
    """Read the log from the arrays of a checkpoint."""
    ends = np.cumsum(arrays["log.length"])
    results = np.split(arrays["log.result"], ends[:-1]) if len(ends) else []
    return ReplayLog(arrays["log.digest"].tolist(), results, max_bytes)


def hash_arguments(arguments: object) -> int:
    """Return a 64-bit hash of bytes, or of the `repr` of other arguments."""
    content = arguments if isinstance(arguments, bytes) else repr(arguments).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


States = dict[str, np.ndarray]  # of chains, by name


@dataclass
class ChainStates:
    """The states of an objective's chains."""

    before: list[tuple[Point, States]] = field(default_factory=list)  # before each evaluation
    now: States = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedObjective(PenalizedObjective):
    """A penalized objective whose evaluations are recorded, if there is a log or chains."""

    log: ReplayLog | None = None  # of values and gradients
    chains: ChainStates | None = None

    def evaluate(self, weights: np.ndarray) -> Point:
        if self.chains is None:
            return super().evaluate(weights)
        before = self.keep()
        point = super().evaluate(weights)
        self.chains.before.append((point, before))
        return point

    def evaluate_smooth(self, weights: np.ndarray) -> Point:
        check_time("learning")
        evaluate = super().evaluate_smooth
        if self.log is None:
            return evaluate(weights)
        logged = self.log.replay(weights.tobytes())
        if logged is not None:
            return replayed_point(weights.copy(), logged, evaluate)
        point = evaluate(weights)
        if point.value is not None:
            self.log.record(weights.tobytes(), [point.value, *point.gradient])
        return point

    def _product(self, inner: Point, direction: np.ndarray) -> np.ndarray:
        check_time("learning")
        return super()._product(inner, direction)

    def record_chains(self, point: Point) -> None:
        """Record the present chain states, and drop those before other points."""
        if self.chains is not None:
            self.chains.before = [each for each in self.chains.before if each[0] is point]
            self.chains.now = self.keep()

    def evaluate_again(self, weights: np.ndarray, saved: Checkpoint) -> Point:
        """Evaluate the point of a checkpoint, and restore the chains."""
        before, now = saved.section("before"), saved.section("now")
        if self.chains is None or not now:
            return replace(self, log=None).evaluate(weights)
        self.resume(before)
        point = self.evaluate(weights)
        self.resume(now)
        self.record_chains(point)
        return point

    def arrays(self) -> dict[str, np.ndarray]:
        """Return log and chain states as arrays of a checkpoint."""
        found = {} if self.log is None else self.log.arrays()
        if self.chains is not None:
            before = self.chains.before[0][1] if self.chains.before else {}
            found |= join_sections(before=before, now=self.chains.now)
        return found


def replayed_point(
    weights: np.ndarray, logged: np.ndarray, evaluate: Callable[[np.ndarray], Point]
) -> Point:
    """Build a point from the log; curvatures are not logged and are computed on demand."""

    @cache
    def evaluated() -> Point:
        return evaluate(weights)

    return Point(
        weights,
        float(logged[0]),
        logged[1:],
        lambda: evaluated().curvature_diagonal(),
        lambda direction: evaluated().curvature_product(direction),
    )
