"""How far a sampler's averages can be trusted: standard errors, R-hat, effective sample size.

For M chains of N samples each, in batches:

- standard error: batch means, s_b / sqrt(M · B), with s_b² the variance of the B batch means
  within each chain (Flegal and Jones 2010). Where the chains disagree (R-hat above the limit, or
  their means further apart than their batches explain) only whole chains are independent, and
  s(chain means) / sqrt(M) is taken if it is larger.
- split R-hat (Gelman et al., BDA3, 11.4; plain, not rank-normalised: values are probabilities,
  heavy tails do not occur): sqrt((W (L − 1)/L + B) / W) over the 2M half chains of length L.
- effective sample size: the variance of a sample over the squared standard error, without what is
  added to it below.

What is rare may have been seen too seldom for the batches to know its variance, or only in the
batch not yet full: one event more or less, jump / (M · N), is added in quadrature. A value that
never changed has R-hat 1 and a standard error of its range / (M · N). Without this, expected
counts were off by more than 4 standard errors eight times as often as they should be.

Where a chain was in warm-up and none has been since is such an event too, and may be a large one:
chains that start apart, fall into the larger mode one after the other and never leave it again
agree perfectly. A chain that needed D samples to leave a mode leaves it at a rate of about 1 / D;
by balance, were its probability p, the M · N samples since would have seen about p · M · N / D
visits. None was seen, so p is of the order D / (M · N), whatever R-hat says. So
`VISITS` visits more or less, each the sum of one chain's deviations from the mean in warm-up, are
added in quadrature:

    max over chains | Σ_{warm-up} (x − mean) | · VISITS / (M · N)

If the mode is visited again the batches see more than that. If it is not, sampling goes on until
the visits that may be missing no longer matter, or the answer says that it has not converged.

Chains that never meet (R-hat beyond `SEPARATED`; infinite for an atom that no chain moves and that
differs between them) sit on islands or in modes, and so does a component in which nothing ever
moved, unless the sampler is known to reach all worlds. Each chain is then one draw of an island,
whatever it does there, and no atom of the component has an error below sqrt(p (1 − p) / M), with p
drawn to 1/2 by one chain more: an atom of a third mode, in which no chain has been, is the same in
all of them.

Effective sample sizes of a trace, bulk and tail, and its R-hat.

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
from lapis.network.csr import row_chunks
from lapis.network.network import Network

PIECE = 1 << 13  # values summarised together, which stay in the cache
NOISE = 1e-12  # variances below this are rounding
MAX_RHAT = 1.05
APART = 6.0  # F of chain means over batch means beyond which chains disagree: 0.1 % by chance
SEPARATED = 5.0  # R-hat beyond which chains have not met: further apart than any of them moves
VISITS = 2.0  # to a place left in warm-up that may be missing since


class Summary(NamedTuple):
    """Averages over all chains and their quality, one entry a value."""

    mean: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values], inf with fewer than two batches
    rhat: np.ndarray  # float64[num_values]
    ess: np.ndarray  # float64[num_values]
    missed: np.ndarray  # float64[num_values], the part of stderr for places left in warm-up
    still: np.ndarray  # bool[num_values], never changed in any chain

    @property
    def parted(self) -> np.ndarray:
        """bool[num_values], whether each chain is one draw of where the value can be."""
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
        """int64[≤ number], the values with the smallest effective sample size, worst first."""
        if len(self.ess) > 8 * number:
            candidates = np.argpartition(self.ess, number)[:number]
        else:
            candidates = np.arange(len(self.ess))
        return candidates[np.argsort(self.ess[candidates], kind="stable")][:number]


class ChainAverages(NamedTuple):
    """Averages of very many values, of whose quality the worst is kept."""

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
    """What the chains did before they were believed."""

    total: np.ndarray  # float64[num_chains, num_values], sums of value − origin
    length: int  # samples a chain


class Trace(NamedTuple):
    """What the slowest atoms did in each chain, thinned, for plots."""

    atoms: np.ndarray  # int64[num_traced]
    values: np.ndarray  # float32[num_chains, num_draws, num_traced]
    stride: int  # samples from one draw to the next


def num_tallied(tally: Tally) -> int:
    """Samples recorded in one chain."""
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
    """The summary of equally long chains.

    `span` is the range of each value and `jump` what one event changes it by, float64[num_values];
    both are 1 for probabilities.
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
    """What is known of each chain by itself, float64[num_chains, num_values]."""

    mean: np.ndarray
    first: np.ndarray  # means of the two halves
    second: np.ndarray
    batch_variance: np.ndarray  # of the means of batches
    variance: np.ndarray  # of samples


def summarize_chains(tallies: Sequence[Tally], piece: slice) -> Chains:
    """Of values − origin, some of the values."""
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
    """Fill in what chains of one length say together; `missed` is known."""
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
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.where(within > noise, np.sqrt(pooled / within), np.inf)
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
    """float64[num_weights] each: how far counts can differ, and by how much with one clause.

    `sampled`, bool[num_components], leaves out components that are known exactly. Without clauses
    the counts come from elsewhere, and one grounding is the least that they change by.
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
    """Raise the errors of probabilities in components whose chains never meet.

    `component`, int[num_values], tells which values can have to do with each other. A component
    in which nothing moved gets R-hat infinite unless the chains are known to reach all of it.
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
    """bool[num_components]: several values, none of which moved in chains that may not reach all.

    `moved`, bool[num_components], tells in which components some value changed. Of a chain without
    others it is never known whether it moves on an island.
    """
    if ergodic is not None:
        return np.zeros(len(moved), bool)
    seen = moved & (num_chains > 1)
    return (np.bincount(component, minlength=len(moved)) > 1) & ~seen


def island_error(mean: np.ndarray, num_chains: int) -> np.ndarray:
    """float64[num_values], the error of a probability of which each chain is one draw."""
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
