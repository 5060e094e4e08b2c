"""Notebooks: cells of Markov logic, with colours and underlined mistakes.

    %load_ext lapis.web.notebook
    %%mln model              the model of this cell gets the name `model`

Widgets of answers and explanations (`explore`) are in `results/widgets.py`.
"""

from __future__ import annotations

import html
import sys
from typing import Any

from lapis.errors import LapisError, LapisErrors, Source
from lapis.language.lexer import tokenize

# Colours of a cell, readable on light and on dark pages.
STYLES = {
    "NUMBER": "color:#b07700;font-weight:600", "STRING": "color:#0b7f88", "NOT": "color:#c2453c",
    "AND": "color:#c2453c", "OR": "color:#c2453c", "BAR": "color:#c2453c",
    "IMPLIES": "color:#c2453c", "IFF": "color:#c2453c", "EXISTS": "color:#c2453c",
    "FORALL": "color:#c2453c",
}  # fmt: skip
PREDICATE = "color:#3d6ff0"
MISTAKE = "text-decoration:underline wavy #d3302f;text-underline-offset:3px"


# Cells of Markov logic.


def colour_model(text: str, errors: tuple[LapisError, ...] = ()) -> str:
    """Return a model as HTML with colours; mistakes are underlined, their messages below.

    >>> "text-decoration" in colour_model("1 Smokes(x)")
    False
    """
    styles: list[tuple[int, int, str]] = []
    tokens = [t for t in tokenize(Source("cell", text)) if not isinstance(t, LapisError)]
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        style = STYLES.get(token.kind, "")
        if token.kind == "NAME" and following is not None and following.kind == "LPAR":
            style = PREDICATE
        styles.append((token.start, token.end, style))
    spans = [error.span for error in errors if error.span is not None]
    wrong = [(span.start, max(span.end, span.start + 1)) for span in spans]
    pieces, place = [], 0
    for start, end, style in styles:
        pieces.append(html.escape(text[place:start]))
        if any(first < end and start < last for first, last in wrong):
            style = f"{style};{MISTAKE}".lstrip(";")
        inner = html.escape(text[start:end])
        pieces.append(f'<span style="{style}">{inner}</span>' if style else inner)
        place = end
    pieces.append(html.escape(text[place:]))
    messages = "".join(
        f'<div style="color:#d3302f">{html.escape(str(error))}</div>' for error in errors
    )
    return f'<pre style="line-height:1.6">{"".join(pieces)}</pre><pre>{messages}</pre>'


def mln(line: str, cell: str) -> None:
    """Parse a cell of Markov logic, show it with colours, and name the model.

    A cell with mistakes is shown with the mistakes underlined, and the name is not changed.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import HTML, display

    from lapis.language.resolve import parse_model

    name = line.strip() or "model"
    try:
        model = parse_model(cell, "<cell>")
    except LapisError as error:
        errors = error.errors if isinstance(error, LapisErrors) else (error,)
        display(HTML(colour_model(cell, tuple(errors))))
        return
    display(HTML(colour_model(cell)))
    shell = get_ipython()
    if shell is not None:
        shell.user_ns[name] = model
    for warning in model.warnings:
        print(warning, file=sys.stderr)


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401  (an InteractiveShell)
    """Register `%%mln`; called by `%load_ext lapis.web.notebook`."""
    shell.register_magic_function(mln, "cell", "mln")
