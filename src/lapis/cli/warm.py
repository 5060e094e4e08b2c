"""Kernels compiled ahead of their use.

Numba compiles a kernel when it is first called, which takes some twenty seconds for all that a
first `lapis infer` calls, and keeps it for later runs. `lapis warm` runs small jobs that call
them, as many at a time as there are cores. A first `infer` starts one of them itself: while its
own process interprets what grounds and eliminates (`compiled.py`), it compiles what cannot be
interpreted, the samplers that pilots choose from, which are one kernel: at once where there are
many facts, else at the first kernel that it would have to compile. While they are waited for, the
process that waits compiles what comes after them.

A job is a process of its own: `python -m lapis.cli.warm JOB`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis import compiled
from lapis.compiled import Kernel, watchers
from lapis.cores import num_cores
from lapis.progress import Progress, Report, compilations

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.network.network import Network

NUM_PEOPLE = 12  # each a friend of the next three: no tree, and too much to enumerate
QUERY = ("Smokes", "Cancer")
POLL_SECONDS = 0.1


def small_example() -> tuple[Model, Database]:
    from lapis.data.database import Database
    from lapis.examples import example_path
    from lapis.language import read_model

    pairs = ((i, (i + step) % NUM_PEOPLE) for i in range(NUM_PEOPLE) for step in (1, 2, 3))
    facts = [f"Friends(P{one},P{other})" for one, other in pairs]
    data = Database.parse(" ".join([*facts, "Smokes(P0)", "Cancer(P1)"]))
    return read_model(example_path("smokers.mln")), data


def small_network() -> Network:
    from lapis.grounding.bottom_up import ground
    from lapis.problem.problem import build_problem

    return ground(build_problem(*small_example(), query=QUERY))


def compile_samplers(*methods: str) -> None:
    """The kernels of chains; those of elimination are compiled by whoever samples."""
    from lapis.inference.sampling.chains import run_chains
    from lapis.methods import find_method

    for method in methods:
        run_chains(small_network(), find_method("infer", method).make(), max_samples=400)


def compile_steps(method: str) -> None:
    """The kernels of a sampler's steps alone."""
    import numpy as np

    from lapis.inference.random_numbers import random_states
    from lapis.inference.sampling.kernels.tally import new_tallies
    from lapis.methods import find_method

    network, sampler = small_network(), find_method("infer", method).make()
    plan, (rng,) = sampler.prepare(network), random_states(0, 1)
    state = sampler.init(plan, sampler.start(plan, 0, rng), rng)
    counts = sampler.counts(state)
    sampler.step(
        plan, state, new_tallies(network.num_base_atoms, counts, np.empty(0, np.int64), 0), 1
    )


def compile_answers() -> None:
    """The kernels that answer eliminated atoms, and no others."""
    import numpy as np

    from lapis.inference.reduction import tree_answers as answers
    from lapis.inference.reduction.eliminate import reduce
    from lapis.inference.reduction.sample_bits import pack_samples

    reduction = reduce(small_network())
    pieces = pack_samples(np.zeros((1, reduction.core.num_atoms), bool))
    desk = answers.new_desk(reduction, pieces)
    with always_compiling([answers.__name__]):
        for first, last in answers.tree_runs(reduction.tree):
            answers.answer_trees(reduction, pieces, first, last, desk)
        for clauses in answers.clause_runs(reduction.kept_clause):
            answers.answer_clauses(reduction, pieces, clauses)


def compile_inference() -> None:
    from lapis.api import infer

    for method in ("exact", "auto", "bp"):
        infer(*small_example(), QUERY, method=method)


def compile_search() -> None:
    from lapis.inference.map.solver import most_likely_world
    from lapis.inference.marginals import InferenceOptions

    most_likely_world(small_network(), "maxwalksat", InferenceOptions(time_limit=1.0))


def compile_map() -> None:
    from lapis.api import map

    map(*small_example(), QUERY)


def compile_learning() -> None:
    from lapis.api import learn

    for objective in ("pseudo", "conditional"):
        learn(*small_example(), QUERY, objective=objective, max_iterations=2)


def compile_counts() -> None:
    """The kernels of chains that never ground."""
    from lapis.api import infer
    from lapis.counting.kernels import flips, indexed_relations

    with always_compiling([flips.__name__, indexed_relations.__name__]):
        infer(*small_example(), QUERY, method="count-gibbs", max_samples=40)


JOBS: Mapping[str, Callable[[], None]] = {
    "samplers": lambda: compile_steps("cluster"),
    "inference": compile_inference,
    "search": compile_search,
    "map": compile_map,
    "others": lambda: compile_samplers("mcsat", "tempering", "forest"),
    "learning": compile_learning,
    "counts": compile_counts,
}


def start(*jobs: str) -> subprocess.Popen[Any]:
    """A process that compiles the kernels of jobs, one after the other."""
    return subprocess.Popen(
        [sys.executable, "-m", "lapis.cli.warm", *jobs],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


BESIDE = ("samplers",)  # jobs that a first `infer` starts
LATER = "inference"  # what it interpreted is compiled beside the jobs after it, as far as they last
COMPILED_BESIDE = ("lapis.inference.sampling.kernels.cluster",)


MANY_FACTS = 4_000  # beyond, a model is hardly answered without kernels
KERNELS = Path(__file__).parents[1] / "inference" / "sampling" / "kernels"


def seem_compiled() -> bool:
    """Whether samplers were compiled before, by the names of files: numba is not loaded yet.

    Where kernels are neither where the user says nor beside the source, nothing is seen of them.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named is None and not os.access(KERNELS, os.W_OK):
        return True
    folder = Path(named) if named else KERNELS / "__pycache__"
    return any(folder.rglob("cluster.run_clusters-*.nbc"))


class Beside:
    """Other processes that compile what this one will need, and its patience with them."""

    def __init__(self, at_once: bool = False) -> None:
        self.running: list[subprocess.Popen[Any]] | None = None
        self.began = time.monotonic()
        if at_once and num_cores() > 1:
            self.running = [start(job) for job in BESIDE]

    def watch(self, kernel: Kernel, is_called: bool) -> None:
        """Start the others at the first kernel that was never compiled; wait for what they do."""
        from lapis.compiler import is_kept

        if is_kept(kernel):
            return
        if self.running is None:
            from lapis.inference.sampling.kernels.cluster import run_clusters

            self.running, others = [], () if is_kept(run_clusters) else BESIDE
            if num_cores() > 1:
                self.running = [start(job) for job in others] or [start(LATER)]
        if is_called and kernel.py_func.__module__ in COMPILED_BESIDE:
            if any(process.poll() is None for process in self.running):
                compile_answers()
            while any(process.poll() is None for process in self.running) and not is_kept(kernel):
                self.report(kernel)
                time.sleep(POLL_SECONDS / 2)

    def report(self, kernel: Kernel) -> None:
        assert self.running is not None
        done = sum(process.poll() is not None for process in self.running)
        seconds, name = time.monotonic() - self.began, kernel.py_func.__name__
        for tell in tuple(compilations):
            tell(Progress("compiling for the first use", done, len(BESIDE), seconds, {}, name))

    def end(self) -> None:
        for process in self.running or ():
            process.kill()
            process.communicate()


class AllModules:
    """Holds every name."""

    def __contains__(self, name: object) -> bool:
        return True


@contextmanager
def always_compiling(modules: Container[str]) -> Iterator[None]:
    """Compile the kernels of modules however little there is to do."""
    before, compiled.always_compiled = compiled.always_compiled, modules
    try:
        yield
    finally:
        compiled.always_compiled = before


@contextmanager
def samplers_beside(worlds: Iterable[Database]) -> Iterator[None]:
    """Compile samplers in another process if they never were."""
    many = sum(r.num_stated for world in worlds for r in world.relations.values()) >= MANY_FACTS
    beside = Beside(at_once=many and not seem_compiled())
    watchers.append(beside.watch)
    try:
        yield
    finally:
        watchers.remove(beside.watch)
        beside.end()


def compile_all(report: Report | None = None) -> None:
    """Run all jobs, as many at a time as there are cores; raises what a job says if one fails."""
    began = time.monotonic()
    waiting, running, done = list(JOBS), dict[str, subprocess.Popen[Any]](), 0
    try:
        while waiting or running:
            while waiting and len(running) < num_cores():
                job = waiting.pop(0)
                running[job] = start(job)
            ended = [job for job, process in running.items() if process.poll() is not None]
            for job in ended:
                process = running.pop(job)
                _, words = process.communicate()
                if process.returncode:
                    raise RuntimeError(f"compiling {job} failed:\n{words.decode()}")
                done += 1
            if report is not None:
                seconds, names = time.monotonic() - began, ", ".join(running)
                report(Progress("compiling, job", done, len(JOBS), seconds, {}, names))
            time.sleep(POLL_SECONDS)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def compile_job(job: str) -> None:
    """Compile the kernels of a job; what is interpreted in those that somebody waits for is not."""
    if job == LATER and hasattr(os, "nice"):
        os.nice(10)
    with always_compiling(() if job in BESIDE else AllModules()):
        JOBS[job]()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        compile_job(name)
