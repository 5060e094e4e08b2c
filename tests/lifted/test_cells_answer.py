"""Results and refusals of `lapis lift --method cells`."""

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
    """Σ_k C(n,k) (e^−1 (1 + e^−0.5) …)^k …, over the number of smokers."""
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
    _, text, _ = run("lift", "g.mln", "--method", "cells", "--sizes", "v_=6")
    assert "Z = 70," in text  # a hexagon in 5!/2 ways, two triangles in 10
    _, text, _ = run("lift", "g.mln", "--method", "cells", "--sizes", "v_=6", "--json")
    document = json.loads(text)
    assert document["count"] == "70"
    assert document["log_partition"] == pytest.approx(math.log(70))


BINARY = "S(t)\nF(t, t)\n"
EVERYBODY_HAS_ONE = "F(t, t)\n(EXIST y F(x,y)).\n"  # (2ⁿ − 1)ⁿ worlds


@pytest.mark.parametrize(
    "text",
    [
        BINARY + "1 S(x) ^ F(x,y) => S(y)",  # compositions in balls
        BINARY + "log(3) S(x) ^ F(x,y) => S(y)",  # and in rationals
        EVERYBODY_HAS_ONE,
        "S(t)\nEXIST x S(x).",
        "F(t, t)\nEXIST{=1} y F(x,y).",  # elimination
        "S(t)\n|S| = 2",
        "p(X) & LEQ(X,Y) -> p(Y).\nt = 3\n",  # insertion
        "0.7 p(X) & SUC(X,Y) & LEQ(X,Y) -> p(Y)\nt = 3\n",  # two orders
    ],
)
@pytest.mark.parametrize("size", [3 * 10**9, 10**30])
def test_domains_beyond_all_sums_are_refused_with_a_price(text: str, size: int) -> None:
    with pytest.raises(TooLarge, match=r"[0-9],000,000.* and at most [0-9,]+ are") as caught:
        lapis.lift(lapis.parse(text), method="cells", sizes={"t": size})
    assert caught.value.exit_code == 3


def test_long_sums_are_refused() -> None:
    for text in ("F(t, t)\nEXIST{=2} y F(x,y).", "p(X) & LEQ(X,Y) -> p(Y).\nt = 3\n"):
        model = lapis.parse(text)
        problem = lapis.build_problem(model, query=list(model.predicates))
        with pytest.raises(TooLarge, match="needs more than 1,000 steps"):
            CellSum.of(problem, {"t": 100}, max_steps=1000).evaluate()


def test_thousands_of_elements_are_eliminated() -> None:
    """Two with S: Z = C(n, 2) (2e)^(2n) (1 + e)^(n (n − 2))."""
    model = lapis.parse(BINARY + "1 F(x,y) => S(x)\n|S| = 2")
    n = 1500
    found = lapis.lift(model, method="cells", sizes={"t": n})
    expected = math.log(n * (n - 1) / 2) + 2 * n * (1 + math.log(2))
    expected += n * (n - 2) * math.log(1 + math.e)
    assert found.log_partition == pytest.approx(expected, rel=1e-13)


def test_bounds_beyond_what_there_is() -> None:
    found = lapis.lift(lapis.parse("S(t)\n|S| <= 3000000000"), method="cells", sizes={"t": 5})
    assert found.count == 32


def test_all_digits_are_written(run: Run) -> None:
    """Python refuses to write integers of more than 4,300 digits."""
    run.write("g.mln", EVERYBODY_HAS_ONE)
    n = 130
    digits = run.json("lift", "g.mln", "--method", "cells", "--sizes", f"t={n}")["count"]
    assert len(digits) > 4300
    number = 0
    for start in range(0, len(digits), 1000):
        part = digits[start : start + 1000]
        number = number * 10 ** len(part) + int(part)
    assert number == (2**n - 1) ** n


def test_more_digits_than_fit_are_left_to_balls() -> None:
    n = 20_000
    found = lapis.lift(lapis.parse(EVERYBODY_HAS_ONE), method="cells", sizes={"t": n})
    assert found.count is None
    assert abs(found.log_partition - n * n * math.log(2)) <= found.error_bound + 1e-7


def test_no_world_expects_nothing(run: Run) -> None:
    run.write("n.mln", "t = {A, B, C}\nF(t, t)\n!F(x,x).\nF(x,y) => F(y,x).\nEXIST{=1} y F(x,y).\n"
              "0.7 F(x,y)\n")  # fmt: skip
    found = run.json("lift", "n.mln", "--method", "cells")
    assert (found["log_partition"], found["expected_counts"], found["count"]) == (None, [None], "0")


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
    with pytest.raises(TooLarge, match="20 atoms about an element of type 't' are unknown"):
        lapis.lift(lapis.parse("t = {A}\n" + text), method="cells")
