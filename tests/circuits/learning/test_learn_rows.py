"""Costs chosen on held-out rows, against learning with each pair of costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lapis.circuits.learning.learn_rows import SLACK, CircuitFit, choose_costs, learn_rows
from lapis.circuits.learning.split_search import learn_circuit
from lapis.errors import LapisError
from lapis.runtime.progress import Progress, Stop

NAMES = ["a", "b", "c", "d"]
STATES = [["0", "1"]] * 4


def make(num_rows: int, seed: int) -> np.ndarray:
    """Return a chain of noisy copies."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, 2, num_rows)]
    for noise in (0.1, 0.2, 0.35):
        rows.append(rows[-1] ^ (rng.random(num_rows) < noise))
    return np.stack(rows, axis=1)


TRAIN, VALID = make(60, 1), make(4000, 2)


def test_the_best_pair_is_kept() -> None:
    seen: list[Progress] = []
    found = learn_rows(
        TRAIN, VALID, NAMES, STATES, edge_costs=(0.01, 0.3, 3.0), parameter_costs=(0.0, 0.5),
        progress=seen.append,
    )  # fmt: skip
    values = {}
    for trial in found.trials:
        alone = learn_circuit(
            TRAIN, NAMES, STATES, edge_cost=trial.edge_cost, parameter_cost=trial.parameter_cost
        )
        assert alone.circuit is not None
        assert trial.edges == alone.circuit.num_edges
        values[trial[:2]] = alone.network.log_likelihoods(VALID).mean()
        assert trial.valid_log_likelihood == pytest.approx(values[trial[:2]], abs=1e-12)
    best = max(values, key=lambda pair: values[pair])
    assert (found.edge_cost, found.parameter_cost) == best
    assert found.fit.log_likelihoods(VALID).mean() == pytest.approx(values[best], abs=1e-12)
    partly = np.where(np.arange(4) == 1, -1, VALID)  # summed out
    assert found.fit.log_likelihoods(partly).mean() > values[best]
    chosen = [event for event in seen if event.phase == "circuits"]
    assert [event.figures["held out"] for event in chosen] == pytest.approx(list(values.values()))


def fit_with(edges: int) -> CircuitFit:
    """A fit with a given held-out log-likelihood."""
    found = learn_circuit(TRAIN, NAMES, STATES, edge_cost=1e9)
    assert found.circuit is not None
    return CircuitFit(found.circuit, found.network, edges, True)


def test_a_path_ends_where_held_out_rows_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {1.0: -3.0, 0.5: -2.0, 0.2: -2.0 - SLACK / 2, 0.1: -2.5, 0.05: -1.0}
    asked: list[tuple[float, float]] = []
    fits: dict[int, float] = {}

    def learn(price: float, parameter_cost: float) -> CircuitFit:
        asked.append((price, parameter_cost))
        fits[len(asked)] = values[price] - parameter_cost
        return replace(fit_with(0), num_splits=len(asked))

    monkeypatch.setattr(
        CircuitFit, "log_likelihoods", lambda fit, rows: np.full(len(rows), fits[fit.num_splits])
    )
    _, best, trials = choose_costs(learn, list(values), (0.0, 0.25), VALID, Stop())
    path = [1.0, 0.5, 0.2, 0.1]
    assert asked == [(k, 0.25) for k in path] + [(k, 0.0) for k in path]
    assert (best.edge_cost, best.parameter_cost) == (0.5, 0.0)
    assert len(trials) == 8
    wishes = iter([False, True])
    fit, best, trials = choose_costs(
        learn, (1.0, 0.5, 0.2), (0.0,), VALID, Stop(lambda: next(wishes))
    )
    assert [trial.edge_cost for trial in trials] == [1.0, 0.5]
    assert not fit.converged


def test_mixtures_choose_with_one_start() -> None:
    found = learn_rows(
        TRAIN, VALID[:200], NAMES, STATES, edge_costs=(5.0, 0.1), num_components=2, num_starts=2
    )
    assert len(found.trials) == 2
    assert max(found.trials, key=lambda trial: trial.valid_log_likelihood)[0] == found.edge_cost
    again = learn_rows(
        TRAIN, VALID[:200], NAMES, STATES, edge_costs=(found.edge_cost,), num_components=2,
        num_starts=2,
    )  # fmt: skip
    assert (again.fit.log_likelihoods(VALID) == found.fit.log_likelihoods(VALID)).all()


def test_states_that_only_held_out_rows_have() -> None:
    """States without rows get the prior's share."""
    train, valid = np.array([[0, 0], [1, 1], [0, 0]]), np.array([[2, 0]])
    states = [["a", "b", "c"], ["0", "1"]]
    alone = learn_rows(train, valid, ["x", "y"], states, edge_costs=(9.0,))
    prior = np.log((1 / 3) / 4) + np.log((2 + 1 / 2) / 4)
    assert alone.fit.log_likelihoods(valid) == pytest.approx([prior], abs=1e-12)
    for arguments in ({"num_components": 2}, {"method": "tree"}, {"num_starts": 2}):
        found = learn_rows(train, valid, ["x", "y"], states, **arguments)  # type: ignore[arg-type]
        assert np.isfinite(found.fit.log_likelihoods(valid)).all()
    nobody = learn_rows(train, valid[:0], ["x", "y"], states, num_components=2)
    assert nobody.fit.converged


def test_a_choice_needs_held_out_rows() -> None:
    for valid in (None, VALID[:0]):
        with pytest.raises(LapisError, match="several costs need held-out rows"):
            learn_rows(TRAIN, valid, NAMES, STATES, edge_costs=(0.1, 0.2))
