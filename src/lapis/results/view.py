"""What a person sees of a result: a table of texts, drawn as plain text or HTML.

The command line draws the same views with rich (`cli/render.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from lapis.results.escaping import escape

MAX_ROWS = 60
BAR_WIDTH = 24
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class View:
    """The first rows of a table. The last `num_totals` rows stand apart, below the others."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()  # headings of columns of numbers
    num_rows: int = 0  # there are in all, shown or not, totals left out
    bars: tuple[float, ...] | None = None  # a bar from 0 to 1 behind each row
    num_totals: int = 0

    @property
    def rest(self) -> str:
        """What is said where rows are left out."""
        more = self.num_rows - (len(self.rows) - self.num_totals)
        return f"… and {more:,} more" if more > 0 else ""


def new_view(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[str] = (),
    num_rows: int | None = None,
    bars: Sequence[float] | None = None,
    totals: Sequence[Sequence[str]] = (),
) -> View:
    """A view of rows; `num_rows` says how many there are where only the first are given."""
    listed = tuple(tuple(row) for row in rows)
    shown = listed[:MAX_ROWS]
    return View(
        tuple(headings),
        (*shown, *(tuple(row) for row in totals)),
        frozenset(numbers),
        len(listed) if num_rows is None else num_rows,
        None if bars is None else tuple(bars[: len(shown)]),
        len(totals),
    )


def draw_bar(share: float) -> str:
    """A bar of a share from 0 to 1, to an eighth of a character."""
    full, part = divmod(round(min(1.0, max(0.0, share)) * BAR_WIDTH * 8), 8)
    return "█" * full + (EIGHTHS[part] if part else "")


def as_text(view: View) -> str:
    """The view as lines of aligned columns.

    >>> print(as_text(new_view(["atom", "p"], [["P(A)", "0.5"], ["Q", "12"]], numbers=["p"])))
    atom    p
    P(A)  0.5
    Q      12
    """
    cells = [view.headings, *([escape(cell, "terminal") for cell in row] for row in view.rows)]
    widths = [max(map(text_width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for number, row in enumerate(cells):
        parts = [
            fill(cell, width, right=heading in view.numbers)
            for cell, width, heading in zip(row, widths, view.headings, strict=True)
        ]
        if view.bars is not None and 0 < number <= len(view.bars):
            parts.append(draw_bar(view.bars[number - 1]))
        lines.append("  ".join(parts).rstrip())
    return "\n".join([*lines, *([view.rest] if view.rest else [])])


def text_width(text: str) -> int:
    """Columns of a terminal; wide characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def fill(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def as_html(view: View) -> str:
    """The view as an HTML table. The class keeps notebooks from reading $ as mathematics."""
    head = "".join(f"<th>{escape(heading, 'html')}</th>" for heading in view.headings)
    head += "<th></th>" if view.bars is not None else ""
    body = []
    for number, row in enumerate(view.rows):
        cells = "".join(
            f"<td style='text-align:{'right' if heading in view.numbers else 'left'}'>"
            f"{escape(cell, 'html')}</td>"
            for heading, cell in zip(view.headings, row, strict=True)
        )
        if view.bars is not None and number < len(view.bars):
            cells += (
                "<td style='text-align:left;min-width:100px'><div style='background:#4c72b0;"
                f"height:0.8em;width:{100 * view.bars[number]:.0f}px'></div></td>"
            )
        weight = " style='font-weight:bold'" if number >= len(view.rows) - view.num_totals else ""
        body.append(f"<tr{weight}>{cells}</tr>")
    note = f"<p>{view.rest}</p>" if view.rest else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<div class='tex2jax_ignore mathjax_ignore'>{table}{note}</div>"


def format_number(value: float | int | bool | None) -> str:
    """A figure of a summary table; – where there is none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def format_measure(value: float | None) -> str:
    """A measure to four decimals; – where there is none."""
    return "–" if value is None else f"{value:.4f}"
