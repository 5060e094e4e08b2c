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
from typing import Any

import numpy as np

from lapis.inference.map.objective import ComponentResult, Objective
from lapis.inference.map.program import Program, analyse
from lapis.runtime.progress import Stop, work_clock

ALL_AT_ONCE = 200_000  # optional clauses; below this the whole program is solved at once
RANGE = 2.0**20  # the largest cost passed on: a millionth is then the resolution
POLL = 0.1  # seconds between two looks at whether to stop
IMPOSSIBLE = ComponentResult(None, math.inf, "ilp", math.inf, possible=False)


def solve(
    objective: Objective,
    *,
    start: np.ndarray | None = None,
    cuts: bool | None = None,
    stop: Stop | None = None,
) -> ComponentResult:
    """Minimise the cost; `start` is a world to begin with."""
    stop = stop or Stop()
    structure = analyse(objective)
    if not structure.found.possible:
        return IMPOSSIBLE
    use_cuts = int(structure.optional.sum()) > ALL_AT_ONCE if cuts is None else cuts
    active = ~structure.optional if use_cuts else np.ones(objective.num_clauses, bool)
    best, cost = start, math.inf if start is None else objective.cost(start)
    bound, rounds = 0.0, 0
    while True:
        rounds += 1
        program = Program(structure, active)
        found = minimise(program, best if cost < math.inf else None, stop)
        if not found.possible:
            return found
        bound = max(bound, objective.least_cost(found.bound))
        if found.cost < cost:
            best, cost = found.world, found.cost
        if (
            found.world is None
            or stop.is_over()
            or objective.is_proven(cost, bound)
            or active.all()
        ):
            break
        violated = objective.is_satisfied(found.world) != (objective.weight > 0)
        missing = ~active & violated
        if not missing.any():
            break
        active |= missing
    world = best if cost < math.inf else None
    return ComponentResult(world, cost, "ilp", min(bound, cost), rounds=rounds)


def minimise(program: Program, start: np.ndarray | None, stop: Stop) -> ComponentResult:
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
    run(solver, stop)
    status = solver.getModelStatus()
    if status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    ):
        return IMPOSSIBLE
    info = solver.getInfo()
    world, cost = None, math.inf
    if info.primal_solution_status == 2:
        world = np.asarray(solver.getSolution().col_value)[: objective.num_atoms] > 0.5
        cost = objective.cost(world)
    return ComponentResult(world, cost, "ilp", max(0.0, info.mip_dual_bound / scale))


def run(solver: Any, stop: Stop) -> None:
    """Solve in a thread of its own; Ctrl-C presses the stop, which ends it."""
    solver.HandleUserInterrupt = True
    solver.startSolve()
    while True:
        try:
            if solver.wait(POLL)[0]:
                return
        except KeyboardInterrupt:
            stop.press()
        if stop():
            solver.cancelSolve()
