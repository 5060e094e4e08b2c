"""Learners of weights on Cora and WebKB: Figure 4.1 of Lowd's thesis, all four panels.

A cell is a learner on a fold that is held out. VP, CD, VP-PW and CD-PW have a learning rate, which
is chosen on one of the training folds, with weights learned on the others. Then the learner runs on
all training folds. The weights of some of its iterations, evenly spread over the logarithm of time,
are kept during the run and evaluated on the held-out fold afterwards.

The widths of the priors are the same for all learners. They are chosen on the same training fold,
by PSCG, in a cell of their own. A learner whose cell runs before it repeats the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks.papers.cells import (
    Cell,
    Choice,
    Experiment,
    Outcome,
    Record,
    Results,
    Section,
    read_results,
    run,
)
from benchmarks.papers.folds import Split, choose_setting, split_of
from benchmarks.papers.learning_tasks import (
    DATA,
    SMOOTHING,
    AnsweredWorld,
    LearningTask,
    Quality,
    Samples,
    Widths,
    ground_answers,
    ground_likelihoods,
    join_folds,
    judge,
    learn,
    predict_as_lapis,
    predict_by_mcsat,
    read_task,
    spread_visits,
)
from benchmarks.papers.markdown import minus, number, shown, table
from benchmarks.papers.pictures import Curve, Panel, draw_panels
from benchmarks.papers.scoring import spread

from lapis.errors import LapisError

NAME = "thesis_figure41"
LEARN_SECONDS = 30.0
TUNE_SECONDS = 6.0  # of a learning rate
WIDTH_SECONDS = 10.0  # of a pair of widths
MAX_RATES = 6  # tried for one learner
POINTS = 6  # of a curve
FINAL = Samples(100, 1000)  # section 4.3.2
ON_THE_WAY = Samples(20, 80)
FOR_RATES = Samples(20, 80)
FOR_WIDTHS = Samples(50, 150)
OWN_SAMPLES = 150  # a chain
TEST_FOLDS = (("cora", "fold1"), ("webkb", "cornell"))
TITLES = {"cora": "Cora", "webkb": "WebKB"}
GRIDS = {
    "cora": [Widths(word, pairs) for word in (0.1, 1.0) for pairs in (1.0, 0.1, 0.01, 0.001)],
    "webkb": [Widths(word, pairs) for word in (0.1, 0.3, 1.0) for pairs in (0.3, 1.0, 3.0)],
}


class CurveLearner(NamedTuple):
    """A learner of the figure."""

    label: str
    optimizer: str
    expectation: str
    options: Mapping[str, float] = {}
    first_rates: Mapping[str, float] = {}  # by data set; none if it has no learning rate


PLAIN = {"cora": 1e-6, "webkb": 1e-4}
PER_WEIGHT = {"cora": 1e-1, "webkb": 1e-1}
VARIANCES = {"max_covariances": 0}  # the preconditioner of the thesis
LEARNERS = {
    "pscg": CurveLearner("PSCG", "pscg", "mcsat", VARIANCES),
    "dn": CurveLearner("DN", "dn", "mcsat"),
    "scg": CurveLearner("SCG", "scg", "mcsat", VARIANCES),
    "cd-pw": CurveLearner("CD-PW", "cd-pw", "mcsat", {}, PER_WEIGHT),
    "cd": CurveLearner("CD", "cd", "mcsat", {}, PLAIN),
    "vp-pw": CurveLearner("VP-PW", "vp-pw", "map", {}, PER_WEIGHT),
    "vp": CurveLearner("VP", "vp", "map", {}, PLAIN),
    "ours": CurveLearner("Lapis default", "pscg", "auto"),
}
ORDER = ("vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg", "ours")  # of the thesis


class Validation(NamedTuple):
    """A fold to validate on, predicted with weights that were learned on others."""

    task: LearningTask
    split: Split
    learner: CurveLearner
    seconds: float
    samples: Samples

    def scorer(self) -> Callable[[Mapping[str, float], Widths], Quality | None]:
        """Ground the folds once; return a function of options and widths, None if it diverges."""
        world = ground_answers(self.task, self.split.test)
        parts = ground_likelihoods(self.task, self.split.train, self.learner.expectation)

        def score(options: Mapping[str, float], widths: Widths) -> Quality | None:
            objective = join_folds(list(parts.values()))
            name = self.learner.optimizer
            try:
                visits, _ = learn(self.task, objective, name, options, widths, self.seconds)
            except LapisError as error:
                if error.code != "diverged":
                    raise
                return None
            return judge(world, predict_by_mcsat(world, visits[-1].weights, self.samples))

        return score


def validation_split(data: str, test: str) -> Split:
    """Return the first training fold, predicted from the others."""
    return split_of(DATA[data].folder, test).inner(1)[0]


def choose_widths(data: str, test: str, grid: Sequence[Sequence[float]], seconds: float) -> Outcome:
    """Choose the widths of the priors by the CLL of the validation fold, with PSCG."""
    chosen, qualities = find_widths(read_task(data), test, [Widths(*one) for one in grid], seconds)
    return Outcome(
        {
            "cll": qualities[str(chosen)].cll,
            "widths": list(qualities),
            "clls": [each.cll for each in qualities.values()],
            "aucs": [each.auc for each in qualities.values()],
        },
        {"widths": list(chosen), "validation": validation_split(data, test).test},
    )


def find_widths(
    task: LearningTask, test: str, grid: Sequence[Widths], seconds: float
) -> tuple[Widths, dict[str, Quality]]:
    split = validation_split(task.name, test)
    learner = LEARNERS["pscg"]
    score = Validation(task, split, learner, seconds, FOR_WIDTHS).scorer()
    qualities: dict[str, Quality] = {}

    def cll(widths: Widths, _: Split) -> float:
        quality = score(learner.options, widths)
        if quality is None:
            return math.nan
        qualities[str(widths)] = quality
        return quality.cll

    return choose_setting(grid, [split], cll).setting, qualities


def search_rate(first: float, score: Callable[[float], float]) -> tuple[float, dict[str, float]]:
    """Return the best power of ten around a first rate, and the scores of those that were tried.

    A neighbour of the best rate is tried until both are worse, or `MAX_RATES` were tried.
    """
    tried = {0: score(first)}
    while len(tried) < MAX_RATES:
        best = max(tried, key=lambda place: tried[place])
        left = [place for place in (best + 1, best - 1) if place not in tried]
        if not left:
            break
        tried[left[0]] = score(first * 10.0 ** left[0])
    best = max(tried, key=lambda place: tried[place])
    return first * 10.0**best, {f"{first * 10.0**place:.0e}": tried[place] for place in tried}


def draw_curve(
    data: str,
    test: str,
    learner: str,
    widths: Sequence[float] | None = None,
    learn_seconds: float = LEARN_SECONDS,
    tune_seconds: float = TUNE_SECONDS,
) -> Outcome:
    """Return CLL and AUC of the held-out fold after increasing times of learning."""
    task, method = read_task(data), LEARNERS[learner]
    own = read_widths(task, test) if widths is None else Widths(*widths)
    options, settings = dict(method.options), {"widths": list(own)}
    if method.first_rates:
        rate, tried = tune(task, test, method, own, tune_seconds)
        options["rate"] = rate
        settings |= {"rate": rate, "tried": tried}
    train = split_of(DATA[data].folder, test).train
    parts = ground_likelihoods(task, train, method.expectation)
    objective = join_folds(list(parts.values()))
    visits, reason = learn(task, objective, method.optimizer, options, own, learn_seconds)
    world = ground_answers(task, test)
    picked = spread_visits(visits, POINTS)
    qualities = [judge_by_mcsat(world, each.weights, ON_THE_WAY) for each in picked[:-1]]
    last = picked[-1].weights
    final = judge_by_mcsat(world, last, FINAL)
    qualities.append(final)
    beside = judge(world, predict_as_lapis(world, last, OWN_SAMPLES))
    return Outcome(
        {
            "cll": final.cll,
            "auc": final.auc,
            "own_cll": beside.cll,
            "own_auc": beside.auc,
            "relations": {name: list(pair) for name, pair in final.relations.items()},
            "iterations": visits[-1].iteration,
            "seconds": [each.seconds for each in picked],
            "clls": [each.cll for each in qualities],
            "aucs": [each.auc for each in qualities],
            "ended": reason,
            "weights": len(task.parameters),
        },
        settings,
    )


def judge_by_mcsat(world: AnsweredWorld, weights: np.ndarray, samples: Samples) -> Quality:
    return judge(world, predict_by_mcsat(world, weights, samples))


def read_widths(task: LearningTask, test: str) -> Widths:
    """Return the widths of the record of a held-out fold; choose them if there is none."""
    record = read_results(NAME)[widths_key(task.name, test)]
    if record.has_result:
        return Widths(*record.settings["widths"])
    return find_widths(task, test, GRIDS[task.name], WIDTH_SECONDS)[0]


def tune(
    task: LearningTask, test: str, learner: CurveLearner, widths: Widths, seconds: float
) -> tuple[float, dict[str, float]]:
    """Choose the learning rate by the CLL of the validation fold."""
    split = validation_split(task.name, test)
    score = Validation(task, split, learner, seconds, FOR_RATES).scorer()

    def cll(rate: float) -> float:
        quality = score({**learner.options, "rate": rate}, widths)
        return -math.inf if quality is None else quality.cll

    return search_rate(learner.first_rates[task.name], cll)


def widths_key(data: str, test: str) -> str:
    return f"{data}/{test}/widths"


def list_cells() -> list[Cell]:
    """Return the choice of widths for each held-out fold, then the learners."""
    cells = []
    for data, test in TEST_FOLDS:
        place = {"data": data, "test": test}
        grid = [list(widths) for widths in GRIDS[data]]
        arguments = {**place, "grid": grid, "seconds": WIDTH_SECONDS}
        cells.append(Cell(widths_key(data, test), choose_widths, arguments, 240.0, 12.0))
        for name, learner in LEARNERS.items():
            limit = 300.0 if learner.first_rates else 150.0
            arguments = {**place, "learner": name}
            cells.append(Cell(f"{data}/{test}/{name}", draw_curve, arguments, limit, 12.0))
    return cells


class Ordering(NamedTuple):
    """A statement of section 4.3.4 about which learner is better than which."""

    data: str
    text: str
    pairs: Sequence[tuple[str, str]]  # the better learner first


def product(better: Sequence[str], worse: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, other) for one in better for other in worse if one != other]


THESIS_LEARNERS = ORDER[:-1]
ORDERINGS = [
    *(
        Ordering(data, "PSCG is the most accurate", product(("pscg",), THESIS_LEARNERS))
        for data in TITLES
    ),
    *(
        Ordering(
            data, "VP and CD are worse than DN and PSCG", product(("dn", "pscg"), ("vp", "cd"))
        )
        for data in TITLES
    ),
    Ordering(
        "cora",
        "learners that use true counts or variances are better than the others",
        product(("vp-pw", "cd-pw", "dn", "pscg"), ("vp", "cd", "scg")),
    ),
    Ordering(
        "webkb", "a rate for each weight makes VP and CD worse", [("vp", "vp-pw"), ("cd", "cd-pw")]
    ),
]
SAME_BIB = {"pscg": 0.990, "dn": 0.992, "cd-pw": 0.991}  # AUC after ten hours, section 4.3.4
BEST_SAME_BIB = 0.992
PAGE_FOLDS = tuple(sorted(TEST_FOLDS))
LOWEST_CLL = -1.5  # of the picture
PICTURE = "thesis_figure41.png"


def write_section(results: Results) -> Section:
    tables = "\n".join(write_fold(results, data, test) for data, test in PAGE_FOLDS)
    rows = [
        [
            TITLES[claim.data],
            claim.text,
            *(write_held(results, claim, metric) for metric in ("cll", "auc")),
        ]
        for claim in ORDERINGS
    ]
    claims = table(["data", "the thesis states", "pairs that hold, CLL", "AUC"], rows)
    picture = f"![CLL and AUC of the learners against the time of learning](papers/{PICTURE})"
    text = f"""
The thesis learns for ten hours with all training folds and prints curves without a table. Here each
learner has {LEARN_SECONDS:.0f} processor seconds, without grounding. The weights of {POINTS}
iterations are evaluated on the held-out fold, by one chain of MC-SAT as in section 4.3.2:
{FINAL.burn_in} samples of burn-in and {FINAL.kept:,} samples for the last point,
{ON_THE_WAY.burn_in} and {ON_THE_WAY.kept} for the others. Probabilities are fractions of samples,
averaged with a fair coin of weight {SMOOTHING:g}. "Lapis" evaluates the same last weights by the
inference of Lapis: exact where tables fit, else two chains and means of P(atom | rest). "Lapis
default" is the learner that `lapis learn` chooses, PSCG with expected counts by `auto`.

Deviations: one held-out fold of each data set, not all. Learning rates are chosen by the
CLL of the validation fold alone, after {TUNE_SECONDS:.0f} seconds (thesis: four hours), from powers
of ten; the thesis chooses one by CLL and one by AUC. Word-specific rules have a prior width of
their own, and so have transitivity (Cora) and the rules about two classes (WebKB); the thesis has
one width for a data set. Runs of learners that converge end early. The rules of Cora are written
after the description in the thesis.

The thesis validates on one fold, and so do we. On Cora this is fragile: folds differ in how alike
different papers look, and the weight of transitivity decides whole clusters
([priors of dense rules](learning-measurements.md#priors-of-dense-rules)). Widths that suit the
validation fold can be too wide for the held-out fold. Learners then get worse with time, as the
thesis reports of some of its own. "Best" are the greatest figures of the curve.

{picture}

{f"Points with a CLL below {minus(f'{LOWEST_CLL:g}')} are outside the picture."}

{tables}
Orderings that section 4.3.4 states, at the last points. A pair holds if the figure of the better
learner is larger; of pairs of which both cells have a result.

{claims}
"""
    return Section(text, verdict(results), choices(results))


def write_fold(results: Results, data: str, test: str) -> str:
    """Return the table of a held-out fold: the last point of each learner."""
    is_cora = data == "cora"
    head = ["learner", "CLL", "AUC", "best CLL", "best AUC", "Lapis: CLL", "AUC", "iterations"]
    head += ["ended by", "rate"]
    if is_cora:
        head[5:5] = ["AUC SameBib", "thesis"]
    rows = []
    for name in ORDER:
        record = results[f"{data}/{test}/{name}"]
        if not record.has_result:
            rows.append([LEARNERS[name].label, shown(record, str), *[""] * (len(head) - 2)])
            continue
        rate = record.settings.get("rate")
        row = [
            LEARNERS[name].label,
            number(record.figure("cll")),
            number(record.figure("auc")),
            number(max(record.figures["clls"])),
            number(max(record.figures["aucs"])),
            number(record.figure("own_cll")),
            number(record.figure("own_auc")),
            str(record.figures["iterations"]),
            str(record.figures["ended"]),
            "" if rate is None else minus(f"{rate:.0e}"),
        ]
        if is_cora:
            row[5:5] = [number(same_bib(record)), number(SAME_BIB.get(name, math.nan))]
        rows.append(row)
    return f"{TITLES[data]}, {test} held out; {describe_widths(results, data, test)}:\n\n" + table(
        head, rows
    )


def same_bib(record: Record) -> float:
    if not record.has_result:
        return math.nan
    return float(record.figures["relations"]["SameBib"][1])


def describe_widths(results: Results, data: str, test: str) -> str:
    record = results[widths_key(data, test)]
    if not record.has_result:
        return f"widths {shown(record, str)}"
    word, relation = record.settings["widths"]
    other = "transitivity" if data == "cora" else "class pairs"
    return f"prior widths {word:g} (words) and {relation:g} ({other})"


def held_pairs(results: Results, claim: Ordering, metric: str) -> tuple[int, int]:
    """Return how many pairs hold and how many have two results, over all held-out folds."""
    held = known = 0
    for data, test in PAGE_FOLDS:
        if data != claim.data:
            continue
        for better, worse in claim.pairs:
            one = results[f"{data}/{test}/{better}"].figure(metric)
            other = results[f"{data}/{test}/{worse}"].figure(metric)
            known += not (math.isnan(one) or math.isnan(other))
            held += one > other
    return held, known


def write_held(results: Results, claim: Ordering, metric: str) -> str:
    held, known = held_pairs(results, claim, metric)
    return f"{held} of {known}" if known else "not run"


def verdict(results: Results) -> str:
    counts = {
        metric: np.sum([held_pairs(results, claim, metric) for claim in ORDERINGS], axis=0)
        for metric in ("cll", "auc")
    }
    if not counts["cll"][1]:
        return "not run"
    stated = ", ".join(f"{n[0]} of {n[1]} by {metric.upper()}" for metric, n in counts.items())
    found = {
        name: spread([same_bib(results[f"cora/{test}/{name}"]) for test in cora_folds()]).mean
        for name in ORDER
    }
    best = max(found, key=lambda name: -math.inf if math.isnan(found[name]) else found[name])
    return (
        f"orderings of learners that hold: {stated}; best AUC of SameBib at the end "
        f"{number(found[best])} by {LEARNERS[best].label} (thesis: {BEST_SAME_BIB})"
    )


def cora_folds() -> list[str]:
    return [test for data, test in PAGE_FOLDS if data == "cora"]


def choices(results: Results) -> list[Choice]:
    widths = "; ".join(
        f"{TITLES[data]} without {test}: {describe_widths(results, data, test)}"
        for data, test in PAGE_FOLDS
    )
    return [
        Choice(
            "learning rates",
            "CLL of the first training fold, learned on the others; powers of ten until both "
            f"neighbours are worse, at most {MAX_RATES}",
            True,
        ),
        Choice("prior widths", f"the same split, by PSCG, from a grid; {widths}", True),
        Choice(
            "a prior width of its own for transitivity",
            "earlier experiments, which had fold 1 of Cora in view, showed that wide priors fail",
            False,
        ),
        Choice("held-out folds", "the first of each data set; cost", True),
        Choice(
            "seconds of learning and tuning, samples on the way",
            "by the time available; a trial of the program had printed figures of the held-out "
            "folds for one pair of widths",
            False,
        ),
    ]


def draw(results: Results, folder: Path) -> None:
    """Draw CLL and AUC against time, one row for each held-out fold with a result."""
    panels = [
        Panel(
            f"{TITLES[data]}, {test} held out",
            "processor seconds of learning",
            label,
            curves,
            log_x=True,
        )
        for data, test in PAGE_FOLDS
        for label, figure in (("CLL", "clls"), ("AUC", "aucs"))
        if (curves := find_curves(results, data, test, figure))
    ]
    if panels:
        draw_panels(panels, folder / PICTURE)


def find_curves(results: Results, data: str, test: str, figure: str) -> dict[str, Curve]:
    """Return the curves of a panel; points below the lowest CLL are left out."""
    curves = {}
    for name in ORDER:
        record = results[f"{data}/{test}/{name}"]
        if not record.has_result:
            continue
        points = [
            (seconds, value)
            for seconds, value in zip(
                record.figures["seconds"], record.figures[figure], strict=True
            )
            if value is not None and value >= LOWEST_CLL
        ]
        if points:
            x, y = zip(*points, strict=True)
            curves[LEARNERS[name].label] = Curve(x, y)
    return curves


SMALLEST = Cell(
    "smallest",
    draw_curve,
    {
        "data": "cora",
        "test": "fold1",
        "learner": "cd",
        "widths": [1.0, 0.1],
        "learn_seconds": 0.2,
        "tune_seconds": 0.1,
    },
)
EXPERIMENT = Experiment(
    NAME,
    "Figure 4.1: learners of weights on Cora and WebKB",
    "thesis",
    list_cells,
    write_section,
    SMALLEST,
    draw,
)

if __name__ == "__main__":
    run(EXPERIMENT)
