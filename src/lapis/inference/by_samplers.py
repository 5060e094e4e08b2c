"""Marginals by chains: which samplers may fit a network, and what their answer is worth.

`auto` lets pilots choose between Gibbs, cluster moves where atoms are coupled in pairs, and MC-SAT
where hard or nearly hard clauses could cut a Gibbs chain's worlds into islands. If the chains of
the one chosen do not come to agree, tempering has its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.inference.by_parts import NEARLY_HARD, sample_by_parts
from lapis.inference.log_odds import sampled_log_odds
from lapis.inference.marginals import Marginals, Options, describe_chains
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.network.network import Network
from lapis.progress import work_clock
from lapis.registry.method import find_method

TRIAL_SHARE = 200  # of the samples: enough to see whether chains agree
MAX_RHAT = 1.05


def by_best_sampler(reduction: Reduction, options: Options) -> Marginals:
    """Each large component by the sampler that its pilots choose."""
    return sample_by_parts(reduction, options, by_pilots)


def by_pilots(reduction: Reduction, options: Options) -> Marginals:
    """The sampler that pilots choose; tempering where its chains do not come to agree.

    Chains that disagreed in warm-up and agree now may have lost a mode: they go on only if the
    samples asked for could show that it is small enough not to matter.
    """
    began = work_clock()
    found = by_samplers(reduction, best_samplers, options, options.max_samples // TRIAL_SHARE)
    if is_settled(found) or chains_agree(found, options.precision):
        return found
    left = options.time_limit and max(0.0, options.time_limit - (work_clock() - began))
    second = by_samplers(reduction, lambda core: ["tempering"], replace(options, time_limit=left))
    return min(found, second, key=worst_error)


def is_settled(found: Marginals) -> bool:
    """Whether there is nothing to gain by another sampler, or no wish for it."""
    return found.exact or found.diagnostics["converged"] or found.diagnostics["interrupted"]


def chains_agree(found: Marginals, error: float) -> bool:
    """Whether chains agree now, and what they left in warm-up makes no larger error."""
    notes = found.diagnostics
    return bool(notes["rhat"] <= MAX_RHAT and notes["warmup_error"] <= error)


def worst_error(found: Marginals) -> float:
    return 0.0 if found.stderr is None else float(found.stderr.max(initial=0.0))


def best_samplers(core: Network) -> list[str]:
    """The samplers that may fit: MC-SAT for (nearly) hard clauses, cluster moves for pairs."""
    length = np.diff(core.clause_start)
    hard = core.weight_id < 0
    size = np.abs(np.append(core.weights, 0.0)[core.weight_id] * core.coefficient)
    names = ["gibbs"]
    if (~hard & (length == 2)).any():
        names.append("cluster")
    if (hard | ((size > NEARLY_HARD) & (length > 1))).any():
        names.insert(0, "mcsat")
    return names


def by_sampling(network: Network, method: str, options: Options) -> Marginals:
    found = by_samplers(reduce(network), lambda core: [method], options)
    return replace(found, method=method)


def by_samplers(
    reduction: Reduction,
    names: Callable[[Network], list[str]],
    options: Options,
    patience: int | None = None,
) -> Marginals:
    """By the best of the samplers named for the core; it gives up after `patience` samples."""
    from lapis.inference.sampling.recovery import sample_reduced

    network = reduction.network
    found = sample_reduced(
        reduction,
        lambda core: [find_method("infer", name).make() for name in names(core)],
        options,
        patience,
    )
    notes: dict[str, Any] = {"core_atoms": found.num_core_atoms}
    if found.core is not None:
        notes |= describe_chains(found.core)
        notes["expected_counts_stderr"] = found.expected_stderr.tolist()
    log_partition = None
    if found.exact:
        log_odds, log_partition = without_core(network)
    else:
        log_odds = sampled_log_odds(found.marginal, notes["samples"])
    sampled = np.full(network.num_base_atoms, not found.exact)
    method = "exact" if found.core is None else found.core.method
    return Marginals(
        method, found.exact, log_partition, found.marginal, log_odds, found.stderr,
        found.expected_count, sampled, notes, found.trace,
    )  # fmt: skip


def without_core(network: Network) -> tuple[np.ndarray, float]:
    """Log-odds, float64[num_base_atoms], and log Z, where elimination leaves no core."""
    from lapis.inference.exact.by_components import exact

    found = exact(network)
    assert found.log_odds is not None
    return found.log_odds, found.log_partition
