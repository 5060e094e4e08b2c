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

Chains that never meet (R-hat infinite: an atom that no chain moves and that differs between them)
sit on islands, and so does a component in which nothing ever moved, unless the sampler is known to
reach all worlds. Each chain is then one draw of an island, whatever it does there, and no atom of
the component has an error below sqrt(p (1 − p) / M), with p drawn to 1/2 by one chain more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.compiled import entry
from lapis.inference.sampling.kernels.tally import Tally

NOISE = 1e-12  # variances below this are rounding
MAX_RHAT = 1.05
APART = 6.0  # F of chain means over batch means beyond which chains disagree: 0.1 % by chance
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
    def worst_missed(self) -> float:
        return float(self.missed.max(initial=0.0))

    def is_precise(self, precision: float, max_rhat: float) -> bool:
        return self.worst_stderr <= precision and self.worst_rhat <= max_rhat

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


class Averages(NamedTuple):
    """Averages of very many values, of whose quality the worst is kept."""

    mean: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values]
    worst_rhat: float
    worst_missed: float

    @property
    def worst_stderr(self) -> float:
        return float(self.stderr.max(initial=0.0))

    def is_precise(self, precision: float, max_rhat: float) -> bool:
        return self.worst_stderr <= precision and self.worst_rhat <= max_rhat


class WarmUp(NamedTuple):
    """What the chains did before they were believed."""

    total: np.ndarray  # float64[num_chains, num_values], sums of value − origin
    length: int  # samples a chain


class Trace(NamedTuple):
    """What the slowest atoms did, thinned, for plots."""

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
    chains = np.zeros((3, len(tallies), num_values))  # mean, first half, second half
    batch_variance = np.zeros(num_values)
    square = np.zeros(num_values)
    full, length, partial = tallies[0].cursor.tolist()
    for chain, tally in enumerate(tallies):
        _summarize_chain(
            tally.batch_sum, tally.square_sum, full, length, full * length + partial,
            chains[:, chain], batch_variance, square,
        )  # fmt: skip
    samples = num_tallied(tallies[0])
    if warm_up is not None and samples > 0:
        away = np.abs(warm_up.total - warm_up.length * chains[0].mean(axis=0)).max(axis=0)
        missed[:] = VISITS * away / (len(tallies) * samples)
    _summarize_chains(
        chains, batch_variance, square, tallies[0].origin, full, length, samples, max_rhat,
        np.ones(num_values) if span is None else span,
        np.ones(num_values) if jump is None else jump, *found,
    )  # fmt: skip
    return found


def doubt_islands(
    found: Summary, component: np.ndarray, num_chains: int, ergodic: bool | None
) -> Summary:
    """Raise the errors of probabilities in components whose chains never meet.

    `component`, int[num_values], tells which values can have to do with each other. A component
    in which nothing moved gets R-hat infinite unless the chains are known to reach all of it.
    """
    stuck, moved = np.zeros((2, int(component.max(initial=-1)) + 1), bool)
    stuck[component[found.rhat == np.inf]] = True
    moved[component[~found.still]] = True
    dead = dead_components(component, moved, ergodic)
    floor = np.where((stuck | dead)[component], island_error(found.mean, num_chains), 0.0)
    return found._replace(
        rhat=np.where(dead[component], np.inf, found.rhat),
        stderr=np.maximum(found.stderr, floor),
    )


def dead_components(component: np.ndarray, moved: np.ndarray, ergodic: bool | None) -> np.ndarray:
    """bool[num_components]: several values, none of which moved in chains that may not reach all.

    `moved`, bool[num_components], tells in which components some value changed.
    """
    if ergodic is not None:
        return np.zeros(len(moved), bool)
    dead: np.ndarray = (np.bincount(component, minlength=len(moved)) > 1) & ~moved
    return dead


def island_error(mean: np.ndarray, num_chains: int) -> np.ndarray:
    """float64[num_values], the error of a probability of which each chain is one draw."""
    drawn = (num_chains * mean + 0.5) / (num_chains + 1)
    error: np.ndarray = np.sqrt(drawn * (1 - drawn) / num_chains)
    return error


def collect_trace(tallies: Sequence[Tally]) -> Trace:
    kept, stride, _ = tallies[0].trace_cursor.tolist()
    return Trace(
        tallies[0].traced, np.stack([tally.trace[:kept] for tally in tallies]), int(stride)
    )


@entry
def _summarize_chain(batch_sum, square_sum, full, length, samples, chain, batch_variance, square):  # type: ignore[no-untyped-def]
    """Adds this chain's variance of batch means and of samples; sets its mean and half means."""
    half = full // 2
    for value in range(batch_sum.shape[1]):
        total, mean_square, inside = 0.0, 0.0, 0.0
        first, second = 0.0, 0.0
        for batch in range(full):
            mean = batch_sum[batch, value] / length
            total += batch_sum[batch, value]
            inside += mean
            mean_square += mean * mean
            if batch < half:
                first += mean
            if batch >= full - half:
                second += mean
        if full < len(batch_sum):
            total += batch_sum[full, value]
        mean = total / max(samples, 1)
        chain[0, value] = mean
        chain[1, value] = first / max(half, 1)
        chain[2, value] = second / max(half, 1)
        if full > 1:
            variance = (mean_square - inside * inside / full) / (full - 1)
            batch_variance[value] += max(variance, 0.0)
        square[value] += max(square_sum[value] / max(samples, 1) - mean * mean, 0.0)


@entry
def _summarize_chains(  # type: ignore[no-untyped-def]
    chains, batch_variance, square, origin, full, length, samples, max_rhat, span, jump,
    mean, stderr, rhat, ess, missed, still,
):  # fmt: skip
    num_chains = chains.shape[1]
    half_length = max((full // 2) * length, 1)
    for value in range(len(origin)):
        centre, halves = 0.0, 0.0
        for chain in range(num_chains):
            centre += chains[0, chain, value] / num_chains
            halves += (chains[1, chain, value] + chains[2, chain, value]) / (2 * num_chains)
        between, between_halves, within = 0.0, 0.0, square[value] / num_chains
        for chain in range(num_chains):
            one, two = chains[1, chain, value], chains[2, chain, value]
            between += (chains[0, chain, value] - centre) ** 2 / max(num_chains - 1, 1)
            between_halves += ((one - halves) ** 2 + (two - halves) ** 2) / (2 * num_chains - 1)
            within -= (one - two) ** 2 / 4 / num_chains
        within = max(within, 0.0)
        mean[value] = origin[value] + centre
        noise = NOISE * (1.0 + abs(centre)) ** 2
        pooled = within * (half_length - 1) / half_length + between_halves
        error = np.sqrt(batch_variance[value] / (num_chains * num_chains * max(full, 1)))
        if full < 2:
            rhat[value], stderr[value], ess[value] = np.inf, np.inf, 1.0
        elif pooled <= noise:
            still[value] = True
            rhat[value], ess[value] = 1.0, float(num_chains * samples)
            stderr[value] = max(span[value] / (num_chains * samples), missed[value])
        else:
            rhat[value] = np.sqrt(pooled / within) if within > noise else np.inf
            apart = np.sqrt(between / num_chains)
            if rhat[value] > max_rhat or apart * apart > APART * error * error:
                error = max(error, apart)
            ess[value] = min(pooled / max(error * error, 1e-300), 1.0 * num_chains * samples)
            event = max(jump[value] / (num_chains * samples), missed[value])
            stderr[value] = np.hypot(error, event)
