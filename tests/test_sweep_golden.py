"""Every golden model by every method that claims it: marginals, worlds, counts and weights.

The methods are those of the registry; a new one is swept by being registered. A method that calls
an answer exact is held to all digits, one that calls it converged to five standard errors. Weights
are learned without a prior by every objective, expectation and optimiser that claims a maximum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import lapis
from golden_models import Expected, GoldenModel, golden_models
from lapis.methods import Method, methods_of

GOLDEN = golden_models()
ASKED = [golden for golden in GOLDEN if golden.query]
SEEN = [golden for golden in GOLDEN if not golden.query]
LEARNED = [golden for golden in GOLDEN if golden.learned is not None]
# A chain that has not converged within these says so, and is held to nothing. What has no answer
# before it is done gets the time it takes.
LIMITS = {"max_samples": 4_000, "precision": 0.03, "time_limit": 5.0}
PROVES = ("always", "if time allows")
CLIMBS = [m.name for m in methods_of("optimizer").values() if m.takes == "objective"]


def pairs(models: list[GoldenModel], methods: Mapping[str, Method]) -> list[Any]:
    return [
        pytest.param(golden, method, id=f"{golden.name}-{method.name}")
        for golden in models
        for method in methods.values()
    ]


def read(golden: GoldenModel) -> tuple[lapis.Model, lapis.Database]:
    return lapis.parse(golden.text), lapis.Database.parse(golden.data)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_a_golden_model_holds_methods_to_something(golden: GoldenModel) -> None:
    """A model without an expectation, or refused by all that are exact, would test nothing."""
    assert golden.asserts
    assert any(
        golden.applies_to(m.name) for m in methods_of("infer").values() if m.exact == "always"
    )
    assert golden.query or golden.figures or golden.counts


# A model of three variables, or with a long sum over kinds, is none for cells.
REFUSED = {("cells", "two-variables"), ("cells", "cells")}


@pytest.mark.parametrize(("golden", "method"), pairs(ASKED, methods_of("infer")))
def test_marginals(golden: GoldenModel, method: Method) -> None:
    model, data = read(golden)
    if golden.impossible or not golden.applies_to(method.name):
        wanted = lapis.LapisError if golden.impossible else lapis.TooLarge
        with pytest.raises(wanted):
            lapis.infer(model, data, open_predicates=golden.query, method=method.name)
        return
    limits = LIMITS if "precision" in method.options else {}
    limits = {name: value for name, value in limits.items() if name in method.options}
    try:
        answer = lapis.infer(
            model, data, open_predicates=golden.query, method=method.name, random_state=1, **limits
        )
    except lapis.LapisError as error:
        if (method.name, error.code) in REFUSED:
            return
        raise
    found = answer.marginals
    if method.exact == "always":
        assert answer.exact
        assert "logZ" not in golden.figures or answer.log_partition is not None
    if answer.exact:
        for atom, expected in golden.marginals.items():
            assert expected.is_met_by(found[atom]), atom
        for weight_id, expected in golden.expected_counts.items():
            assert expected.is_met_by(answer.expected_counts[weight_id]), weight_id
        if "logZ" in golden.figures and answer.log_partition is not None:
            assert golden.figures["logZ"].is_met_by(answer.log_partition)
    elif method.exact == "never" and answer.diagnostics["converged"]:
        assert answer.errors is not None
        errors = dict(zip(found, answer.errors, strict=True))
        for atom, expected in golden.marginals.items():
            assert abs(found[atom] - expected.value) <= 5 * errors[atom] + expected.tolerance, atom


@pytest.mark.parametrize(("golden", "method"), pairs(ASKED, methods_of("map")))
def test_most_likely_worlds(golden: GoldenModel, method: Method) -> None:
    model, data = read(golden)
    if golden.impossible or not golden.applies_to(method.name):
        wanted = lapis.LapisError if golden.impossible else lapis.TooLarge
        with pytest.raises(wanted):
            lapis.map(model, data, open_predicates=golden.query, method=method.name)
        return
    world = lapis.map(model, data, open_predicates=golden.query, method=method.name)
    best = golden.figures.get("map score")
    assert world.optimal or method.exact not in PROVES
    if best is not None:
        assert world.score <= best.value + 1e-6
    if world.optimal:
        assert best is None or abs(world.score - best.value) <= 1e-6
        assert {atom: world.atoms[atom] for atom in golden.map_atoms} == golden.map_atoms


@pytest.mark.parametrize(
    ("golden", "method"), pairs([g for g in GOLDEN if g.counts], methods_of("counts"))
)
def test_counts(golden: GoldenModel, method: Method) -> None:
    rows = lapis.count(*read(golden), counts=method.name)
    for index, (true, groundings) in golden.counts.items():
        row = rows[index]
        assert row.groundings == groundings
        assert row.exact or method.exact != "always"
        assert row.true == true or not row.exact


@pytest.mark.parametrize("golden", SEEN, ids=lambda golden: golden.name)
def test_likelihoods(golden: GoldenModel) -> None:
    score = lapis.score(*read(golden))
    figures = {"pll": score.pseudo_log_likelihood, "ll": score.log_likelihood}
    for name, expected in golden.figures.items():
        value = figures[name]
        assert value is not None
        assert expected.is_met_by(value), name


def learn(golden: GoldenModel, **options: Any) -> lapis.Fit:
    model, data = read(golden)
    return lapis.learn(model, data, golden.learned or (), **{"prior": "none", **options})


def likelihood_of(golden: GoldenModel) -> str:
    return "conditional" if golden.learned else "likelihood"


def check_weights(fit: lapis.Fit, expected: dict[int, Expected], tolerance: float) -> None:
    assert fit.converged, fit.reason
    for index, value in expected.items():
        assert fit.weights[index] == pytest.approx(value.value, abs=tolerance)


@pytest.mark.parametrize(("golden", "method"), pairs(LEARNED, methods_of("objective")))
def test_learned_weights(golden: GoldenModel, method: Method) -> None:
    if method.name == "max-margin":
        fit = learn(golden, objective=method.name, prior="gaussian:1", tolerance=1e-8)
        check_weights(fit, dict(golden.margins), 1e-3)
        return
    if method.name in ("likelihood", "conditional") and method.name != likelihood_of(golden):
        with pytest.raises(lapis.LapisError, match=r"query|given the others"):
            learn(golden, objective=method.name)
        return
    fit = learn(golden, objective=method.name)
    assert fit.exact
    check_weights(fit, dict(golden.weights), 1e-5)


@pytest.mark.parametrize("objective", ["pseudo", "likelihood"])
@pytest.mark.parametrize("optimizer", CLIMBS)
@pytest.mark.parametrize("golden", LEARNED, ids=lambda golden: golden.name)
def test_every_optimiser_finds_the_maximum(
    golden: GoldenModel, optimizer: str, objective: str
) -> None:
    """Of an exact objective; those that average their weights come near it late."""
    exact = {} if objective == "pseudo" else {"expectation": "exact"}
    name = objective if objective == "pseudo" else likelihood_of(golden)
    fit = learn(golden, objective=name, optimizer=optimizer, max_iterations=3000, **exact)
    check_weights(fit, dict(golden.weights), 1e-3)


@pytest.mark.parametrize(("golden", "method"), pairs(LEARNED, methods_of("expectation")))
def test_every_expectation(golden: GoldenModel, method: Method) -> None:
    """Exact ones find the maximum, sampled ones within what the data leaves open about it."""
    if method.name == "lifted" and golden.learned:
        with pytest.raises(lapis.LapisError, match="only the likelihood of all atoms"):
            learn(golden, objective=likelihood_of(golden), expectation=method.name)
        return
    fit = learn(
        golden,
        objective=likelihood_of(golden),
        expectation=method.name,
        random_state=1,
        time_limit=5.0,
    )
    if fit.exact:
        check_weights(fit, dict(golden.weights), 1e-5)
    elif fit.standard_errors is not None:
        for index, expected in golden.weights.items():
            assert abs(fit.weights[index] - expected.value) <= fit.standard_errors[index]
