"""Weighted model counting: log Z by search with learned clauses and a component cache.

Where tables are mostly zeros, elimination pays for unreachable entries. Here the model becomes
weighted clauses, which are counted like DPLL decides them (Bayardo and Pehoushek, 2000): set a
variable, propagate, count the remaining components separately and multiply, add over both values.
A cache keeps the counts of components (Sang et al., 2004, Cachet), with short keys as in sharpSAT
(Thurley, 2006). Learned clauses only propagate. Decisions prefer variables of many clauses and of
recent conflicts. A learned clause may carry information from one component into another. That is
sound as long as all components have worlds; if one has none, the entries cached beside it are
dropped. Values are logarithms in doubles, and every branch is counted: the answer is exact up to
rounding. `max_work` limits the time.

**Clauses.** A variable of two states is one Boolean; of more, one Boolean for each state, with
clauses so that exactly one holds. Zeros of a table become its prime implicates, the smallest sets
of states that no possible entry has, because these propagate most. A table of one variable gives
weights of literals. Of other tables the largest entry is a constant factor; the rest is cut into
boxes of one value w ≤ 1. A box with w < 1 gets a Boolean θ that is true in the box, with weight w
if true and 1 − w if false (Sang, Beame and Kautz, 2005). Outside the box θ is free, and its weights
sum to 1.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.counting_kernel import (
    CLAUSES,
    CROWDED,
    DONE,
    ENTRIES,
    NO_ROOM,
    NONE,
    NUM_FIELDS,
    RUNNING,
    STEP,
    TOO_DEEP,
    ClauseIndex,
    CountingState,
    Formula,
    assign_fact,
    forget_clauses,
    forget_components,
    run_count,
    start_count,
)
from lapis.circuits.factor_graph import FactorGraph, make_consistent
from lapis.errors import TooLarge
from lapis.network.csr import row_starts

MAX_WORK = 40_000_000_000  # literals examined
SLICE = 20_000_000
MAX_ENTRIES, KEY_BYTES = 1 << 23, 1_000_000_000
MAX_LEARNED = 20_000  # learned clauses, beyond the number of clauses of the model
WORK_ROOM = 1 << 27


class ModelCount(NamedTuple):
    log_value: float
    components: int  # in the cache at the end
    work: int  # literals examined


def count_models(graph: FactorGraph, max_work: int = MAX_WORK) -> ModelCount:
    """Return log Σ_x Π_f f(x); TooLarge beyond `max_work`."""
    consistent = make_consistent(graph)
    if consistent is None:
        return ModelCount(-np.inf, 0, 0)
    found = weighted_clauses(consistent.graph)
    if any(not clause for clause in found.clauses):
        return ModelCount(-np.inf, 0, 0)
    model, formula, units = build_clause_arrays(found)
    if not all(assign_fact(formula, literal) for literal in units):
        return ModelCount(-np.inf, 0, 0)
    count = new_count(found.num_variables, int(model.num_clauses[0]))
    if not start_count(model, formula, count):
        return ModelCount(-np.inf, 0, int(formula.counter[STEP]))
    status = RUNNING
    while status != DONE:
        status = run_count(model, formula, count, SLICE)
        if status == TOO_DEEP or formula.counter[STEP] > max_work:
            raise TooLarge(
                f"counting exceeded its limit after {int(formula.counter[STEP]):.1e} steps and "
                f"{int(count.counter[ENTRIES]):,} components",
                code="too-large",
            )
        if status == NO_ROOM:
            forget_components(count)
        if status == CROWDED:
            learned = formula.used[int(model.num_clauses[0]) : int(formula.counter[CLAUSES])]
            forget_clauses(formula, int(model.num_clauses[0]), float(np.median(learned)))
    value = float(count.number[0, 1])
    return ModelCount(
        value + found.log_constant, int(count.counter[ENTRIES]), int(formula.counter[STEP])
    )


def build_clause_arrays(found: WeightedCnf) -> tuple[ClauseIndex, Formula, list[int]]:
    """Return the arrays of the kernels, and the literals of unit clauses."""
    num_variables = found.num_variables
    units = [clause[0] for clause in found.clauses if len(clause) == 1]
    pairs = [clause for clause in found.clauses if len(clause) == 2]
    long = [clause for clause in found.clauses if len(clause) > 2]
    pair = np.array(pairs, np.int32).reshape(-1, 2)
    both = np.concatenate((pair, pair[:, ::-1]))
    order = np.argsort(both[:, 0], kind="stable")
    lengths = np.array([len(clause) for clause in long], np.int64)
    literals = np.array([literal for clause in long for literal in clause], np.int32)
    room = len(long) + MAX_LEARNED + len(found.clauses)
    start = np.zeros(room + 1, np.int64)
    start[: len(long) + 1] = row_starts(lengths)
    memory = np.empty(len(literals) + 60 * (room - len(long)), np.int32)
    memory[: len(literals)] = literals
    formula = Formula(
        start, memory, np.full((room, 2), NONE, np.int32),
        np.full(2 * num_variables, NONE, np.int32),
        row_starts(np.bincount(both[:, 0], minlength=2 * num_variables)),
        np.ascontiguousarray(both[order, 1]),
        np.zeros(2 * num_variables, np.int8), np.zeros(num_variables, np.int32),
        np.full(num_variables, NONE, np.int32), np.zeros(num_variables + 1, np.int32),
        np.zeros(num_variables), np.ones(1), np.zeros(num_variables, bool),
        np.zeros(num_variables + 2, np.int32), np.zeros(num_variables + 2, np.int32),
        np.array([len(literals), len(long), 0, 0, 0, 0, 0, 0], np.int64), np.zeros(room),
    )  # fmt: skip
    forget_clauses(formula, len(long), 0.0)
    owner = np.repeat(np.arange(len(long), dtype=np.int32), lengths)
    by_variable = np.argsort(literals >> 1, kind="stable")
    weight = found.log_weight
    model = ClauseIndex(
        row_starts(np.bincount(literals >> 1, minlength=num_variables)),
        owner[by_variable], weight, np.logaddexp(weight[0::2], weight[1::2]),
        np.array([len(long)], np.int64),
    )  # fmt: skip
    return model, formula, units


def new_count(num_variables: int, num_clauses: int) -> CountingState:
    """Reserve memory for the search; untouched memory costs nothing."""
    return CountingState(
        np.zeros((num_variables + 2, NUM_FIELDS), np.int64), np.zeros((num_variables + 2, 2)),
        np.empty(WORK_ROOM, np.int32), np.empty(1 << 22, np.int64), np.zeros(8, np.int64),
        np.zeros(num_variables, np.int64), np.zeros(num_clauses, np.int64),
        np.zeros(num_variables, np.int32),
        np.zeros(4 * MAX_ENTRIES, np.int32), np.empty(MAX_ENTRIES, np.uint64),
        np.zeros(MAX_ENTRIES + 1, np.int64), np.empty(KEY_BYTES, np.uint8),
        np.empty(MAX_ENTRIES), np.zeros(MAX_ENTRIES, bool), np.zeros(num_clauses, np.int32),
    )  # fmt: skip


MAX_PRIMES = 8  # variables of a table whose prime implicates are searched


class WeightedCnf(NamedTuple):
    num_variables: int
    clauses: list[tuple[int, ...]]  # literals: 2·variable, plus 1 where negative
    log_weight: np.ndarray  # float64[2 · num_variables]
    log_constant: float


Box = tuple[tuple[int, ...], float]  # states, −1 for all, and the logarithm of the value


def weighted_clauses(graph: FactorGraph) -> WeightedCnf:
    """Return the clauses of a model without impossible states (`factor_graph.py`)."""
    size = graph.size.tolist()
    # The Boolean of each variable's state 0 (with two states: of state 1); those of boxes follow.
    *first, num_variables = row_starts([s if s > 2 else s - 1 for s in size]).tolist()
    clauses = one_state_clauses(first, size)

    def literal(v: int, state: int) -> int:
        """Return the literal that is true if a variable is in a state."""
        return 2 * first[v] + 1 - state if size[v] == 2 else 2 * (first[v] + state)

    def negate(scope: list[int], states: tuple[int, ...]) -> list[int]:
        """Return the clause that excludes a box."""
        return sorted(literal(v, s) ^ 1 for v, s in zip(scope, states, strict=True) if s >= 0)

    log_weight: dict[int, float] = {}
    log_constant = 0.0
    for members, values in graph.tables:
        scope = [v for v in members if size[v] > 1]
        table = values.reshape([size[v] for v in scope]) - values.max()
        log_constant += float(values.max())
        clauses |= {tuple(negate(scope, states)) for states in impossible_boxes(table)}
        if len(scope) == 1:
            for state in np.flatnonzero(table > -np.inf).tolist():
                key = literal(scope[0], state)
                log_weight[key] = log_weight.get(key, 0.0) + float(table[state])
            continue
        for states, value in boxes(table):
            if -math.inf < value < 0.0:
                theta = num_variables
                num_variables += 1
                log_weight[2 * theta] = value
                log_weight[2 * theta + 1] = math.log(-math.expm1(value))
                clauses.add((*negate(scope, states), 2 * theta))
    weight = np.zeros(2 * num_variables)
    weight[list(log_weight)] = list(log_weight.values())
    return WeightedCnf(num_variables, sorted(clauses), weight, log_constant)


def one_state_clauses(first: list[int], size: list[int]) -> set[tuple[int, ...]]:
    """Return the clauses by which exactly one state of each variable holds."""
    clauses: set[tuple[int, ...]] = set()
    for begin, states in zip(first, size, strict=True):
        if states > 2:
            clauses.add(tuple(2 * (begin + s) for s in range(states)))
            for one, other in itertools.combinations(range(states), 2):
                clauses.add((2 * (begin + one) + 1, 2 * (begin + other) + 1))
    return clauses


def impossible_boxes(table: np.ndarray) -> list[tuple[int, ...]]:
    """Return the maximal boxes without a possible entry; in wide tables, disjoint ones."""
    zero = np.isneginf(table)
    if not zero.any():
        return []
    if table.ndim > MAX_PRIMES:
        return [states for states, value in boxes(table) if value == -math.inf]
    found = []
    axes = range(table.ndim)
    covered: dict[tuple[int, ...], np.ndarray] = {}
    for count in range(table.ndim, -1, -1):
        for free in itertools.combinations(axes, count):
            empty = np.asarray(zero.all(axis=free, keepdims=True)) if free else zero
            covered[free] = empty
            new = empty.copy()
            for axis in axes:
                if axis not in free:
                    new &= ~covered[tuple(sorted((*free, axis)))]
            for states in np.argwhere(new).tolist():
                for axis in free:
                    states[axis] = -1
                found.append(tuple(states))
    return found


def boxes(table: np.ndarray) -> list[Box]:
    """Cut a table into few disjoint boxes of equal entries."""
    low, high = table.min(), table.max()
    if low == high:
        return [((-1,) * table.ndim, float(high))]
    # Split along the axis whose parts have the fewest different values.
    costs = [
        sum(len(np.unique(part)) for part in np.moveaxis(table, axis, 0))
        if table.shape[axis] > 1
        else math.inf
        for axis in range(table.ndim)
    ]
    axis = int(np.argmin(costs))
    found = []
    for state, part in enumerate(np.moveaxis(table, axis, 0)):
        for states, value in boxes(part):
            found.append(((*states[:axis], state, *states[axis:]), value))
    return found
