"""What is doubtful about learned weights: those without a bound, their errors, counts estimated.

Where the data never contradicts a formula, a larger weight always fits better, and without a
prior the best one is infinite. For a pseudo-likelihood this is found before the climb, by linear
programming (`separability`). For other objectives a weight that has become large is tried at a
far place: an exact objective is concave, so one that is no smaller there has not fallen on the
way, and would not be smaller anywhere beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.learning.examples import Example
from lapis.learning.fit import FARTHEST, Unbounded
from lapis.learning.objectives.posterior import Posterior
from lapis.learning.objectives.priors import Prior
from lapis.learning.objectives.pseudo import PseudoObjective
from lapis.learning.parameters import Parameters
from lapis.learning.standard_errors import standard_errors

if TYPE_CHECKING:
    from lapis.learning.objectives.count_bound import Bound
    from lapis.optimisation.logbook import Course

FAR = 25.0  # where a weight known to be without bound is stopped at the latest
SUSPECT = 5.0  # a weight that may be on its way to infinity
MAX_SUSPECTS = 100
LEVEL = 1e-9  # of the value: no fall
MAX_NAMED = 3
ADVICE = "it was stopped where the fit hardly changes; give a prior, or make the rule hard"


def find_unbounded(
    posterior: Posterior, parameters: Parameters, prior: Prior, warnings: list[str]
) -> list[Unbounded]:
    """The weights of a pseudo-likelihood that would be infinite; warns of those without effect."""
    objective = posterior.objective
    if prior.kind != "none" or not isinstance(objective, PseudoObjective):
        return []
    from lapis.learning.separability import unbounded_parameters

    found = unbounded_parameters(objective, ~parameters.fixed)
    names = parameters.names() if len(found.parameter) or len(found.idle) else []
    if len(found.idle):
        shown = ", ".join(repr(names[i]) for i in found.idle[:MAX_NAMED].tolist())
        rest = len(found.idle) - MAX_NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        warnings.append(
            f"the data does not determine the weights of {shown}{more}: no atom depends on them"
        )
    rows = zip(found.parameter.tolist(), found.sign.tolist(), found.reason, strict=True)
    return [Unbounded(i, names[i], int(sign), f"{reason}; {ADVICE}") for i, sign, reason in rows]


def still_growing(
    posterior: Posterior, parameters: Parameters, course: Course, prior: Prior
) -> list[Unbounded]:
    """The weights that neither data nor prior has stopped."""
    if prior.kind != "none":
        return []
    weights = course.weights
    suspects = np.flatnonzero(np.abs(weights) >= SUSPECT)[:MAX_SUSPECTS].tolist()
    grown = [
        i for i in suspects if abs(weights[i]) >= FARTHEST or never_falls(posterior, course, i)
    ]
    names = parameters.names() if grown else []
    reason = f"nothing in the data keeps its weight from growing; {ADVICE}"
    return [
        Unbounded(number, names[number], int(np.sign(weights[i])), reason)
        for i, number in zip(grown, posterior.free[grown].tolist(), strict=True)
    ]


def never_falls(posterior: Posterior, course: Course, place: int) -> bool:
    """Whether the objective, if it has values, is no smaller with one weight far away."""
    if course.value is None:
        return False
    away = course.weights.copy()
    away[place] = np.copysign(FARTHEST, away[place])
    there = posterior.evaluate(away).value
    return there is not None and there >= course.value - LEVEL * abs(course.value)


def find_errors(
    posterior: Posterior, parameters: Parameters, course: Course, unbounded: Sequence[Unbounded]
) -> tuple[np.ndarray, str]:
    """float64[num_parameters], NaN for weights that are fixed, infinite or set to 0 by L1."""
    point = posterior.evaluate(course.weights)
    own, method = standard_errors(point, full=posterior.is_fixed)
    if posterior.l1 is not None:
        own[course.weights == 0] = np.nan
    errors = np.full(len(parameters), np.nan)
    errors[posterior.free] = own
    errors[[weight.parameter for weight in unbounded]] = np.nan
    return errors, method


def measure_bound(
    examples: Sequence[Example], parameters: Parameters, ibound: int, weights: np.ndarray
) -> Bound:
    """What estimated counts may cost, by counting exactly too."""
    from lapis.learning.objectives.count_bound import likelihood_bound, measure_errors

    return likelihood_bound(weights, measure_errors(examples, parameters, ibound))
