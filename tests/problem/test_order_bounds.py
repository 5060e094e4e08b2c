"""The bound of a comparison by order does not become a constant of the type."""

from __future__ import annotations

import pytest

import lapis
import oracle
from oracle import Facts

DECLARED = "n = {1, 2, 3}\nP(n)\nQ(n)\n0.3 P(i)\n"
BOUNDED = [
    "0.7 P(i) ^ i < 2.5 ^ Q(i)",
    "0.7 P(i) ^ i <= 100 => Q(i)",
    "0.7 P(i) ^ 0.5 < i",
    "0.7 P(i) => EXIST j (j > 0 ^ j < 2.5 ^ Q(j))",
    "-0.7 P(i) ^ i+1 = 9 v Q(i)",
    "0.7 P(+i) ^ i > 1.5 ^ Q(i)",
    "P(i) ^ i > 2.5 => Q(i).",
]
FACTS = Facts((("Q", ("2",)), ("Q", ("3",)), ("P", ("3",))), (("P", ("1",)),))


@pytest.mark.parametrize("rule", BOUNDED)
def test_a_bound_adds_no_atoms(rule: str) -> None:
    """P(2.5) and P(100) were unknown atoms, and groundings that counts were made of."""
    model = lapis.parse(DECLARED + rule)
    assert model.types == {"n": ("1", "2", "3")}
    assert not model.warnings
    data = lapis.Database.parse(oracle.render_database(model.predicates, FACTS))
    expected = oracle.infer(model, FACTS, ["P"])
    for options in ({}, {"method": "lifted"}, {"engine": "duckdb"}):
        answer = lapis.infer(model, data, "P", **options)
        assert answer.marginals == pytest.approx({"P(2)": expected.marginals["P(2)"]})
        assert answer.log_partition == pytest.approx(expected.log_partition)
    assert lapis.map(model, data, "P").score == pytest.approx(expected.map_score)
    for options in ({}, {"engine": "duckdb"}):
        counts = [(row.true, row.groundings) for row in lapis.count(model, data, **options)]
        assert counts == list(oracle.count_true(model, FACTS).values())
    found = lapis.score(model, data)
    assert found.log_likelihood == pytest.approx(oracle.log_likelihood(model, FACTS))
    assert found.pseudo_log_likelihood == pytest.approx(oracle.pseudo_log_likelihood(model, FACTS))


def test_names_that_are_equated_are_constants() -> None:
    model = lapis.parse("P(t)\n1 P(x) ^ x = Ann\n1 P(x) ^ x != Bob")
    assert model.types == {"t": ("Ann", "Bob")}
