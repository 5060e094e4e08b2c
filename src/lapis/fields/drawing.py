"""A field as a picture, like Figure 3.1: the root above, what parfeatures are made of below.

Parfeatures are drawn once, however many parents they have; atoms and comparisons once for each
parfeature that has them. Edges are blue where a weight is positive, red where it is negative, and
the wider the larger it is.
"""

from __future__ import annotations

from lapis.fields.field import Field
from lapis.fields.field_text import FieldLike, call, open_field, print_target
from lapis.results.graph import GraphEdge, GraphNode, Picture

POSITIVE, NEGATIVE = "#4c72b0", "#c44e52"
PARFEATURE = "#e8edf5"
STRONG = 8.0  # a weight drawn as wide as can be


def draw(field: FieldLike) -> Picture:
    """Draw a field.

    Parameters
    ----------
    field
        A field or the path of one.

    Returns
    -------
    Picture
        The picture: notebooks show it, `save` writes it as `.svg`, `.dot`, `.png` or `.pdf`.

    Raises
    ------
    LapisError
        If the field cannot be read.

    Examples
    --------
    >>> from lapis import fields
    >>> picture = fields.draw(fields.parse("P(t)\\nroot:\\n 2 some\\nsome:\\n 3 P(x)"))
    >>> [node.label for node in picture.nodes]
    ['root', 'some', 'P(x)']
    """
    return field_graph(open_field(field))


def field_graph(field: Field) -> Picture:
    """The root first, every parfeature after what it is a part of."""
    order = list(reversed(field.order))
    number = {name: place for place, name in enumerate(order)}
    nodes = [GraphNode(call(name, field.by_name[name].parameters), PARFEATURE) for name in order]
    edges = []
    for name in order:
        for child in field.by_name[name].children:
            target = number.get(child.target, len(nodes))
            if target == len(nodes):
                nodes.append(GraphNode(print_target(child)))
            colour = POSITIVE if child.weight >= 0 else NEGATIVE
            width = 0.6 + 2.4 * min(abs(child.weight), STRONG) / STRONG
            edges.append(GraphEdge(number[name], target, f"{child.weight:.3g}", colour, width))
    return Picture(tuple(nodes), tuple(edges))
