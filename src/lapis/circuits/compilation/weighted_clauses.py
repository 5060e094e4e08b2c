"""A product of tables as clauses with weights of literals: worlds that can be counted.

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

from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.network.csr import row_starts

MAX_PRIMES = 8  # variables of a table whose prime implicates are looked for


class WeightedClauses(NamedTuple):
    num_variables: int
    clauses: list[tuple[int, ...]]  # literals: 2·variable, plus 1 where negative
    log_weight: np.ndarray  # float64[2 · num_variables]
    log_constant: float


Box = tuple[tuple[int, ...], float]  # states, −1 for all, and the logarithm of the value


def weighted_clauses(graph: FactorGraph) -> WeightedClauses:
    """The clauses of a model without impossible states (`factors/consistency.py`)."""
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
    return WeightedClauses(num_variables, sorted(clauses), weight, log_constant)


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
