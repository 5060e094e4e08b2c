"""Facts that keep constants interchangeable: unary, or complete between groups."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

import lapis
from lapis.lifted.kinds import group_kinds
from lapis.lifted.lift import lift_problem
from lapis.runtime.progress import Progress

MODEL = lapis.parse("Smokes(p)\nFriends(p, p)\n0.05 Friends(x, y) ^ Smokes(x) => Smokes(y)")


def friends(first: range, second: range) -> str:
    return " ".join(f"Friends(P{i},P{j})" for i in first for j in second)


def by_counts(n: int, true: int, false: int) -> tuple[float, float]:
    """Return log Z and the probability that another person smokes, if all n are friends."""
    rest = n - true - false
    m = np.arange(rest + 1)
    smoke = m + true
    log = np.array([np.log(float(comb(rest, k))) for k in m]) + 0.05 * (n * n - smoke * (n - smoke))
    top = log.max()
    weight = np.exp(log - top)
    return float(top + np.log(weight.sum())), float(weight @ m / weight.sum() / rest)


@pytest.mark.parametrize(("true", "false"), [(0, 0), (3, 0), (2, 5)])
def test_complete_friendships(true: int, false: int) -> None:
    n = 60
    known = [f"Smokes(P{i})" for i in range(true)]
    known += [f"!Smokes(P{i})" for i in range(true, true + false)]
    data = lapis.Database.parse(friends(range(n), range(n)) + " " + " ".join(known))
    answer = lapis.infer(MODEL, data, query=["Smokes"], method="lifted")
    log_z, probability = by_counts(n, true, false)
    assert answer.log_partition == pytest.approx(log_z, rel=1e-12)
    assert answer.probability == pytest.approx(np.full(n - true - false, probability), rel=1e-9)


def test_groups_are_found_and_checked() -> None:
    """Two groups of friends and another pair, compared with the ground network."""
    one, two = range(4), range(4, 9)
    text = f"{friends(one, one)} {friends(two, one)} Friends(P5,P6)"
    data = lapis.Database.parse(text)
    problem = lapis.build_problem(MODEL, data, query=["Smokes"])
    kinds = group_kinds(problem)
    assert sorted(kinds.sizes.values()) == [1, 1, 3, 4]
    lifted = lapis.infer(MODEL, data, query=["Smokes"], method="lifted")
    exact = lapis.infer(MODEL, data, query=["Smokes"], method="exact")
    assert lifted.log_partition == pytest.approx(exact.log_partition, rel=1e-12)
    assert lifted.marginals == pytest.approx(exact.marginals, rel=1e-9)


def test_colours_alone_do_not_suffice() -> None:
    """All constants of a ring have one colour, but a pair may be neighbours or not."""
    ring = " ".join(f"Friends(P{i},P{(i + 1) % 6})" for i in range(6))
    data = lapis.Database.parse(ring)
    problem = lapis.build_problem(MODEL, data, query=["Smokes"])
    assert len(group_kinds(problem).of_type["p"].elements) == 6
    lifted = lapis.infer(MODEL, data, query=["Smokes"], method="lifted")
    exact = lapis.infer(MODEL, data, query=["Smokes"], method="exact")
    assert lifted.log_partition == pytest.approx(exact.log_partition, rel=1e-12)


def test_odds_beyond_floats() -> None:
    """Log-odds are accurate if probabilities round to 0 and 1."""
    model = lapis.parse("p = {A, B}\nS(p)\nQ(p)\n900 S(x)\n-20000 Q(x)\nQ(x) => S(x).")
    from lapis.inference.solve import infer_problem

    _, found = infer_problem(lapis.build_problem(model, query=["S", "Q"]), "lifted")
    assert found.log_odds == pytest.approx([900, 900, -20000, -20000], rel=1e-12)


@pytest.mark.parametrize("closed", [False, True])
def test_facts_are_decided_at_once(closed: bool) -> None:
    """All constants of a chain or a ring are elements; the n² facts do not make n² theories."""
    n, told = 12, list[Progress]()
    data = lapis.Database.parse(
        " ".join(f"Friends(P{i},P{(i + 1) % n})" for i in range(n if closed else n - 1))
    )
    problem = lapis.build_problem(MODEL, data, query=["Smokes"])
    lifted = lift_problem(problem, progress=told.append).at()
    # A chain of pairs by transfer matrices: 0.05 for each ordered pair but (smokes, does not).
    step = np.exp(0.05 * np.array([[1.0, 1.0], [0.0, 1.0]]))
    if closed:
        pairs = np.trace(np.linalg.matrix_power(step, n))
    else:
        pairs = np.linalg.matrix_power(step, n - 1).sum()
    strangers = n * n - (n if closed else n - 1)
    assert lifted.log_partition == pytest.approx(np.log(pairs) + 0.05 * strangers, rel=1e-12)
    assert max((event.done for event in told), default=0) < n * n
