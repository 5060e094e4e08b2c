"""A name in a query is a constant if a world has it; otherwise it must be a variable."""

from __future__ import annotations

import pytest

import lapis

MODEL = lapis.parse("Smokes(person)\nFriends(person, person)\nperson F(person)\n1 Smokes(x)")
DATA = lapis.Database.parse(
    "Friends(anna, bob) Friends(bob, x1) anna = F(bob) bob = F(anna) bob = F(x1)", "d.db"
)


def asked(query: str | list[str]) -> list[str]:
    return list(lapis.infer(MODEL, DATA, query).marginals)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("Smokes(anna)", ['Smokes("anna")']),
        ('Smokes("anna")', ['Smokes("anna")']),
        ("Smokes(x1)", ['Smokes("x1")']),  # a constant, though it looks like a variable
        ("Smokes(x)", ['Smokes("anna")', 'Smokes("bob")', 'Smokes("x1")']),
        ("Smokes(y2')", ['Smokes("anna")', 'Smokes("bob")', 'Smokes("x1")']),
        ("Smokes", ['Smokes("anna")', 'Smokes("bob")', 'Smokes("x1")']),
        (["Smokes", "Friends(anna, bob)"], ['Friends("anna","bob")']),
        (
            ["Smokes", "Friends(anna, y)"],
            [f'Friends("anna","{name}")' for name in ("anna", "bob", "x1")],
        ),
        (["Smokes", "Smokes(anna) ^ Smokes(z)"], ['Smokes("anna") ^ Smokes("anna")',
          'Smokes("anna") ^ Smokes("bob")', 'Smokes("anna") ^ Smokes("x1")']),
        (["Smokes", "anna = F(bob)"], ['"anna" = F("bob")']),
        (["Smokes", "F(bob) = anna"], ['"anna" = F("bob")']),
        (["Smokes", "EXIST x,y Friends(x, y)"], ["EXIST x,y Friends(x, y)"]),
    ],
)  # fmt: skip
def test_names_are_constants_where_the_data_has_them(
    query: str | list[str], rows: list[str]
) -> None:
    found = asked(query)
    if isinstance(query, list):
        found = [row for row in found if row not in asked("Smokes")]
    assert found == rows


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "Smokes(ana)",
            "<query>:1:1: unknown constant 'ana' of type 'person' in the query Smokes(ana)\n"
            "    Smokes(ana)\n    ^^^^^^^^^^^\n    did you mean 'anna'?",
        ),
        (
            "Smokes(Zed)",
            "<query>:1:1: unknown constant 'Zed' of type 'person' in the query Smokes(Zed)\n"
            "    Smokes(Zed)\n    ^^^^^^^^^^^",
        ),
        (
            "Friends(anna)",
            "<query>:1:1: 'Friends' takes 2 arguments, the query Friends(anna) has 1\n"
            "    Friends(anna)\n    ^^^^^^^^^^^^^",
        ),
        (
            "F(anna)",
            "<query>:1:1: 'F' takes 2 arguments, the query F(anna) has 1\n"
            "    F(anna)\n    ^^^^^^^\n    query a value of it as Value = F(…)",
        ),
        ("Smoks(anna)", "unknown predicate 'Smoks' in the query\n    did you mean 'Smokes'?"),
    ],
)
def test_unknown_names_are_refused(query: str, message: str) -> None:
    for question in (lapis.infer, lapis.map):
        with pytest.raises(lapis.LapisError) as caught:
            question(MODEL, DATA, query)
        assert str(caught.value) == message


def test_an_atom_is_asked_of_the_worlds_that_have_its_constants() -> None:
    other = lapis.Database.parse("Friends(carl, carl) carl = F(carl)", "other.db")
    for query in ("Smokes(anna)", "Smokes(anna) ^ Smokes(bob)", "Smokes(anna) v Smokes(x)"):
        alone = lapis.infer(MODEL, DATA, query)
        both = lapis.infer(MODEL, [DATA, other], query)
        assert both.probability.tolist() == alone.probability.tolist()
    with pytest.raises(lapis.LapisError, match="unknown constant 'dora'"):
        lapis.infer(MODEL, [DATA, other], "Smokes(dora)")


@pytest.mark.parametrize(
    "query", [["Smokes(anna)", "Smokes"], ["Smokes", "Smokes"], ["Smokes(x)", "Smokes(bob)"]]
)
def test_what_is_asked_twice_is_answered_once(query: list[str]) -> None:
    answer = lapis.infer(MODEL, DATA, query)
    assert sorted(answer.atoms) == ['Smokes("anna")', 'Smokes("bob")', 'Smokes("x1")']
