"""IJGP(i) and exact counting by formula: time, estimate, relative error; reuse of messages.

The setting is that of Sarkhel, Venugopal, Pham, Singla and Gogate, "Scalable training of Markov
logic networks using approximate counting", AAAI 2016, whose Table 4 varies i: Cora entity
resolution, MIPS yeast and WebKB, all folds as one world. Data are read from LAPIS_DATA.

    python benchmarks/ijgp.py [--ibounds 1,2,3] [--flips 20]

`false` is the number of false groundings, which IJGP estimates. Its error is relative to the false
and to the true groundings (the count that learning uses).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

import numpy as np
from protocol import DATA, has_data

from counting import TASKS, CountingTask
from lapis.counting.ijgp import IjgpCounter, IjgpSettings, count_ijgp
from lapis.counting.totals import count_true_groundings
from lapis.data import Domain, bind
from lapis.errors import TooLarge
from lapis.language.model import Model
from lapis.logic.clauses import NormalForm
from lapis.logic.normalize import normalize

# what every counting function takes: clauses, model, domains, true tuples
Problem = tuple[NormalForm, Model, Mapping[str, Domain], Mapping[str, np.ndarray]]


COLUMNS = (
    f"{'formula':68} {'i':>2} {'seconds':>8} {'false, estimate':>16} {'false, exact':>16} "
    f"{'error':>8} {'of true':>8} {'rounds':>6} {'exact s':>8}  {'flip, reused':>12} {'anew':>9}"
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ibounds", default="1,2,3")
    options.add_argument("--flips", type=int, default=20)
    arguments = options.parse_args()
    ibounds = [int(each) for each in arguments.ibounds.split(",")]
    print(COLUMNS)
    for task in TASKS:
        if has_data(DATA / task.name):
            run_task(task, ibounds, arguments.flips)


def run_task(task: CountingTask, ibounds: list[int], num_flips: int) -> None:
    model = task.read_model([f"1.0 {rule}" for rule in task.rules])
    database = bind(task.read_data(), model)
    relations = {name: relation.true for name, relation in database.relations.items()}
    normal_form = normalize(model)
    for formula, feature in zip(task.rules, normal_form.features, strict=True):
        alone = NormalForm((feature,), normal_form.definitions)
        run_formula((alone, model, database.domains, relations), formula, ibounds, num_flips)


def run_formula(problem: Problem, formula: str, ibounds: list[int], num_flips: int) -> None:
    count_true_groundings(*problem)  # compiles the kernels
    started = time.perf_counter()
    exact, groundings = count_true_groundings(*problem)
    exact_seconds = time.perf_counter() - started
    false = sum(groundings) - sum(exact)
    count_ijgp(*problem, IjgpSettings(ibounds[0]))
    for ibound in ibounds:
        started = time.perf_counter()
        try:
            estimate = count_ijgp(*problem, IjgpSettings(ibound))
        except TooLarge as error:
            print(f"{formula:68} {ibound:2d} {error.message}")
            continue
        seconds = time.perf_counter() - started
        estimated = sum(clause.false for clause in estimate.clauses)
        difference = abs(estimated - false)
        reused, anew = time_flips(problem, ibound, num_flips, formula)
        print(
            f"{formula:68} {ibound:2d} {seconds:8.3f} {estimated:16,.0f} {false:16,d} "
            f"{difference / false if false else difference:8.1e} "
            f"{difference / sum(exact):8.1e} "
            f"{max(clause.iterations for clause in estimate.clauses):6.1f} {exact_seconds:8.3f}  "
            f"{1000 * reused:9.2f} ms {1000 * anew:6.1f} ms"
            f"{'  exact' if estimate.exact else ''}",
            flush=True,
        )


def time_flips(problem: Problem, ibound: int, num_flips: int, formula: str) -> tuple[float, float]:
    """Return the seconds of a flip of a random atom with kept messages, and of a new count."""
    normal_form, model, domains, relations = problem
    rng = np.random.default_rng(1)
    predicate = formula.split("(")[0]
    sizes = [len(domains[each]) for each in model.predicates[predicate].types]
    counter = IjgpCounter(normal_form, model, domains, IjgpSettings(ibound))
    counter.count(relations)
    true = relations[predicate]
    flips = [
        (true[rng.integers(len(true))].tolist(), False)
        if number % 2
        else (rng.integers(sizes).tolist(), True)
        for number in range(num_flips)
    ]
    started = time.perf_counter()
    for row, value in flips:
        counter.update(predicate, row, value)
    reused = (time.perf_counter() - started) / num_flips
    started = time.perf_counter()
    counter.count(relations)
    return reused, time.perf_counter() - started


if __name__ == "__main__":
    main()
