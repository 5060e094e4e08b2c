"""Changes in a session: seconds of the processor beside a fresh run.

    python benchmarks/live.py [PEOPLE ...]

"components": people in groups of two to nine, friends within their group, `Smokes` and `Cancer`
unknown; a million atoms by default. "one component": everybody has five random friends, and the
answer is sampled. A change adds or removes one fact; the median of twenty is shown, and the first
one apart, as it builds indexes. "fresh" is `lapis.infer` on the same facts in the same process.
"weight" is `set_weight` and `ask` on twenty people.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

import lapis
from lapis.data.database import Database, Domain, Relation, empty_tuples

MODEL = """
Smokes(person)
Cancer(person)
Friends(person, person)
1.5 Smokes(x) => Cancer(x)
0.6 Smokes(x) ^ Friends(x, y) => Smokes(y)
-0.8 Smokes(x)
-1.2 Cancer(x)
"""
CHANGES = 20
SEEDS = (1, 2, 3)


def main(arguments: Sequence[str]) -> None:
    sizes = [int(argument) for argument in arguments] or [5_000, 50_000, 500_000]
    print(f"{'network':<16}{'people':>10}{'seed':>6}{'fresh':>9}{'open':>9}{'first':>9}"
          f"{'change':>9}{'share':>8}", flush=True)  # fmt: skip
    for size in sizes:
        for seed in SEEDS:
            measure("components", group_friends(size, seed), seed)
    for size in [size // 10 for size in sizes]:
        for seed in SEEDS:
            measure("one component", random_friends(size, 5, seed), seed)
    measure_weight()


def measure(name: str, data: Database, seed: int) -> None:
    """Print the row of a network."""
    model = lapis.parse(MODEL)
    query = ["Smokes", "Cancer"]
    lapis.infer(model, small_world(), query)  # kernels are loaded
    fresh = timed(lambda: lapis.infer(model, data, query, random_state=seed))
    session: list[lapis.Session] = []

    def open_session() -> None:
        session.append(lapis.Session(model, data, query, random_state=seed))
        session[0].ask()

    opened = timed(open_session)
    rng = np.random.default_rng(seed)
    num_people = len(data.domains["person"])
    seconds = []
    for number, person in enumerate(rng.choice(num_people, CHANGES + 1, replace=False).tolist()):
        fact = f"Smokes(P{person})"
        seconds.append(timed(lambda fact=fact: change(session[0], "add", fact)))
        if number % 2:
            seconds.append(timed(lambda fact=fact: change(session[0], "remove", fact)))
    first, *rest = seconds
    print(f"{name:<16}{num_people:>10,}{seed:>6}{fresh:>9.3f}{opened:>9.3f}{first:>9.3f}"
          f"{median(rest):>9.3f}{median(rest) / fresh:>8.3f}", flush=True)  # fmt: skip


def change(session: lapis.Session, action: str, fact: str) -> None:
    getattr(session, action)(fact)
    session.ask()


def measure_weight() -> None:
    model, data = lapis.parse(MODEL), random_friends(20, 3, 1)
    session = lapis.Session(model, data, ["Smokes", "Cancer"])
    session.ask()
    seconds = []
    for step in range(CHANGES):

        def slide(step: int = step) -> None:
            session.set_weight(1, 0.05 * step)
            session.ask()

        seconds.append(timed(slide))
    print(f"weight of a rule, 20 people: {1000 * median(seconds):.1f} ms", flush=True)


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def group_friends(num_people: int, seed: int) -> Database:
    """Return people in groups of two to nine; each has two friends in the group."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 10, num_people)
    start = np.cumsum(size)
    start = np.concatenate(([0], start[start < num_people], [num_people]))
    group = np.repeat(np.arange(len(start) - 1), np.diff(start))
    one = np.repeat(np.arange(num_people), 2)
    own = np.diff(start)[group[one]]
    other = start[group[one]] + rng.integers(0, 1 << 30, len(one)) % own
    return friends_database(num_people, one, other)


def random_friends(num_people: int, number: int, seed: int) -> Database:
    rng = np.random.default_rng(seed)
    one = np.repeat(np.arange(num_people), number)
    return friends_database(num_people, one, rng.integers(0, num_people, len(one)))


def friends_database(num_people: int, one: np.ndarray, other: np.ndarray) -> Database:
    rows = np.unique(np.stack((one, other), axis=1)[one != other], axis=0).astype(np.int32)
    none = empty_tuples(2)
    people = Domain("person", tuple(f"P{n}" for n in range(num_people)))
    relation = Relation("Friends", ("person", "person"), rows, none, none)
    return Database({"person": people}, {"Friends": relation}, name="people")


def small_world() -> Database:
    return random_friends(400, 5, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
