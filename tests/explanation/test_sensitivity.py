"""Derivatives by weights are those of the oracle, and errors of weights become one of P."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from explained_cases import OracleCase, plain
from hypothesis import given, settings

import lapis
import oracle
import strategies
from oracle import NoWorld
from strategies import Case

STEP = 1e-4


def slope(found: OracleCase, number: int, name: str) -> float:
    """The central difference of the oracle's probability by a rule's weight."""
    rules = found.with_soft.rules
    ends = []
    for step in (STEP, -STEP, 2 * STEP, -2 * STEP):
        rule = replace(rules[number], weight=(rules[number].weight or 0.0) + step)
        model = found.with_soft.with_rules((*rules[:number], rule, *rules[number + 1 :]))
        ends.append(oracle.infer(model, found.facts, found.case.query).marginals[name])
    near, far = (ends[0] - ends[1]) / (2 * STEP), (ends[2] - ends[3]) / (4 * STEP)
    return (4 * near - far) / 3


def check_sensitivity(found: OracleCase) -> None:
    try:
        expected = found.answer()
    except NoWorld:
        return
    answer = found.infer()
    rules = found.with_soft.rules
    for name in sorted(expected.unknown)[:3]:
        rows = {plain(row.rule): row.derivative for row in answer.explain(name).sensitivity}
        for number, rule in enumerate(rules):
            twins = sum(plain(other.text) == plain(rule.text) for other in rules)
            twins += any(other.plus for other in rules)  # its instances may have the same text
            if rule.hard or rule.plus or twins > 1:
                continue
            wanted = slope(found, number, name)
            assert rows.get(plain(rule.text), 0.0) == pytest.approx(wanted, abs=1e-8)


@settings(max_examples=15)
@given(strategies.cases())
def test_derivatives_are_those_of_the_oracle(case: Case) -> None:
    check_sensitivity(OracleCase(case, {}))


MODEL = "person = {A, B}\nP(person)\nQ(person)\n{} P(x) => Q(x)\n{} P(x)\n"


def test_errors_of_weights_become_an_error_of_the_probability() -> None:
    people = [f"X{number}" for number in range(200)]
    facts = " ".join(f"P({name})" for name in people[:120])
    facts += " " + " ".join(f"Q({name})" for name in people[:90])
    data = lapis.Database.parse(f"person = {{{', '.join(people)}}}\n{facts}")
    model = lapis.parse("P(person)\nQ(person)\nP(x) => Q(x)\nP(x)\n")
    fit = lapis.learn(model, data, prior="none")
    found = lapis.infer(fit.model, lapis.Database.parse("?P(A) ?Q(A)")).explain("Q(A)", fit=fit)
    errors = {name: error for name, _, error, _, _ in fit.entries()}
    parts = [row.derivative * (errors[row.rule] or 0.0) for row in found.sensitivity]
    assert found.weights_stderr == pytest.approx(math.hypot(*parts))
    assert found.weights_note == "as if the weights were independent"
    assert [row.weight_stderr for row in found.sensitivity] == [
        errors[row.rule] for row in found.sensitivity
    ]


def test_covariances_of_a_posterior_are_used() -> None:
    data = lapis.Database.parse("P(A) Q(A) P(B) Q(C)\nperson = {A, B, C, D, E}")
    model = lapis.parse("P(person)\nQ(person)\nP(x) => Q(x)\nP(x)\n")
    fit = lapis.learn(model, data, prior="gaussian:2", estimate="mean", posterior_method="laplace")
    found = lapis.infer(fit.model, lapis.Database.parse("?P(A) ?Q(A)")).explain("Q(A)", fit=fit)
    slopes = {row.rule: row.derivative for row in found.sensitivity}
    gradient = np.array([slopes.get(name, 0.0) for name, *_ in fit.entries()])
    covariance = fit.weight_covariance()
    assert covariance is not None
    variance = float(gradient @ covariance @ gradient)
    assert found.weights_stderr == pytest.approx(math.sqrt(variance))
    assert "with the covariances" in found.weights_note
