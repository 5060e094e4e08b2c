"""Plots of results with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.atomic_write import require_writable, save_path
from lapis.errors import LapisError
from lapis.runtime.views import escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#4c72b0"
MAX_LABEL = 40  # characters
TITLE_WIDTH = 64
DOTS_PER_INCH = 150


def new_figure(size: tuple[float, float], *, shown: bool) -> Figure:
    """Create a figure for a notebook or window (`shown`), or only for a file."""
    try:
        if shown:
            import matplotlib.pyplot as plt

            return plt.figure(figsize=size, layout="constrained")
        from matplotlib.figure import Figure as PlainFigure
    except ImportError:
        raise LapisError(
            "plots need matplotlib, which is not installed",
            code="no-matplotlib",
            hint="pip install 'lapis-mln[plot]'",
        ) from None
    return PlainFigure(figsize=size, layout="constrained")


def new_axes(axes: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given axes, or those of a new figure."""
    if axes is not None:
        return axes
    return new_figure(size, shown=True).subplots()


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture atomically; the suffix gives its format."""
    check_picture(path)
    format = path.suffix[1:].lower()
    save_path(path, lambda place: figure.savefig(place, dpi=DOTS_PER_INCH, format=format))


def check_picture(path: Path) -> None:
    """Raise if a picture cannot be written, before the work that it shows."""
    known = new_figure((1, 1), shown=False).canvas.get_supported_filetypes()
    require_writable(path)
    if path.suffix[1:].lower() not in known:
        raise LapisError(
            f"{path}: the suffix must be a format of pictures",
            code="picture-format",
            hint=f"one of {', '.join(sorted(known))}",
        )


def shorten_label(text: str) -> str:
    """Escape a label, and shorten it if it is long."""
    short = text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"
    return escape(short, "plot")


def plot_bars(
    names: Sequence[str],
    values: np.ndarray,
    axes: Axes | None,
    *,
    xlabel: str,
    title: str,
    errors: np.ndarray | None = None,
) -> Axes:
    """Draw horizontal bars, the first on top."""
    found = new_axes(axes, (6.4, 1.2 + 0.28 * len(names)))
    places = np.arange(len(names))[::-1]
    found.barh(places, values, xerr=errors, color=COLOUR)
    found.set_yticks(places, [shorten_label(name) for name in names])
    found.set(xlabel=xlabel)
    text = "\n".join(map(partial(escape, medium="plot"), wrap(title, TITLE_WIDTH)))
    if axes is None:  # centred over the labels, too, which may take half of the width
        found.figure.suptitle(text, fontsize="medium")
    else:
        found.set_title(text, fontsize="medium")
    found.set_xlim(0, 1.0)
    return style_axes(found)


def style_axes(axes: Axes) -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)
    axes.title.set_fontsize("medium")
    return axes
