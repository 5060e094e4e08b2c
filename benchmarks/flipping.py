"""Speed of an incremental world by counts: atoms evaluated and flipped per second.

    python -m benchmarks.flipping [--data smoker,webkb,protein,er] [--before SOURCE]

On the first fold of each data set of `papers/counting_data.py`, for random atoms of the query
predicates. `look` computes their differences. `draw` is a Gibbs chain with small random weights
that flips some of them. `one by one` calls from Python. `--before` is the source folder of a
version without `FlippingWorld.look`, which is measured one by one in the same run. Measured on a
busy core against trees of Python closures over dictionaries of sets:

            look/s      before             draw/s      before           flipped
    smoker  1,519,000   67,500   22.5×     1,510,000   41,800   36×     .21
    webkb     771,000   25,800   29.9×       667,000   22,700   29×     .17
    protein   745,000   27,100   27.5×       623,000   20,400   31×     .21
    er        374,000   14,800   25.3×       353,000   10,100   35×     .22

One by one from Python, 10,000 to 15,000 calls per second are possible: a call of the kernel with
all its arrays takes longer than a difference did before (17,500 to 58,500 per second). So atoms and
blocks are visited in batches.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
from benchmarks.papers.counting_data import DATA_SETS
from benchmarks.protocol import ROOT

from lapis.counting.flipping_world import FlippingWorld
from lapis.learning.examples import build_examples
from lapis.learning.objectives.count_walk import asked_sites

SECONDS = 0.5  # of processor time for each figure, at least


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default=",".join(DATA_SETS))
    options.add_argument("--before", help="the source folder of an earlier version")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        print(json.dumps(measure(given.worker)))
        return
    print(f"{'':8} {'look/s':>12} {'draw/s':>12} {'flipped':>8} {'one by one/s':>13}")
    for name in given.data.split(","):
        found = run(name, None)
        show(name, found)
        if given.before:
            old = run(name, given.before)
            show("  before", old)
            ratios = [f"{found[key] / old[key]:11.1f}×" for key in ("look", "draw")]
            print(f"{'':8} {' '.join(ratios)}", flush=True)


def run(name: str, source: str | None) -> dict[str, float]:
    environment = {**os.environ, **({"PYTHONPATH": source} if source else {})}
    command = [sys.executable, "-m", "benchmarks.flipping", "--worker", name]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def show(name: str, found: dict[str, float]) -> None:
    print(
        f"{name:8} {found['look']:12,.0f} {found['draw']:12,.0f} {found['flipped']:8.3f} "
        f"{found['single']:13,.0f}",
        flush=True,
    )


def measure(name: str) -> dict[str, float]:
    data = DATA_SETS[name]
    example = build_examples(data.model(), list(data.worlds().values())[:1], data.query)[0]
    world = FlippingWorld(example.complete)
    rng = np.random.default_rng(0)
    weights = rng.normal(0.0, 0.01, len(example.complete.weight_table))
    parts = [
        (s.predicate.name, s.rows(rng.integers(len(s), size=2000)))
        for s in asked_sites(example.free)
    ]
    flipped: list[float] = []

    def look() -> None:
        if hasattr(world, "look"):
            world.look(parts)
        else:
            one_by_one()

    def draw() -> None:
        noise = rng.logistic(size=sum(len(rows) for _, rows in parts)) - 2.0
        if hasattr(world, "draw"):
            flipped.append(world.draw(parts, weights, noise, noted=True).flipped.mean())
        else:
            flipped.append(draw_before(world, parts, weights.tolist(), noise))

    def one_by_one() -> None:
        for predicate, rows in parts:
            for row in rows.tolist():
                world.delta(predicate, row)

    number = sum(len(rows) for _, rows in parts)
    rates = {"look": rate(look, number), "draw": rate(draw, number)}
    return {**rates, "single": rate(one_by_one, number), "flipped": float(np.mean(flipped))}


def rate(function: object, number: int) -> float:
    """Return atoms per second of CPU time, after compilation."""
    assert callable(function)
    function()
    began, done = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        function()
        done += number
    return done / (time.process_time() - began)


def draw_before(
    world: FlippingWorld, parts: object, weights: list[float], noise: np.ndarray
) -> float:
    """Run the same chain step by step."""
    steps = iter(noise.tolist())
    flips = number = 0
    for predicate, rows in parts:  # type: ignore[attr-defined]
        for row in rows.tolist():
            change = world.delta(predicate, row)
            truth = world.is_true(predicate, row)
            score = sum(weights[w] * d for w, d in zip(change[0], change[1], strict=True))
            number += 1
            if ((-score if truth else score) + next(steps) > 0) != truth:
                world.flip(predicate, row)
                flips += 1
    return flips / number


if __name__ == "__main__":
    main()
