"""Pictures of fields."""

from __future__ import annotations

from cli_run import Run
from lapis import fields
from lapis.fields.field_text import NEGATIVE, POSITIVE
from lapis.results.graph import place_graph

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
    graph = fields.draw(fields.parse(TEXT))
    labels = [node.label for node in graph.nodes]
    assert labels == ["root", "a(x)", "b(x)", "P(x)", "P(x)"]
    assert [(edge.source, edge.target, edge.label) for edge in graph.edges] == [
        (0, 1, "2"), (0, 2, "-1"), (1, 2, "3"), (1, 3, "1"), (2, 4, "-4"),
    ]  # fmt: skip
    assert [edge.colour for edge in graph.edges] == [
        POSITIVE if edge.label[0] != "-" else NEGATIVE for edge in graph.edges
    ]
    widths = {abs(float(edge.label)): edge.width for edge in graph.edges}
    assert sorted(widths.values()) == [widths[weight] for weight in sorted(widths)]
    boxes, _ = place_graph(graph)
    root, one, other, leaf, last = (box[1] for box in boxes)
    assert root < one < other == leaf < last


def test_the_command(run: Run) -> None:
    run.write("f.rrf", TEXT)
    for arguments, path in ((), "f.svg"), (("-o", "g.png"), "g.png"), (("-o", "g.dot"), "g.dot"):
        code, out, _ = run("field", "draw", "f.rrf", *arguments)
        assert (code, out) == (0, f"drawn to {path}\n")
        assert (run.folder / path).exists()
    assert "<svg" in (run.folder / "f.svg").read_text(encoding="utf-8")
    code, _, err = run("field", "draw", "f.rrf", "-o", "f.txt")
    assert code == 1
    assert "the suffix must be a format of pictures" in err
