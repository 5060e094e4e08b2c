"""V: the parameters of a structure that minimise KL(Q ‖ P) to a model (AC², step 2).

With P̃ = exp Σ_k u_k g_k the model's product of tables (g_k the indicator of an entry) and Q a
member of the family, maximise

    J(π) = log Z − KL(Q ‖ P) = Σ_k u_k Q(g_k) + H(Q)

a lower bound of log Z. Its derivatives at a sum n that Q reaches with probability p(n) are

    ∂J/∂π(n, c) = p(n)·[ B(n, c) + H(c) − log π(n, c) − 1 ]

with B(n, c) = E_Q[Σ_k u_k g_k | c taken at n] and H(c) the entropy below c. Sums are independent
decisions, so the Fisher information is block-diagonal and the natural gradient step of length ρ is

    log π(n, ·)  ←  (1 − ρ) log π(n, ·) + ρ [B(n, ·) + H(·)] + const

At ρ = 1 this is the update of structured mean field, here for all sums at once; ρ is halved until J
does not fall. The paper follows the gradient of tied parameters, which needs the covariance of each
pair of features. Untied shares are more expressive and need none: B of all edges comes from one
batched evaluation and differentiation, over only those nodes that mention the table's variables.
Elsewhere B is the same for all children of a sum.

Zero entries count as e^FLOOR. `certified_bound` subtracts what that adds to J. J has several local
maxima (`fit_best`). Starting at G instead of F led to the same ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import Family
from lapis.circuits.approximation.variational_kernel import (
    add_entropies,
    normalise_shares,
    sum_entries,
)
from lapis.circuits.factor_graph import FactorGraph
from lapis.network.csr import row_starts
from lapis.runtime.progress import Progress, Report, Stop

FLOOR = -60.0  # replaces the logarithm of an impossible entry
BATCH = 64  # entries of a table at a time
MAX_ITERATIONS = 100
ANNEALING, ANNEALED_ITERATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), 20
MAX_IMPOSSIBLE = 1e-3  # probability of impossible worlds under Q above which J is no bound
TOLERANCE = 1e-7  # relative gain of J below which the ascent ends


class ModelTerms(NamedTuple):
    """The tables of a model over unobserved variables, less a constant each."""

    scope_start: np.ndarray  # int64[num_factors + 1]
    scope: np.ndarray  # int32[...]
    entry_start: np.ndarray  # int64[num_factors + 1], entries that differ from the constant
    entry_place: np.ndarray  # int64[...], their places in the table
    weight: np.ndarray  # float64[...], u_k
    constant: float
    size: np.ndarray  # int32[num_variables]


NOTHING = np.empty(0)


class VariationalFit(NamedTuple):
    family: Family
    bound: float  # J with `FLOOR` for zeros; see `certified_bound`
    converged: bool


def build_terms(graph: FactorGraph, row: np.ndarray) -> ModelTerms:
    """Return the tables given a row of states, negative where unobserved."""
    scopes: list[np.ndarray] = []
    places: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    constant = 0.0
    for members, entries in graph.tables:
        scope = np.array(members, np.int32)
        seen = row[scope]
        cut = tuple(slice(None) if state < 0 else int(state) for state in seen)
        table = np.maximum(entries[cut], FLOOR).ravel()
        values, counts = np.unique(table, return_counts=True)
        base = values[counts.argmax()]
        constant += float(base)
        place = np.flatnonzero(table != base)
        if len(place):
            scopes.append(scope[seen < 0])
            places.append(place)
            weights.append(table[place] - base)
    return ModelTerms(
        row_starts([*map(len, scopes)]),
        np.concatenate([*scopes, np.empty(0, np.int32)]).astype(np.int32),
        row_starts([*map(len, places)]),
        np.concatenate([*places, np.empty(0, np.int64)]),
        np.concatenate([*weights, np.empty(0)]),
        constant,
        graph.size,
    )


def fit_variational(
    family: Family,
    terms: ModelTerms,
    max_iterations: int = MAX_ITERATIONS,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> VariationalFit:
    """Maximise J from the shares of the family."""
    objective = ShareObjective(family, terms)
    log_share = family.log_share
    bound, target = objective.evaluate(log_share)
    rate, number, converged = 1.0, 0, False
    while number < max_iterations and not converged and not (stop and stop.is_over()):
        number += 1
        new = objective.step(log_share, target, rate)
        new_bound, new_target = objective.evaluate(new)
        gain = new_bound - bound
        if gain >= -1e-12 * abs(bound):
            converged = gain <= TOLERANCE * (1.0 + abs(bound)) and rate > 0.4
            log_share, bound, target = new, new_bound, new_target
            rate = min(1.0, 1.5 * rate)
        else:
            rate *= 0.5
            converged = rate < 1e-4
        if progress is not None:
            progress(Progress("fitting", number, max_iterations, figures={"bound": bound}))
    return VariationalFit(family._replace(log_share=log_share), bound, converged)


def fit_best(
    family: Family, terms: ModelTerms, stop: Stop | None = None, progress: Report | None = None
) -> VariationalFit:
    """Return the better of two maxima: from the shares of the family, and by annealing.

    Annealing maximises J of P^β, the model with its logarithms scaled, from small β to 1. With
    parities and other nearly hard tables there are many modes, and the first maximum is poor.
    """
    straight = fit_variational(family, terms, MAX_ITERATIONS, stop, progress)
    warm = family
    for beta in ANNEALING:
        if stop and stop.is_over():
            return straight
        shrunk = terms._replace(weight=beta * terms.weight)
        warm = fit_variational(warm, shrunk, ANNEALED_ITERATIONS, stop, progress).family
    annealed = fit_variational(warm, terms, MAX_ITERATIONS, stop, progress)
    return straight if straight.bound >= annealed.bound else annealed


class ShareObjective:
    """J and its natural gradient, with the work space to compute them."""

    def __init__(self, family: Family, terms: ModelTerms) -> None:
        self.family, self.terms = family, terms
        num_nodes = len(family.kind)
        self.value = np.empty((2, num_nodes, BATCH))
        widest = int(np.diff(family.start).max(initial=1))
        self.before = np.empty((widest + 1, BATCH))
        self.touched = np.empty(num_nodes, np.int32)
        self.is_touched = np.empty(num_nodes, np.bool_)
        self.digit = np.empty((int(np.diff(terms.scope_start).max(initial=1)), BATCH), np.int32)
        self.place = np.full(len(terms.size), -1, np.int32)

    def evaluate(self, log_share: np.ndarray) -> tuple[float, np.ndarray]:
        """Return J, and B + H of each edge of a sum, up to a constant for each sum."""
        family = self.family
        share = np.exp(log_share)
        gain = np.zeros(len(share))
        expected = self.expect(share, gain)
        entropy = np.zeros(len(family.kind))
        reach = np.zeros(len(family.kind))
        add_entropies(family, share, log_share, gain, entropy, reach)
        return self.terms.constant + expected + float(entropy[-1] if len(entropy) else 0.0), gain

    def expect(self, share: np.ndarray, gain: np.ndarray, found: np.ndarray = NOTHING) -> float:
        """Return Σ_k u_k Q(g_k); add its derivatives to `gain`, or write all Q(g_k) to `found`."""
        return float(
            sum_entries(
                self.family, self.terms, share, gain, *self.value, self.before, self.touched,
                self.is_touched, self.digit, self.place, found,
            )
        )  # fmt: skip

    def step(self, log_share: np.ndarray, target: np.ndarray, rate: float) -> np.ndarray:
        """Move the shares towards the target and normalise them."""
        new = (1.0 - rate) * log_share + rate * target
        normalise_shares(self.family, new)
        return new


def certified_bound(fitted: VariationalFit, graph: FactorGraph, row: np.ndarray) -> float | None:
    """Return a lower bound of log Z without impossible worlds; None if Q has too many of them.

    With ε ≥ Q(impossible), S the largest score and N the number of worlds, impossible worlds add at
    most ε (S + log N − log ε) to J. The rest gives J of Q conditioned on possible worlds.
    """
    family = fitted.family
    hard = graph.log_value == -np.inf
    if not hard.any():
        return fitted.bound
    terms = build_terms(replace(graph, log_value=np.where(hard, 1.0, 0.0)), row)
    share = np.exp(family.log_share)
    mass = terms.constant + ShareObjective(family, terms).expect(share, np.zeros(len(share)))
    if mass > MAX_IMPOSSIBLE:
        return None
    if mass <= 0.0:
        return fitted.bound
    log_worlds = float(np.log(graph.size[row < 0]).sum())
    highest = sum(float(table.max()) for _, table in graph.tables)
    possible = fitted.bound - mass * (max(highest, 0.0) + log_worlds - math.log(mass))
    return possible - abs(possible) * mass / (1.0 - mass) + math.log1p(-mass)


def table_marginals(family: Family, graph: FactorGraph) -> np.ndarray:
    """float64[len(graph.log_value)], Q(x_scope) for all entries of all tables, without evidence."""
    first = np.repeat(graph.table_start[:-1], np.diff(graph.table_start))
    everything = ModelTerms(
        graph.scope_start, graph.scope, graph.table_start, np.arange(len(first)) - first,
        graph.log_value, 0.0, graph.size,
    )  # fmt: skip
    found = np.ones(len(graph.log_value))
    ShareObjective(family, everything).expect(np.exp(family.log_share), NOTHING, found)
    return found
