"""One run of annealing: a Gibbs sweep at each inverse temperature, and the weight it gathers."""

from __future__ import annotations

from lapis.inference.sampling.kernels.gibbs import sweep
from lapis.runtime.kernels import entry


@entry
def run_annealing(graph, units, weights, beta, world, order, estimate, rng, score, digit, trail):  # type: ignore[no-untyped-def]
    """Σ_t (β_t − β_{t−1})·score(world before the sweep at β_t); `trail` gets these scores.

    The world begins as a draw at β_0 and ends after a sweep at the last β.
    """
    total = 0.0
    for step in range(1, len(beta)):
        value = 0.0
        for index in range(len(weights)):
            value += weights[index] * world.count[index]
        trail[step - 1] = value
        total += (beta[step] - beta[step - 1]) * value
        sweep(graph, units, graph.weight, beta[step], world, order, estimate, rng, score, digit)
    return total
