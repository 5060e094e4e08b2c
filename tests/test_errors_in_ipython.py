"""Errors of the user in IPython and notebooks: the caller's line and the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

SETUP = """
import lapis
model = lapis.parse("Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)")
data = lapis.Database.parse("Smokes(Anna)")
"""
MISTAKES = {
    "query": ('lapis.infer(model, data, query="Cancr")', "did you mean 'Cancer'?"),
    "keyword": ('lapis.infer(model, data, "Cancer", metod="gibbs")', "did you mean 'method'?"),
    "method": ('lapis.map(model, data, "Cancer", method="gibs")', "choose one of"),
    "model": ('lapis.parse("Smokes(person)\\n1 Smoks(x)")', "did you mean 'Smokes'"),
    "several": ('lapis.parse("P(t)\\n1 P(x v\\n2 P(A, B)")', "<text>:3"),
    "file": ('lapis.read("absent.mln")', "absent.mln"),
    "data": ('lapis.Database.parse("P(A")', "P(A"),
    "large": (
        'lapis.infer(lapis.parse("P(t)\\n1 P(x) ^ P(y)\\nt = {1, ..., 60}"), query="P",'
        ' method="enumerate")',
        "atoms",
    ),
}

Cell = Callable[[str], list[str]]


@pytest.fixture
def cell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cell]:
    """Run a cell and return the lines that it shows."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    settings = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(colors="nocolor", config=settings)

    def run(code: str) -> list[str]:
        capsys.readouterr()
        shell.run_cell(code)
        return capsys.readouterr().out.rstrip().splitlines()

    assert run(SETUP) == []
    yield run
    shell.run_line_magic("xmode", "Context")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_the_message(cell: Cell, mistake: str) -> None:
    code, hint = MISTAKES[mistake]
    shown = cell(f"1 + 1\n{code}")
    assert shown[0].startswith("Traceback (your code")
    assert shown[1] == f"  line 2: {code}"
    assert shown[2].startswith(("LapisError", "TooLarge"))
    assert hint in "\n".join(shown[2:])
    assert len(shown) < 12


def test_lines_of_the_callers_functions_are_shown(cell: Cell) -> None:
    shown = cell("def ask(q):\n    return lapis.infer(model, data, q)\n\nask('Cancr')")
    assert shown[1:3] == ["  line 4: ask('Cancr')", "  line 2: return lapis.infer(model, data, q)"]


def test_the_whole_traceback_on_request(cell: Cell) -> None:
    short = cell("lapis.infer(model, data, 'Cancr')")
    whole = cell("%tb Verbose")
    assert len(whole) > 2 * len(short)
    assert any("query.py" in line for line in whole)
    assert whole[-1] == short[-1]


def test_bugs_show_the_usual_traceback(cell: Cell) -> None:
    assert any("ZeroDivisionError" in line for line in cell("1 / 0"))
