"""A provably most likely world by integer programming, with cutting planes.

Riedel (UAI 2008) and RockIt (Noessner, Niepert & Stuckenschmidt, AAAI 2013); solved by HiGHS with
gap 0. Its tolerances are absolute, a millionth, so the largest cost is scaled to 2^20, where a
millionth is the objective's `resolution`. (It treated unscaled weights of 10^-7 as equal.)

Atoms are binary columns x, and all terms are costs:

- a unit clause is a cost of its atom;
- a clause with w > 0 has a column z ≥ 1 − Σ literals of cost w, one with w < 0 a column
  z ≥ each literal of cost |w|; z is integral at an optimum where x is;
- a soft clique (`cliques`) of n literals has the count k = Σ literals and columns
  y_j ≥ k − j for j = 1 … n − 1, each of cost w: together w·k(k−1)/2;
- hard clauses are rows Σ literals ≥ 1, hard cliques Σ literals ≤ 1 or = 1, blocks the same.

Cutting planes: omitted clauses cost nothing, so the optimum is a lower bound. Clauses that the
current world violates are added until there are none, and then the bound is attained. Adding all
undecided clauses instead gave the full program after two rounds.

HiGHS detects that z is integral, which helps proofs, and then searches cliques among all columns:
2 s for 12,000, minutes for 70,000, beyond any time limit. Beyond `MAX_INTEGRAL` columns z is scaled
by 3/4, z·3/4 ≥ 1 − Σ literals, which is never integral. Small programs keep integral columns:
without them two of eight took three and eight times as long. (Without presolve three programs took
three to six times as long.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.inference.map.cliques import (
    Cliques,
    HardCliques,
    Probe,
    SoftCliques,
    hard_cliques,
    probe_literals,
    soft_cliques,
)
from lapis.inference.map.map_objective import ComponentResult, MapObjective
from lapis.network.csr import row_starts, row_sums
from lapis.runtime.progress import Stop, work_clock

if TYPE_CHECKING:
    import highspy

ALL_AT_ONCE = 200_000  # optional clauses; up to this many the whole program is solved at once
RANGE = 2.0**20  # the largest cost in HiGHS
POLL = 0.1  # seconds between checks of `stop`
IMPOSSIBLE = ComponentResult(None, math.inf, "ilp", math.inf, possible=False)


def solve_integer_program(
    objective: MapObjective,
    *,
    start: np.ndarray | None = None,
    cuts: bool | None = None,
    stop: Stop | None = None,
) -> ComponentResult:
    """Minimise the cost; `start` is an initial world."""
    stop = stop or Stop()
    structure = analyse_objective(objective)
    if not structure.found.possible:
        return IMPOSSIBLE
    use_cuts = int(structure.optional.sum()) > ALL_AT_ONCE if cuts is None else cuts
    active = ~structure.optional if use_cuts else np.ones(objective.num_clauses, bool)
    best, cost = start, math.inf if start is None else objective.cost(start)
    bound, rounds = 0.0, 0
    while True:
        rounds += 1
        program = ClauseProgram(structure, active)
        found = minimise_cost(program, best if cost < math.inf else None, stop)
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


def minimise_cost(program: ClauseProgram, start: np.ndarray | None, stop: Stop) -> ComponentResult:
    """Run HiGHS; Ctrl-C and `stop` end it with its best world."""
    import highspy

    objective = program.structure.objective
    scale = RANGE * objective.scale
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    # Nearly a unit if costs are multiples of one: the last fraction needs no proof.
    solver.setOptionValue("mip_abs_gap", 0.999 * scale * objective.unit)
    if math.isfinite(stop.deadline):
        solver.setOptionValue("time_limit", max(0.1, stop.deadline - work_clock()))
    solver.passModel(program.to_highs(scale))
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = program.columns_of(start)
        solver.setSolution(solution)
    run_highs(solver, stop)
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


def run_highs(solver: highspy.Highs, stop: Stop) -> None:
    """Solve in a separate thread; Ctrl-C requests a stop, which ends it."""
    solver.HandleUserInterrupt = True
    solver.startSolve()
    while True:
        try:
            if solver.wait(POLL)[0]:
                return
        except KeyboardInterrupt:
            stop.request()
        if stop():
            solver.cancelSolve()


MAX_INTEGRAL = 15_000  # columns z that HiGHS may detect as integral


@dataclass(frozen=True)
class ProgramStructure:
    """Forced atoms and cliques of an objective."""

    objective: MapObjective
    found: Probe
    hard: HardCliques
    soft: SoftCliques

    @property
    def optional(self) -> np.ndarray:
        """bool[num_clauses], clauses that may be omitted at first and added when violated."""
        objective = self.objective
        several: np.ndarray = objective.length > 1
        return several & ~objective.hard & ~self.soft.covered


def analyse_objective(objective: MapObjective) -> ProgramStructure:
    """Find forced atoms, hard and soft cliques."""
    found = probe_literals(objective)
    return ProgramStructure(
        objective, found, hard_cliques(objective, found), soft_cliques(objective)
    )


class ClauseProgram:
    """The program with some of the optional clauses, bool[num_clauses]."""

    def __init__(self, structure: ProgramStructure, active: np.ndarray) -> None:
        objective = structure.objective
        self.structure = structure
        self.cost = [np.zeros(objective.num_atoms)]
        self.clause = [np.empty(0, np.int64)]  # of the columns z
        self.num_columns = objective.num_atoms
        self.offset = 0.0
        self.index: list[np.ndarray] = []
        self.value: list[np.ndarray] = []
        self.length: list[np.ndarray] = []
        self.lower: list[np.ndarray] = []
        self.upper: list[np.ndarray] = []
        self.add_units()
        covered = structure.hard.covered | structure.soft.covered
        chosen = np.flatnonzero(active & ~covered & (objective.length > 1))
        self.unit = 1.0 if len(chosen) <= MAX_INTEGRAL else 0.75  # of the columns z
        self.add_clauses(chosen)
        self.first_clique_column = self.num_columns
        self.add_cliques(structure.hard.at_most_one, -np.inf)
        self.add_cliques(structure.hard.exactly_one, 1.0)
        self.add_soft_cliques()
        self.add_blocks()

    def add_units(self) -> None:
        objective = self.structure.objective
        units = np.flatnonzero((objective.length == 1) & ~objective.hard)
        literal = objective.rows_of(units, 1)[:, 0]
        weight = objective.weight[units]
        # w > 0 costs w where the literal is false, w < 0 costs |w| where it is true.
        per_true = np.where(literal > 0, -weight, weight)
        np.add.at(self.cost[0], np.abs(literal) - 1, per_true)
        when_false = np.where(literal > 0, np.maximum(weight, 0.0), np.maximum(-weight, 0.0))
        self.offset += float(when_false.sum())

    def add_clauses(self, chosen: np.ndarray) -> None:
        """Add rows of hard clauses, and of soft ones with a new column each, by length."""
        objective = self.structure.objective
        length = objective.length[chosen]
        for size in np.unique(length):
            clauses = chosen[length == size]
            literal = objective.rows_of(clauses, int(size))
            weight = objective.weight[clauses]
            atom = np.abs(literal) - 1
            sign = np.where(literal > 0, 1.0, -1.0)
            least = 1.0 - (literal < 0).sum(axis=1)  # Σ literals ≥ 1 is Σ ±x ≥ 1 − negatives
            hard = np.isinf(weight)
            self.add_rows(atom[hard], sign[hard], least[hard])
            reward = (weight > 0) & ~hard
            z = self.add_columns(clauses[reward], weight[reward])[:, None]
            self.add_rows(
                np.hstack((atom[reward], z)),
                np.hstack((sign[reward], np.full(z.shape, self.unit))),
                least[reward],
            )
            penalty = weight < 0
            z = np.repeat(self.add_columns(clauses[penalty], -weight[penalty]), size)[:, None]
            self.add_rows(
                np.hstack((atom[penalty].reshape(-1, 1), z)),
                np.hstack((-sign[penalty].reshape(-1, 1), np.full(z.shape, self.unit))),
                (literal[penalty].reshape(-1) < 0).astype(np.float64),
            )

    def add_cliques(self, cliques: Cliques, least: float) -> None:
        """Add rows least ≤ Σ literals ≤ 1."""
        negated = self.add_literal_rows(cliques)
        self.lower.append(least - negated)
        self.upper.append(1.0 - negated)

    def add_literal_rows(self, cliques: Cliques) -> np.ndarray:
        """Add rows Σ ±x without bounds; return the number of negated literals of each."""
        is_negated = cliques.literal & 1
        self.index.append(cliques.literal >> 1)
        self.value.append(1.0 - 2.0 * is_negated)
        self.length.append(np.diff(cliques.start))
        return row_sums(cliques.start, is_negated)

    def add_soft_cliques(self) -> None:
        """Add the count k = Σ literals of each clique, and columns y ≥ k − j of cost w, j < n."""
        cliques, weight, _ = self.structure.soft
        size = np.diff(cliques.start)
        count = self.new_columns(np.zeros(len(size)))
        ends = cliques.start[1:]
        negated = self.add_literal_rows(cliques)
        # Each row also holds its count, with −1: Σ literals − k = 0.
        self.index[-1] = np.insert(self.index[-1], ends, count)
        self.value[-1] = np.insert(self.value[-1], ends, -1.0)
        self.length[-1] = size + 1
        self.lower.append(-negated)
        self.upper.append(-negated)
        steps = size - 1
        y = self.new_columns(np.repeat(weight, steps))
        j = np.arange(len(y)) - np.repeat(np.cumsum(steps) - steps, steps) + 1.0
        self.add_rows(
            np.column_stack((y, np.repeat(count, steps))),
            np.tile([1.0, -1.0], (len(y), 1)),
            -j,
        )

    def add_blocks(self) -> None:
        objective = self.structure.objective
        self.index.append(objective.block_atom)
        self.value.append(np.ones(len(objective.block_atom)))
        self.length.append(np.diff(objective.block_start))
        self.lower.append(np.where(objective.block_exact, 1.0, -np.inf))
        self.upper.append(np.ones(len(objective.block_exact)))

    def add_columns(self, clauses: np.ndarray, cost: np.ndarray) -> np.ndarray:
        self.clause.append(clauses)
        return self.new_columns(self.unit * cost)

    def new_columns(self, cost: np.ndarray) -> np.ndarray:
        first = self.num_columns
        self.num_columns += len(cost)
        self.cost.append(cost)
        return np.arange(first, self.num_columns)

    def add_rows(self, index: np.ndarray, value: np.ndarray, lower: np.ndarray) -> None:
        """Add rows of equal length with a lower bound."""
        count, size = index.shape
        self.index.append(index.reshape(-1))
        self.value.append(value.reshape(-1))
        self.length.append(np.full(count, size))
        self.lower.append(lower)
        self.upper.append(np.full(count, np.inf))

    def columns_of(self, world: np.ndarray) -> np.ndarray:
        """Return the values of all columns in a world, float64[num_columns]."""
        objective = self.structure.objective
        clauses = np.concatenate(self.clause)
        violated = objective.is_satisfied(world)[clauses] != (objective.weight[clauses] > 0)
        cliques = self.structure.soft.cliques
        holds = world[cliques.literal >> 1] == ((cliques.literal & 1) == 0)
        count = row_sums(cliques.start, holds)
        steps = np.diff(cliques.start) - 1
        j = np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        y = np.maximum(np.repeat(count, steps) - j, 0)
        return np.concatenate((world, violated / self.unit, count, y)).astype(np.float64)

    def to_highs(self, scale: float) -> highspy.HighsLp:
        """Return the program with scaled costs."""
        import highspy

        num_atoms = self.structure.objective.num_atoms
        program = highspy.HighsLp()
        program.num_col_ = self.num_columns
        program.col_cost_ = scale * np.concatenate(self.cost)
        program.offset_ = scale * self.offset
        known = self.structure.found.value
        lower, upper = np.zeros(self.num_columns), np.full(self.num_columns, np.inf)
        lower[:num_atoms] = known == 1
        upper[:num_atoms] = known != 0
        upper[num_atoms : self.first_clique_column] = 1.0 / self.unit
        program.col_lower_, program.col_upper_ = lower, upper
        program.row_lower_ = concatenate_as(self.lower, np.float64)
        program.row_upper_ = concatenate_as(self.upper, np.float64)
        lengths = concatenate_as(self.length, np.int64)
        program.num_row_ = len(lengths)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = row_starts(lengths).astype(np.int32)
        program.a_matrix_.index_ = concatenate_as(self.index, np.int32)
        program.a_matrix_.value_ = concatenate_as(self.value, np.float64)
        integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        extra = self.num_columns - num_atoms
        program.integrality_ = [integer] * num_atoms + [continuous] * extra
        return program


def concatenate_as(pieces: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([*pieces, np.empty(0, dtype)]).astype(dtype)
