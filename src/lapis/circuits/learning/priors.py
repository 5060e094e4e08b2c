"""Priors on the parameters of a distribution, by name or as a number of counts.

A distribution of a variable with r states that occur N_j times in N rows gets the parameters

    θ_j = (N_j + α) / (N + r α)

    thesis   α = 1, one count for each state. The thesis (5.5.1, footnote 2) has a Dirichlet prior
             with all hyperparameters 1 and calls the estimate MAP. The mode of that posterior is
             the maximum of likelihood, which gives unseen states probability 0; its mean is meant.
    libra    α = 1 / r, one count in total; what Libra does by default
    number   α = number / r, counts in total

The prior on structures, exp(−k_e · edges − k_p · parameters), is set by the costs of a search.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np

from lapis.errors import LapisError, suggestion

PRIORS = ("thesis", "libra")


def parse_counts(prior: str | float) -> str | float:
    """A prior as it is typed: a name or a positive number.

    >>> parse_counts("0.5"), parse_counts("thesis")
    (0.5, 'thesis')

    Raises
    ------
    LapisError
        If it is neither.
    """
    if prior in PRIORS:
        return prior
    try:
        number = float(prior)
    except ValueError:
        number = np.nan
    if isinstance(prior, bool) or not isinstance(prior, Real | str) or not 0 < number < np.inf:
        names = " or ".join(PRIORS)
        hint = suggestion(prior, PRIORS) if isinstance(prior, str) else None
        raise LapisError(
            f"prior must be {names}, or a number above 0, not {prior!r}",
            code="option-value",
            hint=hint or "as in 0.5: counts added to a distribution, in total",
        )
    return number


def counts_in_total(prior: str | float, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_variables], r α for each variable.

    >>> counts_in_total("thesis", [["a", "b", "c"]]), counts_in_total(2, [["a", "b", "c"]])
    (array([3.]), array([2.]))
    """
    prior = parse_counts(prior)
    if prior == "thesis":
        return np.array([len(own) for own in states], np.float64)
    return np.full(len(states), 1.0 if prior == "libra" else prior, np.float64)
