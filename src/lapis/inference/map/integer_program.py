"""A provably most likely world by integer programming, with cutting planes.

Riedel (Improving the Accuracy and Efficiency of MAP Inference for Markov Logic, UAI 2008) and
RockIt (Noessner, Niepert & Stuckenschmidt, AAAI 2013); the program itself is `map_program`, the
solver is HiGHS with no gap allowed.

Cutting planes: a clause that is not in the program costs nothing, so the program's optimum is a
lower bound; clauses that the current world violates are added until there are none, and then the
bound is attained. Hard clauses, units and cliques are in the program from the start.

What did not work: adding all clauses that are merely undecided (the program is then the full one
after two rounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.inference.map.objective import Objective
from lapis.inference.map.program import Program, analyse
from lapis.progress import work_clock

ALL_AT_ONCE = 200_000  # optional clauses; below this the whole program is solved at once
TOLERANCE = 1e-6  # a relative gap below this is none
POLL = 0.1  # seconds between two looks at whether to stop


@dataclass(frozen=True)
class IntegerSolution:
    world: np.ndarray | None  # bool[num_atoms]; None if none was found
    cost: float  # +inf if none was found
    bound: float  # no world costs less
    feasible: bool  # False only if proven that no world satisfies the hard clauses
    interrupted: bool
    rounds: int

    @property
    def optimal(self) -> bool:
        return self.world is not None and is_tight(self.cost, self.bound)


def is_tight(cost: float, bound: float) -> bool:
    """The bound proves the cost to be least."""
    return cost - bound <= TOLERANCE * max(1.0, abs(cost))


def solve(
    objective: Objective,
    *,
    start: np.ndarray | None = None,
    time_limit: float = math.inf,
    cuts: bool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> IntegerSolution:
    """Minimise the cost; `start` is a world to begin with."""
    deadline = work_clock() + time_limit
    structure = analyse(objective)
    if not structure.found.possible:
        return IntegerSolution(None, math.inf, math.inf, False, False, 0)
    use_cuts = int(structure.optional.sum()) > ALL_AT_ONCE if cuts is None else cuts
    active = ~structure.optional if use_cuts else np.ones(objective.num_clauses, bool)
    best, cost = start, math.inf if start is None else objective.cost(start)
    bound, rounds = 0.0, 0
    while True:
        rounds += 1
        seconds = deadline - work_clock()
        program = Program(structure, active)
        found = minimise(program, best if cost < math.inf else None, seconds, should_stop)
        if found.infeasible:
            return IntegerSolution(None, math.inf, math.inf, False, False, rounds)
        bound = max(bound, round_up(found.bound, objective.unit))
        if found.world is not None:
            new_cost = objective.cost(found.world)
            if new_cost < cost:
                best, cost = found.world, new_cost
        stop = found.interrupted or work_clock() > deadline or is_tight(cost, bound)
        if found.world is None or stop or active.all():
            break
        violated = objective.is_satisfied(found.world) != (objective.weight > 0)
        missing = ~active & violated
        if not missing.any():
            break
        active |= missing
    if cost == math.inf:
        best = None
    return IntegerSolution(best, cost, min(bound, cost), True, found.interrupted, rounds)


def round_up(bound: float, unit: float) -> float:
    """The least multiple of the unit that is not below the bound, up to its numerical error."""
    return unit * math.ceil(bound / unit - TOLERANCE) if unit > 0 else bound


@dataclass(frozen=True)
class ProgramResult:
    world: np.ndarray | None
    bound: float
    infeasible: bool
    interrupted: bool


def minimise(
    program: Program,
    start: np.ndarray | None,
    seconds: float,
    should_stop: Callable[[], bool] | None,
) -> ProgramResult:
    """Run HiGHS; Ctrl-C and `should_stop` end it with what it has."""
    import highspy

    objective = program.structure.objective
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    # Nearly a unit where costs are multiples of one, so the last fraction is not fought for.
    solver.setOptionValue("mip_abs_gap", max(1e-9, 0.999 * objective.unit))
    if math.isfinite(seconds):
        solver.setOptionValue("time_limit", max(0.1, seconds))
    solver.passModel(program.to_highs(highspy))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = program.columns_of(start)
        solver.setSolution(solution)
    interrupted = run(solver, should_stop)
    status = solver.getModelStatus()
    if status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return ProgramResult(None, math.inf, True, interrupted)
    info = solver.getInfo()
    world = None
    if info.primal_solution_status == 2:
        world = np.asarray(solver.getSolution().col_value)[: objective.num_atoms] > 0.5
    return ProgramResult(world, max(0.0, info.mip_dual_bound), False, interrupted)


def run(solver: Any, should_stop: Callable[[], bool] | None) -> bool:
    """Solve in a thread of its own; returns whether it was interrupted."""
    solver.HandleUserInterrupt = True
    solver.startSolve()
    interrupted = False
    while True:
        try:
            if solver.wait(POLL)[0]:
                return interrupted
            if should_stop is not None and should_stop():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            interrupted = True
            solver.cancelSolve()
