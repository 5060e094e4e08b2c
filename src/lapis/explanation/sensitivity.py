"""Sensitivity: derivatives of the probability by the weights.

    ∂P(a)/∂w = Cov(1[a], n_w) = P(a) (1 − P(a)) (E[n_w | a] − E[n_w | ¬a]),

summed over the ground formulas of the weight. The errors of learned weights imply one of the
probability by the delta method: its variance is gᵀ Σ g, for the derivatives g and the covariance Σ
of the weights. Where only standard errors are known, the weights are taken as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.explanation.contributions import rule_text
from lapis.explanation.local_network import ConditionedPart, Impossible, LocalNetwork
from lapis.explanation.probabilities import LocalSolver, ProbabilityEstimate
from lapis.results.answer import LearnedWeights
from lapis.results.explanation import RuleSensitivity


class WeightErrors(NamedTuple):
    """What the errors of the weights mean for the probability."""

    stderr: float | None
    note: str


def find_derivatives(
    solver: LocalSolver, part: ConditionedPart, base: ProbabilityEstimate
) -> np.ndarray | None:
    """Return ∂P/∂w of each ground formula, float64[num_instances]; None if it is too expensive."""
    zero = np.zeros(solver.local.num_instances)
    if not 0.0 < base.probability < 1.0:
        return zero
    try:
        true = solver.expected_counts(part, True)
        false = solver.expected_counts(part, False)
    except Impossible:
        return zero
    if true is None or false is None:
        return None
    spread = math.exp(-abs(base.log_odds)) / (1.0 + math.exp(-abs(base.log_odds))) ** 2
    return np.asarray(spread * (true - false)[: len(zero)], float)


def rule_sensitivities(
    local: LocalNetwork, derivative: np.ndarray, stderr: np.ndarray | None = None
) -> list[RuleSensitivity]:
    """Return the derivative by each weight that has ground formulas nearby, the largest first."""
    found: list[RuleSensitivity] = []
    table = local.known.problem.weight_table.value
    ids, first, inverse = np.unique(local.weight_id, return_index=True, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), derivative * local.factor, len(ids))
    for place, number in enumerate(ids.tolist()):
        if number < 0:
            continue
        at = int(first[place])
        rule = local.instance(at)[0]
        text = rule_text(local, rule, at)
        error = None if stderr is None else float(stderr[place])
        weight, slope = float(table[number]), float(total[place])
        found.append(RuleSensitivity(text, weight, slope, error, None, None))
    found.sort(key=lambda row: -abs(row.derivative))
    return found


def with_weight_errors(
    rows: Sequence[RuleSensitivity], fit: LearnedWeights | None
) -> tuple[tuple[RuleSensitivity, ...], WeightErrors]:
    """Add the standard errors of learned weights, and find that of the probability."""
    if fit is None:
        return tuple(rows), WeightErrors(None, "")
    names, errors = [], []
    for name, _, error, fixed, bounded in fit.entries():
        names.append(name)
        errors.append(0.0 if fixed else error if bounded and error is not None else math.nan)
    place = {name: number for number, name in enumerate(names)}
    known = np.array([errors[place[row.rule]] if row.rule in place else 0.0 for row in rows])
    found = tuple(
        row if row.rule not in place or math.isnan(error) else replace_errors(row, error)
        for row, error in zip(rows, known.tolist(), strict=True)
    )
    gradient = np.zeros(len(names))
    for row in rows:
        if row.rule in place:
            gradient[place[row.rule]] += row.derivative
    missing = int((np.isnan(errors) & (gradient != 0)).sum())
    covariance = fit.weight_covariance()
    if covariance is None:
        note = "as if the weights were independent"
        variance = float(np.nansum(np.square(gradient * np.array(errors))))
    else:
        note = "with the covariances of the weights"
        variance = float(gradient @ covariance @ gradient)
    if missing:
        note += f"; {missing} weights that matter have no standard error"
    return found, WeightErrors(math.sqrt(max(0.0, variance)), note)


def replace_errors(row: RuleSensitivity, error: float) -> RuleSensitivity:
    return row._replace(weight_stderr=error, contribution=abs(row.derivative) * error)
