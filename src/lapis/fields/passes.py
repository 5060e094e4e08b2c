"""Values of all parfeatures, and derivatives by back-propagation, of one world or many at once.

Forwards, from the atoms to the root, with e the exponent less log Z:

    e_i = Σ_j w_ij (s_ij − [w_ij > 0] n_ij),   s_ij = Σ_g' f_j,     f_i = exp(e_i)

(the root's e is the log of the world's unnormalised probability, with nothing subtracted).
Backwards, thesis section 3.4, from ∂/∂e = 1 at the root:

    ∂/∂e_i = ∂/∂f_i · f_i         ∂/∂w_ij = Σ_g ∂/∂e_i (s_ij − [w_ij > 0] n_ij)
    ∂/∂f_j += w_ij · ∂/∂e_i       summed over the groundings that refer to f_j

A weight is tied over all groundings of its parfeature, so its derivative is the sum over them.
Nothing is listed: sums run over strided views of the children's tables (`ground`). At w = 0, where
log Z has a corner, the derivative is that from below. Where the weight of a parfeature in its
parent is at its best, the two derivatives agree: a factor on a parfeature changes nothing then. A
prior on that weight keeps them apart, and a maximum may lie on such a corner; L-BFGS continues
along it (`optimisation/lbfgs.py`).

All worlds of a small field: log Z, marginals and the expected gradient, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lapis.errors import TooLarge
from lapis.fields.ground import FieldEdge, GroundField, Node

CELLS_AT_ONCE = 1 << 21  # of several worlds


class Values(NamedTuple):
    """Of several worlds."""

    value: np.ndarray  # float64[num_worlds, num_cells], f
    exponent: np.ndarray  # float64[num_worlds, num_cells], e; 0 of atoms and comparisons
    sums: tuple[np.ndarray, ...]  # for each edge s − [w > 0] n, axes of the parent or of length 1

    def log_weight(self, ground: GroundField) -> np.ndarray:
        """float64[num_worlds], the logs of unnormalised probabilities."""
        return self.exponent[:, ground.nodes[ground.root].offset]


def base_values(ground: GroundField, worlds: np.ndarray) -> np.ndarray:
    """float64[num_worlds, num_cells], atoms and comparisons set; bool[num_worlds, num_unknown]."""
    value = np.tile(ground.known, (len(worlds), 1))
    value[:, ground.cell] = worlds
    return value


def evaluate(ground: GroundField, weights: np.ndarray, worlds: np.ndarray) -> Values:
    """All values, of worlds bool[num_worlds, num_unknown]."""
    value = base_values(ground, worlds)
    exponent = np.zeros_like(value)
    sums: list[np.ndarray] = [np.empty(0)] * len(ground.edges)
    for number in range(ground.first_parfeature, len(ground.nodes)):
        node = ground.nodes[number]
        total = np.zeros((len(worlds), *node.shape))
        for edge_number in ground.children(number):
            edge, weight = ground.edges[edge_number], float(weights[edge_number])
            found = child_sums(ground, edge, value)
            if weight > 0 and number != ground.root:
                found -= edge.num_terms
            sums[edge_number] = found
            total += weight * found
        exponent[:, node.cells] = total.reshape(len(worlds), -1)
        if number != ground.root:
            # Above 0 by rounding only.
            value[:, node.cells] = np.exp(np.minimum(exponent[:, node.cells], 0.0))
    return Values(value, exponent, tuple(sums))


def gradient_of_root(ground: GroundField, weights: np.ndarray, values: Values) -> np.ndarray:
    """float64[num_worlds, num_weights], ∂ log f_0 / ∂ w."""
    num_worlds = len(values.value)
    gradient = np.zeros((num_worlds, len(weights)))
    by_value = np.zeros_like(values.value)
    for number in range(ground.root, ground.first_parfeature - 1, -1):
        node = ground.nodes[number]
        slope = by_value[:, node.cells] * values.value[:, node.cells]
        if number == ground.root:
            slope = np.ones((num_worlds, 1))
        table = slope.reshape(num_worlds, *node.shape)
        axes = tuple(range(1, table.ndim))
        for edge_number in ground.children(number):
            edge = ground.edges[edge_number]
            gradient[:, edge_number] = (table * values.sums[edge_number]).sum(axis=axes)
            if edge.child >= ground.first_parfeature:
                spread(ground, edge, weights[edge_number] * table, by_value)
    return gradient


def world_gradients(ground: GroundField, weights: np.ndarray, worlds: np.ndarray) -> np.ndarray:
    """float64[num_worlds, num_weights], ∂ log f_0 / ∂ w, of as many at a time as there is room."""
    at_once = max(1, CELLS_AT_ONCE // max(1, ground.num_cells))
    parts = [worlds[first : first + at_once] for first in range(0, len(worlds), at_once)]
    found = [gradient_of_root(ground, weights, evaluate(ground, weights, part)) for part in parts]
    return np.concatenate(found)


def child_sums(ground: GroundField, edge: FieldEdge, value: np.ndarray) -> np.ndarray:
    """s, with axes (worlds, the parent's parameters); of length 1 where the child has no such."""
    child = ground.nodes[edge.child]
    kept = kept_parameters(edge)
    shape = [size if k in kept else 1 for k, size in enumerate(edge.sizes[: edge.num_parameters])]
    if 0 in edge.sizes or child.size == 0:
        return np.zeros((len(value), *shape))
    cells = view_of(edge, child, kept, value)
    found = cells.sum(axis=tuple(range(1 + len(kept), cells.ndim)))
    return np.ascontiguousarray(found.reshape(len(value), *shape))


def spread(ground: GroundField, edge: FieldEdge, table: np.ndarray, by_value: np.ndarray) -> None:
    """Add derivatives with respect to a child's sums to those of all its cells in them."""
    child = ground.nodes[edge.child]
    if 0 in edge.sizes or child.size == 0:
        return
    kept = kept_parameters(edge)
    others = tuple(1 + k for k in range(edge.num_parameters) if k not in kept)
    reduced = table.sum(axis=others)
    cells = view_of(edge, child, kept, by_value)
    # No cell stands twice in the view: a grounding's arguments tell its variables.
    cells += reduced.reshape(*reduced.shape, *[1] * (cells.ndim - reduced.ndim))


def kept_parameters(edge: FieldEdge) -> list[int]:
    """The parent's parameters that are in the child."""
    return [k for k in range(edge.num_parameters) if -1 - k in edge.places]


def view_of(edge: FieldEdge, child: Node, kept: list[int], array: np.ndarray) -> np.ndarray:
    """The child's cells with axes (worlds, kept parameters, variables summed over)."""
    variables = [*kept, *range(edge.num_parameters, len(edge.sizes))]
    rest = array[:, child.offset + edge.base(child) :]
    shape = (len(array), *(edge.sizes[v] for v in variables))
    step = array.strides[1]
    strides = (array.strides[0], *(step * edge.stride(v, child) for v in variables))
    return as_strided(rest, shape, strides)


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
