"""Test the methods of `lapis.infer`: exact ones to 1e-9, samplers within their errors."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import lapis
from lapis.grounding.bottom_up import ground
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.inference.plan import candidate_samplers
from lapis.inference.solve import infer_network
from lapis.problem.problem import build_problem

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.4 Smokes(x)
"""
FACTS = "Friends(A,B) Friends(B,C) Friends(C,A) Friends(C,D) Friends(D,E) Friends(E,A) Smokes(B)"


MILD = SMOKERS.replace("1.1 Friends", "0.2 Friends")
PEOPLE = [f"P{i}" for i in range(9)]
CROWD = " ".join(f"Friends({a},{b})" for a in PEOPLE for b in PEOPLE if a != b)


def apart(people: list[str]) -> str:
    """Return a small weight for each atom, so that no two are interchangeable."""
    return "".join(f"{0.001 * (i + 1)} Smokes({name})\n" for i, name in enumerate(people))


def network_of(text: str, facts: str, query: list[str]) -> lapis.ground:
    return ground(build_problem(lapis.parse(text), lapis.Database.parse(facts), query))


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_exact_methods_agree_with_enumeration(method: str) -> None:
    network = network_of(SMOKERS, FACTS, ["Smokes", "Cancer"])
    expected, found = enumerate_worlds(network), infer_network(network, method)
    assert found.exact
    np.testing.assert_allclose(found.marginal, expected.marginal, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, atol=1e-9)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)


@pytest.mark.parametrize("method", ["gibbs", "mcsat"])
def test_samplers_agree_within_their_errors(method: str) -> None:
    network = network_of(MILD, CROWD, ["Smokes", "Cancer"])
    expected = infer_network(network, "exact")
    found = infer_network(network, method, InferenceOptions(precision=0.001, seed=1))
    assert not found.exact
    assert found.stderr is not None
    allowed = np.maximum(4 * found.stderr, 1e-9)
    assert (np.abs(found.marginal - expected.marginal) <= np.minimum(allowed, 0.02)).all()
    spread = np.array(found.diagnostics["expected_counts_stderr"])
    assert (spread > 0).all()
    assert (np.abs(found.expected_count - expected.expected_count) <= 4 * spread).all()


def test_what_is_too_wide_is_sampled_and_says_so() -> None:
    people = [f"P{i}" for i in range(17)]
    crowd = " ".join(f"Friends({a},{b})" for a in people for b in people if a != b)
    weak = MILD.replace("0.2 Friends", "0.1 Friends")
    network = network_of(weak + apart(people), crowd + " Friends(X,Y)", ["Smokes", "Cancer"])
    found = infer_network(network, "auto", InferenceOptions(max_memory=1 << 18, precision=0.01))
    expected = infer_network(network, "exact")
    assert found.method in ("exact+gibbs", "exact+cluster")
    exact = found.is_exact
    assert 0 < exact.sum() < network.num_base_atoms
    np.testing.assert_allclose(found.marginal[exact], expected.marginal[exact], atol=1e-9)
    np.testing.assert_allclose(found.marginal, expected.marginal, atol=0.04)
    spread = np.array(found.diagnostics["expected_counts_stderr"])
    np.testing.assert_array_less(
        np.abs(found.expected_count - expected.expected_count), 5 * spread + 1e-9
    )


def test_where_elimination_answers_all_nothing_is_sampled() -> None:
    network = network_of(SMOKERS, "Friends(A,B)", ["Smokes", "Cancer"])
    found, expected = infer_network(network, "gibbs"), enumerate_worlds(network)
    assert found.exact
    np.testing.assert_allclose(found.marginal, expected.marginal, atol=1e-9)


def test_the_same_seed_gives_the_same_answer() -> None:
    network = network_of(MILD, CROWD, ["Smokes", "Cancer"])
    first, again = (
        infer_network(network, "gibbs", InferenceOptions(max_samples=500, seed=7)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.marginal, again.marginal)


def test_candidates_fit_the_clauses() -> None:
    """Units need Gibbs only, pairs may need clusters, hard clauses MC-SAT."""
    units = network_of(SMOKERS, FACTS, ["Cancer"])
    soft = network_of(SMOKERS, FACTS, ["Smokes"])
    strong = network_of(SMOKERS.replace("1.1", "9"), FACTS, ["Smokes"])
    hard = network_of(SMOKERS + "Smokes(x) v Cancer(x).\n", FACTS, ["Smokes", "Cancer"])
    assert candidate_samplers(units) == ["gibbs"]
    assert candidate_samplers(soft) == ["gibbs", "cluster"]
    assert candidate_samplers(strong) == candidate_samplers(hard) == ["mcsat", "gibbs", "cluster"]


@pytest.mark.parametrize("names", [["gibbs"], ["gibbs", "cluster"]])
def test_chains_that_stay_apart_are_mixed(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pilots choose a sampler that crosses between modes if there is one.

    Else the modes are weighed.
    """
    monkeypatch.setattr("lapis.inference.plan.candidate_samplers", lambda core: names)
    people = [f"P{i}" for i in range(17)]
    crowd = " ".join(f"Friends({a},{b})" for a in people for b in people if a != b)
    model = SMOKERS.replace("-0.4 Smokes", "0.35 Smokes") + apart(people)
    network = network_of(model, crowd, ["Smokes"])
    found = infer_network(network, "auto", InferenceOptions(max_memory=1 << 18, max_samples=40_000))
    expected = infer_network(network, "exact")
    if "cluster" in names:
        assert found.method == "cluster"
        assert found.diagnostics["pilots"]["gibbs"] > found.diagnostics["pilots"]["cluster"] == 1.0
        assert found.diagnostics["converged"]
    else:
        assert found.method == "gibbs"
        assert sum(mode.weight for mode in found.modes) == pytest.approx(1.0)
    assert np.abs(found.marginal - expected.marginal).max() <= max(
        0.02, 4 * float(np.max(found.stderr))
    )
    assert float(np.max(found.stderr)) < 0.05


@pytest.mark.parametrize("name", ["convert_to_inference_data", "convert_to_datatree"])
def test_chains_are_handed_to_arviz(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(**{name: lambda draws: draws}))
    model, data = lapis.parse(MILD), lapis.Database.parse(CROWD)
    answer = lapis.infer(model, data, query=["Smokes"], method="gibbs", max_samples=400)
    draws = answer.to_arviz()
    assert tuple(draws) == answer.traced
    assert draws[answer.traced[0]].shape == answer.trace.shape[:2]
    with pytest.raises(lapis.LapisError, match="no chains"):
        lapis.infer(model, data, query=["Smokes"], method="exact").to_arviz()


def test_chains_of_several_worlds_say_whose_they_are() -> None:
    model, data = lapis.parse(MILD), lapis.Database.parse(CROWD)
    answer = lapis.infer(model, [data, data], query=["Smokes"], method="gibbs", max_samples=400)
    named = {f"{world}: {atom}" for world, atom in answer.keys}
    assert answer.traced
    assert named.issuperset(answer.traced)


def test_chains_and_bars_are_plotted() -> None:
    import matplotlib

    matplotlib.use("Agg")
    model, data = lapis.parse(MILD), lapis.Database.parse(CROWD)
    answer = lapis.infer(model, data, query=["Smokes"], method="gibbs", max_samples=400)
    chains, bars = answer.plot_chains(), answer.plot(limit=5)
    assert len(chains.lines) == answer.diagnostics["chains"]
    assert len(bars.patches) == 5
    matplotlib.pyplot.close("all")


def test_answers_carry_errors_methods_and_chains() -> None:
    model = lapis.parse(MILD)
    data = lapis.Database.parse(CROWD + " Smokes(P0)")
    answer = lapis.infer(model, data, query=["Smokes(P0)", "Smokes"], method="gibbs")
    assert (answer["Smokes(P0)"], answer.errors[0]) == (1.0, 0.0)
    assert (answer.errors[1:] > 0).all()
    assert answer.trace is not None
    assert answer.trace.shape[0] == answer.diagnostics["chains"]
    assert answer.trace.shape[2] == len(answer.traced)
    assert set(answer.traced) <= set(answer.atoms)
    again = answer.to_json()
    assert (again["exact"], again["atoms"][1]["method"]) == (False, "gibbs")
