"""Infinite weights: recession directions of the pseudo-log-likelihood.

Every value in the data that has an alternative gives a margin vector m: the log-odds of the value
against the alternative are m · w. The objective rises without end along d exactly if

    m · d ≥ 0 for all margin vectors, and m · d > 0 for some

(Albert & Anderson 1984, for logistic regression: the data is separable). The values with
m · d > 0 become certain in the limit; the rest of the objective depends on the others, and may be
separable too. So directions are found one after the other, each on the values that the earlier
ones do not make certain:

1. single weights: all entries of a column have one sign. One pass over the matrix, repeated while
   new columns are found;
2. combinations: a linear program, max Σ min(1, m · d), finds all margins that can be positive. (A
   bound on d instead of on the margins misses some.) A second program minimises Σ |d| for these
   margins, so that weights without effect are not reported.

A weight of a direction is unbounded. Large programs are not solved; the result is then not
`complete`. A solution is checked against the matrix, since the tolerance of a solver can hide a
small margin among large ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.differences.atom_classes import AtomStack
from lapis.learning.fit import name_some
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.runtime.progress import check_time, seconds_left

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_PROGRAM = 200_000  # entries of the matrix up to which the linear program is solved
EXACT = 1e-9  # relative rounding error of m · d


@dataclass(frozen=True)
class Separation:
    """The weights without a finite best value."""

    parameter: np.ndarray  # int64[n], increasing
    sign: np.ndarray  # int8[n], 1 towards +∞, −1 towards −∞
    reason: list[str]  # for each weight, for the user
    idle: np.ndarray  # int64[k], parameters that make no difference to any atom
    complete: bool  # whether all were found


@dataclass(frozen=True)
class Margins:
    """The margin vectors of all values in the data against their alternatives."""

    matrix: csr_array  # float64[num_rows, num_free]
    multiplicity: np.ndarray  # float64[num_rows], atoms (or blocks and alternatives)

    def take(self, rows: np.ndarray) -> Margins:
        return Margins(self.matrix[rows], self.multiplicity[rows])


def unbounded_parameters(objective: PseudoObjective, free: np.ndarray) -> Separation:
    """Find the weights among `free` (bool[num_parameters]) that the objective drives to infinity.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> from lapis.learning.objectives.pseudo import pseudo_objective
    >>> declared = "Smokes(person)\\nCancer(person)\\n"
    >>> model = lapis.parse(declared + "Smokes(x) => Cancer(x)\\n0 Smokes(x)")
    >>> examples = build_examples(model, [lapis.Database.parse("Smokes(A) Cancer(A) Cancer(B)")])
    >>> shared = share_parameters(model, [example.complete for example in examples])
    >>> found = unbounded_parameters(pseudo_objective(examples, shared), np.ones(2, bool))
    >>> found.parameter.tolist(), found.sign.tolist()
    ([0], [1])
    """
    columns = np.flatnonzero(free)
    margins = collect_margins(objective, columns)
    touched = np.zeros(len(columns), bool)
    touched[margins.matrix.indices] = True
    sign = np.zeros(len(columns), np.int8)
    reason: dict[int, str] = {}
    remaining = saturate_columns(margins, sign, reason)
    complete = remaining.matrix.nnz <= MAX_PROGRAM
    if complete and remaining.matrix.nnz:
        names = objective.parameters.names()
        complete = saturate_combinations(
            remaining, sign, reason, [names[column] for column in columns.tolist()]
        )
    found = np.flatnonzero(sign)
    return Separation(
        columns[found],
        sign[found],
        [reason[number] for number in found.tolist()],
        columns[~touched],
        complete,
    )


def collect_margins(objective: PseudoObjective, columns: np.ndarray) -> Margins:
    """Collect the margin vectors: of atoms as stacked, of blocks D(data) − D(alternative)."""
    from scipy.sparse import csr_array, vstack

    parts: list[csr_array] = [csr_array((0, len(columns)))]
    multiplicity = [np.empty(0)]
    for term in objective.terms:
        stack = term.stack
        if isinstance(stack, AtomStack):
            parts.append(csr_array(stack.margin)[:, columns])
            multiplicity.append(stack.multiplicity)
            continue
        vector = csr_array(stack.vector)[:, columns]
        observed = stack.observed_vector[stack.owner]
        rivals = np.flatnonzero(stack.candidate_vector != observed)
        parts.append(vector[observed[rivals]] - vector[stack.candidate_vector[rivals]])
        multiplicity.append((stack.multiplicity[stack.owner] * stack.candidate_count)[rivals])
    matrix = csr_array(vstack(parts, format="csr"))
    matrix.eliminate_zeros()
    margins = Margins(matrix, np.concatenate(multiplicity))
    return margins.take(np.diff(matrix.indptr) > 0)


def saturate_columns(margins: Margins, sign: np.ndarray, reason: dict[int, str]) -> Margins:
    """Record weights whose margins all have one sign (step 1); return the remaining margins."""
    after = ""
    while margins.matrix.nnz:
        column, value = margins.matrix.indices, margins.matrix.data
        favoured = np.bincount(column[value > 0], minlength=len(sign)) > 0
        opposed = np.bincount(column[value < 0], minlength=len(sign)) > 0
        fresh = (favoured != opposed) & (sign == 0)
        if not fresh.any():
            break
        sign[fresh] = np.where(favoured, 1, -1)[fresh]
        owner = np.repeat(np.arange(len(margins.multiplicity)), np.diff(margins.matrix.indptr))
        bearing = np.bincount(column, margins.multiplicity[owner], len(sign))
        for number in np.flatnonzero(fresh).tolist():
            word = "supports" if sign[number] > 0 else "opposes"
            reason[number] = (
                f"the data {word} it wherever it makes a difference "
                f"({bearing[number]:,.0f} times){after}: nothing contradicts it"
            )
        explained = np.zeros(len(margins.multiplicity), bool)
        explained[owner[fresh[column]]] = True
        margins = margins.take(~explained)
        after = " given the other unbounded weights"
    return margins


def saturate_combinations(
    margins: Margins, sign: np.ndarray, reason: dict[int, str], names: list[str]
) -> bool:
    """Record weights that are unbounded together (step 2); return whether all were found."""
    while margins.matrix.nnz:
        direction = separating_direction(margins.matrix)
        if direction is None:
            return False
        gain = margins.matrix @ direction
        noise = EXACT * (abs(margins.matrix) @ np.abs(direction))
        if np.any(gain < -noise):
            return False
        explained = gain > noise
        if not explained.any():
            return True
        together = np.flatnonzero(direction)
        for number in together[sign[together] == 0].tolist():
            sign[number] = np.sign(direction[number])
            others = [names[other] for other in together.tolist() if other != number]
            reason[number] = (
                f"together with {name_some(others)} it separates "
                f"{margins.multiplicity[explained].sum():,.0f} values in the data from their "
                "alternatives without exception"
            )
        margins = margins.take(~explained)
    return True


def separating_direction(matrix: csr_array) -> np.ndarray | None:
    """float64[num_columns], d with M d ≥ 0, positive in as many rows as possible, and small Σ |d|.

    Zero if there is none; None if the solver fails. Rows are scaled to a largest entry of 1. With
    d = p − q and p, q ≥ 0, Σ |d| is linear.
    """
    from scipy.sparse import csr_array, diags_array, eye_array, hstack

    num_rows, width = matrix.shape
    scaled = diags_array(1.0 / abs(matrix).max(axis=1).toarray().ravel()) @ matrix
    both = csr_array(hstack([scaled, -scaled]))
    margin = csr_array(hstack([both, -eye_array(num_rows)]))
    gain, limit = np.zeros(2 * width + num_rows), np.full(2 * width + num_rows, np.inf)
    gain[2 * width :], limit[2 * width :] = 1.0, 1.0
    best = solve_linear_program(gain, margin, np.zeros(num_rows), limit)
    if best is None:
        return None
    gained = best[2 * width :]
    if gained.max() <= EXACT:
        return np.zeros(width)
    # Half of each margin, so that rounding cannot make the second program infeasible.
    least = solve_linear_program(-np.ones(2 * width), both, gained / 2, limit[: 2 * width])
    if least is None:
        return None
    direction = least[:width] - least[width:]
    direction[np.abs(direction) < EXACT * np.abs(direction).max()] = 0.0
    return direction


def solve_linear_program(
    gain: np.ndarray, matrix: csr_array, least: np.ndarray, limit: np.ndarray
) -> np.ndarray | None:
    """Maximise gain · x with matrix · x ≥ least and 0 ≤ x ≤ limit, by HiGHS."""
    from scipy.optimize import linprog

    bounds = np.column_stack((np.zeros(len(gain)), limit))
    check_time("the search for unbounded weights")
    options = {} if math.isinf(seconds_left()) else {"time_limit": seconds_left()}
    found = linprog(
        -gain, A_ub=-matrix, b_ub=-least, bounds=bounds, method="highs", options=options
    )
    check_time("the search for unbounded weights")
    return found.x if found.status == 0 else None
