"""Effective sample sizes of a trace, bulk and tail, and its R-hat.

Vehtari, Gelman, Simpson, Carpenter and Bürkner (Rank-normalization, folding, and localization: an
improved R-hat, Bayesian Analysis 2021), sections 3.2 and 4.3, as ArviZ and Stan define them. Chains
are cut into halves; the autocorrelation at lag t, from within and between the halves, is

    ρ_t = 1 − (W − mean autocovariance at t) / V,     V = W (L − 1)/L + variance of the means

and S draws are worth S / (−1 + 2 Σ ρ_t), with ρ summed by pairs of lags while these are positive,
and never larger than the pair before (Geyer 1992).

*Bulk* is this of the ranks as normal scores, *tail* the smaller of those of the indicators
"at most the 5 % quantile" and "at most the 95 % quantile". What is traced is not an atom's value,
whose only quantile would be itself, but the probability with which it was drawn given the
others: bulk is about its typical values, tail about the rare surroundings in which the atom is
much likelier or unlikelier than usual. A trace that never changes counts as fully effective.

R-hat is √(V / W) of the same normal scores, or of those of the distances from the median if that
is larger (section 4.2 of the paper): chains of one mean and different spreads disagree too.

Only a few atoms can be traced, and those that were slow in warm-up need not be the slowest of a
hundred thousand. Of all atoms there are the means of batches: with σ² the variance of a sample and
s² that of the means of runs of length L, an atom forgets after τ = L s² / σ² samples. Runs are the
batches within a chain, and half chains: batches of chains that sit apart agree with each other.
The largest of many noisy τ is mostly noise, so the atoms are picked by one half of the run and
judged by the other, both ways round (`slowest_size`).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.tally import Tally

TAILS = (0.05, 0.95)
STANDARD = NormalDist()
NUM_SLOWEST = 8
MIN_BATCHES = 8
PIECE = 1 << 16  # values looked at together
NOISE = 1e-12  # variances below this are rounding


class EffectiveSize(NamedTuple):
    """The least over the traced values."""

    bulk: float
    tail: float

    def is_enough(self, wanted: float) -> bool:
        return min(self) >= wanted


def effective_size(trace: np.ndarray) -> EffectiveSize:
    """Of float[num_chains, num_draws, num_values]; 0 of too little to tell."""
    half = trace.shape[1] // 2
    if half < 4 or not trace.shape[2]:
        return EffectiveSize(0.0, 0.0)
    bulk, tail = np.inf, np.inf
    for value in np.moveaxis(trace, 2, 0).astype(np.float64):
        halves = np.concatenate((value[:, :half], value[:, -half:]))
        bulk = min(bulk, autocorrelated_size(normal_scores(halves)))
        for quantile in np.quantile(value, TAILS):
            tail = min(tail, autocorrelated_size((halves <= quantile).astype(np.float64)))
    return EffectiveSize(float(bulk), float(tail))


def rank_rhat(trace: np.ndarray) -> np.ndarray:
    """float64[num_values], of float[num_chains, num_draws, num_values]; NaN of too few draws."""
    half = trace.shape[1] // 2
    if half < 4:
        return np.full(trace.shape[2], np.nan)
    found = np.ones(trace.shape[2])
    for number, value in enumerate(np.moveaxis(trace, 2, 0).astype(np.float64)):
        halves = np.concatenate((value[:, :half], value[:, -half:]))
        folded = np.abs(halves - np.median(halves))
        found[number] = max(map(plain_rhat, map(normal_scores, (halves, folded))))
    return found


def plain_rhat(chains: np.ndarray) -> float:
    """√(V / W) of float64[num_chains, length]; infinite where only the chains differ."""
    length, within = chains.shape[1], float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else np.inf
    return float(np.sqrt((length - 1) / length + between / within))


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Φ⁻¹((rank − 3/8) / (S + 1/4)), ties at their average rank; the shape of `values`."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    # Scipy's is faster for millions; to load it takes longer than these few thousand.
    share = ((rank - 0.375) / (values.size + 0.25)).tolist()
    score = np.array([STANDARD.inv_cdf(one) for one in share])
    return score[place].reshape(values.shape)


def autocorrelated_size(chains: np.ndarray) -> float:
    """What the draws of float64[num_chains, length] are worth."""
    length = chains.shape[1]
    if np.ptp(chains) == 0:
        return float(chains.size)
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :length].mean(axis=0) / length
    within = covariance[0] * length / (length - 1)
    pooled = covariance[0] + chains.mean(axis=1).var(ddof=1)
    correlation = 1.0 - (within - covariance) / pooled
    correlation[0] = 1.0
    even = length - length % 2
    pair = correlation[:even].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pair <= 0)
    kept = int(ends[0]) if len(ends) else len(pair)
    time = -1.0 + 2.0 * float(np.minimum.accumulate(pair[:kept]).sum())
    return chains.size / max(time, 1.0 / np.log10(chains.size))


def slowest_size(tallies: Sequence[Tally]) -> float:
    """What all samples are worth for the slowest of all values; 0 of too few to tell."""
    full, length, partial = tallies[0].cursor.tolist()
    samples = len(tallies) * (full * length + partial)
    half, num_values = full // 2, len(tallies[0].origin)
    if full < MIN_BATCHES:
        return 0.0
    time = np.zeros((2, 2, num_values))  # by half of the run; by batches and by chains
    for begin in range(0, num_values, PIECE):
        piece = slice(begin, begin + PIECE)
        total = np.array([tally.batch_sum[:, piece].sum(axis=0) for tally in tallies]).sum(axis=0)
        square = np.array([tally.square_sum[piece] for tally in tallies]).sum(axis=0)
        variance = square / samples - (total / samples) ** 2
        moves = variance > NOISE
        for side, batches in enumerate((slice(0, half), slice(full - half, full))):
            means = [tally.batch_sum[batches, piece] / length for tally in tallies]
            spread = length * np.mean([mean.var(axis=0, ddof=1) for mean in means], axis=0)
            np.divide(spread, variance, out=time[side, 0, piece], where=moves)
            if len(tallies) > 1:
                chains = [mean.mean(axis=0) for mean in means]
                spread = half * length * np.var(chains, axis=0, ddof=1)
                np.divide(spread, variance, out=time[side, 1, piece], where=moves)
    judged = np.zeros((2, 2))
    for side, (one, other) in enumerate(((0, 1), (1, 0))):
        picked = np.argsort(-time[one].max(axis=0), kind="stable")[:NUM_SLOWEST]
        if num_values:
            judged[side] = time[other][:, picked].mean(axis=1)
    return samples / max(1.0, float(judged.mean(axis=0).max()))
