"""Components that are sampled, each large one apart: its own pilots, its own sampler, its own end.

What suits one component need not suit another: cluster moves where people hold each other in
place, MC-SAT where hard clauses cut worlds into islands. And a component whose chains agree after a
hundred samples should not wait for one that takes a hundred thousand. The largest components are
sampled by themselves, the others together with those that the same samplers may fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lapis.inference.figures import joined_methods, total_figures
from lapis.inference.marginals import Marginals, Options
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.inference.sampling.kernels.clause_graph import clause_weights
from lapis.network.network import Network
from lapis.network.parts import keep_part
from lapis.progress import work_clock

LARGE, SHARE = 100, 0.02  # atoms of a component by itself, and its share of all
MAX_ALONE = 6
NEARLY_HARD = 5.0  # a weight beyond which a Gibbs chain rarely crosses


def sample_by_parts(
    reduction: Reduction, options: Options, sample: Callable[[Reduction, Options], Marginals]
) -> Marginals:
    """The answers of `sample` about the parts, each with its share of the time."""
    network = reduction.network
    part_of = divide_components(network)
    parts = np.unique(part_of)
    if len(parts) < 2:
        return sample(reduction, options)
    began, left = work_clock(), network.num_atoms
    found: list[tuple[np.ndarray, Marginals]] = []
    for number, part in enumerate(parts.tolist()):
        kept = part_of[network.component] == part
        own, atom = keep_part(network, kept)
        limit = None
        if options.time_limit is not None:
            rest = max(0.0, options.time_limit - (work_clock() - began))
            limit = rest * own.num_atoms / left
        left -= own.num_atoms
        limited = replace(options, time_limit=limit, seed=options.seed + number)
        found.append((atom, sample(reduce(own), limited)))
        if found[-1][1].diagnostics.get("interrupted") and options.stop is not None:
            options.stop.press()  # the parts that follow are not sampled to the end either
    return join_parts(network, found)


def divide_components(network: Network) -> np.ndarray:
    """int64[num_components], the part that each belongs to."""
    component, count = network.component, network.num_components
    size = np.bincount(component, minlength=count)
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    length = np.diff(network.clause_start)
    owner = component[network.first_atom]
    stiff, pairs = np.zeros(count, bool), np.zeros(count, bool)
    stiff[owner[(length > 1) & (np.abs(weight) > NEARLY_HARD)]] = True
    pairs[owner[(length == 2) & np.isfinite(weight)]] = True
    part = stiff + 2 * pairs
    alone = np.argsort(-size, kind="stable")[:MAX_ALONE]
    alone = alone[size[alone] >= max(LARGE, SHARE * network.num_atoms)]
    part[alone] = 4 + np.arange(len(alone))
    return part


def join_parts(network: Network, parts: Sequence[tuple[np.ndarray, Marginals]]) -> Marginals:
    """One answer of those about some atoms each, int64[...], base atoms first."""
    size = network.num_base_atoms
    marginal, log_odds, stderr = np.zeros((3, size))
    sampled, chosen = np.zeros(size, bool), np.zeros(size, np.int8)
    answers = [answer for _, answer in parts]
    inexact = [answer for answer in answers if not answer.exact]
    method = joined_methods([answer.method for answer in inexact or answers])
    names = method.split("+")
    expected, variance = network.constant_count.copy(), np.zeros(len(network.weights))
    for all_atoms, answer in parts:
        atoms = all_atoms[: len(answer.marginal)]
        marginal[atoms], log_odds[atoms] = answer.marginal, answer.log_odds
        expected += answer.expected_count
        if answer.exact:
            continue
        assert answer.stderr is not None
        stderr[atoms], sampled[atoms] = answer.stderr, True
        chosen[atoms] = names.index(answer.method)
        variance += np.square(answer.diagnostics["expected_counts_stderr"])
    notes: dict[str, Any] = total_figures([answer.diagnostics for answer in answers])
    notes["expected_counts_stderr"] = np.sqrt(variance).tolist()
    notes["parts"] = [
        {"method": answer.method, "exact": answer.exact, "atoms": len(answer.marginal)}
        | {name: answer.diagnostics[name] for name in FIGURES if name in answer.diagnostics}
        for answer in answers
    ]
    most = max(answers, key=lambda answer: len(answer.marginal))
    notes["pilots"] = most.diagnostics.get("pilots", {})
    atoms, slowest = max(parts, key=lambda part: part[1].diagnostics.get("rhat", 0.0))
    trace = slowest.trace and slowest.trace._replace(atoms=atoms[slowest.trace.atoms])
    return Marginals(
        method, not inexact, None, marginal, log_odds, stderr if inexact else None, expected,
        sampled, notes, trace, chosen=chosen,
    )  # fmt: skip


FIGURES = ("converged", "rhat", "ess", "samples", "seconds", "seconds_left", "pilots")
