"""Graphs of networkx as facts, and facts as graphs.

    edge (u, v)                     Linked(u,v), or P(u,v) if the attribute `edge_key` is P
    attribute smokes=True of u      smokes(u);      smokes=False: !smokes(u)
    attribute age=31 of u           age(u,31)
    attribute weight=3 of (u, v)    weight(u,v,3);  near=True: near(u,v)

Nodes and values are constants by their texts. A whole real number is written as an integer, as in
tables (`duckdb_tables.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from lapis.data.database import FALSE, TRUE, Database, Relation
from lapis.data.formats.build_database import GroundFact, encode_facts, known_types
from lapis.data.formats.facts import PREDICATE
from lapis.errors import LapisError, Warning, issue_warnings, suggestion
from lapis.runtime.views import count_noun

if TYPE_CHECKING:
    import networkx

Graph: TypeAlias = Union["networkx.Graph", "networkx.DiGraph", "networkx.MultiDiGraph"]
EXACT = 2**53  # whole floats below it are exact


@dataclass(frozen=True, slots=True)
class GraphReader:
    """How a graph is read."""

    edge: str = "Linked"
    edge_key: str | None = None
    node_type: str | None = None
    node_attributes: Sequence[str] | None = None  # None: all
    edge_attributes: Sequence[str] | None = None


def from_networkx(graph: Graph, reader: GraphReader) -> Database:
    import_networkx()
    if not hasattr(graph, "adjacency") or not hasattr(graph, "is_directed"):
        raise LapisError(
            f"a {type(graph).__name__} is not a graph of networkx",
            code="data-graph",
            hint="as in networkx.DiGraph([('Anna', 'Bob')])",
        )
    nodes = dict(graph.nodes(data=True))
    edges = list(graph.edges(data=True))
    of_nodes = chosen_attributes("node", nodes.values(), reader.node_attributes, None)
    of_edges = chosen_attributes(
        "edge", (data for *_, data in edges), reader.edge_attributes, reader.edge_key
    )
    ways = [(u, v, data) for u, v, data in edges]
    if not graph.is_directed():
        ways += [(v, u, data) for u, v, data in edges if u != v]
    declared = {}
    if reader.node_type is not None:
        declared[reader.node_type] = tuple(dict.fromkeys(map(as_constant, nodes)))
    refuse_same_names(nodes)
    facts = (
        *node_facts(nodes, of_nodes),
        *edge_facts(ways, of_edges, reader),
    )
    return encode_facts(dict.fromkeys(facts), declared)


def node_facts(
    nodes: Mapping[object, Mapping[str, object]], attributes: Sequence[str]
) -> Iterator[GroundFact]:
    for name in attributes:
        for node, data in nodes.items():
            if name in data:
                yield from attribute_facts(name, (as_constant(node),), data[name])


def edge_facts(
    ways: Sequence[tuple[object, object, Mapping[str, object]]],
    attributes: Sequence[str],
    reader: GraphReader,
) -> Iterator[GroundFact]:
    for source, target, data in ways:
        ends = as_constant(source), as_constant(target)
        yield edge_predicate(ends, data, reader), ends, TRUE
        for name in attributes:
            if name in data:
                yield from attribute_facts(name, ends, data[name])


def edge_predicate(ends: tuple[str, str], data: Mapping[str, object], reader: GraphReader) -> str:
    if reader.edge_key is None:
        return as_predicate(reader.edge)
    if data.get(reader.edge_key) is None:
        raise LapisError(
            f"the edge from {ends[0]} to {ends[1]} has no attribute {reader.edge_key!r}",
            code="data-graph",
            hint="edge_key names the attribute that gives the predicate of each edge",
        )
    return as_predicate(str(data[reader.edge_key]))


def attribute_facts(name: str, ends: tuple[str, ...], value: object) -> Iterator[GroundFact]:
    """Yield the fact of an attribute; a Boolean is the fact's truth, None and NaN give none."""
    if value is None or value != value:
        return
    if is_boolean(value):
        yield as_predicate(name), ends, TRUE if value else FALSE
        return
    many = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    for one in many:
        yield as_predicate(name), (*ends, as_constant(one)), TRUE


def chosen_attributes(
    what: str,
    found: Iterable[Mapping[str, object]],
    wanted: Sequence[str] | None,
    key: str | None,
) -> tuple[str, ...]:
    known = tuple(name for name in dict.fromkeys(n for data in found for n in data) if name != key)
    for name in wanted or ():
        if name not in known:
            raise LapisError(
                f"no {what} has an attribute {name!r}",
                code="data-graph",
                hint=suggestion(name, known, f"there are {', '.join(map(str, known)) or 'none'}"),
            )
    return known if wanted is None else tuple(wanted)


def refuse_same_names(nodes: Iterable[object]) -> None:
    """Raise if two nodes have the same text, such as 1 and "1"."""
    seen: dict[str, object] = {}
    for node in nodes:
        other = seen.setdefault(as_constant(node), node)
        if other != node:
            raise LapisError(
                f"the nodes {other!r} and {node!r} are the same constant, {as_constant(node)}",
                code="data-graph",
                hint="rename one of them with networkx.relabel_nodes",
            )


def is_boolean(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def as_constant(value: object) -> str:
    """Return the constant of a node or value.

    >>> [as_constant(value) for value in ("Anna", 7, 7.0, 7.5, True)]
    ['Anna', '7', '7', '7.5', 'true']
    """
    if is_boolean(value):
        return "true" if value else "false"
    if isinstance(value, Real) and not hasattr(value, "denominator"):
        number = float(value)
        if math.isfinite(number) and number.is_integer() and abs(number) < EXACT:
            return str(int(number))
        return repr(number)
    return str(value)


def as_predicate(name: object) -> str:
    """Return the name of a predicate; raise if it cannot be written in a model."""
    text = str(name)
    if PREDICATE.fullmatch(text) is None:
        raise LapisError(
            f"{text!r} cannot be the name of a predicate",
            code="data-graph",
            hint="a name has letters, digits and _, as in works_for; rename the attribute",
        )
    return text


def to_networkx(database: Database, attributes: Sequence[str] = ()) -> networkx.MultiDiGraph:
    package = import_networkx()
    check_attributes(database, attributes)
    graph = package.MultiDiGraph()
    for constants in known_types(database).values():
        graph.add_nodes_from(constants)
    later = []
    for relation in database.relations.values():
        rows = database.decode(relation, relation.true)
        if relation.predicate in attributes:
            later.append((relation, rows))
        else:
            add_facts(graph, relation, rows)
    for relation, rows in later:
        add_attributes(graph, relation.predicate, rows)
    issue_warnings(left_out(database, "a graph"))
    return graph


def add_facts(
    graph: networkx.MultiDiGraph, relation: Relation, rows: Sequence[tuple[str, ...]]
) -> None:
    name = relation.predicate
    if relation.arity == 1:
        for (node,) in rows:
            graph.add_node(node, **{name: True})
    elif relation.arity == 2:
        for source, target in rows:
            graph.add_edge(source, target, key=name, predicate=name)
    elif rows:
        raise no_edge(relation, "a graph", "name it in attributes if its last argument is a value")


def add_attributes(
    graph: networkx.MultiDiGraph, name: str, rows: Sequence[tuple[str, ...]]
) -> None:
    """Set the attributes of nodes, or of all edges between two nodes."""
    for *ends, value in rows:
        places: list[dict[str, Any]] = []
        if len(ends) == 1:
            graph.add_node(ends[0])
            places = [graph.nodes[ends[0]]]
        elif graph.has_edge(*ends):
            places = list(graph[ends[0]][ends[1]].values())
        if not places:
            raise LapisError(
                f"{name}({', '.join((*ends, value))}) is the attribute of an edge that is no fact",
                code="data-graph",
            )
        for place in places:
            if place.setdefault(name, value) != value:
                raise LapisError(
                    f"{name} of {', '.join(ends)} has two values, {place[name]} and {value}",
                    code="data-graph",
                    hint="leave it out of attributes: its facts are edges then",
                )


def check_attributes(database: Database, attributes: Sequence[str]) -> None:
    for name in attributes:
        relation = database.relations.get(name)
        if relation is None:
            raise LapisError(
                f"the data has no predicate {name!r}",
                code="data-graph",
                hint=suggestion(name, database.relations, "attributes are names of predicates"),
            )
        if relation.arity not in (2, 3):
            raise LapisError(
                f"{name} has {relation.arity} arguments; the attribute of a node has 2, that of an "
                "edge 3",
                code="data-graph",
            )


def no_edge(relation: Relation, what: str, hint: str) -> LapisError:
    return LapisError(
        f"{relation.predicate} has {relation.arity} arguments, and {what} has facts of one or two",
        code="data-graph",
        hint=hint,
    )


def left_out(database: Database, what: str) -> list[Warning]:
    """Return a warning of the facts that are not true, if there are any."""
    number = sum(len(r.false) + len(r.unknown) for r in database.relations.values())
    if not number:
        return []
    facts = count_noun(number, "false or unknown fact")
    return [Warning(f"{what} has true facts only: {facts} left out", "data-graph")]


def import_networkx() -> ModuleType:
    try:
        import networkx
    except ImportError:
        raise LapisError(
            "graphs need networkx, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[graph]'",
        ) from None
    return networkx
