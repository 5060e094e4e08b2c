"""What is the user's is shown as it is: nothing in a name is taken for markup.

Names come from files and may hold anything: brackets that a terminal's markup eats, `<b>`, a `$`
that a picture's mathematics wants to close, escape sequences that move the cursor. Everything of
the user's that is shown passes through `escape`; terminals get texts, never markup.
"""

from __future__ import annotations

import html
from typing import Literal

Medium = Literal["terminal", "html", "plot"]


def escape(text: str, medium: Medium) -> str:
    r"""A text that shows as it is written, without characters that cannot be seen.

    >>> escape("c1cc[nH]c1 \x1b[2J", "terminal"), escape("a<b>", "html"), escape("_US$", "plot")
    ('c1cc[nH]c1 \\x1b[2J', 'a&lt;b&gt;', ' _US\\$')
    """
    shown = visible(text)
    if medium == "html":
        return html.escape(shown)
    if medium == "plot":
        # A legend leaves out labels that begin with an underscore.
        return (" " if shown.startswith("_") else "") + shown.replace("$", r"\$")
    return shown


def visible(text: str) -> str:
    """Line ends stay; other characters without a shape are written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character == "\n"
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
