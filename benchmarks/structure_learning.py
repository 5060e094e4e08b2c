"""Rules learned from data: Table 2 of the paper on hypergraph lifting, with its protocol.

The paper is Kok and Domingos, "Learning Markov logic network structure via hypergraph lifting",
ICML 2009.

    python benchmarks/structure_learning.py [imdb uwcse cora kinships nations umls]
                                            [--systems lhl,lapis,…] [--folds 1,5] [--out FOLDER]
                                            [--checkpoints FOLDER] [--seconds N]
                                            [--inference exact|gibbs]

Rules are learned on all folds except one. In the held-out fold the atoms of each predicate in turn
are predicted from all others (Actor and Director together, Student and Professor together; in Cora
the four Same predicates). CLL and AUC-PR are over all these atoms; the table gives means over folds
and standard deviations. Predicates of equality of constants are removed from IMDB and UW-CSE.
kinships, nations and umls have no folds: rules are learned from the training facts. For each
predicate the atoms that are not training facts are predicted, with the held-out facts as the truth.
These data have many dense relations, so our learner gets two literals there instead of three.

The LHL systems have the paper's parameters. FindPaths has limits only on the ground hypergraph
(LHL-FindPaths), where the paper's took 4 hours on IMDB. BUSL is run with and without dangling
variables, as in the paper, which reports the better of the two. Probabilities are exact if that is
possible, otherwise by Gibbs sampling, on the ground network or, if a rule is too large to ground,
by counts. The line of a predicate gives the method and the reason. `--inference gibbs` samples
everything, as the paper did: a million samples, here at most 20 seconds, of ten chains (Alchemy's
default). A line says if the chains disagree.

With `--out` the twenty heaviest rules of each data set are written. With `--checkpoints` a search
is saved to a folder and resumed by the next run. `--seconds` ends it (a star marks such rules).
Seconds are CPU seconds. Data are read from LAPIS_DATA.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from protocol import DATA, has_data

import lapis
from lapis.errors import LapisWarning, TooLarge
from lapis.evaluation.metrics import average_precision, conditional_log_likelihood
from lapis.evaluation.predictions import Predictions, WorldPrediction, predict_example
from lapis.inference.marginals import InferenceOptions
from lapis.learning.examples import Example, build_examples
from lapis.structure.learned_rules import LearnedRules

SECONDS = 5.0  # of sampling for a predicate
MEMORY = 4 << 30  # bytes of a ground network
# Gibbs sampling in the paper's way: a million samples, whose standard error is at most 0.0005.
PAPER_SAMPLING = InferenceOptions(
    precision=0.0005, max_samples=1_000_000, num_chains=10, time_limit=20.0, max_memory=MEMORY
)


class DataSet(NamedTuple):
    """The files of the facts, and the groups of predicates that are predicted together."""

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
    "lapis": {"method": "lapis", "max_literals": 3},
    "lhl": {"method": "lhl"},
    "lhl-limited": {"method": "lhl", "max_examples": 30, "max_variables": 6},
    "lhl-noheu": {"method": "lhl", "min_support": 0, "max_atoms": 0},
    "lhl-findpaths": {"method": "lhl", "lifting": "ground"},
    "lhl-liftgraph": {"method": "lift-graph"},
    "busl": {"method": "busl"},
    "busl-closed": {"method": "busl", "dangling": "drop"},
    "busl-best": {"method": "busl", "dangling": "best"},
    "msl": {"method": "msl", "max_literals": 3},
}
# The paper's parameters where they are not those of all data: ω, μ, π and π′.
LHL: dict[str, dict[str, Any]] = {
    "imdb": {"penalty": 0.1, "first_penalty": 0.01},
    "cora": {"max_literals": 4},
    "kinships": {"max_literals": 2},
    "nations": {"max_literals": 2, "min_support": 5},  # no relation has more than a hundred facts
    "umls": {"max_literals": 2},
}
BUSL: dict[str, dict[str, Any]] = {"imdb": {"penalty": 0.1}}  # π of LHL
OWN: dict[str, dict[str, Any]] = {  # for our own: it is told what will be asked
    "imdb": {"joint_targets": "actor,director"},
    "uwcse": {"joint_targets": "student,professor"},
    "cora": {"query": SETS["cora"].asked, "conditioning": "predicates", "max_literals": 4,
             "dangling": "drop"},
    "kinships": {"max_literals": 2, "dangling": "drop"},
    "nations": {"max_literals": 2, "dangling": "drop"},
    "umls": {"max_literals": 2, "dangling": "drop"},
}  # fmt: skip
# Of the paper: AUC, CLL, and minutes for each fold.
PAPER = {
    "imdb": {"lhl": (0.69, -0.13, 15.63), "lhl-noheu": (0.69, -0.13, 39.0),
             "lhl-findpaths": (0.69, -0.13, 242.41),
             "lhl-liftgraph": (0.45, -0.27, 0.18), "busl": (0.47, -0.14, 4.69),
             "msl": (0.41, -0.17, 0.17)},
    "uwcse": {"lhl": (0.22, -0.04, 453.0), "lhl-noheu": (0.22, -0.04, 9494.0),
              "lhl-findpaths": (0.19, -0.04, 3401.0),
              "lhl-liftgraph": (0.14, -0.06, 0.06), "busl": (0.21, -0.05, 778.0),
              "msl": (0.18, -0.57, 128.0)},
    "cora": {"lhl": (0.87, -0.26, 889.0), "lhl-noheu": (0.87, -0.26, 2039.0),
             "lhl-findpaths": (0.91, -0.17, 356130.0), "busl": (0.17, -0.37, 1119.0),
             "msl": (0.17, -0.37, 3936.0)},
}  # fmt: skip


class Outcome(NamedTuple):
    """The results of one fold."""

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
    model: lapis.Model,
    found: LearnedRules,
    data: lapis.Database,
    asked: Sequence[tuple[str, ...]],
    inference: str,
) -> tuple[float, float, int]:
    """Return CLL and AUC of all predicted atoms, and the number of sampled groups."""
    parts: list[Predictions] = []
    sampled = 0
    hidden = [name for name in found.model.predicates if name not in model.predicates]
    for group in asked:
        begin = time.process_time()
        [example] = build_examples(found.model, [data], group, unobserved=hidden)
        world, why = predict(example, inference)
        parts.append(world.predictions)
        sampled += not world.exact
        truth = world.predictions.truth
        if len(truth):
            cll = conditional_log_likelihood(world.predictions.log_odds, truth)
            print(f"    {','.join(group)}: CLL {cll:.4f}, {len(truth):,} atoms, by "
                  f"{world.method}{why}, {time.process_time() - begin:.1f} s",
                  flush=True)  # fmt: skip
    truth = np.concatenate([part.truth for part in parts])
    odds = np.concatenate([part.log_odds for part in parts])
    probability = np.concatenate([part.probability for part in parts])
    cll, auc = conditional_log_likelihood(odds, truth), average_precision(probability, truth)
    assert cll is not None
    return cll, auc or 0.0, sampled


def predict(example: Example, inference: str) -> tuple[WorldPrediction, str]:
    """Predict by the first possible method; also return why earlier methods are not possible."""
    ways = [
        ("exact", InferenceOptions(max_memory=MEMORY)),
        ("gibbs", InferenceOptions(time_limit=SECONDS, max_memory=MEMORY)),
        ("count-gibbs", InferenceOptions(time_limit=SECONDS)),
    ]
    if inference == "gibbs":
        ways[:2] = [("gibbs", PAPER_SAMPLING)]
    why = ""
    for method, options in ways[:-1]:
        try:
            world = predict_example(example, method, options)
        except TooLarge as error:
            why = f" ({error.message})"
            continue
        apart = "" if world.diagnostics.get("converged", True) else ", chains do not agree"
        return world, why + apart
    return predict_example(example, *ways[-1]), why


def options_of(name: str, system: str) -> dict[str, Any]:
    """Return the options of a system, which override those of the data set."""
    own = {"lapis": OWN, "lhl": LHL, "busl": BUSL}.get(SYSTEMS[system]["method"], {}).get(name, {})
    return SYSTEMS[system] | own if system == "lapis" else own | SYSTEMS[system]


class Limits(NamedTuple):
    """The limits of a search, and the method of inference."""

    folder: Path | None  # of checkpoints
    seconds: float | None
    inference: str = "exact"

    def learn(
        self, name: str, system: str, model: lapis.Model, train: Sequence[lapis.Database]
    ) -> tuple[LearnedRules, float]:
        """Return the rules and the CPU seconds."""
        begin = time.process_time()
        found = lapis.learn_structure(
            model, train, jobs=1, time_limit=self.seconds,
            checkpoint=None if self.folder is None else self.folder / f"{name}-{system}.ckpt",
            **options_of(name.partition("-")[0], system),
        )  # fmt: skip
        return found, time.process_time() - begin


def run_folds(name: str, system: str, chosen: Sequence[int], limits: Limits) -> list[Outcome]:
    model, worlds = read_set(name)
    asked = list(groups(name, model))
    outcomes = []
    for fold in chosen:
        train = [world for number, world in enumerate(worlds) if number != fold]
        found, seconds = limits.learn(f"{name}-{fold + 1}", system, model, train)
        cll, auc, sampled = judge(model, found, worlds[fold], asked, limits.inference)
        outcomes.append(Outcome(auc, cll, seconds, found, sampled))
        print(f"  {name} {system} fold {fold + 1}: AUC {auc:.3f}, CLL {cll:.4f}, "
              f"{seconds:.1f} s, {found.summary()}{' *' if found.interrupted else ''}",
              flush=True)  # fmt: skip
    return outcomes


def run_held_out(name: str, system: str, limits: Limits) -> list[Outcome]:
    """Predict the atoms that are not training facts; the held-out facts are the truth."""
    model, (train, valid, test) = read_set(name)
    found, seconds = limits.learn(name, system, model, [train])
    held = true_atoms(model, valid) | true_atoms(model, test)
    hidden = [each for each in found.model.predicates if each not in model.predicates]
    probabilities, truths = [], []
    sampled = 0
    for predicate in model.predicates:
        own = [rule for rule in found.model.rules if hidden or f"{predicate}(" in rule.text]
        answer = lapis.infer(  # what does not mention it is the same in all worlds
            found.model.with_rules(tuple(own)), train, query=[predicate, *hidden],
            time_limit=SECONDS, num_chains=2,
        )  # fmt: skip
        sampled += not answer.exact
        asked = [name.startswith(f"{predicate}(") for name in answer.names]
        probabilities.append(answer.probability[asked])
        truths += [name in held for name, kept in zip(answer.names, asked, strict=True) if kept]
    probability, truth = np.concatenate(probabilities), np.array(truths)
    near = np.clip(probability, 1e-6, 1 - 1e-6)
    cll = conditional_log_likelihood(np.log(near) - np.log1p(-near), truth)
    auc = average_precision(probability, truth) or 0.0
    assert cll is not None
    print(f"  {name} {system}: AUC {auc:.3f}, CLL {cll:.4f}, {len(truth):,} atoms, "
          f"{int(truth.sum()):,} true, {sampled} predicates sampled, {seconds:.1f} s, "
          f"{found.summary()}{' *' if found.interrupted else ''}", flush=True)  # fmt: skip
    return [Outcome(auc, cll, seconds, found, sampled)]


def true_atoms(model: lapis.Model, database: lapis.Database) -> set[str]:
    problem = lapis.build_problem(model, database)
    names = problem.domains["entity"].constants
    return {
        f"{predicate}({names[left]},{names[right]})"
        for predicate in model.predicates
        for left, right in problem.evidence[predicate].true.tolist()
    }


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


def write_strongest(folder: Path, name: str, system: str, outcome: Outcome) -> None:
    """Write the twenty heaviest rules, learned from all folds except the first chosen one."""
    found = outcome.found
    rules = [rule for rule in found.rules if rule.gain is not None][:20]
    number = sum(rule.gain is not None for rule in found.rules)
    lines = [
        f"# {name}: the heaviest rules of {system}",
        "",
        f"{number} rules, score {found.unit_value:.4f} → {found.value:.4f}"
        f"{', stopped before the end' if found.interrupted else ''}.",
        "",
    ]
    lines += ["| weight | gain | support | rule |", "|---|---|---|---|"]
    lines += [f"| {r.weight:.3f} | {r.gain:.4f} | {r.support:,} | `{r.text}` |" for r in rules]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rules-{name}-{system}.md"
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=["imdb"], choices=list(SETS))
    parser.add_argument("--systems", default="lapis,lhl,busl,msl")
    parser.add_argument("--folds", default="1,2,3,4,5")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--inference", default="exact", choices=["exact", "gibbs"])
    arguments = parser.parse_args()
    if not has_data(DATA):
        return
    warnings.simplefilter("ignore", LapisWarning)
    chosen = [int(fold) - 1 for fold in arguments.folds.split(",")]
    limits = Limits(arguments.checkpoints, arguments.seconds, arguments.inference)
    rows = []
    for name in arguments.sets:
        for system in arguments.systems.split(","):
            if SETS[name].folds:
                found = run_folds(name, system, chosen, limits)
            else:
                found = run_held_out(name, system, limits)
            rows.append((name, system, found))
            if arguments.out is not None:
                write_strongest(arguments.out, name, system, found[0])
    print("\ndata      system          AUC            CLL               time       rules   paper")
    for name, system, found in rows:
        show(name, system, found)


if __name__ == "__main__":
    main()
