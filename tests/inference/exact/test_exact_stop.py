"""Test that exact work checks `stop`: between cliques, components, orders and theories."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lapis
from exact_networks import random_network
from lapis.errors import TooLarge
from lapis.inference.exact import junction_tree
from lapis.inference.exact.by_components import plan_exact
from lapis.lifted.compilation import compiler as lifted_compilation
from lapis.runtime import progress
from lapis.runtime.progress import Progress, Stop

PEOPLE = [f"P{i}" for i in range(16)]
MODEL = lapis.parse("Friends(p, p)\nSmokes(p)\n0.4 Smokes(x)\n"
                    "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n")  # fmt: skip
CROWD = lapis.Database.parse(  # all people are interchangeable
    "\n".join(f"Friends({one},{two})" for one in PEOPLE for two in PEOPLE)
)
CHAIN = lapis.Database.parse(
    "\n".join(f"Friends({one},{two})" for one, two in itertools.pairwise(PEOPLE))
)
WORK = {
    ("infer", "exact", "chain"): "exact inference",
    ("infer", "exact", "crowd"): "counting interchangeable atoms",
    ("infer", "enumerate", "chain"): "enumeration",
    ("infer", "lifted", "crowd"): "compiling a first-order circuit",
    ("map", "exact", "chain"): "exact inference",
    ("map", "enumerate", "chain"): "enumeration",
}


@pytest.fixture(autouse=True)
def no_small_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The networks here are small, and would be solved in the time that small work may take."""
    monkeypatch.setattr(progress, "SMALL_WORK", 0.0)


@pytest.mark.parametrize("asked", WORK, ids=" ".join)
@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ({"stop": lambda: True}, "was stopped"),
        ({"time_limit": 1e-9}, "did not end within the time limit"),
    ],
)
def test_exact_work_ends_without_an_answer(
    asked: tuple[str, str, str], limit: dict[str, object], why: str
) -> None:
    command, method, data = asked
    run = {"infer": lapis.infer, "map": lapis.map}[command]
    with pytest.raises(TooLarge) as caught:
        run(MODEL, {"chain": CHAIN, "crowd": CROWD}[data], "Smokes", method=method, **limit)
    assert caught.value.code == "stopped"
    assert caught.value.message == f"{WORK[asked]} {why}, and it has no partial result"


@pytest.mark.parametrize("method", ["auto", "ais"])
@pytest.mark.parametrize(
    "limit", [{"stop": lambda: True}, {"time_limit": 1e-9}], ids=["stop", "time"]
)
def test_what_can_be_sampled_is(method: str, limit: dict[str, object]) -> None:
    found = lapis.infer(MODEL, CROWD, "Smokes", method=method, **limit)
    assert not found.exact
    assert found.diagnostics["interrupted"] == ("stop" in limit)
    assert len(found) == len(PEOPLE)


def test_answers_in_runs_of_cliques_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def wish() -> bool:
        nonlocal asked
        asked += 1
        return False

    monkeypatch.setattr(junction_tree, "SLICE_ENTRIES", 4)
    for seed in range(20):
        network = random_network(np.random.default_rng(seed))
        try:
            plan = plan_exact(network)
            whole = plan.solve(log_odds=True)
        except lapis.LapisError:  # contradictory hard clauses
            continue
        in_runs = plan.solve(log_odds=True, stop=Stop(wish))
        assert in_runs.log_partition == whole.log_partition
        np.testing.assert_array_equal(in_runs.marginal, whole.marginal)
        np.testing.assert_array_equal(in_runs.expected_count, whole.expected_count)
        np.testing.assert_array_equal(plan.maximise(stop=Stop(wish)), plan.maximise())
    assert asked > 100


def test_a_circuit_that_is_compiled_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifted_compilation, "REPORT_INTERVAL", 1)
    told: list[Progress] = []
    lapis.infer(MODEL, CROWD, "Smokes", method="lifted", progress=told.append)
    done = [event.done for event in told if event.phase == "compiling"]
    assert done == list(range(1, len(done) + 1))
    assert len(done) >= 2  # all facts together are one theory
    half = len(done) // 2
    seen: list[Progress] = []
    with pytest.raises(TooLarge, match="was stopped"):
        lapis.infer(
            MODEL, CROWD, "Smokes", method="lifted", progress=seen.append,
            stop=lambda: len(seen) >= half,
        )  # fmt: skip
    assert len(seen) == half
