"""An unbounded weight is marked as such and has no standard error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lapis
from lapis.learning.fit import FARTHEST

MODEL = lapis.parse("Smokes(person)\nCancer(person)\nSmokes(x) => Cancer(x)\nCancer(x)")
# No smoker is without cancer; one of two others has it.
DATA = lapis.Database.parse(
    "Smokes(A) Cancer(A) Smokes(B) Cancer(B) !Smokes(C) !Cancer(C) !Smokes(D) Cancer(D)"
)


@pytest.mark.parametrize(
    ("objective", "optimizer"),
    [
        ("pseudo", "newton"),
        ("pseudo", "lbfgs"),
        ("conditional", "lbfgs"),
        ("conditional", "pscg"),
    ],
)
def test_every_exact_learner_says_it(objective: str, optimizer: str) -> None:
    fit = lapis.learn(MODEL, DATA, "Cancer", objective=objective, optimizer=optimizer, prior="none")
    rule, unit = fit.to_json()["weights"]
    assert (rule["bounded"], rule["stderr"]) == (False, None)
    assert unit["bounded"] is True
    # The unit weight is a fair coin's: two others, one with cancer, curvature 2 · ½ · ½.
    assert unit["weight"] == pytest.approx(0.0, abs=1e-4)
    assert unit["stderr"] == pytest.approx(0.5**-0.5, rel=1e-3)
    line, other = str(fit).splitlines()[1:3]
    assert "no bound" in line
    assert "±" not in line
    assert "± 1.41" in other
    assert "no bound" in fit._repr_html_()
    assert "// no bound" in fit.text
    assert np.isnan(fit.to_pandas()["stderr"][0])
    assert not fit.converged
    assert "no finite maximum" in fit.reason


def test_a_prior_is_a_bound() -> None:
    fit = lapis.learn(MODEL, DATA, "Cancer", prior="gaussian:1")
    assert fit.bounded.all()
    assert fit.converged
    assert "no bound" not in str(fit)


def test_a_weight_that_was_stopped_at_the_fence_has_no_bound_either() -> None:
    fit = lapis.learn(MODEL, DATA, "Cancer", prior="none")
    stopped = replace(
        fit,
        unbounded=(),
        weights=np.array([-FARTHEST, 0.0]),
        standard_errors=np.array([5.5e13, 1.0]),
    )
    assert stopped.bounded.tolist() == [False, True]
    assert "e+13" not in str(stopped) + stopped.text
    assert "1 weight was stopped at 100, since the data sets no bound" in str(stopped)


def test_a_fixed_weight_is_as_large_as_the_user_likes() -> None:
    model = lapis.parse(
        "Smokes(person)\nCancer(person)\n@fixed 200 Smokes(x) => Cancer(x)\nCancer(x)"
    )
    fit = lapis.learn(model, DATA, "Cancer", prior="none")
    assert fit.bounded.all()
    assert "fixed" in str(fit).splitlines()[1]
