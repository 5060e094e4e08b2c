"""Rules learned from data: table 2 of the paper on hypergraph lifting, with its protocol.

    python benchmarks/structure_learning.py [imdb uwcse cora kinships nations umls]
                                            [--systems lhl,forward,…] [--folds 1,5] [--out FOLDER]

Rules are learned on all folds but one. In the fold left out the atoms of each predicate in turn are
predicted from all others (Actor and Director together, Student and Professor together; in Cora the
four Same predicates), and CLL and AUC-PR are of all these atoms together; the table gives their
means over folds and standard deviations. The predicates that say that two constants are the same
are left out of IMDB and UW-CSE. kinships, nations and umls have no folds: rules are learned from
their training facts, and for each predicate the atoms that these do not state are predicted, with
the held-out facts as the truth.

With `--out` the twenty heaviest rules of each data set are written there. Data are read from
LAPIS_DATA (default ../shared/data).
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lapis
from lapis.errors import LapisWarning, TooLarge
from lapis.evaluation.metrics import average_precision, conditional_log_likelihood
from lapis.evaluation.predictions import Predictions, predict_example
from lapis.inference.marginals import Options
from lapis.learning.examples import build_examples
from lapis.structure.learned_rules import LearnedRules

DATA = Path(os.environ.get("LAPIS_DATA", "../shared/data"))
SECONDS = 5.0  # of sampling for a predicate


class DataSet(NamedTuple):
    """Where the facts are, and what is predicted together."""

    folder: str
    model: str
    folds: tuple[str, ...]
    together: tuple[tuple[str, ...], ...] = ()
    asked: tuple[str, ...] = ()  # all predicates without any
    left_out: tuple[str, ...] = ()


AREAS = ("ai", "graphics", "language", "systems", "theory")
FIVE = tuple(f"fold{number}" for number in range(1, 6))
SETS = {
    "imdb": DataSet("imdb", "imdb.mln", FIVE, (("actor", "director"),)),
    "uwcse": DataSet(
        "uwcse", "uwcse.mln", AREAS, (("student", "professor"),),
        left_out=("samePerson", "sameCourse", "sameProject"),
    ),
    "cora": DataSet(
        "cora-er", "cora.mln", FIVE, asked=("SameBib", "SameTitle", "SameAuthor", "SameVenue")
    ),
    "kinships": DataSet("kinships", "kinships.mln", ()),
    "nations": DataSet("nations", "nations.mln", ()),
    "umls": DataSet("umls", "umls.mln", ()),
}  # fmt: skip

SYSTEMS: dict[str, dict[str, Any]] = {
    "forward": {"method": "forward", "max_length": 3},
    "lhl": {"method": "lhl"},
    "lhl-noheu": {"method": "lhl", "min_support": 0, "max_atoms": 0},
    "lhl-findpaths": {"method": "lhl", "lifting": "ground"},
    "busl": {"method": "busl"},
    "msl": {"method": "msl", "max_length": 3},
}
LENGTH = {"cora": {"max_length": 4}}  # ω of the paper where it is not 5
# Of the paper: AUC, CLL, and minutes for each fold.
PAPER = {
    "imdb": {"lhl": (0.69, -0.13, 15.63), "lhl-noheu": (0.69, -0.13, 39.0),
             "lhl-findpaths": (0.69, -0.13, 242.41), "busl": (0.47, -0.14, 4.69),
             "msl": (0.41, -0.17, 0.17)},
    "uwcse": {"lhl": (0.22, -0.04, 453.0), "lhl-noheu": (0.22, -0.04, 9494.0),
              "lhl-findpaths": (0.19, -0.04, 3401.0), "busl": (0.21, -0.05, 778.0),
              "msl": (0.18, -0.57, 128.0)},
    "cora": {"lhl": (0.87, -0.26, 889.0), "lhl-noheu": (0.87, -0.26, 2039.0),
             "lhl-findpaths": (0.91, -0.17, 356130.0), "busl": (0.17, -0.37, 1119.0),
             "msl": (0.17, -0.37, 3936.0)},
}  # fmt: skip


class Outcome(NamedTuple):
    """Of one fold."""

    auc: float
    cll: float
    seconds: float
    found: LearnedRules
    sampled: int  # predicates whose probabilities are estimates


def read_set(name: str) -> tuple[lapis.Model, list[lapis.Database]]:
    own = SETS[name]
    folder = DATA / own.folder
    lines = (folder / own.model).read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.partition("(")[0].strip() not in own.left_out]
    model = lapis.parse("\n".join(kept))
    files = own.folds or ("train", "valid", "test")
    return model, [lapis.Database.read(folder / f"{fold}.db") for fold in files]


def groups(name: str, model: lapis.Model) -> Iterator[tuple[str, ...]]:
    own = SETS[name]
    joined = {predicate for group in own.together for predicate in group}
    yield from own.together
    for predicate in own.asked or model.predicates:
        if predicate not in joined:
            yield (predicate,)


def judge(
    found: LearnedRules, data: lapis.Database, asked: Sequence[tuple[str, ...]]
) -> tuple[float, float, int]:
    """CLL and AUC of all atoms asked, and how many groups were sampled."""
    parts: list[Predictions] = []
    sampled = 0
    for group in asked:
        [example] = build_examples(found.model, [data], group)
        try:
            world = predict_example(example, "exact", Options())
        except TooLarge:  # the paper samples by Gibbs throughout
            world = predict_example(example, "gibbs", Options(time_limit=SECONDS))
        parts.append(world.predictions)
        sampled += not world.exact
    truth = np.concatenate([part.truth for part in parts])
    odds = np.concatenate([part.log_odds for part in parts])
    probability = np.concatenate([part.probability for part in parts])
    cll, auc = conditional_log_likelihood(odds, truth), average_precision(probability, truth)
    assert cll is not None
    return cll, auc or 0.0, sampled


def run_folds(name: str, system: str, chosen: Sequence[int]) -> list[Outcome]:
    model, worlds = read_set(name)
    asked = list(groups(name, model))
    options = {**SYSTEMS[system], **(LENGTH.get(name, {}) if system.startswith("lhl") else {})}
    outcomes = []
    for fold in chosen:
        train = [world for number, world in enumerate(worlds) if number != fold]
        begin = time.perf_counter()
        found = lapis.learn_structure(model, train, **options)
        seconds = time.perf_counter() - begin
        cll, auc, sampled = judge(found, worlds[fold], asked)
        outcomes.append(Outcome(auc, cll, seconds, found, sampled))
        print(f"  {name} {system} fold {fold + 1}: AUC {auc:.3f}, CLL {cll:.4f}, "
              f"{seconds:.1f} s, {found.summary()}", flush=True)  # fmt: skip
    return outcomes


def run_held_out(name: str, system: str) -> list[Outcome]:
    """Atoms that the training facts do not state; the held-out facts are the truth."""
    model, (train, valid, test) = read_set(name)
    begin = time.perf_counter()
    found = lapis.learn_structure(model, train, **SYSTEMS[system])
    seconds = time.perf_counter() - begin
    probabilities, odds, truths = [], [], []
    sampled = 0
    for predicate in model.predicates:
        answer = lapis.infer(found.model, train, query=predicate, time_limit=SECONDS)
        held = {*true_atoms(valid, predicate), *true_atoms(test, predicate)}
        known = set(true_atoms(train, predicate))
        sampled += not answer.exact
        for atom, probability in zip(answer.names, answer.probabilities, strict=True):
            if atom not in known:
                probabilities.append(probability)
                odds.append(np.log(max(probability, 1e-12)) - np.log(max(1 - probability, 1e-12)))
                truths.append(atom in held)
    truth = np.array(truths)
    cll = conditional_log_likelihood(np.array(odds), truth)
    auc = average_precision(np.array(probabilities), truth) or 0.0
    assert cll is not None
    return [Outcome(auc, cll, seconds, found, sampled)]


def true_atoms(database: lapis.Database, predicate: str) -> list[str]:
    problem = lapis.build_problem(lapis.parse(f"{predicate}(entity, entity)"), database)
    names = problem.domains["entity"].constants
    rows = problem.evidence[predicate].true.tolist()
    return [f"{predicate}({names[left]}, {names[right]})" for left, right in rows]


def show(name: str, system: str, outcomes: Sequence[Outcome]) -> None:
    auc = np.array([each.auc for each in outcomes])
    cll = np.array([each.cll for each in outcomes])
    minutes = np.mean([each.seconds for each in outcomes]) / 60
    rules = np.mean([sum(r.gain is not None for r in each.found.rules) for each in outcomes])
    paper = PAPER.get(name, {}).get(system)
    beside = "" if paper is None else f"{paper[0]:.2f}  {paper[1]:.2f}  {paper[2]:g} min"
    print(
        f"{name:9} {system:14} {auc.mean():.3f} ± {auc.std():.3f}  {cll.mean():.4f} ± "
        f"{cll.std():.4f}  {minutes:6.2f} min  {rules:5.1f} rules   {beside}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=["imdb"], choices=list(SETS))
    parser.add_argument("--systems", default="forward,lhl,busl,msl")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not DATA.is_dir():
        print(f"no data at {DATA}: set LAPIS_DATA")
        return
    warnings.simplefilter("ignore", LapisWarning)
    chosen = [int(fold) - 1 for fold in arguments.folds.split(",")]
    rows = []
    for name in arguments.sets:
        for system in arguments.systems.split(","):
            folds = SETS[name].folds
            found = run_folds(name, system, chosen) if folds else run_held_out(name, system)
            rows.append((name, system, found))
            if arguments.out is not None:
                arguments.out.mkdir(parents=True, exist_ok=True)
                heaviest = found[0].found.rules[:20]
                text = "".join(f"{rule.weight:10.4f}  {rule.text}\n" for rule in heaviest)
                path = arguments.out / f"structure-{name}-{system}.txt"
                path.write_text(text, encoding="utf-8")
    print("\ndata      system          AUC            CLL               time       rules   paper")
    for name, system, found in rows:
        show(name, system, found)


if __name__ == "__main__":
    main()
