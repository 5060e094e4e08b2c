"""Replayed calls give the logged results, and a resumed solver the trajectory of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from known_objectives import Logistic, PlainPoint, maximize, random_logistic
from lapis.errors import LapisError
from lapis.optimisation import maximize as maximizing
from lapis.optimisation.checkpoint import CheckpointFile, read_checkpoint, write_checkpoint
from lapis.optimisation.lbfgs import Lbfgs
from lapis.optimisation.maximize import Trajectory
from lapis.optimisation.replay_log import (
    ReplayLog,
    ReplayMismatchError,
    hash_arguments,
    open_log,
    read_log,
)
from lapis.runtime.progress import Stop

STEEP = random_logistic(np.random.default_rng(7), 60, 6, ridge=0.1, spread=10.0)
PENALTY = np.array([0.0, 0.5, 2.0, 0.5, 100.0, 0.0])


def ascend(limits: Sequence[int], path: Path | None, l1: np.ndarray | None = None) -> Trajectory:
    """Stopped after each number of iterations, and resumed."""
    trajectories = [
        maximize(
            STEEP, Lbfgs(), np.zeros(6), l1=l1, lower=np.full(6, -3.0), max_iterations=limit,
            tolerance=1e-9, checkpoint=path,
        )
        for limit in limits
    ]  # fmt: skip
    return trajectories[-1]


def same_way(one: Trajectory, other: Trajectory) -> bool:
    return bool(
        one.weights.tolist() == other.weights.tolist()
        and [point[2:] for point in one.curve] == [point[2:] for point in other.curve]
        and (one.value, one.iterations, one.reason) == (other.value, other.iterations, other.reason)
    )


@pytest.mark.parametrize("l1", [None, PENALTY], ids=["smooth", "l1"])
@pytest.mark.parametrize("limits", [(0, 7), (1, 3, 7), (2, 2, 1000), (5, 9, 1000)])
def test_stopped_and_resumed_is_uninterrupted(
    limits: Sequence[int], l1: np.ndarray | None, tmp_path: Path
) -> None:
    straight = ascend(limits[-1:], None, l1)
    assert same_way(ascend(limits, tmp_path / "run", l1), straight)
    assert same_way(ascend(limits[-1:], tmp_path / "run", l1), straight)


@dataclass
class Counted(Logistic):
    """Counts its evaluations."""

    asked: int = 0

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        self.asked += 1
        return super().evaluate(weights)


def test_logged_points_are_not_evaluated_again(tmp_path: Path) -> None:
    counted = Counted(STEEP.features, STEEP.truth, STEEP.ridge)
    numbers = []
    for limit in (12, 13):
        maximize(
            counted, Lbfgs(), np.zeros(6), max_iterations=limit, tolerance=1e-12,
            checkpoint=tmp_path / "run",
        )  # fmt: skip
        numbers.append(counted.asked)
    assert numbers[1] - numbers[0] < numbers[0] / 2


def test_without_a_log_the_maximum_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = ascend((1000,), None)
    monkeypatch.setattr(maximizing, "MAX_LOG_BYTES", 3 * 7 * 8)
    resumed = ascend((5, 9, 1000), tmp_path / "run")
    saved = read_checkpoint(tmp_path / "run", "lbfgs", "")
    assert saved is not None
    assert len(saved.arrays["log.digest"]) == 0
    assert resumed.converged
    assert resumed.weights == pytest.approx(straight.weights, abs=1e-9)


def test_a_solver_that_leaves_its_log_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ascend((5,), path)
    saved = read_checkpoint(path, "lbfgs", "")
    assert saved is not None
    digests = saved.arrays["log.digest"].copy()
    digests[2] += np.uint64(1)
    write_checkpoint(path, replace(saved, arrays={**saved.arrays, "log.digest": digests}))
    resumed = ascend((8, 1000), path)
    assert resumed.converged
    assert [point.iteration for point in resumed.curve] == list(range(len(resumed.curve)))
    assert resumed.weights == pytest.approx(ascend((1000,), None).weights, abs=1e-9)


CALLS = [(("gain", 1), [0.5]), (("weights", 2), [1.5, -0.0, np.inf]), ("nothing", [])]


def test_a_replayed_log_gives_what_was_recorded_and_goes_on() -> None:
    log = ReplayLog()
    for arguments, result in CALLS:
        assert log.call(arguments, lambda result=result: result) == result
    again = read_log(log.arrays())
    for arguments, result in CALLS:
        assert again.call(arguments, lambda: pytest.fail("computed again")) == result
    assert again.replay("more") is None
    assert again.call("more", lambda: [7.0]) == [7.0]
    assert read_log(again.arrays()).digests == [
        hash_arguments(each) for each, _ in (*CALLS, ("more", 0))
    ]


def test_another_call_than_the_logged_one_is_a_mismatch() -> None:
    log = ReplayLog()
    log.record("first", [1.0])
    again = read_log(log.arrays())
    with pytest.raises(ReplayMismatchError):
        again.replay("second")
    assert again.call("first", lambda: [2.0]) == [1.0]


def test_a_log_that_grows_too_large_is_dropped() -> None:
    log = ReplayLog(max_bytes=32)
    for number in range(4):
        log.record(number, [0.0])
    assert len(log.results) == 4
    log.record(4, [0.0])
    log.record(5, [0.0])
    assert (log.digests, log.results) == ([], [])


def test_after_a_stop_nothing_is_replayed_or_logged() -> None:
    stop = Stop()
    log = ReplayLog([hash_arguments("first")], [np.ones(1)], stop=stop)
    stop.request()
    assert log.call("other", lambda: [3.0]) == [3.0]
    assert len(log.results) == 1


def test_a_file_holds_the_log_of_its_own_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    file = CheckpointFile(path, "search", "data")
    log = open_log(file, Stop())
    log.record("first", [1.0])
    file.write()
    again = open_log(CheckpointFile(path, "search", "data"), Stop())
    assert again.call("first", lambda: [2.0]) == [1.0]
    for method, fingerprint in (("other", "data"), ("search", "other")):
        with pytest.raises(LapisError) as caught:
            open_log(CheckpointFile(path, method, fingerprint), Stop())
        assert caught.value.code == "foreign-checkpoint"
