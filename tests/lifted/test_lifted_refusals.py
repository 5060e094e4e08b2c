"""Messages for models that cannot be lifted, or only in part, and for invalid sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import lapis
from lapis.lifted.lift import lift_problem

TRANSITIVE = """F(person, person)
1.5 F(x,y) ^ F(y,z) => F(x,z)
-1 F(x,y)
"""
TIED = (
    "'F(x, y) ^ F(y, z) => F(x, z)' ties 3 or more different constants together through F, and "
    "none of them can be summed over by itself"
)


def test_what_cannot_be_lifted_names_the_formula() -> None:
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(lapis.parse(TRANSITIVE), sizes={"person": 50})
    assert str(caught.value).splitlines() == [
        f"<text>:2:1: this model cannot be lifted: {TIED}; grounding the 50 constants of "
        "type 'person' would be too many (at most 12)",
        "    1.5 F(x,y) ^ F(y,z) => F(x,z)",
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "    learn by pseudo-likelihood, infer by sampling (--method auto)",
    ]
    assert caught.value.exit_code == 3


def test_what_is_grounded_says_why() -> None:
    found = lapis.lift(lapis.parse(TRANSITIVE), sizes={"person": 2}, method="circuit")
    assert not found.liftable
    assert found.reasons == (TIED,)
    assert found.tree.startswith("type person grounded: 2 constants\n")
    assert TIED in str(found)


def test_types_that_formulas_do_not_need_stay_lifted() -> None:
    text = TRANSITIVE + "Likes(person, thing)\n0.5 F(x, y) ^ Likes(x, t) => Likes(y, t)\n"
    found = lapis.lift(lapis.parse(text), sizes={"person": 2, "thing": 1000})
    assert "type person grounded" in found.tree
    assert "type thing" not in found.tree


def test_facts_that_distinguish_all_constants() -> None:
    model = lapis.parse("Smokes(p)\nFriends(p, p)\n1 Friends(x, y) ^ Smokes(x) => Smokes(y)")
    facts = " ".join(f"Friends(P{i},P{i * i % 71})" for i in range(71))
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(model, lapis.Database.parse(facts), query=["Smokes"], method="circuit")
    assert caught.value.message == (
        "this cannot be lifted: formulas and facts distinguish 71 constants or groups of constants "
        "of type 'p'"
    )


@pytest.mark.parametrize("rule", ["S(x) ^ x < y", "S(+x) ^ x = y + 1", "EXIST y (S(y) ^ y > x)"])
def test_sizes_of_numbers_that_are_compared(rule: str) -> None:
    """A fourth constant would have no number."""
    model = lapis.parse(f"n = {{1, 2, 3}}\nS(n)\n1 {rule}")
    with pytest.raises(lapis.LapisError) as caught:
        lapis.lift(model, sizes={"n": 4})
    assert str(caught.value).splitlines() == [
        "a size cannot add constants to type 'n', because formulas compare its numbers",
        "    name them in the model, as in n = {1, 2, 3}",
    ]
    assert lapis.lift(model, sizes={"n": 3}).log_partition == lapis.lift(model).log_partition


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"persn": 3}, "unknown type 'persn'"),
        ({"person": 2.5}, "the size of type 'person' must be a whole number, not 2.5"),
        ({"person": -1}, "the size of type 'person' must be a whole number, not -1"),
        ({"person": 1}, "type 'person' has 2 constants, more than the size 1"),
    ],
)
@pytest.mark.parametrize("rule", ["S(x)", "S(+x)", "S(x) ^ x != Anna"])
@pytest.mark.parametrize("method", ["circuit", "cells"])
def test_sizes_that_cannot_be(sizes: dict[str, int], message: str, rule: str, method: str) -> None:
    """For interchangeable constants, and for constants that the rule distinguishes."""
    model = lapis.parse(f"person = {{Anna, Bob}}\nS(person)\n1 {rule}")
    with pytest.raises(lapis.LapisError) as caught:
        lapis.lift(model, sizes=sizes, method=method)
    assert caught.value.message == message


def test_negative_sums_are_refused() -> None:
    """A true atom has weight −3, a false one 1: Z of an odd number of atoms is negative."""
    model = lapis.parse("S(p) -3 1\nT(p)\n1 S(x) v T(x)")
    assert model.predicates["S"].factors == (-3.0, 1.0)
    lapis.lift(model, sizes={"p": 2})
    with pytest.raises(lapis.LapisError, match="sum to a negative number"):
        lapis.lift(model, sizes={"p": 3})


def test_contradictions_leave_no_world() -> None:
    model = lapis.parse("S(person)\n(EXIST x S(x)).\n!S(x).")
    with pytest.raises(lapis.LapisError, match="the hard formulas leave no possible world"):
        lapis.lift(model, sizes={"person": 30})


def test_sums_over_too_many_numbers_name_the_formula() -> None:
    model = lapis.parse("S(t)\nF(t, t)\n1 S(x) ^ F(x, y) => S(y)\n0.5 S(x)")
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(model, sizes={"t": 1_000_000_000})
    assert str(caught.value).splitlines() == [
        "<text>:3:1: this model cannot be lifted: log Z is a sum over 1,000,000,001 or more "
        "combinations of numbers of constants, because of 'S(x) ^ F(x, y) => S(y)'",
        "    1 S(x) ^ F(x, y) => S(y)",
        "    ^^^^^^^^^^^^^^^^^^^^^^^^",
        "    take smaller domains or fewer predicates; or learn by pseudo-likelihood, infer by "
        "sampling (--method auto)",
    ]
    assert caught.value.exit_code == 3


def test_a_circuit_is_not_evaluated_at_sizes_beyond_its_limit() -> None:
    model = lapis.parse("S(t)\nF(t, t)\n1 S(x) ^ F(x, y) => S(y)")
    lifted = lift_problem(lapis.build_problem(model, query=["S", "F"]), {"t": 3})
    with pytest.raises(lapis.TooLarge, match="a sum over 1,000,000,001 combinations"):
        lifted.at(sizes={"t": 1_000_000_000})


@pytest.mark.parametrize("num_classes", [5, 6])
def test_pages_of_many_classes_are_refused_before_their_circuit_is_complete(
    num_classes: int,
) -> None:
    """Classes of linked pages, as WebKB has them: 2^k kinds of pages."""
    names = [f"Class{number}" for number in range(num_classes)]
    rules = [f"0.1 {a}(x) ^ Linked(x, y) => {b}(y)" for a in names for b in names if a != b]
    text = "\n".join([f"{name}(page)" for name in names] + ["Linked(page, page)", *rules])
    with pytest.raises(lapis.TooLarge, match=r"because of 'Class0.* more") as caught:
        lapis.lift(lapis.parse(text), sizes={"page": 200})
    assert caught.value.code == "too-many-combinations"


@pytest.mark.parametrize("size", [3 * 10**6, 10**10, 10**20])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_groundings_beyond_64_bits_are_counted(size: int, arity: int) -> None:
    """size^arity independent atoms, each of weight 1: an integer overflow would show in log Z."""
    types, terms = ", ".join("p" * arity), ", ".join("xyz"[:arity])
    model = lapis.parse(f"T({types})\n1 T({terms})")
    found = lapis.lift(model, sizes={"p": size})
    number = float(size**arity)
    assert found.log_partition == pytest.approx(number * np.log1p(np.e), rel=1e-12)
    assert found.expected_counts == pytest.approx([number * np.e / (1 + np.e)], rel=1e-12)
    assert [row.groundings for row in found.formulas] == [size**arity]


@pytest.mark.parametrize("rule", ["1 S(+x)", "1 S(x) ^ S(+y) ^ x != y"])
def test_types_all_of_whose_constants_differ_are_refused_before_they_are_named(rule: str) -> None:
    with pytest.raises(lapis.TooLarge, match="distinguish 3,000,000,000 constants or groups"):
        lapis.lift(lapis.parse(f"S(p)\n{rule}"), sizes={"p": 3 * 10**9})


def test_log_z_beyond_floating_point_is_refused() -> None:
    model = lapis.parse("T(p, p)\n1 T(x, y)")
    assert np.isfinite(lapis.lift(model, sizes={"p": 10**150}).log_partition)
    with pytest.raises(lapis.TooLarge, match="larger than any floating-point number"):
        lapis.lift(model, sizes={"p": 10**200})


@pytest.mark.parametrize("rule", ["", "1 T(x)", "1 S(x) <=> T(x)"])
def test_weights_that_cancel_are_not_blamed_on_hard_formulas(rule: str) -> None:
    with pytest.raises(lapis.LapisError, match="Z is 0 with these literal weights"):
        lapis.lift(lapis.parse(f"S(p) -1 1\nT(p)\n{rule}"), sizes={"p": 3})


ONTO = "F(p, q!)\n(EXIST x F(x, y)).\n0.5 F(x, y)"  # onto functions: signs alternate


def test_long_compilations_are_refused() -> None:
    with pytest.raises(lapis.TooLarge) as caught:
        lift_problem(
            lapis.build_problem(lapis.parse(ONTO), query=["F"]), {"p": 5, "q": 5}, max_work=20
        )
    lines = str(caught.value).splitlines()
    assert re.fullmatch(
        r"<text>:[0-9]:1: this model cannot be lifted: its circuit is not complete after [0-9]+ "
        "sub-theories with [0-9]+ clauses, the last of .*",
        lines[0],
    )
    assert lines[-1] == "    learn by pseudo-likelihood, infer by sampling (--method auto)"
    assert caught.value.exit_code == 3


def test_cancellation_beyond_floats_in_sums_too_long_for_balls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"p": 40, "q": 40}
    found = lapis.lift(lapis.parse(ONTO), sizes=sizes, method="circuit")
    assert found.arithmetic.startswith("balls")
    monkeypatch.setattr("lapis.lifted.evaluation.evaluate.MAX_BALLS", 10)
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(lapis.parse(ONTO), sizes=sizes, method="circuit")
    assert re.fullmatch(
        "positive and negative terms cancel beyond the digits of floating point, and sums over "
        "[0-9,]+ combinations of numbers are too many for ball arithmetic",
        caught.value.message,
    )


def test_cancellation_beyond_all_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lapis.lifted.evaluation.evaluate.LAST_BITS", 64)
    with pytest.raises(lapis.TooLarge, match="terms cancel beyond 64 bits") as caught:
        lapis.lift(lapis.parse(ONTO), sizes={"p": 40, "q": 40}, method="circuit")
    assert caught.value.exit_code == 3


def test_a_large_weight_against_a_block_is_not_called_a_contradiction() -> None:
    with pytest.raises(lapis.TooLarge) as caught:
        lapis.lift(lapis.parse("t = {A, B}\nD(t!)\n-1e9 D(x)"), method="circuit")
    assert "large weights" in str(caught.value)
    assert "world" not in str(caught.value)


def test_equal_rules_stay_apart_in_several_worlds() -> None:
    """Three people: the expected count of each of two rules S(x) is three times σ(1.2)."""
    model = lapis.parse("S(p)\n0.5 S(x)\n0.7 S(x)")
    worlds = [lapis.Database.parse(text) for text in ("?S(A)", "?S(B) ?S(C)")]
    for method in ("circuit", "cells"):
        found = lapis.lift(model, worlds, method=method)
        each = 3 / (1 + np.exp(-1.2))
        assert found.expected_counts.tolist() == pytest.approx([each, each], rel=1e-12)
        assert [(row.weight, row.groundings) for row in found.formulas] == [(0.5, 3), (0.7, 3)]
        truth = 3 * np.log1p(np.exp(1.2))
        assert abs(found.log_partition - truth) <= found.error_bound + 1e-15


@pytest.mark.parametrize("classes", [False, True])
def test_rows_are_rule_by_rule_where_a_later_world_has_new_constants(classes: bool) -> None:
    """Each P(·) is true with σ(1 + 2) and each Q(·) with σ(3); B is only in the second world."""
    model = lapis.parse("P(t)\nQ(t)\n1 P(+x)\n2 P(x)\n3 Q(+x)")
    worlds = [lapis.Database.parse(text) for text in ("?P(A)", "?P(A) ?P(B)")]
    found = lapis.lift(model, worlds, classes=classes)
    p, q = 1 / (1 + np.exp(-3.0)), 1 / (1 + np.exp(-3.0))
    assert found.expected_counts.tolist() == pytest.approx([2 * p, p, 3 * p, 2 * q, q])
    assert found.expected_counts.tolist() == pytest.approx(
        lapis.infer(model, worlds, ["P", "Q"]).expected_counts.tolist()
    )
    weights = [row.weight for row in found.formulas]
    assert weights == sorted(weights)  # as the rules are written
