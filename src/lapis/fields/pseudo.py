"""Pseudo-log-likelihood of a field, with its gradient.

    Σ_t log P(x_t | all others) = −Σ_t log(1 + exp(Δ_t)),   Δ_t = log f_0[x_t flipped] − log f_0

Thesis section 3.4 flips each atom and computes the gradient of the flipped world anew. Here flips
leave their derivatives with respect to the data's own values behind, and one back-propagation of
the data carries those of all flips to the weights (`kernels.flips`): the gradient of forty thousand
flips costs as much as the flips.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.fields.cached import CachedField
from lapis.fields.field import Field
from lapis.fields.ground import ground_field
from lapis.fields.kernels.flips import pseudo_likelihood
from lapis.fields.passes import back_propagate, evaluate
from lapis.learning.examples import HIDDEN, Example


class Lesson(NamedTuple):
    """A world of training data: the asked atoms are the unknown ones, with their answers."""

    cached: CachedField
    world: np.ndarray  # bool[num_unknown]


def make_lesson(field: Field, example: Example, max_memory: int | None = None) -> Lesson:
    """The asked atoms of an example; refuses data that marks some unknown."""
    ground = ground_field(field, example.free, max_memory)
    answers = example.answers(ground.network)
    if (answers == HIDDEN).any():
        raise LapisError(
            "a field is learned from complete data, but facts are marked unknown (?)",
            code="incomplete-data",
        )
    return Lesson(CachedField(ground), answers == 1)


def pseudo_log_likelihood(lesson: Lesson, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """The value, and its gradient float64[num_weights]."""
    cached, ground = lesson.cached, lesson.cached.ground
    values = evaluate(ground, weights, lesson.world[None])
    cells, gradient = cached.cells(values), np.zeros(len(weights))
    value = pseudo_likelihood(cached.graph, weights, cells, ground.cell, cached.node, gradient)
    by_exponent, by_value = cells.by_exponent[None], cells.by_value[None]
    gradient += back_propagate(ground, weights, values, by_exponent, by_value)[0]
    return float(value), gradient
