"""Most likely worlds: friends and smokers, Tuffy's samples, MaxSAT files with known optima.

    python benchmarks/map.py [smokers] [tuffy] [wcnf] [search]

Reads `tuffy-samples` and `wcnf` from LAPIS_DATA. Each task runs in its own process, after a small
task that loads the kernels. `seconds` is the time of that process from its start, with imports.
"""

from __future__ import annotations

import subprocess
import sys
import time

from protocol import DATA, has_data

BEGIN = time.perf_counter()

SMOKERS = """
Smokes(person)
Cancer(person)
Friends(person, person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
# n → seconds of Alchemy 2 (MaxWalkSAT), its cost over the least cost where that is known
ALCHEMY = {100: (0.4, None), 200: (0.5, 1.36), 500: (0.95, 1.41), 1000: (1.15, 1.50)}
TUFFY = {"class": ("category", "Tuffy: cost 361.56 in 24 s"), "cse": ("advisedBy", "")}


def smokers_data(people: int, seed: int) -> str:
    """Generate five random friends each; a fifth of the people observed, half of them smokers."""
    import numpy as np

    rng = np.random.default_rng(seed)
    lines = []
    for x in range(people):
        for y in rng.choice(people - 1, 5, replace=False):
            lines.append(f"Friends(P{x},P{y + (y >= x)})")
    for x in rng.permutation(people)[: people // 5]:
        lines.append(("" if rng.random() < 0.5 else "!") + f"Smokes(P{x})")
    return "\n".join(lines)


def run_smokers(people: int, seed: int) -> None:
    import lapis
    from lapis.inference.map.solver import map_problem
    from lapis.inference.marginals import InferenceOptions
    from lapis.problem.task import build_task

    data = lapis.Database.parse(smokers_data(people, seed))
    problem = build_task(lapis.parse(SMOKERS), data, ["Smokes", "Cancer"]).worlds[0].problem
    _, found = map_problem(problem, "auto", InferenceOptions())
    seconds = time.perf_counter() - BEGIN
    known = ALCHEMY.get(people)
    other = f"Alchemy {known[0]} s" if known else ""
    if known and known[1]:
        other += f", {known[1]:.2f} times the least cost"
    report(
        f"smokers n={people} seed {seed}", seconds, found.cost, found.optimal, found.method, other
    )


def run_tuffy(name: str) -> None:
    from lapis.inference.map.solver import map_problem
    from lapis.inference.marginals import InferenceOptions
    from lapis.problem.task import build_task

    query, known = TUFFY[name]
    folder = DATA / "tuffy-samples" / name
    evidence = next(iter(sorted(folder.glob("evidence.db*"))))
    problem = build_task(folder / "prog.mln", evidence, query).worlds[0].problem
    _, found = map_problem(problem, "auto", InferenceOptions(time_limit=20.0))
    seconds = time.perf_counter() - BEGIN
    gap = f"gap {100 * found.gap / (found.cost or 1.0):.2f} % of the cost"
    report(f"tuffy {name}", seconds, found.cost, found.optimal, found.method, known or gap)


def run_wcnf(name: str, optimum: str) -> None:
    from lapis.inference.map.wcnf import solve_wcnf

    found = solve_wcnf(DATA / "wcnf" / name)
    seconds = time.perf_counter() - BEGIN
    proven = found.found.optimal
    report(name.split("/")[-1], seconds, found.cost, proven, found.found.method, f"least {optimum}")


def run_search(name: str, optimum: str) -> None:
    from lapis.inference.map.map_objective import objective_of
    from lapis.inference.map.maxwalksat import search_world
    from lapis.inference.map.wcnf import network_of_clauses, read_wcnf

    objective = objective_of(network_of_clauses(read_wcnf(DATA / "wcnf" / name)))
    search_world(objective, max_flips=1000, restarts=1)
    begin = time.perf_counter()
    found = search_world(objective, max_flips=1_000_000, restarts=2)
    seconds = time.perf_counter() - begin
    speed = f"{found.flips / seconds / 1e6:.1f} million flips a second"
    cost = found.cost
    report(f"search {name.split('/')[-1]}", seconds, cost, False, speed, f"least {optimum}")


def report(task: str, seconds: float, cost: float, proven: bool, method: str, other: str) -> None:
    word = "proven" if proven else ""
    print(f"{task[:40]:40} {seconds:7.2f} s  {cost:12.2f} {word:7} {method:32} {other}", flush=True)


def optima() -> list[tuple[str, str]]:
    path = DATA / "wcnf" / "OPTIMA.tsv"
    if not has_data(path):
        return []
    fields = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [(row[0], row[5]) for row in fields]


def tasks(chosen: list[str]) -> list[list[str]]:
    listed: list[list[str]] = []
    if "smokers" in chosen:
        listed += [["smokers", str(n), str(s)] for n in (100, 200, 500, 1000) for s in range(3)]
    if "tuffy" in chosen and has_data(DATA / "tuffy-samples"):
        listed += [["tuffy", name] for name in TUFFY]
    for kind in ("wcnf", "search"):
        if kind in chosen:
            listed += [[kind, name, optimum] for name, optimum in optima()]
    return listed


def main() -> None:
    match sys.argv[1:]:
        case ["--task", "smokers", people, seed]:
            run_smokers(int(people), int(seed))
        case ["--task", "tuffy", name]:
            run_tuffy(name)
        case ["--task", "wcnf", name, optimum]:
            run_wcnf(name, optimum)
        case ["--task", "search", name, optimum]:
            run_search(name, optimum)
        case chosen:
            command = [sys.executable, __file__, "--task"]
            warm = subprocess.run(
                [*command, "smokers", "50", "0"], capture_output=True, check=False
            )
            if warm.returncode:
                sys.exit(warm.stderr.decode())
            for task in tasks(chosen or ["smokers", "tuffy", "wcnf", "search"]):
                subprocess.run([*command, *task], check=True)


if __name__ == "__main__":
    main()
