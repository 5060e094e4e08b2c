"""Friends and smokers from a thousand to a million people: time by phase, memory, proven
optimality.

    python benchmarks/scale.py [map] [infer] [--people 1000 10000 100000 1000000] [--friends 5 10]
    python benchmarks/scale.py open [--people 1000 2000 3000] [--friends 5]

Each person has 5 or 10 friends, drawn with replacement. Smokes is known for a random fifth of the
people and true for half of those. Smokes and Cancer are queried. The rows `open` query Friends too:
only the friendships in the data are known. Each row is a process with compiled kernels on disk,
measured from its start: imports, reading the facts as text, binding, grounding, solving, and
writing the answer as JSON. Seconds are CPU seconds, which depend little on other work of the
machine; `wall` is the clock, `GB` peak memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from protocol import peak_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lapis.network.network import Network
    from lapis.problem.task import World

SIZES = {
    "map": (1_000, 10_000, 100_000, 1_000_000),
    "infer": (1_000, 10_000, 100_000, 1_000_000),
    "open": (1_000, 2_000, 3_000),
}
BEFORE = {  # half, people, friends: before minimum cuts, cluster moves and pilots
    ("map", 100_000, 5): "before: 200–300 s, gap 0.8 %",
    ("map", 100_000, 10): "before: 200–300 s, gap 0.8 %",
    ("infer", 1_000, 10): "before: 8 s (tempering)",
    ("infer", 10_000, 10): "before: 128 s (tempering)",
    ("infer", 100_000, 5): "before: 257 s (MC-SAT); target 30 s",
    ("infer", 100_000, 10): "before: 84 samples in 300 s; target 60 s",
    ("open", 1_000, 5): "before: 177 s, 1.7 GB; target 20 s",
    ("open", 2_000, 5): "before: 180 s, 6.8 GB",
    ("open", 3_000, 5): "target 180 s, 4 GB",
}


def write_facts(path: Path, people: int, friends: int, seed: int = 0) -> None:
    """Write the data of one row, one fact per line."""
    import numpy as np

    rng = np.random.default_rng(seed)
    friend = rng.integers(people, size=(people, friends)).tolist()
    known = rng.permutation(people)[: people // 5].tolist()
    with path.open("w") as file:
        for x, row in enumerate(friend):
            file.write("".join(f"Friends(P{x},P{y})\n" for y in row))
        half = len(known) // 2
        file.write("".join(f"Smokes(P{x})\n" for x in known[:half]))
        file.write("".join(f"!Smokes(P{x})\n" for x in known[half:]))


class Phases:
    """CPU seconds between successive marks."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.mark("imports")

    def mark(self, name: str) -> None:
        self.seconds[name] = time.process_time() - sum(self.seconds.values())

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        memory = peak_memory()
        phases = "  ".join(f"{name} {value:6.2f}" for name, value in self.seconds.items())
        return f"{total:7.2f} s  {phases}  {memory:5.2f} GB"


def prepare(data: Path, opened: Sequence[str] = ()) -> tuple[Phases, World, Network]:
    """Return the ground network of a file of facts, as `lapis.map` and `lapis.infer` build it."""
    import lapis
    from inference import MODEL, QUERY
    from lapis.grounding.bottom_up import ground
    from lapis.problem.task import build_task

    phases = Phases()
    database = lapis.Database.read(data)
    phases.mark("reading")
    world = build_task(lapis.parse(MODEL), database, [*QUERY, *opened]).worlds[0]
    phases.mark("binding")
    network = ground(world.problem)
    phases.mark("grounding")
    return phases, world, network


def run_map(data: Path, people: int, friends: int) -> None:
    """Find a most likely world, stage by stage."""
    from lapis.cli.render import json_pieces
    from lapis.inference.map.solver import broken_weight, most_likely_world
    from lapis.inference.marginals import InferenceOptions
    from lapis.inference.worlds import answer_map_world

    phases, world, network = prepare(data)
    found = most_likely_world(network, "auto", InferenceOptions(time_limit=600.0))
    phases.mark("solving")
    found = replace(found, cost=broken_weight(world.problem, network.counts(found.world)))
    with data.with_suffix(".json").open("w") as file:
        file.writelines(json_pieces(answer_map_world(world, network, found).document()))
    phases.mark("writing")
    word = "proven" if found.optimal else f"gap {100 * found.gap / found.cost:.2f} %"
    print(f"map {people:9,} {friends:3}  {phases}  {word:10} {found.method}", end="", flush=True)


def run_open(data: Path, people: int, friends: int) -> None:
    """Infer marginals with Friends open."""
    run_infer(data, people, friends, ["Friends"])


def run_infer(data: Path, people: int, friends: int, opened: Sequence[str] = ()) -> None:
    """Infer marginals to a standard error of 0.01 by `auto`, stage by stage."""
    from lapis.cli.render import json_pieces
    from lapis.inference.marginals import InferenceOptions
    from lapis.inference.solve import infer_network
    from lapis.inference.worlds import answer_world

    phases, world, network = prepare(data, opened)
    limit = 600.0 * max(1, people // 100_000)
    found = infer_network(network, "auto", InferenceOptions(precision=0.01, time_limit=limit))
    phases.mark("inferring")
    answer = answer_world(world, network, found)
    with data.with_suffix(".json").open("w") as file:
        file.writelines(json_pieces(answer.document()))
    phases.mark("writing")
    notes = found.diagnostics
    word = "converged" if notes.get("converged", True) else "NOT converged"
    quality = f"{found.method} {word}"
    if "rhat" in notes:
        quality += (
            f" R-hat {notes['rhat']:.3f} stderr {found.stderr.max():.4f} samples "
            f"{notes['samples']:,} ess {notes['ess']:.0f} (slowest of all) "
            f"{notes['ess_bulk']:.0f} {notes['ess_tail']:.0f} (traced) "
            f"sampling {notes['seconds']:.1f} s (wall) pilots "
            + " ".join(f"{name} {cost:.2g}" for name, cost in notes["pilots"].items())
        )
    half = "open" if opened else "infer"
    print(f"{half:5} {people:9,} {friends:3}  {phases}  {quality}", end="", flush=True)


def run_row(half: str, people: int, friends: int, folder: Path) -> None:
    """Run one row in its own process, with its wall time."""
    data = folder / f"{people}-{friends}.db"
    if not data.exists():
        write_facts(data, people, friends)
    begin = time.perf_counter()
    command = [sys.executable, __file__, "--task", half, str(data), str(people), str(friends)]
    subprocess.run(command, check=True)
    print(
        f"  wall {time.perf_counter() - begin:.1f} s  {BEFORE.get((half, people, friends), '')}",
        flush=True,
    )


def main() -> None:
    if sys.argv[1:2] == ["--task"]:
        half, data, people, friends = sys.argv[2:]
        run = {"map": run_map, "infer": run_infer, "open": run_open}[half]
        run(Path(data), int(people), int(friends))
        return
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("halves", nargs="*", default=["map", "infer"], help="map, infer, open")
    options.add_argument("--people", nargs="+", type=int)
    options.add_argument("--friends", nargs="+", type=int, default=(5, 10))
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for half in chosen.halves:
            for people in chosen.people or SIZES[half]:
                for friends in chosen.friends:
                    run_row(half, people, friends, Path(name))


if __name__ == "__main__":
    main()
