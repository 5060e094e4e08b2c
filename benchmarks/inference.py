"""Marginals and most likely worlds of friends and smokers, compared with the systems of 2005–2015.

    python benchmarks/inference.py [--quick]

n people with 5 friends each as evidence, 20 % of Smokes observed; query Smokes and Cancer. Every
timed run is a whole process of the command line, after one warm-up run. Errors are computed against
exact answers if these fit in memory, otherwise against a long run with another seed, whose standard
errors are printed. Alchemy 2 was measured on a similar machine: it needs 1.74 s for MC-SAT
marginals at n = 1000, with a mean error of 0.17 at n = 10, and returns worlds of cost 650.1 where
the minimum is 433.4.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from protocol import peak_memory

import lapis

MODEL = """\
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
QUERY = ["Smokes", "Cancer"]
ALCHEMY = {  # seconds of MC-SAT with 1000 samples; MAP cost found, exact minimum
    50: (0.09, None),
    100: (0.08, None),
    200: (0.18, (128.7, 94.6)),
    500: (0.89, (316.8, 224.4)),
    1000: (1.74, (650.1, 433.4)),
}


def smokers_facts(people: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    lines = [
        f"Friends(P{i},P{j})"
        for i in range(people)
        for j in rng.choice(people, min(5, people), replace=False)
    ]
    for i in np.flatnonzero(rng.random(people) < 0.2):
        lines.append(f"{'' if rng.random() < 0.5 else '!'}Smokes(P{i})")
    return "\n".join(lines)


def run_command(*arguments: str) -> tuple[dict, float]:
    """Return the JSON of a command and the seconds of its process."""
    command = [sys.executable, "-m", "lapis", *arguments, "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - start


def reference(facts: str) -> tuple[dict[str, float], str]:
    """Return exact marginals, or those of a long run."""
    model, data = lapis.parse(MODEL), lapis.Database.parse(facts)
    try:
        return lapis.infer(model, data, QUERY, method="exact").marginals, "exact"
    except lapis.TooLarge:
        answer = lapis.infer(model, data, QUERY, precision=0.0015, random_state=12345)
        return answer.marginals, f"± {float(answer.errors.max()):.4f}"


def quality(diagnostics: dict, worst_stderr: float) -> str:
    """Describe the diagnostics of a sampled answer; "" if it is exact."""
    if "rhat" not in diagnostics:
        return f"{'':29s}"
    return (
        f"{diagnostics['rhat']:7.2f} {diagnostics['ess']:8.0f} {worst_stderr:7.4f} "
        f"{'yes' if diagnostics['converged'] else 'NO':>3s}  "
    )


def marginals_row(folder: Path, people: int, seed: int) -> str:
    facts = smokers_facts(people, seed)
    (folder / "m.mln").write_text(MODEL)
    (folder / "d.db").write_text(facts)
    command = ["infer", str(folder / "m.mln"), str(folder / "d.db"), "-q", "Smokes,Cancer"]
    run_command(*command)
    answer, seconds = run_command(*command)
    truth, kind = reference(facts)
    errors = np.abs([row["probability"] - truth[row["atom"]] for row in answer["atoms"]])
    world, map_seconds = run_command("map", *command[1:])
    alchemy, costs = ALCHEMY.get(people, (None, None))
    return (
        f"{people:5d} {seed:4d}  {answer['method']:16s} {seconds:6.2f} {alchemy or '':>8}"
        f"  {errors.mean():8.4f} {errors.max():8.4f}  {kind:10s}"
        f"{quality(answer, max(row['stderr'] or 0.0 for row in answer['atoms']))}"
        f"  {map_seconds:6.2f} {world['cost']:9.2f} {'proven' if world['optimal'] else 'gap':8s}"
        f" {'' if costs is None else f'Alchemy {costs[0]} (min {costs[1]})'}"
    )


def open_exact(people: int) -> tuple[float, float]:
    """Return P(Smokes) and P(Cancer) with Friends open, summed over the number of smokers.

    Two people who differ cost log((1 + e^1.1) / 2e^1.1), a smoker log((1 + e^1.5) / 2e^1.5).
    """
    smokers = np.arange(people + 1)
    rest = people - smokers[:-1]
    ways = np.concatenate(([0.0], np.cumsum(np.log(rest / (smokers[:-1] + 1)))))
    differ, smoke = (np.log((1 + np.exp(w)) / (2 * np.exp(w))) for w in (1.1, 1.5))
    score = ways + differ * smokers * (people - smokers) + smoke * smokers
    weight = np.exp(score - score.max())
    smokes = float((weight * smokers).sum() / weight.sum() / people)
    return smokes, smokes / (1 + np.exp(-1.5)) + (1 - smokes) / 2


def open_row(people: int, method: str, samples: int) -> str:
    """Print a row with Friends open: n² unknown atoms, errors against the closed form."""
    from lapis.grounding.bottom_up import ground
    from lapis.inference.marginals import InferenceOptions
    from lapis.inference.solve import infer_network

    text = f"person = {{1,...,{people}}}\n{MODEL}"
    start = time.perf_counter()
    problem = lapis.build_problem(lapis.parse(text), None, ["Friends", *QUERY])
    network = ground(problem)
    found = infer_network(network, method, InferenceOptions(precision=1e-9, max_samples=samples))
    seconds = time.perf_counter() - start
    memory = peak_memory()
    table = network.atoms
    error = 0.0
    for name, exact in zip(QUERY, open_exact(people), strict=True):
        place = table.predicates.index(name)
        first, last = table.offset[place : place + 2]
        error = max(error, float(np.abs(found.marginal[first:last] - exact).max()))
    return (
        f"{people:5d}  {method:9s} {found.diagnostics['samples']:5d} samples of "
        f"{network.num_base_atoms:9,} atoms (core {found.diagnostics['core_atoms']:,})  "
        f"{seconds:6.1f} s  {memory:4.1f} GB  max error {error:.4f}  "
        f"{quality(found.diagnostics, float(found.stderr.max()))}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="smaller sizes, one seed")
    quick = options.parse_args().quick
    print("Marginals and MAP, whole process, warm (last columns: Alchemy 2, MC-SAT)")
    print(
        "    n seed  method            secs  Alchemy      mean      max  reference "
        "  R-hat      ESS  stderr conv  MAP s      cost"
    )
    with tempfile.TemporaryDirectory() as name:
        for people in (10, 50, 100) if quick else (10, 50, 100, 200, 500, 1000):
            for seed in (0,) if quick else (0, 1):
                print(marginals_row(Path(name), people, seed), flush=True)
    print("\nFriends open (Alchemy 2 MC-SAT, 1000 samples: n=200 33 s); R-hat, ESS, stderr, conv")
    print("All smoke or none does: a Gibbs chain that starts where all do stays there.")
    for people, method, samples in [(50, "mcsat", 1000), (200, "mcsat", 1000)] + (
        [] if quick else [(1000, "gibbs", 1000), (1000, "tempering", 1000)]
    ):
        open_row(people, method, samples)
        print(open_row(people, method, samples), flush=True)


if __name__ == "__main__":
    main()
