"""Enumeration and scores are held to the oracle, through the public functions, to 1e-9."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings

import lapis
import oracle
from oracle import NoWorld
from strategies import Case, cases
from sweeping import parse_case


def close(value: float | list[float] | dict[str, float]) -> object:
    """Equal to 1e-9, or to the last digits of a double where the figure is large."""
    return pytest.approx(value, abs=1e-9, rel=1e-14)


def check_inference(case: Case) -> None:
    """log Z, marginals, expected counts and the most likely world."""
    model, data = parse_case(case), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        for question in (lapis.infer, lapis.map):
            with pytest.raises(lapis.LapisError):
                question(model, data, query=case.query, method="enumerate")
        return
    answer = lapis.infer(model, data, query=case.query, method="enumerate")
    assert answer.exact
    assert answer.log_partition == close(expected.log_partition)
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    assert answer.expected_counts.tolist() == close([expected.expected_counts[k] for k in keys])
    asked = {
        oracle.atom_text(model.predicates[name], arguments)
        for name, arguments in oracle.ground_atoms(model, oracle.constants_of(model, case.facts))
        if name in case.query
    }
    check_marginals(answer.marginals, expected, asked)
    everything = lapis.infer(model, data, open_predicates=case.query, method="enumerate")
    check_marginals(everything.marginals, expected, set(expected.marginals))

    # Atoms asked for by name are answered even if known; a bare name asks for a predicate.
    named = {atom: expected.marginals[atom] for atom in asked if "(" in atom}
    if asked:
        one_by_one = lapis.infer(model, data, query=sorted(asked), method="enumerate").marginals
        assert {atom: one_by_one[atom] for atom in named} == close(named)

    world = lapis.map(model, data, query=case.query, method="enumerate")
    assert world.optimal
    assert world.score == close(expected.map_score)
    assert set(world.atoms) == set(answer.marginals)
    assert any(
        all(value == (atom in best) for atom, value in world.atoms.items())
        for best in expected.map_worlds
    )


def check_marginals(
    found: dict[str, float], expected: oracle.OracleAnswer, asked: set[str]
) -> None:
    """Every atom asked for is answered, unless evidence and blocks leave it only one value."""
    assert set(found) <= asked & expected.unknown
    for atom in asked:
        if atom in found:
            assert found[atom] == close(expected.marginals[atom]), atom
            if abs(expected.log_odds[atom]) == math.inf:  # certain, whatever is rounded
                assert found[atom] in (0.0, 1.0), atom
        else:
            assert expected.marginals[atom] in (close(0.0), close(1.0)), atom


def check_scores(case: Case) -> None:
    """Counts and (pseudo-)log-likelihoods of a world seen in full."""
    model, data = parse_case(case), lapis.Database.parse(case.data)
    rows = lapis.count(model, data)
    counts = [(row.true, row.groundings) for row in rows]
    for (true, groundings), expected in zip(
        counts, oracle.count_true(model, case.facts).values(), strict=True
    ):
        assert (true, groundings) == (
            expected[0] if type(true) is int else close(expected[0]),
            expected[1],
        )
    domains = oracle.constants_of(model, case.facts)
    world = oracle.observed_world(model, case.facts, domains)
    for row in rows:
        # What a row is called is a formula of its own, with the same count.
        (rule,) = lapis.parse(f"{case.declarations}1 {row.formula}\n").rules
        bindings = oracle.bindings(rule.variables, domains)
        true = sum(
            bool(oracle.holds(rule, binding, world, domains)[0])
            * oracle.product_of(rule, binding, world, domains)
            for binding in bindings
        )
        assert (close(true), len(bindings)) == (row.true, row.groundings), row.formula
    try:
        pseudo = oracle.pseudo_log_likelihood(model, case.facts)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.score(model, data)
        return
    score = lapis.score(model, data, query=case.query)
    assert score.pseudo_log_likelihood == close(pseudo)
    assert score.log_likelihood == close(oracle.log_likelihood(model, case.facts))
    conditional = oracle.log_likelihood(model, case.facts, case.query)
    assert score.conditional_log_likelihood == close(conditional)


@given(cases())
def test_inference(case: Case) -> None:
    check_inference(case)


@given(cases(observed=True))
def test_scores(case: Case) -> None:
    check_scores(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=5_000)
def test_inference_at_length(case: Case) -> None:
    check_inference(case)


@pytest.mark.slow
@given(cases(observed=True))
@settings(max_examples=5_000)
def test_scores_at_length(case: Case) -> None:
    check_scores(case)


@pytest.mark.parametrize("weight", [0.3, 0.5, 0.7, 1.1, 1.9])
def test_what_hard_formulas_decide_is_certain_to_the_last_digit(weight: float) -> None:
    model = lapis.parse(
        "t = {A, B}\nu = {K, L, M}\nH(t)\nS(u)\nR(t, u)\n"
        f"{weight} H(x) <=> EXIST y R(x,y)\n2 H(x) ^ S(y)\n2 H(x) => (S(y) ^ R(x,y))\n"
        "H(x).\nEXIST y S(y).\n"
    )
    answer = lapis.infer(model, query=["H", "S", "R"], method="enumerate")
    assert [answer["H(A)"], answer["H(B)"]] == [1.0, 1.0]
