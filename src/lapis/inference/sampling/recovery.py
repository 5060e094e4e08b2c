"""Sample the core of a reduced network and recover the answers of the eliminated atoms.

A sampler runs on the core that exact partial elimination leaves (`reduction.eliminate`). Its worlds
are kept as bits. Each world of the core contributes P(eliminated atom | its neighbours in the core)
in closed form. Every chain is split into `BATCHES` pieces with an estimate each, and the estimates
go through the same diagnostics as sampled values: batches, chain means and warm-up.

The variance of a single sample, which R-hat needs, is not available for a recovered atom. It is
bounded by m(1 − m) for a probability of mean m. So its R-hat is a lower bound; if the batches show
that chains disagree, the standard error is that of whole chains anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lapis.inference.marginals import InferenceOptions
from lapis.inference.reduction.eliminate import Reduction
from lapis.inference.reduction.tree_answers import (
    Answers,
    SamplePieces,
    SampleSpan,
    allocate_work,
    answer_clauses,
    answer_trees,
    clause_runs,
    join_spans,
    tree_runs,
)
from lapis.inference.sampling.chains import Derived, SampleResult, run_chains
from lapis.inference.sampling.diagnostics import (
    ChainAverages,
    Trace,
    WarmUp,
    count_ranges,
    dead_components,
    island_error,
    summarize,
)
from lapis.inference.sampling.mode_weights import ModeRow
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import Tally, Worlds, new_tally
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool, num_cores, trim_heap

BATCHES = 16  # pieces per chain
MAX_KEPT_BYTES = 1 << 29  # of worlds kept as bits, in all chains
LEAST_KEPT = 64  # worlds of any size


class SampledMarginals(NamedTuple):
    """Sampled and recovered marginals and counts of a network."""

    marginal: np.ndarray  # float64[num_base_atoms]
    stderr: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    expected_stderr: np.ndarray  # float64[num_weights]
    exact: bool  # everything was eliminated
    core: SampleResult | None
    num_core_atoms: int
    trace: Trace | None = None  # of the slowest atoms
    modes: tuple[ModeRow, ...] = ()


def sample_reduced(
    reduction: Reduction,
    candidates: Sequence[Sampler[Any, Any]],
    options: InferenceOptions,
    *,
    weigh: bool = False,
    starts: np.ndarray | None = None,
) -> SampledMarginals:
    """Sample the core by the best of the candidates, and recover the eliminated atoms.

    Chains start at the worlds of the core `starts`, bool[num_chains, num_atoms], if they can.
    """
    core = reduction.core
    base = reduction.network.num_base_atoms
    if core.num_atoms == 0:
        found = reduction.recover(np.zeros((1, 0), bool))
        certain, sure = np.zeros(base), np.zeros(len(found.expected_count))
        marginal = found.marginal[:base]
        return SampledMarginals(marginal, certain, found.expected_count, sure, True, None, 0)
    limit = min(options.max_samples, max(LEAST_KEPT, MAX_KEPT_BYTES * 8 // core.num_atoms))
    sampler, *rivals = candidates
    result = run_chains(
        core,
        sampler,
        rivals=rivals,
        weigh=weigh,
        starts=starts,
        derive=partial(recover_eliminated, reduction),
        **replace(options, max_samples=limit).chain_options,
    )
    assert result.derived is not None
    atoms, counts, _ = result.derived
    # For atoms of the core, the sampler's own averages have less variance.
    own = reduction.core_atom[: core.num_base_atoms]
    inside = own < base
    marginal, stderr = atoms.mean, atoms.stderr
    marginal[own[inside]], stderr[own[inside]] = result.marginal[inside], result.stderr[inside]
    trace = result.trace._replace(atoms=reduction.core_atom[result.trace.atoms])
    modes = tuple(row._replace(atom=int(own[row.atom])) for row in result.modes)
    return SampledMarginals(
        marginal, stderr, counts.mean, counts.stderr, False, result, core.num_base_atoms, trace,
        modes,
    )  # fmt: skip


def list_eliminated(reduction: Reduction) -> np.ndarray:
    """Return int64[...], the base atoms outside the core."""
    return np.flatnonzero(reduction.is_eliminated[: reduction.network.num_base_atoms])


def recover_eliminated(
    reduction: Reduction,
    worlds: Sequence[Worlds],
    before: Sequence[Sequence[Worlds]],
    ergodic: bool | None,
) -> Derived:
    """Recover eliminated atoms and all counts from the worlds of each chain and its warm-up."""
    network = reduction.network
    trim_heap(network.literal.nbytes)  # freed by pilots and chains
    cut = split_chains(worlds, before)
    mean, stderr = np.zeros((2, network.num_base_atoms))
    false = np.zeros((len(network.weights), len(cut.pieces.size)))
    stuck, moved = np.zeros((2, network.num_components), bool)
    rhat, missed = 1.0, 0.0
    for found in summarize_runs(reduction, cut, mean, stderr):
        false[found.weights] += found.false
        stuck[found.stuck], moved[found.moved] = True, True
        rhat, missed = max(rhat, found.worst_rhat), max(missed, found.worst_missed)
    if ergodic is None or stuck.any():
        gone = list_eliminated(reduction)
        dead = dead_components(network.component[gone], moved, cut.num_chains, ergodic)
        rhat = np.inf if dead.any() else rhat
        gone = gone[(stuck | dead)[network.component[gone]]]
        stderr[gone] = np.maximum(stderr[gone], island_error(mean[gone], cut.num_chains))
    count = reduction.all_true - false.T
    # The variance of counts within pieces is not needed: their R-hat is not used.
    square = count**2 * cut.pieces.size[:, None]
    span, jump = count_ranges(network, sampled_components(reduction))
    expected = summarize(
        cut.tallies(count, square), warm_up=cut.warm_up(count), span=span, jump=jump
    )
    return Derived(ChainAverages(mean, stderr, rhat, missed), expected, span)


class ChainPieces(NamedTuple):
    """The pieces of chains of equal length, chain by chain, then the warm-ups."""

    pieces: SamplePieces
    num_chains: int
    num_pieces: int  # per chain
    length: int  # samples per piece; the last of a chain may have fewer
    samples: int  # per chain
    warmed: int  # samples of each chain's warm-up, which is one piece; 0 if there is none

    def tallies(self, mean: np.ndarray, square: np.ndarray | None = None) -> list[Tally]:
        """Build tallies from the means and sums of squares of pieces, float64[all, num_values].

        Without squares the values are probabilities, and their sums bound those of squares.
        """
        found = []
        for chain in range(self.num_chains):
            own = slice(chain * self.num_pieces, (chain + 1) * self.num_pieces)
            total = mean[own] * self.pieces.size[own, None]
            squares = (total if square is None else square[own]).sum(axis=0)
            found.append(piece_tally(total, squares, self.length, self.samples))
        return found

    def warm_up(self, mean: np.ndarray) -> WarmUp:
        before = mean[self.num_chains * self.num_pieces :]
        if not self.warmed:
            before = np.zeros((self.num_chains, mean.shape[1]))
        return WarmUp(before * self.warmed, self.warmed)


def split_chains(worlds: Sequence[Worlds], before: Sequence[Sequence[Worlds]]) -> ChainPieces:
    samples = int(worlds[0].size[0])
    length = max(1, samples // BATCHES)
    bounds = list(pairwise([*range(0, samples, length), samples]))
    pieces = [[SampleSpan(chain.bits, *bound)] for chain in worlds for bound in bounds]
    warmed = sum(int(part.size[0]) for part in before[0])
    if warmed:
        pieces += [
            [SampleSpan(part.bits, 0, int(part.size[0])) for part in parts] for parts in before
        ]
    return ChainPieces(join_spans(pieces), len(worlds), len(bounds), length, samples, warmed)


class RunSummary(NamedTuple):
    """Diagnostics and counts of a batch of trees or clauses."""

    worst_rhat: float
    worst_missed: float
    stuck: np.ndarray  # int32[...], components with atoms on which chains never meet
    moved: np.ndarray  # int32[...], components with atoms that changed
    weights: np.ndarray  # int32[...]
    false: np.ndarray  # float64[len(weights), num_pieces]


def summarize_runs(
    reduction: Reduction, cut: ChainPieces, mean: np.ndarray, stderr: np.ndarray
) -> Iterator[RunSummary]:
    """Summarise all trees and kept clauses on all cores; fill in `mean` and `stderr`."""
    runs = tree_runs(reduction.tree)
    cores = min(num_cores(), max(1, len(runs)))

    def summarize_share(core: int) -> list[RunSummary]:
        work = allocate_work(reduction, cut.pieces)
        return [
            summarize_answers(
                reduction.network,
                cut,
                answer_trees(reduction, cut.pieces, *run, work),
                mean,
                stderr,
            )
            for run in runs[core::cores]
        ]

    def summarize_clauses(clauses: np.ndarray) -> RunSummary:
        found = answer_clauses(reduction, cut.pieces, clauses)
        return summarize_answers(reduction.network, cut, found, mean, stderr)

    with ThreadPool(cores) as pool:
        shares = list(pool.map(summarize_share, range(cores)))
        yield from (shares[run % cores][run // cores] for run in range(len(runs)))
        yield from pool.map(summarize_clauses, clause_runs(reduction.kept_clause))


def summarize_answers(
    network: Network, cut: ChainPieces, found: Answers, mean: np.ndarray, stderr: np.ndarray
) -> RunSummary:
    own = found.atoms < network.num_base_atoms
    atoms = found.atoms[own]
    values = np.ascontiguousarray(np.clip(found.probability[own], 0.0, 1.0).T)
    summary = summarize(cut.tallies(values), warm_up=cut.warm_up(values))
    mean[atoms], stderr[atoms] = summary.mean, summary.stderr
    component = network.component[atoms]
    return RunSummary(
        summary.worst_rhat,
        summary.worst_missed,
        np.unique(component[summary.parted]),
        np.unique(component[~summary.still]),
        found.weights,
        found.false,
    )


def sampled_components(reduction: Reduction) -> np.ndarray:
    """Return bool[num_components], those with atoms in the core."""
    sampled = np.zeros(reduction.network.num_components, bool)
    sampled[reduction.network.component[reduction.core_atom]] = True
    return sampled


def piece_tally(total: np.ndarray, square: np.ndarray, length: int, samples: int) -> Tally:
    """Build a tally from sums over pieces, float64[num_pieces, num_values], of `length` samples."""
    full = samples // length
    empty = new_tally(np.zeros(total.shape[1]), np.empty(0, np.int64))
    cursor = np.array([full, length, samples - full * length], np.int64)
    return empty._replace(batch_sum=total, square_sum=square, cursor=cursor)


def average_batches(estimates: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean of batches, and its standard error."""
    mean = share @ estimates
    variance = share @ (estimates - mean) ** 2
    return mean, np.sqrt(variance / max(1, len(estimates) - 1))
