"""Grounding: time, memory and clauses per second.

    python benchmarks/grounding.py [smokers | class | cse ...]

`smokers` is generated: 1000 people, Friends open, so a million unknown friendships (limit: 10 s and
2 GB, at least 2 million clauses per second). `class` (Cora classification) and `cse` (UW-CSE) are
Tuffy's samples, read from LAPIS_DATA; limit: 5 s and 1 GB each. Alchemy 2 needs over 152 s and 18
GB on `class`. Each task runs in its own process, which has read a small model before. `load s` is
the additional time of the first grounding, which loads kernels. The limits are for reading and the
second grounding.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from protocol import DATA, has_data, peak_memory, run_in_process

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
"""
PEOPLE = 1000


@dataclass(frozen=True)
class Task:
    name: str
    query: tuple[str, ...]
    seconds: float
    gigabytes: float


TASKS = (
    Task("smokers", ("Friends", "Smokes", "Cancer"), 10, 2),
    Task("class", ("category",), 5, 1),
    Task("cse", ("advisedBy",), 5, 1),
)


def run(task: Task) -> None:
    import lapis

    lapis.build_problem(lapis.parse(SMOKERS), lapis.Database.parse("Smokes(A)"), query=["Cancer"])
    started = time.perf_counter()
    if task.name == "smokers":
        people = ", ".join(f"P{number}" for number in range(PEOPLE))
        model, database = lapis.parse(f"person = {{{people}}}\n{SMOKERS}"), None
    else:
        folder = DATA / "tuffy-samples" / task.name
        (facts,) = folder.glob("evidence.db*")
        model, database = lapis.read(folder / "prog.mln"), lapis.Database.read(facts)
    problem = lapis.build_problem(model, database, query=task.query)
    read = time.perf_counter()
    lapis.ground(problem)
    loaded = time.perf_counter()
    network = lapis.ground(problem)
    done = time.perf_counter()
    seconds = done - loaded
    memory = peak_memory()
    within = read - started + seconds <= task.seconds and memory <= task.gigabytes
    print(
        f"{task.name:8} {network.num_atoms:>10,} {network.num_clauses:>10,} "
        f"{len(network.literal):>10,} {read - started:>7.2f} {loaded - read - seconds:>7.2f} "
        f"{seconds:>9.2f} {network.num_clauses / seconds / 1e6:>10.2f} {memory:>6.2f}   "
        f"{task.seconds:g} s, {task.gigabytes:g} GB: {'met' if within else 'MISSED'}",
        flush=True,
    )


def main(names: list[str]) -> None:
    print(
        f"{'task':8} {'atoms':>10} {'clauses':>10} {'literals':>10} {'read s':>7} {'load s':>7} "
        f"{'ground s':>9} {'million/s':>10} {'GB':>6}   limit"
    )
    for task in TASKS:
        if names and task.name not in names:
            continue
        if task.name != "smokers" and not has_data(DATA / "tuffy-samples" / task.name):
            continue
        if not run_in_process(run, task):
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
