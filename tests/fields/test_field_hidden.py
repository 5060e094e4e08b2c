"""Learning with hidden atoms: likelihoods that sum them out, against worlds from the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from field_worlds import DOMAINS, enumerate_worlds, field_texts
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_run import Run
from lapis import fields
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.fields.field_objectives import (
    NUM_CHAINS,
    ContrastiveDivergence,
    ExactLikelihood,
    FieldExample,
    make_field_example,
)
from lapis.fields.field_text import parse_field
from lapis.inference.random_numbers import random_states
from lapis.learning.examples import build_examples

MIXTURE = """\
Kind(item)
Red(item)
Round(item)
root:
  1   both(x)
  0.5 Kind(x)
  -1  Red(x)
both(x):
  2   Kind(x)
  1   Red(x)
  1.5 Round(x)
"""
FACTS = "Red(A) Round(A) Red(B) item = {A, B, C}"
STEP = 1e-5


def field_example_of(text: str, facts: str, *hidden: str) -> FieldExample:
    field = parse_field(text)
    data = Database.parse(facts)
    [example] = build_examples(field.declarations, [data], unobserved=hidden)
    return make_field_example(field, example)


@given(field_texts(), st.integers(0, 7))
@settings(max_examples=8)
def test_what_is_hidden_is_summed_out(text: str, bits: int) -> None:
    """log P(facts) = log Z(facts) − log Z, and its gradient."""
    facts = {
        ("Rain", ()): bool(bits & 1), ("P", ("Anna",)): bool(bits & 2), ("P", ("Bob",)): False,
        ("Q", ("Anna", "Bob")): bool(bits & 4), ("Q", ("Anna", "Anna")): True,
        ("Q", ("Bob", "Anna")): False, ("Q", ("Bob", "Bob")): False,
    }  # fmt: skip
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in facts.items() if v]
    field_example = field_example_of(text, " ".join(true), "R")
    assert field_example.has_hidden
    point = ExactLikelihood((field_example,), "likelihood").evaluate(field_example.field.weights)

    def oracle(weights: np.ndarray) -> float:
        field = field_example.field.with_weights(weights)
        given_facts = enumerate_worlds(field, DOMAINS, facts)[0]
        return given_facts - enumerate_worlds(field, DOMAINS, {})[0]

    assert point.value == pytest.approx(oracle(field_example.field.weights), abs=1e-9)
    step = STEP * np.random.default_rng(bits).normal(size=len(point.gradient))
    sides = [oracle(field_example.field.weights + sign * step) for sign in (1, -1)]
    assert point.gradient @ step == pytest.approx((sides[0] - sides[1]) / 2, abs=1e-11, rel=1e-4)


def test_chains_draw_what_is_hidden_in_both_phases() -> None:
    field_example = field_example_of(MIXTURE, FACTS, "Kind")
    weights = field_example.field.weights
    exact = ExactLikelihood((field_example,), "likelihood").evaluate(weights)
    hidden = np.zeros((NUM_CHAINS, 3), bool)
    divergence = ContrastiveDivergence(
        (field_example,), "likelihood", 20, rng=random_states(1, NUM_CHAINS), hidden=(hidden,)
    )
    points = [divergence.evaluate(weights) for _ in range(60)]
    found = np.array([point.gradient for point in points])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(points))
    assert (np.abs(found.mean(axis=0) - exact.gradient) < 4.5 * error).all()
    assert hidden.any()
    kept = divergence.keep()
    after = divergence.evaluate(weights).gradient
    divergence.resume(kept)
    assert np.array_equal(divergence.evaluate(weights).gradient, after)


def test_a_hidden_predicate_is_learned(run: Run) -> None:
    run.write("f.rrf", MIXTURE)
    run.write("f.db", FACTS)
    arguments = ("f.rrf", "f.db", "--unobserved", "Kind")
    found = run.json("field", "learn", *arguments, "--objective", "likelihood", "-o", "out.rrf")
    before = run.json("field", "score", *arguments)
    after = run.json("field", "score", "out.rrf", *arguments[1:])
    assert after["log_likelihood"] == pytest.approx(found["value"])
    assert after["log_likelihood"] > before["log_likelihood"]
    assert after["pseudo_log_likelihood"] is None
    code, _, err = run("field", "learn", *arguments)
    assert code == 1
    assert "a pseudo-likelihood needs complete data, but some atoms are hidden" in err
    assert "objective likelihood" in err


def test_chains_with_hidden_atoms_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    """60 items have too many worlds to enumerate."""
    rng = np.random.default_rng(0)
    facts = " ".join(f"{name}(I{i})" for i in range(60) for name in ("Red", "Round")
                     if rng.random() < 0.3 + 0.4 * (i % 2)) + " item = {I0, ..., I59}"  # fmt: skip
    facts = facts.replace("{I0, ..., I59}", "{" + ", ".join(f"I{i}" for i in range(60)) + "}")
    field, data = fields.parse(MIXTURE), Database.parse(facts)
    place = tmp_path / "state.npz"
    whole = fields.learn(field, data, unobserved=["Kind"], objective="likelihood", max_iterations=6)
    fields.learn(field, data, unobserved=["Kind"], objective="likelihood", max_iterations=3,
                 checkpoint=place)  # fmt: skip
    rest = fields.learn(field, data, unobserved=["Kind"], objective="likelihood", max_iterations=6,
                        checkpoint=place)  # fmt: skip
    assert not whole.exact
    assert rest.weights == pytest.approx(whole.weights, abs=1e-12)
    with pytest.raises(LapisError, match="restarts cannot be compared"):
        fields.learn(field, data, unobserved=["Kind"], objective="likelihood", restarts=1)
