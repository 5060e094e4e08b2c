"""Facts from graphs of networkx and RDF, and back."""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st

import lapis
from lapis.data import Database
from lapis.errors import LapisError, LapisWarning


def facts(data: Database) -> set[tuple[str, tuple[str, ...], bool | None]]:
    return set(data.facts())


def test_directed_graph_with_attributes():
    graph = nx.DiGraph()
    graph.add_node("Ann", smokes=True, age=31.0, city=None)
    graph.add_node("Bob", smokes=False, age=float("nan"), hobbies=["chess", "go"])
    graph.add_node("Cid")
    graph.add_edge("Ann", "Bob", years=2.5, close=True)
    data = Database.from_networkx(graph, "Friends", node_type="person")
    assert facts(data) == {
        ("smokes", ("Ann",), True),
        ("smokes", ("Bob",), False),
        ("age", ("Ann", "31"), True),
        ("hobbies", ("Bob", "chess"), True),
        ("hobbies", ("Bob", "go"), True),
        ("Friends", ("Ann", "Bob"), True),
        ("years", ("Ann", "Bob", "2.5"), True),
        ("close", ("Ann", "Bob"), True),
    }
    assert data.declared == {"person": ("Ann", "Bob", "Cid")}


def test_an_undirected_edge_is_a_fact_in_each_direction():
    graph = nx.Graph([(1, 2), (3, 3)])
    assert facts(Database.from_networkx(graph)) == {
        ("Linked", ("1", "2"), True),
        ("Linked", ("2", "1"), True),
        ("Linked", ("3", "3"), True),
    }


def test_predicates_of_a_knowledge_graph():
    graph = nx.MultiDiGraph()
    graph.add_edge("Ann", "Acme", kind="works_for", since=1999)
    graph.add_edge("Ann", "Acme", kind="founded")
    data = Database.from_networkx(graph, edge_key="kind", edge_attributes=())
    assert facts(data) == {
        ("works_for", ("Ann", "Acme"), True),
        ("founded", ("Ann", "Acme"), True),
    }


def test_isolated_nodes_are_constants_of_their_type():
    graph = nx.DiGraph()
    graph.add_nodes_from(["Ann", "Bob"])
    model = lapis.parse("Smokes(person)\n1 Smokes(x)")
    answer = lapis.infer(model, Database.from_networkx(graph, node_type="person"), "Smokes")
    assert set(answer.marginals) == {"Smokes(Ann)", "Smokes(Bob)"}


GRAPH_ERRORS = [
    (lambda: Database.from_networkx([("a", "b")]), "a list is not a graph of networkx"),
    (
        lambda: Database.from_networkx(nx.Graph([("a", "b")]), edge_key="kind"),
        "the edge from a to b has no attribute 'kind'",
    ),
    (
        lambda: Database.from_networkx(nx.Graph([("a", "b")]), "is friend"),
        "'is friend' cannot be the name of a predicate",
    ),
    (lambda: Database.from_networkx(nx.Graph([(1, "1")])), "the nodes 1 and '1' are the same"),
    (
        lambda: Database.from_networkx(
            nx.Graph([("a", "b", {"weight": 1})]), edge_attributes=["wieght"]
        ),
        "no edge has an attribute 'wieght'\n    did you mean 'weight'?",
    ),
    (
        lambda: Database.parse("P(a,b,c)").to_networkx(),
        "P has 3 arguments, and a graph has facts of one or two",
    ),
    (lambda: Database.parse("P(a)").to_networkx(["Q"]), "the data has no predicate 'Q'"),
    (lambda: Database.parse("P(a)").to_networkx(["P"]), "P has 1 arguments; the attribute"),
    (
        lambda: Database.parse("age(a,1) age(a,2)").to_networkx(["age"]),
        "age of a has two values, 1 and 2",
    ),
    (
        lambda: Database.parse("w(a,b,1)").to_networkx(["w"]),
        "w(a, b, 1) is the attribute of an edge that is no fact",
    ),
    (lambda: Database.parse("P(a,b,c)").to_rdf(), "P has 3 arguments, and RDF has facts of one"),
    (lambda: Database.from_rdf(3), "a int is neither a file nor a graph of rdflib"),
    (lambda: Database.from_rdf("people.xyz"), "people.xyz: the suffix is not one of RDF"),
    (lambda: Database.from_rdf("none.ttl"), "none.ttl: there is no such file"),
]


@pytest.mark.parametrize(("call", "message"), GRAPH_ERRORS, ids=[m[:28] for _, m in GRAPH_ERRORS])
def test_errors_of_graphs(call, message: str):
    with pytest.raises(LapisError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_a_graph_has_true_facts_only():
    with pytest.warns(LapisWarning, match="1 false or unknown fact left out"):
        graph = Database.parse("P(a) !P(b)").to_networkx()
    assert dict(graph.nodes(data=True)) == {"a": {"P": True}}


@pytest.mark.parametrize("package", ["networkx", "rdflib"])
def test_a_missing_package_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    data = Database.parse("P(a,b)")
    with pytest.raises(LapisError, match="which is not installed") as caught:
        data.to_networkx() if package == "networkx" else data.to_rdf()
    assert "lapis-mln[" in str(caught.value)


NAMES = st.sampled_from(["Ann", "b", "3", "a b", "x/y", "é", "#", '"q"', "_:n", "http://x.org/y"])
FACTS = st.lists(
    st.tuples(st.sampled_from(["P", "q"]), NAMES)
    | st.tuples(st.sampled_from(["R", "likes"]), NAMES, NAMES),
    max_size=12,
)


def parse_rows(rows: list[tuple[str, ...]]) -> Database:
    from lapis.language.names import format_atom

    return Database.parse("\n".join(format_atom(name, constants) for name, *constants in rows))


@given(FACTS)
def test_graph_and_back(rows: list[tuple[str, ...]]):
    data = parse_rows(rows)
    graph = data.to_networkx()
    again = Database.from_networkx(graph, edge_key="predicate")
    assert facts(again) == facts(data)


@given(FACTS)
def test_rdf_and_back(rows: list[tuple[str, ...]]):
    data = parse_rows([row for row in rows if "_:n" not in row and "http://x.org/y" not in row])
    assert facts(Database.from_rdf(data.to_rdf())) == facts(data)


TURTLE = """
@prefix ex: <http://example.org/> .
@prefix other: <http://other.org/things#> .
ex:Ann a ex:Person ; ex:works-for ex:Acme ; ex:age 31 ; ex:title "boss"@en .
other:Ann ex:knows [ a ex:Person ] .
"""


def test_rdf_file(tmp_path: Path):
    path = tmp_path / "people.ttl"
    path.write_text(TURTLE)
    data = Database.from_rdf(path)
    (blank,) = {row[0] for name, row, _ in data.facts() if name == "Person"} - {"ex:Ann"}
    assert facts(data) == {
        ("Person", ("ex:Ann",), True),
        ("works_for", ("ex:Ann", "Acme"), True),
        ("age", ("ex:Ann", "31"), True),
        ("title", ("ex:Ann", "boss"), True),
        ("knows", ("other:Ann", blank), True),
        ("Person", (blank,), True),
    }
    assert facts(Database.from_rdf(path)) == facts(data)
    named = Database.from_rdf(path, names={"http://other.org/things#Ann": "Anna"})
    assert ("knows", ("Anna", blank), True) in facts(named)


def test_whole_iris_go_out_as_they_came_in(tmp_path: Path):
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    data = Database.from_rdf(graph, full_names=True)
    iris = {
        "works_for": "http://example.org/works-for",
        **{n: f"http://example.org/{n}" for n in ("Person", "age", "title", "knows")},
    }
    written = data.to_rdf(iris=iris, literals=["age", "title"])
    texts = {tuple(map(str, triple)) for triple in rdflib.compare.to_canonical_graph(graph)}
    assert {tuple(map(str, triple)) for triple in written} == texts


def test_two_iris_of_one_name_need_prefixes(tmp_path: Path):
    path = tmp_path / "two.nt"
    path.write_text("<http://a.org/x> <http://a.org/p> <http://b.org/x> .\n")
    with pytest.raises(LapisError, match="have the same name, x"):
        Database.from_rdf(path)


def test_a_damaged_rdf_file_is_named(tmp_path: Path):
    path = tmp_path / "bad.ttl"
    path.write_text("@prefix ex: <http://example.org/> .\nex:a ex:b [")
    with pytest.raises(LapisError, match=r"bad\.ttl: this is not turtle: at line 2"):
        Database.from_rdf(path)
    with pytest.raises(LapisError, match="rdflib reads no format 'tortoise'"):
        Database.from_rdf(path, format="tortoise")


def test_arrow_in_every_form():
    """Tables, batches, readers, dictionaries of values, and any object with an Arrow stream."""
    table = pa.table({"a": pa.array(["x", "y", "x"]).dictionary_encode(), "b": [1, 2, 3]})

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    forms = (
        table, table.to_batches()[0], Stream(),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
    )  # fmt: skip
    expected = {("P", (a, b), True) for a, b in [("x", "1"), ("y", "2"), ("x", "3")]}
    for form in forms:
        data = Database.from_frames({"P": form})
        assert facts(data) == expected
    out = data.to_frames("arrow")
    assert facts(Database.from_frames(out)) == expected
