"""Chains on the core of a reduced network, with all atoms' answers recovered.

A sampler runs on the core that exact partial elimination leaves (`reduce`). Its worlds are kept
as bits, and what was eliminated is answered from them in closed form: each world of the core
contributes P(atom | its neighbours in the core), not a draw. Standard errors of recovered atoms
come from batches: every chain is cut into `BATCHES` pieces, each gives an estimate, and their
spread over all chains is the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.sampling.chains import Sampler, SampleResult, run_chains
from lapis.inference.sampling.diagnostics import num_tallied
from lapis.inference.sampling.kernels.tally import Tally
from lapis.network.network import Network
from lapis.progress import Report, Wish

BATCHES = 8  # pieces a chain
MAX_KEPT_BYTES = 1 << 29  # of worlds kept as bits, in all chains


@dataclass
class Recording:
    """A sampler that keeps the worlds it visits, packed into bits."""

    sampler: Sampler
    kept: dict[int, list[np.ndarray]] = field(default_factory=dict)  # by chain
    chain_of: dict[int, int] = field(default_factory=dict)  # by the identity of its generator

    @property
    def name(self) -> str:
        return self.sampler.name

    def prepare(self, network: Network) -> Any:
        return self.sampler.prepare(network)

    def init(self, plan: Any, chain: int, rng: np.ndarray) -> Any:
        state = self.sampler.init(plan, chain, rng)
        self.chain_of[id(state.rng)] = chain
        self.kept[chain] = []
        return state

    def step(self, plan: Any, state: Any, atoms: Tally, counts: Tally, num_samples: int) -> Any:
        kept = self.kept[self.chain_of[id(state.rng)]]
        if num_tallied(atoms) == 0:
            kept.clear()  # warm-up is over: the tallies were reset
        info = None
        for _ in range(num_samples):
            step = self.sampler.step(plan, state, atoms, counts, 1)
            info = step if info is None else type(info)(*map(sum, zip(info, step, strict=True)))
            kept.append(np.packbits(state.world.value.astype(bool)))
        return info

    def counts(self, state: Any) -> np.ndarray:
        return self.sampler.counts(state)

    def worlds(self, num_atoms: int) -> list[np.ndarray]:
        """bool[num_samples, num_atoms] for each chain."""
        return [
            np.unpackbits(np.array(self.kept[chain]), axis=1, count=num_atoms).astype(bool)
            for chain in sorted(self.kept)
        ]


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
    choose: Callable[[Network], Sampler],
    *,
    precision: float,
    max_samples: int,
    num_chains: int,
    time_limit: float | None,
    seed: int,
    progress: Report | None = None,
    should_stop: Wish | None = None,
) -> Sampled:
    """Reduce, sample the core, recover the rest."""
    reduction = reduce(network)
    core = reduction.core
    if core.num_atoms == 0:
        found = reduction.recover(np.zeros((1, 0), bool))
        marginal = found.marginal[: network.num_base_atoms]
        certain, sure = np.zeros(len(marginal)), np.zeros(len(found.expected_count))
        return Sampled(marginal, certain, found.expected_count, sure, True, None, 0)
    limit = max(64, min(max_samples, MAX_KEPT_BYTES * 8 // max(1, core.num_atoms)))
    recording = Recording(choose(core))
    result = run_chains(
        core,
        recording,
        precision=precision,
        max_samples=limit,
        num_chains=num_chains,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
        should_stop=should_stop,
    )
    return recover_all(reduction, recording, result)


def recover_all(reduction: Reduction, recording: Recording, result: SampleResult) -> Sampled:
    network, core = reduction.network, reduction.core
    batches = [
        batch
        for chain in recording.worlds(core.num_atoms)
        for batch in np.array_split(chain, min(BATCHES, len(chain)))
    ]
    found = [reduction.recover(batch) for batch in batches]
    size = np.array([len(batch) for batch in batches], np.float64)
    share = size / size.sum()
    marginal, stderr = batch_mean(
        np.array([part.marginal[: network.num_base_atoms] for part in found]), share
    )
    expected, expected_stderr = batch_mean(np.array([part.expected_count for part in found]), share)
    # Atoms of the core are averaged inside the sampler, with less variance.
    own = reduction.core_atom[: core.num_base_atoms]
    base = own < network.num_base_atoms
    marginal[own[base]] = result.marginal[base]
    stderr[own[base]] = result.stderr[base]
    traced = reduction.core_atom[result.trace.atoms]
    return Sampled(
        marginal, stderr, expected, expected_stderr, False, result, core.num_base_atoms, traced
    )


def batch_mean(estimates: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted mean of batches, and its standard error from their spread."""
    mean = share @ estimates
    spread = share @ (estimates - mean) ** 2
    return mean, np.sqrt(spread / max(1, len(estimates) - 1))
