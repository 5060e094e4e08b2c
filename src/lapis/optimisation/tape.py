"""A solver that runs by itself is resumed by its answers: what it was told, in order, is on a tape.

scipy's L-BFGS does not show its memory, and one that starts afresh from the weights it had reached
goes another way. But it is a function of the values and gradients it is told. So they are kept with
a digest of the weights they are for; a resumed solver begins at the start, hears them again without
anything being evaluated, and goes on where the tape ends. (Searches for rules are resumed alike.)

Gradients of `MOST_BYTES` are kept. A longer run loses its tape, and so does one that asks about
other weights than those on it, as it may on another processor: it starts afresh where it was.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.optimisation.objective import Around, Objective, Point

MOST_BYTES = 1 << 26


class StrayedError(Exception):
    """The solver asks about other weights than those on the tape; not an error of the user."""


@dataclass
class Tape:
    """Answers by number; rows below `told` never change."""

    digest: np.ndarray  # uint64[capacity], of the weights
    value: np.ndarray  # float64[capacity]
    gradient: np.ndarray  # float64[capacity, num_parameters]
    told: int  # answers on the tape
    heard: int = 0  # of those, by this solver
    ended: bool = False  # nothing more is put on it

    def kept(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a checkpoint keeps: nothing of a tape that was ended."""
        return self.digest[: self.told], self.value[: self.told], self.gradient[: self.told]

    def hear(self, digest: np.uint64) -> tuple[float, np.ndarray] | None:
        """The next answer; None at the end of the tape."""
        if self.heard >= self.told:
            return None
        at = self.heard
        if self.digest[at] != digest:
            raise StrayedError
        self.heard += 1
        return float(self.value[at]), self.gradient[at]

    def add(self, digest: np.uint64, value: float | None, gradient: np.ndarray) -> None:
        if (self.told + 1) * gradient.nbytes > MOST_BYTES:
            self.end()
        if self.ended or value is None:
            return
        if self.told == len(self.value):
            more = max(8, self.told)
            self.digest = np.concatenate([self.digest, np.zeros(more, np.uint64)])
            self.value = np.concatenate([self.value, np.zeros(more)])
            self.gradient = np.concatenate([self.gradient, np.zeros((more, len(gradient)))])
        self.digest[self.told], self.value[self.told] = digest, value
        self.gradient[self.told] = gradient
        self.told = self.heard = self.told + 1

    def end(self) -> None:
        """Forget all of it: it does not tell how the solver came to where it is."""
        self.digest, self.value, self.gradient = self.digest[:0], self.value[:0], self.gradient[:0]
        self.told, self.heard, self.ended = 0, 0, True


def new_tape(num_parameters: int) -> Tape:
    return Tape(np.empty(0, np.uint64), np.empty(0), np.empty((0, num_parameters)), 0)


def old_tape(digest: np.ndarray, value: np.ndarray, gradient: np.ndarray) -> Tape:
    """Of a checkpoint; one without answers stays as it is."""
    return Tape(digest, value, gradient, len(value), ended=not len(value))


@dataclass(frozen=True)
class HeardPoint:
    """A point from the tape; curvatures, which are not on it, are those of the objective."""

    objective: Objective
    weights: np.ndarray  # float64[num_parameters]
    value: float
    gradient: np.ndarray  # float64[num_parameters]
    gradient_stderr: np.ndarray | None = field(default=None, init=False)

    @cached_property
    def _evaluated(self) -> Point:
        return self.objective.evaluate(self.weights)

    def curvature_diagonal(self) -> np.ndarray:
        return self._evaluated.curvature_diagonal()

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return self._evaluated.curvature_product(direction)


@dataclass(frozen=True)
class Taped(Around):
    """An objective whose values and gradients are heard from a tape, then put on it."""

    tape: Tape

    def evaluate(self, weights: np.ndarray) -> Point:
        found = hashlib.blake2b(np.ascontiguousarray(weights).tobytes(), digest_size=8).digest()
        digest = np.frombuffer(found, np.uint64)[0]
        heard = self.tape.hear(digest)
        if heard is not None:
            return HeardPoint(self.objective, weights.copy(), *heard)
        point = self.objective.evaluate(weights)
        self.tape.add(digest, point.value, point.gradient)
        return point
