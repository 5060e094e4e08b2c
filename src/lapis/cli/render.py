"""Show results on a terminal, or write them as JSON.

Names are plain text, never markup. JSON is written piece by piece, so that the text of a million
atoms is never in memory at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lapis.cli.command_line import show_notes
from lapis.results.columns import replace_infinite
from lapis.results.result import Result
from lapis.runtime.views import View, draw_bar, escape

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lapis.problem.check import CheckReport


MIN_WIDTH = 8  # columns of a text, however little room there is
PIPE_WIDTH = 120  # columns where there is no terminal


def console() -> Console:
    """Return the console for output: as wide as the terminal, or 120 columns without one."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(soft_wrap=True, highlight=False, markup=False, emoji=False, width=width)


def present(result: Result, as_json: bool) -> None:
    """Print a result as JSON, or as tables with a summary; remarks go to the error stream."""
    if as_json:
        print_json(result.document())
    else:
        show(result)


def print_json(document: Mapping[str, Any]) -> None:
    """Print JSON piece by piece, with null for numbers that are not finite."""
    sys.stdout.writelines(json_pieces(document))
    sys.stdout.write("\n")


def show(result: Result) -> None:
    out = console()
    for view in result.views():
        out.print(draw_table(view))
        if view.rest:
            out.print(plain(f"{view.rest} (all of them with --json)"))
    if result.caption():
        out.print(plain(result.caption(), "dim"))
    show_notes(result.remarks())


def plain(text: str, style: str = "") -> Text:
    """Return a text without markup, in a style."""
    from rich.text import Text

    return Text(escape(text, "terminal"), style=style)


def draw_table(view: View) -> Table:
    """Draw a table. Numbers are never cut; long texts continue on the next line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in view.headings:
        if heading in view.numbers:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold", min_width=MIN_WIDTH)
    if view.bars is not None:
        table.add_column("", no_wrap=True)
    first_total = len(view.rows) - view.num_totals
    for number, row in enumerate(view.rows):
        if number == first_total:
            table.add_section()
        bars = [draw_bar(view.bars[number])] if view.bars is not None else []
        style = "bold" if number >= first_total else ""
        table.add_row(*map(plain, [*row, *bars]), style=style)
    return table


def show_check(report: CheckReport) -> None:
    """Print the result of `lapis check`: each formula in words and as clauses, then warnings."""
    from rich.padding import Padding

    out = console()
    for formula in report.formulas:
        weight = plain(f"{formula.weight_text:>8}  ").append(plain(formula.formula, "bold"))
        out.print(weight)
        groundings = f"{formula.groundings:,} grounding{'' if formula.groundings == 1 else 's'}"
        clauses = f"{groundings}; as clauses: {'; '.join(formula.clauses)}"
        for line in (formula.words, clauses):
            out.print(Padding(plain(line), (0, 0, 0, 10)), soft_wrap=False)
    sizes = ", ".join(f"{name} {size:,}" for name, size in report.constants.items())
    out.print(plain(f"constants: {sizes or 'none'}", "dim"))
    show_notes([str(warning) for warning in report.warnings])
    out.print(plain(report.summary()))


ROW = json.JSONEncoder(allow_nan=False)


def json_pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a document; entries that are iterators are written row by row.

    >>> print("".join(json_pieces({"a": 1, "rows": iter([{"x": float("nan")}, {"x": 2}])})))
    {
     "a": 1,
     "rows": [
      {"x": null},
      {"x": 2}
     ]
    }
    """
    before = "{\n"
    for name, value in document.items():
        yield f"{before} {json.dumps(name)}: "
        if isinstance(value, Iterator):
            yield from list_pieces(map(row_text, value))
        else:
            text = json.dumps(replace_infinite(value), indent=1, allow_nan=False)
            yield text.replace("\n", "\n ")
        before = ",\n"
    yield "{}" if before == "{\n" else "\n}"


def list_pieces(entries: Iterable[str]) -> Iterator[str]:
    """Yield the text of a list from the texts of its entries."""
    before = "["
    for entry in entries:
        yield f"{before}\n  {entry}"
        before = ","
    yield "[]" if before == "[" else "\n ]"


def row_text(row: object) -> str:
    try:
        return ROW.encode(row)
    except ValueError:  # a number that is not finite
        return ROW.encode(replace_infinite(row))
