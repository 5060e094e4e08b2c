"""Friends and smokers on graphs of several degree laws: time, memory, convergence of `auto`.

    python benchmarks/phases.py [--people 10000] [--friends 5 10 20] [--laws regular poisson]
        [--seeds 0 1 2] [--limit 600] [--again] [--table]

Each cell is a process with compiled kernels on disk, and its result is appended to
`benchmarks/results/phases.json` as it ends, so that the benchmark can be stopped and continued;
`--again` measures anew. `--table` prints what was measured. Smokes is known of a fifth of the
people, at random. `auto` has no time limit of its own: a cell that takes longer than `--limit`
seconds of the clock is stopped and recorded as such.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from protocol import peak_memory

RESULTS = Path(__file__).parent / "results" / "phases.json"
LAWS = ("regular", "poisson", "power law", "small world")
REWIRED, EXPONENT = 0.1, 1.5


def draw_friends(law: str, people: int, friends: int, rng: np.random.Generator) -> np.ndarray:
    """Return int64[people · friends, 2], directed friendships with a mean out-degree.

    regular: equal out-degrees. poisson: random ones. power law: shares of a Pareto distribution.
    small world: a ring in which each person likes the next ones, and a tenth is drawn anew (Watts
    and Strogatz 1998).
    """
    number = people * friends
    one = np.repeat(np.arange(people), friends)
    other = rng.integers(people, size=number)
    if law == "poisson":
        one = rng.integers(people, size=number)
    elif law == "power law":
        share = rng.pareto(EXPONENT, people) + 1.0
        one = rng.choice(people, number, p=share / share.sum())
    elif law == "small world":
        near = (one + np.tile(np.arange(1, friends + 1), people)) % people
        other = np.where(rng.random(number) < REWIRED, other, near)
    return np.column_stack((one, other))


def run_cell(law: str, people: int, friends: int, seed: int) -> dict[str, Any]:
    """Ground and infer; return what is recorded."""
    import lapis
    from inference import MODEL, QUERY
    from lapis.grounding import ground
    from lapis.inference.solve import infer_network

    rng = np.random.default_rng((seed, people, friends))
    pairs = draw_friends(law, people, friends, rng).tolist()
    known = np.flatnonzero(rng.random(people) < 0.2)
    value = rng.random(len(known)) < 0.5
    lines = [f"Friends(P{x},P{y})" for x, y in pairs]
    facts = zip(known.tolist(), value.tolist(), strict=True)
    lines += [f"{'' if true else '!'}Smokes(P{x})" for x, true in facts]
    data = lapis.Database.parse("\n".join(lines))
    del pairs, lines
    network = ground(lapis.build_problem(lapis.parse(MODEL), data, QUERY))
    began, clock = time.process_time(), time.perf_counter()
    found = infer_network(network)
    notes = found.diagnostics
    figures = ("converged", "rhat", "ess", "samples", "seconds_left", "warmup_error")
    return {
        "processor": time.process_time() - began,
        "wall": time.perf_counter() - clock,
        "process": time.process_time(),
        "memory": peak_memory(),
        "method": found.method,
        "stderr": float(found.errors.max()),
        "modes": [[mode.size, mode.weight, mode.stderr, mode.kept] for mode in found.modes],
        **{name: notes[name] for name in figures if name in notes},
    }


def read_results() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text())
    return found


def run_process(cell: tuple[str, int, int, int], limit: float) -> dict[str, Any]:
    """Run a cell in its own process; a cell beyond the limit has only its wall time."""
    command = [sys.executable, __file__, "--cell", *map(str, cell)]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"stopped": limit}
    except subprocess.CalledProcessError as error:
        return {"failed": error.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def describe(found: dict[str, Any]) -> str:
    if "processor" not in found:
        return f"stopped or failed: {found}"
    word = "converged" if found.get("converged", True) else "not converged"
    modes = f", {len(found['modes'])} modes" if found["modes"] else ""
    return (
        f"{found['processor']:7.1f} s processor {found['wall']:7.1f} s wall "
        f"{found['memory']:5.2f} GB  {found['method']} {word}, R-hat {found.get('rhat', 1):.3f}, "
        f"stderr {found['stderr']:.4f}{modes}"
    )


def main() -> None:
    if sys.argv[1:2] == ["--cell"]:
        law, people, friends, seed = sys.argv[2:]
        print(json.dumps(run_cell(law, int(people), int(friends), int(seed))))
        return
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--people", nargs="+", type=int, default=[10_000])
    options.add_argument("--friends", nargs="+", type=int, default=[5, 10, 20])
    options.add_argument("--laws", nargs="+", choices=LAWS, default=LAWS)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options.add_argument("--limit", type=float, default=600.0)
    options.add_argument("--again", action="store_true")
    options.add_argument("--table", action="store_true")
    chosen = options.parse_args()
    cells = [
        (law, people, friends, seed)
        for people in chosen.people
        for law in chosen.laws
        for friends in chosen.friends
        for seed in chosen.seeds
    ]
    for cell in cells:
        name, results = ", ".join(map(str, cell)), read_results()
        if not chosen.table and (chosen.again or name not in results):
            found = run_process(cell, chosen.limit)
            results = read_results() | {name: found}
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        if name in results:
            print(f"{name:32} {describe(results[name])}", flush=True)


if __name__ == "__main__":
    main()
