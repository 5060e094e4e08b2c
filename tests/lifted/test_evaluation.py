"""Circuits in doubles, long doubles and balls: values, Hessian products, sums in ranges."""

from __future__ import annotations

from math import comb, factorial

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from theories import DrawnTheory, theories

import lapis
from lapis.lifted.compilation.lifted_circuit import FactorNode
from lapis.lifted.compilation.theory import Size
from lapis.lifted.evaluation.evaluate import EXTENDED_BITS, FLOATS, balls_of_bits, run_floats
from lapis.lifted.evaluation.floats import Floats, FloatValue, log_factorial
from lapis.lifted.evaluation.sweep import (
    WHOLE,
    FrameNumber,
    Weights,
    add_within,
    count_index_states,
    spread_to_frame,
)
from lapis.lifted.lift import LiftedProblem, lift_problem, lift_problems

TWO_COUNTS = """
Smokes(person)
Drinks(person)
Friends(person, person)
0.3 Friends(x, y) ^ Smokes(x) => Smokes(y)
0.2 Friends(x, y) ^ Drinks(x) => Drinks(y)
-0.4 Smokes(x) ^ Drinks(x)
0.1 Friends(x, y)
"""
ONTO = "F(p, q!)\n(EXIST x F(x, y)).\n0.5 F(x, y)\nP(p)\n1 F(x, y) => P(x)"


def lift(text: str, **sizes: int) -> LiftedProblem:
    model = lapis.parse(text)
    return lift_problem(lapis.build_problem(model, query=list(model.predicates)), sizes)


def test_frames_list_compositions() -> None:
    """Three nested sums over n elements have as many combinations as n has compositions."""
    n = 5
    frame = WHOLE.branch(np.array([n + 1]))
    first = np.arange(n + 1)
    second = frame.branch(first + 1)
    rest = n - spread_to_frame(first, frame, second)
    third = second.branch(rest + 1)
    ends = [*third.start[1:].tolist(), third.size]
    place = np.arange(third.size) - spread_to_frame(third.start, second, third)
    inner = np.arange(second.size) - spread_to_frame(second.start, frame, second)
    found = {
        (int(m), int(i), int(j))
        for m, i, j in zip(
            spread_to_frame(first, frame, third),
            spread_to_frame(inner, second, third),
            place,
            strict=True,
        )
    }
    assert found == {
        (m, i, j) for m in range(n + 1) for i in range(m + 1) for j in range(n - m + 1)
    }
    assert third.size == ends[-1] == comb(n + 3, 3)


def test_sums_within_a_frame_transpose_spreading() -> None:
    rng = np.random.default_rng(0)
    outer = WHOLE.branch(np.array([4]))
    inner = outer.branch(np.array([3, 1, 5, 2])).branch(rng.integers(1, 4, 11))
    one, other = rng.random(outer.size), rng.random(inner.size)
    summed = add_within(other, inner, outer, outer.size)
    assert one @ summed == pytest.approx(spread_to_frame(one, outer, inner) @ other)
    assert add_within(other, inner, WHOLE, 1) == pytest.approx(other.sum())


def test_states_are_counted_as_they_are_listed() -> None:
    """Four kinds of people: compositions of n into four parts."""
    lifted = lift(TWO_COUNTS, person=9)
    assert count_index_states(lifted.root, lifted.sizes_at(None)) == comb(9 + 3, 3)


def smokers_and_drinkers(n: int, smoking: float, drinking: float, both: float) -> float:
    """Return log Z of TWO_COUNTS, by the four kinds of people and the weight of each friendship."""
    kinds = [(smokes, drinks) for smokes in (0, 1) for drinks in (0, 1)]
    with ctx.workprec(200):

        def friends(one: tuple[int, int], other: tuple[int, int]) -> arb:
            broken = [one[i] and not other[i] for i in (0, 1)]
            kept = smoking * (not broken[0]) + drinking * (not broken[1])
            return arb(smoking + drinking).exp() + arb(kept + 0.1).exp()

        pair = [[friends(one, other) for other in kinds] for one in kinds]
        total = arb(0)
        for a in range(n + 1):
            for b in range(n + 1 - a):
                for c in range(n + 1 - a - b):
                    number = (a, b, c, n - a - b - c)
                    term = arb(factorial(n)) * (arb(both) * number[3]).exp()
                    for i, m in enumerate(number):
                        term = term / factorial(m)
                        for j, k in enumerate(number):
                            term = term * pair[i][j] ** (m * k)
                    total += term
        return float(total.log().mid())


@pytest.mark.parametrize("n", [1, 4, 15])
def test_four_kinds_of_people_by_hand(n: int) -> None:
    found = lift(TWO_COUNTS, person=n).at()
    assert abs(found.log_partition - smokers_and_drinkers(n, 0.3, 0.2, -0.4)) <= found.error_bound


def test_errors_of_differences_grow_and_of_zeros_vanish() -> None:
    """Check (1 + e) − 1 for decreasing e, and a difference that is 0."""
    weights = Weights(np.array([1e-6, 1e-12, 0.0]), {})
    walk = Floats(weights, FLOATS[53])

    def factor(weight: int) -> FloatValue:
        return walk.factor(FactorNode(exponent=((weight, Size()),)), {})

    one = walk.factor(FactorNode(), {})
    rough, rougher, nothing = (walk.sum([factor(w), one], [1, -1]) for w in (0, 1, 2))
    for found, exact in ((rough, np.expm1(1e-6)), (rougher, np.expm1(1e-12))):
        assert abs(np.exp(found.log[0]) - exact) <= found.error[0] * exact
    assert rough.error[0] < 1e-8 < rougher.error[0] < 1e-2
    assert nothing.sign[0] == 0
    assert 0 < nothing.error[0] < 1e-13
    assert nothing.bound == np.inf
    squared = walk.power(nothing, FrameNumber(WHOLE, np.array([2.0])))
    assert squared.error[0] <= 1e-26
    never = walk.indicator(FrameNumber(WHOLE, np.array([False])))
    assert walk.product([never, rough]).bound == 0.0


def test_log_factorials() -> None:
    numbers = np.arange(2000)
    found = log_factorial(numbers.astype(np.longdouble))
    high, low = found.astype(float), (found - found.astype(float)).astype(float)
    unit = float(np.finfo(np.longdouble).eps)
    with ctx.workprec(128):
        exact = [arb(n + 1).lgamma() for n in numbers.tolist()]
        for n in numbers.tolist():
            wrong = arb(float(high[n])) + arb(float(low[n])) - exact[n]
            assert float(abs(wrong)) <= 8 * unit * (float(high[n]) + 1)
    doubles = log_factorial(numbers.astype(float))
    assert doubles == pytest.approx([float(ball) for ball in exact], rel=1e-15)


@pytest.mark.parametrize("max_states", [5, 30, 200])
def test_sums_in_ranges_equal_the_whole_sum(max_states: int) -> None:
    """The ranges of the index may be short."""
    lifted = lift(TWO_COUNTS, person=5)
    weights, sizes = lifted.weights_at(None), lifted.sizes_at(None)
    whole, slopes = run_floats(lifted.root, weights, sizes, FLOATS[53])
    walk = Floats(weights, FLOATS[53], max_states)
    found = walk.at(lifted.root, sizes)
    found.slope = np.ones(1)
    walk.sweep_back()
    assert float(found.log[0]) == pytest.approx(float(whole.log[0]), rel=1e-14)
    assert walk.slopes == pytest.approx(slopes, rel=1e-11)


@pytest.mark.parametrize("text", [TWO_COUNTS, ONTO])
def test_all_numbers_agree(text: str) -> None:
    lifted = lift(text, **({"person": 9} if text is TWO_COUNTS else {"p": 6, "q": 4}))
    weights, sizes = lifted.weights_at(None), lifted.sizes_at(None)
    ball, ball_slopes = balls_of_bits(lifted.root, weights, sizes, 256)
    exact = float(ball.log().mid())
    for bits in FLOATS:
        found, slopes = run_floats(lifted.root, weights, sizes, FLOATS[bits])
        assert abs(float(found.log[0]) - exact) <= found.bound + 1e-15 * abs(exact)
        assert slopes.astype(float) == pytest.approx(
            [float(s.mid()) for s in ball_slopes], rel=1e-9
        )
        assert found.bound < 1e-10


def check_curvature(lifted: LiftedProblem, weights: np.ndarray, direction: np.ndarray) -> None:
    """Compare Hessian products with differences of gradients of sixth order."""
    step = 0.02
    gradients = {
        k: lifted.at(weights + k * step * direction).expected_count for k in (-3, -2, -1, 1, 2, 3)
    }
    parts = [(1, 45), (2, -9), (3, 1)]
    slope = sum(c * (gradients[k] - gradients[-k]) for k, c in parts) / (60 * step)
    found = lifted.hessian_product(direction, weights)
    assert found == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert direction @ found >= -1e-9  # a variance


@given(theories())
@settings(max_examples=25)
def test_curvature(theory: DrawnTheory) -> None:
    problem = lapis.build_problem(lapis.parse(theory.text()), query=theory.predicates)
    lifted = lift_problem(problem, theory.sizes[0])
    weights, direction = map(np.array, theory.weights)
    try:
        lifted.at(weights)
    except lapis.LapisError:
        return
    check_curvature(lifted, weights, direction)


def test_curvature_where_floats_cancel() -> None:
    """Onto functions from 24 to 20: the count of F is constant, that of F(x, y) => P(x) is not."""
    lifted = lift(ONTO, p=24, q=20)
    weights = np.array([0.5, 1.0])
    assert lifted.at(weights).bits > EXTENDED_BITS
    check_curvature(lifted, weights, np.array([0.3, -1.0]))


def test_curvature_of_a_large_sum() -> None:
    """At 20,000 people counts are hundreds of millions, and logarithms are long doubles."""
    lifted = lift("S(p)\nF(p, p)\n0.5 S(x)\n-1 F(x, y)\n1e-5 S(x) ^ F(x, y)", p=20_000)
    weights = np.array([0.5, -1.0, 1e-5])
    found = lifted.at(weights)
    assert found.bits == EXTENDED_BITS
    step = np.array([1e-3, 0.0, 0.0])
    up, down = lifted.at(weights + step), lifted.at(weights - step)
    slope = (up.expected_count - down.expected_count) / 2e-3
    product = lifted.hessian_product(np.array([1.0, 0.0, 0.0]), weights)
    assert product == pytest.approx(slope, rel=1e-5)


def test_databases_share_a_circuit() -> None:
    model = lapis.parse(TWO_COUNTS)
    sizes = (3, 5, 8)
    domains = ["person = {" + ", ".join(f"P{i}" for i in range(n)) + "}\n" for n in sizes]
    models = [lapis.parse(domain + TWO_COUNTS) for domain in domains]
    problems = [lapis.build_problem(m, query=list(model.predicates)) for m in models]
    lifted = lift_problems(problems)
    assert len({id(found.root) for found in lifted}) == 1
    whole = lift(TWO_COUNTS, person=3)
    for found, n in zip(lifted, sizes, strict=True):
        assert found.at().log_partition == whole.at(sizes={"person": n}).log_partition
