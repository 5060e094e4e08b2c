"""Figures 2 and 3 of Sarkhel et al. 2016, drawn to PNG: CD with exact counts and i = 1, 2, 3.

figure-2.png   (a) learning time against the fraction of the proteins that is trained on
               (b) change of the weights against time on WebKB
figure-3.png   (a) CLL against that fraction   (b) CLL against time on WebKB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
from approximate_counting import FoldResult, Job, run

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

COUNTS = ("exact", "1", "2", "3")
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
SNAPSHOTS = 8


def draw_figures(job: Job, folder: Path) -> None:
    """Run what the figures need, on one fold, and draw them."""
    folder.mkdir(parents=True, exist_ok=True)
    one = replace(job, method="cd", folds=1)
    grown = {
        counts: [
            run(replace(one, data="protein", counts=counts, fraction=job.fraction * k))[0]
            for k in FRACTIONS
        ]
        for counts in COUNTS
    }
    watched = {
        counts: run(replace(one, data="webkb", counts=counts, snapshots=SNAPSHOTS))[0]
        for counts in COUNTS
    }
    draw(
        folder / "figure-2.png",
        ("seconds of learning", "largest change of a weight"),
        {counts: [each.seconds for each in folds] for counts, folds in grown.items()},
        {counts: [each.change for each in fold.curve] for counts, fold in watched.items()},
        watched,
    )
    draw(
        folder / "figure-3.png",
        ("CLL of the fold left out", "CLL of the fold left out"),
        {counts: [each.cll for each in folds] for counts, folds in grown.items()},
        {counts: [each.cll for each in fold.curve] for counts, fold in watched.items()},
        watched,
    )
    print(f"\nfigures in {folder}")


def draw(
    path: Path,
    labels: tuple[str, str],
    by_fraction: Mapping[str, Sequence[float]],
    by_time: Mapping[str, Sequence[float]],
    watched: Mapping[str, FoldResult],
) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for counts in COUNTS:
        name = "exact counts" if counts == "exact" else f"i = {counts}"
        style = {"label": name, "marker": "os^v"[COUNTS.index(counts)], "alpha": 0.8}
        left.plot(FRACTIONS, by_fraction[counts], **style)
        right.plot([each.seconds for each in watched[counts].curve], by_time[counts], **style)
    finish(left, "(a) Protein", "fraction of the proteins", labels[0])
    finish(right, "(b) WebKB", "seconds", labels[1])
    values = np.concatenate([np.asarray(each) for each in by_time.values()])
    if labels[1].startswith("largest") and (values > 0).all():
        right.set_yscale("log")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def finish(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
