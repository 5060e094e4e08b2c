"""Circuits of random models, evidence and budgets, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
import oracle
from circuits.random_factors import all_rows, enumerate_marginals, random_graph
from lapis.circuits import infer as circuit_inference
from lapis.circuits.approximation.approximate import find_structure, fit_structure
from lapis.circuits.evaluation import no_evidence, posteriors
from lapis.errors import LapisError, TooLarge
from oracle import NoWorld
from strategies import Case, cases


@settings(max_examples=25)
@given(cases())
def test_marginals_by_circuit(case: Case) -> None:
    """Blocks, hard rules and partial data are compiled, and the answer is marked exact."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        with pytest.raises(LapisError):
            lapis.infer(model, data, query=case.query, method="circuit")
        return
    found = lapis.infer(model, data, query=case.query, method="circuit")
    assert found.exact
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    for atom, probability in found.marginals.items():
        assert probability == pytest.approx(expected.marginals[atom], abs=1e-9)


@settings(max_examples=6)
@given(cases())
def test_an_approximation_never_says_exact(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(circuit_inference, "COMPILED_EDGES", 0)
        patch.setattr(circuit_inference, "NUM_SAMPLES", 200)
        try:
            found, again = (
                lapis.infer(model, data, query=case.query, method="circuit") for _ in range(2)
            )
        except LapisError:
            with pytest.raises(NoWorld):
                oracle.infer(model, case.facts, case.query)
            return
    assert found.exact == ("compiled_by" in found.diagnostics)
    assert found.exact == (found.log_partition is not None)
    assert again.marginals == found.marginals
    assert all(0.0 <= probability <= 1.0 for probability in found.marginals.values())


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["auto", "F", "G", "V", "VI", "E", "P"]))
def test_approximations_of_small_models(seed: int, parameters: str) -> None:
    """Zeros, single states, evidence on some or all variables: a distribution or an error."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 5)))
    row = np.where(rng.random(graph.num_variables) < rng.random(), rng.integers(graph.size), -1)
    row = row.astype(np.int32)
    given_graph = graph.condition({int(v): int(row[v]) for v in np.flatnonzero(row >= 0)})
    if not np.isfinite(given_graph.log_score(all_rows(given_graph))).any():
        with pytest.raises(LapisError, match="no possible state"):
            find_structure(graph, row, 400, 500, seed)
        return
    structure = find_structure(graph, row, 400, 500, seed)
    found = fit_structure(graph, structure, row, parameters, seed)
    assert found.circuit.num_edges <= 400
    log_z, marginal = enumerate_marginals(given_graph)
    states = posteriors(found.circuit, no_evidence(found.circuit))
    assert states[0][0] == pytest.approx(0.0, abs=1e-9)
    if found.bound is not None:
        assert found.bound <= log_z + 1e-8
    if found.parameters == "E":
        assert found.log_partition == pytest.approx(log_z, abs=1e-8)
        assert found.state_stderr is not None
        assert (np.abs(states[1][0] - marginal) <= 6 * found.state_stderr + 2e-3).all()
    again = fit_structure(graph, structure, row, parameters, seed)
    np.testing.assert_array_equal(again.circuit.log_parameter, found.circuit.log_parameter)


def test_a_budget_that_nothing_fits() -> None:
    graph = random_graph(np.random.default_rng(5), 4)
    with pytest.raises(TooLarge) as raised:
        find_structure(graph, np.full(4, -1, np.int32), 1, 100)
    assert str(raised.value).startswith("no circuit of at most 1 edges was found; the smallest has")


def test_nothing_is_unknown() -> None:
    model = lapis.parse("t = {A}\nP(t)\nQ(t)\n0.3 P(x) => Q(x)")
    found = lapis.infer(
        model, lapis.Database.parse("P(A)\nQ(A)"), query=["P", "Q"], method="circuit"
    )
    assert found.exact
    assert found.log_partition == pytest.approx(0.3)
    assert lapis.infer(lapis.parse("P(t)\n1 P(x)"), query=["P"], method="circuit").exact
