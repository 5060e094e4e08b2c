"""Weights of formulas that are multiplied by numbers maximise the oracle's likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import lapis
import oracle
from oracle import Facts, GroundAtom

MODEL = lapis.parse(
    """record = {A, B, C}
float sim(record, record)
float age(record)
P(record)
Q(record, record)
sim(x, y) * Q(x, y)
(Q(x, y))
log(age(x)) * (P(x) ^ Q(x, y))
sim(x, y) * sim(x, y) * (P(x) => P(y))
age(x) > 2 ^ P(x)
"""
)
AGES = {"A": "1.5", "B": "3", "C": "2.5"}
SIM = {
    ("A", "A"): "0.9", ("A", "B"): "0.1", ("A", "C"): "-0.4", ("B", "A"): "0.7",
    ("B", "B"): "1.2", ("B", "C"): "0.33", ("C", "A"): "0", ("C", "B"): "0.8", ("C", "C"): "1",
}  # fmt: skip
TRUE: list[GroundAtom] = [
    ("P", ("A",)), ("P", ("B",)), ("Q", ("A", "A")), ("Q", ("B", "A")), ("Q", ("B", "C")),
    ("Q", ("C", "B")),
]  # fmt: skip
FACTS = Facts(
    (
        *(("age", (name, age)) for name, age in AGES.items()),
        *(("sim", (*pair, number)) for pair, number in SIM.items()),
        *TRUE,
    )
)
DATA = lapis.Database.parse(oracle.render_database(MODEL.predicates, FACTS))
QUERY = ["Q"]
OBJECTIVES: dict[str, Callable[[lapis.Model], float]] = {
    "pseudo": lambda model: oracle.pseudo_log_likelihood(model, FACTS),
    "conditional": lambda model: oracle.log_likelihood(model, FACTS, QUERY),
}


def with_weights(model: lapis.Model, weights: np.ndarray) -> lapis.Model:
    rules = zip(model.rules, weights.tolist(), strict=True)
    return model.with_rules(tuple(replace(rule, weight=weight) for rule, weight in rules))


@pytest.mark.parametrize(
    ("objective", "optimizer"), [("pseudo", "newton"), ("conditional", "lbfgs")]
)
def test_learned_weights_are_the_maximum(objective: str, optimizer: str) -> None:
    query = QUERY if objective == "conditional" else []
    fit = lapis.learn(
        MODEL, DATA, query, objective=objective, optimizer=optimizer, prior="gaussian:1"
    )

    def posterior(weights: np.ndarray) -> float:
        likelihood = OBJECTIVES[objective](with_weights(MODEL, weights))
        return likelihood - float(weights @ weights) / 2

    steps = 1e-5 * np.eye(len(fit.weights))
    slope = [(posterior(fit.weights + s) - posterior(fit.weights - s)) / 2e-5 for s in steps]
    likelihood = OBJECTIVES[objective](with_weights(MODEL, fit.weights))
    assert fit.value == pytest.approx(likelihood, abs=1e-9)
    np.testing.assert_allclose(slope, 0, atol=1e-4)
    assert fit.standard_errors is not None
    top = posterior(fit.weights)
    curvature = [
        (posterior(fit.weights + 100 * s) + posterior(fit.weights - 100 * s) - 2 * top) / 1e-6
        for s in steps
    ]
    # A standard error is at least that of a weight alone.
    assert (fit.standard_errors >= 0.999 / np.sqrt(-np.array(curvature))).all()


def test_the_likelihood_of_all_atoms() -> None:
    model = MODEL.with_rules((*MODEL.rules[:2], MODEL.rules[-1]))
    fit = lapis.learn(model, DATA, objective="likelihood", prior="gaussian:1")
    weights = fit.weights

    def posterior(weights: np.ndarray) -> float:
        found = oracle.log_likelihood(with_weights(model, weights), FACTS)
        return found - float(weights @ weights) / 2

    steps = 1e-5 * np.eye(len(weights))
    slope = [(posterior(weights + s) - posterior(weights - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(slope, 0, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "max-margin"},
        {"objective": "conditional", "optimizer": "vp"},
        {"objective": "conditional", "expectation": "mcsat", "max_iterations": 5},
        {"objective": "conditional", "expectation": "count-gibbs", "max_iterations": 5},
        {"objective": "conditional", "expectation": "count-map", "max_iterations": 5},
    ],
    ids=str,
)
def test_other_learners_raise_the_weight_of_a_telling_number(options: dict[str, object]) -> None:
    model = lapis.parse(
        "float sim(record, record)\nQ(record, record)\nsim(x, y) * Q(x, y)\n-0.5 Q(x, y)\n"
    )
    rows = [(f"R{i}", f"R{j}", (3 * i + j) / 10) for i in range(4) for j in range(4)]
    lines = [f"sim({x},{y}) = {s}\n" + f"Q({x},{y})\n" * (s > 0.8) for x, y, s in rows]
    fit = lapis.learn(model, lapis.Database.parse("".join(lines)), "Q", **options)  # type: ignore[arg-type]
    assert fit.weights[0] > 0
    assert lapis.score(fit.model, lapis.Database.parse("".join(lines)), "Q").auc_roc > 0.95


def test_hidden_atoms() -> None:
    model = lapis.parse(
        "float sim(record, record)\nQ(record, record)\n2 sim(x, y) * Q(x, y)\n-0.5 Q(x, y)\n"
    )
    data = lapis.Database.parse(
        "sim(A,A) = 1 sim(A,B) = 0.2 sim(B,A) = 0.3 sim(B,B) = 1.5 Q(A,A) ?Q(B,B)"
    )
    fit = lapis.learn(model, data, "Q", objective="conditional", prior="gaussian:1")
    assert fit.converged
    assert fit.weights[0] > 0


def test_standardizing_makes_a_prior_independent_of_the_unit() -> None:
    def learn(unit: float, *, standardize: bool, prior: str) -> np.ndarray:
        lines = [f"sim({x},{y}) = {float(s) * unit!r}" for (x, y), s in SIM.items()]
        lines += [f"{name}({','.join(row)})" for name, row in TRUE]
        model = lapis.parse(
            "float sim(record, record)\nP(record)\nQ(record, record)\n"
            "sim(x, y) * Q(x, y)\n(Q(x, y))\n"
        )
        data = lapis.Database.parse("\n".join(lines))
        fit = lapis.learn(model, data, prior=prior, standardize=standardize)
        return fit.weights * [unit, 1.0]

    for prior in ("gaussian:0.5", "l1:0.1"):
        own, other = (learn(unit, standardize=True, prior=prior) for unit in (1.0, 1000.0))
        np.testing.assert_allclose(own, other, rtol=1e-4)
        raw, far = (learn(unit, standardize=False, prior=prior) for unit in (1.0, 1000.0))
        assert abs(raw[0] - far[0]) > 0.05


def test_standardizing_without_numbers_has_no_effect() -> None:
    fit = lapis.learn(
        lapis.parse("P(t)\nP(x)\n1 P(x)"), lapis.Database.parse("P(A)"), standardize=True
    )
    assert any("no formula is multiplied" in warning for warning in fit.warnings)


def test_a_learned_model_is_read_again() -> None:
    fit = lapis.learn(MODEL, DATA, prior="gaussian:1")
    again = lapis.parse(fit.text)
    here, there = (lapis.score(model, DATA).pseudo_log_likelihood for model in (fit.model, again))
    assert here == pytest.approx(there, rel=1e-9)
