"""Detection of chains that have not left the worlds near the data."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from lapis.learning.examples import build_examples
from lapis.learning.mixing import find_doubtful_counts, find_doubtful_moments
from lapis.learning.objectives import count_based
from lapis.learning.objectives.conditional import ConditionalObjective, conditional_objective
from lapis.learning.objectives.count_based import (
    CountObjective,
    count_objective,
    randomize_world,
)
from lapis.learning.parameters import share_parameters

PEOPLE = "p = {" + ", ".join(f"A{i}" for i in range(12)) + "} "
SMOKERS = PEOPLE + " ".join(f"S(A{i})" for i in range(9))
CLUSTERS = " ".join(f"Same(A{i},A{j})" for i in range(12) for j in range(12) if i // 4 == j // 4)
COLOURS = PEOPLE + "c = {Red, Blue} " + " ".join(f"C(A{i},Red)" for i in range(12))
PAIRS = PEOPLE + " ".join(f"S(A{i}) T(A{i})" for i in range(2))

# In each pair the same rules: with weights at which single flips leave no region, and with some
# at which they do. A ferromagnet of n spins with weight w for each of n² ordered pairs of equals
# changes its score by about 2wn when one of them is turned against the others.
FROZEN = {
    "ferromagnet": ("S(p)\n1 S(x) <=> S(y)\n0 S(x)", SMOKERS),
    "clusters": ("Same(p, p)\n6 Same(x,y) ^ Same(y,z) => Same(x,z)\n0 Same(x,y)", CLUSTERS),
    "blocks": ("C(p, c!)\n1 C(x,k) ^ C(y,k)\n0 C(x,Red)", COLOURS),
    "hard equivalence": ("S(p)\nT(p)\nS(x) <=> T(x).\n0 S(x)", PAIRS),
}
MIXING = {
    "ferromagnet": ("S(p)\n0.02 S(x) <=> S(y)\n0.5 S(x)", SMOKERS),
    "clusters": ("Same(p, p)\n0.02 Same(x,y) ^ Same(y,z) => Same(x,z)\n-1 Same(x,y)", CLUSTERS),
    "blocks": ("C(p, c!)\n0.02 C(x,k) ^ C(y,k)\n0.5 C(x,Red)", COLOURS),
    "hard implication": ("S(p)\nT(p)\nS(x) => T(x).\n0 S(x)", PAIRS),
    # What hard rules decide by themselves comes back however coins fall.
    "decided": ("S(p)\nT(p)\nT(A0).\nS(A1) ^ !T(A5).\n0.3 S(x) v T(x)", PAIRS),
}


def objective_of(model: str, facts: str, seed: int) -> CountObjective:
    parsed = lapis.parse(model)
    examples = build_examples(parsed, [lapis.Database.parse(facts)])
    parameters = share_parameters(parsed, [example.complete for example in examples])
    return count_objective(examples, parameters, seed=seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", FROZEN)
def test_frozen_chains_are_detected(name: str, seed: int) -> None:
    objective = objective_of(*FROZEN[name], seed)
    assert len(find_doubtful_counts(objective, objective.parameters.initial))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", MIXING)
def test_chains_that_go_round_are_not_doubted(name: str, seed: int) -> None:
    objective = objective_of(*MIXING[name], seed)
    assert not len(find_doubtful_counts(objective, objective.parameters.initial))


@pytest.mark.parametrize("few", [True, False])
def test_coins_leave_blocks_whole_and_evidence_alone(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_based, "MOST_COINS", 20_000 if few else 0)
    model = lapis.parse("C(p, c!)\nD(p, c?)\nS(p)\nT(p)\n0.1 S(x) ^ T(x)\n0 C(x,k) ^ D(x,k)")
    facts = lapis.Database.parse(COLOURS + " T(A0) S(A0)")
    examples = build_examples(model, [facts], ["C", "D", "S"])
    objective = count_objective(
        examples, share_parameters(model, [example.complete for example in examples])
    )
    [world] = objective.worlds
    seen = []
    for _ in range(40):
        randomize_world(world)
        one = world.chain.true_rows("C")
        assert sorted(one[:, 0].tolist()) == list(range(12))
        most = world.chain.true_rows("D")[:, 0].tolist()
        assert len(set(most)) == len(most)
        assert world.chain.true_rows("T").tolist() == [[0]]
        seen.append(len(world.chain.true_rows("S")))
    # 480 coins: heads within five standard deviations, in large worlds as rare as in the data.
    rate = 0.5 if few else 1 / 12
    assert abs(np.mean(seen) / 12 - rate) < 5 * np.sqrt(rate * (1 - rate) / 480)


def sampled_of(model: str, facts: str, expectation: str) -> ConditionalObjective:
    parsed = lapis.parse(model)
    examples = build_examples(parsed, [lapis.Database.parse(facts)], list(parsed.predicates))
    parameters = share_parameters(parsed, [example.complete for example in examples])
    return conditional_objective(examples, parameters, expectation=expectation)


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_chains_of_ground_networks_are_detected(name: str) -> None:
    """Atoms that hard equivalences tie together move together, so they do not freeze a chain."""
    model, facts = FROZEN[name]
    weights = np.array([r.weight for r in lapis.parse(model).rules if not r.hard])
    doubtful = find_doubtful_moments(sampled_of(model, facts, "gibbs"), weights)
    assert bool(len(doubtful)) == (name != "hard equivalence")


@pytest.mark.parametrize("expectation", ["gibbs", "mcsat"])
@pytest.mark.parametrize("name", MIXING)
def test_chains_of_ground_networks_that_go_round_are_not_doubted(
    name: str, expectation: str
) -> None:
    model, facts = MIXING[name]
    weights = np.array([r.weight for r in lapis.parse(model).rules if not r.hard])
    objective = sampled_of(model, facts, expectation)
    assert not len(find_doubtful_moments(objective, weights))


def test_a_ferromagnet_that_is_sampled_has_not_converged() -> None:
    """Chains that never left 29 of 30 had no use for the thirtieth: −25 ± 5, called converged,
    where (30 log-odds of the two signs) log(29)/30 is the best."""
    model = lapis.parse("S(p)\n@fixed 1 S(x) <=> S(y)\nS(x)")
    facts = " ".join(f"S({i})" for i in range(29))
    data = lapis.Database.parse("p = {0, ..., 29} " + facts)
    fit = lapis.learn(model, data, "S", expectation="gibbs")
    assert (fit.converged, fit.details["chains_mix"]) == (False, False)
    assert fit["S(x)"] < -20
    fit = lapis.learn(model, data, "S", expectation="mcsat")
    assert fit.details["chains_mix"] is True
    assert abs(fit["S(x)"]) < 1


def test_weights_of_frozen_chains_have_not_converged() -> None:
    """A hard equivalence keeps both sides as the data has them: the weight stayed at 0 where the
    best is log 1/5 (2 of 12 pairs, nearly without a prior), and learning called that converged."""
    model = lapis.parse("S(p)\nT(p)\nU(p)\nS(x) <=> T(x).\n0 S(x)\n0 U(x)")
    data = lapis.Database.parse(PAIRS + " U(A3)")
    fit = lapis.learn(model, data, ["S", "T", "U"], expectation="count-gibbs", prior="gaussian:9")
    assert fit["S(x)"] == 0.0
    assert not fit.converged
    assert fit.reason == "chains that start elsewhere stay at other counts"
    assert fit.details["chains_mix"] is False
    assert fit.warnings == (
        "chains do not mix: chains that start elsewhere stay at other counts of 'S(x)', so that "
        "the weights explain the data only among worlds near it; "
        "a stronger prior, or --expectation mcsat, may help",
    )
    assert "standard errors are those of the worlds near the data" in fit.text
    with_one = lapis.parse("S(p)\nU(p)\n0 S(x)\n0 U(x)")
    alone = lapis.Database.parse(PEOPLE + "S(A0) S(A1) U(A3)")
    free = lapis.learn(with_one, alone, ["S", "U"], expectation="count-gibbs", prior="gaussian:9")
    assert free.converged
    assert free.details["chains_mix"] is True
    assert free.warnings == ()


def test_restarted_chains_warn_of_what_they_learn() -> None:
    """Restarted chains have the gradient of the pseudo-likelihood, whatever was asked for."""
    model, data = lapis.parse("S(p)\n0 S(x)"), lapis.Database.parse(SMOKERS)
    fit = lapis.learn(model, data, "S", expectation="count-gibbs", max_iterations=2, num_steps=1)
    assert fit.details["chains_mix"] is None
    assert fit.warnings == (
        "chains restart in the data before they complete a sweep: the weights are near those "
        "of --objective pseudo, not of a likelihood",
    )
