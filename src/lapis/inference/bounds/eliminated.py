"""Bounds of eliminated atoms from those of the core.

What was summed out is known given its few neighbours: P(a) = Σ_s P(a | s) P(s), with exact tables
P(a | s) (`reduction`). Of P(s) only the marginals' bounds are known, so the best bounds of P(a) are
those of a small linear program over all joint distributions with such marginals. Its dual
is a plane above the table: if P(a | s) ≤ c₀ + Σ c_i s_i in all states,

    P(a) ≤ c₀ + Σ_i max(c_i · lower_i, c_i · upper_i)

and the best plane rests on one corner of the cube more than it has slopes. With up to three
neighbours these are few (2, 22, 202) and all are tried; a plane that does not lie above the table
is lifted until it does, so that rounding does not matter. With larger scopes, and with blocks among
the neighbours, the least and the largest entry of the table are taken.

Atoms go back in the order opposite to elimination: neighbours that were eliminated later have
their bounds by then.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from lapis.inference.exact.junction_tree import Potentials, Tree
from lapis.runtime.kernels import allocating_entry, entry

MAX_SCOPE = 3
ROUNDING = 2.0**-44


def bound_eliminated(
    tree: Tree,
    potentials: Potentials,
    size: np.ndarray,
    state_start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    doubt: float,
) -> None:
    """Fill in the bounds of eliminated variables' states, float64[num_states], in place.

    Entries of the potentials are off by `doubt` at most.
    """
    corner, inverse, start = planes()
    spread(
        tree, potentials.table, potentials.message, size, state_start, lower, upper, doubt,
        corner, inverse, start,
    )  # fmt: skip


def planes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets of corners of the k-cube that a plane with some slopes can rest on, k up to `MAX_SCOPE`.

    int64[num_sets, MAX_SCOPE + 1] the states; float64[num_sets, MAX_SCOPE + 1, MAX_SCOPE + 1] the
    matrix that makes coefficients of heights; int64[MAX_SCOPE + 2] where the sets of each k begin.
    """
    corners, matrices, starts = [], [], [0, 0]
    wide = MAX_SCOPE + 1
    for k in range(1, MAX_SCOPE + 1):
        cube = np.array(list(product((0.0, 1.0), repeat=k)))
        for slopes in (axes for size in range(1, k + 1) for axes in combinations(range(k), size)):
            place = [0, *(axis + 1 for axis in slopes)]
            for chosen in combinations(range(1 << k), len(place)):
                rows = np.column_stack((np.ones(len(place)), cube[np.ix_(chosen, slopes)]))
                if abs(np.linalg.det(rows)) > 0.5:
                    corner, matrix = np.zeros(wide, np.int64), np.zeros((wide, wide))
                    corner[: len(place)] = chosen
                    matrix[place, : len(place)] = np.linalg.inv(rows)
                    corners.append(corner)
                    matrices.append(matrix)
        starts.append(len(corners))
    return np.array(corners), np.round(2 * np.array(matrices)) / 2, np.array(starts)


@allocating_entry
def spread(  # type: ignore[no-untyped-def]
    tree, table, message, size, state_start, lower, upper, doubt, corner, inverse, start
):
    """From the last eliminated variable to the first."""
    height, known = np.zeros(1 << 3), np.zeros(1 << 3, np.bool_)
    box = np.zeros((3, 2))
    for clique in range(len(tree.order) - 1, -1, -1):
        variable = tree.order[clique]
        begin, end = tree.scope_start[clique], tree.scope_start[clique + 1]
        rows = tree.message_start[clique + 1] - tree.message_start[clique]
        small = end - begin <= 3
        for at in range(begin, end):
            small = small and size[tree.scope_variable[at]] == 2
        if small:
            for at in range(begin, end):
                state = state_start[tree.scope_variable[at]] + 1
                box[at - begin, 0], box[at - begin, 1] = lower[state], upper[state]
        for own in range(size[variable]):
            least, most = 1.0, 0.0
            for row in range(rows):
                whole = message[tree.message_start[clique] + row]
                chance = 0.0
                if whole > -np.inf:
                    chance = np.exp(
                        table[tree.table_start[clique] + row * size[variable] + own] - whole
                    )
                    least, most = min(least, chance), max(most, chance)
                if small:
                    height[row], known[row] = chance, whole > -np.inf
            margin = 4.0 * doubt + ROUNDING
            low, high = least - margin * (least + ROUNDING), most + margin * (most + ROUNDING)
            if small and end > begin:
                under, over = best_planes(height, known, box, end - begin, corner, inverse, start)
                low, high = max(low, under - margin), min(high, over + margin)
            place = state_start[variable] + own
            lower[place], upper[place] = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@entry
def best_planes(height, known, box, width, corner, inverse, start):  # type: ignore[no-untyped-def]
    """The largest lower and the least upper bound that planes give."""
    under, over = 0.0, 1.0
    for number in range(start[width], start[width + 1]):
        lift, drop = -np.inf, np.inf
        low = high = 0.0
        for axis in range(width + 1):
            slope = 0.0
            for row in range(width + 1):
                slope += inverse[number, axis, row] * height[corner[number, row]]
            if axis == 0:
                low, high = slope, slope
            else:
                one, two = slope * box[axis - 1, 0], slope * box[axis - 1, 1]
                low += min(one, two)
                high += max(one, two)
        for state in range(1 << width):
            if known[state]:
                plane = 0.0
                for axis in range(width + 1):
                    slope = 0.0
                    for row in range(width + 1):
                        slope += inverse[number, axis, row] * height[corner[number, row]]
                    if axis == 0 or (state >> (width - axis)) & 1:
                        plane += slope
                lift, drop = max(lift, height[state] - plane), min(drop, height[state] - plane)
        over, under = min(over, high + lift), max(under, low + drop)
    return under, over
