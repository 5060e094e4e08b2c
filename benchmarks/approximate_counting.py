"""CD, VP and PLL without grounding: Tables 2, 3 and 4, Figures 2 and 3 of the paper.

The paper is Sarkhel, Venugopal, Pham, Singla and Gogate, "Scalable training of Markov logic
networks using approximate counting", AAAI 2016.

    python benchmarks/approximate_counting.py [--data smoker,webkb,protein,er] [--quick]
        [--methods cd,vp,vp-walksat,pll] [--counts exact,1,2,3] [--differences subtracted]
        [--part 0.25] [--figures]
        [--processes 2] [--output benchmarks/out]

One fold is held out at a time. The query predicates (smoker: Smokes, Cancer; webkb: PageClass;
protein: function; er: the four Same predicates) are learned and predicted given all others. CLL is
the mean of log P(value | evidence) over their ground atoms. The paper does not name its query
predicates, so its CLL shows the order of magnitude only. Its limits were 96 hours and 8 GB.

P is estimated by chains with exact counts (`approximate_counting_scoring.py`). The column gap is
the difference between two chains from different starts. The number of iterations of CD and VP, and
the prior width of rules that couple an atom to many others, are chosen on the training folds
(`approximate_counting_choice.py`). Each method runs over all folds in its own processes, whose peak
memory is shown. Seconds are those of learning with the chosen settings.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from approximate_counting_choice import choose_setting, list_trials, run_trial
from approximate_counting_data import DATA_SETS, HERE, DataSet
from approximate_counting_learning import (
    METHODS,
    OPTIMIZER,
    WIDTH,
    Job,
    Setting,
    build_learner,
    read_folds,
)
from approximate_counting_scoring import estimate_cll, frequency_cll

import lapis
from lapis.learning.reliability import likelihood_bound, measure_errors
from lapis.runtime.progress import Progress


@dataclass(frozen=True)
class Snapshot:
    seconds: float
    cll: float
    change: float  # of the weights since the snapshot before, the largest


@dataclass(frozen=True)
class FoldResult:
    cll: float
    gap: float  # between the CLLs of two chains from different starts
    seconds: float
    iterations: int
    width: float  # of the dense rules' prior
    bound: float  # of Lemma 1's kind, from the errors in the data
    is_exact: bool  # the counts that the method used
    frequency_cll: float  # of predicting each query predicate's frequency in the training data
    curve: tuple[Snapshot, ...]
    memory: float  # in MB, the peak of the process


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default=",".join(DATA_SETS), help="'' for figures alone")
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--counts", default="exact,1,2,3")
    options.add_argument("--differences", default="substituted", help="or subtracted: equation 5")
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--steps", type=int, help="by default, two sweeps, twenty of few atoms")
    options.add_argument("--iterations", type=int, default=24, help="at most")
    options.add_argument("--warm", type=float, default=64.0, help="most sweeps to score")
    options.add_argument("--part", type=float, default=1.0, help="of what is learned from")
    options.add_argument("--quick", action="store_true", help="a third of the data, two folds")
    options.add_argument("--figures", action="store_true")
    options.add_argument("--output", type=Path, default=HERE / "out")
    options.add_argument("--processes", type=int, default=1, help="that learn side by side")
    given = options.parse_args()
    job = Job("", "", "", given.steps, given.iterations, given.warm, given.folds, given.processes)
    job = replace(job, part=given.part, differences=given.differences)
    if given.quick:
        job = replace(job, iterations=15, folds=2, fraction=0.3)
    optimizers = ", ".join(f"{name} for {method}" for method, name in OPTIMIZER.items())
    print(
        f"{job.steps or 'two sweeps of'} steps an evaluation, "
        f"at most {job.iterations} iterations (PLL: 200) of {optimizers}; "
        f"prior of width {WIDTH:g}; at most {job.warm_sweeps:g} sweeps "
        f"until two chains agree; "
        f"{job.folds} folds at most; {job.fraction:.0%} of the constants, "
        f"{job.part:.0%} of those to learn from"
    )
    chosen = [DATA_SETS[name] for name in given.data.split(",") if name]
    if chosen:
        print_sizes(chosen, job.fraction)
    for data in chosen:
        print_results(data, job, given.methods.split(","), given.counts.split(","))
    if given.figures:
        from approximate_counting_figures import draw_figures

        draw_figures(job, given.output)


def print_sizes(chosen: Sequence[DataSet], fraction: float) -> None:
    """Print Table 2, with all folds as one world."""
    print(f"\n{'':8} {'ground clauses':>26} {'atoms':>26} {'parameters':>16} {'true atoms':>11}")
    for data in chosen:
        model = data.model()
        problem = lapis.build_problem(model, lapis.Database.from_frames(merge(data, fraction)))
        clauses = sum(problem.num_groundings(rule.variables) for rule in model.rules)
        sizes = [
            np.prod([len(problem.domains[kind]) for kind in each.types], dtype=object)
            for each in model.predicates.values()
        ]
        true = sum(len(known.true) for known in problem.evidence.values())
        paper = data.paper_sizes
        print(
            f"{data.name:8} {clauses:15,} (paper {paper[0]:>4}) {sum(sizes):15,} (paper "
            f"{paper[1]:>4}) {len(problem.weight_table):5} (paper {paper[2]:>3}) {true:11,}"
        )


def merge(data: DataSet, fraction: float) -> dict[str, object]:
    import pandas as pd

    worlds, _ = pickle.loads(prepare(data.name, fraction, 1.0))
    parts = [world.to_frames() for world in worlds]
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: pd.concat([part[name] for part in parts if name in part]).drop_duplicates()
        for name in names
    }


def print_results(data: DataSet, job: Job, methods: Sequence[str], counts: Sequence[str]) -> None:
    """Print Tables 3 and 4 for one data set."""
    print(
        f"\n{data.name}: query {', '.join(data.query)}\n{'':4} {'counts':>7} {'CLL':>18} "
        f"{'gap':>7} {'seconds a fold':>15} {'steps':>6} {'peak MB':>8} {'bound':>9}  paper"
    )
    for method in methods:
        for each in counts:
            found = run(replace(job, data=data.name, method=method, counts=each))
            cll = np.array([fold.cll for fold in found])
            paper = data.paper_cll[method.removesuffix("-walksat")] if each == "exact" else ""
            if method == "cd" and each in data.paper_bounds:
                paper = "{} in {} s".format(*data.paper_bounds[each])
            spread = cll.std(ddof=1) if len(cll) > 1 else 0.0
            print(
                f"{method:4} {name_counts(each, found):>7} "
                f"{cll.mean():9.4f} ± {spread:6.4f} {max(fold.gap for fold in found):7.4f} "
                f"{np.mean([fold.seconds for fold in found]):15.1f} "
                f"{np.mean([fold.iterations for fold in found]):6.0f} "
                f"{max(fold.memory for fold in found):8.0f} "
                f"{np.mean([fold.bound for fold in found]):9.2g}  {paper}",
                flush=True,
            )
            for number, fold in enumerate(found, 1):
                width = f", width {fold.width:g}" if data.dense else ""
                print(
                    f"     fold {number}: {fold.cll:.4f}, frequencies {fold.frequency_cll:.4f}, "
                    f"gap {fold.gap:.4f}, {fold.iterations} iterations{width}",
                    flush=True,
                )
    base = np.mean([fold.frequency_cll for fold in found])
    print(f"predicting the frequency of each query predicate scores {base:.4f}")


def name_counts(counts: str, found: Sequence[FoldResult]) -> str:
    """Name the counts; a star marks an i-bound that is large enough for exact counts."""
    if counts == "exact":
        return counts
    return f"i = {counts}{'*' if all(fold.is_exact for fold in found) else ' '}"


def run(job: Job) -> list[FoldResult]:
    """Return the results of a job's folds, each computed in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "worlds"
        file.write_bytes(prepare(job.data, job.fraction, job.part))
        job = replace(job, worlds=str(file))
        num_folds = len(pickle.loads(file.read_bytes())[0])
        with ProcessPoolExecutor(job.processes, get_context("spawn")) as pool:
            trials = pool.map(partial(run_trial, job), list_trials(job, num_folds))
            found = [prediction for predictions in trials for prediction in predictions]
            folds = range(min(job.folds, num_folds))
            settings = [choose_setting(job, fold, found) for fold in folds]
            return list(pool.map(partial(learn_fold, job), folds, settings))


@cache
def prepare(name: str, fraction: float, part: float) -> bytes:
    """Read the databases and their training parts once, outside the measured processes."""
    worlds = DATA_SETS[name].worlds(fraction)
    return pickle.dumps((worlds, worlds if part == 1.0 else DATA_SETS[name].worlds(part)))


def peak_memory() -> float:
    """Return the peak memory in MB from /proc: `getrusage` starts at the peak of the parent."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def learn_fold(job: Job, fold: int, setting: Setting) -> FoldResult:
    """Learn on all folds except one, and predict that one."""
    left_out, examples = read_folds(job)
    training, test = [*examples[:fold], *examples[fold + 1 :]], left_out[fold]
    started = time.perf_counter()
    learner = build_learner(job, training, [test])

    def score(weights: np.ndarray) -> tuple[float, float]:
        return estimate_cll(test, learner.weights_of_other(0, weights), job.warm_sweeps)

    if job.snapshots:  # the course of learning is wanted, all of it
        setting = replace(setting, iterations=job.iterations)
    kept: list[Progress] = []
    course = learner.ascend(setting, kept.append if job.snapshots else None)
    seconds = time.perf_counter() - started
    name = learner.objective.name
    is_exact = "ijgp" not in name or "exact" in name
    errors = np.zeros(len(learner.parameters))
    if job.ijgp is not None and not is_exact:
        errors = measure_errors(training, learner.parameters, job.ijgp)
    return FoldResult(
        *score(course.weights),
        seconds,
        course.iterations,
        setting.width,
        likelihood_bound(course.weights, errors).value,
        is_exact,
        frequency_cll(training, test),
        take_snapshots(kept, job.snapshots, score),
        peak_memory(),
    )


def take_snapshots(
    steps: Sequence[Progress], number: int, score: Callable[[np.ndarray], tuple[float, float]]
) -> tuple[Snapshot, ...]:
    """Select some iterations, evenly spread over the time of learning."""
    if not steps or not number:
        return ()
    wanted = np.linspace(0.0, steps[-1].seconds, number)
    chosen = np.unique(np.searchsorted([step.seconds for step in steps], wanted))
    found = []
    before = np.zeros_like(steps[0].weights)
    for step in (steps[at] for at in chosen.tolist()):
        change = float(np.abs(step.weights - before).max(initial=0.0))
        found.append(Snapshot(step.seconds, score(step.weights)[0], change))
        before = step.weights
    return tuple(found)


if __name__ == "__main__":
    main()
