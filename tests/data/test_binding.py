"""Binding of data to a model: types, codes and errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.facts_strategies import stated
from lapis.data import Database, bind, merge, read_worlds
from lapis.data.binding import keep_known
from lapis.errors import LapisError, LapisErrors
from lapis.language import parse_model
from lapis.language.model import Model, Predicate

SMOKERS = parse_model(
    "person = {Zoe}\nSmokes(person)\nFriends(person, person)\nLives(person, city)\nRain\n"
    "person MotherOf(person)\n"
)


def test_types_take_constants_from_model_declarations_and_facts():
    data = Database.parse(
        "Friends(Bob,Ann)\nLives(Cid,Rome)\nperson = {Dan, Ann}\nSmokes(Ann) !Smokes(Zoe)\n?Rain\n"
        "Eve = MotherOf(Ann)\n"
    )
    bound = bind(data, SMOKERS)
    assert bound.domains["person"].constants == ("Zoe", "Dan", "Ann", "Bob", "Cid", "Eve")
    assert bound.domains["city"].constants == ("Rome",)
    assert list(bound.relations) == list(SMOKERS.predicates)
    for name, relation in bound.relations.items():
        assert relation.types == SMOKERS.predicates[name].types
        assert relation.function == SMOKERS.predicates[name].function
    assert bound.relations["Friends"].true.tolist() == [[3, 2]]
    assert bound.relations["Smokes"].true.tolist() == [[2]]
    assert bound.relations["Smokes"].false.tolist() == [[0]]
    assert bound.relations["Rain"].unknown.shape == (1, 0)
    assert stated(bound) == stated(data)
    assert bind(bound, SMOKERS) == bound


def test_silent_predicates_are_empty():
    bound = bind(Database.parse(""), SMOKERS)
    assert bound.relations["Friends"].true.shape == (0, 2)
    assert bound.relations["Rain"].true.shape == (0, 0)
    assert bound.domains["city"].constants == ()


def test_a_type_and_a_predicate_may_share_a_name():
    model = parse_model("movie(movie, person)\n")
    bound = bind(Database.parse("movie(M,P)"), model)
    assert {name: domain.constants for name, domain in bound.domains.items()} == {
        "movie": ("M",),
        "person": ("P",),
    }


ARGUMENTS = {"P": ("s", "t"), "Q": ("t",), "R": ("t", "t", "s")}


@given(
    st.lists(
        st.sampled_from(sorted(ARGUMENTS)).flatmap(
            lambda name: st.tuples(
                st.just(name), st.tuples(*[st.sampled_from("ABCDE")] * len(ARGUMENTS[name]))
            )
        ),
        max_size=15,
    ),
    st.lists(st.sampled_from("AXY"), unique=True),
    st.booleans(),
)
def test_order_of_constants(
    facts: list[tuple[str, tuple[str, ...]]], named: list[str], in_two_files: bool
):
    """Constants of a type: the model's, then those of the facts as they come."""
    predicates = {name: Predicate(name, types) for name, types in ARGUMENTS.items()}
    model = Model({"s": (), "t": tuple(named)}, predicates, ())
    lines = [f"{name}({','.join(row)})\n" for name, row in facts]
    cut = len(lines) // 2 if in_two_files else 0
    data = merge([Database.parse("".join(part)) for part in (lines[:cut], lines[cut:])])
    expected = {"s": {}, "t": dict.fromkeys(named)}
    for name, row in facts:
        for type_name, constant in zip(ARGUMENTS[name], row, strict=True):
            expected[type_name].setdefault(constant)
    bound = bind(data, model)
    assert {name: domain.constants for name, domain in bound.domains.items()} == {
        name: tuple(constants) for name, constants in expected.items()
    }
    assert {(name, row, True) for name, row in facts} == set(bound.facts())
    for relation in bound.relations.values():
        assert relation.true.tolist() == sorted(relation.true.tolist())


def test_all_that_does_not_fit_in_one_go():
    text = (
        "Smoks(Ann)\nFriends(Ann)\nFriends(Bob)\nEve = Lives(Ann,Rome)\nMotherOf(Ann,Eve)\n"
        "!Zzz(1)\npersn = {Ann}\n"
    )
    with pytest.raises(LapisErrors) as caught:
        bind(Database.parse(text, name="d.db"), SMOKERS)
    errors = caught.value.errors
    assert [(error.code, str(error.span)) for error in errors] == [
        ("unknown-predicate", "d.db:1:1"),
        ("data-arity", "d.db:2:1"),
        ("data-function", "d.db:4:1"),
        ("data-function", "d.db:5:1"),
        ("unknown-predicate", "d.db:6:2"),
        ("unknown-type", "d.db:7:1"),
    ]
    assert str(errors[0]).split("\n")[:3] == [
        "d.db:1:1: data for an unknown predicate 'Smoks'",
        "    Smoks(Ann)",
        "    ^^^^^",
    ]
    assert "did you mean 'Smokes', declared at" in str(errors[0])
    assert errors[1].message == "Friends has 2 arguments, but 1 in the data"
    assert errors[2].message == "Lives is a predicate, but the data gives it a value"
    assert errors[3].message == "MotherOf is a function, but the data uses it as a predicate"
    assert errors[5].hint == "did you mean 'person'?"


def test_arity_of_functions_counts_arguments():
    with pytest.raises(LapisError, match="MotherOf has 1 argument, but 2 in the data"):
        bind(Database.parse("Eve = MotherOf(Ann,Bob)"), SMOKERS)


def test_tables_of_functions_need_no_mark():
    data = Database.from_sql({"MotherOf": "SELECT 'Ann', 'Eve'"})
    relation = bind(data, SMOKERS).relations["MotherOf"]
    assert relation.function
    assert len(relation.true) == 1
    with pytest.raises(LapisError, match="a function has one value"):
        bind(Database.from_sql({"MotherOf": "SELECT 'Ann', unnest(['Eve', 'Eva'])"}), SMOKERS)
    with pytest.raises(LapisError, match="MotherOf has 2 arguments, but 1 in the data"):
        bind(Database.from_sql({"MotherOf": "SELECT 'Ann'"}), SMOKERS)


def test_errors_without_a_text_have_no_span():
    with pytest.raises(LapisError) as caught:
        bind(Database.from_sql({"Smoks": "SELECT 1"}), SMOKERS)
    assert caught.value.span is None
    assert "data for an unknown predicate 'Smoks'" in str(caught.value)


def test_merging_and_worlds(tmp_path: Path):
    (tmp_path / "a.db").write_text("Smokes(Ann)\nFriends(Ann,Bob)\nperson = {Ann}\n")
    (tmp_path / "b.db").write_text("Smokes(Bob)\n!Friends(Bob,Bob)\nRain\nperson = {Bob}\n")
    one, two = read_worlds([tmp_path / "a.db", tmp_path / "b.db"])
    both = Database.read(tmp_path / "a.db", tmp_path / "b.db")
    assert merge([one, two]) == both
    assert stated(both) == stated(one) | stated(two)
    assert both.domains["Smokes.0"].constants == ("Ann", "Bob")
    assert both.domains["Friends.1"].constants == ("Bob",)
    assert both.declared == {"person": ("Ann", "Bob")}
    bound = merge([bind(one, SMOKERS), bind(two, SMOKERS)])
    assert stated(bound) == stated(both)
    assert bound.domains["person"].constants == ("Zoe", "Ann", "Bob")


def test_what_cannot_be_merged():
    with pytest.raises(LapisError, match="no database to merge"):
        merge([])
    with pytest.raises(LapisError, match="P has 2 arguments in 1 fact, but 1 argument in 2 facts"):
        merge([Database.parse("P(a) P(c)"), Database.parse("P(a,b)")])
    smokes = Database.parse("Smokes(Ann)")
    with pytest.raises(LapisError, match="different types"):
        merge([smokes, bind(smokes, SMOKERS)])


def test_facts_of_a_function_with_other_numbers_of_arguments():
    """The value is no argument, though it is a column."""
    text = "Eve = MotherOf(Ann)\nEve = MotherOf(Bob)\nEve = MotherOf(Ann, Bob)"
    message = "MotherOf has 2 arguments in 1 fact, but 1 argument in 2 facts"
    with pytest.raises(LapisError, match=message):
        Database.parse(text)
    with pytest.raises(LapisError, match=message):
        merge(
            [Database.parse("\n".join(text.split("\n")[:2])), Database.parse(text.split("\n")[2])]
        )


@pytest.mark.parametrize(
    ("facts", "close"),
    [
        ("Smoks(Ann)", True),
        ("Height(Ann)", False),
        ("persn = {Ann}", True),
        ("metal = {Fe}", False),
    ],
)
def test_unknown_names_are_errors_if_close_or_strict(facts: str, close: bool):
    """A misspelt name is an error in any case; another one is left out, unless `strict`."""
    data = Database.parse(facts)
    with pytest.raises(LapisError, match="unknown"):
        keep_known([data], SMOKERS, strict=True)
    if close:
        with pytest.raises(LapisError, match="did you mean"):
            keep_known([data], SMOKERS)
    else:
        (kept,), warnings = keep_known([data], SMOKERS)
        assert (dict(kept.relations), dict(kept.declared), len(warnings)) == ({}, {}, 1)


def test_a_size_is_filled_up_by_constants_without_names() -> None:
    model = parse_model("person = 4 {Zoe}\nSmokes(person)\n1 Smokes(x)")
    [data], warnings = keep_known([Database.parse("Smokes(Ann)\nperson = {Zoe}")], model)
    assert not warnings
    assert bind(data, model).domains["person"].constants == ("Zoe", "Ann", "person0", "person1")


def test_more_names_than_the_size_are_a_warning() -> None:
    model = parse_model("person = 2 {}\nSmokes(person)\n1 Smokes(x)")
    data = Database.parse("Smokes(A) Smokes(B) Smokes(C)")
    [kept], warnings = keep_known([data], model)
    assert [w.message for w in warnings] == ["type 'person' has 3 constants, more than its size 2"]
    assert bind(kept, model).domains["person"].constants == ("A", "B", "C")
