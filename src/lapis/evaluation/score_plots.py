"""Plots of predictions: precision–recall, ROC and calibration (needs matplotlib)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.evaluation.metrics import (
    average_precision,
    calibration_curve,
    precision_recall,
    roc_auc,
    roc_curve,
)
from lapis.evaluation.predictions import Predictions
from lapis.results.plots import new_figure, save_picture, style_axes
from lapis.results.plots import shorten_label as plot_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = Predictions | Mapping[str, Predictions]

MAIN_COLOUR, FAINT = "#2f5d8a", "#9aa5b1"
COLOURS = ("#2f5d8a", "#c8553d", "#4f8a5b", "#8a6bb1", "#b8862b", "#3d8a8a", "#a04a7a", "#6b6b6b")
MAX_NAMED = 8  # curves with their own colour and name


def plot_precision_recall(series: Series, to: Axes | str | Path | None = None) -> Axes:
    """Draw precision–recall steps, whose area is the average precision; dashed is chance.

    `series` is one set of predictions or several by name. `to` is the axes to draw on, the
    path of a picture to write, or None for a new figure.
    """
    return draw_on(
        lambda axes: draw_curves(PRECISION_RECALL, as_mapping(series), axes), to, (5.2, 4.4)
    )


def plot_roc(series: Series, to: Axes | str | Path | None = None) -> Axes:
    """Draw the share of true atoms called against that of false atoms; dashed is chance.

    `series` and `to` are as in `plot_precision_recall`.
    """
    return draw_on(lambda axes: draw_curves(ROC, as_mapping(series), axes), to, (5.2, 4.4))


def plot_calibration(
    series: Series, to: Axes | str | Path | None = None, num_bins: int = 10
) -> Axes:
    """Draw the fraction of true atoms against the mean prediction, in groups of predictions.

    The bars show the number of atoms of each group, on a logarithmic scale. The error bars of a
    single series show the standard deviation √(p(1 − p)/n) of a group of n atoms.
    """
    return draw_on(
        lambda axes: draw_calibration(as_mapping(series), axes, num_bins), to, (5.6, 4.4)
    )


def plot_quality(
    series: Mapping[str, Predictions], pooled: Predictions, path: str | Path | None = None
) -> Figure:
    """Draw precision–recall and ROC of each series beside the calibration of the pooled atoms."""
    figure = new_figure((15.6, 4.4), shown=path is None)
    left, middle, right = figure.subplots(1, 3)
    draw_curves(PRECISION_RECALL, series, left, pooled)
    draw_curves(ROC, series, middle, pooled)
    draw_calibration({"": pooled}, right, 10)
    if path is not None:
        save_picture(figure, Path(path))
    return figure


def draw_on(
    paint: Callable[[Axes], None], to: Axes | str | Path | None, size: tuple[float, float]
) -> Axes:
    """Call `paint` with the axes `to`, or with new ones of a figure that is shown or written."""
    if to is not None and not isinstance(to, str | Path):
        paint(to)
        return to
    figure = new_figure(size, shown=to is None)
    axes: Axes = figure.subplots()
    paint(axes)
    if to is not None:
        save_picture(figure, Path(to))
    return axes


def as_mapping(series: Series) -> Mapping[str, Predictions]:
    return {"": series} if isinstance(series, Predictions) else series


class Curve(NamedTuple):
    """A curve of predictions: its points, its area, and its words."""

    points: Callable[[Predictions], tuple[np.ndarray, np.ndarray]]  # x and y
    area: Callable[[np.ndarray, np.ndarray], float | None]
    area_name: str
    x_label: str
    y_label: str
    steps: bool  # whether the area is that of steps, or of straight lines
    legend: str  # place


def precision_recall_points(predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
    curve = precision_recall(predictions.rank, predictions.truth)
    return np.append(0.0, curve.recall), np.append(curve.precision[:1], curve.precision)


def roc_points(predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
    curve = roc_curve(predictions.rank, predictions.truth)
    return np.append(0.0, curve.false_rate), np.append(0.0, curve.true_rate)


PRECISION_RECALL = Curve(
    precision_recall_points, average_precision, "average precision", "recall", "precision",
    steps=True, legend="best",
)  # fmt: skip
ROC = Curve(
    roc_points, roc_auc, "area", "share of false atoms called", "share of true atoms called",
    steps=False, legend="lower right",
)  # fmt: skip


def draw_curves(
    curve: Curve,
    series: Mapping[str, Predictions],
    axes: Axes,
    pooled: Predictions | None = None,
) -> None:
    """Draw each series in colour, or grey if there are many, and the pooled atoms in black."""
    coloured = len(series) <= MAX_NAMED
    for index, (name, predictions) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)] if coloured else FAINT
        title = plot_label(name) + " " if name else curve.area_name
        draw_curve(curve, predictions, axes, colour, title if coloured else None, width=1.6)
    if pooled is not None:
        draw_curve(curve, pooled, axes, "#1a1a1a", "pooled ", width=2.2)
    draw_chance(curve, list(series.values()) if pooled is None else [pooled], axes)
    axes.set(xlim=(0, 1.01), ylim=(0, 1.03), xlabel=curve.x_label, ylabel=curve.y_label)
    named = pooled is not None or any(series)
    if axes.get_legend_handles_labels()[1]:
        add_legend(axes, curve.area_name if named else None, curve.legend)
    style_axes(axes)


def draw_curve(
    curve: Curve, predictions: Predictions, axes: Axes, colour: str, title: str | None, width: float
) -> None:
    """Draw the curve of some predictions, labelled with its area; nothing if it has none."""
    area = curve.area(predictions.rank, predictions.truth)
    if area is None:
        return
    x, y = curve.points(predictions)
    label = None if title is None else f"{title} {area:.3f}"
    drawstyle = "steps-pre" if curve.steps else "default"
    axes.plot(x, y, drawstyle=drawstyle, color=colour, lw=width, label=label)


def draw_chance(curve: Curve, predictions: Sequence[Predictions], axes: Axes) -> None:
    """Draw the curve of a random ranking, dashed: a constant precision, or the diagonal."""
    truth = np.concatenate([np.empty(0, bool), *(part.truth for part in predictions)])
    if not len(truth):
        return
    low, high = (truth.mean(), truth.mean()) if curve.steps else (0.0, 1.0)
    axes.plot([0, 1], [low, high], color=FAINT, lw=1, ls="--", zorder=0)
    place = (1, high) if curve.steps else (0.5, 0.5)
    axes.annotate(
        "chance", place, (-3, 3), textcoords="offset points", ha="right", va="bottom",
        fontsize="small", color="#6b7280",
    )  # fmt: skip


def draw_calibration(series: Mapping[str, Predictions], axes: Axes, num_bins: int) -> None:
    counts = axes.twinx()
    counts.set_zorder(axes.get_zorder() - 1)
    axes.patch.set_visible(False)  # the bars are behind
    axes.plot([0, 1], [0, 1], color=FAINT, lw=1, ls="--")
    total = np.zeros(num_bins, np.int64)
    edge = np.arange(num_bins + 1) / num_bins
    for index, (name, predictions) in enumerate(series.items()):
        found = calibration_curve(predictions.probability, predictions.truth, num_bins)
        filled = found.num_atoms > 0
        label = f"{plot_label(name)}  " if name else "calibration error "
        spread = np.sqrt(found.predicted * (1 - found.predicted) / np.maximum(1, found.num_atoms))
        axes.errorbar(
            found.predicted[filled],
            found.observed[filled],
            yerr=spread[filled] if len(series) == 1 else None,
            fmt="o-",
            ms=5,
            lw=1.6,
            elinewidth=1,
            color=COLOURS[index % len(COLOURS)],
            label=f"{label}{found.error:.3f}",
        )
        total += found.num_atoms
    counts.bar(edge[:-1], total, width=1 / num_bins, align="edge", color="#e6eaef", lw=0)
    if total.any():
        counts.set_yscale("log")
        counts.yaxis.set_major_formatter("{x:,.0f}")
        counts.yaxis.set_minor_formatter("")
        counts.set_ylim(0.8, float(total.max()) * 3)
    counts.set_ylabel("atoms", color="#6b7280")
    counts.tick_params(axis="y", colors="#6b7280", which="both", length=2)
    counts.spines[["top", "left", "bottom"]].set_visible(False)
    counts.spines["right"].set_color("#cfd5dc")
    axes.set(
        xlim=(-0.01, 1.01), ylim=(-0.02, 1.03), xlabel="predicted probability",
        ylabel="fraction true",
    )  # fmt: skip
    add_legend(axes, "calibration error" if any(series) else None, "upper left")
    style_axes(axes)


def add_legend(axes: Axes, title: str | None, place: str) -> None:
    axes.legend(frameon=False, fontsize="small", title=title, title_fontsize="small", loc=place)
