"""Tables of texts, drawn as plain text or HTML; short representations of large objects.

Names come from files and may contain anything: brackets of a terminal's markup, `<b>`, a `$` that
starts mathematics in a plot, escape sequences that move the cursor. Every user text is shown
through `escape`; terminals get texts, never markup.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from unicodedata import east_asian_width

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


REPR_WIDTH = 90  # characters of a line
REPR_ROWS = 8  # lines below the first, rows of an HTML table


def shorten(text: str, width: int = REPR_WIDTH) -> str:
    """Shorten a text to one line of at most `width` characters.

    >>> shorten("a  line that is\\nlong", 12)
    'a line that…'
    """
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count_noun(1, "rule"), count_noun(2000, "rule")
    ('1 rule', '2,000 rules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short_repr(
    kind: str, name: str, counts: Sequence[str], lines: Iterable[str] = (), num_lines: int = 0
) -> str:
    """Return a representation of few lines: kind, name and counts, and the first of `num_lines`.

    >>> print(short_repr("Model", "m.mln", ["1 predicate", "9 rules"], ["1.5 P(x)"], 9))
    <Model m.mln: 1 predicate, 9 rules
      1.5 P(x)
      … and 8 more>
    """
    title = f"{kind} {name}" if name else kind
    head = shorten(escape(f"<{title}: {', '.join(counts)}", "terminal"), 2 * REPR_WIDTH)
    shown = [shorten(escape(line, "terminal")) for line in islice(lines, REPR_ROWS)]
    more = [f"… and {num_lines - len(shown):,} more"] if num_lines > len(shown) else []
    return "\n  ".join([head, *shown, *more]) + ">"


def draw_html(views: Iterable[View], notes: Iterable[str] = ()) -> str:
    """Draw tables with paragraphs below them."""
    paragraphs = (f"<p>{escape(note, 'html')}</p>" for note in notes if note)
    return "".join([*map(as_html, views), *paragraphs])
