"""Recursive fields on real data: the next step that chapter 3 of Lowd's thesis names.

A Markov logic theory becomes a field (`fields.from_model`), whose weights are learned at all
levels. Network and field predict the same atoms of a held-out fold.

- IMDB: rules learned on the training folds by our own learner. Actor and director are predicted
  together, gender, genre and workedUnder each, given all other predicates.
- UW-CSE: the hand-written theory about advisedBy, `models/uwcse.mln`. advisedBy is predicted given
  all other predicates, as in chapter 4 of the thesis.

Both learn by pseudo-likelihood of the predicted atoms on the training folds. The network has a
Gaussian prior around zero. The prior of the field is centred at the field of the learned network,
so that data revise the theory. Width of each prior and sharpness are chosen on the training folds:
one of them is predicted from the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import protocol
from benchmarks.papers.cells import Cell, Choice, Experiment, Outcome, Results, Section, run
from benchmarks.papers.folds import FOLDS, Chosen, Split, choose_setting, split_of
from benchmarks.papers.markdown import minus, number, table
from benchmarks.papers.scoring import paired_p_value, spread

import lapis
from lapis import Database, Model, fields
from lapis.evaluation.score import Score

GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "imdb": (("actor", "director"), ("gender",), ("genre",), ("workedUnder",)),
    "uwcse": (("advisedBy",),),
}
WIDTHS = (10.0, 3.0, 1.0)  # of the prior of a network
REVISIONS = ((3.0, 3.0), (3.0, 1.0), (3.0, 0.3), (8.0, 3.0), (8.0, 1.0), (8.0, 0.3))
ITERATIONS = 60
PRECISION = 0.01  # standard error of sampled probabilities
CHOICE_PRECISION = 0.03
THEORY, NETWORK, FIELD = "theory", "network", "field"
MEASURES = ("cll", "auc", "given_rest")


class Models(NamedTuple):
    """Both models of a group, and how their settings were chosen."""

    network: Model
    field: fields.Field
    width: Chosen
    revision: Chosen


def run_fold(data: str, test: str, max_literals: int, folds: int) -> Outcome:
    """Learn both models on the training folds and score them on the held-out fold."""
    split = split_of(data, test)
    split = Split(test, split.train[:folds])
    worlds = {name: read_world(data, name) for name in (test, *split.train)}
    theory = find_theory(data, [worlds[name] for name in split.train], max_literals)
    figures: dict[str, float] = {"rules": float(len(theory.rules))}
    settings: dict[str, object] = {"theory": [rule.text for rule in theory.rules]}
    for group in GROUPS[data]:
        name = "+".join(group)
        found = learn_models(theory, worlds, split, group)
        scores = {
            NETWORK: score_network(found.network, worlds[test], group, PRECISION),
            FIELD: score_field(found.field, worlds[test], group, PRECISION),
        }
        if data == "imdb":  # whose rules come with weights
            scores[THEORY] = score_network(theory, worlds[test], group, PRECISION)
        for which, score in scores.items():
            for measure, value in zip(MEASURES, measure_score(score, group), strict=True):
                figures[f"{name}/{which}/{measure}"] = value
        settings[name] = {
            "width": found.width.setting,
            "widths": found.width.scores,
            "revision": found.revision.setting,
            "revisions": found.revision.scores,
        }
    figures["gain"] = mean_gain(figures, data)
    return Outcome(figures, settings)


def mean_gain(figures: dict[str, float], data: str) -> float:
    """Return the mean over groups of CLL of the field minus that of the network."""
    names = ["+".join(group) for group in GROUPS[data]]
    return sum(
        figures[f"{name}/{FIELD}/cll"] - figures[f"{name}/{NETWORK}/cll"] for name in names
    ) / len(names)


def read_world(data: str, fold: str) -> Database:
    return Database.read(protocol.DATA / data / f"{fold}.db")


def find_theory(data: str, worlds: Sequence[Database], max_literals: int) -> Model:
    """Return the theory that both models start from."""
    if data == "uwcse":
        return lapis.read(protocol.MODELS / "uwcse.mln")
    declarations = lapis.read(protocol.DATA / data / f"{data}.mln")
    return lapis.learn_structure(
        declarations, list(worlds), max_literals=max_literals, joint_targets="actor,director",
        jobs=1,
    ).model  # fmt: skip


def learn_models(
    theory: Model, worlds: dict[str, Database], split: Split, group: tuple[str, ...]
) -> Models:
    """Choose settings on one inner split, then learn on all training folds."""
    inner = split.inner(1)

    def score_width(width: float, each: Split) -> float:
        network = learn_network(theory, [worlds[name] for name in each.train], group, width)
        return cll_of(score_network(network, worlds[each.test], group, CHOICE_PRECISION))

    width = choose_setting(WIDTHS, inner, score_width)

    def score_revision(revision: tuple[float, float], each: Split) -> float:
        train = [worlds[name] for name in each.train]
        network = learn_network(theory, train, group, width.setting)
        field = learn_field(network, train, group, *revision)
        return cll_of(score_field(field, worlds[each.test], group, CHOICE_PRECISION))

    revision = choose_setting(REVISIONS, inner, score_revision)
    train = [worlds[name] for name in split.train]
    network = learn_network(theory, train, group, width.setting)
    return Models(network, learn_field(network, train, group, *revision.setting), width, revision)


def learn_network(
    theory: Model, train: list[Database], group: tuple[str, ...], width: float
) -> Model:
    return lapis.learn(theory, train, group, objective="pseudo", prior=f"gaussian:{width:g}").model


def learn_field(
    network: Model, train: list[Database], group: tuple[str, ...], sharpness: float, width: float
) -> fields.Field:
    return fields.learn(
        fields.from_model(network, sharpness=sharpness), train, group, prior=f"gaussian:{width:g}",
        prior_mean="initial", max_iterations=ITERATIONS,
    ).field  # fmt: skip


def score_network(model: Model, world: Database, group: tuple[str, ...], precision: float) -> Score:
    return lapis.score(model, world, group, likelihood=False, precision=precision)


def score_field(
    field: fields.Field, world: Database, group: tuple[str, ...], precision: float
) -> Score:
    return fields.score(field, world, group, likelihood=False, precision=precision)


def cll_of(score: Score) -> float:
    return math.nan if score.cll is None else score.cll


def measure_score(score: Score, group: tuple[str, ...]) -> tuple[float, float, float]:
    """Return CLL and AUC given the other predicates, and CLL given all other atoms."""
    own = [each for each in score.predicates if each.predicate in group]
    given_rest = sum(each.pseudo_log_likelihood for each in own) / sum(
        each.num_atoms for each in own
    )
    return cll_of(score), math.nan if score.auc_pr is None else score.auc_pr, given_rest


def list_cells() -> list[Cell]:
    return [
        Cell(
            f"{data}/{test}",
            run_fold,
            {"data": data, "test": test, "max_literals": 3, "folds": 4},
            seconds=200,
        )
        for data in ("uwcse", "imdb")
        for test in FOLDS[data]
    ]


class Line(NamedTuple):
    """The scores of a group by all folds."""

    data: str
    group: str
    scores: dict[tuple[str, str], list[float]]  # by model and measure


def list_lines(results: Results) -> list[Line]:
    lines = []
    for data in ("imdb", "uwcse"):
        for group in GROUPS[data]:
            name = "+".join(group)
            records = [results[f"{data}/{test}"] for test in FOLDS[data]]
            scores = {
                (which, measure): [each.figure(f"{name}/{which}/{measure}") for each in records]
                for which in (THEORY, NETWORK, FIELD)
                for measure in MEASURES
            }
            lines.append(Line(data, name, scores))
    return lines


def write_section(results: Results) -> Section:
    lines = list_lines(results)
    parts = [
        INTRODUCTION,
        write_table(lines, "cll", "**CLL given the other predicates**"),
        write_table(lines, "auc", "**AUC given the other predicates** (average precision)"),
        write_table(lines, "given_rest", "**CLL of an atom given all other atoms**"),
        write_choices(results),
        write_failures(results),
    ]
    return Section("\n".join(parts), write_verdict(lines), CHOICES)


INTRODUCTION = """\
The thesis measured fields on generated data only and intended to “apply RRFs to real datasets to
better understand how they work in practice, and to see if their greater representational power
yields better models”. So the paper has no figures for this table.

The theory of IMDB is learned on the training folds by the learner of Lapis, which has the best
scores there. That of UW-CSE is the hand-written theory about `advisedBy`. The network has the rules
of the theory and weights by pseudo-likelihood; the field starts at this network. The column
“theory” has the weights that come with the learned rules. `movie` is not predicted: given the rest,
rules couple nearly all its atoms, and chains of the field do not mix.

Means and standard deviations over the five held-out folds. p is that of a one-tailed paired t-test
over the folds that the field is better than the network, and the other way round. Probabilities of
networks are exact where that is possible; those of fields are sampled to a standard error of .01,
so the last table, which needs no sampling, is the exact comparison.
"""


def write_table(lines: Sequence[Line], measure: str, heading: str) -> str:
    rows = []
    for line in lines:
        ours, others = line.scores[FIELD, measure], line.scores[NETWORK, measure]
        found = {which: spread(line.scores[which, measure]) for which in (THEORY, NETWORK, FIELD)}
        cells = [minus(f"{found[which]:4}") for which in (THEORY, NETWORK, FIELD)]
        if not found[FIELD].count:
            cells = ["–", "not run", "not run"]
        p_values = paired_p_value(ours, others), paired_p_value(others, ours)
        rows.append([f"{line.data}, {line.group}", *cells, *(number(p) for p in p_values)])
    head = ["predicted", "theory", "network", "field", "p, field better", "p, network better"]
    return f"{heading}:\n\n" + table(head, rows)


def write_choices(results: Results) -> str:
    """Return the settings that were chosen in each fold."""
    rows = []
    for data in ("imdb", "uwcse"):
        for group in GROUPS[data]:
            name = "+".join(group)
            cells = []
            for test in FOLDS[data]:
                settings = results[f"{data}/{test}"].settings.get(name)
                if settings is None:
                    cells.append("–")
                    continue
                sharpness, width = settings["revision"]
                cells.append(f"{settings['width']:g}; {sharpness:g}, {width:g}")
            rows.append([f"{data}, {name}", *cells])
    head = ["predicted", *(f"fold {place}" for place in range(1, 6))]
    return (
        "**Chosen settings** in each fold: width of the network's prior; sharpness of the field "
        "and width of its prior:\n\n" + table(head, rows)
    )


def write_failures(results: Results) -> str:
    failed = [
        f"- {key}: {record.status} {record.reason}"
        for key, record in results.records.items()
        if not record.has_result
    ]
    return "\n".join(["Folds without a result:", "", *failed, ""]) if failed else ""


class Outcomes(NamedTuple):
    """In how many comparisons of a measure the field or the network is significantly better."""

    field: int
    network: int
    count: int


def count_outcomes(lines: Sequence[Line], measure: str) -> Outcomes:
    pairs = [(line.scores[FIELD, measure], line.scores[NETWORK, measure]) for line in lines]
    return Outcomes(
        sum(paired_p_value(field, network) < 0.05 for field, network in pairs),
        sum(paired_p_value(network, field) < 0.05 for field, network in pairs),
        sum(spread(field).count > 0 for field, _ in pairs),
    )


def write_verdict(lines: Sequence[Line]) -> str:
    parts = []
    for measure, name in (("cll", "CLL"), ("auc", "AUC"), ("given_rest", "CLL given all atoms")):
        found = count_outcomes(lines, measure)
        if found.count:
            parts.append(
                f"{name}: field better in {found.field}, network in {found.network} of "
                f"{found.count} (p < .05)"
            )
    return "not in the thesis; " + ("; ".join(parts) or "not run")


CHOICES = (
    Choice(
        "width of the priors, sharpness of fields",
        "on the training folds: the first of them predicted from the others, by CLL",
        True,
    ),
    Choice(
        "the candidates for sharpness and width",
        "after trials on one pair of folds of each data set, also with priors around zero, under "
        "which fields fitted the training folds too closely",
        False,
    ),
    Choice(
        "learner of the rules of IMDB", "the best on these folds in the table of structure", False
    ),
    Choice("theory of UW-CSE", "written by hand with all areas in view", False),
)

EXPERIMENT = Experiment(
    "fields_real",
    "Recursive fields on UW-CSE and IMDB",
    "thesis",
    list_cells,
    write_section,
    Cell("smallest", run_fold, {"data": "imdb", "test": "fold1", "max_literals": 2, "folds": 2}),
)

if __name__ == "__main__":
    run(EXPERIMENT)
