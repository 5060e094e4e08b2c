"""Samplers on friends and smokers: kernel speed, MC-SAT time, time to a given error, and bias.

    python benchmarks/samplers.py            everything (some minutes)
    python benchmarks/samplers.py --quick    smaller networks, as a test

Alchemy 2 was measured on a similar machine. Kernels are compiled before the clock starts; the time
of compilation is printed separately.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lapis
from lapis.grounding import ground
from lapis.inference.belief_propagation import propagate_beliefs
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import SampleResult, run_chains
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.mcsat import MCSAT
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import new_tallies
from lapis.inference.sampling.tempering import Tempering
from lapis.network.network import Network
from lapis.problem.problem import build_problem

RULES = "1.5 Smokes(x) => Cancer(x)\n1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)\n"


def friends_open(people: int) -> Network:
    """Build a network without evidence: people² + 2·people atoms."""
    text = f"person = {{1,...,{people}}}\nSmokes(person)\nCancer(person)\nFriends(person,person)\n"
    model = lapis.parse(text + RULES)
    return ground(build_problem(model, lapis.Database({}, {}), ["Smokes", "Cancer", "Friends"]))


def friends_known(people: int, seed: int) -> Network:
    """Build a network with five friends each, a fifth of Smokes observed, half of those true."""
    rng = np.random.default_rng(seed)
    facts = [
        f"Friends(P{person},P{friend})"
        for person in range(people)
        for friend in rng.choice(people, 5, replace=False)
    ]
    for person in rng.choice(people, people // 5, replace=False):
        facts.append(f"{'' if rng.random() < 0.5 else '!'}Smokes(P{person})")
    model = lapis.parse("Smokes(person)\nCancer(person)\nFriends(person,person)\n" + RULES)
    data = lapis.Database.parse("\n".join(facts))
    return ground(build_problem(model, data, ["Smokes", "Cancer"]))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compile_kernels() -> None:
    network = friends_known(20, 0)
    for sampler in (Gibbs(), MCSAT(), Tempering()):
        took = timed(lambda sampler=sampler: run_chains(network, sampler, max_samples=400))  # type: ignore[misc]
        print(f"  {sampler.name:10s} {took:6.1f} s")
    print(f"  {'bp':10s} {timed(lambda: propagate_beliefs(network)):6.1f} s")


def kernel_speed(people: int) -> None:
    """Print atom updates per second of one chain on one core."""
    network = friends_open(people)
    sampler = Gibbs()
    plan = sampler.prepare(network)
    rng = random_states(0, 1)[0].copy()
    state = sampler.init(plan, sampler.start(plan, 2, rng), rng)
    tallies = new_tallies(network.num_base_atoms, np.zeros(len(network.weights)))
    sampler.step(plan, state, tallies, 2)
    began = time.perf_counter()
    info = sampler.step(plan, state, tallies, 10)
    seconds = time.perf_counter() - began
    print(
        f"  {network.num_atoms:,} atoms, {network.num_clauses:,} clauses: "
        f"{info.updates / seconds / 1e6:.1f} million updates/s (target 5), "
        f"{info.changes / seconds / 1e6:.1f} million of them flips; {seconds / 10:.3f} s a sweep"
    )


def mcsat_time(people: int) -> None:
    network = friends_open(people)
    result = run_chains(network, MCSAT(), precision=0, max_samples=1000)
    print(
        f"  n={people}, Friends open: {result.num_samples} samples and {result.num_warmup} of "
        f"warm-up in {result.seconds:.1f} s (target 10, Alchemy 33); {quality(result)}"
    )


def quality(result: SampleResult) -> str:
    """Describe the diagnostics of the chains."""
    return (
        f"worst R-hat {result.worst_rhat:.2f}, ESS {result.worst_ess:.0f}, "
        f"standard error {result.worst_stderr:.4f}"
    )


def time_to_error(people: int, seeds: int) -> None:
    """Print the mean and the largest error against a long run of tempering with another seed."""
    for seed in range(seeds):
        network = friends_known(people, seed)
        reference = run_chains(network, Tempering(), precision=0.002, max_samples=20_000, seed=99)
        print(
            f"  n={people}, data {seed}: reference of {reference.num_samples:,} samples, "
            f"{quality(reference)}"
        )
        for sampler in (Gibbs(), MCSAT(), Tempering()):
            print_error(network, sampler, reference.marginal)
        began = time.perf_counter()
        beliefs = propagate_beliefs(network)
        error = np.abs(beliefs.marginal - reference.marginal)
        print(
            f"    bp         {time.perf_counter() - began:5.2f} s  mean {error.mean():.4f}  "
            f"max {error.max():.4f}  converged {beliefs.diagnostics['converged']}"
        )


def print_error(network: Network, sampler: Sampler[Any, Any], reference: np.ndarray) -> None:
    for samples in (1_000, 2_000, 4_000, 8_000, 16_000):
        result = run_chains(network, sampler, precision=0, max_samples=samples)
        error = np.abs(result.marginal - reference)
        reached = bool(error.mean() <= 0.005 and error.max() <= 0.03)
        if reached or samples == 16_000:
            print(
                f"    {sampler.name:10s} {result.seconds:5.2f} s  mean {error.mean():.4f}  "
                f"max {error.max():.4f}  {result.num_samples:,} samples, "
                f"{'target met' if reached else 'target NOT met'}; {quality(result)}"
            )
            return


def bias(people: int, samples: int) -> None:
    """Compare MC-SAT with exact answers, with and without jumps to SampleSAT's first solution."""
    network = friends_known(people, 1)
    exact = enumerate_worlds(network).marginal
    print(f"  n={people}, {samples:,} samples, mean error (Alchemy MC-SAT 0.17, any sample size)")
    for label, sampler in (
        ("ours", MCSAT()),
        ("ours, no component listed", MCSAT(node_budget=0)),
        ("restart at every sample", MCSAT(node_budget=0, restart_probability=1.0)),
    ):
        result = run_chains(network, sampler, precision=0, max_samples=samples)
        error = np.abs(result.marginal - exact)
        print(f"    {label:28s} {error.mean():.4f}  max {error.max():.4f}  {quality(result)}")


def main() -> None:
    quick = "--quick" in sys.argv
    print("first use (compiled or read from numba's cache)")
    compile_kernels()
    print("Gibbs kernel, one core")
    kernel_speed(100 if quick else 1000)
    print("MC-SAT, all cores")
    mcsat_time(50 if quick else 200)
    print("time to mean error 0.005 and max 0.03 (target for the whole process: 4 s at n=1000)")
    time_to_error(100 if quick else 1000, 1)
    print("bias")
    bias(10, 2_000 if quick else 20_000)


if __name__ == "__main__":
    main()
