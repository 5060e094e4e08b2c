"""Standard errors, R-hat and effective sample sizes of a sampler's averages.

For M chains of N samples each, in batches:

- standard error: batch means, s_b / sqrt(M · B), with s_b² the variance of the B batch means
  within each chain (Flegal and Jones 2010, "Batch means and spectral variance estimators"). If the
  chains disagree (R-hat above the limit, or means further apart than their batches explain), only
  whole chains are independent, and s(chain means) / sqrt(M) is used if it is larger.
- split R-hat (Gelman et al., BDA3, section 11.4; not rank-normalised: probabilities have no heavy
  tails): sqrt((W (L − 1)/L + B) / W) over the 2M half chains of length L.
- effective sample size: the variance of a sample over the squared standard error, without the
  additions below.

Rare events. Batches may not show the variance of a rare event. So one event, jump / (M · N), is
added in quadrature. A value that never changed has R-hat 1 and a standard error of its range /
(M · N). Without this, expected counts were off by more than 4 standard errors eight times too
often.

Modes left in warm-up. Chains that start apart, move into the larger mode one after the other and
never return agree perfectly. A chain that needed D samples to leave a mode leaves it at a rate of
about 1 / D. By detailed balance, if the mode had probability p, the M · N samples would contain
about p · M · N / D visits. With none, p is of the order D / (M · N), whatever R-hat is. So `VISITS`
visits, each the sum of one chain's deviations from the mean in warm-up, are added in quadrature:

    max over chains | Σ_{warm-up} (x − mean) | · VISITS / (M · N)

If the mode is visited again, the batches contain more than that. If not, sampling continues until
the missing visits are negligible, or the answer is marked as not converged.

Islands. Chains that never meet (R-hat above `SEPARATED`; infinite for an atom that is constant in
each chain but differs between chains) are in disconnected regions or in different modes. So is a
component in which nothing moved, unless the sampler is known to reach all worlds. Each chain is
then a single draw of a region, and the error of each atom of the component is at least
sqrt(p (1 − p) / M), with p shrunk towards 1/2 by one additional chain: an atom may differ in a
region that no chain visited.

Traces. Bulk and tail effective sample size and rank-normalised R-hat are those of Vehtari, Gelman,
Simpson, Carpenter and Bürkner (2021, "Rank-normalization, folding, and localization: an improved
R-hat", sections 3.2, 4.2 and 4.3), as in ArviZ and Stan. Chains are split into halves. The
autocorrelation at lag t is

    ρ_t = 1 − (W − mean autocovariance at t) / V,     V = W (L − 1)/L + variance of the means

and the size of S draws is S / (−1 + 2 Σ ρ_t). ρ is summed in pairs of lags while these are
positive, each at most the previous pair (Geyer 1992). *Bulk* uses normal scores of the ranks,
*tail* the smaller size of the indicators "at most the 5 % quantile" and "at most the 95 %
quantile". The traced value is not the atom's truth value but its conditional probability when it
was drawn. A constant trace is fully effective.

Only a few atoms are traced, and the slowest in warm-up need not be the slowest of all. For all
atoms there are batch means: with σ² the variance of a sample and s² that of the means of runs of
length L, the autocorrelation time is τ = L s² / σ². Runs are batches, and half chains, which also
show chains that differ. The largest of many noisy τ is mostly noise, so `slowest_size` selects
atoms by one half of the run and measures them in the other, and vice versa.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.tally import Tally
from lapis.network.csr import row_chunks
from lapis.network.network import Network

PIECE = 1 << 13  # values summarised together, such that they stay in the cache
NOISE = 1e-12  # variances below this are rounding
MAX_RHAT = 1.05
APART = 6.0  # F statistic of chain means above which chains disagree: 0.1 % by chance
SEPARATED = 5.0  # R-hat above which chains never met
VISITS = 2.0  # number of possibly missed visits to places left in warm-up


class Summary(NamedTuple):
    """Averages over all chains and their diagnostics, one entry per value."""

    mean: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values], inf with fewer than two batches
    rhat: np.ndarray  # float64[num_values]
    ess: np.ndarray  # float64[num_values]
    missed: np.ndarray  # float64[num_values], the part of stderr due to places left in warm-up
    still: np.ndarray  # bool[num_values], never changed in any chain

    @property
    def parted(self) -> np.ndarray:
        """bool[num_values], whether the chains never met."""
        found: np.ndarray = self.rhat > SEPARATED
        return found

    @property
    def worst_missed(self) -> float:
        return float(self.missed.max(initial=0.0))

    def is_precise(self, precision: float) -> bool:
        return self.worst_stderr <= precision and self.worst_rhat <= MAX_RHAT

    @property
    def worst_rhat(self) -> float:
        return float(self.rhat.max(initial=1.0))

    @property
    def worst_stderr(self) -> float:
        return float(self.stderr.max(initial=0.0))

    def slowest(self, number: int) -> np.ndarray:
        """Return int64[≤ number], the values of smallest effective sample size, worst first."""
        if len(self.ess) > 8 * number:
            candidates = np.argpartition(self.ess, number)[:number]
        else:
            candidates = np.arange(len(self.ess))
        return candidates[np.argsort(self.ess[candidates], kind="stable")][:number]


class ChainAverages(NamedTuple):
    """Averages of very many values, with only the worst diagnostics."""

    mean: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values]
    worst_rhat: float
    worst_missed: float

    @property
    def worst_stderr(self) -> float:
        return float(self.stderr.max(initial=0.0))

    def is_precise(self, precision: float) -> bool:
        return self.worst_stderr <= precision and self.worst_rhat <= MAX_RHAT


class WarmUp(NamedTuple):
    """The sums of the chains' warm-up."""

    total: np.ndarray  # float64[num_chains, num_values], sums of value − origin
    length: int  # samples per chain


class Trace(NamedTuple):
    """The thinned traces of the slowest atoms in each chain."""

    atoms: np.ndarray  # int64[num_traced]
    values: np.ndarray  # float32[num_chains, num_draws, num_traced]
    stride: int  # samples from one draw to the next


def num_tallied(tally: Tally) -> int:
    """Return the number of samples in one chain."""
    full, length, partial = tally.cursor.tolist()
    return int(full * length + partial)


def summarize(
    tallies: Sequence[Tally],
    max_rhat: float = MAX_RHAT,
    *,
    warm_up: WarmUp | None = None,
    span: np.ndarray | None = None,
    jump: np.ndarray | None = None,
) -> Summary:
    """Summarise chains of equal length.

    `span` is the range of each value and `jump` its change by one event, float64[num_values]; both
    are 1 for probabilities.
    """
    num_values = tallies[0].batch_sum.shape[1]
    mean, stderr, rhat, ess, missed = np.zeros((5, num_values))
    found = Summary(mean, stderr, rhat, ess, missed, np.zeros(num_values, bool))
    for begin in range(0, num_values, PIECE):
        piece = slice(begin, begin + PIECE)
        chains = summarize_chains(tallies, piece)
        if warm_up is not None and num_tallied(tallies[0]) > 0:
            away = np.abs(warm_up.total[:, piece] - warm_up.length * chains.mean.mean(axis=0))
            missed[piece] = VISITS * away.max(axis=0) / (len(tallies) * num_tallied(tallies[0]))
        compare_chains(
            tallies[0].cursor.tolist(),
            chains,
            max_rhat,
            1.0 if span is None else span[piece],
            1.0 if jump is None else jump[piece],
            Summary(*(part[piece] for part in found)),
        )
        mean[piece] += tallies[0].origin[piece]
    return found


class Chains(NamedTuple):
    """Statistics of each chain, float64[num_chains, num_values]."""

    mean: np.ndarray
    first: np.ndarray  # means of the two halves
    second: np.ndarray
    batch_variance: np.ndarray  # of the means of batches
    variance: np.ndarray  # of samples


def summarize_chains(tallies: Sequence[Tally], piece: slice) -> Chains:
    """Compute the statistics of some values, relative to the origin."""
    full, length, partial = tallies[0].cursor.tolist()
    half, samples = full // 2, max(full * length + partial, 1)
    batches = np.stack([tally.batch_sum[: full + 1, piece] for tally in tallies])
    mean = batches.sum(axis=1) / samples
    batches = batches[:, :full]
    batches /= length
    first = batches[:, :half].sum(axis=1) / max(half, 1)
    second = batches[:, full - half :].sum(axis=1) / max(half, 1)
    batches -= mean[:, None]
    drift = batches.sum(axis=1)
    batches *= batches
    spread = (batches.sum(axis=1) - drift**2 / max(full, 1)) / max(full - 1, 1)
    square = np.stack([tally.square_sum[piece] for tally in tallies]) / samples
    return Chains(mean, first, second, np.maximum(spread, 0.0), np.maximum(square - mean**2, 0.0))


def compare_chains(
    cursor: Sequence[int],
    chains: Chains,
    max_rhat: float,
    span: float | np.ndarray,
    jump: float | np.ndarray,
    found: Summary,
) -> None:
    """Write the summary of chains of equal length to `found`, whose `missed` is given."""
    full, length, partial = cursor
    num_chains, half_length = len(chains.mean), max((full // 2) * length, 1)
    samples = num_chains * (full * length + partial)
    found.mean[:] = chains.mean.mean(axis=0)
    if full < 2:
        found.rhat[:], found.stderr[:], found.ess[:] = np.inf, np.inf, 1.0
        return
    halves = np.concatenate((chains.first, chains.second))
    between = chains.mean.var(axis=0, ddof=1) if num_chains > 1 else np.zeros(len(found.mean))
    apart = (chains.first - chains.second) ** 2 / 4
    within = np.maximum((chains.variance - apart).mean(axis=0), 0.0)
    pooled = within * (half_length - 1) / half_length + halves.var(axis=0, ddof=1)
    noise = NOISE * (1.0 + np.abs(found.mean)) ** 2
    error = np.sqrt(chains.batch_variance.mean(axis=0) / (num_chains * full))
    found.still[:] = pooled <= noise
    rhat = np.sqrt(pooled / np.maximum(within, noise))
    rhat[(within <= noise) & (rhat > SEPARATED)] = np.inf
    disagree = (rhat > max_rhat) | (between > APART * num_chains * error**2)
    error = np.where(disagree, np.maximum(error, np.sqrt(between / num_chains)), error)
    event = np.maximum(jump / samples, found.missed)
    found.rhat[:] = np.where(found.still, 1.0, rhat)
    size = np.minimum(pooled / np.maximum(error**2, 1e-300), 1.0 * samples)
    found.ess[:] = np.where(found.still, float(samples), size)
    found.stderr[:] = np.where(
        found.still, np.maximum(span / samples, found.missed), np.hypot(error, event)
    )


def count_ranges(
    network: Network, sampled: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranges of counts and their largest change by one clause, float64[num_weights].

    `sampled`, bool[num_components], excludes components that are solved exactly. Networks without
    clauses are not grounded; both are then 1, a single grounding.
    """
    if network.num_clauses == 0:
        return np.ones(len(network.weights)), np.ones(len(network.weights))
    span, jump = np.zeros((2, len(network.weights)))
    for rows in row_chunks(network.num_clauses):
        soft = network.weight_id[rows] >= 0
        if sampled is not None:
            first_atom = np.abs(network.literal[network.clause_start[:-1][rows]]) - 1
            soft &= sampled[network.component[first_atom]]
        weight_id, size = network.weight_id[rows][soft], np.abs(network.coefficient[rows][soft])
        span += np.bincount(weight_id, weights=size, minlength=len(span))
        np.maximum.at(jump, weight_id, size)
    return span, jump


def raise_island_errors(
    found: Summary, component: np.ndarray, num_chains: int, ergodic: bool | None
) -> Summary:
    """Increase the standard errors of components whose chains never meet.

    `component`, int[num_values], are the connected components of the values. A component in which
    nothing moved gets an infinite R-hat unless the sampler is known to be ergodic.
    """
    stuck, moved = np.zeros((2, int(component.max(initial=-1)) + 1), bool)
    stuck[component[found.parted]] = True
    moved[component[~found.still]] = True
    dead = dead_components(component, moved, num_chains, ergodic)
    floor = np.where((stuck | dead)[component], island_error(found.mean, num_chains), 0.0)
    return found._replace(
        rhat=np.where(dead[component], np.inf, found.rhat),
        stderr=np.maximum(found.stderr, floor),
    )


def dead_components(
    component: np.ndarray, moved: np.ndarray, num_chains: int, ergodic: bool | None
) -> np.ndarray:
    """Return bool[num_components], those with several values in which nothing moved.

    `moved`, bool[num_components], are the components in which a value changed; a single chain may
    always be confined to a region. All False unless `ergodic` is None (unknown).
    """
    if ergodic is not None:
        return np.zeros(len(moved), bool)
    seen = moved & (num_chains > 1)
    return (np.bincount(component, minlength=len(moved)) > 1) & ~seen


def island_error(mean: np.ndarray, num_chains: int) -> np.ndarray:
    """Compute the standard error of a probability if each chain is a single draw."""
    drawn = (num_chains * mean + 0.5) / (num_chains + 1)
    return np.sqrt(drawn * (1 - drawn) / num_chains)


def collect_trace(tallies: Sequence[Tally]) -> Trace:
    kept, stride, _ = tallies[0].trace_cursor.tolist()
    return Trace(
        tallies[0].traced, np.stack([tally.trace[:kept] for tally in tallies]), int(stride)
    )


TAILS = (0.05, 0.95)
STANDARD = NormalDist()
NUM_SLOWEST = 8
MIN_BATCHES = 8
VALUES_AT_ONCE = 1 << 16  # values looked at together


class EffectiveSize(NamedTuple):
    """Effective sample sizes, the least over the traced values."""

    bulk: float
    tail: float

    def is_enough(self, wanted: float) -> bool:
        return min(self) >= wanted


def effective_size(trace: np.ndarray) -> EffectiveSize:
    """Compute the sizes of float[num_chains, num_draws, num_values]; 0 if too few draws."""
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
    """Compute rank-normalised R-hat of float[num_chains, num_draws, num_values]; NaN if too few."""
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
    """Compute √(V / W) of float64[num_chains, length]; infinite if only the chains differ."""
    length, within = chains.shape[1], float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1))
    if within == 0.0:
        return 1.0 if between == 0.0 else np.inf
    return float(np.sqrt((length - 1) / length + between / within))


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Compute Φ⁻¹((rank − 3/8) / (S + 1/4)), ties at their average rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2
    # scipy's function is faster for millions of values, but importing it takes longer than this.
    share = ((rank - 0.375) / (values.size + 0.25)).tolist()
    score = np.array([STANDARD.inv_cdf(one) for one in share])
    return score[place].reshape(values.shape)


def autocorrelated_size(chains: np.ndarray) -> float:
    """Compute the effective sample size of float64[num_chains, length] by autocorrelation."""
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
    """Compute the effective sample size of the slowest value; 0 if there are too few batches."""
    full, length, partial = tallies[0].cursor.tolist()
    samples = len(tallies) * (full * length + partial)
    half, num_values = full // 2, len(tallies[0].origin)
    if full < MIN_BATCHES:
        return 0.0
    time = np.zeros((2, 2, num_values))  # by half of the run; by batches and by chains
    for begin in range(0, num_values, VALUES_AT_ONCE):
        piece = slice(begin, begin + VALUES_AT_ONCE)
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
