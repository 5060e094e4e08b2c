"""Evaluations that a checkpoint can repeat.

The evaluations of a solver that hides its state (L-BFGS) are logged and replayed. A stepwise
optimiser is restored at its last point. If the objective moves chains, that point is evaluated
again from the states that the chains had before it. Rejected steps move chains, too, so that their
present states are saved beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from lapis.optimisation.checkpoint import Checkpoint, sections
from lapis.optimisation.objective import Point
from lapis.optimisation.penalized import PenalizedObjective
from lapis.optimisation.replay_log import ReplayLog

States = dict[str, np.ndarray]  # of chains, by name


@dataclass
class ChainStates:
    """The states of an objective's chains before its points were evaluated, and now."""

    before: list[tuple[Point, States]] = field(default_factory=list)
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

    def settle(self, point: Point) -> None:
        """Record the chain states at this point and drop those of other points."""
        if self.chains is not None:
            self.chains.before = [each for each in self.chains.before if each[0] is point]
            self.chains.now = self.keep()

    def evaluate_again(self, weights: np.ndarray, saved: Checkpoint) -> Point:
        """The point at the weights of a checkpoint; restores the chains."""
        before, now = saved.section("before"), saved.section("now")
        if self.chains is None or not now:
            return replace(self, log=None).evaluate(weights)
        self.resume(before)
        point = self.evaluate(weights)
        self.resume(now)
        self.settle(point)
        return point

    def arrays(self) -> dict[str, np.ndarray]:
        """Log and chain states as a checkpoint holds them."""
        found = {} if self.log is None else self.log.arrays()
        if self.chains is not None:
            before = self.chains.before[0][1] if self.chains.before else {}
            found |= sections(before=before, now=self.chains.now)
        return found


def replayed_point(
    weights: np.ndarray, logged: np.ndarray, evaluate: Callable[[np.ndarray], Point]
) -> Point:
    """A point from the log; curvatures, which are not in it, are computed."""

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
