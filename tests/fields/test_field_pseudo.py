"""Pseudo-log-likelihood by flips, against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from field_worlds import DOMAINS, enumerate_worlds, field_texts, ground_atoms, log_weight, pseudo
from hypothesis import given
from hypothesis import strategies as st

from cli_run import Run
from lapis import fields
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.fields.field import Field
from lapis.fields.field_objectives import FieldExample, make_field_example
from lapis.fields.field_text import parse_field
from lapis.learning.examples import build_examples

STEP = 1e-5


def field_example_of(field: Field, facts: str, query: list[str] | None = None) -> FieldExample:
    [example] = build_examples(field.declarations, [Database.parse(facts)], query or [])
    return make_field_example(field, example)


def facts_of(field: Field, bits: int) -> tuple[str, dict[tuple[str, tuple[str, ...]], bool]]:
    world = {a: bool(bits >> i & 1) for i, a in enumerate(ground_atoms(field, DOMAINS))}
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in world.items() if v]
    return " ".join(true), world


@given(field_texts(), st.integers(0, 511), st.sampled_from([[], ["P"], ["Q", "Rain"]]))
def test_value_and_gradient(text: str, bits: int, query: list[str]) -> None:
    field = parse_field(text)
    facts, world = facts_of(field, bits)
    field_example = field_example_of(field, facts, query)
    value, gradient = pseudo(field_example, field.weights)
    now = log_weight(field, DOMAINS, world)
    expected = 0.0
    for atom in world:
        if not query or atom[0] in query:
            other = log_weight(field, DOMAINS, world | {atom: not world[atom]})
            expected += now - np.logaddexp(now, other)
    assert value == pytest.approx(expected, abs=1e-9)
    for index in range(len(field.weights)):
        step = np.zeros(len(field.weights))
        step[index] = STEP
        above = pseudo(field_example, field.weights + step)[0]
        below = pseudo(field_example, field.weights - step)[0]
        assert gradient[index] == pytest.approx((above - below) / (2 * STEP), abs=1e-6, rel=1e-6)


def test_a_weight_of_zero_has_a_gradient() -> None:
    """Flips without any effect at weights of zero still have a gradient."""
    field = fields.parse("t = {A, B}\nP(t)\nQ(t)\nroot:\n 2 f(x)\nf(x):\n 0 P(x)\n -1 Q(x)\n")
    field_example = field_example_of(field, "P(A) Q(B)")
    _, gradient = pseudo(field_example, field.weights)
    below = [pseudo(field_example, np.array([2, -h, -1]))[0] for h in (0.0, 1e-7)]
    assert gradient[1] == pytest.approx((below[0] - below[1]) / 1e-7, abs=1e-5)


def test_scores(run: Run) -> None:
    text = "t = {A, B}\nP(t)\nQ(t)\nroot:\n 1 f(x)\nf(x):\n 2 P(x)\n -1 Q(x)\n"
    field = parse_field(text)
    run.write("f.rrf", text)
    run.write("f.db", "P(A) Q(B)")
    found = run.json("field", "score", "f.rrf", "f.db")
    domains = {"t": ("A", "B")}
    world = {("P", ("A",)): True, ("P", ("B",)): False, ("Q", ("A",)): False, ("Q", ("B",)): True}
    log_partition, _ = enumerate_worlds(field, domains, {})
    assert found["log_likelihood"] == pytest.approx(
        log_weight(field, domains, world) - log_partition
    )
    assert found["atoms"] == 4
    assert found["mean_pseudo"] == pytest.approx(found["pseudo_log_likelihood"] / 4)
    given_q = run.json("field", "score", "f.rrf", "f.db", "-q", "P")
    q = {atom: value for atom, value in world.items() if atom[0] == "Q"}
    log_partition, marginals = enumerate_worlds(field, domains, q)
    expected = math.log(marginals["P", ("A",)]) + math.log(1 - marginals["P", ("B",)])
    # The two are independent here, so all likelihoods of P given Q agree.
    assert given_q["pseudo_log_likelihood"] == pytest.approx(expected)
    assert given_q["log_likelihood"] == pytest.approx(expected)


def test_predictions_are_measured_as_those_of_networks(run: Run) -> None:
    """The scores of a sharp field and of its network have the same keys and values."""
    model = "Smokes(p)\nFriends(p, p)\n1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)\n-0.4 Smokes(x)\n"
    run.write("m.mln", model)
    run.write("f.db", "Smokes(A) Smokes(B) Friends(A,B) Friends(C,D) Friends(D,A) Friends(B,E)")
    assert run("field", "from", "m.mln", "--sharpness", "40", "-o", "f.rrf")[0] == 0
    expected = run.json("score", "m.mln", "f.db", "-q", "Smokes")
    found = run.json("field", "score", "f.rrf", "f.db", "-q", "Smokes")
    assert set(expected) | {"mean_pseudo", "atoms"} == set(found)
    measures = ("cll", "auc_pr", "auc_pr_trapezoid", "auc_roc", "brier")
    for name in (*measures, "conditional_log_likelihood"):
        assert found[name] == pytest.approx(expected[name], abs=1e-9), name
    [own], [other] = found["predicates"], expected["predicates"]
    assert own == pytest.approx(other, abs=1e-9)
    assert found["exact"] is True
    assert found["log_likelihood"] == found["conditional_log_likelihood"]
    without = run.json("field", "score", "f.rrf", "f.db", "-q", "Smokes", "--no-predictions")
    assert without["cll"] is None
    assert without["pseudo_log_likelihood"] == found["pseudo_log_likelihood"]
    sampled = run.json("field", "score", "f.rrf", "f.db", "-q", "Smokes", "--method", "gibbs")
    assert sampled["exact"] is False
    assert sampled["cll"] == pytest.approx(expected["cll"], abs=0.05)


def test_incomplete_data_has_no_pseudo_likelihood() -> None:
    field, data = fields.parse("P(t)\nroot:\n 1 P(x)\n"), Database.parse("P(A) ?P(B)")
    found = fields.score(field, data)
    assert found.pseudo_log_likelihood is None
    assert found.notes == (
        "no pseudo-log-likelihood: a pseudo-likelihood needs complete data, but some atoms are "
        "hidden",
    )
    assert found.log_likelihood == pytest.approx(-math.log1p(math.exp(-1)))
    with pytest.raises(LapisError, match="needs complete data"):
        fields.learn(field, data)
