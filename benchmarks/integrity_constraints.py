"""Probabilistic integrity constraints, fields and networks: section 3.6 of Lowd's thesis.

    python benchmarks/integrity_constraints.py [--pairs 10] [--panels 1,2,3,4] [--jobs 2]
                                               [--plot integrity.png] [--results pairs.json]

With --results, pairs that are in the file are not run again, so a figure can be computed in parts.

Inclusion constraints: 100 people, 100 projects. A quarter of the people lead, each project with
probability 0.1. For each project that x leads, x manages z with probability 0.05; further pairs are
managed at random. The observed relations are corrupted. The model has both directions of the
constraint, implications to the observed relations, and unit formulas. Lead and Manages are
predicted.

Functional dependencies: 30 tax ids, 30 company names in sets of k equivalent ones, 30 parts. A tax
id uses all names of one set and supplies each part under each name with probability 0.25. Names are
corrupted. The equivalence of names is predicted from the table of suppliers.

The thesis does not define "corrupted with probability p". Here the last argument of a tuple (the
project, the managed person, the company) is replaced by a random one with probability p. Figure 3.2
has no numbers, so the statements of the text are printed next to ours. Both models learn by
pseudo-log-likelihood with a Gaussian prior of width 10. The field starts at the learned network,
with its connectives softened to sharpness 1, and runs for 80 iterations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np

import lapis
from lapis import Database, fields

INCLUSION = """\
Lead(person, project)
Manages(person, person)
*SeenLead(person, project)
*SeenManages(person, person)
0 (EXIST y Lead(x, y)) => (EXIST z Manages(x, z))
0 (EXIST z Manages(x, z)) => (EXIST y Lead(x, y))
0 Lead(x, y) => SeenLead(x, y)
0 Manages(x, z) => SeenManages(x, z)
0 Lead(x, y)
0 Manages(x, z)
"""
# The existential of the thesis, over z1 and z2 at once, is the conjunction of two.
DEPENDENCY = """\
Same(name, name)
*Supplier(tax, name, part)
0 (EXIST z Supplier(x, y1, z)) ^ (EXIST z Supplier(x, y2, z)) => Same(y1, y2)
0 Same(y1, y2)
"""
SHARPNESS = 1.0
ITERATIONS = 80


class Panel(NamedTuple):
    title: str
    axis: str
    model: str
    query: tuple[str, ...]
    points: tuple[float, ...]
    generate: Callable[[float, int], Database]  # from the point and a seed
    moderate: tuple[float, float]  # where the thesis speaks of moderate noise
    thesis: str


class Pair(NamedTuple):
    """Test pseudo-log-likelihoods of one training and test set."""

    network: float
    field: float
    seconds: tuple[float, float]  # of learning, CPU


def inclusion_world(extra: float, noise: float, seed: int, size: int = 100) -> Database:
    rng = np.random.default_rng(seed)
    leads = (rng.random(size) < 0.25)[:, None] & (rng.random((size, size)) < 0.1)
    manages = rng.random((size, size)) < 1 - 0.95 ** leads.sum(axis=1)[:, None]
    manages |= rng.random((size, size)) < extra
    people, projects = names("P", size), names("J", size)
    return database(
        {"person": people, "project": projects},
        {
            "Lead": (leads, (people, projects)),
            "Manages": (manages, (people, people)),
            "SeenLead": (corrupt(leads, 1, noise, rng), (people, projects)),
            "SeenManages": (corrupt(manages, 1, noise, rng), (people, people)),
        },
    )


def dependency_world(equivalent: int, noise: float, seed: int, size: int = 30) -> Database:
    rng = np.random.default_rng(seed)
    group = np.arange(size) // equivalent
    used = group[None, :] == rng.integers(size // equivalent, size=size)[:, None]
    supplies = used[:, :, None] & (rng.random((size, size, size)) < 0.25)
    ids, companies, parts = names("T", size), names("C", size), names("Q", size)
    return database(
        {"tax": ids, "name": companies, "part": parts},
        {
            "Same": (group[:, None] == group[None, :], (companies, companies)),
            "Supplier": (corrupt(supplies, 1, noise, rng), (ids, companies, parts)),
        },
    )


def corrupt(table: np.ndarray, axis: int, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Replace one argument of each tuple with probability `noise`."""
    rows = np.argwhere(table)
    hit = rng.random(len(rows)) < noise
    rows[hit, axis] = rng.integers(table.shape[axis], size=int(hit.sum()))
    seen = np.zeros_like(table)
    seen[tuple(rows.T)] = True
    return seen


def names(letter: str, size: int) -> list[str]:
    return [f"{letter}{i}" for i in range(size)]


def database(
    types: dict[str, list[str]], relations: dict[str, tuple[np.ndarray, tuple[list[str], ...]]]
) -> Database:
    lines = [f"{name} = {{{', '.join(constants)}}}" for name, constants in types.items()]
    for name, (table, constants) in relations.items():
        for row in np.argwhere(table):
            words = [each[code] for each, code in zip(constants, row, strict=True)]
            lines.append(f"{name}({','.join(words)})")
    return Database.parse("\n".join(lines))


NOISES = tuple(np.round(np.arange(0.0, 1.01, 0.1), 1).tolist())
PANELS = {
    1: Panel(
        "Inclusion constraints", "probability of corruption", INCLUSION, ("Lead", "Manages"),
        NOISES, lambda noise, seed: inclusion_world(0.01, noise, seed), (0.2, 0.8),
        "RRFs show a consistent advantage over MLNs",
    ),
    2: Panel(
        "Inclusion constraints", "probability of further managing", INCLUSION, ("Lead", "Manages"),
        (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
        lambda extra, seed: inclusion_world(extra, 0.2, seed), (0.001, 0.1),
        "RRFs show a consistent advantage over MLNs",
    ),
    3: Panel(
        "Functional dependencies", "probability of corruption", DEPENDENCY, ("Same",), NOISES,
        lambda noise, seed: dependency_world(3, noise, seed), (0.2, 0.8),
        "at moderate levels of noise, RRFs outperform MLNs",
    ),
    4: Panel(
        "Functional dependencies", "equivalent names per company", DEPENDENCY, ("Same",),
        (1, 2, 3, 5, 6, 10), lambda k, seed: dependency_world(int(k), 0.5, seed), (2, 10),
        "with multiple databases, RRFs outperform MLNs",
    ),
}  # fmt: skip


def run_pair(panel_number: int, point: float, pair: int) -> Pair:
    """Learn both models on one world and score them on another."""
    panel = PANELS[panel_number]
    train, test = (panel.generate(point, 1000 * pair + which) for which in (1, 2))
    began = time.process_time()
    network = lapis.learn(lapis.parse(panel.model), train, panel.query, objective="pseudo").model
    between = time.process_time()
    start = fields.from_model(network, sharpness=SHARPNESS)
    fit = fields.learn(start, train, panel.query, max_iterations=ITERATIONS)
    seconds = (between - began, time.process_time() - between)
    # The network's own score, predicate by predicate: no field is involved.
    by_predicate = lapis.score(network, test, likelihood=False).predicates
    own = [p.pseudo_log_likelihood for p in by_predicate if p.predicate in panel.query]
    found = fields.score(fit.field, test, panel.query, likelihood=False, predictions=False)
    value = found.pseudo_log_likelihood
    assert value is not None
    return Pair(float(np.sum(own)), float(value), seconds)


class Curve(NamedTuple):
    """Means and standard errors over the pairs, for each point."""

    network: np.ndarray  # float64[num_points, 2]
    field: np.ndarray  # float64[num_points, 2]
    difference: np.ndarray  # float64[num_points, 2], pair by pair


def run_panel(number: int, num_pairs: int, jobs: int, results: Path | None) -> Curve:
    panel = PANELS[number]
    # Pair by pair, so that what is done after a part of the time is a whole curve.
    work = [(number, point, pair) for pair in range(num_pairs) for point in panel.points]
    began = time.monotonic()
    kept = json.loads(results.read_text()) if results is not None and results.exists() else {}
    with ProcessPoolExecutor(jobs) as pool:
        missing = [each for each in work if key(each) not in kept]
        running = {pool.submit(run_pair, *each): each for each in missing}
        for done in as_completed(running):
            kept[key(running[done])] = done.result()
            if results is not None:
                results.write_text(json.dumps(kept))
    found = [
        Pair(*kept[key((number, point, pair))])
        for point in panel.points
        for pair in range(num_pairs)
    ]
    shape = (len(panel.points), num_pairs)
    network = np.array([pair.network for pair in found]).reshape(shape)
    field = np.array([pair.field for pair in found]).reshape(shape)
    curve = Curve(summary(network), summary(field), summary(field - network))
    print(f"\nPanel {number}: {panel.title}, by {panel.axis} ({num_pairs} pairs a point)")
    print(f"{'':>8}  {'network':>18}  {'field':>18}  {'field - network':>18}")
    for point, *means in zip(panel.points, *curve, strict=True):
        cells = [f"{mean:9.1f} ± {error:6.1f}" for mean, error in means]
        print(f"{point:8g}  {'  '.join(f'{cell:>18}' for cell in cells)}")
    low, high = panel.moderate
    inside = [low <= point <= high for point in panel.points]
    better = curve.difference[inside, 0] >= 0
    clear = curve.difference[inside, 0] > 2 * curve.difference[inside, 1]
    learning = np.sum([pair.seconds for pair in found], axis=0)
    print(
        f'thesis: "{panel.thesis}"; here, from {low:g} to {high:g}: at least as good at '
        f"{better.sum()} of {len(better)} points, by two standard errors at {clear.sum()}\n"
        f"{time.monotonic() - began:.0f} s; learning took {learning[0]:.0f} s CPU for networks, "
        f"{learning[1]:.0f} s for fields",
        flush=True,
    )
    return curve


def key(work: tuple[int, float, int]) -> str:
    panel, point, pair = work
    return f"{panel} {point:g} {pair}"


def summary(values: np.ndarray) -> np.ndarray:
    """Return float64[num_points, 2], mean and standard error of float64[num_points, num_pairs]."""
    count = values.shape[1]
    error = values.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(values))
    return np.stack([values.mean(axis=1), error], axis=1)


def draw(curves: dict[int, Curve], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(2, len(curves))
    rows = -(-len(curves) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.4 * rows), squeeze=False)
    for place in axes.flat[len(curves) :]:
        place.set_visible(False)
    for place, (number, curve) in zip(axes.flat, curves.items(), strict=False):
        panel = PANELS[number]
        for label, values, style in (
            ("network (MLN)", curve.network, {"color": "tab:orange", "ls": "--", "marker": "s"}),
            ("field (RRF)", curve.field, {"color": "tab:blue", "marker": "o"}),
        ):
            place.errorbar(panel.points, values[:, 0], values[:, 1], label=label, ms=4, capsize=2,
                           lw=1.2, **style)  # fmt: skip
        if number == 2:
            place.set_xscale("log")
        place.set(title=panel.title, xlabel=panel.axis, ylabel="test pseudo-log-likelihood")
        place.legend(frameon=False, fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    print(f"\ndrawn to {path}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Section 3.6 of the thesis.")
    parser.add_argument("--pairs", type=int, default=10, help="train and test sets a point")
    parser.add_argument("--panels", default="1,2,3,4")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--plot", default="integrity_constraints.png")
    parser.add_argument("--results", type=Path, help="keep the pairs here, and go on from them")
    chosen = parser.parse_args(arguments)
    numbers = [int(text) for text in chosen.panels.split(",")]
    curves = {
        number: run_panel(number, chosen.pairs, chosen.jobs, chosen.results) for number in numbers
    }
    draw(dict(sorted(curves.items())), chosen.plot)


if __name__ == "__main__":
    main()
