"""Dense components of interchangeable atoms first; what is left goes to other methods.

Where such atoms are sampled after all (among many others that differ), their estimates are
averaged: they have one probability, and the mean of their estimates is nearer to it. Its standard
error is at most the mean of theirs, σ(Σ xᵢ/n) ≤ Σ σ(xᵢ)/n, and that is what is said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lapis.inference.exact.by_components import DEFAULT_MEMORY
from lapis.inference.log_odds import sampled_log_odds
from lapis.inference.marginals import Marginals, Options, place
from lapis.inference.symmetry.by_counts import solve_by_counts
from lapis.network.network import Network
from lapis.network.parts import keep_part


def counts_first(
    network: Network, options: Options, solve_rest: Callable[[Network, Options], Marginals]
) -> Marginals:
    """Dense components of interchangeable atoms by counts, all others by `solve_rest`."""
    counted = solve_by_counts(
        network, options.max_memory or DEFAULT_MEMORY, options.seed, options.exact_stop
    )
    if counted is None:
        return solve_rest(network, options)
    base = slice(0, network.num_base_atoms)
    constant = float(network.weights @ network.constant_count)
    notes = {"counted_atoms": int(counted.solved[base].sum()), "class_sizes": counted.class_sizes}
    found = Marginals(
        "counts", True, constant + counted.log_partition, counted.marginal,
        counted.log_odds, None, network.constant_count + counted.expected_count,
        diagnostics=notes,
    )  # fmt: skip
    if counted.solved.all():
        return found
    rest, atom = keep_part(network, ~counted.solved)
    return join_answers(found, solve_rest(rest, options), atom, rest.num_base_atoms)


def join_answers(whole: Marginals, part: Marginals, atom: np.ndarray, num_base: int) -> Marginals:
    """An exact answer with that of other components filled in at `atom`, int64[num_atoms]."""
    own = atom[:num_base]
    whole.marginal[own], whole.log_odds[own] = part.marginal, part.log_odds
    stderr, sampled, chosen = (
        place(values, own, len(whole.marginal))
        for values in (part.stderr, part.sampled, part.chosen)
    )
    log_partition = None
    if whole.log_partition is not None and part.log_partition is not None:
        log_partition = whole.log_partition + part.log_partition
    method = "exact" if part.exact else f"exact+{part.method.removeprefix('exact+')}"
    return Marginals(
        method, part.exact, log_partition, whole.marginal,
        whole.log_odds, stderr, whole.expected_count + part.expected_count, sampled,
        part.diagnostics | whole.diagnostics,
        part.trace and part.trace._replace(atoms=atom[part.trace.atoms]),
        whole.log_partition and whole.log_partition + (part.solved_log_partition or 0.0),
        chosen,
    )  # fmt: skip


def average_alike(found: Marginals, label: np.ndarray) -> Marginals:
    """A sampled answer with one estimate for atoms that can change places, by `atom_classes`."""
    if found.exact or found.stderr is None:
        return found
    atoms = np.flatnonzero(label >= 0)
    if not len(atoms):
        return found
    _, group, size = np.unique(label[atoms], return_inverse=True, return_counts=True)
    marginal, stderr = found.marginal.copy(), found.stderr.copy()
    for values in (marginal, stderr):
        values[atoms] = (np.bincount(group, values[atoms]) / size)[group]
    log_odds = sampled_log_odds(marginal, found.diagnostics["samples"])
    notes = found.diagnostics | {"averaged_atoms": len(atoms)}
    return replace(found, marginal=marginal, stderr=stderr, log_odds=log_odds, diagnostics=notes)
