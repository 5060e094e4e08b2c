"""A problem: a model on data, with every ground atom known true, known false, or unknown.

This is where the closed-world assumption is made. A predicate is open when it is queried (or
opened on request): its atoms are unknown except where the data speaks. Every other predicate
is closed: its atoms are false except the facts given, and except those marked ?.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lapis.data.database import Domain
from lapis.language.model import Model, Predicate
from lapis.logic.clauses import NormalForm


@dataclass(frozen=True)
class Evidence:
    """What is known of one predicate's atoms. Rows are unique and sorted lexicographically.

    Open: unknown except `true` and `false`. Closed: false except `true` and `unknown`.
    """

    predicate: Predicate
    open: bool
    true: np.ndarray  # int32[num_true, arity]
    false: np.ndarray  # int32[num_false, arity], empty if closed
    unknown: np.ndarray  # int32[num_unknown, arity], empty if open


@dataclass(frozen=True)
class Problem:
    model: Model
    normal_form: NormalForm
    domains: Mapping[str, Domain]  # all constants of model and data, by type
    evidence: Mapping[str, Evidence]  # for each predicate of the model
    query: tuple[str, ...] = ()
    name: str = field(default="<problem>", compare=False)

    def num_groundings(self, variables: tuple[tuple[str, str], ...]) -> int:
        """Π |domain| over the variables' types."""
        product = 1
        for _, type_name in variables:
            product *= len(self.domains[type_name])
        return product


@dataclass(frozen=True)
class WeightTable:
    """Numbers the weights: rule r with plus variables over domains d₁…d_m has Π d_i weights.

    The id of rule r at constants (c₁…c_m) is offset[r] + the mixed-radix value of the c_i in the
    order of `Rule.plus`, the last varying fastest. Hard rules have none.
    """

    offset: np.ndarray  # int64[num_rules + 1]
    shape: tuple[tuple[int, ...], ...]  # for each rule, the sizes of its plus variables' domains
    value: np.ndarray  # float64[num_weights]; NaN where the weight is to be learned
