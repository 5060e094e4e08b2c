"""Reading texts of facts, for every size of chunk."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.facts_strategies import FUNCTIONS, Stated, databases, functions, stated, writings
from lapis.data import Database
from lapis.data.binding import bind, merge
from lapis.data.files import read_fact_text
from lapis.errors import LapisError, Source
from lapis.language import parse_model
from lapis.language.printer import print_model


def test_every_form_of_a_fact():
    data = Database.parse(
        """
        // people
        person = {Ann, "Bob B", // and
                  Cid}
        n = {1,...,4, 9}
        Smokes(Ann) !Smokes("Bob B")   ?Smokes( Cid )
        /* Smokes(Dan)
           Smokes(Eve) */ Rain
        !Snow()
        Ann = mother (Cid , "x \\"y\\" \\\\z")
        likes(o'Neil,x.y) likes(Person-1,3.14) likes(t:1,-2) likes(été,日本)
        Page("http://a.b/~c?d=e&f") // not a comment inside the quotes
        """
    )
    assert stated(data) == {
        Stated("Smokes", ("Ann",), True),
        Stated("Smokes", ("Bob B",), False),
        Stated("Smokes", ("Cid",), None),
        Stated("Rain", (), True),
        Stated("Snow", (), False),
        Stated("mother", ("Cid", 'x "y" \\z', "Ann"), True),
        Stated("likes", ("o'Neil", "x.y"), True),
        Stated("likes", ("Person-1", "3.14"), True),
        Stated("likes", ("t:1", "-2"), True),
        Stated("likes", ("été", "日本"), True),
        Stated("Page", ("http://a.b/~c?d=e&f",), True),
    }
    assert data.declared == {"person": ("Ann", "Bob B", "Cid"), "n": ("1", "2", "3", "4", "9")}
    assert functions(data) == {"mother"}
    assert list(data.relations) == ["Smokes", "Rain", "Snow", "mother", "likes", "Page"]


def test_relations_are_sorted_codes_in_order_of_first_appearance():
    data = Database.parse('P(B,x)\nP("A 1",x)\nP(C,y)\nP(B,y)\nP(B,x)\n')
    assert data.domains["P.0"].constants == ("B", "A 1", "C")
    assert data.domains["P.1"].constants == ("x", "y")
    relation = data.relations["P"]
    assert relation.types == ("P.0", "P.1")
    assert relation.true.tolist() == [[0, 0], [0, 1], [1, 0], [2, 1]]
    assert relation.true.dtype == np.int32
    assert relation.false.shape == relation.unknown.shape == (0, 2)


def test_nullary_relations():
    relation = Database.parse("Rain\n!Snow\n").relations["Rain"]
    assert relation.true.shape == (1, 0)
    assert relation.false.shape == (0, 0)


@pytest.mark.parametrize("text", ["", "\n\n", "// only a comment", "/* a\nb */"])
def test_nothing_stated(text: str):
    data = Database.parse(text)
    assert not data.relations
    assert not data.domains


@given(st.data())
def test_any_writing_states_its_facts(data: st.DataObject):
    facts = data.draw(databases())
    text = data.draw(writings(facts))
    found = read_fact_text(Source("<data>", text), chunk_bytes=data.draw(st.integers(1, 80)))
    assert stated(found) == set(facts)
    assert functions(found) == {fact.predicate for fact in facts} & FUNCTIONS
    assert list(found.relations) == list(dict.fromkeys(fact.predicate for fact in facts))
    for predicate, relation in found.relations.items():
        rows = [fact.constants for fact in facts if fact.predicate == predicate]
        for argument, type_name in enumerate(relation.types):
            in_order = dict.fromkeys(row[argument] for row in rows)
            assert found.domains[type_name].constants == tuple(in_order)
        for _, codes in relation.stated():
            assert codes.tolist() == sorted(map(list, {tuple(row) for row in codes.tolist()}))


PIECES = st.sampled_from(
    [
        *'PaB(),!?=1.+{}" \n\r\x01\u00a0',
        *(
            'P("a b")\n',
            'P("(,","!?")\n',
            'P("", B)\n',
            r'P("x\\","\"")',
            'P("a", "//")\n',
            "\x02",
            "\0",
        ),
        *('"x y"', "//", "/*", "*/", "...", "\n", "\n", "Q1"),
        *("P(a)\n", "P(a,B)\n", "Q(é)\n", "!P(B)\n", "A = f(a)\n", "t = {a,B}\n"),
    ]
)


def outcome(text: str, chunk_bytes: int) -> Database | str:
    try:
        return read_fact_text(Source("<data>", text), chunk_bytes=chunk_bytes)
    except LapisError as error:
        return str(error)


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=30), st.integers(1, 40))
def test_any_text_is_read_alike_in_any_chunks(text: str, chunk_bytes: int):
    assert outcome(text, chunk_bytes) == outcome(text, 1 << 20)


def test_gzip_byte_order_mark_and_windows_lines(tmp_path: Path):
    content = "\ufeffSmokes(Ann)\r\nFriends(Ann, Bob)\r\n".encode()
    (tmp_path / "d.db").write_bytes(content)
    (tmp_path / "d.db.gz").write_bytes(gzip.compress(content))
    plain, zipped = Database.read(tmp_path / "d.db"), Database.read(tmp_path / "d.db.gz")
    assert plain == zipped
    assert stated(plain) == {
        Stated("Smokes", ("Ann",), True),
        Stated("Friends", ("Ann", "Bob"), True),
    }
    assert plain.name == str(tmp_path / "d.db")


def test_many_predicates_and_chunks(tmp_path: Path):
    rng = np.random.default_rng(1)
    facts = [
        (f"P{k % 40}", tuple(f"C{c}" for c in rng.integers(0, 500, 1 + k % 3)))
        for k in range(0, 12_000)
    ]
    facts = [(name, row) for name, row in facts if len(row) == 1 + int(name[1:]) % 3]
    path = tmp_path / "many.db"
    path.write_text("".join(f"{name}({','.join(row)})\n" for name, row in facts))
    data = read_fact_text(path, chunk_bytes=10_000)
    assert stated(data) == {Stated(name, row, True) for name, row in facts}


@given(
    st.integers(-30, 30),
    st.integers(0, 12),
    st.sampled_from(["{}, ..., {}", "{},...,{}", "{}...{}", "{} , ... , {}"]),
    st.sampled_from(["", "A, "]),
    st.sampled_from(["", ", 100, B"]),
)
def test_a_range_means_the_same_in_a_model_and_in_data(
    first: int, steps: int, pattern: str, before: str, after: str
) -> None:
    last = first + steps
    text = f"n = {{{before}{pattern.format(first, last)}{after}}}"
    expected = [str(value) for value in range(first, last + 1)]
    expected = ["A"] * bool(before) + expected + ["100", "B"] * bool(after)
    in_model = parse_model(f"{text}\nP(n)\n1 P(x)")
    assert list(in_model.types["n"]) == expected
    assert parse_model(print_model(in_model)).types == in_model.types
    bare = parse_model("P(n)\n1 P(x)")
    for data in (f"{text}\n", f"P({first})\n{text}", f"/* */ {text} // {text}"):
        assert list(bind(Database.parse(data), bare).domains["n"].constants) == expected


def test_declared_types_are_domains_of_the_data() -> None:
    data = Database.parse("n = {-3, ..., 3}\nt = {A}\nP(2)")
    found = {name: domain.constants for name, domain in data.domains.items()}
    assert found == {"n": tuple(map(str, range(-3, 4))), "t": ("A",), "P.0": ("2",)}
    merged = merge([data, Database.parse("t = {B}")])
    assert merged.domains["t"].constants == ("A", "B")
