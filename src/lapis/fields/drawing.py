"""A field as a picture, like Figure 3.1: the root above, what parfeatures are made of below.

Parfeatures are drawn once, however many parents they have; atoms and comparisons once for each
parfeature that has them. Edges are blue where a weight is positive, red where it is negative, and
the wider the larger it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lapis.fields.field import ROOT, Field
from lapis.fields.field_text import FieldLike, call, open_field, print_target
from lapis.results.plots import label, new_axes, new_figure, save_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POSITIVE, NEGATIVE = "#4c72b0", "#c44e52"
WIDTH, HEIGHT = 1.5, 1.4  # inches for a leaf and for a level
MAX_SIZE = 60.0  # inches
STRONG = 8.0  # a weight drawn as wide as can be


class Box(NamedTuple):
    text: str
    x: float  # leaves are one apart
    level: int  # below the root
    is_leaf: bool


class Line(NamedTuple):
    above: str
    below: str  # boxes
    weight: float


def draw(field: FieldLike, path: str | Path | None = None, axes: Axes | None = None) -> Axes:
    """A picture of a field; written to a .png, .svg or .pdf file where a path is given."""
    boxes, lines = lay_out(open_field(field))
    right = max(box.x for box in boxes.values())
    levels = max(box.level for box in boxes.values())
    size = (min(MAX_SIZE, WIDTH * (right + 1.5)), min(MAX_SIZE, HEIGHT * (levels + 1)))
    if path is not None:
        figure = new_figure(size, shown=False)
        axes = paint(figure.subplots(), boxes, lines)
        save_picture(figure, Path(path))
        return axes
    return paint(new_axes(axes, size), boxes, lines)


def lay_out(field: Field) -> tuple[dict[str, Box], list[Line]]:
    """Leaves side by side, every parfeature above the middle of what it is made of."""
    boxes: dict[str, Box] = {}
    lines: list[Line] = []
    depth = levels_of(field)
    next_leaf = 0.0

    def visit(name: str) -> float:
        nonlocal next_leaf
        parfeature = field.by_name[name]
        places: list[float] = []
        for number, child in enumerate(parfeature.children):
            key = child.target
            if key not in field.by_name:
                key = f"{name} {number}"
                boxes[key] = Box(print_target(child), next_leaf, depth[name] + 1, True)
                next_leaf += 1.0
            elif key not in boxes:
                visit(key)
            places.append(boxes[key].x)
            lines.append(Line(name, key, child.weight))
        middle = sum(places) / len(places) if places else next_leaf
        text = call(name, parfeature.parameters)
        boxes[name] = Box(text, middle, depth[name], False)
        return middle

    visit(ROOT)
    return boxes, lines


def levels_of(field: Field) -> dict[str, int]:
    """How far each parfeature is below the root, on the longest way."""
    depth = dict.fromkeys(field.order, 0)
    for name in reversed(field.order):
        for child in field.by_name[name].children:
            if child.target in depth:
                depth[child.target] = max(depth[child.target], depth[name] + 1)
    return depth


def paint(axes: Axes, boxes: dict[str, Box], lines: list[Line]) -> Axes:
    for line in lines:
        above, below = boxes[line.above], boxes[line.below]
        colour = POSITIVE if line.weight >= 0 else NEGATIVE
        width = 0.6 + 2.4 * min(abs(line.weight), STRONG) / STRONG
        axes.plot(
            [above.x, below.x], [-above.level, -below.level], color=colour, lw=width, zorder=1
        )
        at = 0.62  # of the way down: labels of neighbours do not meet there
        axes.text(
            above.x + at * (below.x - above.x),
            -(above.level + at * (below.level - above.level)),
            f"{line.weight:.3g}", color=colour, fontsize=8, ha="center", va="center", zorder=2,
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none"},
        )  # fmt: skip
    for box in boxes.values():
        style = {"boxstyle": "round,pad=0.3", "fc": "white" if box.is_leaf else "#e8edf5",
                 "ec": "#888888", "lw": 0.5 if box.is_leaf else 0.9}  # fmt: skip
        axes.text(
            box.x, -box.level, label(box.text), fontsize=9, ha="center", va="center", zorder=3,
            bbox=style,
        )  # fmt: skip
    xs, ys = [box.x for box in boxes.values()], [-box.level for box in boxes.values()]
    axes.set(xlim=(min(xs) - 0.7, max(xs) + 0.7), ylim=(min(ys) - 0.4, max(ys) + 0.4))
    axes.set_axis_off()
    return axes
