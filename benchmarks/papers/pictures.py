"""Pictures of the page, all in one style: panels of curves, saved as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
    "#8c564b",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")


class Curve(NamedTuple):
    """Points of one method, with an optional error bar each."""

    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: Mapping[str, Curve]  # by the name in the legend
    log_x: bool = False
    log_y: bool = False


def draw_panels(panels: Sequence[Panel], path: Path, columns: int = 2) -> None:
    """Draw panels in rows into one picture; a method has the same colour in all of them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(5.2 * columns, 3.8 * rows), squeeze=False, layout="constrained"
    )
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    for axes, panel in zip(grid.flat, panels, strict=False):
        draw_panel(axes, panel, names)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def draw_panel(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    """Draw the curves of a panel; `names` gives the order of colours."""
    for name, curve in panel.curves.items():
        place = names.index(name)
        axes.errorbar(
            curve.x,
            curve.y,
            yerr=curve.error,
            label=name,
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            capsize=2,
        )
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.log_x:
        axes.set_xscale("log")
    elif all(float(x).is_integer() for curve in panel.curves.values() for x in curve.x):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if panel.log_y:
        axes.set_yscale("log")
    axes.grid(color="#dddddd", linewidth=0.6)
    if panel.curves:
        axes.legend(fontsize=8)
