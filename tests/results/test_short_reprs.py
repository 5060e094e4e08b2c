"""Representations of models, databases, problems and networks: short, counted, escaped."""

from __future__ import annotations

import re
from contextlib import suppress
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import strategies
from lapis.data.binding import bind
from lapis.data.database import Domain
from lapis.language.model import Model
from lapis.network.network import Network
from lapis.results.atom_groups import Atoms, predicate_group
from lapis.runtime.views import MAX_ROWS, short_repr
from lapis.stores.store import open_store
from lapis.stores.stored_database import open_tables

MAX_LINES = 12
MAX_CHARACTERS = 1200
Shown = Model | lapis.Database | lapis.Problem | Network


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def require_short(*shown: Shown) -> None:
    for each in shown:
        text = repr(each)
        assert len(text) <= MAX_CHARACTERS
        assert text.count("\n") < MAX_LINES
        assert text.startswith(f"<{type(each).__name__}")
        assert all(character.isprintable() or character == "\n" for character in text)
        page = each._repr_html_()
        assert Tags(page).found <= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}


@given(strategies.cases())
def test_random_models_are_shown_in_a_few_lines(case: strategies.Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    problem = lapis.build_problem(model, data, list(model.predicates))
    require_short(model, data, bind(data, model), problem)
    with suppress(lapis.LapisError):  # hard rules that contradict the data
        require_short(lapis.ground(problem))
    assert f" {len(model.rules)} rule" in repr(model)


def test_many_and_long_names_are_shortened() -> None:
    name = "Long" + "g" * 400
    rules = " v ".join(f"{name}{i}(x)" for i in range(60))
    text = "".join(f"{name}{i}(t)\n" for i in range(60)) + f"1 {rules}\n" * 40
    model = lapis.parse(text + "t = {A, B}", name="/a/long/path" * 60)
    data = lapis.Database.parse(" ".join(f"{name}{i}(A)" for i in range(60)), name="d" * 900)
    problem = lapis.build_problem(model, data, list(model.predicates))
    require_short(model, data, problem, lapis.ground(problem))
    assert "… and 33 more" in repr(model)
    assert "60 predicates, 40 rules, 2 constants" in model._repr_html_()


@given(st.text(), st.lists(st.text(max_size=300), max_size=20))
def test_any_text_is_shown_in_a_few_lines(name: str, lines: list[str]) -> None:
    text = short_repr("Model", name, ["1 rule"], lines, len(lines))
    assert len(text) <= MAX_CHARACTERS
    assert text.count("\n") < MAX_LINES


def test_html_escapes_names() -> None:
    model = lapis.parse('P(t)\nt = {"<b>"}\n1 P("<b>")\n2 P(x)', name="<i>.mln")
    data = lapis.Database.from_sql({"<script>": "SELECT '<b>'"})
    for shown in (model, data, lapis.build_problem(model, None, ["P"])):
        require_short(shown)
    assert "P(&quot;&lt;b&gt;&quot;)" in model._repr_html_()
    assert "&lt;i&gt;.mln" in model._repr_html_()
    assert "&lt;script&gt;" in data._repr_html_()


def test_counts_of_a_small_case() -> None:
    model = lapis.parse(
        "t = {A, B, C}\nP(t)\nQ(t)\n1.5 P(x) => Q(x)\nP(A) v P(B).\nP(x) v Q(x)", name="m.mln"
    )
    data = lapis.Database.parse("P(A) !P(C) ?Q(B)", name="d.db")
    assert repr(model).split("\n") == [
        "<Model m.mln: 2 predicates, 3 rules (1 hard), 3 constants",
        "  P(t), Q(t)",
        "  1.5 P(x) => Q(x)",
        "  P(A) v P(B).",
        "  P(x) v Q(x)>",
    ]
    assert repr(data).split("\n") == [
        "<Database d.db: 2 predicates, 3 facts, 3 constants",
        "  P: 1 true, 1 false",
        "  Q: 0 true, 1 unknown>",
    ]
    problem = lapis.build_problem(model, data, ["P"])
    assert repr(problem).split("\n") == [
        "<Problem d.db: 2 predicates (1 open), 3 rules, 3 constants, query P",
        "  P(t): open, 1 true, 1 false, 0 unknown",
        "  Q(t): closed, 0 true, 0 false, 1 unknown>",
    ]
    found = re.match(r"<Network: 2 atoms, 2 clauses, 0 blocks, \d weights, 1 component\n", repr(
        lapis.ground(problem)
    ))  # fmt: skip
    assert found


def test_facts_on_an_engine_are_counted_without_reading_them() -> None:
    pytest.importorskip("duckdb")
    with open_store("duckdb") as store:
        data = open_tables(store, {"P": "SELECT range AS a FROM range(5)"})
        assert repr(data).split("\n")[1] == "  P: 5 true>"
        assert "<td style='text-align:right'>5</td>" in data._repr_html_()


def test_parts_and_other_models_are_shown_in_a_line() -> None:
    """Dataclasses of arrays and trees would fill pages."""
    model = lapis.parse("Smokes(p)\nCancer(p)\n1.5 Smokes(x) => Cancer(x)")
    data = lapis.Database.parse("Smokes(A) !Smokes(B) ?Smokes(C)")
    circuit = lapis.circuits.learn(np.array([[0, 1], [1, 1], [0, 0]]), edge_costs=[0.1])
    assert [repr(each) for each in (
        data.relations["Smokes"],
        data.domains["Smokes.0"],
        lapis.fields.from_model(model),
        lapis.infer(model, data, "Cancer").asked,
    )] == [
        "<Relation Smokes(Smokes.0): 1 true, 1 false, 1 unknown>",
        "<Domain Smokes.0: 3 constants>",
        "<Field <text>: 2 predicates, 2 parfeatures, 3 weights>",
        "<Atoms: 3 atoms>",
    ]  # fmt: skip
    assert circuit.circuit is not None
    for each in (circuit, circuit.network, circuit.circuit, lapis.circuits.draw(circuit.circuit)):
        assert re.fullmatch(r"<[^\n]{10,250}>", repr(each))
    assert "yes converged" not in repr(circuit)


def test_a_million_atoms_are_shown_on_a_screen() -> None:
    """Only the rows that are shown are named."""
    domain = Domain("t", tuple(f"<b>{number}</b>" for number in range(1000)))
    codes = np.indices((1000, 1000), np.int32).reshape(2, -1).T
    atoms = Atoms((predicate_group("P", codes, (domain, domain), ("t", "t")),))
    chance = np.linspace(0.0, 1.0, 10**6)
    answer = lapis.Answer(("exact",), True, None, atoms, chance, None, np.empty(0))
    world = lapis.MostLikelyWorld("exact", True, 0.0, atoms, chance > 0.5)
    for result in (answer, world):
        text, page = str(result), result._repr_html_()
        assert text.count("\n") < MAX_ROWS + 4
        assert len(page) < 50_000
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
        assert len(repr(result)) < 200
        assert not {"names", "marginals"} & set(vars(result))
