"""Pictures of a resolution: weights of levels, probabilities, precision and recall, a waterfall."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from lapis.recipes.match_mixture import SAME
from lapis.results.plots import (
    COLOUR,
    new_axes,
    new_figure,
    save_picture,
    shorten_label,
    style_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lapis.recipes.resolution import PairExplanation, Resolution
    from lapis.recipes.resolution_scores import ResolutionScores

FOR, AGAINST, TOTAL = COLOUR, "#c44e52", "#555555"
LINE = 0.24  # inches of a bar
NUM_BINS = 50


def plot_weights(found: Resolution, axes: Axes | None) -> Axes:
    """Draw a bar for the weight of each level; columns are set apart."""
    labels, values, places = [], [], []
    place = 0.0
    for column, comparison in enumerate(found.match.comparisons):
        weights = found.match.level_weights[column][SAME]
        for level, (constant, words) in enumerate(comparison.levels(), start=1):
            if constant and (found.match.same[column][level] > MIN_SHARE or level == 1):
                labels.append(shorten_label(f"{comparison.column}: {words}"))
                values.append(float(weights[level]))
                places.append(place)
                place += 1
        place += 0.7
    shown = new_axes(axes, (7.5, 1.2 + LINE * place))
    heights = -np.array(places)
    colours = [FOR if value > 0 else AGAINST for value in values]
    shown.barh(heights, values, color=colours, height=0.75)
    shown.set_yticks(heights, labels, fontsize="small")
    shown.set_ylim(heights.min() - 0.8, 0.8)
    shown.axvline(0, color="black", linewidth=0.8)
    shown.set(xlabel="weight (log-odds of the same entity against chance)")
    shown.set_title("What a level says")
    return style_axes(shown)


MIN_SHARE = 1e-4  # of pairs of one entity, below which a level is not drawn


def plot_probabilities(found: Resolution, axes: Axes | None) -> Axes:
    """Draw a histogram of the probabilities of the compared pairs, on a logarithmic scale."""
    shown = new_axes(axes, (5.6, 3.6))
    values = found.probability[found.compared]
    shown.hist(values, bins=NUM_BINS, range=(0, 1), color=COLOUR, log=True)
    shown.set(xlabel="probability of the same entity", ylabel="pairs", xlim=(0, 1))
    shown.set_title(f"{len(values):,} pairs")
    return style_axes(shown)


def plot_precision_recall(scores: ResolutionScores, axes: Axes | None) -> Axes:
    """Draw precision over recall, with the best recall that blocking allows."""
    shown = new_axes(axes, (5.2, 4.0))
    recall, precision = scores.points
    shown.plot(np.append(0, recall), np.append(precision[:1], precision), color=COLOUR)
    if scores.blocking_recall is not None:
        shown.axvline(scores.blocking_recall, color=TOTAL, linestyle=":")
        shown.text(
            scores.blocking_recall, 0.03, "blocking ", ha="right", color=TOTAL, fontsize="small"
        )
    shown.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.03))
    average = scores.average_precision
    shown.set_title("Pairs" if average is None else f"Pairs: average precision {average:.3f}")
    return style_axes(shown)


def plot_waterfall(found: PairExplanation, axes: Axes | None) -> Axes:
    """Draw each contribution from where the one before ends; the sum is last."""
    shown = new_axes(axes, (8.0, 1.3 + 0.4 * len(found.rows)))
    weights = np.array([weight for _, _, weight in found.rows])
    ends = np.cumsum(weights)
    starts = ends - weights
    heights = [-float(place) for place in range(len(weights) + 1)]
    colours = [FOR if weight > 0 else AGAINST for weight in weights]
    shown.barh(heights[:-1], weights, left=starts, color=colours, height=0.7)
    shown.barh(heights[-1], found.log_odds, color=TOTAL, height=0.7)
    for place in range(len(weights)):
        shown.plot([ends[place]] * 2, [heights[place], heights[place + 1]], color=TOTAL, lw=0.6)
    width = max(float(np.ptp(np.append(ends, [0.0, *starts]))), 1.0)
    for height, start, value in zip(
        heights, [*starts, 0.0], [*weights, found.log_odds], strict=True
    ):
        edge = max(start, start + value)
        shown.text(edge + 0.01 * width, height, f"{value:+.2f}", va="center", fontsize="small")
    labels = [f"{name}: {words}" if words else name for name, words, _ in found.rows]
    shown.set_yticks(heights, [*map(label_of_step, labels), "in all"], fontsize="small")
    shown.axvline(0, color="black", linewidth=0.8)
    edges = np.concatenate([[0.0], ends])
    shown.set_xlim(edges.min() - 0.05 * width, edges.max() + 0.15 * width)
    shown.set(xlabel="log-odds of the same entity")
    title = f"{found.left} and {found.right}: probability {found.probability:.4f}"
    if axes is None:
        shown.figure.suptitle(shorten_label(title), fontsize="medium")
    else:
        shown.set_title(shorten_label(title))
    return style_axes(shown)


def label_of_step(text: str) -> str:
    """Escape a label on two lines at most."""
    return "\n".join(shorten_label(line) for line in wrap(text, 40, max_lines=2))


def plot_resolution(found: Resolution, path: Path | None) -> None:
    """Draw weights on the left; probabilities, and precision with recall, on the right."""
    num_levels = sum(comparison.num_levels for comparison in found.match.comparisons)
    scores = found.scores()
    figure = new_figure((12.5, max(6.0, 1.5 + 0.19 * num_levels)), shown=path is None)
    grid = figure.add_gridspec(1 if scores is None else 2, 2, width_ratios=(1.4, 1))
    plot_weights(found, figure.add_subplot(grid[:, 0]))
    plot_probabilities(found, figure.add_subplot(grid[0, 1]))
    if scores is not None:
        plot_precision_recall(scores, figure.add_subplot(grid[1, 1]))
    if path is not None:
        save_picture(figure, path)
