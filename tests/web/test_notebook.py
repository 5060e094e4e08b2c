"""`%%mln` cells: the model gets a name, mistakes are underlined, the name is kept."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import lapis
from lapis.web.notebook import colour_model


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found = InteractiveShell.instance()
    found.run_line_magic("load_ext", "lapis.web.notebook")
    yield found
    InteractiveShell.clear_instance()


def test_a_cell_names_its_model(shell: InteractiveShell) -> None:
    with capture_output() as shown:
        shell.run_cell_magic("mln", "rain", "Wet(day)\n1.5 Wet(Monday)\n")
    assert isinstance(shell.user_ns["rain"], lapis.Model)
    assert "Wet</span>" in shown.outputs[0].data["text/html"]


def test_a_mistake_is_underlined_and_the_name_kept(shell: InteractiveShell) -> None:
    shell.user_ns["model"] = "before"
    with capture_output() as shown:
        shell.run_cell_magic("mln", "", "Wet(day)\n1 Wett(Monday) // <b>\n")
    page = shown.outputs[0].data["text/html"]
    assert "underline wavy" in page.split("Wett</span>")[0].rsplit("<span", 1)[1]
    assert "did you mean &#x27;Wet&#x27;" in page
    assert "<b>" not in page
    assert shell.user_ns["model"] == "before"


def test_text_is_kept_in_full() -> None:
    text = "// a comment\nP(t)  /* two */\n1 P(x) <=> !P(A)."
    shown = colour_model(text)
    plain = re.sub(r"<[^>]*>", "", shown)
    assert html.unescape(plain) == text
