"""Log-likelihoods that annealing estimates, beside exact ones."""

from __future__ import annotations

import pytest

import lapis

MODEL = """
Friends(person, person)
Smokes(person)
0.3 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.5 Friends(x, y)
"""
FACTS = "Smokes(A) Smokes(B) Friends(A,B) Friends(B,A) Friends(C,D)"


def test_an_estimate_has_a_standard_error_and_its_method() -> None:
    own = "".join(f"{0.1 * i - 0.8} Smokes(P{i})\n" for i in range(17))
    model, data = lapis.parse(MODEL + own), lapis.Database.parse(FACTS)
    exact = lapis.score(model, data)
    assert exact.log_likelihood_stderr is None
    assert exact.log_likelihood_method == "exact"
    small = lapis.score(model, data, max_memory=1 << 20)
    assert small.log_likelihood is None
    assert "ais" in small.notes[0]
    found = lapis.score(model, data, method="ais", max_memory=1 << 20)
    assert found.log_likelihood_method == "exact+ais"
    assert found.log_likelihood_stderr is not None
    assert found.log_likelihood == pytest.approx(
        exact.log_likelihood, abs=5 * found.log_likelihood_stderr
    )
    assert found.document()["log_likelihood_stderr"] == found.log_likelihood_stderr
