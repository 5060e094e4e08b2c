"""Measures and curves against their definitions, written as loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.evaluation.metrics import (
    average_precision,
    brier_score,
    calibration_curve,
    conditional_log_likelihood,
    precision_recall,
    roc_auc,
    roc_curve,
    trapezoid_auc,
)

# Few distinct values, so that ties are common.
LEVELS = (0.0, 0.1, 0.25, 0.5, 0.5000001, 0.75, 1.0)
PREDICTED = st.lists(st.tuples(st.sampled_from(LEVELS), st.booleans()), min_size=1, max_size=14)
Predicted = list[tuple[float, bool]]


def arrays(predicted: Predicted) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p for p, _ in predicted]), np.array([t for _, t in predicted])


def points(predicted: Predicted) -> list[tuple[float, float]]:
    """(recall, precision) when everything with at least a probability is called true."""
    num_true = sum(truth for _, truth in predicted)
    found = []
    for threshold in sorted({p for p, _ in predicted}, reverse=True):
        called = [truth for p, truth in predicted if p >= threshold]
        found.append((sum(called) / num_true if num_true else 0.0, sum(called) / len(called)))
    return found


@given(PREDICTED)
def test_precision_and_recall_at_each_threshold(predicted: Predicted) -> None:
    curve = precision_recall(*arrays(predicted))
    expected = points(predicted)
    assert curve.recall.tolist() == pytest.approx([recall for recall, _ in expected])
    assert curve.precision.tolist() == pytest.approx([precision for _, precision in expected])
    assert curve.threshold.tolist() == sorted({p for p, _ in predicted}, reverse=True)


@given(PREDICTED)
def test_areas_under_precision_recall(predicted: Predicted) -> None:
    probability, truth = arrays(predicted)
    if not truth.any():
        assert average_precision(probability, truth) is None
        assert trapezoid_auc(probability, truth) is None
        return
    steps, lines = 0.0, 0.0
    last_recall, last_precision = 0.0, points(predicted)[0][1]
    for recall, precision in points(predicted):
        steps += (recall - last_recall) * precision
        lines += (recall - last_recall) * (precision + last_precision) / 2
        last_recall, last_precision = recall, precision
    assert average_precision(probability, truth) == pytest.approx(steps)
    assert trapezoid_auc(probability, truth) == pytest.approx(lines)


@given(PREDICTED)
def test_area_under_roc_is_the_share_of_pairs_in_order(predicted: Predicted) -> None:
    pairs = [
        1.0 if high > low else 0.5 if high == low else 0.0
        for high, is_true in predicted
        for low, other in predicted
        if is_true and not other
    ]
    found = roc_auc(*arrays(predicted))
    assert found == (pytest.approx(sum(pairs) / len(pairs), abs=1e-15) if pairs else None)


@given(PREDICTED)
def test_roc_curve_at_each_threshold(predicted: Predicted) -> None:
    curve = roc_curve(*arrays(predicted))
    for kind, rates in ((True, curve.true_rate), (False, curve.false_rate)):
        own = [p for p, truth in predicted if truth is kind]
        for threshold, rate in zip(curve.threshold, rates, strict=True):
            called = sum(p >= threshold for p in own)
            assert rate == pytest.approx(called / len(own) if own else 0.0)


def test_roc_of_many_atoms_is_counted_in_whole_numbers() -> None:
    truth = np.arange(300_000) % 2 == 0
    assert roc_auc(np.where(truth, 0.7, 0.2), truth) == 1.0
    assert roc_auc(np.where(truth, 0.2, 0.7), truth) == 0.0
    assert roc_auc(np.full(300_000, 0.3), truth) == 0.5


@given(PREDICTED)
def test_log_likelihood_and_brier_score(predicted: Predicted) -> None:
    probability, truth = arrays(predicted)
    given_to_truth = [p if is_true else 1 - p for p, is_true in predicted]
    expected = (
        sum(map(math.log, given_to_truth)) / len(predicted) if all(given_to_truth) else -math.inf
    )
    with np.errstate(divide="ignore"):
        log_odds = np.log(probability) - np.log1p(-probability)
    assert conditional_log_likelihood(log_odds, truth) == pytest.approx(expected)
    squares = [(p - is_true) ** 2 for p, is_true in predicted]
    assert brier_score(probability, truth) == pytest.approx(sum(squares) / len(squares))


def test_tiny_probabilities_are_not_rounded_away() -> None:
    odds, truth = np.array([-46.0, 46.0, 700.0, 1000.0]), np.array([False, True, False, False])
    for x, is_true in zip(odds, truth, strict=True):
        found = conditional_log_likelihood(np.array([x]), np.array([is_true]))
        wanted = -math.exp(-abs(x)) if (x > 0) == is_true else -abs(x)
        assert found == pytest.approx(wanted, rel=1e-12)


@given(PREDICTED, st.integers(1, 6))
def test_calibration(predicted: Predicted, num_bins: int) -> None:
    found = calibration_curve(*arrays(predicted), num_bins)
    error = 0.0
    for index in range(num_bins):
        low, high = found.edge[index : index + 2]
        last = index == num_bins - 1
        group = [(p, t) for p, t in predicted if low <= p < high or (last and p == 1.0)]
        assert found.num_atoms[index] == len(group)
        if not group:
            assert np.isnan(found.predicted[index])
            assert np.isnan(found.observed[index])
            continue
        mean = sum(p for p, _ in group) / len(group)
        fraction = sum(t for _, t in group) / len(group)
        assert (found.predicted[index], found.observed[index]) == pytest.approx((mean, fraction))
        error += abs(mean - fraction) * len(group) / len(predicted)
    assert found.num_atoms.sum() == len(predicted)
    assert found.error == pytest.approx(error)


def test_rounding_makes_no_order() -> None:
    third = 1 / 3
    probability = np.array([third, np.nextafter(third, 1), np.nextafter(third, 0)])
    for truth in ([True, False, False], [False, True, False], [False, False, True]):
        assert average_precision(probability, np.array(truth)) == pytest.approx(1 / 3)
    tiny = np.array([1e-300, 2e-300])
    assert average_precision(tiny, np.array([False, True])) == 1.0


def test_perfect_and_worthless_rankings() -> None:
    truth = np.array([True, True, False, False])
    assert average_precision(np.array([0.9, 0.8, 0.2, 0.1]), truth) == 1.0
    assert average_precision(np.full(4, 0.3), truth) == 0.5  # one point: the base rate


def test_a_perfect_ranking_has_an_area_of_one_to_the_last_digit() -> None:
    for num_true in range(1, 200):
        probability = np.linspace(0.9, 0.1, num_true + 5)
        truth = np.arange(num_true + 5) < num_true
        assert average_precision(probability, truth) == 1.0
        assert trapezoid_auc(probability, truth) == 1.0
