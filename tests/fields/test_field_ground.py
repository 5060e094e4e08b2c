"""Tables, strided sums and back-propagation, against worlds from the definition."""

from __future__ import annotations

import numpy as np
import pytest
from field_worlds import DOMAINS, enumerate_worlds, field_texts, ground_atoms, log_weight
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.data.database import Database
from lapis.errors import TooLarge
from lapis.fields.field import Field
from lapis.fields.field_text import parse_field
from lapis.fields.ground_field import (
    GroundField,
    enumerate_field,
    evaluate_worlds,
    gradient_of_root,
    ground_field,
)
from lapis.problem.problem import build_problem

OPENED = ("Rain", "P", "Q", "R")
STEP = 1e-6


def ground(field: Field, facts: str, *opened: str) -> GroundField:
    data = Database.parse(facts)
    return ground_field(field, build_problem(field.declarations, data, opened))


@given(field_texts(), st.data())
@settings(max_examples=10)
def test_partition_and_marginals(text: str, data: st.DataObject) -> None:
    field = parse_field(text)
    # Q is evidence: the rest is small enough for Python.
    true = data.draw(st.sets(st.sampled_from([("Anna", "Anna"), ("Anna", "Bob"), ("Bob", "Anna")])))
    facts = " ".join(f"Q({a},{b})" for a, b in true)
    known = {a: a[1] in true for a in ground_atoms(field, DOMAINS) if a[0] == "Q"}
    ground_one = ground(field, facts, "Rain", "P", "R")
    found = enumerate_field(ground_one, field.weights, with_gradient=True)
    log_partition, marginals = enumerate_worlds(field, DOMAINS, known)
    assert found.log_partition == pytest.approx(log_partition, abs=1e-9)
    names = [(a, tuple(map(str, c))) for a, c in marginals]
    assert found.marginal == pytest.approx([marginals[n] for n in names], abs=1e-9)
    numeric = [
        (enumerate_worlds(shifted(field, i, STEP), DOMAINS, known)[0]
         - enumerate_worlds(shifted(field, i, -STEP), DOMAINS, known)[0]) / (2 * STEP)
        for i in range(len(field.weights))
    ]  # fmt: skip
    assert found.gradient == pytest.approx(numeric, abs=1e-6, rel=1e-6)


def shifted(field: Field, index: int, step: float) -> Field:
    weights = field.weights
    weights[index] += step
    return field.with_weights(weights)


@given(field_texts(), st.integers(0, 2**9 - 1))
def test_a_world_and_its_gradient(text: str, bits: int) -> None:
    field = parse_field(text)
    ground_all = ground(field, "", *OPENED)
    atoms = ground_atoms(field, DOMAINS)
    world = {atom: bool(bits >> i & 1) for i, atom in enumerate(atoms)}
    table = np.array([[world[atom] for atom in atoms]])
    values = evaluate_worlds(ground_all, field.weights, table)
    assert values.log_weight(ground_all)[0] == pytest.approx(log_weight(field, DOMAINS, world))
    assert values.value.min() >= 0
    assert values.value.max() <= 1
    gradient = gradient_of_root(ground_all, field.weights, values)[0]
    numeric = [
        (log_weight(shifted(field, i, STEP), DOMAINS, world)
         - log_weight(shifted(field, i, -STEP), DOMAINS, world)) / (2 * STEP)
        for i in range(len(field.weights))
    ]  # fmt: skip
    assert gradient == pytest.approx(numeric, abs=1e-6, rel=1e-6)


def test_thousands_of_children_are_safe() -> None:
    """Values are in [0, 1] for all domain sizes, and 1 if all atoms are true."""
    field = parse_field("P(t)\nroot:\n 2 all\n 1 none\nall:\n 30 P(x)\nnone:\n -30 P(x)\n")
    text = " ".join(f"P({i})" for i in range(5000))
    closed = ground(field, text)
    values = evaluate_worlds(closed, field.weights, np.zeros((1, 0), bool))
    assert values.log_weight(closed)[0] == pytest.approx(2.0)
    assert np.isfinite(gradient_of_root(closed, field.weights, values)).all()


def test_an_order_compares_numbers() -> None:
    field = parse_field("t = {1, 2, 10}\nP(t)\nroot:\n 1 below(x, y)\nbelow(x, y):\n"
                        " 50 x < y\n 50 P(x)\n 50 P(y)\n")  # fmt: skip
    closed = ground(field, "P(1) P(2) P(10)")
    values = evaluate_worlds(closed, field.weights, np.zeros((1, 0), bool))
    assert values.log_weight(closed)[0] == pytest.approx(3.0)


def test_empty_types_have_nothing_to_sum() -> None:
    field = parse_field("P(t)\nQ(s)\nroot:\n 1 f(x)\n 1 g\nf(x):\n 2 P(x)\ng:\n -1 Q(y)\n 3 P(x)\n")
    closed = ground(field, "Q(A)")
    values = evaluate_worlds(closed, field.weights, np.zeros((1, 0), bool))
    assert values.log_weight(closed)[0] == pytest.approx(np.exp(-1))
    assert np.isfinite(gradient_of_root(closed, field.weights, values)).all()


def test_what_is_too_large_is_refused_with_an_estimate() -> None:
    field = parse_field("P(t)\nroot:\n 1 f(x, y, z)\nf(x, y, z):\n 1 P(x)\n 1 P(y)\n 1 P(z)\n")
    data = Database.parse(" ".join(f"P({i})" for i in range(100)))
    problem = build_problem(field.declarations, data)
    with pytest.raises(TooLarge, match="1,000,000 of them of 'f'"):
        ground_field(field, problem, max_memory=1_000_000)
    with pytest.raises(TooLarge, match="2\\^25 worlds"):
        enumerate_field(ground(parse_field(
            "t = {1, ..., 25}\nP(t)\nroot:\n 1 P(x)\n"), "", "P"), np.ones(1))  # fmt: skip
