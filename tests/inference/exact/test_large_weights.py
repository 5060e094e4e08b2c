"""Test that large weights of either sign do not cost other weights digits, in exact methods.

A formula with weight w is equivalent to its negation with −w, up to a constant:
Σ w·1[F] = Σ w − Σ w·1[¬F]. A satisfiable formula of weight 10^9 among small weights is as good as
hard, because exp(−10^9) is 0. So the two can be compared.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle
from oracle import NoWorld
from strategies import Case, cases, show

METHODS = ("exact", "enumerate", "auto")


def with_weights(case: Case, scale: float, negated: bool) -> lapis.Model:
    """Return the case's model with larger weights, on formulas or, negative, on negations."""
    lines = [case.declarations]
    for rule in case.rules:
        weight = rule.weight if rule.weight is None else scale * rule.weight
        if weight is None:
            lines.append(rule.text)
        elif negated:
            lines.append(f"{-weight!r} !({show(rule.formula, rule.plus)})")
        else:
            lines.append(f"{weight!r} ({show(rule.formula, rule.plus)})")
    return lapis.parse("\n".join(lines))


@given(case=cases(), scale=st.sampled_from([1.0, 1e3, 123456.789, 1e6 / 3, 1e8]))
def test_a_formula_says_what_its_negation_says(case: Case, scale: float) -> None:
    data = lapis.Database.parse(case.data)
    one, other = (with_weights(case, scale, negated) for negated in (False, True))
    domains = oracle.constants_of(one, case.facts)
    groundings = [
        (rule.weight or 0.0) * len(oracle.bindings(rule.variables, domains))
        for rule in one.rules
        if not rule.hard
    ]
    try:
        expected = oracle.infer(lapis.parse(case.model), case.facts, case.query)
    except NoWorld:
        return
    answers = [
        lapis.infer(model, data, case.query, method=method)
        for method in METHODS
        for model in (one, other)
    ]
    if scale == 1.0:
        truth = [expected.marginals[atom] for atom in answers[0].atoms]
        assert answers[0].probability == pytest.approx(np.array(truth), abs=1e-12)
    for number, answer in enumerate(answers):
        assert answer.exact
        assert np.abs(answer.probability - answers[0].probability).max(initial=0.0) < 1e-12
        shift = sum(groundings) if number % 2 else 0.0
        size = 1.0 + float(np.abs(groundings).sum())
        assert answer.log_partition is not None
        assert answer.log_partition + shift == pytest.approx(
            answers[0].log_partition, rel=0, abs=1e-14 * size
        )


CHAIN = 16
RULES = ("P(x) ^ N(x, y) => P(y)", "P(x) v P(y) v !N(x, y)", "(P(x) <=> !P(y)) v !N(x, y)")


def chain(rule: str) -> lapis.Model:
    constants = ", ".join(f"C{n}" for n in range(CHAIN))
    return lapis.parse(
        f"t = {{{constants}}}\nP(t)\nN(t, t)\n{rule}\n0.3 P(x)\n0.7 P(x) ^ N(x, y) ^ P(y)\n"
        "-0.2 P(C3)"
    )


@pytest.mark.parametrize("method", ["exact", "enumerate"])
@pytest.mark.parametrize("weight", [3e4, 123456.789, 1e6, 1e9])
@pytest.mark.parametrize("rule", RULES)
def test_large_weights_are_as_good_as_hard(rule: str, weight: float, method: str) -> None:
    """Large weights of either sign, for marginals and most likely worlds."""
    data = lapis.Database.parse(" ".join(f"N(C{n},C{n + 1})" for n in range(CHAIN - 1)))
    hard = lapis.infer(chain(f"{rule}."), data, "P", method="exact")
    best = lapis.map(chain(f"{rule}."), data, "P", method="exact")
    for line in (f"{weight!r} {rule}", f"{-weight!r} !({rule})"):
        found = lapis.infer(chain(line), data, "P", method=method)
        assert np.abs(found.probability - hard.probability).max() < 1e-12
        likely = lapis.map(chain(line), data, "P", method=method)
        assert likely.value.tolist() == best.value.tolist()


@pytest.mark.parametrize("method", ["exact", "enumerate"])
def test_large_weights_that_cancel_leave_the_others_all_their_digits(method: str) -> None:
    rules = "\n".join(f"{sign}999999999.7 {rule}" for rule in RULES for sign in ("", "-"))
    data = lapis.Database.parse(" ".join(f"N(C{n},C{n + 1})" for n in range(CHAIN - 1)))
    plain = lapis.infer(chain(""), data, "P", method="enumerate")
    found = lapis.infer(chain(rules), data, "P", method=method)
    assert np.abs(found.probability - plain.probability).max() < 1e-12
    assert found.log_partition == pytest.approx(plain.log_partition, abs=1e-12)


def test_atoms_by_themselves() -> None:
    """Small weights decide P and Q: the large ones are 10^9 − 10^9 and w·(−2 + 1 + 1)."""
    model = lapis.parse(
        "t = {A, B, C}\nP\nQ\nE(t)\n1e9 P\n1e9 !P\n0.5 P\n-123456789.1 Q v E(x)\n"
        "123456789.1 Q v !E(x)\n123456789.1 Q v !E(x)\n-0.25 Q"
    )
    for method in METHODS:
        found = lapis.infer(model, lapis.Database.parse("E(A)"), ["P", "Q"], method=method)
        assert found["P"] == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-14)
        assert found["Q"] == pytest.approx(1 / (1 + np.exp(0.25)), abs=1e-14)
