"""Generative weights of friends and smokers by pseudo-likelihood: whole processes, time and memory.

    python benchmarks/generative.py [--sizes 50,100,200,500,1000,30000] [--repeats 3]

n people with five friends each, generated so that smokers befriend smokers and have cancer more
often. Each size runs `lapis learn` as a user would: it reads a .db file and writes a model. Printed
are the smallest wall time of the repeats after one warm-up run, its CPU time and peak memory.
Limits: 2 s for 1,000 people; 10 s and 1 GB for 30,000 (900 million ground atoms). Alchemy 2
(pseudo-likelihood) was measured on a similar machine. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FRIENDS_EACH = 5
SMOKERS = 0.3
CANCER = {True: 0.25, False: 0.05}  # by whether one smokes
ALIKE = 0.6  # of the friends, those looked for among people of the same habit

MODEL = """
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x) => Cancer(x)
Friends(x,y) ^ Smokes(x) => Smokes(y)
0 Smokes(x)
0 Cancer(x)
0 Friends(x,y)
"""

ALCHEMY = {50: 0.02, 100: 0.14, 200: 0.42, 500: 3.05, 1000: 19.0}  # seconds
LIMITS = {1000: (2.0, 1024.0), 30_000: (10.0, 1024.0)}  # seconds, megabytes


@dataclass(frozen=True)
class Run:
    """One process of `lapis learn`."""

    seconds: float
    cpu: float
    megabytes: float
    fit: dict[str, object]  # its JSON


def write_data(path: Path, num_people: int) -> None:
    """Write people, habits and friendships; the same at every call."""
    generator = np.random.default_rng(num_people)
    smokes = generator.random(num_people) < SMOKERS
    ill = generator.random(num_people) < np.where(smokes, CANCER[True], CANCER[False])
    one = np.repeat(np.arange(num_people), FRIENDS_EACH)
    other = generator.integers(num_people, size=len(one))
    for habit in (True, False):
        group = np.flatnonzero(smokes == habit)
        chosen = (smokes[one] == habit) & (generator.random(len(one)) < ALIKE)
        if len(group):
            other[chosen] = generator.choice(group, int(chosen.sum()))
    pairs = sorted({(a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True) if a != b})
    lines = [f"Friends(P{a},P{b})" for a, b in pairs]
    lines += [f"Smokes(P{person})" for person in np.flatnonzero(smokes)]
    lines += [f"Cancer(P{person})" for person in np.flatnonzero(ill)]
    path.write_text("\n".join(lines) + "\n")


def run_learn(model: Path, data: Path, output: Path) -> Run:
    command = [sys.executable, "-m", "lapis", "learn", str(model), str(data), "-o", str(output)]
    began = time.perf_counter()
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"lapis learn failed with exit code {process.returncode}")
    return Run(
        seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.loads(printed)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="50,100,200,500,1000,30000")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    missed = False
    print(
        "   people    ground atoms      wall       CPU    memory   Alchemy 2  Alchemy / ours  limit"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "smokers.mln"
        model.write_text(MODEL)
        for num_people in map(int, options.sizes.split(",")):
            data = folder / f"{num_people}.db"
            write_data(data, num_people)
            runs = [run_learn(model, data, folder / "out.mln") for _ in range(1 + options.repeats)]
            best = min(runs[1:] or runs, key=lambda run: run.seconds)
            if not best.fit["converged"]:
                print(f"{num_people:>9,}  not converged")
                missed = True
            verdict = judge(num_people, best)
            missed |= verdict.endswith("MISSED")
            theirs = ALCHEMY.get(num_people)
            print(
                f"{num_people:>9,} {num_people**2 + 2 * num_people:>15,}"
                f" {best.seconds:>7.2f} s {best.cpu:>7.2f} s {best.megabytes:>6.0f} MB"
                + (f" {theirs:>9.2f} s {theirs / best.seconds:>15.1f}" if theirs else " " * 27)
                + f"  {verdict}",
                flush=True,
            )
    weights = best.fit["weights"]
    assert isinstance(weights, list)
    for learned in weights:
        print(f"  {learned['weight']:>9.4f}  {learned['formula']}")
    return int(missed)


def judge(num_people: int, run: Run) -> str:
    if num_people not in LIMITS:
        return ""
    seconds, megabytes = LIMITS[num_people]
    kept = run.seconds <= seconds and run.megabytes <= megabytes
    return f"{seconds:g} s, {megabytes:g} MB: {'kept' if kept else 'MISSED'}"


if __name__ == "__main__":
    sys.exit(main())
