"""Maximising an objective: one loop for all optimisers, from the start to a reason for stopping.

A stepwise optimiser is an object with `init` and `step` (`Optimizer` below): a step makes one state
of another, and a state knows the weights to return if the run ended there. L-BFGS is a `Solver`,
which runs by itself and reports its iterations. `history` keeps the curve and decides when to stop.
Ctrl-C ends a run anywhere and keeps the best so far. `lapis.methods` lists them all.

How far along a direction: the maximum of an objective on a ray from zero.

A perceptron learns which way, not how far. Started at zero, its weights are the rate times a
sequence that does not depend on the rate, because a most likely world stays the most likely one
when all weights are multiplied by the same number; only a likelihood tells large weights from
small ones. So the length is that of greatest likelihood,

    c maximises f(c·d),      derivative d·∇f(c·d),      curvature dᵀH d,

one concave problem in one unknown, maximised by Newton's method on exact or sampled counts. The
thesis chooses the rate by validation (4.2.1), which is the same choice, made by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.checkpoint import Checkpoint, CheckpointFile, unpack
from lapis.optimisation.history import (
    STOPPED,
    CurvePoint,
    History,
    OptimizerState,
    Trajectory,
    max_norm,
)
from lapis.optimisation.objective import Moving, PenalizedObjective, Point, penalize
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


class Optimizer(Protocol):
    """An optimiser that works step by step."""

    @property
    def name(self) -> str: ...
    @property
    def state_type(self) -> type[Any]:
        """The class of its states, which checkpoints rebuild."""

    def init(self, objective: PenalizedObjective, point: Point) -> Any:
        """The state at the start."""

    def step(self, objective: PenalizedObjective, state: Any) -> Any:
        """The state after one more evaluation, or a few."""


@runtime_checkable
class Solver(Protocol):
    """An optimiser that runs by itself and reports its iterations."""

    @property
    def name(self) -> str: ...
    def solve(
        self,
        objective: PenalizedObjective,
        start: Point,
        tolerance: float,
        record: Callable[[Point], None],
    ) -> Point: ...


class Enough(Exception):
    """Ends a solver's run from within; not an error."""


def maximize(
    objective: PenalizedObjective,
    optimizer: Optimizer | Solver,
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

    Without `max_iterations` the optimiser's own limit holds. A checkpoint that
    exists is continued; `fingerprint` names the problem in it. The tolerance is of the gradient
    (max-norm, 1e-6) for exact objectives and of the weights (relative, 1e-3) for others whose
    noise is not known; one that knows its noise is maximised to within it.

    Raises LapisError where the weights diverge, the optimiser needs more than the objective has,
    or the checkpoint is damaged or of another problem.
    """
    if objective.l1 is not None and not np.any(objective.l1 > 0):
        objective = replace(objective, l1=None)
    log = chains = None
    if checkpoint is not None and isinstance(optimizer, Solver):
        log = ReplayLog(max_bytes=MAX_LOG_BYTES)
    if (
        checkpoint is not None
        and not objective.is_fixed
        and isinstance(objective.objective, Moving)
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
    except KeyboardInterrupt:
        history.verdict = STOPPED
    file.write()
    return history.trajectory()


def run_steps(optimizer: Optimizer, history: History, saved: Checkpoint | None) -> None:
    """Step until the history ends the run."""
    objective = history.objective
    if saved is None:
        state = optimizer.init(objective, objective.evaluate(history.start))
        history.note(state)
    else:
        state = rebuild_state(optimizer.state_type, objective, saved)
        history.restore(saved, state)
    while history.verdict is None:
        state = optimizer.step(objective, state)
        history.note(state)


def run_solver(solver: Solver, history: History, saved: Checkpoint | None) -> None:
    """Run a solver. A resumed one starts again, and replays its logged evaluations."""
    objective, start = history.objective, None
    num_replayed = 0  # iterations that the history has already
    if saved is None:
        start = objective.evaluate(history.start)
        state = OptimizerState(start, 0)
        history.note(state)
    else:
        state = rebuild_state(OptimizerState, objective, saved)
        if objective.log is not None:
            log = read_log(saved.arrays, max_bytes=MAX_LOG_BYTES)
            log.is_open = log.num_logged > 0
            objective = history.objective = replace(objective, log=log)
        history.restore(saved, state)

    def record(point: Point) -> None:
        nonlocal state, num_replayed
        if num_replayed:
            num_replayed -= 1
            return
        state = OptimizerState(point, state.iteration + 1)
        history.note(state)
        if history.verdict is not None:
            raise Enough

    if history.verdict is not None:
        return
    if not objective.is_fixed or state.point.value is None:
        raise LapisError(
            f"{solver.name} needs exact values, which the objective {objective.name} does not have",
            code="needs-exact-objective",
            hint="choose pscg or dn, or an exact objective",
        )
    try:
        try:
            if start is None and objective.log is not None and objective.log.is_open:
                num_replayed, start = state.iteration, objective.evaluate(history.start)
            point = solver.solve(objective, start or state.point, history.tolerance, record)
        except ReplayMismatchError:
            assert objective.log is not None
            objective.log.drop()
            num_replayed = 0
            point = solver.solve(objective, state.point, history.tolerance, record)
        if not np.array_equal(point.weights, state.weights):
            record(point)
        history.verdict = history.judge_standstill(max_norm(point.gradient))
    except Enough:
        return


def rebuild_state(state_type: type[Any], objective: RecordedObjective, saved: Checkpoint) -> Any:
    fields = unpack(saved.section("state"))
    point = objective.evaluate_again(fields.pop("weights"), saved)
    return state_type(**fields, point=point)


def make_optimizer(name: str, **options: float) -> Optimizer | Solver:
    """The optimiser of a name, with options of its own.

    >>> make_optimizer("cd", rate=0.1).name
    'cd'
    """
    return find_method("optimizer", name).make(**options)


MAX_ITERATIONS = 50


@dataclass(frozen=True)
class Ray:
    """An objective of one number: the length c of c·d."""

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
        """f(c·d) as a function of c float64[1].

        The standard error is that of independent counts; those of one world agree more, which is
        seen in the gradients.
        """
        inner = self.objective.evaluate_smooth(weights[0] * self.direction)
        stderr = inner.gradient_stderr

        def product(along: np.ndarray) -> np.ndarray:
            bend = self.direction @ inner.curvature_product(self.direction)
            return np.array([max(float(bend), 0.0)]) * along

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
    """The c ≥ 0 at which f(c·d) − c Σ l1_i |d_i| is greatest, d float64[num_parameters]."""
    l1 = None if objective.l1 is None else np.array([objective.l1 @ np.abs(direction)])
    trajectory = maximize(
        penalize(Ray(objective, direction), l1=l1, lower=np.zeros(1)),
        make_optimizer("dn"),
        np.zeros(1),
        max_iterations=MAX_ITERATIONS,
        should_stop=should_stop,
    )
    return float(trajectory.weights[0])
