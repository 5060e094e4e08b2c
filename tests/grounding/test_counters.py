"""Compare counting quantifiers and cardinality constraints, ground by counters, with all worlds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import lapis
import oracle
from lapis.errors import LapisError, TooLarge
from lapis.grounding import counters, ground

METHODS = ["auto", "exact", "enumerate", "cells", "lifted"]
CANNOT_LIFT = {"cells", "two-variables", "not-liftable", "too-many-combinations", "too-large"}
BODIES = [
    "U(x)",
    "!U(x)",
    "F(A,x)",
    "U(x) v F(x,x)",
    "U(x) ^ !F(x,A)",
    "U(x) ^ x != B",
    "U(A) v U(x)",
]
PAIRS = [
    "F(x,y)",
    "F(y,x) ^ U(x)",
    "F(x,y) v U(x)",
    "x != y ^ F(x,x)",
    "F(x,y) <=> U(x)",
    "U(y) v U(x)",
]


@pytest.fixture(params=[False, True], ids=["default", "all-counters"])
def always(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ground small quantifiers by counters, too."""
    if request.param:
        monkeypatch.setattr(counters, "is_expanded", lambda node, size: node.bound < 1)


def draw_model(rng: np.random.Generator) -> str:
    lines = ["t = {A, B, C}", "U(t)", "F(t, t)"]
    for _ in range(rng.integers(1, 4)):
        operator = rng.choice(["=", "<=", ">=", ""])
        count = "" if not operator else f"{{{operator}{rng.integers(0, 5)}}}"
        if rng.random() < 0.5:
            formula = f"EXIST{count} x ({rng.choice(BODIES)})"
        else:
            formula = f"EXIST{count} x ({rng.choice(PAIRS)})"
            formula = f"({formula}) {rng.choice(['v', '=>', '<=>', '^'])} U(y)"
        is_hard = rng.random() < 0.4
        lines.append(f"{formula}." if is_hard else f"{rng.normal(0, 2):.3f} {formula}")
    if rng.random() < 0.4:
        operator = rng.choice(["=", "<=", ">=", "<", ">", "!="])
        lines.append(f"|{rng.choice(['U', 'F'])}| {operator} {rng.integers(-1, 8)}")
    return "\n".join(lines) + "\n"


def draw_facts(rng: np.random.Generator) -> oracle.Facts:
    atoms = [("U", (c,)) for c in "ABC"] + [("F", (c, d)) for c in "ABC" for d in "ABC"]
    value = rng.choice(3, len(atoms), p=[0.7, 0.15, 0.15])
    true, false = ([a for a, v in zip(atoms, value, strict=True) if v == n] for n in (1, 2))
    return oracle.Facts(tuple(true), tuple(false))


def answer(model: lapis.Model, data: lapis.Database, method: str) -> lapis.Answer | None:
    """Return the answer of a method; None if it cannot lift the model."""
    try:
        return lapis.infer(model, data, query=["U", "F"], method=method)
    except LapisError as error:
        if method in ("cells", "lifted") and error.code in CANNOT_LIFT:
            return None
        raise


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(12))
def test_random_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text, facts = draw_model(rng), draw_facts(rng)
    model = lapis.parse(text)
    data = lapis.Database.parse(oracle.render_database(model.predicates, facts))
    try:
        expected = oracle.infer(model, facts, ["U", "F"])
    except oracle.NoWorld:
        with pytest.raises(LapisError):
            lapis.infer(model, data, query=["U", "F"], method="exact")
        return
    for method in METHODS:
        found = answer(model, data, method)
        if found is None:
            continue
        assert found.exact, (text, method)
        assert found.log_partition == pytest.approx(expected.log_partition), (text, method)
        for atom in expected.unknown:
            assert found[atom] == pytest.approx(expected.marginals[atom], abs=1e-9), (text, method)
    for method in ("auto", "exact", "lazy"):
        best = lapis.map(model, data, query=["U", "F"], method=method)
        assert best.optimal, (text, method)
        assert best.score == pytest.approx(expected.map_score), (text, method)


def test_a_constraint_that_no_world_satisfies() -> None:
    model = lapis.parse("t = {A, B}\nU(t)\n|U| <= -1\n")
    with pytest.raises(LapisError):
        lapis.infer(model, query="U", method="exact")


MANY = "t = {1, ..., 60}\nU(t)\n"


@pytest.mark.parametrize("method", ["exact", "auto"])
@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("EXIST{=4} x U(x).", {4}),
        ("EXIST{>=57} x U(x).", {57, 58, 59, 60}),
        ("EXIST{<=3} x U(x).", {0, 1, 2, 3}),
        ("|U| = 4", {4}),
        ("|U| > 58", {59, 60}),
        ("|U| != 60", set(range(60))),
    ],
)
def test_binomials(rule: str, counts: set[int], method: str) -> None:
    """The first constant is known to be true, so that the constants are not alike."""
    model = lapis.parse(f"{MANY}{rule}\n")
    found = lapis.infer(model, lapis.Database.parse("U(1)"), query="U", method=method)
    number = sum(math.comb(59, n - 1) for n in counts if n)
    assert found.exact
    assert found.log_partition == pytest.approx(math.log(number))
    each = sum(math.comb(58, n - 2) for n in counts if n > 1) / number
    assert found["U(7)"] == pytest.approx(each)


def test_clauses_grow_with_constants_times_count() -> None:
    sizes = []
    for number in (50, 100):
        model = lapis.parse(f"t = {{1, ..., {number}}}\nU(t)\n1 EXIST{{>=5}} x U(x)\n")
        sizes.append(ground(lapis.build_problem(model, query=["U"])).num_clauses)
    assert sizes[1] < 2.1 * sizes[0] < 2.1 * 6 * 5 * 50


def test_estimate_before_a_counter_is_built() -> None:
    text = "t = {1, ..., 3000}\nU(t)\n1 EXIST{>=60} x U(x)\n"
    with pytest.raises(TooLarge, match="a count of 3,000 atoms"):
        ground(lapis.build_problem(lapis.parse(text), query=["U"]), max_memory=20_000_000)


def test_sums_over_several_predicates_are_left_to_cells() -> None:
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\n|P| - |Q| = 1\n")
    found = lapis.infer(model, query=["P", "Q"])
    assert found.exact
    assert found.log_partition == pytest.approx(math.log(4))  # (1, 0) in 2 ways, (2, 1) in 2
    with pytest.raises(LapisError, match="one predicate"):
        lapis.infer(model, query=["P", "Q"], method="exact")
