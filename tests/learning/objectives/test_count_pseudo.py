"""Pseudo-likelihood by estimated counts: exact where i is large, concave and repeatable else."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
from lapis.counting.ijgp import IjgpCounter, IjgpSettings
from lapis.errors import LapisError, TooLarge
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives import count_pseudo
from lapis.learning.objectives.count_pseudo import count_pseudo_objective
from lapis.learning.objectives.pseudo import pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.registry.options import CountDifferences
from strategies import Case, cases

LARGE = 20
MODELS = {
    "smokers": (
        "F(p, p)\nS(p)\nC(p)\nS(x) => C(x)\nF(x,y) ^ S(x) => S(y)\nF(x,y) <=> F(y,x)\nS(+x)",
        ("F(A,B) F(B,C) S(B) C(B)", "F(A,D) F(D,A) S(A) S(D)"),
    ),
    "exactly one": (
        "T(p, c!)\nL(p, p)\nL(x,y) ^ T(x,a) => T(y,a)\nT(x,+a)\nT(x,a) ^ T(y,a) ^ L(x,y)",
        ("T(P,A) T(Q,B) T(R,C) L(P,Q) L(Q,R)", "T(P,A) T(S,B) L(S,S)"),
    ),
    "at most one": ("T(p, c?)\nL(p, p)\nL(x,y) ^ T(x,a) => T(y,+a)", ("T(P,A) L(P,Q) L(Q,R)",)),
    "quantified": (
        "F(p, p)\nS(p)\nS(x) => EXIST y F(x,y)\nT(p, c!)\nEXIST c T(x,c) ^ T(y,c) ^ F(x,y)",
        ("F(A,B) S(A) T(A,X) T(B,Y)",),
    ),
}


def build(name: str, query: tuple[str, ...] = ()) -> tuple[list[Example], Parameters]:
    text, facts = MODELS[name]
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse(each) for each in facts], query)
    return examples, share_parameters(model, [example.complete for example in examples])


@pytest.mark.parametrize("differences", ["substituted", "subtracted"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_large_bound_gives_the_exact_objective(
    name: str, weighted: bool, differences: CountDifferences
) -> None:
    examples, parameters = build(name)
    ijgp = IjgpSettings(LARGE, differences=differences)
    found = count_pseudo_objective(examples, parameters, ijgp=ijgp, weighted=weighted)
    exact = pseudo_objective(examples, parameters, weighted=weighted)
    assert found.is_exact == (name != "quantified")
    assert found.num_atoms == exact.num_atoms
    np.testing.assert_allclose(found.true_counts, exact.true_counts)
    rng = np.random.default_rng(3)
    for _ in range(3):
        weights, direction = rng.normal(size=(2, len(parameters)))
        one, other = found.evaluate(weights), exact.evaluate(weights)
        assert one.value == pytest.approx(other.value, rel=1e-9)
        np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            one.curvature_product(direction),
            other.curvature_product(direction),
            rtol=1e-9,
            atol=1e-9,
        )


@given(cases(observed=True))
def test_random_models(case: Case) -> None:
    model = lapis.parse(case.model)
    assume(not any(rule.hard for rule in model.rules))
    examples = build_examples(model, [lapis.Database.parse(case.data)])
    parameters = share_parameters(model, [example.complete for example in examples])
    weights = np.cos(np.arange(len(parameters)))
    try:
        other = pseudo_objective(examples, parameters).evaluate(weights)
        one = count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(LARGE)).evaluate(
            weights
        )
    except TooLarge:  # a clause with a dozen literals of one predicate
        return
    except LapisError:  # a block whose values have no constants
        with pytest.raises(LapisError):
            count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(LARGE))
        return
    assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-9, atol=1e-9)


def ring(query: tuple[str, ...] = ()) -> tuple[list[Example], Parameters]:
    model = lapis.parse("E(n, n)\nS(n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x) ^ S(x) => S(z)\nS(x)")
    facts = " ".join(f"E({a},{b})" for a in range(6) for b in range(6) if (b - a) % 6 in (1, 2, 4))
    examples = build_examples(model, [lapis.Database.parse(facts + " S(0) S(3)")], query)
    return examples, share_parameters(model, [example.complete for example in examples])


def test_subtracted_counts_are_those_of_equation_five() -> None:
    """Σ log P(g | rest), P(g = s | rest) ∝ exp Σ w_j M_j(rest, g = s), written out."""
    examples, parameters = ring(("S",))
    ijgp = IjgpSettings(1, differences="subtracted")
    found = count_pseudo_objective(examples, parameters, ijgp=ijgp)
    assert not found.is_exact
    problem = examples[0].complete
    true = {name: known.true for name, known in problem.evidence.items()}
    counter = IjgpCounter(problem.normal_form, problem.model, problem.domains, ijgp)
    here = counter.count(true).count
    weights, total = np.array([0.02, -0.3]), 0.0
    for atom in range(6):
        holds = bool((true["S"] == atom).any())
        there = deepcopy(counter).update("S", (atom,), not holds).count
        total -= np.log1p(np.exp(weights @ there - weights @ here))
    # Differences are rounded to six decimals.
    assert found.evaluate(weights).value == pytest.approx(total, abs=1e-5)
    other = count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(1))
    assert other.evaluate(weights).value != pytest.approx(total, abs=1e-3)


def test_a_small_bound_says_so_and_has_its_own_gradient() -> None:
    examples, parameters = ring()
    found = count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(1))
    assert not found.is_exact
    assert "estimated by IJGP(1)" in "; ".join(found.notes)
    weights = np.array([0.02, -0.3])
    numeric = [
        (found.evaluate(weights + step).value - found.evaluate(weights - step).value) / 2e-5
        for step in 1e-5 * np.eye(2)
    ]
    np.testing.assert_allclose(found.evaluate(weights).gradient, numeric, rtol=1e-6)
    exact = pseudo_objective(examples, parameters).evaluate(weights)
    assert found.evaluate(weights).value != pytest.approx(exact.value, rel=1e-6)


def test_only_listed_atoms_are_in_the_sum() -> None:
    model = lapis.parse("P(t)\nQ(t, t)\nP(x) ^ Q(x,y) => P(y)\nP(x)")
    data = lapis.Database.parse("P(A) !P(B) Q(A,B) Q(B,C) t = {D}")
    examples = build_examples(model, [data], ["P"], only_listed=True)
    parameters = share_parameters(model, [examples[0].complete])
    found = count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(LARGE))
    exact = pseudo_objective(examples, parameters)
    assert found.num_atoms == exact.num_atoms == 2
    weights = np.array([0.3, -0.2])
    assert found.evaluate(weights).value == pytest.approx(exact.evaluate(weights).value)


def test_too_many_atoms_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_pseudo, "MAX_LISTED", 100)
    model = lapis.parse("F(p, p)\nS(p)\nF(x,y) ^ S(x) => S(y)\nF(x,y)")
    facts = " ".join(f"F(P{i},P{(7 * i + 3) % 40})" for i in range(40))
    smokers = " ".join(f"S(P{i})" for i in range(0, 40, 3))
    examples = build_examples(model, [lapis.Database.parse(f"{facts} {smokers}")], ["F"])
    parameters = share_parameters(model, [examples[0].complete])
    found = count_pseudo_objective(examples, parameters, ijgp=IjgpSettings(LARGE))
    assert not found.is_exact
    assert "of 1,600 atoms of 'F', a sample" in "; ".join(found.notes)
    assert found.num_atoms == 1600
    weights = np.array([0.4, -1.0])
    exact = pseudo_objective(examples, parameters).evaluate(weights)
    # 100,000 draws: the share of smokers' friends is off by less than a percent.
    assert found.evaluate(weights).value == pytest.approx(exact.value, rel=0.01)
    blocks, shared = build("exactly one")
    monkeypatch.setattr(count_pseudo, "MAX_LISTED", 5)
    with pytest.raises(TooLarge, match="atoms in blocks of 'T'"):
        count_pseudo_objective(blocks, shared, ijgp=IjgpSettings())


def test_hard_rules_are_refused() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) v Q(x).\nP(x)")
    examples = build_examples(model, [lapis.Database.parse("P(A)")])
    parameters = share_parameters(model, [examples[0].complete])
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        count_pseudo_objective(examples, parameters, ijgp=IjgpSettings())
