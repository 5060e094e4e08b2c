"""`maximize`: run an optimiser on an objective, with checkpoints, limits and progress.

A stepwise optimiser (`Optimizer`) has `init` and `step`, which map states to states. A `Solver`
(L-BFGS, Newton) runs its own loop and reports its iterations. `history` records the curve and
decides when to stop. Ctrl-C ends a run and keeps the result so far. `methods` lists the optimisers.

`find_length` maximises an objective on a ray from zero. A perceptron that starts at zero learns a
direction, but no length: a most likely world remains the most likely one if all weights are
multiplied by the same number, so the weights are the rate times a sequence that does not depend on
the rate. The length is that of greatest likelihood,

    c maximises f(c·d),      derivative d·∇f(c·d),      curvature dᵀH d,

a concave problem in one unknown, solved by Newton's method on exact or sampled counts. The thesis
chooses the rate by validation instead (section 4.2.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.optimisation.checkpoint import Checkpoint, CheckpointFile, unpack_state
from lapis.optimisation.history import (
    CurvePoint,
    History,
    OptimizerState,
    Trajectory,
    interrupted_run,
    max_norm,
    reason_of_error,
)
from lapis.optimisation.objective import ChainObjective, PenalizedObjective, Point, penalize
from lapis.optimisation.replay_log import (
    ChainStates,
    RecordedObjective,
    ReplayLog,
    ReplayMismatchError,
    read_log,
)
from lapis.registry.method_table import find_method
from lapis.runtime.progress import Report

__all__ = [
    "CurvePoint", "Optimizer", "OptimizerState", "Solver", "Trajectory", "make_optimizer",
    "maximize",
]  # fmt: skip

EXACT_TOLERANCE = 1e-6  # of the gradient
SAMPLED_TOLERANCE = 1e-3  # of the weights, relative to the largest
MAX_LOG_BYTES = 1 << 26  # of logged gradients; a solver with more starts afresh from its weights


S = TypeVar("S", bound=OptimizerState)


class Optimizer(Protocol[S]):
    """An optimiser that works step by step."""

    @property
    def name(self) -> str: ...
    @property
    def state_type(self) -> type[S]:
        """The class of its states, from which checkpoints are restored."""

    def init(self, objective: PenalizedObjective, point: Point) -> S:
        """Return the state at the start."""

    def step(self, objective: PenalizedObjective, state: S) -> S:
        """Return the state after one iteration."""


@runtime_checkable
class Solver(Protocol):
    """An optimiser with its own loop; it calls `record` at each iteration."""

    @property
    def name(self) -> str: ...
    def solve(
        self,
        objective: PenalizedObjective,
        start: Point,
        tolerance: float,
        record: Callable[[Point], None],
    ) -> Point: ...


class SolverStopped(Exception):
    """Raised by `record` to end a solver's run; not an error."""


def maximize(
    objective: PenalizedObjective,
    optimizer: Optimizer[Any] | Solver,
    start: np.ndarray,
    *,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    progress: Report | None = None,
    checkpoint: Path | None = None,
    fingerprint: str = "",
    should_stop: Callable[[], bool] | None = None,
) -> Trajectory:
    """Maximise an objective from weights float64[num_parameters].

    `max_iterations` defaults to the optimiser's own limit. An existing checkpoint is continued if
    its fingerprint matches. The tolerance is that of the gradient (max-norm, 1e-6) for exact
    objectives, and of the weights (relative, 1e-3) for sampled ones without standard errors.
    Objectives with standard errors are maximised to within their noise.

    Raises LapisError if the weights diverge, the optimiser needs exact values and the objective has
    none, or the checkpoint is damaged or of another problem.
    """
    if objective.l1 is not None and not np.any(objective.l1 > 0):
        objective = replace(objective, l1=None)
    log = chains = None
    if checkpoint is not None and isinstance(optimizer, Solver):
        log = ReplayLog(max_bytes=MAX_LOG_BYTES)
    if (
        checkpoint is not None
        and not objective.is_fixed
        and isinstance(objective.objective, ChainObjective)
    ):
        chains = ChainStates()
    recorded = RecordedObjective(**vars(objective), log=log, chains=chains)
    if max_iterations is None:
        max_iterations = find_method("optimizer", optimizer.name).iterations
    if tolerance is None:
        tolerance = EXACT_TOLERANCE if objective.is_fixed else SAMPLED_TOLERANCE
    file = CheckpointFile(checkpoint, optimizer.name, fingerprint)
    history = History(
        file, recorded, objective.clip(np.array(start, np.float64)),
        tolerance, max_iterations, time_limit, progress, should_stop,
    )  # fmt: skip
    saved = file.read(objective.num_parameters)
    try:
        if isinstance(optimizer, Solver):
            run_solver(optimizer, history, saved)
        else:
            run_steps(optimizer, history, saved)
    except KeyboardInterrupt as interrupt:
        history.stop_reason = interrupted_run(interrupt)
    except TooLarge as error:
        history.stop_reason = reason_of_error(error)
    file.write()
    return history.trajectory()


def run_steps(optimizer: Optimizer[S], history: History, saved: Checkpoint | None) -> None:
    """Step until the history ends the run."""
    objective = history.objective
    if saved is None:
        state = optimizer.init(objective, objective.evaluate(history.start))
        history.record(state)
    else:
        state = restore_state(optimizer.state_type, objective, saved)
        history.restore(saved, state)
    while history.stop_reason is None:
        state = optimizer.step(objective, state)
        history.record(state)


@dataclass
class SolverRecorder:
    """Records the iterations of a solver, except the first `num_replayed`."""

    history: History
    state: OptimizerState
    num_replayed: int = 0

    def __call__(self, point: Point) -> None:
        if self.num_replayed:
            self.num_replayed -= 1
            return
        self.state = OptimizerState(point, self.state.iteration + 1)
        self.history.record(self.state)
        if self.history.stop_reason is not None:
            raise SolverStopped


def run_solver(solver: Solver, history: History, saved: Checkpoint | None) -> None:
    """Run a solver from its start, or from a checkpoint."""
    if saved is None:
        state = OptimizerState(history.objective.evaluate(history.start), 0)
        history.record(state)
    else:
        state = restore_solver(history, saved)
    objective = history.objective
    if history.stop_reason is not None:
        return
    if not objective.is_fixed or state.point.value is None:
        raise LapisError(
            f"{solver.name} needs exact values, which the objective {objective.name} does not have",
            code="needs-exact-objective",
            hint="choose pscg or dn, or an exact objective",
        )
    record = SolverRecorder(history, state)
    try:
        point = solve_or_replay(solver, history, record, is_resumed=saved is not None)
        if not np.array_equal(point.weights, record.state.weights):
            record(point)
        history.stop_reason = history.check_standstill(max_norm(point.gradient))
    except SolverStopped:
        return


def restore_solver(history: History, saved: Checkpoint) -> OptimizerState:
    """Restore the history and the log of evaluations; return the last state."""
    objective = history.objective
    state = restore_state(OptimizerState, objective, saved)
    if objective.log is not None:
        log = read_log(saved.arrays, max_bytes=MAX_LOG_BYTES)
        log.is_open = log.num_logged > 0
        history.objective = replace(objective, log=log)
    history.restore(saved, state)
    return state


def solve_or_replay(
    solver: Solver, history: History, record: SolverRecorder, *, is_resumed: bool
) -> Point:
    """Run the solver; a resumed run starts again and replays its logged evaluations.

    If the solver makes another call than the logged one, it continues from the last weights.
    """
    objective, log, tolerance = history.objective, history.objective.log, history.tolerance
    if is_resumed and log is not None and log.is_open:
        record.num_replayed = record.state.iteration
        try:
            return solver.solve(objective, objective.evaluate(history.start), tolerance, record)
        except ReplayMismatchError:
            log.drop()
            record.num_replayed = 0
    return solver.solve(objective, record.state.point, tolerance, record)


def restore_state(state_type: type[S], objective: RecordedObjective, saved: Checkpoint) -> S:
    """Build the state of a checkpoint; its point is evaluated again."""
    fields = unpack_state(saved.section("state"))
    point = objective.evaluate_again(fields.pop("weights"), saved)
    return state_type(**fields, point=point)


def make_optimizer(name: str, **options: float) -> Optimizer[Any] | Solver:
    """Build the optimiser with a name.

    >>> make_optimizer("cd", rate=0.1).name
    'cd'
    """
    return find_method("optimizer", name).make(**options)


MAX_RAY_ITERATIONS = 50


@dataclass(frozen=True)
class Ray:
    """An objective on a ray c·d, as a function of the length c."""

    objective: PenalizedObjective
    direction: np.ndarray  # float64[num_parameters], d
    num_parameters: int = 1

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def is_exact(self) -> bool:
        return self.objective.is_exact

    @property
    def is_fixed(self) -> bool:
        return self.objective.is_fixed

    @property
    def true_counts(self) -> np.ndarray:
        return np.array([np.abs(self.direction) @ self.objective.true_counts])

    def evaluate(self, weights: np.ndarray) -> Point:
        """Evaluate f(c·d) at c float64[1]; the standard error assumes independent counts."""
        inner = self.objective.evaluate_smooth(weights[0] * self.direction)
        stderr = inner.gradient_stderr

        def product(along: np.ndarray) -> np.ndarray:
            curvature = self.direction @ inner.curvature_product(self.direction)
            return np.array([max(float(curvature), 0.0)]) * along

        return Point(
            weights,
            inner.value,
            np.array([self.direction @ inner.gradient]),
            lambda: product(np.ones(1)),
            product,
            None if stderr is None else np.array([np.linalg.norm(self.direction * stderr)]),
        )


def find_length(
    objective: PenalizedObjective,
    direction: np.ndarray,
    *,
    should_stop: Callable[[], bool] | None = None,
) -> float:
    """Return the c ≥ 0 that maximises f(c·d) − c Σ l1_i |d_i|, for d float64[num_parameters]."""
    l1 = None if objective.l1 is None else np.array([objective.l1 @ np.abs(direction)])
    trajectory = maximize(
        penalize(Ray(objective, direction), l1=l1, lower=np.zeros(1)),
        make_optimizer("dn"),
        np.zeros(1),
        max_iterations=MAX_RAY_ITERATIONS,
        should_stop=should_stop,
    )
    return float(trajectory.weights[0])
