"""CD, VP and PLL without grounding: Tables 2, 3 and 4, Figures 2 and 3 of Sarkhel et al. 2016.

    python benchmarks/approximate_counting.py [--data smoker,webkb,protein,er] [--quick]
        [--methods cd,vp,pll] [--counts exact,1,2,3] [--part 0.25] [--figures]
        [--output benchmarks/out]

One fold is left out at a time. The query predicates (smoker: Smokes, Cancer; webkb: PageClass;
protein: function; er: the four Same predicates) are learned given all others, and predicted given
all others: CLL is the mean over their ground atoms of log P(value | evidence). The paper does not
say which predicates it asks for, so that its CLL is shown beside ours for the order of magnitude
only; its time and memory limits were 96 hours and 8 GB.

P comes from Gibbs sampling by exact counts, each visit to an atom counting with its conditional
probability, in two chains. One starts from the evidence alone: every query atom has the value that
is better with all others false; in the other every query atom is a coin. They warm up until the
CLLs of the two are within AGREED of each other, twice as long each time, or for as many sweeps as
allowed; what is left between them stands in the table as the gap, and a CLL with a large one is
not to be trusted. All query atoms are scored: a sample of 600 was wrong by ±.01, as much as
methods differ by. Each method, with its counts, runs over all folds in a process of its own, whose
peak memory is shown.

How long CD and VP climb is chosen on the folds that are learned from: the first of them is
predicted from the others after every CHECKED iterations. Rules that tie many atoms to each other
(transitivity; hundreds of pairs of citations that vote on one pair of authors) grow as long as
data break them nowhere, until single flips do not leave a world any more: on er CD predicts better
from iteration to iteration up to the fifteenth or so, and then worse than frequencies do.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from approximate_counting_data import DATA_SETS, HERE, DataSet

import lapis
from lapis.counting.differences.atom_differences import open_differences
from lapis.counting.differences.sparse_vectors import split_column
from lapis.data.tuples import contains
from lapis.inference.sampling.counted_world import ExactWorld
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.count_based import count_objective
from lapis.learning.objectives.count_based_sites import Sites, asked_sites
from lapis.learning.objectives.count_bound import likelihood_bound, measure_errors
from lapis.learning.objectives.count_pseudo import count_pseudo_objective
from lapis.learning.objectives.posterior import Posterior, with_prior
from lapis.learning.objectives.priors import Prior
from lapis.learning.objectives.pseudo import pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.optimisation.climb import climb, make_optimizer
from lapis.optimisation.logbook import Course
from lapis.optimisation.objective import Objective
from lapis.progress import Progress, Report

METHODS = ("cd", "vp", "pll")
OPTIMIZER = {"cd": "dn", "vp": "dn", "pll": "pscg"}  # the paper takes diagonal Newton for all
WIDTH = 2.0  # of the Gaussian prior
# For rules that tie an atom to many others: what they may do to one of them is many times their
# weight. Of these widths one is chosen as iterations are.
DENSE_WIDTHS = (0.1, 0.01, 0.001)
CHECKED = 3  # iterations from one check to the next
# Sweeps that are averaged, at least and at most: log P of a noisy mean is too low. Functions that
# imply each other hardly move in 16: weights of Protein score -.4354 so, and -.4296 with 256.
SEEN_SWEEPS = 16, 256
SEEN_STEPS = 2_000_000  # as many sweeps as these make
LEAST_WARM = 5000  # steps before scoring: a sweep of a hundred atoms mixes nothing
# And so many sweeps: two chains may agree for twenty before they fall into another world together.
WARM_SWEEPS = 32
AGREED = 0.005  # of CLL: two chains that are no further apart have warmed up


@dataclass(frozen=True)
class Job:
    """A method with its counts, on all folds of a data set."""

    data: str
    method: str
    counts: str  # exact, or the i-bound
    steps: int | None  # of the chains, at each evaluation; None: in proportion to the atoms
    iterations: int
    warm_sweeps: float  # of the chains that predict, at most, or as many times LEAST_WARM steps
    folds: int
    worlds: str  # a file that holds the databases
    fraction: float = 1.0
    part: float = 1.0  # of the constants that is learned from, where folds left out stay whole
    snapshots: int = 0  # of the weights on the way, to be scored


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
    reason: str
    bound: float  # of Lemma 1's kind, from the errors in the data
    is_exact: bool  # the counts that the method used
    frequency_cll: float  # of predicting each query predicate's frequency in the training data
    curve: tuple[Snapshot, ...]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default=",".join(DATA_SETS), help="'' for figures alone")
    options.add_argument("--methods", default=",".join(METHODS))
    options.add_argument("--counts", default="exact,1,2,3")
    options.add_argument("--folds", type=int, default=5)
    options.add_argument("--steps", type=int, help="by default, two sweeps, twenty of few atoms")
    options.add_argument("--iterations", type=int, default=25)
    options.add_argument("--warm", type=float, default=64.0, help="most sweeps to score")
    options.add_argument("--part", type=float, default=1.0, help="of what is learned from")
    options.add_argument("--quick", action="store_true", help="a third of the data, two folds")
    options.add_argument("--figures", action="store_true")
    options.add_argument("--output", type=Path, default=HERE / "out")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        work(Job(**json.loads(given.worker)))
        return
    job = Job("", "", "", given.steps, given.iterations, given.warm, given.folds, "")
    job = replace(job, part=given.part)
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
    """Table 2, with all folds as one world."""
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
    """Tables 3 and 4 for one data set."""
    print(
        f"\n{data.name}: query {', '.join(data.query)}\n{'':4} {'counts':>7} {'CLL':>18} "
        f"{'gap':>7} {'seconds a fold':>15} {'steps':>6} {'peak MB':>8} {'bound':>9}  paper"
    )
    for method in methods:
        for each in counts:
            found, memory = run(replace(job, data=data.name, method=method, counts=each))
            cll = np.array([fold.cll for fold in found])
            paper = data.paper_cll[method] if each == "exact" else ""
            if method == "cd" and each in data.paper_bounds:
                paper = "{} in {} s".format(*data.paper_bounds[each])
            spread = cll.std(ddof=1) if len(cll) > 1 else 0.0
            print(
                f"{method:4} {name_counts(each, found):>7} "
                f"{cll.mean():9.4f} ± {spread:6.4f} {max(fold.gap for fold in found):7.4f} "
                f"{np.mean([fold.seconds for fold in found]):15.1f} "
                f"{np.mean([fold.iterations for fold in found]):6.0f} {memory:8.0f} "
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
    """A star where the i-bound is large enough for exact counts, as in the paper."""
    if counts == "exact":
        return counts
    return f"i = {counts}{'*' if all(fold.is_exact for fold in found) else ' '}"


def run(job: Job) -> tuple[list[FoldResult], float]:
    """A job in a process of its own; the results of its folds, and its peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "worlds"
        file.write_bytes(prepare(job.data, job.fraction, job.part))
        asked = json.dumps(asdict(replace(job, worlds=str(file))))
        command = [sys.executable, __file__, "--worker", asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{job.method} on {job.data} with {job.counts} counts failed:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    folds = [
        FoldResult(**{**fold, "curve": tuple(Snapshot(**each) for each in fold["curve"])})
        for fold in answer["folds"]
    ]
    return folds, answer["memory"]


@cache
def prepare(name: str, fraction: float, part: float) -> bytes:
    """The databases of a data set, and the parts of them that are learned from.

    They are read here once, so that no learner's time or memory has it.
    """
    worlds = DATA_SETS[name].worlds(fraction)
    return pickle.dumps((worlds, worlds if part == 1.0 else DATA_SETS[name].worlds(part)))


def work(job: Job) -> None:
    data = DATA_SETS[job.data]
    model = data.model()
    whole, part = pickle.loads(Path(job.worlds).read_bytes())
    left_out = build_examples(model, whole, data.query)
    examples = left_out if job.part == 1.0 else build_examples(model, part, data.query)
    folds = []
    for fold in range(min(job.folds, len(whole))):
        ordered = [*examples[:fold], *examples[fold + 1 :], left_out[fold]]
        folds.append(asdict(learn_fold(job, model, ordered)))
    print(json.dumps({"folds": folds, "memory": peak_memory()}))


def peak_memory() -> float:
    """In MB. What getrusage says is never less than the parent's at the start of the process."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (each for each in status.read_text().splitlines() if each.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def learn_fold(job: Job, model: lapis.Model, examples: Sequence[Example]) -> FoldResult:
    """Learns on all examples but the last, and predicts that."""
    parameters = share_parameters(model, [example.complete for example in examples])
    training, test = examples[:-1], examples[-1]

    def score(weights: np.ndarray) -> tuple[float, float]:
        return estimate_cll(test, parameters.of_world(len(training), weights), job.warm_sweeps)

    started = time.perf_counter()
    job, width = choose_settings(job, model, training)
    objective = build_objective(job, training, parameters)
    posterior = build_posterior(job, objective, parameters, width)
    kept: list[Progress] = []
    course = ascend(job, posterior, kept.append if job.snapshots else None)
    weights = course.weights
    seconds = time.perf_counter() - started
    is_exact = "ijgp" not in objective.name or "exact" in objective.name
    errors = np.zeros(len(parameters))
    if not is_exact:
        errors = measure_errors(training, parameters, int(job.counts))
    return FoldResult(
        *score(weights),
        seconds,
        course.iterations,
        width,
        course.reason,
        likelihood_bound(weights, errors).value,
        is_exact,
        frequency_cll(training, test),
        take_snapshots(kept, job.snapshots, score),
    )


def choose_settings(job: Job, model: lapis.Model, training: Sequence[Example]) -> tuple[Job, float]:
    """The job with the iterations, and the width, that predict the first of the training worlds.

    They are learned from the others. PLL climbs to its maximum, whatever that predicts.
    """
    validation, rest = training[0], training[1:]
    widths = DENSE_WIDTHS if DATA_SETS[job.data].dense else (WIDTH,)
    if not rest or (job.method == "pll" and len(widths) == 1):
        return job, WIDTH
    parameters = share_parameters(model, [example.complete for example in (*rest, validation)])
    found: dict[tuple[int, float], float] = {}
    for width in widths:
        objective = build_objective(job, rest, parameters)
        kept: list[Progress] = []
        course = ascend(job, build_posterior(job, objective, parameters, width), kept.append)
        checked = {course.iterations: course.weights}
        if job.method != "pll":
            checked |= {step: kept[step].weights for step in range(CHECKED, len(kept), CHECKED)}
        for step, weights in checked.items():
            local = parameters.of_world(len(rest), weights)
            cll, gap = estimate_cll(validation, local, WARM_SWEEPS)
            found[step, width] = cll - gap  # chains that have not met promise nothing
    iterations, width = max(found, key=lambda setting: found[setting])
    if job.snapshots:  # the course of learning is wanted, all of it
        iterations = job.iterations
    return replace(job, iterations=iterations), width


def build_posterior(
    job: Job, objective: Objective, parameters: Parameters, dense: float
) -> Posterior:
    """With a Gaussian prior, of width WIDTH for all rules but the dense ones."""
    starts = DATA_SETS[job.data].dense
    rules = parameters.model.rules
    widths = [dense if rule.text.startswith(starts) else WIDTH for rule in rules]
    prior = Prior("gaussian", np.repeat(widths, np.diff(parameters.offset)))
    return with_prior(objective, prior, parameters.initial, parameters.fixed)


def frequency_cll(training: Sequence[Example], test: Example) -> float:
    """What knowing nothing but how often the query predicates hold would score."""
    score, number = 0.0, 0
    for sites in asked_sites(test.free):
        name = sites.predicate.name
        seen = [len(example.complete.evidence[name].true) for example in training]
        asked = [len(s) for e in training for s in asked_sites(e.free) if s.predicate.name == name]
        rate = sum(seen) / sum(asked)
        true = len(test.complete.evidence[name].true)
        score += true * np.log(rate) + (len(sites) - true) * np.log(1.0 - rate)
        number += len(sites)
    return float(score / number)


def build_objective(job: Job, training: Sequence[Example], parameters: Parameters) -> Objective:
    exact = job.counts == "exact"
    ibound = 1 if exact else int(job.counts)
    if job.method == "pll":
        if exact:
            return pseudo_objective(training, parameters)
        return count_pseudo_objective(training, parameters, ibound=ibound)
    return count_objective(
        training,
        parameters,
        counts="exact" if exact else "ijgp",
        ibound=ibound,
        expectation="gibbs" if job.method == "cd" else "map",
        num_samples=job.steps,
    )


def ascend(job: Job, posterior: Posterior, progress: Report | None) -> Course:
    return climb(
        posterior,
        make_optimizer(OPTIMIZER[job.method]),
        np.zeros(posterior.num_parameters),
        max_iterations=200 if job.method == "pll" else job.iterations,
        tolerance=1e-3,
        progress=progress,
    )


def take_snapshots(
    steps: Sequence[Progress], number: int, score: Callable[[np.ndarray], tuple[float, float]]
) -> tuple[Snapshot, ...]:
    """Some steps, evenly spread over the time of learning."""
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


def estimate_cll(test: Example, weights: np.ndarray, most_sweeps: float) -> tuple[float, float]:
    """Σ over query atoms of log P(value in the data | evidence), divided by their number.

    P is the mean of two chains; with it, how far apart their own CLLs are.
    """
    rng = np.random.default_rng(0)
    sites = asked_sites(test.free)
    truth = np.concatenate([find_truth(test, each) for each in sites])
    starts = start_from_evidence(test, sites, weights), start_from_coins(test, sites, rng)
    chains = [Predictor(ExactWorld(start), sites, weights, rng) for start in starts]
    least = max(1, LEAST_WARM // len(truth))
    sweeps = made = max(least, WARM_SWEEPS)
    most_sweeps *= least
    while True:
        found = [chain.predict(sweeps) for chain in chains]
        one, other = (mean_log(each, truth) for each in found)
        if abs(one - other) <= AGREED or made >= most_sweeps:
            return mean_log((found[0] + found[1]) / 2.0, truth), abs(one - other)
        sweeps, made = made, 2 * made


def find_truth(test: Example, sites: Sites) -> np.ndarray:
    """bool[num_sites], in the data."""
    rows = sites.rows(np.arange(len(sites)))
    return contains(test.complete.evidence[sites.predicate.name].true, rows)


def mean_log(probability: np.ndarray, truth: np.ndarray) -> float:
    value = np.where(truth, probability, 1.0 - probability)
    return float(np.log(np.maximum(value, np.finfo(float).tiny)).mean())


@dataclass(frozen=True)
class Predictor:
    """A chain over the query atoms."""

    chain: ExactWorld
    sites: Sequence[Sites]
    weights: np.ndarray  # float64[num_weights]
    rng: np.random.Generator

    def predict(self, sweeps: int) -> np.ndarray:
        """Warms up, then goes on as long again: float64[num_sites], the means of P(true | rest)."""
        for _ in range(sweeps):
            self.sweep()
        least, most = SEEN_SWEEPS
        steps = sum(map(len, self.sites))
        seen = max(sweeps, least, min(most, SEEN_STEPS // steps))
        return sum((self.sweep() for _ in range(seen)), np.zeros(1)) / seen

    def sweep(self) -> np.ndarray:
        """Resamples all query atoms in random order; float64[num_sites], P(true | rest)."""
        found = []
        for each in self.sites:
            name, order = each.predicate.name, self.rng.permutation(len(each))
            parts, noise = [(name, each.rows(order))], self.rng.logistic(size=len(each))
            probability = np.empty(len(each))
            probability[order] = self.chain.draw(parts, self.weights, noise, False).probability
            found.append(probability)
        return np.concatenate(found)


def start_from_evidence(
    test: Example, sites: Sequence[Sites], weights: np.ndarray
) -> lapis.Problem:
    """A complete problem: query atoms have the value that is better with all of them false."""
    problem = test.complete
    evidence = dict(problem.evidence)
    for each in sites:
        name = each.predicate.name
        evidence[name] = replace(evidence[name], true=evidence[name].true[:0])
    world = {name: known.true for name, known in evidence.items()}
    for each in sites:
        name = each.predicate.name
        rows = each.rows(np.arange(len(each)))
        found, _ = open_differences(problem, name, world=world).at_rows(rows)
        vectors, _ = split_column(found, len(weights))
        scores = weights[vectors.column] * vectors.value
        better = np.bincount(vectors.row, scores, minlength=len(rows)) > 0
        evidence[name] = replace(evidence[name], true=rows[better])
    return replace(problem, evidence=evidence)


def start_from_coins(
    test: Example, sites: Sequence[Sites], rng: np.random.Generator
) -> lapis.Problem:
    """A complete problem in which each query atom is true or false by chance."""
    evidence = dict(test.complete.evidence)
    for each in sites:
        name = each.predicate.name
        rows = each.rows(np.flatnonzero(rng.random(len(each)) < 0.5))
        evidence[name] = replace(evidence[name], true=rows)
    return replace(test.complete, evidence=evidence)


if __name__ == "__main__":
    main()
