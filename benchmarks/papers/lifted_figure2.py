"""Figure 2 of Van den Broeck, Meert and Davis (2013): time to learn friends and smokers.

The model is the rule of the paper's example 1, `Smokes(x) ^ Friends(x, y) => Smokes(y)`. A second
curve adds the two unit clauses, and a third learns the rule alone by pseudo-likelihood. A generated
database has five friendships for each person. The paper goes from 100 to 30,000 people; these cells
go on to a million, which are 10^12 ground atoms.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from benchmarks.papers.cells import (
    Cell,
    Choice,
    Experiment,
    Outcome,
    Record,
    Results,
    Section,
    run,
)
from benchmarks.papers.markdown import number, seconds, shown, table
from benchmarks.papers.pictures import Curve, Panel, draw_panels

import lapis

NAME = "lifted_figure2"
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PAPER_SIZE = 30_000  # the largest database of the paper
UNITS_SIZE = 100_000  # the largest database with unit clauses
LIMIT = 300.0  # processor seconds of a cell
PRIOR = "gaussian:10"
WARM_UP = 20  # people of a first run, so that the measured one contains no compilation
FRIENDS_EACH = 5
SMOKERS = 0.3  # share of the people who smoke
MIXED = 0.4  # probability to keep a pair of people of which one smokes

RULE = """
Friends(person, person)
Smokes(person)
Smokes(x) ^ Friends(x, y) => Smokes(y)
"""
UNITS = "Smokes(x)\nFriends(x, y)\n"


class Learner(NamedTuple):
    """A curve of the figure."""

    title: str
    model: str
    objective: str


LEARNERS: Mapping[str, Learner] = {
    "lifted": Learner("lifted likelihood, the rule", RULE, "likelihood"),
    "units": Learner("lifted likelihood, with unit clauses", RULE + UNITS, "likelihood"),
    "pseudo": Learner("pseudo-likelihood, the rule", RULE, "pseudo"),
}


def generate_people(size: int) -> lapis.Database:
    """Return a world of people, the same at every call."""
    rng = np.random.default_rng(size)
    smokes = rng.random(size) < SMOKERS
    one, other = rng.integers(0, size, (2, FRIENDS_EACH * size))
    kept = (smokes[one] == smokes[other]) | (rng.random(len(one)) < MIXED)
    names = np.array([f"P{person}" for person in range(size)])
    pairs = pandas.DataFrame({"one": names[one[kept]], "other": names[other[kept]]})
    return lapis.Database.from_frames(
        {
            "Smokes": pandas.DataFrame({"who": names[smokes]}),
            "Friends": pairs.drop_duplicates(),
        }
    )


def learn_sizes(sizes: list[int], learners: list[str]) -> Outcome:
    """Learn the weights for numbers of people; a point has a name such as lifted/100."""
    figures: dict[str, float | bool] = {}
    for learner in learners:
        learn_friends(learner, generate_people(WARM_UP))
    for size in sizes:
        world = generate_people(size)
        for learner in learners:
            found = learn_friends(learner, world)
            figures |= {f"{learner}/{size}/{name}": value for name, value in found.items()}
    return Outcome(figures)


def learn_friends(learner: str, world: lapis.Database) -> Mapping[str, float | bool]:
    """Return the figures of a point; seconds are of `lapis.learn` alone."""
    own = LEARNERS[learner]
    model = lapis.parse(own.model)
    began = time.process_time()
    fit = lapis.learn(model, world, objective=own.objective, prior=PRIOR, progress=False)
    return {
        "seconds": time.process_time() - began,
        "iterations": float(fit.iterations),
        "weight": float(fit.weights[0]),
        "exact": fit.exact,
        "converged": fit.converged,
    }


def list_cells() -> Sequence[Cell]:
    """Return a cell with the paper's sizes, and one for each larger size."""
    groups = [[size for size in SIZES if size <= PAPER_SIZE]]
    groups += [[size] for size in SIZES if size > PAPER_SIZE]
    return [
        Cell(
            str(max(sizes)),
            learn_sizes,
            {
                "sizes": sizes,
                "learners": [name for name in LEARNERS if is_listed(name, max(sizes))],
            },
            LIMIT,
        )
        for sizes in groups
    ]


def is_listed(learner: str, size: int) -> bool:
    return learner != "units" or size <= UNITS_SIZE


def find_record(results: Results, size: int) -> Record:
    """Return the record of the cell that contains a size."""
    [cell] = [cell for cell in list_cells() if size in cell.arguments["sizes"]]
    return results[cell.key]


def find_figure(results: Results, learner: str, size: int, name: str = "seconds") -> float:
    return find_record(results, size).figure(f"{learner}/{size}/{name}")


def write_section(results: Results) -> Section:
    head = ["people", "ground atoms"]
    head += [own.title for own in LEARNERS.values()]
    lines = [
        [
            f"{size:,}",
            f"{size * (size + 1):,}",
            *(write_point(results, learner, size) for learner in LEARNERS),
        ]
        for size in SIZES
    ]
    text = INTRODUCTION + "\n" + table(head, lines) + "\n" + write_findings(results)
    return Section(text, write_verdict(results), CHOICES)


def write_point(results: Results, learner: str, size: int) -> str:
    """Return the time and the iterations of a point, or why there are none."""
    if not is_listed(learner, size):
        return f"only to {UNITS_SIZE:,}"
    record = find_record(results, size)
    if not record.has_result:
        return shown(record, str)
    iterations = find_figure(results, learner, size, "iterations")
    star = "" if record.figures[f"{learner}/{size}/converged"] else "*"
    time_used = seconds(find_figure(results, learner, size))
    return f"{time_used}, {iterations:.0f} iterations{star}"


def write_findings(results: Results) -> str:
    """Return how the time grows, and the picture."""
    parts = []
    known = [size for size in SIZES if not math.isnan(find_figure(results, "lifted", size))]
    if len(known) >= 2 and known[-1] >= PAPER_SIZE:
        last, before = known[-1], known[-3] if len(known) > 2 else known[0]
        growth = math.log(cost(results, last) / cost(results, before)) / math.log(last / before)
        peak = find_record(results, last).peak_mb / 1000
        parts.append(
            f"An iteration with {last:,} people takes {seconds(cost(results, last))}. From "
            f"{before:,} to {last:,} people its time grows as the power {number(growth, 2)} of "
            f"their number. The process with {last:,} people uses {number(peak, 1)} GB, the data "
            "included.\n"
        )
    parts.append("![Seconds to learn against people](papers/lifted_figure2.png)\n")
    return "\n".join(parts)


def cost(results: Results, size: int) -> float:
    """Return the seconds of an iteration of the lifted likelihood of the rule."""
    figures = (find_figure(results, "lifted", size, name) for name in ("seconds", "iterations"))
    spent, iterations = figures
    return spent / iterations


def write_verdict(results: Results) -> str:
    paper, last = (find_figure(results, "lifted", size) for size in (PAPER_SIZE, SIZES[-1]))
    if math.isnan(paper):
        return "not run"
    text = f"reproduced: {PAPER_SIZE:,} people in {seconds(paper)}"
    if math.isnan(last):
        return f"{text}; {SIZES[-1]:,}: {shown(find_record(results, SIZES[-1]), str)}"
    return f"{text}, and on to {SIZES[-1]:,} in {seconds(last)}"


def draw(results: Results, folder: Path) -> None:
    """Draw seconds against people, both on logarithmic axes."""
    curves = {}
    for learner, own in LEARNERS.items():
        points = [
            (size, find_figure(results, learner, size))
            for size in SIZES
            if is_listed(learner, size)
        ]
        points = [(size, spent) for size, spent in points if not math.isnan(spent)]
        if points:
            sizes, times = zip(*points, strict=True)
            curves[own.title] = Curve(sizes, times)
    panel = Panel(
        "Learning the weights of friends and smokers",
        "people",
        "processor seconds",
        curves,
        log_x=True,
        log_y=True,
    )
    draw_panels([panel], folder / f"{NAME}.png", columns=1)


INTRODUCTION = f"""The paper draws the time to learn the weight of
`Smokes(x) ^ Friends(x, y) => Smokes(y)` by lifted likelihood, for 100 to {PAPER_SIZE:,} people. It
prints no numbers of this curve, so ours has no figures beside it. We learn the same rule for up to
{SIZES[-1]:,} people. The second column adds the unit clauses `Smokes(x)` and `Friends(x, y)`, up to
{UNITS_SIZE:,} people. The third learns the rule by pseudo-likelihood.

The paper generates a random database for each size and does not describe it. In ours a share of
{SMOKERS:g} of the people smokes, and each person has {FRIENDS_EACH} random friendships. A
friendship between a smoker and a non-smoker is kept with probability {MIXED:g}. Seconds are of
`lapis.learn` after a first call with {WARM_UP} people, without reading the data.
"""
CHOICES = (
    Choice(
        "generated databases", "set before the first run; the paper does not describe its", True
    ),
    Choice(f"prior {PRIOR}", "the default of Lapis; the paper names none", True),
)

EXPERIMENT = Experiment(
    NAME,
    "Figure 2: time to learn friends and smokers",
    "lifted",
    list_cells,
    write_section,
    Cell("smallest", learn_sizes, {"sizes": [30], "learners": list(LEARNERS)}),
    draw,
)

if __name__ == "__main__":
    run(EXPERIMENT)
