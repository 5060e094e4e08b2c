"""A provably most likely world by integer programming, with cutting planes.

Riedel (2008) and RockIt (Noessner, Niepert & Stuckenschmidt 2013). Atoms are binary variables x.
A soft clause of weight w > 0 has a variable z ≤ Σ literals with gain w·z; one with w < 0 has
z ≥ each literal with cost |w|·z; unit clauses are gains of x itself, hard clauses are rows
Σ literals ≥ 1, blocks Σ x = 1 or ≤ 1. z needs no integrality: at an optimum it is integral where
x is. Hard clauses of two negative literals are merged into cliques Σ x ≤ 1, which are much
tighter than their pairs.

Cutting planes: a clause that is not in the program counts as if it were at its best value, so
the program's optimum is an upper bound; clauses that the current world contradicts are added
until there are none, and then the bound is attained.

What did not work: adding all clauses that are merely undecided (the program is then the full one
after two rounds); weights of aggregated identical clauses, which merging already provides.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.inference.objective import Objective

ALL_AT_ONCE = 100_000  # clauses; below this the whole program is solved at once
INTEGRAL_TOLERANCE = 1e-6


@dataclass(frozen=True)
class IntegerSolution:
    world: np.ndarray | None  # bool[num_atoms]; None if none was found
    score: float  # −inf if none was found
    bound: float  # no world has a higher score
    feasible: bool  # False only if proven that no world satisfies the hard clauses
    rounds: int

    @property
    def optimal(self) -> bool:
        slack = INTEGRAL_TOLERANCE * max(1.0, abs(self.score))
        return self.world is not None and self.bound - self.score <= slack


def solve(
    objective: Objective,
    *,
    start: np.ndarray | None = None,
    time_limit: float = math.inf,
    cuts: bool | None = None,
) -> IntegerSolution:
    """Maximise the objective; `start` is a world to begin with."""
    deadline = time.monotonic() + time_limit
    use_cuts = objective.num_clauses > ALL_AT_ONCE if cuts is None else cuts
    length = np.diff(objective.clause_start)
    active = np.full(objective.num_clauses, not use_cuts)
    active[objective.hard | (length == 1)] = True
    best_world, best_score = start, -math.inf if start is None else objective.score(start)
    bound, rounds = math.inf, 0
    while True:
        rounds += 1
        program = Program(objective, active)
        found = program.maximise(best_world, deadline - time.monotonic())
        if found.infeasible:
            return IntegerSolution(None, -math.inf, -math.inf, False, rounds)
        bound = min(bound, found.bound)
        if found.world is not None:
            score = objective.score(found.world)
            if score > best_score:
                best_world, best_score = found.world, score
        if found.world is None or active.all():
            break
        satisfied = objective.is_satisfied(found.world)
        missing = ~active & (satisfied != (objective.weight > 0))
        if not missing.any() or time.monotonic() > deadline:
            break
        active |= missing
    return IntegerSolution(best_world, best_score, max(bound, best_score), True, rounds)


@dataclass(frozen=True)
class ProgramResult:
    world: np.ndarray | None
    bound: float
    infeasible: bool


class Program:
    """The integer program of some of an objective's clauses."""

    def __init__(self, objective: Objective, active: np.ndarray) -> None:
        self.objective = objective
        rows = Rows(objective.num_atoms)
        length = np.diff(objective.clause_start)
        units = active & (length == 1) & ~objective.hard
        self.offset = objective.offset + self.add_units(objective, units, rows)
        # A clause outside the program is taken at its best value.
        outside = objective.weight[~active]
        self.offset += float(outside[outside > 0].sum())
        in_clique = add_cliques(objective, active, rows)
        chosen = np.flatnonzero(active & ~units & ~in_clique)
        add_clauses(objective, chosen, rows)
        add_blocks(objective, rows)
        self.rows = rows

    @staticmethod
    def add_units(objective: Objective, units: np.ndarray, rows: Rows) -> float:
        """w·1[literal] as a gain of its atom; returns the constant part."""
        literal = objective.literal[objective.clause_start[:-1][units]]
        weight = objective.weight[units]
        np.add.at(rows.gain, np.abs(literal) - 1, np.where(literal > 0, weight, -weight))
        return float(weight[literal < 0].sum())

    def maximise(self, start: np.ndarray | None, seconds: float) -> ProgramResult:
        import highspy

        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", self.absolute_gap())
        if math.isfinite(seconds):
            solver.setOptionValue("time_limit", max(0.1, seconds))
        solver.passModel(self.rows.to_highs(highspy))
        if start is not None:
            self.pass_start(solver, highspy, start)
        solver.run()
        return self.read(solver, highspy)

    def absolute_gap(self) -> float:
        """Just below 1 where every gain is an integer, so the last fraction is not fought for."""
        gains = np.asarray(self.rows.gain_of_all())
        return 0.999 if len(gains) and np.array_equal(gains, np.rint(gains)) else 1e-9

    def pass_start(self, solver: Any, highspy: Any, start: np.ndarray) -> None:
        solution = highspy.HighsSolution()
        solution.col_value = self.rows.extend(start.astype(np.float64), self.objective)
        solver.setSolution(solution)

    def read(self, solver: Any, highspy: Any) -> ProgramResult:
        status = solver.getModelStatus()
        if status in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
        ):
            return ProgramResult(None, -math.inf, True)
        info = solver.getInfo()
        is_lp = not self.objective.num_atoms
        found = info.primal_solution_status == 2
        world = None
        if found:
            values = np.asarray(solver.getSolution().col_value)[: self.objective.num_atoms]
            world = values > 0.5
        bound = info.objective_function_value if is_lp else info.mip_dual_bound
        return ProgramResult(world, self.offset + bound, False)


class Rows:
    """Columns and rows of a program, gathered in numpy pieces."""

    def __init__(self, num_atoms: int) -> None:
        self.num_atoms = num_atoms
        self.gain = np.zeros(num_atoms)
        self.extra_gain: list[np.ndarray] = []
        self.extra_clause: list[np.ndarray] = []
        self.num_columns = num_atoms
        self.index: list[np.ndarray] = []
        self.value: list[np.ndarray] = []
        self.length: list[np.ndarray] = []
        self.lower: list[np.ndarray] = []
        self.upper: list[np.ndarray] = []

    def new_columns(self, clauses: np.ndarray, gain: np.ndarray) -> np.ndarray:
        first = self.num_columns
        self.num_columns += len(clauses)
        self.extra_gain.append(gain)
        self.extra_clause.append(clauses)
        return np.arange(first, self.num_columns)

    def add(self, index: np.ndarray, value: np.ndarray, length: np.ndarray,
            lower: np.ndarray, upper: np.ndarray) -> None:  # fmt: skip
        self.index.append(index)
        self.value.append(value)
        self.length.append(length)
        self.lower.append(lower)
        self.upper.append(upper)

    def gain_of_all(self) -> np.ndarray:
        return np.concatenate([self.gain, *self.extra_gain])

    def extend(self, atoms: np.ndarray, objective: Objective) -> np.ndarray:
        """Column values for a world: z is the truth of its clause."""
        if not self.extra_clause:
            return atoms
        satisfied = objective.is_satisfied(atoms > 0.5)
        return np.concatenate([atoms, *(satisfied[c].astype(np.float64) for c in self.extra_clause)])

    def to_highs(self, highspy: Any) -> Any:
        program = highspy.HighsLp()
        program.num_col_ = self.num_columns
        program.num_row_ = sum(len(length) for length in self.length)
        program.col_cost_ = self.gain_of_all()
        program.col_lower_ = np.zeros(self.num_columns)
        program.col_upper_ = np.ones(self.num_columns)
        program.row_lower_ = joined(self.lower, np.float64)
        program.row_upper_ = joined(self.upper, np.float64)
        program.sense_ = highspy.ObjSense.kMaximize
        lengths = joined(self.length, np.int64)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        program.a_matrix_.index_ = joined(self.index, np.int32)
        program.a_matrix_.value_ = joined(self.value, np.float64)
        integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        extra = self.num_columns - self.num_atoms
        program.integrality_ = [integer] * self.num_atoms + [continuous] * extra
        return program


def joined(pieces: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([*pieces, np.empty(0, dtype)]).astype(dtype)


def add_clauses(objective: Objective, chosen: np.ndarray, rows: Rows) -> None:
    """Rows of hard clauses, and of soft ones with a new column each, by length."""
    length = np.diff(objective.clause_start)[chosen]
    for size in np.unique(length):
        clauses = chosen[length == size]
        literal = objective.literal[objective.clause_start[clauses][:, None] + np.arange(size)]
        weight = objective.weight[clauses]
        hard, reward = np.isinf(weight), (weight > 0) & ~np.isinf(weight)
        sign = np.where(literal > 0, 1.0, -1.0)
        atom = np.abs(literal) - 1
        negative = (literal < 0).sum(axis=1).astype(np.float64)
        # Σ literals ≥ 1, that is Σ ±x ≥ 1 − negatives
        add_rows(rows, atom[hard], sign[hard], 1.0 - negative[hard])
        # Σ literals − z ≥ 0
        columns = rows.new_columns(clauses[reward], weight[reward])
        add_rows(
            rows,
            np.column_stack([atom[reward], columns]),
            np.column_stack([sign[reward], np.full(len(columns), -1.0)]),
            -negative[reward],
        )
        # z ≥ each literal: z ∓ x ≥ 0 or −… : z − x ≥ 0, z + x ≥ 1
        cost = weight < 0
        columns = rows.new_columns(clauses[cost], weight[cost])
        add_rows(
            rows,
            np.column_stack([atom[cost].reshape(-1), np.repeat(columns, size)]),
            np.column_stack([-sign[cost].reshape(-1), np.ones(len(columns) * size)]),
            (literal[cost].reshape(-1) < 0).astype(np.float64),
        )


def add_rows(rows: Rows, index: np.ndarray, value: np.ndarray, lower: np.ndarray) -> None:
    """Rows of equal length with a lower bound."""
    count, size = index.shape
    rows.add(
        index.reshape(-1),
        value.reshape(-1),
        np.full(count, size),
        lower,
        np.full(count, np.inf),
    )


def add_blocks(objective: Objective, rows: Rows) -> None:
    exact = objective.block_exact
    rows.add(
        objective.block_atom.astype(np.int64),
        np.ones(len(objective.block_atom)),
        np.diff(objective.block_start),
        np.where(exact, 1.0, -np.inf),
        np.ones(len(exact)),
    )


def add_cliques(objective: Objective, active: np.ndarray, rows: Rows) -> np.ndarray:
    """Rows Σ x ≤ 1 that cover the hard clauses ¬a ∨ ¬b; returns which clauses they cover."""
    length = np.diff(objective.clause_start)
    pairs = np.flatnonzero(active & objective.hard & (length == 2))
    literal = objective.literal[objective.clause_start[pairs][:, None] + np.arange(2)]
    both_negative = (literal < 0).all(axis=1) if len(pairs) else np.zeros(0, bool)
    covered = np.zeros(objective.num_clauses, bool)
    covered[pairs[both_negative]] = True
    for clique in greedy_cliques(-literal[both_negative].astype(np.int64) - 1):
        rows.add(
            clique, np.ones(len(clique)), np.array([len(clique)]), np.array([-np.inf]), np.ones(1)
        )
    return covered


def greedy_cliques(edges: np.ndarray) -> list[np.ndarray]:
    """Cliques that together cover all edges, each grown greedily from an uncovered edge."""
    neighbours: dict[int, set[int]] = {}
    for a, b in edges.tolist():
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    uncovered = {(min(a, b), max(a, b)) for a, b in edges.tolist()}
    cliques: list[np.ndarray] = []
    for a, b in edges.tolist():
        if (min(a, b), max(a, b)) not in uncovered:
            continue
        clique = [a, b]
        common = neighbours[a] & neighbours[b]
        while common:
            # Prefer the vertex with most uncovered edges into the clique, then most candidates.
            chosen = max(
                common,
                key=lambda v: (
                    sum((min(v, u), max(v, u)) in uncovered for u in clique[:8]),
                    len(neighbours[v] & common),
                    -v,
                ),
            )
            clique.append(chosen)
            common &= neighbours[chosen]
        cliques.append(np.array(sorted(clique)))
        for i, u in enumerate(clique):
            for v in clique[i + 1 :]:
                uncovered.discard((min(u, v), max(u, v)))
    return cliques
