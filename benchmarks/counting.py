"""Exact totals on real data: time, memory, and the number of groundings.

    python benchmarks/counting.py [--engine duckdb postgresql spark] [DATASET ...]

Reads `cora-er`, `yeast-protein` and `webkb` from LAPIS_DATA. Each data set runs in its own process:
kernels are loaded by a small count, then reading the files, building the problem and counting are
timed together. With `--engine` the rules are counted on each engine too, loading included, and the
counts must be equal.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines import ENGINES, running
from protocol import DATA, has_data, peak_memory, run_in_process

import lapis

if TYPE_CHECKING:
    from lapis.counting.totals import FeatureCount
    from lapis.problem.problem import Problem


@dataclass(frozen=True)
class CountingTask:
    """The rules to count on a data set, and limits of time and memory."""

    name: str
    declarations: str
    data: str  # a glob of files that are read as one database
    rules: tuple[str, ...]
    seconds: float
    gigabytes: float

    def read_model(self, rules: Sequence[str]) -> lapis.Model:
        """Return the declarations of the data set with some rules."""
        declarations = (DATA / self.name / self.declarations).read_text()
        return lapis.parse("\n".join([declarations, *rules]))

    def read_data(self) -> lapis.Database:
        """Read all files as one database."""
        return lapis.Database.read(*sorted((DATA / self.name).glob(self.data)))


TASKS = (
    CountingTask(
        "cora-er",
        "cora.mln",
        "fold?.db",
        (
            "SameBib(x,y) ^ SameBib(y,z) => SameBib(x,z)",
            "Author(x,a) ^ Author(y,b) ^ SameAuthor(a,b) => SameBib(x,y)",
            "HasWordTitle(t,w) ^ HasWordTitle(u,w) => SameTitle(t,u)",
            "Title(x,t) ^ Title(y,u) ^ SameBib(x,y) => SameTitle(t,u)",
        ),
        10,
        2,
    ),
    CountingTask(
        "yeast-protein",
        "yeast.mln",
        "fold?.db",
        (
            "interaction(p,q) ^ function(p,f) => function(q,f)",
            "complex(p,c) ^ complex(q,c) => interaction(p,q)",
            "location(p,l) ^ interaction(p,q) ^ phenotype(q,h) => phenotype(p,h)",
        ),
        10,
        2,
    ),
    CountingTask(
        "webkb",
        "webkb.mln",
        "*.db.gz",
        (
            "Has(+w,p) => Course(p)",
            "LinkTo(l,p,q) ^ Student(p) => Student(q)",
            "LinkTo(l,p,q) ^ LinkTo(m,q,r) => LinkTo(k,p,r)",
        ),
        20,
        4,
    ),
)

TOY = "Smokes(person)\nFriends(person,person)\nFriends(x,y) ^ Friends(y,z) => Friends(x,z)\n"
TOY_DATA = "Smokes(Anna) Friends(Anna,Bob) Friends(Bob,Cid) Friends(Anna,Cid)"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="DATASET")
    parser.add_argument("--engine", nargs="+", choices=ENGINES[1:], default=[])
    options = parser.parse_args(arguments)
    done = [
        has_data(DATA / task.name) and run_in_process(run_task, task, options.engine)
        for task in TASKS
        if not options.names or task.name in options.names
    ]
    return int(not all(done))


def run_task(task: CountingTask, engines: list[str]) -> None:
    """Count all rules of a task and print one line for each."""
    from lapis.counting.totals import build_complete_world, count_feature

    lapis.count(lapis.parse(TOY), lapis.Database.parse(TOY_DATA))
    began = time.perf_counter()
    model = task.read_model(task.rules)
    database = task.read_data()
    problem = lapis.build_problem(model, database)
    relations = {name: evidence.true for name, evidence in problem.evidence.items()}
    read = time.perf_counter()
    print(f"\n{task.name}: reading {read - began:.2f} s")
    world = build_complete_world(problem.normal_form, model, problem.domains, relations)
    counts = []
    for feature in problem.normal_form.features:
        start = time.perf_counter()
        counted = count_feature(feature, world)
        took = time.perf_counter() - start
        counts.append(counted)
        weights = len(counted.true)
        true, groundings = sum(counted.true), counted.groundings * weights
        print(
            f"  {model.rules[feature.rule].text}"
            + (f"  ({weights} weights)" if weights > 1 else "")
        )
        print(f"    {true:,} true of {groundings:,} groundings, {took * 1000:.1f} ms")
    spent = time.perf_counter() - began
    memory = peak_memory()
    print(
        f"  together {spent:.2f} s of {task.seconds:g} s, {memory:.2f} GB of {task.gigabytes:g} GB"
    )
    for engine in engines:
        count_on(engine, problem, counts)


def count_on(engine: str, problem: Problem, expected: list[FeatureCount]) -> None:
    """Count all rules on an engine; exit with a message if a count differs."""
    from lapis.counting.rule_counts import build_closed_world
    from lapis.counting.totals import count_feature
    from lapis.stores import open_store
    from lapis.stores.load_to_store import place_problem

    with running(engine) as place, open_store(place) as store:
        start = time.perf_counter()
        world = build_closed_world(place_problem(problem, store))
        for feature, known in zip(problem.normal_form.features, expected, strict=True):
            if count_feature(feature, world) != known:
                sys.exit(f"  {engine}: {problem.model.rules[feature.rule].text} is counted wrong")
        took = time.perf_counter() - start
    print(f"  {engine}: the same counts, {took:.2f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
