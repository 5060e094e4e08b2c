"""All worlds of a small field: log Z, marginals and the expected gradient, exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.fields.ground import GroundField
from lapis.fields.passes import CELLS_AT_ONCE, evaluate, gradient_of_root

MAX_STATES = 1 << 20
SMALLEST = 5e-324  # above 0


class Enumerated(NamedTuple):
    log_partition: float
    marginal: np.ndarray  # float64[num_unknown]
    log_odds: np.ndarray  # float64[num_unknown], as far as doubles go
    expected_sums: np.ndarray  # float64[num_root_weights], E Σ f of each child of the root
    gradient: np.ndarray | None  # float64[num_weights], ∂ log Z / ∂ w = E ∂ log f_0 / ∂ w
    best: np.ndarray  # bool[num_unknown], a most likely world
    best_score: float  # the log of its unnormalised probability


def enumerate_field(
    ground: GroundField, weights: np.ndarray, *, with_gradient: bool = False
) -> Enumerated:
    """Raises TooLarge beyond 2^20 worlds."""
    require_few_worlds(ground, "use method gibbs")
    size, states = len(ground.cell), ground.units.num_states
    at_once = max(1, CELLS_AT_ONCE // max(1, ground.num_cells))
    largest, total = -np.inf, 0.0
    true, false, sums = np.zeros(size), np.zeros(size), np.zeros(len(ground.root_edges))
    gradient = np.zeros(len(weights))
    best, best_score = np.zeros(size, bool), -np.inf
    for first in range(0, states, at_once):
        worlds = ground.units.worlds(np.arange(first, min(first + at_once, states)))
        values = evaluate(ground, weights, worlds)
        log_weight = values.log_weight(ground)
        top = int(np.argmax(log_weight))
        if log_weight[top] > best_score:
            best, best_score = worlds[top], float(log_weight[top])
        # All sums are relative to the largest weight so far.
        scale = np.exp(largest - max(largest, best_score))
        largest = max(largest, best_score)
        share = np.exp(log_weight - largest)
        total = total * scale + share.sum()
        true, false = true * scale + share @ worlds, false * scale + share @ ~worlds
        found = [values.sums[edge].reshape(len(worlds)) for edge in ground.root_edges]
        sums = sums * scale + np.array([share @ each for each in found])
        if with_gradient:
            gradient = gradient * scale + share @ gradient_of_root(ground, weights, values)
    return Enumerated(
        float(largest + np.log(total)),
        true / (true + false),
        np.log(np.maximum(true, SMALLEST)) - np.log(np.maximum(false, SMALLEST)),
        sums / total,
        gradient / total if with_gradient else None,
        best,
        best_score,
    )


def require_few_worlds(ground: GroundField, hint: str) -> None:
    """Raises TooLarge beyond 2^20 worlds."""
    states = ground.units.num_states
    if states > MAX_STATES:
        raise TooLarge(
            f"{len(ground.cell):,} unknown atoms have {'about ' * (states.bit_count() > 1)}"
            f"2^{states.bit_length() - 1} worlds, more than the 2^20 that are enumerated",
            code="too-large",
            hint=hint,
        )
