"""Compile kernels ahead of their use: `lapis warm` and `lapis.warm()`.

Numba compiles a kernel at its first call and caches it for later runs (`runtime/kernels.py`). A job
is a function that calls the kernels of a command on a small model. Jobs run in parallel processes;
two processes that need the same kernel at the same time both compile it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lapis.runtime.processes import as_completed, num_cores, worker_pool
from lapis.runtime.progress import Progress, Report

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.network.network import Network

QUERY = ("Smokes", "Cancer")


def warm(jobs: int | None = None, progress: Report | None = None) -> None:
    """Compile the kernels of all common commands.

    Parameters
    ----------
    jobs
        Number of processes; by default one for each core.
    progress
        Called with a `Progress` event when a job ends; by default a line on the terminal or
        in the notebook shows them.

    Raises
    ------
    concurrent.futures.process.BrokenProcessPool
        If a process was killed, for example for lack of memory.
    """
    from lapis.runtime.kernels import clear_line, show_line

    report, began = progress or show_line, time.monotonic()
    waiting = list(JOBS)
    with worker_pool(min(jobs or num_cores(), len(JOBS))) as pool:
        running = {pool.submit(run_job, name): name for name in JOBS}
        report(Progress("compiling, job", 0, len(JOBS), text=", ".join(waiting)))
        for done, finished in enumerate(as_completed(running), 1):
            finished.result()
            waiting.remove(running[finished])
            seconds, names = time.monotonic() - began, ", ".join(waiting)
            report(Progress("compiling, job", done, len(JOBS), seconds, text=names))
    if progress is None:
        clear_line()


def run_job(name: str) -> None:
    JOBS[name]()


def circle_of_friends(
    num_people: int = 12, steps: Sequence[int] = (1, 2, 3)
) -> tuple[Model, Database]:
    """Build the smokers model on a circle: each person is a friend of those some steps ahead."""
    from lapis.data.database import Database
    from lapis.examples import example_path
    from lapis.language import read_model

    pairs = ((i, (i + step) % num_people) for i in range(num_people) for step in steps)
    facts = [f"Friends(P{one},P{other})" for one, other in pairs]
    data = Database.parse(" ".join([*facts, "Smokes(P0)", "Cancer(P1)"]))
    return read_model(example_path("smokers.mln")), data


def small_network() -> Network:
    from lapis.grounding.bottom_up import ground
    from lapis.problem.problem import build_problem

    return ground(build_problem(*circle_of_friends(), query=QUERY))


def compile_samplers(*methods: str) -> None:
    from lapis.inference.sampling.chains import run_chains
    from lapis.methods import find_method

    for method in methods:
        run_chains(small_network(), find_method("infer", method).make(), max_samples=400)


def compile_sampling() -> None:
    """Compile the kernels that `auto` calls on networks too wide for exact inference."""
    from lapis.api import infer

    infer(*circle_of_friends(80, (1, 7, 19)), QUERY, max_samples=4_000)


def compile_exact() -> None:
    from lapis.api import infer

    for method in ("exact", "auto", "bp"):
        infer(*circle_of_friends(), QUERY, method=method)


def compile_search() -> None:
    from lapis.inference.map.solver import most_likely_world
    from lapis.inference.marginals import InferenceOptions

    most_likely_world(small_network(), "maxwalksat", InferenceOptions(time_limit=1.0))


def compile_map() -> None:
    from lapis.api import map

    map(*circle_of_friends(), QUERY)
    map(*circle_of_friends(80, (1, 7, 19)), QUERY)


def compile_learning() -> None:
    from lapis.api import learn

    for objective in ("pseudo", "conditional"):
        learn(*circle_of_friends(), QUERY, objective=objective, max_iterations=2)


def compile_counts() -> None:
    """Compile the kernels of chains that work on counts without grounding."""
    from lapis.api import infer

    infer(*circle_of_friends(), QUERY, method="count-gibbs", max_samples=40)


def compile_structure() -> None:
    from lapis.api import learn_structure
    from lapis.language.resolve import parse_model

    declared = parse_model("Friends(person, person)\nSmokes(person)\nCancer(person)")
    learn_structure(declared, circle_of_friends()[1], max_literals=2, jobs=1)


def compile_circuits() -> None:
    import numpy as np

    from lapis import circuits

    rows = np.random.default_rng(0).integers(0, 2, (200, 5))
    rows[:, 1] |= rows[:, 0]
    circuit = circuits.learn(rows).circuit
    assert circuit is not None  # the default edge cost gives a circuit
    circuits.query_rows(circuit, rows[:2])
    circuits.sample(circuit, 3)
    circuits.score(circuit, rows)


def compile_compilation() -> None:
    """Compile the kernels that make circuits of models."""
    from lapis import circuits

    circuits.compile(*circle_of_friends(), QUERY)
    circuits.marginals(*circle_of_friends(), QUERY)
    circuits.approximate(*circle_of_friends(), QUERY)


def compile_bounds() -> None:
    from lapis.api import infer

    infer(*circle_of_friends(80, (1, 7, 19)), QUERY, max_samples=400, bounds=True)


def compile_fields() -> None:
    from lapis import fields

    model, data = circle_of_friends()
    field = fields.from_model(model)
    fields.learn(field, data, max_iterations=2)
    fields.infer(field, data, QUERY, max_samples=40)


JOBS: Mapping[str, Callable[[], None]] = {
    "sampling": compile_sampling,
    "exact": compile_exact,
    "other samplers": lambda: compile_samplers("mcsat", "tempering"),
    "map": compile_map,
    "learning": compile_learning,
    "structure": compile_structure,
    "counts": compile_counts,
    "search": compile_search,
    "circuits": compile_circuits,
    "compilation": compile_compilation,
    "bounds": compile_bounds,
    "fields": compile_fields,
}
