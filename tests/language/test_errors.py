"""Every error in a model has a golden message in errors.txt.

A section is a line `=== name`, the file's text, a line `---`, and what the user reads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lapis.errors import LapisError, Source, Span
from lapis.language import parse_model

GOLDEN = Path(__file__).parent / "errors.txt"


def sections() -> dict[str, tuple[str, str]]:
    found = {}
    for part in GOLDEN.read_text(encoding="utf-8").split("=== ")[1:]:
        name, _, rest = part.partition("\n")
        text, _, message = rest.partition("\n---\n")
        found[name] = (text, message.rstrip("\n"))
    return found


@pytest.mark.parametrize("name", sections())
def test_message(name: str) -> None:
    text, expected = sections()[name]
    with pytest.raises(LapisError) as caught:
        parse_model(text, "m.mln")
    assert str(caught.value) == expected


@pytest.mark.parametrize("name", sections())
def test_errors_have_a_code(name: str) -> None:
    with pytest.raises(LapisError) as caught:
        parse_model(sections()[name][0], "m.mln")
    errors = getattr(caught.value, "errors", (caught.value,))
    assert all(error.code and error.exit_code == 1 for error in errors)


@pytest.mark.parametrize("before", [0, 150, 5000])
@pytest.mark.parametrize("after", [0, 5000])
def test_of_a_long_line_the_surroundings_are_shown(before: int, after: int) -> None:
    text = "first\n" + "a" * before + "WRONG" + "b" * after + "\nlast"
    shown, carets = Span(Source("m.mln", text), 6 + before, 11 + before).underlined()
    assert len(shown) <= 402
    assert shown[carets.index("^") :][: carets.count("^")] == "WRONG"
    assert before + after > 400 or shown == "a" * before + "WRONG" + "b" * after
