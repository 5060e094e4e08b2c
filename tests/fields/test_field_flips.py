"""Cached sums: a flip changes what computing afresh gives."""

from __future__ import annotations

import numpy as np
import pytest
from field_worlds import DOMAINS, field_texts, ground_atoms, log_weight
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.fields.cached import CachedField
from lapis.fields.field_text import parse_field
from lapis.fields.ground import ground_field
from lapis.fields.kernels.flips import climb, pseudo_likelihood
from lapis.problem.problem import build_problem

OPENED = ("Rain", "P", "Q", "R")


def cached_field(text: str) -> CachedField:
    field = parse_field(text)
    return CachedField(ground_field(field, build_problem(field.declarations, query=OPENED)))


@given(field_texts(), st.integers(0, 2**9 - 1))
@settings(max_examples=40, deadline=None)
def test_what_a_flip_would_change(text: str, bits: int) -> None:
    cached = cached_field(text)
    field = cached.ground.field
    atoms = ground_atoms(field, DOMAINS)
    world = {atom: bool(bits >> i & 1) for i, atom in enumerate(atoms)}
    cells = cached.start(field.weights, np.array([world[atom] for atom in atoms]))
    now = log_weight(field, DOMAINS, world)
    cell, node, weights = cached.ground.cell, cached.node, field.weights
    for i, atom in enumerate(atoms):
        change = log_weight(field, DOMAINS, world | {atom: not world[atom]}) - now
        own = pseudo_likelihood(  # log P(atom as it is | all others)
            cached.graph, weights, cells, cell[i : i + 1], node[i : i + 1], np.zeros(len(weights))
        )
        assert own == pytest.approx(-np.logaddexp(0.0, change), abs=1e-9)


@given(field_texts(), st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(0, 511))
@settings(max_examples=40, deadline=None)
def test_flips_made_are_as_computed_afresh(text: str, flips: list[int], bits: int) -> None:
    cached = cached_field(text)
    ground, weights = cached.ground, cached.ground.field.weights
    world = np.array([bits >> i & 1 for i in range(9)], bool)
    cells = cached.start(weights, world)
    for atom in flips:
        order = np.array([atom])
        climb(cached.graph, weights, cells, ground.cell, cached.node, order)
    fresh = cached.start(weights, cells.value[ground.cell] > 0.5)
    for name in ("value", "exponent", "root_sums"):
        assert getattr(cells, name) == pytest.approx(getattr(fresh, name), abs=1e-10), name
    assert not cells.mark.any()
    assert not cells.num_touched.any()
