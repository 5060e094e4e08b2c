"""The mixture of pairs of records, fitted by expectation–maximisation on comparison vectors.

A candidate pair is of the same entity, or of two entities that are related (a family at one
address, two papers of the same authors), or agrees by chance only. Within a kind, columns are
independent (Fellegi & Sunter 1969; the EM of Winkler 1988):

    P(levels, rules | same)    = Π_j same_j(level_j)
    P(levels, rules | related) = Π_j related_j(level_j)
    P(levels, rules | chance)  = P(rules | chance) · Π_j chance_j(level_j | rules)

`rules` is the set of blocking rules that found the pair. A pair by chance is a candidate because of
them: columns that a rule compares for equality are equal, and give no evidence; the levels of
columns that a rule reads otherwise (the first three letters) are apart for pairs that it found. For
the two other kinds the set follows from the values, and needs no factor.

Random pairs of all records are a second sample, with shares of the kinds of its own: it determines
chance_j. Without the kind "related" the mixture takes families for the same person: surname and
address agree in a tenth of the pairs, far more than chance allows. Pairs with the same levels,
rules and label are one vector with a multiplicity, so that a million pairs cost as much as their
ten thousand vectors. A missing value has the factor 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.recipes.comparisons import Comparison
from lapis.runtime.progress import Progress, Report, check_time, report_progress

SAME, RELATED, CHANCE = range(3)
UNLABELLED = -1
SMOOTHING = 0.5  # pairs that are added to a distribution, in all
MIN_PROBABILITY = 1e-12
START_EXACT = 0.8  # of equal values in pairs of the same entity, where EM starts
START_SHARE = 0.2  # at most, of pairs of the same entity; less where pairs are many a record
START_PAIRS = (1, 5)  # pairs of the same entity for each record, where EM starts
TRIAL_STEPS = 30  # from each start, before the likeliest goes on
START_RELATED = 0.3  # of the start of same in that of related; the rest is that of all pairs
OUTSIDE_SHARE = 0.05  # of the pairs of the same entity: those that no rule finds


@dataclass(frozen=True)
class RuleSets:
    """The sets of blocking rules that found pairs, and what they tell of each column."""

    bits: np.ndarray  # int64[num_sets], sorted
    equal: np.ndarray  # bool[num_sets, num_columns]: a rule compares the column for equality
    touched: np.ndarray  # bool[num_sets, num_columns]: a rule reads the column otherwise

    def index(self, bits: np.ndarray) -> np.ndarray:
        """Return the number of each set, −1 of the empty one.

        A set that is not listed has the number of its largest part that is.
        """
        place = np.minimum(np.searchsorted(self.bits, bits), len(self.bits) - 1)
        missed = np.flatnonzero((self.bits[place] != bits) & (bits != 0))
        for row in missed:
            inside = np.flatnonzero((self.bits & ~bits[row]) == 0)
            sizes = [int(self.bits[each]).bit_count() for each in inside]
            place[row] = inside[int(np.argmax(sizes))] if sizes else -1
        place[bits == 0] = -1
        return place


@dataclass(frozen=True)
class MatchModel:
    """The fitted mixture, as weights of a Markov logic network; chance has weight 0."""

    comparisons: tuple[Comparison, ...]
    sets: RuleSets
    prior: np.ndarray  # float64[2], log-odds of same and related against chance
    # For each column float64[num_levels]: the distribution of each kind.
    same: tuple[np.ndarray, ...]
    related: tuple[np.ndarray, ...]
    chance: tuple[np.ndarray, ...]
    rule_weight: np.ndarray  # float64[num_sets], added for same and for related
    outside_weight: float  # the same for a pair that no rule found
    shares: np.ndarray  # float64[3], of the candidate pairs
    iterations: int
    converged: bool
    with_related: bool
    weights: tuple[tuple[np.ndarray, np.ndarray], ...] | None = None  # learned ones, if any

    @cached_property
    def level_weights(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """For each column, the weights of its levels for same and for related."""
        if self.weights is not None:
            return self.weights
        return tuple(
            (log_ratio(same, chance), log_ratio(related, chance))
            for same, related, chance in zip(self.same, self.related, self.chance, strict=True)
        )

    def extend(self, levels: np.ndarray, sets: np.ndarray) -> np.ndarray:
        """Return the levels, with those of columns that a rule read set apart."""
        return extend_levels(levels, sets, self.sets.touched, self.comparisons)

    def log_odds(self, extended: np.ndarray, sets: np.ndarray) -> np.ndarray:
        """Return float64[num_pairs, 2], the log-odds of same and of related against chance.

        A set of −1 is of a pair that no rule found.
        """
        rules = np.append(self.rule_weight, self.outside_weight)[sets]
        found = rules[:, None] + self.prior
        for column, (same, related) in enumerate(self.level_weights):
            found[:, SAME] += same[extended[:, column]]
            found[:, RELATED] += related[extended[:, column]]
        if not self.with_related:
            found[:, RELATED] = -np.inf
        return found


def log_ratio(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the logs of ratios of two distributions; 0 where both are 0: missing values."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.log(np.maximum(one, MIN_PROBABILITY)) - np.log(
            np.maximum(other, MIN_PROBABILITY)
        )
    found[(one == 0) & (other == 0)] = 0.0
    return found


def combine(log_odds: np.ndarray) -> np.ndarray:
    """Return the log-odds of same against both other kinds."""
    found: np.ndarray = log_odds[:, SAME] - np.logaddexp(0.0, log_odds[:, RELATED])
    return found


def extend_levels(
    levels: np.ndarray, sets: np.ndarray, touched: np.ndarray, comparisons: Sequence[Comparison]
) -> np.ndarray:
    """Return int64[num_pairs, num_columns]: levels, set apart where a rule of the pair read it."""
    found = levels.astype(np.int64)
    inside = np.append(touched, np.zeros((1, touched.shape[1]), bool), axis=0)
    for column, comparison in enumerate(comparisons):
        if comparison.by_rule:
            found[:, column] += comparison.num_plain * inside[sets, column]
    return found


@dataclass(frozen=True)
class Vectors:
    """Distinct comparison vectors with their multiplicities."""

    levels: np.ndarray  # int64[num_vectors, num_columns], extended
    sets: np.ndarray  # int64[num_vectors]
    label: np.ndarray  # int64[num_vectors]: −1 unknown, 0 different, 1 same
    count: np.ndarray  # float64[num_vectors]

    def histogram(self, column: int, weight: np.ndarray, size: int) -> np.ndarray:
        found: np.ndarray = np.bincount(self.levels[:, column], weight, size)
        return found


def collect_vectors(levels: np.ndarray, sets: np.ndarray, label: np.ndarray) -> Vectors:
    """Collect equal comparison vectors."""
    columns = [sets, label + 1, *levels.T]
    key = np.zeros(len(sets), np.int64)
    for column in columns:  # renumber, so that the key does not overflow
        size = int(column.max(initial=0)) + 1
        if (int(key.max(initial=0)) + 1) * size >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1]
        key = key * size + column
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    return Vectors(levels[first], sets[first], label[first], count.astype(np.float64))


class MixtureFit:
    """The state of EM: the distributions of each kind, and the shares of the kinds."""

    def __init__(
        self,
        pairs: Vectors,
        random: Vectors,
        comparisons: Sequence[Comparison],
        sets: RuleSets,
        with_related: bool,
        num_records: float,
        num_pairs: int,
    ) -> None:
        self.pairs, self.random = pairs, random
        self.comparisons, self.sets, self.with_related = comparisons, sets, with_related
        self.sizes = [comparison.num_levels for comparison in comparisons]
        count, seen = pairs.count, random.count
        self.same = [start_of_same(comparison) for comparison in comparisons]
        self.related = [
            START_RELATED * self.same[j]
            + (1 - START_RELATED) * self.normalise(j, pairs.histogram(j, count, size))
            for j, size in enumerate(self.sizes)
        ]
        self.chance = [self.update_chance(j, count, seen) for j in range(len(self.sizes))]
        self.shares = self.start_shares(min(START_SHARE, num_records / count.sum()))
        self.random_shares = self.start_shares(min(START_SHARE, num_records / num_pairs))
        self.rule_share = np.bincount(pairs.sets, count, len(sets.bits)) / count.sum()

    def start_shares(self, same: float) -> np.ndarray:
        """Return the shares of the kinds where EM starts."""
        related = same if self.with_related else 0.0
        return np.array([same, related, 1 - same - related])

    def normalise(self, column: int, counts: np.ndarray) -> np.ndarray:
        """Return the distribution of counts, smoothed, without missing values.

        Pairs that a rule found are not apart: their set of rules follows from the values.
        """
        comparison = self.comparisons[column]
        plain = counts[: comparison.num_plain].copy()
        if comparison.by_rule:
            plain += counts[comparison.num_plain :]
        plain += SMOOTHING / len(plain)
        plain[0] = 0.0
        plain /= plain.sum()
        return np.tile(plain, 2) if comparison.by_rule else plain

    def update_chance(self, column: int, pairs: np.ndarray, random: np.ndarray) -> np.ndarray:
        """Return the levels of random pairs and, given that a rule reads the column, of pairs."""
        comparison, size = self.comparisons[column], self.sizes[column]
        found = self.random.histogram(column, random, size)
        if not comparison.by_rule:
            return self.normalise(column, found)
        half = comparison.num_plain
        found[half:] = self.pairs.histogram(column, pairs, size)[half:]
        found += SMOOTHING / size
        found[[0, half]] = 0.0
        found[:half] /= found[:half].sum()
        found[half:] /= found[half:].sum()
        return found

    def rule_logs(self) -> np.ndarray:
        """Return log P(rules | chance) without the columns that the rules make equal."""
        found: np.ndarray = np.log(np.maximum(self.rule_share, MIN_PROBABILITY))
        for column, comparison in enumerate(self.comparisons):
            equal = self.sets.equal[:, column]
            shift = comparison.num_plain * (self.sets.touched[:, column] & comparison.by_rule)
            for start in (0, comparison.num_plain):
                rows = equal & (shift == start)
                if rows.any():
                    exact = self.chance[column][start + 1 : start + 1 + comparison.num_exact]
                    found[rows] -= np.log(max(float(exact.sum()), MIN_PROBABILITY))
        return found

    def log_likelihoods(self, vectors: Vectors) -> np.ndarray:
        """Return float64[num_vectors, 3], the logs of the columns' factors in each kind."""
        found = np.zeros((len(vectors.count), 3))
        for column in range(len(self.sizes)):
            for kind, tables in enumerate((self.same, self.related, self.chance)):
                logs = np.log(np.maximum(tables[column], MIN_PROBABILITY))
                logs[tables[column] == 0] = 0.0
                found[:, kind] += logs[vectors.levels[:, column]]
        return found

    def responsibilities(
        self, logs: np.ndarray, shares: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of the kinds, and the log-likelihood of each vector."""
        with np.errstate(divide="ignore"):
            joint = logs + np.log(shares)
        total = np.logaddexp.reduce(joint, axis=1)
        return np.exp(joint - total[:, None]), total

    def step(self) -> float:
        """Make one step of EM; return the log-likelihood before it."""
        logs = self.log_likelihoods(self.pairs)
        logs[:, CHANCE] += self.rule_logs()[self.pairs.sets]
        logs[self.pairs.label == 1, RELATED:] = -np.inf
        logs[self.pairs.label == 0, SAME] = -np.inf
        posterior, total = self.responsibilities(logs, self.shares)
        value = float(self.pairs.count @ total)
        weight = posterior * self.pairs.count[:, None]
        other, _ = self.responsibilities(self.log_likelihoods(self.random), self.random_shares)
        seen = other * self.random.count[:, None]
        self.shares = weight.sum(0) / weight.sum()
        self.random_shares = np.maximum(seen.sum(0) / seen.sum(), 1e-12)
        if not self.with_related:
            self.random_shares[RELATED] = 0.0
        for column, size in enumerate(self.sizes):
            same = self.pairs.histogram(column, weight[:, SAME], size)
            self.same[column] = self.normalise(column, same)
            if self.with_related:
                related = self.pairs.histogram(column, weight[:, RELATED], size)
                self.related[column] = self.normalise(column, related)
            self.chance[column] = self.update_chance(column, weight[:, CHANCE], seen[:, CHANCE])
        share = np.bincount(self.pairs.sets, weight[:, CHANCE], len(self.sets.bits)) + 0.1
        self.rule_share = share / share.sum()
        return value

    def order_kinds(self) -> None:
        """Exchange same and related if related pairs agree more."""
        gain = 0.0
        for column, comparison in enumerate(self.comparisons):
            exact = slice(1, 1 + comparison.num_exact)
            rare = -np.log(max(float(self.chance[column][exact].sum()), MIN_PROBABILITY))
            gain += rare * float((self.same[column][exact] - self.related[column][exact]).sum())
        if self.with_related and gain < 0:
            self.same, self.related = self.related, self.same
            self.shares = self.shares[[RELATED, SAME, CHANCE]]


def start_of_same(comparison: Comparison) -> np.ndarray:
    """Return the distribution of a column's levels in pairs of one entity, where EM starts."""
    exact, rest = comparison.num_exact, comparison.num_plain - 1 - comparison.num_exact
    plain = np.concatenate(
        [[0.0], np.full(exact, START_EXACT / exact), np.full(rest, (1 - START_EXACT) / rest)]
    )
    return np.tile(plain, 2) if comparison.by_rule else plain


def fit_mixture(
    pairs: Vectors,
    random: Vectors,
    comparisons: Sequence[Comparison],
    sets: RuleSets,
    *,
    num_records: int,
    num_pairs: int,
    with_related: bool = True,
    max_iterations: int = 300,
    tolerance: float = 1e-8,
    progress: Report | None = None,
) -> MatchModel:
    """Fit the mixture; `num_pairs` is the number of pairs of all records."""
    fits = [
        MixtureFit(pairs, random, comparisons, sets, with_related, n * num_records, num_pairs)
        for n in START_PAIRS
    ]
    values = [max(fit.step() for _ in range(TRIAL_STEPS)) for fit in fits]
    fit = fits[int(np.argmax(values))]
    last, converged, iteration = max(values), False, TRIAL_STEPS
    while iteration < max_iterations and not converged:
        check_time("learning")
        value = fit.step()
        iteration += 1
        converged = abs(value - last) <= tolerance * abs(value)
        last = value
        report_progress(
            progress, Progress("learning", iteration, max_iterations, figures={"value": value})
        )
    fit.order_kinds()
    shares = np.maximum(fit.shares, MIN_PROBABILITY)
    outside = max(num_pairs / float(pairs.count.sum()), 1.0)
    return MatchModel(
        tuple(comparisons),
        sets,
        np.log(shares[:2] / shares[CHANCE]),
        tuple(fit.same),
        tuple(fit.related),
        tuple(fit.chance),
        -fit.rule_logs(),
        float(np.log(OUTSIDE_SHARE / outside)),
        fit.shares,
        iteration,
        converged,
        with_related,
    )
