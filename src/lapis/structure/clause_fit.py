"""The best weight of one clause beside unit clauses: Newton's method on classes of atoms.

Maximises over the clause's weight w and one unit weight u_r for each predicate

    Σ_r Σ_{classes c of r} m_c · log P(truth_c),   P(true) = 1 / (1 + exp(−(w·d_c + u_r + o_c)))

less ρ/2·w², where m_c is the class's share of the predicate's atoms, o_c what other clauses say of
it and ρ a prior's precision, 0 for none. The curvature is an arrow (unit weights do not meet each
other), so a step costs one pass over the classes. The function is concave; where its supremum is at
infinity, steps stop when no more than `TOLERANCE` is to be gained.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import allocating_entry, inner

TOLERANCE = 1e-11  # of the weighted pseudo-log-likelihood, still to be gained
MAX_STEPS = 100


class ClauseFit(NamedTuple):
    """The maximum over the weight of one clause and the unit weights."""

    values: np.ndarray  # float64[num_predicates], Σ m_c · log P(truth_c) of each predicate
    weight: float


@inner
def pass_over(  # type: ignore[no-untyped-def]
    w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
):
    """The value; `along` gets the gradient, `across` and `corner` the curvature's arrow, `values`
    the part of each predicate."""
    along[:] = 0.0
    across[:] = 0.0
    corner[:] = 0.0
    values[:] = 0.0
    for row in range(len(difference)):
        group = predicate[row]
        d = difference[row]
        field = w * d + units[group] + offset[row]
        signed = field if truth[row] else -field
        small = np.exp(-abs(signed))
        values[group] -= share[row] * (np.log1p(small) + max(-signed, 0.0))
        p = 1.0 / (1.0 + small) if field >= 0 else small / (1.0 + small)
        slope = share[row] * ((1.0 if truth[row] else 0.0) - p)
        bend = share[row] * small / (1.0 + small) ** 2
        along[0] += slope * d
        along[1 + group] += slope
        corner[0] += bend * d * d
        corner[1 + group] += bend
        across[group] += bend * d
    along[0] -= ridge * w
    corner[0] += ridge
    return values.sum() - ridge / 2 * w * w


@allocating_entry
def fit_clause(units, offset, difference, truth, share, predicate, ridge):  # type: ignore[no-untyped-def]
    """(values, w): units float64[num_predicates] are started from, and moved."""
    size = len(units)
    along, across, corner = np.zeros(size + 1), np.zeros(size), np.zeros(size + 1)
    step, moved, values = np.zeros(size), np.zeros(size), np.zeros(size)
    w = 0.0
    value = pass_over(
        w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
    )
    for _ in range(MAX_STEPS):
        pivot, right = corner[0], along[0]
        for j in range(size):
            if corner[1 + j] > 1e-300:
                pivot -= across[j] * across[j] / corner[1 + j]
                right -= across[j] * along[1 + j] / corner[1 + j]
        forward = right / pivot if pivot > 1e-13 * corner[0] and pivot > 0 else 0.0
        decrement = along[0] * forward
        for j in range(size):
            bend = corner[1 + j]
            step[j] = (along[1 + j] - across[j] * forward) / bend if bend > 1e-300 else 0.0
            decrement += along[1 + j] * step[j]
        if decrement <= TOLERANCE:
            break
        length, better = 1.0, value
        while length > 1e-8:
            moved[:] = units + length * step
            better = pass_over(
                w + length * forward, moved, offset, difference, truth, share, predicate, along,
                across, corner, values, ridge,
            )  # fmt: skip
            if better >= value + 1e-4 * length * decrement:
                break
            length /= 2
        if better <= value:
            break
        w += length * forward
        units[:] = moved
        value = better
    pass_over(
        w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
    )
    return values, w


def fit(
    units: np.ndarray,
    offset: np.ndarray,
    difference: np.ndarray,
    truth: np.ndarray,
    share: np.ndarray,
    predicate: np.ndarray,
    ridge: float = 0.0,
) -> ClauseFit | None:
    """The maximum, `units` being moved to theirs; None where the clause has no differences.

    `ridge` is the precision ρ of the largest difference times the weight: of the most that the
    clause can say about an atom, in log-odds.
    """
    scale = float(np.abs(difference).max(initial=0.0))
    if scale == 0.0:
        return None
    scaled = difference / scale
    values, weight = fit_clause(units, offset, scaled, truth, share, predicate, ridge)
    return ClauseFit(values, float(weight) / scale)
