"""Quality of predictions against learning time, as in Figure 4.1 of Lowd's thesis.

Used by the benchmarks of discriminative learning. A run learns on the training worlds and records
the weights of each iteration. Afterwards some of them, evenly spread over the logarithm of time,
are evaluated on the test world. Seconds include learning and grounding, but not predicting.

    CLL   mean log-probability of the true value of a query atom
    AUC   area under the precision–recall steps (average precision)

Predictions are exact for isolated atoms and for components with small tables. Others are means of
P(atom | rest) over a chain, limited to [1e-4, 1 − 1e-4]: the "small prior to prevent zero counts"
of section 4.3.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import lapis
from lapis.evaluation.metrics import average_precision, conditional_log_likelihood
from lapis.grounding.bottom_up import ground
from lapis.inference.marginals import InferenceOptions, Marginals, PartialAnswer
from lapis.inference.plan import plan_parts
from lapis.inference.solve import infer_network, run_plan
from lapis.language.model import Rule
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.conditional import (
    ConditionalObjective,
    conditional_objective,
    suited_sampler,
)
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.objectives.pseudo import PseudoObjective, pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.network.network import Network
from lapis.optimisation.maximize import Trajectory, find_length, make_optimizer, maximize
from lapis.runtime.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEVER_SURE = 1e-4  # how near a sampled probability comes to 0 and 1
SHARE_OF_FINAL = 0.95


@dataclass(frozen=True)
class Learner:
    """An optimiser with its method for expected counts."""

    name: str  # as in the thesis
    optimizer: str
    expectation: str  # as conditional_objective names it, or "pseudo"
    iterations: int
    rate: float | None = None


class Task(NamedTuple):
    """The worlds of training and test, and the query."""

    model: lapis.Model
    worlds: Sequence[lapis.Database]
    query: Sequence[str]
    test: int  # the world held out
    listed: bool = False  # only the atoms the data mentions are asked
    unseen: Sequence[int] = ()  # worlds that are neither learned from nor predicted


class Quality(NamedTuple):
    """The quality of predictions: of all query atoms, and by predicate."""

    cll: float
    auc: float
    relations: Mapping[str, tuple[float, float]]  # (CLL, AUC)


class Judged(NamedTuple):
    """A point of a learning curve."""

    iteration: int
    seconds: float
    quality: Quality


@dataclass(frozen=True)
class Run:
    learner: Learner
    test: int
    setup_seconds: float  # grounding, and planning what is exact
    trajectory: Trajectory
    points: tuple[Judged, ...]

    @property
    def seconds(self) -> float:
        return self.setup_seconds + self.trajectory.seconds

    @property
    def final(self) -> Quality:
        return self.points[-1].quality

    def seconds_to_share(self, share: float = SHARE_OF_FINAL) -> float:
        """Return the time at which the AUC first reached a share of the final one."""
        enough = share * self.final.auc
        return next(point.seconds for point in self.points if point.quality.auc >= enough)

    def seconds_to_cll(self, cll: float) -> float | None:
        """Return the time at which the CLL first reached a value; None if it never did."""
        return next((p.seconds for p in self.points if p.quality.cll >= cll), None)


@dataclass(frozen=True)
class Fold:
    """The worlds of a task as examples, built once for all learners."""

    task: Task
    examples: list[Example]
    parameters: Parameters

    @property
    def training(self) -> list[int]:
        out = {self.task.test, *self.task.unseen}
        return [k for k in range(len(self.examples)) if k not in out]

    def parameters_of(self, worlds: Sequence[int]) -> Parameters:
        """Return the same parameters for some of the worlds."""
        index = tuple(self.parameters.world_index[k] for k in worlds)
        return replace(self.parameters, world_index=index)


def prepare(task: Task) -> Fold:
    examples = build_examples(task.model, task.worlds, task.query, only_listed=task.listed)
    return Fold(
        task, examples, share_parameters(task.model, [example.free for example in examples])
    )


def prior_by_rule(parameters: Parameters, width: Callable[[Rule], float]) -> Prior:
    """Return a Gaussian prior of mean 0 whose width depends on the rule."""
    widths = [width(rule) for rule in parameters.model.rules]
    return Prior("gaussian", np.repeat(widths, np.diff(parameters.offset)))


@dataclass(frozen=True)
class Judge:
    """Predicts the test world of a fold for given weights."""

    network: Network  # of the test world, none of whose answers it knows
    parameters: Parameters  # of that world alone
    truth: np.ndarray  # bool[num_atoms]
    options: InferenceOptions

    def quality(self, weights: np.ndarray) -> Quality:
        network = self.network.with_weights(self.parameters.of_world(0, weights))
        probability, is_exact = self.predict(network)
        if not is_exact:
            probability = np.clip(probability, NEVER_SURE, 1 - NEVER_SURE)
        atoms = network.atoms
        offset = atoms.offset
        parts = {
            name: measure(probability[first:last], self.truth[first:last])
            for name, first, last in zip(atoms.predicates, offset[:-1], offset[1:], strict=True)
            if first < len(probability)
        }
        return Quality(*measure(probability, self.truth), parts)

    def predict(self, network: Network) -> tuple[np.ndarray, bool]:
        """Return float64[num_base_atoms], and whether it is exact."""
        done = run_plan(plan_parts(network, self.options, "leave"))
        rest, atom = done.rest()
        if rest.num_atoms:
            sampled = infer_network(rest, suited_sampler(rest), self.options)
            done.parts.append(PartialAnswer(atom, sampled))
        found = Marginals.join(network, done.parts)
        return found.marginal, found.exact


def measure(probability: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return CLL and AUC; the AUC is NaN if no atom is true."""
    area = average_precision(probability, truth)
    with np.errstate(divide="ignore"):
        log_odds = np.log(probability) - np.log1p(-probability)
    return conditional_log_likelihood(log_odds, truth), np.nan if area is None else area


def new_judge(fold: Fold, num_samples: int) -> Judge:
    """Build a judge that samples non-exact parts with two chains of `num_samples` samples each."""
    example = fold.examples[fold.task.test]
    network = ground(example.free)
    parameters = fold.parameters_of([fold.task.test])
    options = InferenceOptions(precision=0.0, max_samples=2 * num_samples, num_chains=2, seed=1)
    return Judge(network, parameters, example.answers(network) == 1, options)


def run_learner(
    fold: Fold,
    learner: Learner,
    prior: Prior,
    judge: Judge,
    *,
    num_points: int = 14,
    time_limit: float | None = None,
    objective: ConditionalObjective | None = None,
) -> Run:
    """Learn on all worlds except the test world; evaluate some of the weights on the way.

    The objective of the training worlds is built here unless it is given. A perceptron without a
    rate gets the length of greatest likelihood, which is part of its setup.
    """
    began = time.perf_counter()
    training = fold.training
    parameters = fold.parameters_of(training)
    examples = [fold.examples[k] for k in training]
    built = objective or build_objective(learner, examples, parameters)
    posterior = with_prior(built, prior, parameters.initial, parameters.fixed)
    setup = time.perf_counter() - began
    steps: list[Progress] = []
    options = {} if learner.rate is None else {"rate": learner.rate}
    trajectory = maximize(
        posterior,
        make_optimizer(learner.optimizer, **options),
        posterior.free_weights(parameters.initial),
        max_iterations=learner.iterations,
        time_limit=time_limit,
        progress=steps.append,
    )
    scale = 1.0
    if learner.expectation == "map" and learner.rate is None:
        paused = time.perf_counter()
        sampled = build_objective(replace(learner, expectation="auto"), examples, parameters)
        direction = trajectory.weights / np.abs(trajectory.weights).max()
        whole = with_prior(sampled, prior, parameters.initial, parameters.fixed)
        scale = find_length(whole, direction) / float(np.abs(trajectory.weights).max())
        setup += time.perf_counter() - paused
    chosen = spread_evenly([setup + step.seconds for step in steps], num_points)
    points = tuple(
        Judged(
            steps[k].done,
            setup + steps[k].seconds,
            judge.quality(posterior.all_weights(scale * steps[k].weights)),
        )
        for k in chosen
    )
    return Run(learner, fold.task.test, setup, trajectory, points)


def build_objective(
    learner: Learner, examples: Sequence[Example], parameters: Parameters, seed: int = 0
) -> ConditionalObjective | PseudoObjective:
    """Build the conditional likelihood of the query atoms, or its pseudo-likelihood."""
    if learner.expectation == "pseudo":
        return pseudo_objective(examples, parameters)
    return conditional_objective(examples, parameters, expectation=learner.expectation, seed=seed)


def spread_evenly(seconds: Sequence[float], count: int) -> list[int]:
    """Return indexes of at most `count` times, even on a logarithmic scale, with first and last."""
    wanted = np.geomspace(seconds[0], seconds[-1], count)
    nearest = np.abs(np.asarray(seconds)[:, None] - wanted).argmin(axis=0)
    return sorted({0, *nearest.tolist(), len(seconds) - 1})


def describe_fold(fold: Fold) -> str:
    """Describe the atoms, ground clauses and weights of each world."""
    sizes = []
    for number, example in enumerate(fold.examples):
        network = ground(example.free)
        mark = " (test)" if number == fold.task.test else ""
        sizes.append(f"{network.num_base_atoms:,} atoms, {network.num_clauses:,} clauses{mark}")
    return f"{len(fold.parameters):,} weights; " + "; ".join(sizes)


def mean_curve(
    runs: Sequence[Run], pick: Callable[[Quality], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return times and the mean of a quality over runs, interpolated linearly in log time."""
    times = np.unique([point.seconds for run in runs for point in run.points])
    first = max(run.points[0].seconds for run in runs)
    times = times[times >= first]
    curves = [
        np.interp(
            np.log(times),
            np.log([point.seconds for point in run.points]),
            [pick(point.quality) for point in run.points],
        )
        for run in runs
    ]
    return times, np.mean(curves, axis=0)


class Other(NamedTuple):
    """The result of another system, and its time if it is known."""

    seconds: float | None
    cll: float
    auc: float


def draw_curves(path: Path, title: str, runs: Sequence[Run], others: Mapping[str, Other]) -> None:
    """Plot CLL and AUC against time: the mean over folds of each learner, and other systems."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    from lapis.data.atomic_write import replace_path

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    learners = list(dict.fromkeys(run.learner for run in runs))
    colours = plt.get_cmap("tab10").colors
    for number, learner in enumerate(learners):
        own = [run for run in runs if run.learner == learner]
        for axes, pick in ((left, cll_of), (right, auc_of)):
            times, values = mean_curve(own, pick)
            axes.plot(times, values, label=learner.name, color=colours[number % 10], lw=1.6)
            axes.plot(times[-1], values[-1], "o", color=colours[number % 10], ms=4)
    for label, other in others.items():
        mark_other(left, label, other.seconds, other.cll)
        mark_other(right, label, other.seconds, other.auc)
    for axes, name in ((left, "CLL"), (right, "AUC of precision and recall")):
        axes.set(xscale="log", xlabel="seconds of learning", ylabel=name)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.spines[["top", "right"]].set_visible(False)
    crop_low(left, [run.final.cll for run in runs] + [other.cll for other in others.values()])
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9
    )
    figure.suptitle(title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_path(path, lambda place: figure.savefig(place, dpi=150, format="png"))
    plt.close(figure)
    print(f"drawn: {path}")


def mark_other(axes: Axes, label: str, seconds: float | None, value: float) -> None:
    """Mark another system by a cross, or by a line if its time is not known."""
    if seconds is not None:
        axes.plot(seconds, value, "x", color="0.2", ms=7)
        axes.annotate(
            label, (seconds, value), (-6, 0), textcoords="offset points",
            ha="right", va="center", fontsize=8, color="0.2",
        )  # fmt: skip
        return
    axes.axhline(value, color="0.55", lw=1, ls="--")
    place = (0.01, value)
    axes.annotate(
        label, place, xycoords=("axes fraction", "data"), va="bottom", fontsize=8, color="0.35"
    )


def crop_low(axes: Axes, finals: Sequence[float]) -> None:
    """Limit the axis so that untrained weights are cut off."""
    best, worst = max(finals), min(finals)
    axes.set_ylim(worst * 1.15, best * 0.75)


def cll_of(quality: Quality) -> float:
    return quality.cll


def auc_of(quality: Quality) -> float:
    return quality.auc
