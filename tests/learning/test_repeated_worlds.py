"""Several databases: the same twice is twice the likelihood, one without constants says nothing."""

from __future__ import annotations

import numpy as np
import pytest

import lapis

MODEL = """
P(t)
Q(t)
Has(t, word)
P(x) => Q(x)
0.5 Has(x, +w) => P(x)
@fixed -0.3 Q(x)
P(x) v Q(x) v !P(x).
"""
ONE = "P(A) Q(A) P(B) Has(A,U) Has(C,V) Q(C) !P(D)"
OTHER = "P(E) Has(E,V) Has(F,W) !Q(F) Q(G) Has(G,W)"
OBJECTIVES = ("pseudo", "weighted-pseudo", "conditional", "likelihood")


def learn(objective: str, texts: list[str], prior: str) -> lapis.Fit:
    query = ["P", "Q"] if objective == "conditional" else []
    data = [lapis.Database.parse(text) for text in texts]
    fit = lapis.learn(
        lapis.parse(MODEL), data, query, objective=objective, prior=prior, tolerance=1e-10
    )
    assert fit.converged, fit.reason
    return fit


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_each_database_twice_is_twice_the_likelihood(objective: str) -> None:
    """Weighted pseudo-likelihood is a mean over atoms, which stays; sums count as much as two."""
    is_mean = objective == "weighted-pseudo"
    once = learn(objective, [ONE, OTHER], "gaussian:2")
    twice = learn(objective, [ONE, OTHER, ONE, OTHER], f"gaussian:{2 if is_mean else np.sqrt(2)}")
    assert twice.weights == pytest.approx(once.weights, abs=1e-7)
    assert twice.value == pytest.approx((1 if is_mean else 2) * once.value, abs=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("texts", [["", ONE, OTHER], [ONE, "", OTHER, ""]])
def test_a_database_without_constants_says_nothing(objective: str, texts: list[str]) -> None:
    without = learn(objective, [ONE, OTHER], "gaussian:2")
    beside = learn(objective, texts, "gaussian:2")
    assert beside.weights == pytest.approx(without.weights, abs=1e-9)
    assert beside.value == pytest.approx(without.value, abs=1e-9)
    names = [formula for formula, *_ in without.rows()]
    assert [formula for formula, *_ in beside.rows()] == names
