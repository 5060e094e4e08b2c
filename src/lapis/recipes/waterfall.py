"""Contributions to log-odds as a waterfall: how they add up, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.results.plots import COLOUR, new_figure, shorten_label, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AGAINST = "#c8553d"  # negative contributions
MAX_BARS = 12  # the others are one bar


class Contribution(NamedTuple):
    """What a feature, a link, a rule or a frequency adds to log-odds."""

    because: str
    log_odds: float


def describe_contributions(parts: Sequence[Contribution]) -> list[str]:
    """Return lines of the largest contributions for and against."""
    lines = []
    for word, sign in (("because of", 1.0), ("in spite of", -1.0)):
        chosen = [part for part in parts if sign * part.log_odds > 0.005][:5]
        if chosen:
            listed = ", ".join(f"{part.because} ({part.log_odds:+.2f})" for part in chosen)
            lines.append(f"{word} {listed}")
    return lines


def draw_waterfall(
    parts: Sequence[Contribution], axes: Axes | None, *, xlabel: str, title: str
) -> Axes:
    """Draw a bar for each contribution, from the sum of those above it."""
    bars, rest = list(parts[:MAX_BARS]), parts[MAX_BARS:]
    if rest:
        bars.append(Contribution(f"{len(rest):,} more", sum(part.log_odds for part in rest)))
    found = axes or new_figure((7.2, 1.3 + 0.3 * len(bars)), shown=True).subplots()
    places = np.arange(len(bars))[::-1]
    gains = np.array([part.log_odds for part in bars])
    ends = np.cumsum(gains)
    colours = [COLOUR if gain >= 0 else AGAINST for gain in gains]
    found.barh(places, gains, left=ends - gains, color=colours, height=0.7)
    found.axvline(0, color="#9aa5b1", lw=1)
    found.axvline(float(ends[-1]) if len(bars) else 0.0, color="#1a1a1a", lw=1, ls=":")
    for place, gain, end in zip(places, gains, ends, strict=True):
        side = 1 if gain >= 0 else -1
        found.annotate(
            f"{gain:+.2f}", (end, place), (4 * side, 0), textcoords="offset points",
            ha="left" if side > 0 else "right", va="center", fontsize="small",
        )  # fmt: skip
    low, high = min(0.0, ends.min(initial=0)), max(0.0, ends.max(initial=0))
    pad = 0.14 * (high - low) or 1.0
    found.set_xlim(low - pad, high + pad)
    found.set_yticks(places, [shorten_label(part.because) for part in bars])
    found.set(xlabel=xlabel, title=shorten_label(title))
    return style_axes(found)
