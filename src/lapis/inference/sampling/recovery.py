"""Chains on the core of a reduced network, with all atoms' answers recovered.

A sampler runs on the core that exact partial elimination leaves (`eliminate`). Its worlds are kept
as bits, and what was eliminated is answered from them in closed form: each world of the core
contributes P(atom | its neighbours in the core), not a draw. Every chain is cut into `BATCHES`
pieces, each piece gives an estimate, and these go through the same diagnostics as what a sampler
tallies itself: batches within chains, means between chains, and where warm-up was.

The variance of a single sample, which R-hat compares the chains by, is not known for a recovered
atom, only bounded: m(1 − m) for a probability of mean m. So its R-hat is a lower bound, and where
the batches show that chains disagree the standard error is that of whole chains all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import Tally, Worlds, new_tally
from lapis.network.network import Network
from lapis.runtime.processes import num_cores, trim_heap

BATCHES = 16  # pieces a chain
MAX_KEPT_BYTES = 1 << 29  # of worlds kept as bits, in all chains
LEAST_KEPT = 64  # worlds, however large they are


class SampledMarginals(NamedTuple):
    """Answers by sampling about all atoms of a network."""

    marginal: np.ndarray  # float64[num_base_atoms]
    stderr: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    expected_stderr: np.ndarray  # float64[num_weights]
    exact: bool  # nothing was left to sample
    core: SampleResult | None
    num_core_atoms: int
    trace: Trace | None = None  # of the slowest atoms


def sample_reduced(
    reduction: Reduction,
    candidates: Sequence[Sampler[Any, Any]],
    options: InferenceOptions,
    patience: int | None = None,
) -> SampledMarginals:
    """Sample the core by one of the samplers that may fit it, recover the rest."""
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
        patience=patience,
        derive=partial(recover_eliminated, reduction),
        **replace(options, max_samples=limit).chain_options,
    )
    assert result.derived is not None
    atoms, counts = result.derived
    # Atoms of the core are averaged inside the sampler, with less variance.
    own = reduction.core_atom[: core.num_base_atoms]
    inside = own < base
    marginal, stderr = atoms.mean, atoms.stderr
    marginal[own[inside]], stderr[own[inside]] = result.marginal[inside], result.stderr[inside]
    trace = result.trace._replace(atoms=reduction.core_atom[result.trace.atoms])
    return SampledMarginals(
        marginal, stderr, counts.mean, counts.stderr, False, result, core.num_base_atoms, trace
    )


def list_eliminated(reduction: Reduction) -> np.ndarray:
    """int64[...], the base atoms outside the core."""
    return np.flatnonzero(reduction.is_eliminated[: reduction.network.num_base_atoms])


def recover_eliminated(
    reduction: Reduction,
    worlds: Sequence[Worlds],
    before: Sequence[Sequence[Worlds]],
    ergodic: bool | None,
) -> Derived:
    """The eliminated atoms and all counts from the worlds of each chain, and of its warm-up."""
    network = reduction.network
    trim_heap(network.literal.nbytes)  # what pilots and chains left behind
    cut = split_chains(worlds, before)
    mean, stderr = np.zeros((2, network.num_base_atoms))
    false = np.zeros((len(network.weights), len(cut.pieces.size)))
    stuck, moved = np.zeros((2, network.num_components), bool)
    rhat, missed = 1.0, 0.0
    for found in summarize_runs(reduction, cut, mean, stderr):
        false[found.weights] += found.false
        stuck[found.stuck], moved[found.moved] = True, True
        rhat, missed = max(rhat, found.worst_rhat), max(missed, found.worst_missed)
    if ergodic is None or stuck.any():  # most of the time there is no island
        gone = list_eliminated(reduction)
        dead = dead_components(network.component[gone], moved, cut.num_chains, ergodic)
        rhat = np.inf if dead.any() else rhat
        gone = gone[(stuck | dead)[network.component[gone]]]
        stderr[gone] = np.maximum(stderr[gone], island_error(mean[gone], cut.num_chains))
    count = reduction.all_true - false.T
    # Their variance within pieces does not matter: R-hat of counts decides nothing.
    square = count**2 * cut.pieces.size[:, None]
    span, jump = count_ranges(network, sampled_components(reduction))
    expected = summarize(
        cut.tallies(count, square), warm_up=cut.warm_up(count), span=span, jump=jump
    )
    return Derived(ChainAverages(mean, stderr, rhat, missed), expected)


class ChainPieces(NamedTuple):
    """Chains of one length in pieces: those of the first chain, of the second, …; warm-ups last."""

    pieces: SamplePieces
    num_chains: int
    num_pieces: int  # a chain
    length: int  # samples a piece; the last of a chain may have fewer
    samples: int  # a chain
    warmed: int  # samples of each chain's warm-up, which is one piece; 0 if there was none

    def tallies(self, mean: np.ndarray, square: np.ndarray | None = None) -> list[Tally]:
        """Of means and sums of squares in each piece, float64[all pieces, num_values].

        Without squares the values are probabilities, whose squares are no larger than they.
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
    """What a run of trees or clauses adds to the whole, besides means and errors of its atoms."""

    worst_rhat: float
    worst_missed: float
    stuck: np.ndarray  # int32[...], components with atoms whose chains never meet
    moved: np.ndarray  # int32[...], components with atoms that moved
    weights: np.ndarray  # int32[...]
    false: np.ndarray  # float64[len(weights), num_pieces]


def summarize_runs(
    reduction: Reduction, cut: ChainPieces, mean: np.ndarray, stderr: np.ndarray
) -> Iterator[RunSummary]:
    """All trees and kept clauses, on all cores; means and errors of base atoms are filled in."""
    runs = tree_runs(reduction.tree)
    cores = min(num_cores(), max(1, len(runs)))

    def judge_share(core: int) -> list[RunSummary]:
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

    def judge_clauses(clauses: np.ndarray) -> RunSummary:
        found = answer_clauses(reduction, cut.pieces, clauses)
        return summarize_answers(reduction.network, cut, found, mean, stderr)

    with ThreadPoolExecutor(cores) as pool:
        shares = list(pool.map(judge_share, range(cores)))
        yield from (shares[run % cores][run // cores] for run in range(len(runs)))
        yield from pool.map(judge_clauses, clause_runs(reduction.kept_clause))


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
    """bool[num_components], those that are not eliminated whole."""
    sampled = np.zeros(reduction.network.num_components, bool)
    sampled[reduction.network.component[reduction.core_atom]] = True
    return sampled


def piece_tally(total: np.ndarray, square: np.ndarray, length: int, samples: int) -> Tally:
    """A tally of sums over pieces, float64[num_pieces, num_values], of `length` samples each."""
    full = samples // length
    empty = new_tally(np.zeros(total.shape[1]), np.empty(0, np.int64))
    cursor = np.array([full, length, samples - full * length], np.int64)
    return empty._replace(batch_sum=total, square_sum=square, cursor=cursor)


def average_batches(estimates: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean of batches, and its standard error from their spread."""
    mean = share @ estimates
    spread = share @ (estimates - mean) ** 2
    return mean, np.sqrt(spread / max(1, len(estimates) - 1))
