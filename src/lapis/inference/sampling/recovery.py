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

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lapis.inference.reduction.eliminate import Recovered, Reduction, reduce
from lapis.inference.sampling.chains import (
    Derived,
    SampleResult,
    available_cores,
    count_ranges,
    run_chains,
)
from lapis.inference.sampling.diagnostics import WarmUp, doubt_islands, summarize
from lapis.inference.sampling.kernels.tally import Tally, Worlds, new_tally, unpack_worlds
from lapis.inference.sampling.sampler import Sampler
from lapis.network.network import Network
from lapis.progress import Report, Wish

BATCHES = 16  # pieces a chain
MAX_KEPT_BYTES = 1 << 29  # of worlds kept as bits, in all chains


class Sampled(NamedTuple):
    """Answers by sampling about all atoms of a network."""

    marginal: np.ndarray  # float64[num_base_atoms]
    stderr: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    expected_stderr: np.ndarray  # float64[num_weights]
    exact: bool  # nothing was left to sample
    core: SampleResult | None
    num_core_atoms: int
    traced: np.ndarray | None = None  # int64[num_traced], the slowest atoms


def sample_reduced(
    network: Network,
    candidates: Callable[[Network], Sequence[Sampler[Any, Any]]],
    *,
    precision: float,
    max_samples: int,
    num_chains: int,
    time_limit: float | None,
    seed: int,
    patience: int | None = None,
    progress: Report | None = None,
    should_stop: Wish | None = None,
) -> Sampled:
    """Reduce, sample the core by one of the samplers that may fit it, recover the rest."""
    reduction = reduce(network)
    core = reduction.core
    base = network.num_base_atoms
    if core.num_atoms == 0:
        found = reduction.recover(np.zeros((1, 0), bool))
        certain, sure = np.zeros(base), np.zeros(len(found.expected_count))
        marginal = found.marginal[:base]
        return Sampled(
            marginal, certain, found.expected_count, sure, True, None, 0
        )  # fmt: skip
    limit = max(64, min(max_samples, MAX_KEPT_BYTES * 8 // max(1, core.num_atoms)))
    sampler, *rivals = candidates(core)
    result = run_chains(
        core,
        sampler,
        rivals=rivals,
        patience=patience,
        precision=precision,
        max_samples=limit,
        num_chains=num_chains,
        time_limit=time_limit,
        seed=seed,
        derive=lambda worlds, before, ergodic: recover(reduction, worlds, before, ergodic),
        progress=progress,
        should_stop=should_stop,
    )
    assert result.derived is not None
    atoms, counts = result.derived
    # Atoms of the core are averaged inside the sampler, with less variance.
    own = reduction.core_atom[: core.num_base_atoms]
    inside = own < base
    marginal, stderr = np.zeros(base), np.zeros(base)
    gone = eliminated(reduction)
    marginal[gone], stderr[gone] = atoms.mean, atoms.stderr
    marginal[own[inside]], stderr[own[inside]] = result.marginal[inside], result.stderr[inside]
    traced = reduction.core_atom[result.trace.atoms]
    return Sampled(
        marginal, stderr, counts.mean, counts.stderr,
        False, result, core.num_base_atoms, traced,
    )  # fmt: skip


def eliminated(reduction: Reduction) -> np.ndarray:
    """int64[...], the base atoms outside the core."""
    return np.flatnonzero(reduction.is_eliminated[: reduction.network.num_base_atoms])


def recover(
    reduction: Reduction,
    worlds: Sequence[Worlds],
    before: Sequence[Sequence[Worlds]],
    ergodic: bool | None,
) -> Derived:
    """The eliminated atoms and all counts from the worlds of each chain, and of its warm-up."""
    network = reduction.network
    gone = eliminated(reduction)
    with ThreadPoolExecutor(available_cores()) as pool:
        tallies = list(pool.map(lambda chain: recover_chain(reduction, gone, chain), worlds))
        warm = list(pool.map(lambda pieces: recover_warm_up(reduction, pieces), before))
    marginals, counts = zip(*tallies, strict=True)
    warmed = sum(int(piece.size[0]) for piece in before[0])
    span, jump = count_ranges(network, depends_on_core(reduction))
    atoms = summarize(
        marginals,
        warm_up=WarmUp(np.array([part.marginal[gone] * warmed for part in warm]), warmed),
    )
    expected = summarize(
        counts,
        warm_up=WarmUp(np.array([part.expected_count * warmed for part in warm]), warmed),
        span=span,
        jump=jump,
    )
    return Derived(doubt_islands(atoms, network.component[gone], len(worlds), ergodic), expected)


def recover_chain(reduction: Reduction, gone: np.ndarray, chain: Worlds) -> tuple[Tally, Tally]:
    """The tallies of eliminated atoms and of counts that the pieces of a chain give."""
    samples = int(chain.size[0])
    length = max(1, samples // BATCHES)
    bounds = [*range(0, samples, length), samples]
    pieces = [
        reduction.recover(unpack_worlds(chain, begin, end)) for begin, end in pairwise(bounds)
    ]
    size = np.diff(bounds)
    marginal = np.array([piece.marginal[gone] for piece in pieces]) * size[:, None]
    count = np.array([piece.expected_count for piece in pieces]) * size[:, None]
    # Their variance within pieces does not matter: R-hat of counts decides nothing.
    square = (count**2 / size[:, None]).sum(axis=0)
    return (
        piece_tally(marginal, marginal.sum(axis=0), length, samples),
        piece_tally(count, square, length, samples),
    )


def depends_on_core(reduction: Reduction) -> np.ndarray:
    """bool[num_clauses], the clauses of components that are not eliminated whole."""
    network = reduction.network
    sampled = np.zeros(int(network.component.max(initial=-1)) + 1, bool)
    sampled[network.component[reduction.core_atom]] = True
    first_atom = np.abs(network.literal[network.clause_start[:-1]]) - 1
    found: np.ndarray = sampled[network.component[first_atom]]
    return found


def recover_warm_up(reduction: Reduction, pieces: Sequence[Worlds]) -> Recovered:
    """What one chain's warm-up says by itself."""
    if not pieces:
        nothing = np.zeros(reduction.network.num_atoms)
        return Recovered(nothing, np.zeros(len(reduction.network.weights)))
    return reduction.recover(np.concatenate([unpack_worlds(piece) for piece in pieces]))


def piece_tally(total: np.ndarray, square: np.ndarray, length: int, samples: int) -> Tally:
    """A tally of sums over pieces, float64[num_pieces, num_values], of `length` samples each."""
    full = samples // length
    empty = new_tally(np.zeros(total.shape[1]), np.empty(0, np.int64))
    cursor = np.array([full, length, samples - full * length], np.int64)
    return empty._replace(batch_sum=total, square_sum=square, cursor=cursor)


def batch_mean(estimates: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean of batches, and its standard error from their spread."""
    mean = share @ estimates
    spread = share @ (estimates - mean) ** 2
    return mean, np.sqrt(spread / max(1, len(estimates) - 1))
