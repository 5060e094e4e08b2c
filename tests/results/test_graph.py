"""Drawings as DOT and SVG, with names displayed literally."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import LapisError, TooLarge
from lapis.results.graph import GraphEdge, GraphNode, Picture, place_graph

DIAMOND = Picture(
    (GraphNode("a"), GraphNode("b", is_round=True), GraphNode("c"), GraphNode("d")),
    (GraphEdge(0, 1), GraphEdge(0, 2, "2"), GraphEdge(1, 3), GraphEdge(2, 3), GraphEdge(0, 3)),
)
HOSTILE = ['"', "\\", "\\N", "<b>&amp;</b>", "$x_1$", "a\x1b[2J", "é \N{GRINNING FACE}", "]]>", ""]


def test_dot() -> None:
    columns = (GraphNode("x", layer=3), GraphNode("y", layer=1), GraphNode("z", layer=3))
    graph = Picture(columns, (GraphEdge(0, 2, width=2.5, title='"t"'),), "right")
    assert graph.dot() == (
        "digraph {\n"
        '  rankdir=LR; node [shape=box, style="rounded,filled"]; edge [arrowhead=none];\n'
        '  n0 [label="x", fillcolor="#ffffff", fontcolor="#222222"];\n'
        '  n1 [label="y", fillcolor="#ffffff", fontcolor="#222222"];\n'
        '  n2 [label="z", fillcolor="#ffffff", fontcolor="#222222"];\n'
        "  { rank=same; n1 }\n"
        "  { rank=same; n0; n2 }\n"
        '  n0 -> n2 [label="", color="#9aa0a6", penwidth=2.5, tooltip="\\"t\\""];\n'
        "}\n"
    )
    assert "n1 [label" in DIAMOND.dot()
    assert DIAMOND.dot().count("shape=circle") == 1


def test_a_diamond() -> None:
    """The root above, its parts side by side, the edge across two layers around them."""
    (a, b, c, d), curves = place_graph(DIAMOND)
    assert a[1] < b[1] == c[1] < d[1]
    sides = sorted([b[0], c[0]])
    assert sides[0] < a[0] < sides[1]
    ends = ((a, b), (a, c), (b, d), (c, d), (a, d))
    for ((_, top, _, high), (_, bottom, _, low)), curve in zip(ends, curves, strict=True):
        assert curve[0][1] == pytest.approx(top + high / 2)
        assert curve[-1][1] == pytest.approx(bottom - low / 2)
    passing = next(x for x, y in curves[4] if y == pytest.approx(b[1] - b[3] / 2))
    assert all(abs(passing - box[0]) > box[2] / 2 for box in (b, c))


@st.composite
def graphs(draw: st.DrawFn) -> Picture:
    size = draw(st.integers(1, 12))
    layered = draw(st.booleans())
    layers = st.integers(0, 3) if layered else st.none()
    nodes = [
        GraphNode(label, is_round=draw(st.booleans()), layer=draw(layers))
        for label in draw(st.lists(st.text("ab\n", max_size=9), min_size=size, max_size=size))
    ]
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    edges = draw(st.lists(pairs, max_size=20))
    if not layered:  # without cycles
        edges = [(min(pair), max(pair)) for pair in edges if pair[0] != pair[1]]
    direction = draw(st.sampled_from(["down", "right"]))
    return Picture(tuple(nodes), tuple(GraphEdge(*pair) for pair in edges), direction)


@given(graphs())
def test_boxes_do_not_overlap_and_parents_stand_before(graph: Picture) -> None:
    boxes, curves = place_graph(graph)
    for (x, y, wide, high), (u, v, broad, tall) in combinations(boxes, 2):
        apart = abs(x - u) >= (wide + broad) / 2 or abs(y - v) >= (high + tall) / 2
        assert apart
    assert np.isfinite([point for curve in curves for point in curve]).all()
    axis = 1 if graph.direction == "down" else 0
    if all(node.layer is None for node in graph.nodes):
        for edge in graph.edges:
            assert boxes[edge.source][axis] < boxes[edge.target][axis]
    root = ElementTree.fromstring(graph.svg())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(x - w / 2 >= 0 and x + w / 2 <= width for x, _, w, _ in boxes)
    assert all(y - h / 2 >= 0 and y + h / 2 <= height for _, y, _, h in boxes)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    shown = name.replace("\x1b", "\\x1b")
    graph = Picture((GraphNode(name), GraphNode("b")), (GraphEdge(0, 1, name, title=name),))
    root = ElementTree.fromstring(graph.svg())
    texts = [one.text or "" for one in root.iter() if one.tag.endswith(("}text", "}title"))]
    assert texts.count(shown) == (3 if name else 2)
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
    assert graph.dot().count(f'"{quoted}"') >= 3
    graph.save(tmp_path / "g.png")
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")


def test_files(tmp_path: Path) -> None:
    for ending in ("dot", "svg", "pdf"):
        DIAMOND.save(tmp_path / f"g.{ending}")
    assert (tmp_path / "g.dot").read_text() == DIAMOND.dot()
    assert (tmp_path / "g.svg").read_text() == DIAMOND.svg() == DIAMOND._repr_svg_()
    assert (tmp_path / "g.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(LapisError, match="the suffix must be a format of pictures"):
        DIAMOND.save(tmp_path / "g.txt")
    with pytest.raises(LapisError, match="cannot be written"):
        DIAMOND.save(tmp_path / "no" / "g.svg")


def test_large_graphs_are_left_to_graphviz(tmp_path: Path) -> None:
    graph = Picture((GraphNode("x"),) * 1001, ())
    graph.save(tmp_path / "g.dot")
    with pytest.raises(TooLarge, match="1,001 nodes are too many to draw"):
        graph.save(tmp_path / "g.svg")


def test_nothing_is_drawn_as_nothing() -> None:
    assert len(ElementTree.fromstring(Picture((), ()).svg())) == 1
    assert Picture((), ()).dot().endswith("}\n")
