"""Widgets of notebooks: rows come from the kernel in the order and form of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lapis
from lapis.results import widgets
from lapis.results.widgets import AnswerRows

VIEW: dict[str, Any] = {
    "sort": None, "descending": False, "predicate": None, "arguments": {}, "text": "",
    "low": None, "high": None, "offset": 0, "limit": 100,
}  # fmt: skip


@pytest.fixture(scope="module")
def answer() -> lapis.Answer:
    model = lapis.parse(
        "person = {Anna, Bob, Carl}\nSmokes(person)\nFriends(person, person)\n"
        "1 Smokes(Anna)\n0.5 Friends(x, y) ^ Smokes(x) => Smokes(y)"
    )
    return lapis.infer(model, query="Smokes, Friends", progress=None)


def rows(answer: lapis.Answer, **view: object) -> list[tuple[str, float]]:
    page = AnswerRows(answer).page({**VIEW, **view})
    place = page["columns"].index("probability")
    return [(row[0], row[place]) for row in page["rows"]]


def test_all_rows_are_the_answer(answer: lapis.Answer) -> None:
    assert dict(rows(answer)) == answer.marginals


def test_rows_are_sorted(answer: lapis.Answer) -> None:
    expected = sorted(answer.marginals.items(), key=lambda item: -item[1])
    found = rows(answer, sort="probability", descending=True, offset=2, limit=3)
    assert [p for _, p in found] == [p for _, p in expected[2:5]]
    assert rows(answer, sort="atom") == sorted(answer.marginals.items())
    backward = rows(answer, sort="arg1", descending=True)
    assert backward[0][0].split("(")[1].startswith("Carl")


def test_rows_are_filtered(answer: lapis.Answer) -> None:
    found = rows(answer, predicate="Friends", arguments={"arg1": "an", "arg2": "Bob"})
    assert [atom for atom, _ in found] == ["Friends(Anna,Bob)"]
    likely = {atom for atom, p in answer.marginals.items() if p >= 0.5}
    assert {atom for atom, _ in rows(answer, low=0.5)} == likely
    assert {atom for atom, _ in rows(answer, text="smokes(c")} == {"Smokes(Carl)"}


def test_a_widget_replies_to_its_view(
    answer: lapis.Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "widget.js").write_text("export default { render() {} }")
    monkeypatch.setattr(widgets, "WIDGET", tmp_path / "widget.js")
    widget = answer.explore()
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", sent.append)
    receive = widget._msg_callbacks.callbacks[0]
    receive(widget, {"id": 1, "do": "rows", "view": VIEW}, [])
    receive(widget, {"id": 2, "do": "why", "atom": "Smokes(Bob)"}, [])
    receive(widget, {"id": 3, "do": "why", "atom": "Smokes(Eve)"}, [])
    assert sent[0]["ok"]["total"] == len(answer)
    assert sent[1]["ok"]["atom"] == "Smokes(Bob)"
    assert "Smokes(Eve)" in sent[2]["error"]


def test_an_explanation_is_a_widget(
    answer: lapis.Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "widget.js").write_text("export default { render() {} }")
    monkeypatch.setattr(widgets, "WIDGET", tmp_path / "widget.js")
    widget = answer.explain("Smokes(Bob)").explore()
    assert widget.about["explanation"]["atom"] == "Smokes(Bob)"


def test_without_a_build_the_error_says_what_to_run(
    answer: lapis.Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widgets, "WIDGET", tmp_path / "none.js")
    with pytest.raises(lapis.LapisError, match="make web"):
        answer.explore()
