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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.conflicts_kernel import (
    CLAUSES,
    NONE,
    STEP,
    Formula,
    forget_clauses,
    put_fact,
)
from lapis.circuits.compilation.counting_kernel import (
    CROWDED,
    DONE,
    ENTRIES,
    NO_ROOM,
    NUM_FIELDS,
    RUNNING,
    TOO_DEEP,
    Count,
    Model,
    begin,
    forget_components,
    run,
)
from lapis.circuits.compilation.weighted_clauses import WeightedClauses, weighted_clauses
from lapis.circuits.factors.consistency import make_consistent
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.errors import TooLarge
from lapis.network.csr import row_starts

MAX_WORK = 40_000_000_000  # looks at literals
SLICE = 20_000_000
MAX_ENTRIES, KEY_BYTES = 1 << 23, 1_000_000_000
MAX_LEARNED = 20_000  # clauses, and as many again for each that the model has
WORK_ROOM = 1 << 27


class Counted(NamedTuple):
    log_value: float
    components: int  # in the cache at the end
    work: int  # literals looked at


def count_worlds(graph: FactorGraph, max_work: int = MAX_WORK) -> Counted:
    """log Σ_x Π_f f(x); TooLarge if that takes more work than it may."""
    consistent = make_consistent(graph)
    if consistent is None:
        return Counted(-np.inf, 0, 0)
    found = weighted_clauses(consistent.graph)
    if any(not clause for clause in found.clauses):
        return Counted(-np.inf, 0, 0)
    model, formula, units = lay_out(found)
    if not all(put_fact(formula, literal) for literal in units):
        return Counted(-np.inf, 0, 0)
    count = new_count(found.num_variables, int(model.num_clauses[0]))
    if not begin(model, formula, count):
        return Counted(-np.inf, 0, int(formula.counter[STEP]))
    status = RUNNING
    while status != DONE:
        status = run(model, formula, count, SLICE)
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
    return Counted(
        value + found.log_constant, int(count.counter[ENTRIES]), int(formula.counter[STEP])
    )


def lay_out(found: WeightedClauses) -> tuple[Model, Formula, list[int]]:
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
    model = Model(
        row_starts(np.bincount(literals >> 1, minlength=num_variables)),
        owner[by_variable], weight, np.logaddexp(weight[0::2], weight[1::2]),
        np.array([len(long)], np.int64),
    )  # fmt: skip
    return model, formula, units


def new_count(num_variables: int, num_clauses: int) -> Count:
    """Room for the search; untouched memory costs nothing."""
    return Count(
        np.zeros((num_variables + 2, NUM_FIELDS), np.int64), np.zeros((num_variables + 2, 2)),
        np.empty(WORK_ROOM, np.int32), np.empty(1 << 22, np.int64), np.zeros(8, np.int64),
        np.zeros(num_variables, np.int64), np.zeros(num_clauses, np.int64),
        np.zeros(num_variables, np.int32),
        np.zeros(4 * MAX_ENTRIES, np.int32), np.empty(MAX_ENTRIES, np.uint64),
        np.zeros(MAX_ENTRIES + 1, np.int64), np.empty(KEY_BYTES, np.uint8),
        np.empty(MAX_ENTRIES), np.zeros(MAX_ENTRIES, bool), np.zeros(num_clauses, np.int32),
    )  # fmt: skip
