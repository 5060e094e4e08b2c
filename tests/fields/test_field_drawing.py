"""Pictures of fields."""

from __future__ import annotations

import pytest

from cli_run import Run
from lapis import fields
from lapis.errors import LapisError
from lapis.fields.drawing import lay_out

TEXT = """\
P(t)
root:
  2 a(x)
  -1 b(x)
a(x):
  3 b(x)
  1 P(x)
b(x):
  -4 P(x)
"""


def test_a_parfeature_is_drawn_once_and_below_all_its_parents() -> None:
    boxes, lines = lay_out(fields.parse(TEXT))
    assert [box.text for box in boxes.values()].count("b(x)") == 1
    assert (boxes["root"].level, boxes["a"].level, boxes["b"].level) == (0, 1, 2)
    assert [(line.above, line.below, line.weight) for line in lines] == [
        ("b", "b 0", -4.0), ("a", "b", 3.0), ("a", "a 1", 1.0), ("root", "a", 2.0),
        ("root", "b", -1.0),
    ]  # fmt: skip
    places = [(box.x, box.level) for box in boxes.values() if box.is_leaf]
    assert len(set(places)) == len(places)


def test_the_command(run: Run) -> None:
    run.write("f.rrf", TEXT)
    code, out, _ = run("field", "draw", "f.rrf", "-o", "f.svg")
    assert code == 0
    assert out == "drawn to f.svg\n"
    assert "<svg" in (run.folder / "f.svg").read_text(encoding="utf-8")
    with pytest.raises(LapisError, match="the ending says what kind of picture to write"):
        fields.draw(run.folder / "f.rrf", "f.txt")
