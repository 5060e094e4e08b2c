"""The record of an optimiser's run, and the stopping rules.

A run ends when

    exact objectives      the max-norm of the pseudo-gradient is within the tolerance, or no step
                          ascends; the latter is a maximum if rounding explains the gradient
    sampled objectives    over a window as long as all iterations before it, the Newton step of the
                          mean gradient g and the mean curvature H is at most a tenth of the
                          standard errors of the P weights: gᵀH⁻¹g ≤ P/100. Or the step is at most
                          half of them and the summed gradient within two standard errors of zero
                          (within the tolerance, relative to the count, for a count that did not
                          vary). Without standard errors: the
                          weights changed by less than the tolerance, relative to the largest
                          weight, and gradients cancel to a tenth of the largest gradient so far
    all objectives        a limit on iterations or time is reached, or the user stops the run

With five samples, the noise of one evaluation is 1/√5 of a count's standard deviation. A mean
gradient within two standard errors over 16 iterations is then within a quarter of that deviation,
and the weight within a quarter of its own uncertainty. Over long windows that test alone hardly
passes: steps that depend on the noise leave a bias of some hundredths of the uncertainty, and the
standard errors of a few samples leave out their correlation. So a Newton step that is small beside
the uncertainty ends the run, too; H is computed for up to 256 weights.

Small changes of the weights alone are no evidence: a rate that is too small causes them, too.
Windows double because an average over t iterations changes by only 1/t in an iteration, however far
it is from its limit. Time spent in `progress` callbacks is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.optimisation.checkpoint import (
    Arrays,
    Checkpoint,
    CheckpointFile,
    join_sections,
    pack_state,
    unpack_state,
)
from lapis.optimisation.objective import Point
from lapis.optimisation.replay_log import RecordedObjective
from lapis.runtime.limits import interruption_reason
from lapis.runtime.progress import STOPPED as STOP_CODE
from lapis.runtime.progress import Progress, Report, seconds_left, work_clock

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative to the largest count
FIRST_WINDOW = 16  # iterations
NOISE = 2.0  # standard errors of a gradient
CLOSE = 0.1  # standard errors of a weight, in the mean square: converged
FAR_OFF = 0.5  # standard errors of a weight: not converged, also if gradients are within noise
MAX_COVARIANCES = 256  # weights up to which the whole curvature is computed
CANCELLED = 0.1  # largest mean gradient of a window, relative to the largest gradient of the run
MAX_IDLE = 60  # steps in a row without a change


class CurvePoint(NamedTuple):
    """One iteration of a learning curve."""

    iteration: int
    seconds: float
    value: float | None
    gradient_norm: float
    change: float  # largest change of a returned weight since the previous iteration


def pack_curve(curve: Sequence[CurvePoint]) -> np.ndarray:
    """Convert a curve to float64[num_points, 5], NaN if there is no value."""
    rows = [[np.nan if x is None else x for x in row] for row in curve]
    return np.array(rows, np.float64).reshape(-1, len(CurvePoint._fields))


def unpack_curve(rows: np.ndarray) -> list[CurvePoint]:
    return [
        CurvePoint(int(row[0]), row[1], None if np.isnan(row[2]) else row[2], row[3], row[4])
        for row in rows.tolist()
    ]


def learning_event(now: CurvePoint, max_iterations: int | None, weights: np.ndarray) -> Progress:
    """Build the progress event of an iteration."""
    figures = {"gradient": now.gradient_norm}
    if now.value is not None:
        figures = {"value": now.value, **figures}
    return Progress(
        "learning", now.iteration, max_iterations, now.seconds, figures, weights=weights
    )


class Trajectory(NamedTuple):
    """The result of an optimiser's run."""

    weights: np.ndarray  # float64[num_parameters]
    value: float | None  # at these weights, with the L1 penalty; None if not available
    gradient_norm: float
    curve: tuple[CurvePoint, ...]
    iterations: int
    converged: bool
    reason: str
    interrupted: bool
    seconds: float
    # Relative change of the weights over the last window: the tolerance that would have ended the
    # run. None unless the gradients cancelled and have no standard errors.
    window_change: float | None = None


class StopReason(NamedTuple):
    """Why a run ends."""

    converged: bool
    reason: str
    interrupted: bool = False


STOPPED = StopReason(False, "stopped by the user", True)
TIME_LIMIT = StopReason(False, "time limit")


def reason_of_error(error: TooLarge) -> StopReason:
    """Return the reason of a run that an error ended; raise it if no limit of time caused it."""
    if error.code != STOP_CODE:
        raise error
    return TIME_LIMIT


def require_iteration(trajectory: Trajectory, seconds: float) -> None:
    """Raise TooLarge if the time limit ended a run before its first iteration.

    Parameters
    ----------
    trajectory
        The run.
    seconds
        Time from the start of learning, for the hint.
    """
    if trajectory.reason == TIME_LIMIT.reason and not trajectory.iterations:
        raise no_iteration_error(seconds)


def no_iteration_error(seconds: float) -> TooLarge:
    """Return the error of a run that ended after `seconds` without an iteration."""
    more = f"{4 * max(seconds, 0.05):.2g}"
    return TooLarge(
        f"the time limit ended learning before its first iteration, after {seconds:.2g} s: no "
        "weight was learned",
        code=STOP_CODE,
        hint=f"set --time-limit {more} (time_limit={more}) or more, or learn from fewer atoms "
        "(--only-listed, --objective pseudo)",
    )


def interrupted_run(interrupt: KeyboardInterrupt) -> StopReason:
    """Return the reason of a run that Ctrl-C or a limit of the call interrupted."""
    reason = interruption_reason(interrupt, STOPPED.reason)
    return TIME_LIMIT if reason == TIME_LIMIT.reason else StopReason(False, reason, True)


@dataclass(frozen=True)
class OptimizerState:
    """The state of an optimiser. Subclasses add arrays and numbers."""

    point: Point
    iteration: int

    @property
    def weights(self) -> np.ndarray:
        return self.point.weights

    @property
    def answer(self) -> np.ndarray:
        """float64[num_parameters], the weights to return if the run ends here."""
        return self.weights


@dataclass(frozen=True)
class AveragedState(OptimizerState):
    """A state whose answer is an average over iterations if gradients are sampled."""

    average: np.ndarray  # float64[num_parameters]

    @property
    def answer(self) -> np.ndarray:
        return self.weights if self.point.gradient_stderr is None else self.average


@dataclass
class History:
    """The record of one run of an optimiser; decides when the run ends."""

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
    stop_reason: StopReason | None = None
    window: Window | None = None
    window_change: float | None = None

    @property
    def seconds(self) -> float:
        return work_clock() - self.began

    def restore(self, saved: Checkpoint, state: OptimizerState) -> None:
        """Continue the run of a checkpoint."""
        self.began -= saved.seconds
        self.curve = unpack_curve(saved.arrays["curve"])
        window = saved.section("window")
        self.window = Window(**unpack_state(window)) if window else None
        self.state, self.file.pack = state, self.pack
        self.stop_reason = self.check_convergence(state) or self.check_limits(state)

    def record(self, state: OptimizerState) -> None:
        """Record an iteration and decide whether it is the last."""
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
        self.objective.record_chains(state.point)
        self.curve.append(CurvePoint(state.iteration, seconds, value, norm, change))
        self.stop_reason = self.check_convergence(state) or self.check_limits(state)
        if self.progress is not None:
            paused = work_clock()
            self.progress(learning_event(self.curve[-1], self.max_iterations, state.answer))
            self.began += work_clock() - paused
        self.file.schedule(self.pack)

    def check_convergence(self, state: OptimizerState) -> StopReason | None:
        if not self.objective.is_fixed:
            return self.check_sampled_convergence(state)
        norm = max_norm(state.point.gradient)
        if norm <= self.tolerance:
            return StopReason(True, f"gradient below {self.tolerance:g}")
        recent = self.curve[-MAX_IDLE:]
        if len(recent) == MAX_IDLE and not any(point.change for point in recent):
            return self.check_standstill(norm)
        return None

    def check_sampled_convergence(self, state: OptimizerState) -> StopReason | None:
        if self.window is None or not self.window.is_full(state):
            return None
        if state.point.gradient_stderr is not None:
            return self.window.check_noise(state, self.objective.true_counts, self.tolerance)
        largest = max(point.gradient_norm for point in self.curve)
        self.window_change = self.window.cancelled_change(state, largest)
        if self.window_change is None or self.window_change > self.tolerance:
            return None
        over = self.window.describe(state)
        return StopReason(True, f"weights changed by less than {self.tolerance:g} {over}")

    def check_standstill(self, norm: float) -> StopReason:
        """Return the reason if no step ascends: converged if rounding explains the gradient."""
        if norm <= ROUNDING * max_norm(self.objective.true_counts):
            return StopReason(True, f"gradient at rounding error ({norm:.1g})")
        return StopReason(False, f"no step leads further up (gradient {norm:.1g})")

    def check_limits(self, state: OptimizerState) -> StopReason | None:
        if self.should_stop is not None and self.should_stop():
            return STOPPED
        if state.iteration >= self.max_iterations:
            return StopReason(False, f"{self.max_iterations} iterations")
        return TIME_LIMIT if is_out_of_time(self.seconds, self.time_limit) else None

    def pack(self) -> tuple[float, Arrays]:
        assert self.state is not None
        state = pack_state({"weights": self.state.weights, **vars(self.state)})
        window = {} if self.window is None else pack_state(self.window._asdict())
        arrays = join_sections(state=state, window=window) | self.objective.arrays()
        return self.seconds, arrays | {"curve": pack_curve(self.curve)}

    def trajectory(self) -> Trajectory:
        """Return the run's result; a fixed objective is evaluated at the returned weights."""
        reason, seconds = self.stop_reason or STOPPED, self.seconds
        curve = tuple(self.curve)
        if self.state is None:
            return Trajectory(self.start, None, np.inf, curve, 0, *reason, seconds)
        point, answer = self.state.point, self.state.answer
        if reason.converged and self.objective.is_fixed:
            answer = point.weights  # the limit of the average
        at_answer = np.array_equal(answer, point.weights)
        if not at_answer and self.objective.is_fixed and seconds_left():
            plain = replace(self.objective, log=None, chains=None)
            point, at_answer = plain.evaluate(answer), True
        value = point.value if at_answer else None
        norm = max_norm(point.gradient)
        return Trajectory(
            answer, value, norm, curve, self.state.iteration, *reason, seconds, self.window_change
        )


def is_out_of_time(seconds: float, time_limit: float | None) -> bool:
    """Return whether a run of `seconds` is over its own limit or that of the call."""
    return not seconds_left() or (time_limit is not None and seconds > time_limit)


class Window(NamedTuple):
    """Iterations over which the convergence of a sampled run is tested."""

    start: int  # iteration before the first
    answer: np.ndarray  # float64[num_parameters], at the start
    gradient: np.ndarray  # float64[num_parameters], sum over the iterations
    noise: np.ndarray  # float64[num_parameters], variance of that sum; NaN if not available
    curvature: np.ndarray  # float64[P, P], sum over the iterations; [0, 0] if not available

    def length(self, state: OptimizerState) -> int:
        return state.iteration - self.start

    def is_full(self, state: OptimizerState) -> bool:
        return self.length(state) >= max(FIRST_WINDOW, self.start)

    def describe(self, state: OptimizerState) -> str:
        return f"over the last {self.length(state)} iterations"

    def check_noise(
        self, state: OptimizerState, true_counts: np.ndarray, tolerance: float
    ) -> StopReason | None:
        """Test convergence of a run whose gradients have standard errors.

        The first window is left out: gradients on the way to the maximum and beyond it may cancel.
        """
        if not self.start:
            return None
        over = self.describe(state)
        error = np.sqrt(self.squared_error(state) / max(len(self.gradient), 1))
        if error <= CLOSE:
            return StopReason(True, f"weights within {CLOSE:g} standard errors {over}")
        if FAR_OFF < error < np.inf:
            return None
        mean = self.gradient / self.length(state)
        counted = np.abs(mean) <= tolerance * np.maximum(true_counts, 1.0)
        if not (self.is_within_noise() and bool(np.all(counted | (self.noise > 0)))):
            return None
        return StopReason(True, f"gradient within {NOISE:g} standard errors of zero {over}")

    def squared_error(self, state: OptimizerState) -> float:
        """Compute gᵀH⁻¹g of the mean gradient and curvature; infinite without a curvature.

        It is the squared length of the Newton step that is left, in standard errors of the weights,
        and twice the gain of that step. Weights held by a bound or a penalty are left out.
        """
        moving = np.flatnonzero(self.gradient)
        if not self.curvature.size or not len(moving):
            return np.inf
        curvature = self.curvature[np.ix_(moving, moving)] / self.length(state)
        gradient = self.gradient[moving] / self.length(state)
        variance = np.diag(curvature)
        if not np.all(variance > 0):
            return np.inf
        root = 1 / np.sqrt(variance)
        scaled = root[:, None] * curvature * root + ROUNDING * np.eye(len(root))
        squared = float((root * gradient) @ np.linalg.solve(scaled, root * gradient))
        return squared if squared >= 0 else np.inf

    def cancelled_change(self, state: OptimizerState, largest: float) -> float | None:
        """Return the relative change of the answer; None unless the gradients cancelled.

        `largest` is the norm of the largest gradient of the run. The first gradient is no measure:
        at weights zero all worlds are equally likely.
        """
        if max_norm(self.gradient) > CANCELLED * largest * self.length(state):
            return None
        return max_norm(state.answer - self.answer) / max(max_norm(state.answer), 1.0)

    def is_within_noise(self) -> bool:
        """Test whether the sums are within twice their standard errors, in the mean square.

        Weights whose count did not vary in any sample are left out. False if no count varied, or
        without standard errors.
        """
        varied = self.noise > 0
        if not varied.any():
            return False
        ratio = np.square(self.gradient[varied]) / self.noise[varied]
        return float(ratio.mean()) <= NOISE**2


def extend_window(window: Window | None, state: OptimizerState) -> Window:
    """Add an iteration to the window; start a new window if it was full."""
    if window is None or state.iteration - 1 - window.start >= max(FIRST_WINDOW, window.start):
        nothing = np.zeros_like(state.answer)
        return Window(state.iteration, state.answer, nothing, nothing, new_curvature(state))
    stderr = state.point.gradient_stderr
    noise = np.full_like(window.noise, np.nan) if stderr is None else np.square(stderr)
    curvature = window.curvature
    if curvature.size:
        curvature = curvature + state.point.curvature_matrix
    return window._replace(
        gradient=window.gradient + state.point.gradient,
        noise=window.noise + noise,
        curvature=curvature,
    )


def new_curvature(state: OptimizerState) -> np.ndarray:
    size = len(state.weights) if state.point.gradient_stderr is not None else 0
    return np.zeros((size, size) if size <= MAX_COVARIANCES else (0, 0))


def max_norm(vector: np.ndarray) -> float:
    return float(np.abs(vector).max(initial=0.0))
