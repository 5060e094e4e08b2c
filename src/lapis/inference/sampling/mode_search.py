"""Local maxima of the score that a quick search finds, for scouts to start from.

Chains that agree may all have missed a mode that none of them ever entered: neither R-hat nor where
they were in warm-up knows of it. So a few worlds are sought by climbing, from random worlds, with
sweeps of the Gibbs sampler at a temperature near zero (iterated conditional modes, Besag 1986), and
a *scout* is started from each that is another mode. Scouts are chains that only warm up. The others
must agree with them before they are believed, and where a scout was and no chain has been since
counts in the standard errors as any place left in warm-up does (`diagnostics`): the longer a scout
needed to leave its mode, the more samples it takes until not having seen it means something.

Modes are of components: scout s starts every component at the s-th best of its own. A component
with one mode has nothing to tell, and a network of such components gets one scout at most.

Climbing and scouts cost work like any sample. Where a single sample is much work there are none:
the many local maxima of a large network differ in a few atoms each, which chains forget at once,
and the worlds that are far apart, all true and all false, are where chains start anyway.

What did not help: longer first looks, twice the doubt about what warm-up left, and asking for
effective samples. All of them judge by what chains have seen.
"""

from __future__ import annotations

import numpy as np

from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, sweep_work
from lapis.inference.sampling.tally import new_tallies
from lapis.network.network import Network

CLIMBS, SWEEPS = 32, 12
CLIMBING = 20_000_000  # visits of literals by all climbs, at most
COLD = 1e6  # times the weights
STREAM = 1 << 20  # so that climbs draw other numbers than any chain


def find_modes(network: Network, number: int, seed: int) -> list[np.ndarray]:
    """Worlds to start scouts from, bool[num_atoms], at most so many; they keep what is hard."""
    if number < 1 or network.num_clauses == 0:
        return []
    gibbs = Gibbs()
    plan = gibbs.prepare(network)
    climbs = min(CLIMBS, max(1, int(CLIMBING / (SWEEPS * max(1.0, sweep_work(plan))))))
    worlds = np.array([climb(gibbs, plan, seed, index) for index in range(climbs)])
    score, label = judge(network, worlds)
    return choose(network, worlds, score, label, number)


def climb(gibbs: Gibbs, plan: GibbsPlan, seed: int, index: int) -> np.ndarray:
    """bool[num_atoms], where a climb from the world of chain `index` ends."""
    cold = plan._replace(graph=plan.graph._replace(weight=COLD * plan.graph.weight))
    rng = random_states(seed + STREAM + index, 1)[0].copy()
    state = gibbs.init(cold, gibbs.start(plan, index, rng), rng)
    gibbs.step(cold, state, new_tallies(0, np.empty(0)), SWEEPS)
    return gibbs.world(state)


def judge(network: Network, worlds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and names of worlds, float64 and uint64[num_worlds, num_components]."""
    component, count = network.component, network.num_components
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    owner = component[network.first_atom]
    soft = np.isfinite(weight)
    name = np.random.default_rng(STREAM).integers(1 << 63, size=network.num_atoms, dtype=np.uint64)
    score, label = np.zeros((len(worlds), count)), np.zeros((len(worlds), count), np.uint64)
    for row, world in enumerate(worlds):
        true = network.is_satisfied(world) & soft
        score[row] = np.bincount(owner[true], weight[true], count)
        np.bitwise_xor.at(label[row], component[world], name[world])
    return score, label


def choose(
    network: Network, worlds: np.ndarray, score: np.ndarray, label: np.ndarray, number: int
) -> list[np.ndarray]:
    """The s-th best distinct world of every component, as the s-th world."""
    order = np.argsort(-score, axis=0, kind="stable")
    ranked = np.take_along_axis(label, order, axis=0)
    seen = np.array([(ranked[:row] == ranked[row]).any(axis=0) for row in range(len(ranked))])
    order = np.take_along_axis(order, np.argsort(seen, axis=0, kind="stable"), axis=0)
    most = int((~seen).sum(axis=0).max(initial=0))
    atom = np.arange(network.num_atoms)
    return [worlds[order[row][network.component], atom] for row in range(min(number, most))]
