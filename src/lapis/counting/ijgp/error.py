"""How far estimated counts are from the exact ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lapis.counting.totals import count_true
from lapis.data.database import Domain
from lapis.language.model import Model
from lapis.logic.clauses import NormalForm


@dataclass(frozen=True)
class MeasuredError:
    """Exact counts next to the estimates, by weight id."""

    exact: tuple[int, ...]
    relative_true: np.ndarray  # float64[num_weights], |estimate − exact| / exact

    @property
    def largest(self) -> float:
        """The largest relative error of a count of true groundings."""
        return float(self.relative_true.max(initial=0.0))


def compare_exactly(
    estimate: np.ndarray,  # float64[num_weights]
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> MeasuredError:
    """Count exactly and compare. A count of zero is off by 0 or by infinity."""
    exact, _ = count_true(normal_form, model, domains, relations)
    difference = np.abs([float(e) - float(t) for e, t in zip(estimate, exact, strict=True)])
    scale = np.array([float(each) for each in exact])
    largest = np.where(difference > 0.0, np.inf, 0.0)
    relative = np.divide(difference, scale, out=largest, where=scale != 0.0)
    return MeasuredError(tuple(exact), relative)
