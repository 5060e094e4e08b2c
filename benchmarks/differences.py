"""Differences of all ground atoms, in classes: time, memory, numbers of atoms and classes.

    python benchmarks/differences.py [smokers | cora-er | yeast-protein | webkb ...]

`smokers` is generated: 30,000 people and 300,000 friendships, so 900 million Friends atoms, with
and without unit clauses (limit: 5 s and 1 GB together), and an incremental world on the same data.
The others are read from LAPIS_DATA. Each runs in its own process, after a small task that loads the
kernels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from protocol import DATA, has_data, peak_memory, run_in_process

import lapis
from counting import TASKS, CountingTask

PEOPLE, FRIENDSHIPS = 30_000, 300_000
NUM_FLIPS = 20_000


# Rules for each data set, and the predicates whose atoms are classified.
CLASSIFIED = {
    "cora-er": (
        (
            "SameBib(x,y) ^ SameBib(y,z) => SameBib(x,z)",
            "Author(x,a) ^ Author(y,b) ^ SameAuthor(a,b) => SameBib(x,y)",
            "Title(x,t) ^ Title(y,u) ^ SameBib(x,y) => SameTitle(t,u)",
        ),
        ("SameBib", "SameAuthor", "Author"),
    ),
    "yeast-protein": (
        (
            "interaction(p,q) ^ function(p,f) => function(q,f)",
            "complex(p,c) ^ complex(q,c) => interaction(p,q)",
        ),
        ("interaction", "function", "complex"),
    ),
    "webkb": (
        ("Has(+w,p) => Course(p)", "LinkTo(l,p,q) ^ Student(p) => Student(q)"),
        ("Course", "Student", "Has", "LinkTo"),
    ),
}

SMOKERS = """
Smokes(person)
Cancer(person)
Friends(person,person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
"""
UNIT_CLAUSES = "-1 Smokes(x)\n-2 Cancer(x)\n-5 Friends(x,y)\n"
TOY_DATA = "Smokes(Anna) Friends(Anna,Bob) Friends(Bob,Cid) Friends(Anna,Cid)"


def main(names: list[str]) -> int:
    done = [run_in_process(run_smokers)] if not names or "smokers" in names else []
    done += [
        has_data(DATA / task.name) and run_in_process(run_task, task)
        for task in TASKS
        if not names or task.name in names
    ]
    return int(not all(done))


def warm_up() -> None:
    """Load the kernels that every count uses."""
    from lapis.counting.differences.atom_classes import find_difference_classes

    problem = lapis.build_problem(lapis.parse(SMOKERS), lapis.Database.parse(TOY_DATA))
    for predicate in ("Friends", "Smokes"):
        find_difference_classes(problem, predicate)


def run_smokers() -> None:
    import numpy as np

    from lapis.data.database import Database, Domain, Relation

    warm_up()
    generator = np.random.default_rng(0)
    pairs = generator.choice(PEOPLE**2, FRIENDSHIPS, replace=False)
    rows = {
        "Friends": np.stack(np.divmod(np.sort(pairs), PEOPLE), axis=1).astype(np.int32),
        "Smokes": some_people(generator, 0.3),
        "Cancer": some_people(generator, 0.1),
    }
    relations = {
        name: Relation(name, ("person",) * table.shape[1], table, table[:0], table[:0])
        for name, table in rows.items()
    }
    people = Domain("person", tuple(f"P{number}" for number in range(PEOPLE)))
    database = Database({"person": people}, relations)
    for text in (SMOKERS, SMOKERS + UNIT_CLAUSES):
        problem = lapis.build_problem(lapis.parse(text), database)
        print(f"\nsmokers, {len(problem.model.rules)} rules")
        began = time.perf_counter()
        classify(problem, ("Friends", "Smokes", "Cancer"))
        report(began, "5 s, 1 GB")
    walk(problem, ("Smokes", "Friends"), generator)


def some_people(generator: object, share: float) -> object:
    import numpy as np

    assert isinstance(generator, np.random.Generator)
    return np.flatnonzero(generator.random(PEOPLE) < share).astype(np.int32)[:, None]


def run_task(task: CountingTask) -> None:
    warm_up()
    rules, predicates = CLASSIFIED[task.name]
    problem = lapis.build_problem(task.read_model(rules), task.read_data())
    print(f"\n{task.name}: " + "; ".join(rules))
    began = time.perf_counter()
    classify(problem, predicates)
    report(began, "no limit set")


def classify(problem: object, predicates: Sequence[str]) -> None:
    """Find the classes of each predicate's atoms and print one line for each."""
    from lapis.counting.differences.atom_classes import find_difference_classes
    from lapis.problem.problem import Problem

    assert isinstance(problem, Problem)
    for predicate in predicates:
        start = time.perf_counter()
        classes = find_difference_classes(problem, predicate)
        took = time.perf_counter() - start
        atoms = sum(classes.multiplicity.tolist())
        print(f"  {predicate:<12} {atoms:>16,} atoms  {len(classes):>9,} classes  {took:7.2f} s")


def walk(problem: object, predicates: Sequence[str], generator: object) -> None:
    """Time single flips in an incremental world, next to one count from scratch."""
    import numpy as np

    from lapis.counting.flipping_world import FlippingWorld
    from lapis.counting.totals import count_true_groundings
    from lapis.problem.problem import Problem

    assert isinstance(problem, Problem)
    assert isinstance(generator, np.random.Generator)
    relations = {name: evidence.true for name, evidence in problem.evidence.items()}
    start = time.perf_counter()
    count_true_groundings(problem.normal_form, problem.model, problem.domains, relations)
    recount = time.perf_counter() - start
    start = time.perf_counter()
    world = FlippingWorld(problem)
    print(f"  an incremental world is built in {time.perf_counter() - start:.2f} s")
    for predicate in predicates:
        arity = problem.model.predicates[predicate].arity
        atoms = generator.integers(0, PEOPLE, (NUM_FLIPS, arity)).tolist()
        world.delta(predicate, atoms[0])  # compiles the rules for this predicate
        for name, act in (("delta", world.delta), ("flip", world.flip)):
            start = time.perf_counter()
            for atom in atoms:
                act(predicate, atom)
            each = (time.perf_counter() - start) / NUM_FLIPS
            print(
                f"  {name}({predicate}) {each * 1e6:.0f} µs, "
                f"{recount / each:,.0f} times faster than counting again"
            )


def report(began: float, limit: str) -> None:
    print(
        f"  together {time.perf_counter() - began:.2f} s, {peak_memory():.2f} GB (limit: {limit})"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
