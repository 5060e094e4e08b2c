"""Discriminative learning on Cora and WebKB: data, likelihoods of folds, learning, prediction.

Used by the experiments of chapter 4 of Lowd's thesis. A world is grounded once. Learning and
prediction then work on its statistics (`lapis/inference/moments/statistics.py`), in which all unit
clauses of an atom are one number.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from benchmarks import protocol
from benchmarks.papers.folds import FOLDS
from benchmarks.papers.scoring import score_atoms

import lapis
from lapis.grounding.bottom_up import ground
from lapis.inference.marginals import InferenceOptions, Marginals, PartialAnswer
from lapis.inference.moments.sampled import PersistentChain
from lapis.inference.moments.statistics import Statistics, gather_statistics
from lapis.inference.plan import plan_parts
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.tally import new_tallies
from lapis.inference.solve import infer_network, run_plan
from lapis.language.model import Rule
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.conditional import (
    ConditionalObjective,
    conditional_objective,
    suited_sampler,
)
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.parameters import Parameters, share_parameters
from lapis.methods import find_method
from lapis.optimisation.maximize import make_optimizer, maximize
from lapis.runtime.progress import Progress

CLASSES = ("Course", "Department", "Faculty", "Person", "ResearchProject", "Staff", "Student")
SMOOTHING = 1e-3  # weight of a fair coin that is averaged with the fraction of samples


class Widths(NamedTuple):
    """The widths of the Gaussian priors that are chosen."""

    word: float  # of weights that a single word has
    relation: float  # Cora: of transitivity; WebKB: of the rules about two classes

    def __str__(self) -> str:
        return f"{self.word:g}, {self.relation:g}"


class LearningData(NamedTuple):
    """A data set, its model and its query."""

    folder: str
    query: tuple[str, ...]
    listed: bool  # only the atoms that the data lists are predicted
    read: Callable[[Path, str], lapis.Database]
    width: Callable[[Rule, Widths], float]


def read_citations(folder: Path, fold: str) -> lapis.Database:
    """Read a fold of Cora with the negated facts, which complete the canopies."""
    facts = (folder / f"{fold}.db").read_text()
    with gzip.open(folder / f"{fold}.neg.db.gz", "rt") as negative:
        return lapis.Database.parse(f"{facts}\n{negative.read()}")


def citation_width(rule: Rule, widths: Widths) -> float:
    if rule.plus:
        return widths.word
    return widths.relation if is_transitivity(rule) else 2.0


def is_transitivity(rule: Rule) -> bool:
    premise, _, conclusion = rule.text.partition(" => ")
    return conclusion.startswith("Same") and premise.startswith(conclusion.split("(")[0])


def read_pages(folder: Path, university: str) -> lapis.Database:
    """Read the pages of a university, with classes as constants and links without duplicates."""
    tables = lapis.Database.read(folder / f"{university}.db.gz").to_frames()
    labels = pandas.concat(
        [
            pandas.DataFrame({"page": tables[name].iloc[:, 0], "class": name})
            for name in CLASSES
            if name in tables
        ]
    )
    has = tables["Has"].set_axis(["word", "page"], axis=1)
    links = tables["LinkTo"].iloc[:, 1:].set_axis(["source", "target"], axis=1)
    links = links[links.source != links.target].drop_duplicates()
    pages = pandas.unique(pandas.concat([labels.page, has.page, links.source, links.target]))
    frames = {"Class": labels, "Has": has, "Links": links}
    return lapis.Database.from_frames(frames | {"Page": pandas.DataFrame({"page": pages})})


def page_width(rule: Rule, widths: Widths) -> float:
    return widths.word if "Has" in rule.text else widths.relation


DATA = {
    "cora": LearningData(
        "cora-er",
        ("SameBib", "SameAuthor", "SameTitle", "SameVenue"),
        True,
        read_citations,
        citation_width,
    ),
    "webkb": LearningData("webkb", ("Class",), False, read_pages, page_width),
}


@dataclass(frozen=True)
class LearningTask:
    """The folds of a data set as examples with shared weights."""

    name: str
    examples: Mapping[str, Example]  # by fold
    parameters: Parameters

    def parameters_of(self, fold: str) -> Parameters:
        """Return the same parameters, of one world only."""
        index = self.parameters.world_index[list(self.examples).index(fold)]
        return replace(self.parameters, world_index=(index,))

    def prior(self, widths: Widths) -> Prior:
        width = DATA[self.name].width
        each = [width(rule, widths) for rule in self.parameters.model.rules]
        return Prior("gaussian", np.repeat(each, np.diff(self.parameters.offset)))


def read_task(name: str) -> LearningTask:
    """Read all folds of a data set."""
    data = DATA[name]
    folder = protocol.DATA / data.folder
    folds = FOLDS[data.folder]
    model = lapis.read(protocol.MODELS / f"{name}.mln")
    worlds = [data.read(folder, fold) for fold in folds]
    examples = build_examples(model, worlds, data.query, only_listed=data.listed)
    parameters = share_parameters(model, [example.free for example in examples])
    return LearningTask(name, dict(zip(folds, examples, strict=True)), parameters)


class FoldLikelihood(NamedTuple):
    """A fold's part of the likelihood, with the initial state of its chain."""

    likelihood: ConditionalObjective
    start: Mapping[str, np.ndarray]


def ground_likelihoods(
    task: LearningTask, folds: Sequence[str], expectation: str
) -> dict[str, FoldLikelihood]:
    """Ground each fold once, for all runs of a learner."""
    made = {}
    for seed, fold in enumerate(folds):
        likelihood = conditional_objective(
            [task.examples[fold]], task.parameters_of(fold), expectation=expectation, seed=seed
        )
        made[fold] = FoldLikelihood(likelihood, likelihood.keep())
    return made


def join_folds(folds: Sequence[FoldLikelihood]) -> ConditionalObjective:
    """Return the likelihood of several folds, with all chains at their initial states."""
    for each in folds:
        each.likelihood.resume(each.start)
    parts = [each.likelihood for each in folds]
    return replace(
        parts[0],
        true_counts=np.sum([part.true_counts for part in parts], axis=0),
        target=np.sum([part.target for part in parts], axis=0),
        free=tuple(side for part in parts for side in part.free),
    )


class Visit(NamedTuple):
    """The weights that a learner would return after some time."""

    iteration: int
    seconds: float  # processor seconds since the first evaluation began
    weights: np.ndarray  # float64[num_parameters]


class CourseOfRun(NamedTuple):
    """The iterations of a run."""

    visits: list[Visit]
    reason: str


def learn(
    task: LearningTask,
    objective: ConditionalObjective,
    optimizer: str,
    options: Mapping[str, float],
    widths: Widths,
    seconds: float,
) -> CourseOfRun:
    """Run an optimiser for some processor seconds, without another limit of iterations."""
    parameters = task.parameters
    posterior = with_prior(objective, task.prior(widths), parameters.initial, parameters.fixed)
    visits: list[Visit] = []
    began = time.process_time()

    def keep_visit(step: Progress) -> None:
        assert step.weights is not None
        weights = posterior.all_weights(step.weights.copy())
        visits.append(Visit(step.done, time.process_time() - began, weights))

    run = maximize(
        posterior,
        make_optimizer(optimizer, **options),
        posterior.free_weights(parameters.initial),
        max_iterations=1_000_000,
        progress=keep_visit,
        should_stop=lambda: time.process_time() - began >= seconds,
    )
    reason = run.reason if run.converged else "time limit" if run.interrupted else run.reason
    return CourseOfRun(visits, reason)


def spread_visits(visits: Sequence[Visit], count: int) -> list[Visit]:
    """Return at most `count` visits, even on a logarithmic scale of time, without the start."""
    moved = visits[1:] or visits
    seconds = np.array([visit.seconds for visit in moved])
    wanted = np.geomspace(seconds[0], seconds[-1], count)
    nearest = np.abs(seconds[:, None] - wanted).argmin(axis=0)
    return [moved[place] for place in sorted({0, *nearest.tolist(), len(moved) - 1})]


@dataclass(frozen=True)
class AnsweredWorld:
    """A fold to predict, with its true answers."""

    statistics: Statistics
    truth: np.ndarray  # bool[num_base_atoms]
    relations: Mapping[str, slice]


def ground_answers(task: LearningTask, fold: str) -> AnsweredWorld:
    example = task.examples[fold]
    network = ground(example.free)
    parameters = task.parameters_of(fold)
    truth = example.answers(network) == 1
    atoms = network.atoms
    places = zip(atoms.predicates, atoms.offset[:-1], atoms.offset[1:], strict=True)
    relations = {
        name: slice(int(first), int(last))
        for name, first, last in places
        if first < len(truth) and name in DATA[task.name].query
    }
    statistics = gather_statistics(network, parameters.world_index[0], len(parameters))
    return AnsweredWorld(statistics, truth, relations)


class Samples(NamedTuple):
    """The number of samples of MC-SAT."""

    burn_in: int
    kept: int


def predict_by_mcsat(
    world: AnsweredWorld, weights: np.ndarray, samples: Samples, seed: int = 1
) -> np.ndarray:
    """Return the fraction of samples of one chain in which each atom is true, smoothed.

    As in section 4.3.2 of the thesis: "the fraction of samples in which the atom was true with a
    small prior to prevent zero counts". Atoms without neighbours are independent of the chain.
    """
    statistics = world.statistics
    natural = statistics.natural(weights)
    fraction = lone_probability(statistics, natural)
    network = statistics.network
    if network.num_atoms:
        sampler = find_method("infer", "mcsat").make()
        [stream] = random_states(seed, 1)
        chain = PersistentChain(sampler, network, None, 0, stream)
        chain.draw(natural, samples.burn_in, 1)
        tallies = new_tallies(network.num_base_atoms, np.empty(0))
        true = np.zeros(network.num_atoms)
        for _ in range(samples.kept):
            sampler.step(chain.plan, chain.state, tallies, 1)
            true += sampler.world(chain.state)
        fraction[statistics.atom] = true / samples.kept
    known = fraction[: len(world.truth)]
    return (known + SMOOTHING / 2) / (1 + SMOOTHING)


def predict_as_lapis(
    world: AnsweredWorld, weights: np.ndarray, num_samples: int, seed: int = 1
) -> np.ndarray:
    """Return exact probabilities where tables fit, else means of P(atom | rest) over two chains.

    The chains are those that `auto` chooses: Gibbs for clauses of two atoms, else MC-SAT. Sampled
    probabilities are smoothed as those of MC-SAT are.
    """
    statistics = world.statistics
    natural = statistics.natural(weights)
    probability = lone_probability(statistics, natural)
    network = statistics.network.with_weights(natural)
    if network.num_atoms:
        options = InferenceOptions(
            precision=0.0, max_samples=2 * num_samples, num_chains=2, seed=seed
        )
        done = run_plan(plan_parts(network, options, "leave"))
        rest, atom = done.rest()
        if rest.num_atoms:
            sampled = infer_network(rest, suited_sampler(rest), options)
            done.parts.append(PartialAnswer(atom, sampled))
        found = Marginals.join(network, done.parts)
        probability[statistics.atom[: len(found.marginal)]] = found.marginal
    known = probability[: len(world.truth)]
    return (known + SMOOTHING / 2) / (1 + SMOOTHING)


def lone_probability(statistics: Statistics, natural: np.ndarray) -> np.ndarray:
    """float64[num_ground_atoms], of atoms in no longer clause; the others are overwritten."""
    field = np.where(statistics.field >= 0, natural[np.maximum(statistics.field, 0)], 0.0)
    probability = 1.0 / (1.0 + np.exp(-np.clip(field, -500.0, 500.0)))
    decided = statistics.lone_sign != 0
    probability[statistics.lone_atom[decided]] = statistics.lone_sign[decided] > 0
    return probability


class Quality(NamedTuple):
    """The quality of predictions: of all query atoms, and by predicate."""

    cll: float
    auc: float
    relations: Mapping[str, tuple[float, float]]  # (CLL, AUC)


def judge(world: AnsweredWorld, probability: np.ndarray) -> Quality:
    cll, auc = score_atoms(probability, world.truth)
    relations = {
        name: score_atoms(probability[place], world.truth[place])
        for name, place in world.relations.items()
    }
    return Quality(cll, auc, relations)
