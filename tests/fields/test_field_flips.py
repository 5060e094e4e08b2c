"""Cached sums after flips equal those computed from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from field_worlds import DOMAINS, field_texts, ground_atoms, log_weight
from hypothesis import given
from hypothesis import strategies as st

from lapis.fields.field_flips_kernel import FieldUnits, run_field_gibbs, sweep_icm
from lapis.fields.field_gibbs import CachedField
from lapis.fields.field_text import parse_field
from lapis.fields.ground_field import ground_field
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.tally import new_tallies
from lapis.problem.problem import build_problem

OPENED = ("Rain", "P", "Q", "R")


def cached_field(text: str) -> CachedField:
    field = parse_field(text)
    return CachedField(ground_field(field, build_problem(field.declarations, query=OPENED)))


def only(units: FieldUnits, unit: int) -> FieldUnits:
    """Units of single atoms."""
    here = slice(unit, unit + 1)
    return units._replace(
        start=np.arange(2), atom=np.zeros(1, np.int64), cell=units.cell[here],
        node=units.node[here], exact=units.exact[here],
    )  # fmt: skip


@given(field_texts(), st.integers(0, 2**9 - 1))
def test_what_a_flip_would_change(text: str, bits: int) -> None:
    cached = cached_field(text)
    field = cached.ground.field
    atoms = ground_atoms(field, DOMAINS)
    world = {atom: bool(bits >> i & 1) for i, atom in enumerate(atoms)}
    now = log_weight(field, DOMAINS, world)
    start = np.array([world[atom] for atom in atoms])
    weights, units = field.weights, cached.units
    tallies = new_tallies(1, np.zeros(len(cached.ground.root_edges)))
    for i, atom in enumerate(atoms):
        change = log_weight(field, DOMAINS, world | {atom: not world[atom]}) - now
        estimate = np.zeros(1)  # P(atom | all others), with which a chain draws it
        run_field_gibbs(
            cached.graph, weights, cached.start(weights, start), only(units, i), estimate,
            start[i : i + 1].astype(np.uint8), random_states(0, 1)[0], tallies, 1,
        )  # fmt: skip
        flipped = 1 / (1 + np.exp(-change))
        assert estimate[0] == pytest.approx(1 - flipped if world[atom] else flipped, abs=1e-12)


@given(field_texts(), st.lists(st.integers(0, 8), min_size=1, max_size=30), st.integers(0, 511))
def test_flips_made_are_as_computed_afresh(text: str, flips: list[int], bits: int) -> None:
    cached = cached_field(text)
    ground, weights = cached.ground, cached.ground.field.weights
    world = np.array([bits >> i & 1 for i in range(9)], bool)
    cells = cached.start(weights, world)
    for atom in flips:
        order = np.array([atom])
        sweep_icm(cached.graph, weights, cells, cached.units, order)
    fresh = cached.start(weights, cells.value[ground.cell] > 0.5)
    for name in ("value", "exponent", "root_sums"):
        assert getattr(cells, name) == pytest.approx(getattr(fresh, name), abs=1e-10), name
    assert not cells.mark.any()
    assert not cells.num_touched.any()
