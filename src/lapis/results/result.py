"""The base class of all results: frames, text, HTML and JSON from columns, views and a summary.

Frames (pandas, polars, Arrow) hold the `columns`; text, HTML and the command line show the `views`
(tables of texts, drawn as plain text or HTML here and with rich in `cli/render.py`); JSON is the
`document`, whose long lists are written one entry after another.

Names come from files and may contain anything: brackets of a terminal's markup, `<b>`, a `$` that
starts mathematics in a plot, escape sequences that move the cursor. Every user text is shown
through `escape`; terminals get texts, never markup.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import east_asian_width

import numpy as np

from lapis.errors import LapisError
from lapis.results.columns import Column, as_array, as_arrow, as_list, as_polars

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


Medium = Literal["terminal", "html", "plot"]


def escape(text: str, medium: Medium) -> str:
    r"""Escape a text so that it is displayed literally, without invisible characters.

    >>> escape("c1cc[nH]c1 \x1b[2J", "terminal"), escape("a<b>", "html"), escape("_US$", "plot")
    ('c1cc[nH]c1 \\x1b[2J', 'a&lt;b&gt;', ' _US\\$')
    """
    shown = escape_unprintable(text)
    if medium == "html":
        return html.escape(shown)
    if medium == "plot":
        # A legend leaves out labels that begin with an underscore.
        return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")
    return shown


def escape_unprintable(text: str) -> str:
    """Write unprintable characters, except line ends, as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


MAX_ROWS = 60
BAR_WIDTH = 24
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class View:
    """The first rows of a table. The last `num_totals` rows are totals, set apart."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()  # headings of columns of numbers
    num_rows: int = 0  # in all, shown or not, without totals
    bars: tuple[float, ...] | None = None  # a bar from 0 to 1 behind each row
    num_totals: int = 0

    @property
    def rest(self) -> str:
        """The line that counts omitted rows."""
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
    """Create a view; `num_rows` is the total number of rows if only the first are given."""
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
    """Draw a bar for a share from 0 to 1, in eighths of a character."""
    full, part = divmod(round(min(1.0, max(0.0, share)) * BAR_WIDTH * 8), 8)
    return "█" * full + (EIGHTHS[part] if part else "")


def as_text(view: View) -> str:
    """Format a view as lines of aligned columns.

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
            pad_text(cell, width, right=heading in view.numbers)
            for cell, width, heading in zip(row, widths, view.headings, strict=True)
        ]
        if view.bars is not None and 0 < number <= len(view.bars):
            parts.append(draw_bar(view.bars[number - 1]))
        lines.append("  ".join(parts).rstrip())
    return "\n".join([*lines, *([view.rest] if view.rest else [])])


def text_width(text: str) -> int:
    """Return the width of a text on a terminal; wide characters take two columns."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def pad_text(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def as_html(view: View) -> str:
    """Format a view as an HTML table. Its class keeps notebooks from rendering $ as mathematics."""
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
    """Format a figure of a summary table; None is –."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def format_measure(value: float | None) -> str:
    """Format a measure to four decimals; None is –."""
    return "–" if value is None else f"{value:.4f}"


Columns = Mapping[str, Column]
FrameKind = Literal["pandas", "polars", "arrow"]


class Result(ABC):
    """Base class of all results."""

    @abstractmethod
    def columns(self) -> Columns:
        """Return the columns of the frame, all of one length."""

    @abstractmethod
    def views(self) -> list[View]:
        """Return the tables that are shown."""

    @abstractmethod
    def summary(self) -> str:
        """Return the result in one line."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the JSON document of the command; long lists may be iterators."""

    def caption(self) -> str:
        """Return the line below the tables."""
        return self.summary()

    def remarks(self) -> list[str]:
        """Return caveats of the result."""
        return []

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document as a dictionary."""
        found = self.document()
        return {k: list(v) if isinstance(v, Iterator) else v for k, v in found.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Convert the columns to a pandas frame.

        Returns
        -------
        pandas.DataFrame
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If pandas is not installed.
        """
        columns = {name: as_array(values) for name, values in self.columns().items()}
        return import_package("pandas").DataFrame(columns)

    def to_polars(self) -> polars.DataFrame:
        """Convert the columns to a polars frame.

        Returns
        -------
        polars.DataFrame
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If polars is not installed.
        """
        polars = import_package("polars")
        return polars.DataFrame([as_polars(polars, *column) for column in self.columns().items()])

    def to_arrow(self) -> pyarrow.Table:
        """Convert the columns to a PyArrow table.

        Returns
        -------
        pyarrow.Table
            A row for each entry of the columns.

        Raises
        ------
        LapisError
            If pyarrow is not installed.
        """
        arrow = import_package("pyarrow")
        return arrow.table({name: as_arrow(arrow, v) for name, v in self.columns().items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {escape(self.summary(), 'terminal')}>"

    def __str__(self) -> str:
        lines = [*map(as_text, self.views()), self.caption(), *self.remarks()]
        return "\n".join(escape(line, "terminal") for line in lines if line)

    def _repr_html_(self) -> str:
        notes = [note for note in (self.caption(), *self.remarks()) if note]
        return "".join(
            [*map(as_html, self.views()), *(f"<p>{escape(note, 'html')}</p>" for note in notes)]
        )


@dataclass(frozen=True, repr=False)
class Table(Result):
    """A result of columns of one length."""

    values: Columns

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def columns(self) -> Columns:
        return self.values

    def views(self) -> list[View]:
        texts = [[as_cell(value) for value in column] for column in self.values.values()]
        numbers = [n for n, v in self.values.items() if np.asarray(as_array(v)).dtype.kind in "if"]
        return [new_view(list(self.values), zip(*texts, strict=True), numbers=numbers)]

    def summary(self) -> str:
        return f"{len(self):,} rows"

    def document(self) -> dict[str, Any]:
        names = list(self.values)
        rows = zip(*(as_list(column) for column in self.values.values()), strict=True)
        return {"rows": (dict(zip(names, row, strict=True)) for row in rows)}


@dataclass(frozen=True, repr=False)
class Figures(Result):
    """Named figures, such as the sizes of a network."""

    values: Mapping[str, float | int | str | None]

    def __getitem__(self, name: str) -> float | int | str | None:
        return self.values[name]

    def columns(self) -> Columns:
        return {name: [value] for name, value in self.values.items()}

    def views(self) -> list[View]:
        rows = [(name.replace("_", " "), format_figure(v)) for name, v in self.values.items()]
        return [new_view(["measure", "value"], rows, numbers=["value"])]

    def summary(self) -> str:
        shown = (f"{format_figure(v)} {name.replace('_', ' ')}" for name, v in self.values.items())
        return ", ".join(shown)

    def caption(self) -> str:
        return ""

    def document(self) -> dict[str, Any]:
        return dict(self.values)


def format_figure(figure: float | int | str | None) -> str:
    return figure if isinstance(figure, str) else format_number(figure)


def as_cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def to_frame(
    result: Result, kind: FrameKind
) -> pandas.DataFrame | polars.DataFrame | pyarrow.Table:
    """Convert a result to a frame of one of the three libraries."""
    if kind == "polars":
        return result.to_polars()
    return result.to_arrow() if kind == "arrow" else result.to_pandas()


def import_package(package: str) -> ModuleType:
    """Import a package of frames; raise LapisError if it is not installed."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError:
        raise LapisError(
            f"this frame needs {package}, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[frames]'",
        ) from None
