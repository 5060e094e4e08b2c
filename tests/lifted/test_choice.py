"""The choice between circuits, cells and ground networks, and refusals if all refuse."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from two_variable_models import Theory, theories

import lapis
import oracle
from cli_run import Run
from lapis.inference.marginals import InferenceOptions
from lapis.lifted.cells.count import infer_by_cells
from lapis.lifted.ground_solver import solve_ground
from lapis.problem.problem import Problem
from oracle import Facts, NoWorld

TWENTY = "p = {" + ", ".join(f"P{i}" for i in range(20)) + "}\n"
TEN_OF_TWENTY = TWENTY + "U(p)\nEXIST{=10} x U(x).\n"
THREE_ROWS = TWENTY + "B(p, p)\nEXIST{=3} x FORALL y B(x,y).\n"
TRANSITIVE = "F(person, person)\n1.5 F(x,y) ^ F(y,z) => F(x,z)\n-1 F(x,y)\n"
TIED = (
    "'F(x, y) ^ F(y, z) => F(x, z)' ties 3 or more different constants together through F, and "
    "none of them can be summed over by itself"
)
NESTED = """n = {1, 2}
P(n)
n FQ(n)
0.7 x = FQ(1) => P(y) => ((FQ(x) = FQ(y)) <=> x != FQ(FQ(FQ(z))))
(FORALL w !(FQ(w) = FQ(1))) v (FQ(FQ(FQ(y))) = y v (FQ(w) = FQ(FQ(x)))).
"""


@pytest.mark.parametrize(
    ("text", "sizes", "method", "log_partition"),
    [
        ("S(p)\n1 S(x)", {"p": 1000}, "circuit", 1000 * log(1 + exp(1))),
        (TEN_OF_TWENTY, {}, "cells", log(comb(20, 10))),
        (THREE_ROWS, {}, "cells", log(comb(20, 3)) + 17 * log(2**20 - 1)),
        ("F(p, p)\n|F| = 3", {"p": 30}, "cells", log(comb(900, 3))),
        ("t = {A, B}\nD(t!)\n-1e9 D(x)", {}, "ground", -1e9 + log(2)),
    ],
)
def test_the_way_is_chosen_by_the_formulas(
    text: str, sizes: dict[str, int], method: str, log_partition: float
) -> None:
    found = lapis.lift(lapis.parse(text), sizes=sizes)
    assert found.method == method
    assert found.log_partition == pytest.approx(log_partition, rel=1e-13)


@pytest.mark.parametrize("method", ["auto", "lifted"])
def test_formulas_that_count_are_inferred_by_cells(method: str) -> None:
    """The row of another element is any but the full one."""
    answer = lapis.infer(lapis.parse(TEN_OF_TWENTY), query=["U"], method=method)
    assert (answer.method, answer.exact) == ("cells", True)
    assert answer.to_pandas().probability.tolist() == pytest.approx([0.5] * 20, rel=1e-12)
    answer = lapis.infer(lapis.parse(THREE_ROWS), query=["B"], method=method)
    share = (3 + 17 * (2**19 - 1) / (2**20 - 1)) / 20
    assert answer.method == "cells"
    assert answer["B(P3,P3)"] == pytest.approx(share, rel=1e-12)
    assert answer["B(P3,P4)"] == pytest.approx(share, rel=1e-12)


def spelled(problem: Problem, predicate: str, row: list[int]) -> tuple[str, ...]:
    types = problem.model.predicates[predicate].types
    return tuple(problem.domains[t].constants[code] for t, code in zip(types, row, strict=True))


def hold_marginals_to_all_worlds(theory: Theory) -> None:
    model = lapis.parse(theory.text)
    data = lapis.Database.parse(oracle.render_database(model.predicates, theory.facts))
    problem = lapis.build_problem(model, data, query=theory.query)
    try:
        expected = oracle.infer(model, theory.facts, theory.query)
    except NoWorld:
        assume(False)
    try:
        atoms, found = infer_by_cells(problem, InferenceOptions())
    except lapis.LapisError as error:
        if "together" not in error.message:  # more than two elements, constants included
            raise
        assume(False)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    names = [
        oracle.atom_text(model.predicates[predicate], spelled(problem, predicate, row))
        for predicate, rows in zip(atoms.atoms.predicates, atoms.atoms.tuples, strict=True)
        for row in rows.tolist()
    ]
    assert found.log_odds.tolist() == pytest.approx(
        [expected.log_odds[name] for name in names], abs=1e-9
    )


@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(theories())
def test_marginals_by_cells_are_those_of_all_worlds(theory: Theory) -> None:
    hold_marginals_to_all_worlds(theory)


def test_marginals_by_cells_near_zero_and_one() -> None:
    """P(S) is σ(w) with |w| so large that 1 − p underflows; T is never true."""
    model = lapis.parse("p = {A, B}\nS(p)\nR(p)\nT(p)\n90 S(x)\n-90 R(x)\n!T(x).")
    problem = lapis.build_problem(model, query=["S", "R", "T"])
    _, found = infer_by_cells(problem, InferenceOptions())
    assert found.log_odds.tolist() == pytest.approx([90, 90, -90, -90, -np.inf, -np.inf])


def test_functions_within_functions_are_summed_over_the_ground_network() -> None:
    model = lapis.parse(NESTED)
    expected = oracle.infer(model, Facts(), ["P", "FQ"])
    for found in (
        lapis.lift(model),
        lapis.lift(model, method="ground"),
        lapis.infer(model, query=["P", "FQ"], method="lifted"),
    ):
        assert found.method == "ground"
        assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-13)
        counts = list(expected.expected_counts.values())
        assert found.expected_counts.tolist() == pytest.approx(counts, rel=1e-12)


def test_the_ground_network_says_why_there_is_no_circuit() -> None:
    model = lapis.parse(TRANSITIVE)
    found = lapis.lift(model, sizes={"person": 5})
    assert (found.method, found.liftable, found.reasons) == ("ground", False, (TIED,))
    named = lapis.parse("person = {A, B, C, D, E}\n" + TRANSITIVE)
    exact = lapis.infer(named, query=["F"], method="exact")
    assert found.log_partition == pytest.approx(exact.log_partition, rel=1e-13)
    assert found.expected_counts.tolist() == pytest.approx(exact.expected_counts.tolist())
    with pytest.raises(lapis.LapisError, match="the method 'ground' has no circuit"):
        _ = found.tree


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e7])
def test_rounding_of_ground_networks_is_bounded(scale: float) -> None:
    """Ten independent atoms: log Z = Σ log(1 + exp w)."""
    weights = [scale * (0.1 + i * 0.7) for i in range(10)]
    rules = "".join(f"{w!r} S(P{i})\n" for i, w in enumerate(weights))
    model = lapis.parse(f"{TWENTY}S(p)\n{rules}")
    _, found, bound = solve_ground(lapis.build_problem(model, query=["S"]), InferenceOptions())
    exact = sum(w + np.log1p(np.exp(-np.longdouble(w))) for w in map(np.longdouble, weights))
    exact += 10 * np.log(np.longdouble(2))
    assert found.log_partition is not None
    assert abs(found.log_partition - exact) <= bound + np.spacing(float(exact))
    assert bound < 1e-12 * float(exact)


FORTY = "p = {" + ", ".join(f"P{i}" for i in range(40)) + "}\n"
LONG = "F(p, p)\n1 " + " ^ ".join(f"F({a},{b})" for a, b in zip("abcdef", "bcdefg", strict=True))
# Seven variables are equal or different in 47,293 ways, orders included (a Fubini number); the six
# disjoint clauses of a conjunction have 2 + … + 7 literals, a constant one included.
LITERALS = 47_293 * 27
COUNTED = "F(p, p)\nEXIST{=3} y F(x,y).\nEXIST{=3} x F(x,y).\n0.3 F(x,y) ^ F(y,x)"


@pytest.mark.parametrize(
    ("text", "sizes", "lines"),
    [
        (
            LONG,
            {"p": 40},
            [
                "<text>:2:1: this model cannot be lifted: 'F(a, b) ^ F(b, c) ^ F(c, d) ^ F(d, e) ^ "
                f"F(e, f) ^ F(f, g)' is {LITERALS:,} literals when its 7 variables are equal or "
                "different in all ways, and at most 25,000 are compiled",
                "    1 F(a,b) ^ F(b,c) ^ F(c,d) ^ F(d,e) ^ F(e,f) ^ F(f,g)",
                "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
                "    learn by pseudo-likelihood, infer by sampling (--method auto)",
            ],
        ),
        (
            COUNTED,
            {"p": 40},
            [
                "<text>:2:1: the sum over cells needs more than 100,000 steps; 'EXIST{=3} y F(x, "
                "y)' counts elements",
                "    EXIST{=3} y F(x,y).",
                "    ^^^^^^^^^^^^^^^^^^^",
                "    lapis lift --method cells allows 100,000,000 steps",
            ],
        ),
        (
            "F(p, p)\n|F| = 3\n1 F(x,y) ^ F(y,z)",
            {"p": 9},
            [
                "<text>:3:1: 'F(x, y) ^ F(y, z)' ties 3 elements together (x, y, z)",
                "    1 F(x,y) ^ F(y,z)",
                "    ^^^^^^^^^^^^^^^^^",
                "    counting by cells takes formulas that tie at most two elements together",
            ],
        ),
        (
            "F(p, p)\n1 F(+x,y) ^ F(y,z)",
            {"p": 80},
            [
                "<text>:2:1: this cannot be lifted: formulas and facts distinguish 80 constants or "
                "groups of constants of type 'p'; 'F(+x, y) ^ F(y, z)' has a weight for each",
                "    1 F(+x,y) ^ F(y,z)",
                "    ^^^^^^^^^^^^^^^^^^",
                "    lifting allows 60 of all types; use another method",
            ],
        ),
    ],
)
def test_refusals_name_the_formula(text: str, sizes: dict[str, int], lines: list[str]) -> None:
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(lapis.parse(text), sizes=sizes)
    assert str(caught.value).splitlines() == lines


def test_ground_networks_have_limits() -> None:
    model = lapis.parse("F(p, p)\n1 F(x,y)")
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(model, sizes={"p": 40}, method="ground")
    assert str(caught.value).splitlines() == [
        "the ground network has 1,600 unknown atoms, and at most 1,000 are allowed in place of a "
        "circuit",
        "    lapis infer --method exact has no such limit",
    ]


def test_the_command_line_exits_with_3(run: Run) -> None:
    run.write("long.mln", FORTY + LONG)
    for command in (["lift"], ["infer", "-q", "F", "--method", "lifted"]):
        code, _, error = run(*command, "long.mln")
        assert code == 3
        assert "long.mln:3:1: this model cannot be lifted" in error
