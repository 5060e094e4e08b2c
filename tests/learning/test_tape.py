"""A resumed solver goes the way it would have gone, and where it cannot, to the same maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from objectives import Logistic, PlainPoint, random_logistic

from lapis.optimisation import tape
from lapis.optimisation.checkpoint import read_checkpoint, write_checkpoint
from lapis.optimisation.climb import Course, climb
from lapis.optimisation.lbfgs import Lbfgs

STEEP = random_logistic(np.random.default_rng(7), 60, 6, ridge=0.1, spread=10.0)
PENALTY = np.array([0.0, 0.5, 2.0, 0.5, 100.0, 0.0])


def ascend(limits: Sequence[int], path: Path | None, l1: np.ndarray | None = None) -> Course:
    """Stopped after each number of iterations, and resumed."""
    courses = [
        climb(
            STEEP, Lbfgs(), np.zeros(6), l1=l1, lower=np.full(6, -3.0), max_iterations=limit,
            tolerance=1e-9, checkpoint=path,
        )
        for limit in limits
    ]  # fmt: skip
    return courses[-1]


def same_way(one: Course, other: Course) -> bool:
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
    """Knows how often it was evaluated."""

    asked: int = 0

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        self.asked += 1
        return super().evaluate(weights)


def test_what_was_told_is_not_evaluated_again(tmp_path: Path) -> None:
    counted = Counted(STEEP.features, STEEP.truth, STEEP.ridge)
    numbers = []
    for limit in (12, 13):
        climb(
            counted, Lbfgs(), np.zeros(6), max_iterations=limit, tolerance=1e-12,
            checkpoint=tmp_path / "run",
        )  # fmt: skip
        numbers.append(counted.asked)
    assert numbers[1] - numbers[0] < numbers[0] / 2


def test_without_a_tape_the_maximum_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = ascend((1000,), None)
    monkeypatch.setattr(tape, "MOST_BYTES", 3 * 6 * 8)
    resumed = ascend((5, 9, 1000), tmp_path / "run")
    saved = read_checkpoint(tmp_path / "run", "lbfgs", "", 6)
    assert saved is not None
    assert len(saved.state["tape_value"]) == 0
    assert resumed.converged
    assert resumed.weights == pytest.approx(straight.weights, abs=1e-9)


def test_a_solver_that_strays_from_its_tape_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "run"
    ascend((5,), path)
    saved = read_checkpoint(path, "lbfgs", "", 6)
    assert saved is not None
    digest = saved.state["tape_digest"].copy()
    digest[2] += np.uint64(1)
    write_checkpoint(path, replace(saved, state={**saved.state, "tape_digest": digest}))
    resumed = ascend((8, 1000), path)
    assert resumed.converged
    assert [point.iteration for point in resumed.curve] == list(range(len(resumed.curve)))
    assert resumed.weights == pytest.approx(ascend((1000,), None).weights, abs=1e-9)
