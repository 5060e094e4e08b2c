"""The learners of thesis chapter 4, as they are, on random models: against the maximum."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lapis
from brute_force import brute_force
from lapis.learning.examples import build_examples
from lapis.learning.parameters import share_parameters
from oracle import NoWorld
from strategies import Case, cases

LEARNERS = ("cd", "cd-pw", "dn", "scg", "pscg")
PERCEPTRONS = ("vp", "vp-pw")
WIDTH = 2.0
REMEDY = re.compile(r"; .*\bset --[a-z-]+ \S+")


def check_learner(case: Case, learner: str, expectation: str) -> None:
    """The value at the learned weights is near the greatest, or the fit says what to set."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    examples = build_examples(model, [data], case.query)
    parameters = share_parameters(model, [examples[0].free])
    assume(len(parameters) and not parameters.fixed.all())
    try:
        oracle = brute_force(model, [case.facts], parameters, case.query)
    except NoWorld:
        assume(False)

    def worth(fit: lapis.Fit) -> float:
        weights = np.asarray(fit.weights)
        free = weights[~parameters.fixed]
        return oracle.value(weights) - float(free @ free) / (2 * WIDTH**2)

    def learn(name: str, how: str) -> lapis.Fit:
        return lapis.learn(
            model, data, case.query, optimizer=name, prior=f"gaussian:{WIDTH:g}", expectation=how
        )

    try:
        best = worth(learn("lbfgs", "exact"))
    except lapis.LapisError as error:
        assume(error.code != "empty-data")
        raise
    fit = learn(learner, expectation)
    assert fit.converged or REMEDY.search(fit.reason) or "chains" in fit.reason, fit.reason
    lost = best - worth(fit)
    if learner in PERCEPTRONS:
        assert np.isfinite(lost)
    elif fit.exact:
        assert lost <= 1e-6
    elif fit.converged:
        # Half of each weight's own uncertainty costs an eighth; the prior alone costs no less.
        assert lost <= 0.5 * len(parameters)


@pytest.mark.parametrize("learner", LEARNERS)
@given(cases(observed=True))
@settings(max_examples=15)
def test_exact_counts(learner: str, case: Case) -> None:
    check_learner(case, learner, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("learner", [*LEARNERS, *PERCEPTRONS])
@given(cases(observed=True))
@settings(max_examples=150, deadline=None)
def test_exact_counts_at_length(learner: str, case: Case) -> None:
    check_learner(case, learner, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
@given(cases(observed=True), st.sampled_from(("mcsat", "gibbs")))
@settings(max_examples=60, deadline=None)
def test_sampled_counts_at_length(learner: str, case: Case, expectation: str) -> None:
    check_learner(case, learner, expectation)
