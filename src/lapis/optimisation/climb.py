"""Climbing an objective: one loop for all optimisers, from the start to a reason for stopping.

A stepwise optimiser is an object with `init` and `step` (`Optimizer` below): a step makes one state
of another, and a state knows the weights to return if the climb ended there. L-BFGS is a `Solver`,
which runs by itself and reports its iterations. `logbook` keeps the curve and knows when to stop;
Ctrl-C ends a climb anywhere and keeps the best so far. `lapis.methods` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.checkpoint import Checkpoint, Keeper, fields_of, unpack
from lapis.optimisation.logbook import STOPPED, Course, CurvePoint, Logbook, State, max_norm
from lapis.optimisation.objective import Moving, Objective, Point
from lapis.optimisation.orthant import Origins, Terrain
from lapis.optimisation.tape import StrayedError, Taped, new_tape, old_tape
from lapis.progress import Report
from lapis.registry.method import find_method

__all__ = [
    "Course", "CurvePoint", "Optimizer", "Solver", "State", "climb", "make_optimizer",
]  # fmt: skip

EXACT_TOLERANCE = 1e-6  # of the gradient
SAMPLED_TOLERANCE = 1e-3  # of the weights, relative to the largest


class Optimizer(Protocol):
    """An optimiser that works step by step."""

    @property
    def name(self) -> str: ...
    @property
    def state_type(self) -> type[Any]:
        """The class of its states, which checkpoints rebuild."""

    def init(self, terrain: Terrain, point: Point) -> Any:
        """The state at the start."""

    def step(self, terrain: Terrain, state: Any) -> Any:
        """The state after one more evaluation, or a few."""


@runtime_checkable
class Solver(Protocol):
    """An optimiser that runs by itself and reports its iterations."""

    @property
    def name(self) -> str: ...
    def solve(
        self, terrain: Terrain, start: Point, tolerance: float, record: Callable[[Point], None]
    ) -> Point: ...


@dataclass(frozen=True)
class SolverState(State):
    """All that is known of a solver from outside: where it is, and what it was told."""

    tape_digest: np.ndarray  # the fields of its Tape
    tape_value: np.ndarray
    tape_gradient: np.ndarray


class Enough(Exception):
    """Ends a solver's run from within; not an error."""


def climb(
    objective: Objective,
    optimizer: Optimizer | Solver,
    start: np.ndarray,
    *,
    l1: np.ndarray | None = None,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
    corners: np.ndarray | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    time_limit: float | None = None,
    progress: Report | None = None,
    checkpoint: Path | None = None,
    fingerprint: str = "",
    should_stop: Callable[[], bool] | None = None,
) -> Course:
    """Maximise f(w) − Σ l1_i |w_i| within bounds, from a start float64[num_parameters].

    `corners` bool[num_parameters] tells where f may have a corner at w_i = 0.
    Without `max_iterations` the optimiser's own limit holds. A checkpoint that
    exists is continued; `fingerprint` names the problem in it. The tolerance is of the gradient
    (max-norm, 1e-6) for exact objectives and of the weights (relative, 1e-3) for others whose
    noise is not known; one that knows its noise is climbed to within it.

    Raises LapisError where the weights diverge, the optimiser needs more than the objective has,
    or the checkpoint is damaged or of another problem.
    """
    penalised = l1 is not None and bool(np.any(l1 > 0))
    origins = None
    if checkpoint is not None and not objective.is_fixed and isinstance(objective, Moving):
        origins = Origins(objective)
    terrain = Terrain(objective, l1 if penalised else None, lower, upper, origins, corners)
    if max_iterations is None:
        max_iterations = find_method("optimizer", optimizer.name).iterations
    if tolerance is None:
        tolerance = EXACT_TOLERANCE if objective.is_fixed else SAMPLED_TOLERANCE
    keeper = Keeper(checkpoint, optimizer.name, fingerprint)
    log = Logbook(
        keeper, terrain, terrain.clip(np.array(start, np.float64)),
        tolerance, max_iterations, time_limit, progress, should_stop,
    )  # fmt: skip
    saved = keeper.read(terrain.num_parameters)
    try:
        if isinstance(optimizer, Solver):
            run_solver(optimizer, terrain, log, saved)
        else:
            run_steps(optimizer, terrain, log, saved)
    except KeyboardInterrupt:
        log.verdict = STOPPED
    keeper.write()
    return log.course()


def run_steps(
    optimizer: Optimizer, terrain: Terrain, log: Logbook, saved: Checkpoint | None
) -> None:
    """Steps until the logbook knows why to stop."""
    if saved is None:
        state = optimizer.init(terrain, terrain.evaluate(log.start))
        log.note(state)
    else:
        state = rebuild_state(optimizer.state_type, terrain, saved)
        log.restore(saved, state)
    while log.verdict is None:
        state = optimizer.step(terrain, state)
        log.note(state)


def run_solver(solver: Solver, terrain: Terrain, log: Logbook, saved: Checkpoint | None) -> None:
    """A solver's run; one that is resumed hears again what it was told before."""
    tape, behind = new_tape(terrain.num_parameters), 0
    if saved is None:
        state = SolverState(terrain.evaluate(log.start), 0, *tape.kept())
        log.note(state)
    else:
        state = rebuild_state(SolverState, terrain, saved)
        log.restore(saved, state)
        if state.iteration:
            tape = old_tape(state.tape_digest, state.tape_value, state.tape_gradient)
            behind = state.iteration if tape.told else 0

    def record(point: Point) -> None:
        nonlocal state, behind
        if behind:
            behind -= 1
            return
        state = SolverState(point, state.iteration + 1, *tape.kept())
        log.note(state)
        if log.verdict is not None:
            raise Enough

    if log.verdict is not None:
        return
    if not terrain.is_fixed or state.point.value is None:
        raise LapisError(
            f"{solver.name} needs exact values, which the objective {terrain.name} does not have",
            code="needs-exact-objective",
            hint="choose pscg or dn, or an exact objective",
        )
    heard = terrain
    if log.keeper.path is not None:
        heard = replace(terrain, objective=Taped(terrain.objective, tape))
    try:
        try:
            start = terrain.evaluate(log.start) if behind else state.point
            point = solver.solve(heard, start, log.tolerance, record)
        except StrayedError:
            behind = 0
            tape.end()
            point = solver.solve(terrain, state.point, log.tolerance, record)
        if not np.array_equal(point.weights, state.weights):
            record(point)
        log.verdict = log.judge_standstill(max_norm(point.gradient))
    except Enough:
        return


def rebuild_state(state_type: type[Any], terrain: Terrain, saved: Checkpoint) -> Any:
    fields, origins = unpack(saved.state), terrain.origins
    weights = fields.pop("weights")
    if origins is None or not saved.chains:
        return state_type(**fields, point=terrain.evaluate(weights))
    origins.objective.resume(fields_of(saved.chains, "before."))
    point = terrain.evaluate(weights)
    origins.objective.resume(fields_of(saved.chains, "now."))
    origins.settle(point)
    return state_type(**fields, point=point)


def make_optimizer(name: str, **options: float) -> Optimizer | Solver:
    """The optimiser of a name, with options of its own.

    >>> make_optimizer("cd", rate=0.1).name
    'cd'
    """
    return find_method("optimizer", name).make(**options)
