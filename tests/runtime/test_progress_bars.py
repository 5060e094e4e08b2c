"""The display of progress on terminals, the log, and the silence of scripts."""

from __future__ import annotations

import io
import logging
import re
import sys

import pytest

import lapis
from lapis.runtime import progress_bars
from lapis.runtime.progress import Progress
from lapis.runtime.progress_bars import shown_progress

MODEL = lapis.parse("Smokes(p)\nCancer(p)\n1 Smokes(x)\nSmokes(x) => Cancer(x)")
DATA = lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C)")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in place of the error stream, with a display from the first event.

    This is no fixture, since pytest replaces the stream again between setup and test.
    """
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(progress_bars, "DELAY", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return found


def learn(**options: object) -> lapis.Fit:
    return lapis.learn(MODEL, DATA, "Cancer", **options)  # type: ignore[arg-type]


def test_a_terminal_shows_a_line_for_each_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = use_terminal(monkeypatch)
    learn()
    for stage in ("grounding", "learning", "standard errors"):
        assert stage in terminal.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("off", [None, False])
def test_progress_is_switched_off(monkeypatch: pytest.MonkeyPatch, off: bool | None) -> None:
    terminal = use_terminal(monkeypatch)
    learn(progress=off)
    assert terminal.getvalue() == ""


def test_a_callback_replaces_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    events: list[Progress] = []
    learn(progress=events.append)
    assert terminal.getvalue() == ""
    assert {"grounding", "learning"} <= {event.phase for event in events}


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setattr(progress_bars, "DELAY", 1000.0)
    learn()
    assert terminal.getvalue() == ""


def test_a_script_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    learn()
    assert capsys.readouterr() == ("", "")


def test_a_call_within_a_call_shows_nothing_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    with shown_progress(True, "outer") as outer, shown_progress(True, "inner") as inner:
        assert outer is not None
        assert inner is None


def test_names_of_the_user_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with shown_progress(True, "work") as report:
        assert report is not None
        report(Progress("counting", 1, 2, text="[red]P(x)[/b]"))
    assert "[red]P(x)[/b]" in terminal.getvalue()


def test_stages_and_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lapis")
    ignored = lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B) Tall(A)")
    with pytest.warns(lapis.errors.LapisWarning, match="Tall"):
        lapis.learn(MODEL, ignored, "Cancer")
    levels = {record.levelname for record in caplog.records}
    assert levels == {"INFO", "WARNING"}
    assert any("Tall" in record.message for record in caplog.records)
    assert any(
        re.fullmatch(r"learn: learning \d+/1,000, value .*, gradient .*, \d+\.\d\d s", line)
        for line in caplog.messages
    )
    assert re.fullmatch(r"learn took \d+\.\d\d s", caplog.messages[-1])


def test_the_package_installs_no_handler_that_writes() -> None:
    assert [type(each) for each in logging.getLogger("lapis").handlers] == [logging.NullHandler]
