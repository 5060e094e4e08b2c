"""What an edge and a parameter should cost: held-out rows say (thesis, 5.7.2).

One circuit is learned for each pair of costs, edges from the dearest to the cheapest, and the one
that held-out rows like best is kept. For one parameter cost it ends where they lose more than
`SLACK`: cheaper edges would buy more of the same, in much more time.

Searches do not share their work. One that goes on from the circuit of a higher edge cost is faster,
but what it finds is worse, for the same number of edges too (msweb, k_e = 0.05: -9.80 in the place
of -9.77 on held-out rows): the splits that are cheap in edges come first, and settle the order of
the variables for those that explain more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.queries import log_probabilities
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError
from lapis.runtime.progress import Progress, Report, Stop

SLACK = 0.005  # nats a row


@dataclass(frozen=True, slots=True)
class Fit:
    """A circuit or a network learned from rows, and how; one of the two at least."""

    circuit: Circuit | None  # None if edges cost nothing
    network: TreeNetwork | None  # the same distribution, if trees can say it
    num_splits: int
    converged: bool  # it came to its end; no limit was met

    @property
    def num_edges(self) -> int | None:
        """None without a circuit."""
        return None if self.circuit is None else self.circuit.num_edges

    def log_likelihoods(self, rows: np.ndarray) -> np.ndarray:
        """float64[num_rows], log P of rows; negative states are missing."""
        if self.network is not None and (rows >= 0).all():
            return self.network.log_likelihoods(rows)
        if self.circuit is None:
            raise LapisError(
                "rows with missing values need a circuit, and with an edge cost of 0 none is kept",
                code="missing-values",
                hint="give complete rows, or an edge cost above 0",
            )
        different, number = np.unique(rows, axis=0, return_inverse=True)
        return log_probabilities(self.circuit, different)[number]


class Trial(NamedTuple):
    """A pair of costs, and what came of it."""

    edge_cost: float
    parameter_cost: float
    edges: int | None  # None without a circuit
    valid_log_likelihood: float  # mean of held-out rows


def choose_costs(
    learn: Callable[[float, float], Fit],
    edge_costs: Sequence[float],
    parameter_costs: Sequence[float],
    valid: np.ndarray,
    stop: Stop,
    progress: Report | None = None,
) -> tuple[Fit, Trial, list[Trial]]:
    """The fit of those that `learn` finds for pairs of costs that is best on held-out rows."""
    trials: list[Trial] = []
    best: tuple[Fit, Trial] | None = None
    prices = sorted(set(edge_costs), reverse=True)
    for parameter_cost in sorted(set(parameter_costs), reverse=True):
        highest = -np.inf
        for price in prices:
            if trials and stop.is_over():
                break
            fit = learn(price, parameter_cost)
            value = float(fit.log_likelihoods(valid).mean())
            trial = Trial(price, parameter_cost, fit.num_edges, value)
            if best is None or value > best[1].valid_log_likelihood:
                best = fit, trial
            trials.append(trial)
            if progress is not None:
                figures = {"edge cost": price, "parameter cost": parameter_cost, "held out": value}
                total = len(prices) * len(set(parameter_costs))
                progress(Progress("circuits", len(trials), total, figures=figures))
            if value < highest - SLACK:
                break
            highest = max(highest, value)
    assert best is not None
    fit, trial = best
    return replace(fit, converged=fit.converged and not stop.is_over()), trial, trials
