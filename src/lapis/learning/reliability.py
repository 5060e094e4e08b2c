"""What is doubtful about learned weights: those without a bound, their errors, counts estimated.

Where the data never contradicts a formula, a larger weight always fits better, and without a
prior the best one is infinite. For a pseudo-likelihood this is found before the climb, by linear
programming (`separability`). For other objectives a weight that has become large is tried at a
far place: an exact objective is concave, so one that is no smaller there has not fallen on the
way, and would not be smaller anywhere beyond. Weights that grow together (one up, one down) are
tried together, along what of them lies where the objective is nearly flat. What is flat everywhere,
because no count changes, does not grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.counting.ijgp import IjgpSettings
from lapis.learning.examples import Example
from lapis.learning.fit import FARTHEST, Unbounded
from lapis.learning.objectives.priors import Prior
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.learning.parameters import Parameters
from lapis.learning.separability import name_some
from lapis.learning.standard_errors import MAX_FULL, curvature_matrix, standard_errors
from lapis.optimisation.penalized import PenalizedObjective

if TYPE_CHECKING:
    from lapis.learning.objectives.count_bound import Bound
    from lapis.optimisation.history import Trajectory

FAR = 25.0  # where a weight known to be without bound is stopped at the latest
SUSPECT = 5.0  # a weight that may be on its way to infinity
MAX_SUSPECTS = 100
LEVEL = 1e-9  # of the value: no fall
STRIDE = 10.0  # how far weights that may grow together are tried
FLAT = 1e-2  # curvature: a standard error of ten
CONSTANT = 1e-9  # curvature at weights zero, relative to the largest: counts that never change
TRACE = 1e-3  # of the largest component: rounding
ADVICE = "it was stopped where the fit hardly changes; give a prior, or make the rule hard"


def find_unbounded(
    posterior: PenalizedObjective, parameters: Parameters, prior: Prior, warnings: list[str]
) -> list[Unbounded]:
    """The weights of a pseudo-likelihood that would be infinite; warns of those without effect."""
    objective = posterior.objective
    loose = ~parameters.fixed & ~prior.holds(len(parameters))
    if not loose.any() or not isinstance(objective, PseudoObjective):
        return []
    from lapis.learning.separability import unbounded_parameters

    found = unbounded_parameters(objective, loose)
    names = parameters.names() if len(found.parameter) or len(found.idle) else []
    if len(found.idle):
        shown = name_some([names[i] for i in found.idle.tolist()])
        warnings.append(
            f"the data does not determine the weights of {shown}: no atom depends on them"
        )
    rows = zip(found.parameter.tolist(), found.sign.tolist(), found.reason, strict=True)
    return [Unbounded(i, names[i], int(sign), f"{reason}; {ADVICE}") for i, sign, reason in rows]


def still_growing(
    posterior: PenalizedObjective, parameters: Parameters, trajectory: Trajectory, prior: Prior
) -> list[Unbounded]:
    """The weights that neither data nor prior has stopped."""
    weights, loose = trajectory.weights, ~prior.holds(len(parameters))[posterior.free]
    suspects = np.flatnonzero(loose & (np.abs(weights) >= SUSPECT))[:MAX_SUSPECTS].tolist()
    if not suspects:
        return []
    # Without the penalty of an l1 prior, which does not change where only loose weights move.
    here = None if trajectory.value is None else posterior.evaluate_smooth(weights).value
    constant = constant_space(posterior)
    moves = 1.0 - (constant**2).sum(axis=1) > CONSTANT  # some count changes with the weight
    sign = np.zeros(len(weights), np.int64)
    for i in suspects:
        away = weights.copy()
        away[i] = np.copysign(FARTHEST, away[i])
        if moves[i] and (abs(weights[i]) >= FARTHEST or never_falls(posterior, here, away)):
            sign[i] = np.sign(weights[i])
    together = growing_together(posterior, weights, here, constant, loose)
    grown = np.flatnonzero((sign != 0) | (together != 0)).tolist()
    names = parameters.names() if grown else []
    found = []
    for i, number in zip(grown, posterior.free[grown].tolist(), strict=True):
        others = [names[posterior.free[k]] for k in np.flatnonzero(together).tolist() if k != i]
        joint = f"together with {name_some(others)}, " if others and not sign[i] else ""
        reason = f"{joint}nothing in the data keeps its weight from growing; {ADVICE}"
        found.append(Unbounded(number, names[number], int(sign[i] or together[i]), reason))
    return found


def never_falls(posterior: PenalizedObjective, here: float | None, away: np.ndarray) -> bool:
    """Whether the objective, if it has a value here, is no smaller at weights far away."""
    if here is None:
        return False
    there = posterior.evaluate_smooth(away).value
    return there is not None and there >= here - LEVEL * abs(here)


def growing_together(
    posterior: PenalizedObjective,
    weights: np.ndarray,
    here: float | None,
    constant: np.ndarray,
    loose: np.ndarray,
) -> np.ndarray:
    """int64[num_free], where each weight goes along a direction that never falls; 0: nowhere."""
    nowhere = np.zeros(len(weights), np.int64)
    if here is None or not is_explored(posterior):
        return nowhere
    flat = flat_space(curvature_matrix(posterior.evaluate_smooth(weights)), FLAT)
    direction = flat @ (flat.T @ weights)
    direction -= constant @ (constant.T @ direction)
    direction[~loose] = 0.0
    largest = np.abs(direction).max(initial=0.0)
    if largest < SUSPECT / 2:
        return nowhere
    direction = np.where(np.abs(direction) < TRACE * largest, 0.0, direction / largest)
    away = weights + STRIDE * direction
    return np.sign(direction).astype(np.int64) if never_falls(posterior, here, away) else nowhere


def constant_space(posterior: PenalizedObjective) -> np.ndarray:
    """float64[num_free, k], orthonormal combinations of weights whose count never changes.

    At weights zero every world is possible, so that what does not vary there varies nowhere.
    """
    if not is_explored(posterior):
        return np.empty((posterior.num_parameters, 0))
    curvature = curvature_matrix(posterior.evaluate_smooth(np.zeros(posterior.num_parameters)))
    return flat_space(curvature, CONSTANT * np.abs(curvature).max(initial=0.0))


def is_explored(posterior: PenalizedObjective) -> bool:
    """Whether the whole curvature is exact and small enough to look at."""
    return posterior.is_fixed and posterior.num_parameters <= MAX_FULL


def flat_space(curvature: np.ndarray, least: float) -> np.ndarray:
    """float64[num_free, k], orthonormal directions whose curvature is at most `least`."""
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    flat: np.ndarray = vectors[:, values <= least]
    return flat


def find_errors(
    posterior: PenalizedObjective,
    parameters: Parameters,
    trajectory: Trajectory,
    unbounded: Sequence[Unbounded],
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN for weights that are fixed, infinite or held by L1."""
    point = posterior.evaluate_smooth(trajectory.weights)
    held = None if posterior.l1 is None else (trajectory.weights == 0) & (posterior.l1 > 0)
    own, method = standard_errors(point, full=posterior.is_fixed, held=held)
    errors = np.full(len(parameters), np.nan)
    errors[posterior.free] = own
    errors[[weight.parameter for weight in unbounded]] = np.nan
    return errors, method


def measure_bound(
    examples: Sequence[Example],
    parameters: Parameters,
    settings: IjgpSettings,
    weights: np.ndarray,
) -> Bound:
    """What estimated counts may cost, by counting exactly too."""
    from lapis.learning.objectives.count_bound import likelihood_bound, measure_errors

    return likelihood_bound(weights, measure_errors(examples, parameters, settings))
