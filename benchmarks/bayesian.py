"""Bayesian estimates: a grid, and coverage of credible intervals.

    python -m benchmarks.bayesian grid
    python -m benchmarks.bayesian coverage [--sets 200] [--method nuts]

`grid` compares mean and 90 % interval of ten atoms, three of them true, prior of width 2, with a
sum over 200,000 weights. `coverage` draws weights from the prior and a world from the model with
these weights, and counts how often the 90 % intervals contain the drawn weights. The target is 86
to 94 %. Predictions of held-out data are measured by `benchmarks/papers/notes_weights.py`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from benchmarks.papers.notes_weights import NUM_PEOPLE, SMOKERS, draw_friends, draw_world

import lapis

PRIOR = "gaussian:2"


def compare_with_grid() -> None:
    model = lapis.parse("P(t)\n0 P(x)")
    data = lapis.Database.parse("t = {0, ..., 9} P(0) P(1) P(2)")
    weight = np.linspace(-12.0, 10.0, 200_001)
    density = np.exp(3 * weight - 10 * np.logaddexp(0.0, weight) - weight**2 / 8)
    density /= density.sum()
    ends = np.interp([0.05, 0.95], np.cumsum(density), weight)
    print(f"grid      mean {density @ weight:.4f}, interval {ends[0]:.3f} to {ends[1]:.3f}")
    for method in ("nuts", "laplace"):
        fit = lapis.learn(
            model, data, "P", prior=PRIOR, estimate="mean", posterior_method=method
        )  # fmt: skip
        assert fit.posterior is not None
        (lower,), (upper,) = fit.posterior.interval()
        print(f"{method:9s} mean {fit.weights[0]:.4f}, interval {lower:.3f} to {upper:.3f}")


def measure_coverage(num_sets: int, method: str) -> None:
    """Draw weights from N(0, 1) and data from the model; count the intervals that cover them."""
    model, rng = lapis.parse(SMOKERS), np.random.default_rng(0)
    covered, unsure, began = [], 0, time.process_time()
    for number in range(num_sets):
        weights = rng.standard_normal(4)
        world = draw_world(weights.tolist(), draw_friends(rng), rng)
        data = lapis.Database.parse(f"person = {{0, ..., {NUM_PEOPLE - 1}}} {world}")
        fit = lapis.learn(
            model, data, ["Smokes", "Cancer"], prior="gaussian:1", estimate="mean",
            posterior_method=method, num_draws=500, num_chains=2, random_state=number,
        )  # fmt: skip
        assert fit.posterior is not None
        lower, upper = fit.posterior.interval(0.9)
        covered.append((lower <= weights) & (weights <= upper))
        unsure += not fit.converged
        if (number + 1) % 20 == 0:
            each = ", ".join(f"{share:.1%}" for share in np.mean(covered, axis=0))
            print(
                f"{method}: {number + 1} sets, {np.mean(covered):.1%} of the 90% intervals hold "
                f"the weight ({each}); {unsure} not converged; "
                f"{time.process_time() - began:.0f} s of CPU",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("grid", "coverage"))
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--method", choices=("nuts", "laplace"), default="nuts")
    chosen = parser.parse_args()
    if chosen.what == "grid":
        compare_with_grid()
    else:
        measure_coverage(chosen.sets, chosen.method)


if __name__ == "__main__":
    main()
