"""Flips counted in classes equal flips one by one; the cost depends on the true atoms."""

from __future__ import annotations

import numpy as np
import pytest
from field_worlds import DECLARATIONS, field_texts, ground_atoms, log_weight, pseudo
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from lapis import fields
from lapis.data.database import Database
from lapis.errors import TooLarge
from lapis.fields import lifted_counts
from lapis.fields.field_objectives import make_field_example
from lapis.fields.field_text import parse_field
from lapis.learning.examples import build_examples

LARGER = DECLARATIONS.replace("{Anna, Bob}", "{Anna, Bob, Eve}").replace("{Cup}", "{Cup, Jar}")
DOMAINS = {"person": ("Anna", "Bob", "Eve"), "thing": ("Cup", "Jar")}


@given(field_texts(), st.integers(0, 2**19 - 1), st.integers(0, 2**30), st.integers(1, 20))
@settings(max_examples=20)
def test_flips_in_classes_are_flips_one_by_one(
    text: str, bits: int, seed: int, at_once: int
) -> None:
    field = parse_field(text.replace(DECLARATIONS, LARGER))
    world = {a: bool(bits >> i & 1) for i, a in enumerate(ground_atoms(field, DOMAINS))}
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in world.items() if v]
    [example] = build_examples(field.declarations, [Database.parse(" ".join(true))])
    field_example = make_field_example(field, example)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifted_counts, "FLIPS_AT_ONCE", at_once)
        value, gradient = pseudo(field_example, field.weights)
    now = log_weight(field, DOMAINS, world)
    others = [log_weight(field, DOMAINS, world | {atom: not world[atom]}) for atom in world]
    assert value == pytest.approx(sum(now - np.logaddexp(now, other) for other in others), abs=1e-9)
    step = 1e-6 * np.random.default_rng(seed).normal(size=len(gradient))
    sides = [pseudo(field_example, field.weights + sign * step)[0] for sign in (1, -1)]
    assert gradient @ step == pytest.approx((sides[0] - sides[1]) / 2, abs=1e-12, rel=1e-4)


TRANSITIVE = """\
Smokes(person)
Friends(person, person)
1.5 Friends(x, y) ^ Friends(y, z) => Friends(x, z)
-0.7 Friends(x, y) ^ Smokes(x) => Smokes(y)
2 EXIST y Friends(x, y) ^ Smokes(y)
-2.5 Friends(x, y)
"""


def test_a_sharp_field_has_its_network_s_pseudo_likelihood() -> None:
    """8 million groundings, counted in two independent ways."""
    rng = np.random.default_rng(3)
    people = [f"P{i}" for i in range(200)]
    facts = [f"Smokes({name})" for name in people[::3]]
    facts += [f"Friends({a},{b})" for a in people for b in rng.choice(people, 2, replace=False)]
    data = Database.parse(" ".join(facts))
    model = lapis.parse(TRANSITIVE)
    field = fields.from_model(model, sharpness=45.0)
    found = fields.score(field, data, likelihood=False).pseudo_log_likelihood
    expected = lapis.score(model, data, likelihood=False).pseudo_log_likelihood
    assert found == pytest.approx(expected, rel=1e-9)


def test_joins_that_do_not_fit_are_refused() -> None:
    field = parse_field("Q(t, t)\nroot:\n 1 f(x, y, z)\nf(x, y, z):\n 1 Q(x, y)\n 1 Q(y, z)\n")
    facts = " ".join(f"Q({i},{j})" for i in range(12) for j in range(12))
    data = Database.parse(facts)
    with pytest.raises(TooLarge, match="needs a join of 1,728 rows, more than the 16"):
        fields.learn(field, data, max_memory=1000)
    found = fields.score(field, data, likelihood=False, max_memory=1000)
    assert found.pseudo_log_likelihood is None
    assert "no pseudo-log-likelihood: counting the flips" in found.notes[0]
