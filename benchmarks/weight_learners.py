"""The learners of chapter 4 of Lowd's thesis with default options: distance to the maximum.

    python benchmarks/weight_learners.py [--data smokers,uwcse,imdb] [--learners cd,cd-pw]
        [--expectation mcsat] [--seeds 1]

Every learner runs as in `lapis learn`, with only its name given. Expected counts are exact on all
three data sets; `--expectation mcsat` samples them, as the thesis does. The figure is the
conditional log-likelihood of the training data plus the log-prior, divided by the number of query
atoms: exact at the learned weights, next to the maximum (L-BFGS on the exact likelihood). VP and
VP-PW maximise another function (the score of the data minus that of the most likely world), so they
need not reach this maximum.

    smokers   the example of the package: Smokes and Cancer given Friends
    uwcse     advisedBy given the rest, five areas (benchmarks/models/uwcse.mln)
    imdb      workedUnder given the rest, five folds (benchmarks/models/imdb.mln)

Seconds are CPU seconds, with grounding and standard errors. Data are read from LAPIS_DATA.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from protocol import MODELS, data_folder

import lapis
from lapis.learning.examples import build_examples
from lapis.learning.objectives.conditional import conditional_objective
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.parameters import share_parameters
from lapis.optimisation.objective import PenalizedObjective

LEARNERS = ("vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg")
AREAS = ("ai", "graphics", "language", "systems", "theory")
FOLDS = ("fold1", "fold2", "fold3", "fold4", "fold5")
WIDTH = 2.0  # of the prior, the default of the conditional likelihood


class DataSet(NamedTuple):
    name: str
    model: lapis.Model
    worlds: list[lapis.Database]
    query: list[str]


def read_data(name: str) -> DataSet:
    if name == "smokers":
        folder = files("lapis") / "examples"
        model = lapis.read(str(folder / "smokers.mln"))
        world = lapis.Database.read(str(folder / "smokers-training.db"))
        return DataSet(name, model, [world], ["Smokes", "Cancer"])
    folder = data_folder(name)
    model = lapis.read(MODELS / f"{name}.mln")
    parts = AREAS if name == "uwcse" else FOLDS
    query = ["advisedBy"] if name == "uwcse" else ["workedUnder"]
    return DataSet(name, model, [lapis.Database.read(folder / f"{p}.db") for p in parts], query)


def exact_posterior(data: DataSet) -> tuple[PenalizedObjective, int]:
    """Return the exact objective for all learners, and the number of query atoms."""
    examples = build_examples(data.model, data.worlds, data.query)
    parameters = share_parameters(data.model, [example.free for example in examples])
    objective = conditional_objective(examples, parameters, expectation="exact")
    prior = Prior("gaussian", WIDTH)
    posterior = with_prior(objective, prior, parameters.initial, parameters.fixed)
    return posterior, sum(side.statistics.num_base_atoms for side in objective.free)


def learn(
    data: DataSet, learner: str, seed: int, expectation: str = "auto"
) -> tuple[lapis.Fit, float]:
    """Return the fit and its CPU seconds."""
    began = time.process_time()
    fit = lapis.learn(
        data.model, data.worlds, data.query, optimizer=learner, prior=f"gaussian:{WIDTH:g}",
        random_state=seed, expectation=expectation,
    )  # fmt: skip
    return fit, time.process_time() - began


def show(data: DataSet, learners: Sequence[str], seeds: int, expectation: str) -> None:
    posterior, num_atoms = exact_posterior(data)
    best, seconds = learn(data, "lbfgs", 0)
    print(f"\n{data.name}: {num_atoms:,} query atoms, {posterior.num_parameters} weights")
    print(
        f"{'learner':8s} {'value':>9s} {'short of best':>14s} {'seconds':>8s} {'steps':>6s}  reason"
    )

    def line(name: str, fit: lapis.Fit, seconds: float) -> None:
        value = worth(posterior, fit) / num_atoms
        print(
            f"{name:8s} {value:9.4f} {top - value:14.2g} {seconds:8.2f} {fit.iterations:6d}  "
            f"{'' if fit.converged else 'NOT CONVERGED: '}{fit.reason}",
            flush=True,
        )

    top = worth(posterior, best) / num_atoms
    line("lbfgs", best, seconds)
    for learner in learners:
        by_world = learner.startswith("vp")
        for seed in range(seeds):
            how = "auto" if by_world else expectation
            line(learner, *learn(data, learner, seed, how))


def worth(posterior: PenalizedObjective, fit: lapis.Fit) -> float:
    value = posterior.evaluate_smooth(posterior.free_weights(np.asarray(fit.weights))).value
    assert value is not None
    return value


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="smokers,uwcse,imdb")
    options.add_argument("--learners", default=",".join(LEARNERS))
    options.add_argument("--expectation", default="auto", choices=("auto", "mcsat", "gibbs"))
    options.add_argument("--seeds", type=int, default=1)
    chosen = options.parse_args()
    for name in chosen.data.split(","):
        show(read_data(name), chosen.learners.split(","), chosen.seeds, chosen.expectation)


if __name__ == "__main__":
    main()
