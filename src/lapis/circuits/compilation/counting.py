"""log Z by counting: search with propagation, learned clauses and a cache of components.

Where tables are mostly zeros, elimination pays for entries that nothing can reach, and orders of
elimination see a width that is not there. Here the model is written as weighted clauses
(`weighted_clauses.py`) and counted as DPLL would decide them: set a variable, set all that follows,
count the components that are left one by one and multiply, add up over the values (Bayardo and
Pehoushek 2000). A component that was counted before is found in a cache (Sang et al. 2004, Cachet),
by its whole description; sharpSAT (Thurley 2006) showed how short that can be. Conflicts teach
clauses, which propagate and are otherwise ignored; a decision is about a variable of many clauses
and of recent conflicts.

A learned clause may carry what one component knows into another. That is sound as long as all
components have worlds; where one turns out to have none, what was cached beside it is dropped.

The numbers are logarithms in doubles, so nothing is lost to range; every branch is counted, so the
answer is exact up to rounding. It takes as long as it takes: `max_work` and `stop` end it.

A product of tables as clauses with weights of literals: worlds that can be counted.

A variable of two states is a Boolean one; of more, one Boolean for each state and clauses that let
exactly one of them hold. Zeros of a table become clauses: every smallest set of states that no
possible entry has (its prime implicates), because these propagate most. A table of one variable is
weights of literals. Of other tables the largest entry is taken out as a constant; what is left is
cut into boxes of one value w ≤ 1 each, and a box with w < 1 gets a Boolean θ that follows from it,
of weight w if true and 1 − w if not (Sang, Beame and Kautz 2005): outside of the box θ is free and
its weights add up to 1.
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

MAX_WORK = 40_000_000_000  # looks at literals
SLICE = 20_000_000
MAX_ENTRIES, KEY_BYTES = 1 << 23, 1_000_000_000
MAX_LEARNED = 20_000  # clauses, and as many again for each that the model has
WORK_ROOM = 1 << 27


class ModelCount(NamedTuple):
    log_value: float
    components: int  # in the cache at the end
    work: int  # literals looked at


def count_models(graph: FactorGraph, max_work: int = MAX_WORK) -> ModelCount:
    """log Σ_x Π_f f(x); TooLarge if that takes more work than it may."""
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
                f"counting was given up after {int(formula.counter[STEP]):.1e} steps and "
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
    """The arrays of the kernels, and the literals of unit clauses."""
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
    """Room for the search; untouched memory costs nothing."""
    return CountingState(
        np.zeros((num_variables + 2, NUM_FIELDS), np.int64), np.zeros((num_variables + 2, 2)),
        np.empty(WORK_ROOM, np.int32), np.empty(1 << 22, np.int64), np.zeros(8, np.int64),
        np.zeros(num_variables, np.int64), np.zeros(num_clauses, np.int64),
        np.zeros(num_variables, np.int32),
        np.zeros(4 * MAX_ENTRIES, np.int32), np.empty(MAX_ENTRIES, np.uint64),
        np.zeros(MAX_ENTRIES + 1, np.int64), np.empty(KEY_BYTES, np.uint8),
        np.empty(MAX_ENTRIES), np.zeros(MAX_ENTRIES, bool), np.zeros(num_clauses, np.int32),
    )  # fmt: skip


MAX_PRIMES = 8  # variables of a table whose prime implicates are looked for


class WeightedCnf(NamedTuple):
    num_variables: int
    clauses: list[tuple[int, ...]]  # literals: 2·variable, plus 1 where negative
    log_weight: np.ndarray  # float64[2 · num_variables]
    log_constant: float


Box = tuple[tuple[int, ...], float]  # states, −1 for all, and the logarithm of the value


def weighted_clauses(graph: FactorGraph) -> WeightedCnf:
    """The clauses of a model without impossible states (`factor_graph.py`)."""
    size = graph.size.tolist()
    # Boolean of each variable's state 0 (of two states: of state 1); then those of boxes.
    *first, num_variables = row_starts([s if s > 2 else s - 1 for s in size]).tolist()
    clauses: set[tuple[int, ...]] = set()
    for v, states in enumerate(size):
        if states > 2:
            clauses.add(tuple(2 * (first[v] + s) for s in range(states)))
            for one, other in itertools.combinations(range(states), 2):
                clauses.add((2 * (first[v] + one) + 1, 2 * (first[v] + other) + 1))

    def literal(v: int, state: int) -> int:
        """True where a variable is in a state."""
        return 2 * first[v] + 1 - state if size[v] == 2 else 2 * (first[v] + state)

    log_weight: dict[int, float] = {}
    log_constant = 0.0
    for factor in range(graph.num_factors):
        scope, table = graph.variables_of(factor).tolist(), graph.table(factor)
        kept = [axis for axis, v in enumerate(scope) if size[v] > 1]
        scope, table = [scope[axis] for axis in kept], table.reshape([size[scope[a]] for a in kept])
        log_constant += float(table.max())
        table = table - table.max()
        for states in impossible_boxes(table):
            pairs = zip(scope, states, strict=True)
            clauses.add(tuple(sorted(literal(v, s) ^ 1 for v, s in pairs if s >= 0)))
        if len(scope) == 1:
            for state, value in enumerate(table.tolist()):
                if value > -math.inf:
                    key = literal(scope[0], state)
                    log_weight[key] = log_weight.get(key, 0.0) + value
            continue
        for states, value in boxes(table):
            if -math.inf < value < 0.0:
                theta = num_variables
                num_variables += 1
                log_weight[2 * theta] = value
                log_weight[2 * theta + 1] = math.log(-math.expm1(value))
                pairs = zip(scope, states, strict=True)
                negated = [literal(v, s) ^ 1 for v, s in pairs if s >= 0]
                clauses.add((*sorted(negated), 2 * theta))
    weight = np.zeros(2 * num_variables)
    weight[list(log_weight)] = list(log_weight.values())
    return WeightedCnf(num_variables, sorted(clauses), weight, log_constant)


def impossible_boxes(table: np.ndarray) -> list[tuple[int, ...]]:
    """Sets of states without a possible entry: the largest ones; in wide tables disjoint ones."""
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
    """Disjoint boxes of equal entries that make up a table, few of them."""
    low, high = table.min(), table.max()
    if low == high:
        return [((-1,) * table.ndim, float(high))]
    # The axis after which the parts have the fewest different values.
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
