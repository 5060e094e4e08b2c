"""A provably most likely world by integer programming, with cutting planes.

Riedel (Improving the Accuracy and Efficiency of MAP Inference for Markov Logic, UAI 2008) and
RockIt (Noessner, Niepert & Stuckenschmidt, AAAI 2013); the program itself is `map_program`, the
solver is HiGHS with no gap allowed. Its tolerances are absolute, a millionth for the next best
world, so the largest cost is passed on as 2^20, where a millionth is the objective's `resolution`.
(Weights of 10^-7 as they are were all the same to it.)

Cutting planes: a clause that is not in the program costs nothing, so the program's optimum is a
lower bound; clauses that the current world violates are added until there are none, and then the
bound is attained. Hard clauses, units and cliques are in the program from the start.

What did not work: adding all clauses that are merely undecided (the program is then the full one
after two rounds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.inference.map.objective import Objective
from lapis.inference.map.program import Program, analyse
from lapis.progress import Stop, work_clock

ALL_AT_ONCE = 200_000  # optional clauses; below this the whole program is solved at once
RANGE = 2.0**20  # the largest cost passed on: a millionth is then the resolution
POLL = 0.1  # seconds between two looks at whether to stop


@dataclass(frozen=True)
class IntegerSolution:
    world: np.ndarray | None  # bool[num_atoms]; None if none was found
    cost: float  # +inf if none was found
    bound: float  # no world costs less
    feasible: bool  # False only if proven that no world satisfies the hard clauses
    interrupted: bool
    rounds: int


def solve(
    objective: Objective,
    *,
    start: np.ndarray | None = None,
    cuts: bool | None = None,
    stop: Stop | None = None,
) -> IntegerSolution:
    """Minimise the cost; `start` is a world to begin with."""
    stop = stop or Stop()
    structure = analyse(objective)
    if not structure.found.possible:
        return IntegerSolution(None, math.inf, math.inf, False, False, 0)
    use_cuts = int(structure.optional.sum()) > ALL_AT_ONCE if cuts is None else cuts
    active = ~structure.optional if use_cuts else np.ones(objective.num_clauses, bool)
    best, cost = start, math.inf if start is None else objective.cost(start)
    bound, rounds = 0.0, 0
    while True:
        rounds += 1
        program = Program(structure, active)
        found = minimise(program, best if cost < math.inf else None, stop)
        if found.infeasible:
            return IntegerSolution(None, math.inf, math.inf, False, False, rounds)
        bound = max(bound, objective.least_cost(found.bound))
        if found.world is not None:
            new_cost = objective.cost(found.world)
            if new_cost < cost:
                best, cost = found.world, new_cost
        over = found.interrupted or work_clock() > stop.deadline
        if found.world is None or over or objective.is_proven(cost, bound) or active.all():
            break
        violated = objective.is_satisfied(found.world) != (objective.weight > 0)
        missing = ~active & violated
        if not missing.any():
            break
        active |= missing
    if cost == math.inf:
        best = None
    return IntegerSolution(best, cost, min(bound, cost), True, found.interrupted, rounds)


@dataclass(frozen=True)
class ProgramResult:
    world: np.ndarray | None
    bound: float
    infeasible: bool
    interrupted: bool


def minimise(program: Program, start: np.ndarray | None, stop: Stop) -> ProgramResult:
    """Run HiGHS; Ctrl-C and `stop` end it with what it has."""
    import highspy

    objective = program.structure.objective
    scale = RANGE * objective.scale
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    # Nearly a unit where costs are multiples of one, so the last fraction is not fought for.
    solver.setOptionValue("mip_abs_gap", 0.999 * scale * objective.unit)
    if math.isfinite(stop.deadline):
        solver.setOptionValue("time_limit", max(0.1, stop.deadline - work_clock()))
    solver.passModel(program.to_highs(highspy, scale))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = program.columns_of(start)
        solver.setSolution(solution)
    interrupted = run(solver, stop)
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
    return ProgramResult(world, max(0.0, info.mip_dual_bound / scale), False, interrupted)


def run(solver: Any, stop: Stop) -> bool:
    """Solve in a thread of its own; returns whether it was interrupted."""
    solver.HandleUserInterrupt = True
    solver.startSolve()
    interrupted = False
    while True:
        try:
            if solver.wait(POLL)[0]:
                return interrupted
            if stop():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            interrupted = True
            solver.cancelSolve()
