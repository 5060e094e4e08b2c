"""`lapis lift --method cells`: what it gives and what it refuses."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

import lapis
from cli_run import Run
from lapis.errors import LapisError, TooLarge
from lapis.lifted.cells.count import CellSum

SMOKERS = """
Smokes(person)
Friends(person, person)
Cancer(person)
1.0 Smokes(x) ^ Friends(x,y) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
-1 Smokes(x)
-0.5 Cancer(x)
-0.3 Friends(x,y)
"""


def smokers_log_partition(n: int) -> float:
    """Σ_k C(n,k) (e^−1 (1 + e^−0.5) …)^k …, by who smokes: pairs (smoker, non-smoker) differ."""
    e = math.exp
    smoker = e(-1) * (e(1.5 - 0.5) + 1)
    other = e(1.5) * (e(-0.5) + 1)
    whole, broken = e(1) * (e(-0.3) + 1), e(-0.3) + e(1)
    logs = []
    for k in range(n + 1):
        log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        log += k * math.log(smoker) + (n - k) * math.log(other)
        log += k * (n - k) * math.log(broken) + (n * n - k * (n - k)) * math.log(whole)
        logs.append(log)
    top = max(logs)
    return top + math.log(sum(e(log - top) for log in logs))


@pytest.mark.parametrize("n", [1, 2, 10, 300])
def test_smokers(n: int) -> None:
    found = lapis.lift(lapis.parse(SMOKERS), method="cells", sizes={"person": n})
    assert found.log_partition == pytest.approx(smokers_log_partition(n), rel=1e-12)
    assert found.error_bound < 1e-9
    circuit = lapis.lift(lapis.parse(SMOKERS), sizes={"person": n})
    assert found.expected_counts == pytest.approx(circuit.expected_counts, rel=1e-9)


def test_command(run: Run) -> None:
    run.write("g.mln", "E(v_, v_)\n!E(x,x).\nE(x,y) => E(y,x).\nEXIST{=2} y E(x,y).\n")
    _, text, _ = run("lift", "g.mln", "--method", "cells", "--size", "v_=6")
    assert "Z = 70," in text  # a hexagon in 5!/2 ways, two triangles in 10
    _, text, _ = run("lift", "g.mln", "--method", "cells", "--size", "v_=6", "--json")
    document = json.loads(text)
    assert document["count"] == "70"
    assert document["log_partition"] == pytest.approx(math.log(70))


def test_no_world() -> None:
    model = lapis.parse(
        "P(t)\nt = {A, B, C}\nF(t, t)\n!F(x,x).\nF(x,y) => F(y,x).\nEXIST{=1} y F(x,y)."
    )
    found = lapis.lift(model, method="cells")
    assert (found.count, found.log_partition) == (0, -math.inf)


def test_rational_weights_give_rational_sums() -> None:
    model = lapis.parse("t = {A, B}\nP(t) 2.5 1\nQ(t) 1 -1\nP(x) => Q(x).")
    cells = CellSum.of(lapis.build_problem(model, query=["P", "Q"]))
    assert cells.evaluate().count == Fraction(5, 2) ** 2  # (2.5 + 1 − 1)²


def test_negative_sums_have_no_logarithm() -> None:
    model = lapis.parse("t = {A}\nQ(t) 1 -2\nQ(x) v !Q(x).")
    with pytest.raises(LapisError, match="negative"):
        lapis.lift(model, method="cells")


REFUSED = {
    "m.mln:3:1: 'F(x, y) ^ F(y, z) => F(x, z)' ties 3 elements together (x, y, z)": (
        "t = {A}\nF(t, t)\nF(x,y) ^ F(y,z) => F(x,z).\n"
    ),
    "'G' has 3 arguments": "t = {A}\nG(t, t, t)\n1 G(x,y,z)\n",
    "m.mln:3:1: 'P(x) ^ x < 2' compares numbers": "t = {1, 2}\nP(t)\n1 P(x) ^ x < 2\n",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    model = lapis.language.parse_model(REFUSED[message], "m.mln")
    with pytest.raises(LapisError) as caught:
        lapis.lift(model, method="cells")
    assert str(caught.value).startswith(message)
    assert "counting by cells takes formulas that tie at most two elements" in str(caught.value)


def test_too_many_cells() -> None:
    names = [f"P{i}" for i in range(20)]
    text = "".join(f"{name}(t)\n" for name in names) + "".join(f"1 {name}(x)\n" for name in names)
    with pytest.raises(TooLarge, match="20 atoms are open for elements of type 't'"):
        lapis.lift(lapis.parse("t = {A}\n" + text), method="cells")
