"""The history of an optimiser, and when it ends.

A run ends when

    exact objectives      the max-norm of the gradient (with L1, of the pseudo-gradient; without
                          what presses against a bound) is within the tolerance, or no step leads
                          further up, which is the maximum where rounding explains the gradient
    sampled objectives    over a window as long as all iterations before it, the summed gradient is
                          within two standard errors of zero (within the tolerance, relative to
                          the count, for a count that did not vary); where those are not known,
                          the weights changed by less than the tolerance relative to the largest
                          and gradients cancel to a tenth of the largest so far
    either                a limit on iterations or time is reached, or the user says so

The noise of one evaluation with five samples is 1/√5 of a count's standard deviation; a mean
gradient within two standard errors over 16 iterations is then within a quarter of it, and the
weight within a quarter of its own uncertainty. Small changes say less: a rate too small makes
them, too. Windows double because an average over t iterations changes by 1/t an iteration, however
far it still has to go. The clock stands still while the caller looks at progress.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.checkpoint import (
    Arrays,
    Checkpoint,
    CheckpointFile,
    pack,
    sections,
    unpack,
)
from lapis.optimisation.objective import Point
from lapis.optimisation.replay_log import RecordedObjective
from lapis.runtime.progress import Progress, Report, work_clock

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of the largest count
FIRST_WINDOW = 16
NOISE = 2.0  # standard errors
SETTLED = 0.1  # mean gradient of a window, relative to the largest of the run
MAX_IDLE = 60  # steps in a row that led nowhere


class CurvePoint(NamedTuple):
    """One iteration of a learning curve."""

    iteration: int
    seconds: float
    value: float | None
    gradient_norm: float
    change: float  # largest change of a weight of the answer since the iteration before


def pack_curve(curve: Sequence[CurvePoint]) -> np.ndarray:
    """float64[num_points, 5], NaN for no value."""
    rows = [[np.nan if x is None else x for x in row] for row in curve]
    return np.array(rows, np.float64).reshape(-1, len(CurvePoint._fields))


def unpack_curve(rows: np.ndarray) -> list[CurvePoint]:
    return [
        CurvePoint(int(row[0]), row[1], None if np.isnan(row[2]) else row[2], row[3], row[4])
        for row in rows.tolist()
    ]


def learning_event(now: CurvePoint, max_iterations: int | None, weights: np.ndarray) -> Progress:
    """What is told of an iteration; the weights are the answer so far."""
    figures = {"gradient": now.gradient_norm}
    if now.value is not None:
        figures = {"value": now.value, **figures}
    return Progress(
        "learning", now.iteration, max_iterations, now.seconds, figures, weights=weights
    )


class Trajectory(NamedTuple):
    """A run of an optimiser, from its start to its end."""

    weights: np.ndarray  # float64[num_parameters]
    value: float | None  # at these weights, with the L1 penalty; None where not known
    gradient_norm: float
    curve: tuple[CurvePoint, ...]
    iterations: int
    converged: bool
    reason: str
    interrupted: bool
    seconds: float
    # Of the weights over the last window, relative to the largest, where gradients cancelled and
    # their noise is not known: a tolerance that would have ended the run.
    window_change: float | None = None


class Verdict(NamedTuple):
    """Why a run ends."""

    converged: bool
    reason: str
    interrupted: bool = False


STOPPED = Verdict(False, "stopped by the user", True)


@dataclass(frozen=True)
class OptimizerState:
    """Where an optimiser stands: the point, and arrays and numbers of its own."""

    point: Point
    iteration: int

    @property
    def weights(self) -> np.ndarray:
        return self.point.weights

    @property
    def answer(self) -> np.ndarray:
        """float64[num_parameters], what to return if the run ended here."""
        return self.weights


@dataclass(frozen=True)
class AveragedState(OptimizerState):
    """An average is returned where gradients are sampled."""

    average: np.ndarray  # float64[num_parameters], of the weights of the iterations

    @property
    def answer(self) -> np.ndarray:
        return self.weights if self.point.gradient_stderr is None else self.average


@dataclass
class History:
    """The record of one run of an optimiser."""

    file: CheckpointFile
    objective: RecordedObjective
    start: np.ndarray  # float64[num_parameters]
    tolerance: float
    max_iterations: int
    time_limit: float | None
    progress: Report | None
    should_stop: Callable[[], bool] | None
    began: float = field(default_factory=work_clock)
    curve: list[CurvePoint] = field(default_factory=list)
    state: OptimizerState | None = None
    verdict: Verdict | None = None
    window: Window | None = None
    window_change: float | None = None

    @property
    def seconds(self) -> float:
        return work_clock() - self.began

    def restore(self, saved: Checkpoint, state: OptimizerState) -> None:
        """Continue a run that was stopped."""
        self.began -= saved.seconds
        self.curve = unpack_curve(saved.arrays["curve"])
        window = saved.section("window")
        self.window = Window(**unpack(window)) if window else None
        self.state, self.file.pack = state, self.pack
        self.verdict = self.judge_convergence(state) or self.judge_limits(state)

    def note(self, state: OptimizerState) -> None:
        """Take down an iteration and decide whether it is the last."""
        before = self.start if self.state is None else self.state.answer
        change = max_norm(state.answer - before)
        norm = max_norm(state.point.gradient)
        if not (np.isfinite(norm) and np.isfinite(change)):
            raise LapisError(
                f"learning diverged: at iteration {state.iteration} the weights or the gradient "
                "are not numbers",
                code="diverged",
                hint="give a smaller rate, or a prior",
            )
        seconds, value = self.seconds, state.point.value
        if not self.objective.is_fixed:
            self.window = extend_window(self.window, state)
        self.state = state
        self.objective.settle(state.point)
        self.curve.append(CurvePoint(state.iteration, seconds, value, norm, change))
        self.verdict = self.judge_convergence(state) or self.judge_limits(state)
        if self.progress is not None:
            paused = work_clock()
            self.progress(learning_event(self.curve[-1], self.max_iterations, state.answer))
            self.began += work_clock() - paused
        self.file.note(self.pack)

    def judge_convergence(self, state: OptimizerState) -> Verdict | None:
        if not self.objective.is_fixed:
            if self.window is None or not self.window.is_full(state):
                return None
            if state.point.gradient_stderr is not None:
                return self.window.judge_noise(state, self.objective.true_counts, self.tolerance)
            largest = max(point.gradient_norm for point in self.curve)
            self.window_change = self.window.settled_change(state, largest)
            if self.window_change is None or self.window_change > self.tolerance:
                return None
            over = self.window.describe(state)
            return Verdict(True, f"weights changed by less than {self.tolerance:g} {over}")
        norm = max_norm(state.point.gradient)
        if norm <= self.tolerance:
            return Verdict(True, f"gradient below {self.tolerance:g}")
        recent = self.curve[-MAX_IDLE:]
        if len(recent) == MAX_IDLE and not any(point.change for point in recent):
            return self.judge_standstill(norm)
        return None

    def judge_standstill(self, norm: float) -> Verdict:
        """No step leads further up: that is the maximum if rounding explains the gradient."""
        if norm <= ROUNDING * max_norm(self.objective.true_counts):
            return Verdict(True, f"gradient at rounding error ({norm:.1g})")
        return Verdict(False, f"no step leads further up (gradient {norm:.1g})")

    def judge_limits(self, state: OptimizerState) -> Verdict | None:
        if self.should_stop is not None and self.should_stop():
            return STOPPED
        if state.iteration >= self.max_iterations:
            return Verdict(False, f"{self.max_iterations} iterations")
        if self.time_limit is not None and self.seconds > self.time_limit:
            return Verdict(False, "time limit")
        return None

    def pack(self) -> tuple[float, Arrays]:
        assert self.state is not None
        state = pack({"weights": self.state.weights, **vars(self.state)})
        window = {} if self.window is None else pack(self.window._asdict())
        arrays = sections(state=state, window=window) | self.objective.arrays()
        return self.seconds, arrays | {"curve": pack_curve(self.curve)}

    def trajectory(self) -> Trajectory:
        """The run as it ended; an exact objective is evaluated where the answer is."""
        verdict, seconds = self.verdict or STOPPED, self.seconds
        curve = tuple(self.curve)
        if self.state is None:
            return Trajectory(self.start, None, np.inf, curve, 0, *verdict, seconds)
        point, answer = self.state.point, self.state.answer
        if verdict.converged and self.objective.is_fixed:
            answer = point.weights  # an average would get there in the end
        at_answer = np.array_equal(answer, point.weights)
        if not at_answer and self.objective.is_fixed:
            plain = replace(self.objective, log=None, chains=None)
            point, at_answer = plain.evaluate(answer), True
        value = point.value if at_answer else None
        norm = max_norm(point.gradient)
        return Trajectory(
            answer, value, norm, curve, self.state.iteration, *verdict, seconds, self.window_change
        )


class Window(NamedTuple):
    """Iterations over which a sampled run is judged."""

    start: int  # iteration before the first
    answer: np.ndarray  # float64[num_parameters], at the start
    gradient: np.ndarray  # float64[num_parameters], sum over the iterations
    noise: np.ndarray  # float64[num_parameters], variance of that sum; NaN where not known

    def length(self, state: OptimizerState) -> int:
        return state.iteration - self.start

    def is_full(self, state: OptimizerState) -> bool:
        return self.length(state) >= max(FIRST_WINDOW, self.start)

    def describe(self, state: OptimizerState) -> str:
        return f"over the last {self.length(state)} iterations"

    def judge_noise(
        self, state: OptimizerState, true_counts: np.ndarray, tolerance: float
    ) -> Verdict | None:
        """Whether a run whose noise is known has converged."""
        mean = self.gradient / self.length(state)
        counted = np.abs(mean) <= tolerance * np.maximum(true_counts, 1.0)
        if not (self.is_within_noise() and bool(np.all(counted | (self.noise > 0)))):
            return None
        over = self.describe(state)
        return Verdict(True, f"gradient within {NOISE:g} standard errors of zero {over}")

    def settled_change(self, state: OptimizerState, largest: float) -> float | None:
        """How far the answer moved, relative to its largest weight, if the gradients cancelled.

        `largest` is the norm of the largest gradient of the run. The first is no measure: at
        weights zero the most likely world is that of a tie.
        """
        if max_norm(self.gradient) > SETTLED * largest * self.length(state):
            return None
        return max_norm(state.answer - self.answer) / max(max_norm(state.answer), 1.0)

    def is_within_noise(self) -> bool:
        """Whether the sums are no larger than twice their standard errors, in the mean square.

        Weights whose count did not vary in any sample have no noise and are left out; where none
        did, or where the noise is not known, nothing is within it.
        """
        varied = self.noise > 0
        if not varied.any():
            return False
        ratio = np.square(self.gradient[varied]) / self.noise[varied]
        return float(ratio.mean()) <= NOISE**2


def extend_window(window: Window | None, state: OptimizerState) -> Window:
    """The window with one more iteration, or a new one where it was full."""
    if window is None or state.iteration - 1 - window.start >= max(FIRST_WINDOW, window.start):
        nothing = np.zeros_like(state.answer)
        return Window(state.iteration, state.answer, nothing, nothing)
    stderr = state.point.gradient_stderr
    noise = np.full_like(window.noise, np.nan) if stderr is None else np.square(stderr)
    return window._replace(
        gradient=window.gradient + state.point.gradient, noise=window.noise + noise
    )


def max_norm(vector: np.ndarray) -> float:
    return float(np.abs(vector).max(initial=0.0))
