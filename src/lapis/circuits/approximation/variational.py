"""V: the parameters of a circuit's structure that bring it closest to a model (AC², step 2).

With P̃ = exp Σ_k u_k g_k the model's product of tables (g_k the indicator of an entry) and Q a
member of the family, maximise

    J(π) = log Z − KL(Q ‖ P) = Σ_k u_k Q(g_k) + H(Q)

a lower bound of log Z. Its derivatives at a sum n that Q reaches with probability p(n) are

    ∂J/∂π(n, c) = p(n)·[ B(n, c) + H(c) − log π(n, c) − 1 ]

with B(n, c) = E_Q[Σ_k u_k g_k | c taken at n] and H(c) the entropy below c. Sums are independent
decisions, so the Fisher information is block-diagonal and the natural gradient step of length ρ is

    log π(n, ·)  ←  (1 − ρ) log π(n, ·) + ρ [B(n, ·) + H(·)] + const

at ρ = 1 the update of (structured) mean field, here for all sums at once; ρ is halved until J does
not fall. The paper follows the gradient of tied parameters, with a covariance of each pair of
features from a differentiation each. Untied shares are more expressive and need none: B of all
edges comes from one batched evaluation and differentiation, entries of a table side by side, of
only those nodes that see the table's variables (elsewhere B is the same for all children of a sum).

Entries that are zero count as `FLOOR`; what that adds to J is taken off again before J is called a
bound (`certified_bound`). An optimum of J is one of several (`fit_best`). Starting at
G instead of F led to the same ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import Family
from lapis.circuits.circuit import INDICATOR, SUM
from lapis.circuits.factor_graph import FactorGraph
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import Progress, Report, Stop

FLOOR = -60.0  # the logarithm that stands for that of an impossible entry
BATCH = 64  # entries of a table at a time
MAX_ITERATIONS = 100
ANNEALING, ANNEALED_ITERATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), 20
MAX_IMPOSSIBLE = 1e-3  # probability of impossible worlds under Q, beyond which J bounds nothing
TOLERANCE = 1e-7  # of J, relative to its size, where the ascent ends


class ModelTerms(NamedTuple):
    """The tables of a model over the variables that evidence leaves open, less a constant each."""

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
    """The tables given a row of states, negative where nothing is known."""
    scopes: list[np.ndarray] = []
    places: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    constant = 0.0
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor)
        seen = row[scope]
        cut = tuple(slice(None) if state < 0 else int(state) for state in seen)
        table = np.maximum(graph.table(factor)[cut], FLOOR).ravel()
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
    """Climb from the shares that the family has."""
    climb = ShareObjective(family, terms)
    log_share = family.log_share
    bound, target = climb.evaluate(log_share)
    rate, number, converged = 1.0, 0, False
    while number < max_iterations and not converged and not (stop and stop.is_over()):
        number += 1
        new = climb.step(log_share, target, rate)
        new_bound, new_target = climb.evaluate(new)
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
    """The better of two climbs: straight from the shares of the family, and annealed.

    The second follows P^β, the model with its logarithms shrunk, from small β to 1; where parities
    and other near-certainties make many modes the first climb ends in a poor one.
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
    """Evaluates J and its natural gradient; holds the memory for it."""

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
        """J, and B + H of each edge of a sum, up to a constant for each sum."""
        family = self.family
        share = np.exp(log_share)
        gain = np.zeros(len(share))
        expected = self.expect(share, gain)
        entropy = np.zeros(len(family.kind))
        reach = np.zeros(len(family.kind))
        _finish(family, share, log_share, gain, entropy, reach)
        return self.terms.constant + expected + float(entropy[-1] if len(entropy) else 0.0), gain

    def expect(self, share: np.ndarray, gain: np.ndarray, found: np.ndarray = NOTHING) -> float:
        """Σ_k u_k Q(g_k), and its derivatives added to `gain`; or Q(g_k) of all entries `found`."""
        return float(
            _expect(
                self.family, self.terms, share, gain, *self.value, self.before, self.touched,
                self.is_touched, self.digit, self.place, found,
            )
        )  # fmt: skip

    def step(self, log_share: np.ndarray, target: np.ndarray, rate: float) -> np.ndarray:
        """The shares moved towards the target, normalised."""
        new = (1.0 - rate) * log_share + rate * target
        _normalise(self.family, new)
        return new


def certified_bound(fitted: VariationalFit, graph: FactorGraph, row: np.ndarray) -> float | None:
    """A lower bound of log Z that does not count impossible worlds; None if Q has too many of them.

    With ε ≥ Q(impossible), by the entries that are zero, S the largest score and N the number of
    worlds, those add at most ε (S + log N − log ε) to J. Of the rest, Q given that a world is
    possible is a distribution, whose own J follows.
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
    highest = sum(float(graph.table(f).max()) for f in range(graph.num_factors))
    possible = fitted.bound - mass * (max(highest, 0.0) + log_worlds - math.log(mass))
    return possible - abs(possible) * mass / (1.0 - mass) + math.log1p(-mass)


def table_marginals(family: Family, graph: FactorGraph) -> np.ndarray:
    """float64[len(graph.log_value)], Q(x_scope) for all entries of all tables; none is observed."""
    first = np.repeat(graph.table_start[:-1], np.diff(graph.table_start))
    everything = ModelTerms(
        graph.scope_start, graph.scope, graph.table_start, np.arange(len(first)) - first,
        graph.log_value, 0.0, graph.size,
    )  # fmt: skip
    found = np.ones(len(graph.log_value))
    ShareObjective(family, everything).expect(np.exp(family.log_share), NOTHING, found)
    return found


@entry
def _expect(  # type: ignore[no-untyped-def]
    family, terms, share, gain, value, slope, before, touched, is_touched, digit, place, found
):
    """Σ_k u_k Q(g_k); its derivatives by the shares are added to `gain`, or Q(g_k) is `found`."""
    total = 0.0
    for factor in range(len(terms.scope_start) - 1):
        first, last = terms.scope_start[factor], terms.scope_start[factor + 1]
        if first == last:
            for at in range(terms.entry_start[factor], terms.entry_start[factor + 1]):
                total += terms.weight[at]
            continue
        for at in range(first, last):
            place[terms.scope[at]] = at - first
        num_touched = _touch(family, place, touched, is_touched)
        nodes = touched[:num_touched]
        at = terms.entry_start[factor]
        while at < terms.entry_start[factor + 1]:
            count = _read_entries(terms, factor, at, digit)
            _evaluate_entries(family, share, nodes, is_touched, place, digit, count, value)
            root = nodes[num_touched - 1]
            if len(found):
                for b in range(count):
                    found[at + b] = value[root, b]
                at += count
                continue
            for n in nodes:
                for b in range(count):
                    slope[n, b] = 0.0
            for b in range(count):
                slope[root, b] = terms.weight[at + b]
                total += terms.weight[at + b] * value[root, b]
            _backpropagate(family, share, nodes, is_touched, count, value, slope, before, gain)
            at += count
        for at in range(first, last):
            place[terms.scope[at]] = -1
    return total


@inner
def _read_entries(terms, factor, at, digit):  # type: ignore[no-untyped-def]
    """The states of the variables in a batch of entries; how many entries."""
    first, last = terms.scope_start[factor], terms.scope_start[factor + 1]
    count = min(digit.shape[1], terms.entry_start[factor + 1] - at)
    for b in range(count):
        rest = terms.entry_place[at + b]
        for axis in range(last - first - 1, -1, -1):
            size = terms.size[terms.scope[first + axis]]
            digit[axis, b] = rest % size
            rest //= size
    return count


@inner
def _touch(family, place, touched, is_touched):  # type: ignore[no-untyped-def]
    """The nodes that see a variable with a place; how many."""
    count = 0
    for n in range(len(family.kind)):
        if family.kind[n] == INDICATOR:
            sees = place[family.variable_of_state[family.leaf[n]]] >= 0
        else:
            sees = False
            for e in range(family.start[n], family.start[n + 1]):
                if is_touched[family.child[e]]:
                    sees = True
                    break
        is_touched[n] = sees
        if sees:
            touched[count] = n
            count += 1
    return count


@inner
def _evaluate_entries(family, share, nodes, is_touched, place, digit, count, value):  # type: ignore[no-untyped-def]
    """Probabilities of a batch of entries below each node; untouched nodes have 1."""
    for n in nodes:
        if family.kind[n] == INDICATOR:
            v = family.variable_of_state[family.leaf[n]]
            state = family.leaf[n] - family.state_start[v]
            for b in range(count):
                value[n, b] = 1.0 if digit[place[v], b] == state else 0.0
        elif family.kind[n] == SUM:
            idle = 0.0
            for e in range(family.start[n], family.start[n + 1]):
                if not is_touched[family.child[e]]:
                    idle += share[e]
            for b in range(count):
                value[n, b] = idle
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        value[n, b] += share[e] * value[c, b]
        else:
            for b in range(count):
                value[n, b] = 1.0
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        value[n, b] *= value[c, b]


@inner
def _backpropagate(family, share, nodes, is_touched, count, value, slope, before, gain):  # type: ignore[no-untyped-def]
    """Weighted derivatives by the nodes, and by the shares into `gain`."""
    for place in range(len(nodes) - 1, -1, -1):
        n = nodes[place]
        if family.kind[n] == SUM:
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                added = 0.0
                if is_touched[c]:
                    for b in range(count):
                        added += slope[n, b] * value[c, b]
                        slope[c, b] += share[e] * slope[n, b]
                else:
                    for b in range(count):
                        added += slope[n, b]
                gain[e] += added
        elif family.kind[n] != INDICATOR:
            # Products of the children before each one, then of those after it.
            number = 0
            for b in range(count):
                before[0, b] = slope[n, b]
            for e in range(family.start[n], family.start[n + 1]):
                c = family.child[e]
                if is_touched[c]:
                    for b in range(count):
                        before[number + 1, b] = before[number, b] * value[c, b]
                    number += 1
            after = number  # its row holds the products of those after
            for b in range(count):
                before[after, b] = 1.0
            for e in range(family.start[n + 1] - 1, family.start[n] - 1, -1):
                c = family.child[e]
                if is_touched[c]:
                    number -= 1
                    for b in range(count):
                        slope[c, b] += before[number, b] * before[after, b]
                        before[after, b] *= value[c, b]


@entry
def _finish(family, share, log_share, gain, entropy, reach):  # type: ignore[no-untyped-def]
    """Turn derivatives by shares into B + H: divide by p(n), add the entropies below."""
    kind, start, child = family.kind, family.start, family.child
    num_nodes = len(kind)
    for n in range(num_nodes):
        for e in range(start[n], start[n + 1]):
            if kind[n] == SUM:
                if share[e] > 0.0:
                    entropy[n] += share[e] * (entropy[child[e]] - log_share[e])
            else:
                entropy[n] += entropy[child[e]]
    reach[num_nodes - 1] = 1.0
    for n in range(num_nodes - 1, -1, -1):
        for e in range(start[n], start[n + 1]):
            if kind[n] == SUM:
                reach[child[e]] += share[e] * reach[n]
                if reach[n] > 1e-280:
                    gain[e] = gain[e] / reach[n] + entropy[child[e]]
                else:
                    gain[e] = log_share[e]
            else:
                reach[child[e]] += reach[n]


@entry
def _normalise(family, log_share):  # type: ignore[no-untyped-def]
    for n in range(len(family.kind)):
        if family.kind[n] == SUM:
            best, total = -math.inf, 0.0
            for e in range(family.start[n], family.start[n + 1]):
                best = max(best, log_share[e])
            for e in range(family.start[n], family.start[n + 1]):
                total += math.exp(log_share[e] - best)
            for e in range(family.start[n], family.start[n + 1]):
                log_share[e] -= best + math.log(total)
        else:
            for e in range(family.start[n], family.start[n + 1]):
                log_share[e] = 0.0
