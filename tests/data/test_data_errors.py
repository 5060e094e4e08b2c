"""Every error in data has a message with its place, the reason and a hint."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lapis.data import Database
from lapis.errors import LapisError, LapisErrors

GOLDEN = [
    ("Smokes(Ann", "1:1: this fact has no closing )", "^^^^^^^^^^", "a fact stands on one line"),
    ("Smokes(Ann).", "1:12: a fact has no final period", "           ^", "remove the period"),
    ("Rain.", "1:5: a fact has no final period", "    ^", "remove the period"),
    (
        "0.7 Smokes(Ann)",
        "1:1: a number before a fact (soft evidence) is not supported",
        "^^^",
        None,
    ),
    (
        "Length(A1) 0.25",
        "1:12: a number after a fact (the value of a hybrid domain) is not supported",
        "           ^^^^",
        None,
    ),
    ("P(a,,b)", "1:5: a constant is missing here", "    ^", None),
    ("P(a,)", "1:5: a constant is missing here", "    ^", None),
    ("P(a b)", "1:5: expected , or ) after a constant", "    ^^", 'quotes: "a b"'),
    ("P(a+b)", "1:4: expected , or ) after a constant", "   ^^^", 'quotes: "a b"'),
    ("P(+b)", "1:3: expected a constant", "  ^^^", 'quotes: "a b"'),
    ('P("a)', "1:3: this quote is never closed", "  ^^^", "on the same line"),
    ('P("a\\q")', "1:3: unknown escape in this constant", "  ^^^^^", "known are"),
    ("P(a)Q(b)", "1:5: expected the end of the line or a space after a fact", "    ^^^^", None),
    ("P(a) => Q(a)", "1:6: expected a fact", "     ^^", "facts look like"),
    ("*P(a)", "1:1: expected a fact", "^^^^^", None),
    (
        "A = f",
        "1:5: expected a function with its arguments after =",
        "    ^",
        "Eve = MotherOf(Ann)",
    ),
    ("A = f(B", "1:1: this fact has no closing )", "^^^^^^^", None),
    ("A = f(B).", "1:9: a fact has no final period", "        ^", None),
    ("t = {A B}", "1:1: this is not a list of constants", "^^^^^^^^^", "{1, ..., 10}"),
    (
        "t = {A, ..., B}",
        "1:1: a range needs two whole numbers, as in {1, ..., 10}",
        "^^^^^^^^^^^^^^^",
        None,
    ),
    (
        "t = {..., 1}",
        "1:1: a range needs two whole numbers, as in {1, ..., 10}",
        "^^^^^^^^^^^^",
        None,
    ),
    (
        "t = {0, ..., 99999999}",
        "1:1: this range has 100,000,000 constants; at most 10,000,000 are possible",
        "^" * 22,
        None,
    ),
    ("t = {5, ..., 1}", "1:1: this range is empty: 5 is more than 1", "^^^^^^^^^^^^^^^", None),
    ("t = {A}.", "1:8: a fact has no final period", "       ^", None),
    ("t = {A,\nB", "1:1: this type declaration is never closed", "^^^^^", "close it with }"),
    ("/* P(a)\n", "1:1: this comment is never closed", "^^", "close it with */"),
    ("P(a\u00a0b)", "1:4: expected , or ) after a constant", "   ^^^", None),
]


@pytest.mark.parametrize(("text", "first", "carets", "hint"), GOLDEN)
def test_malformed_text(text: str, first: str, carets: str, hint: str | None):
    with pytest.raises(LapisError) as caught:
        Database.parse(text, name="d.db")
    lines = str(caught.value).split("\n")
    assert caught.value.code == "data-syntax"
    assert lines[0] == f"d.db:{first}"
    assert lines[1:3] == ["    " + text.split("\n")[0], "    " + carets]
    if hint:
        assert hint in lines[3]
    if text.count("\n") == 0:
        # The same mistake is found in the middle of good lines, and by its own line only.
        with pytest.raises(LapisError) as caught:
            Database.parse(f"Good(a)\nGood(b)\n{text}\nGood(c)\n", name="d.db")
        assert not isinstance(caught.value, LapisErrors)
        assert str(caught.value).split("\n")[0] == f"d.db:3:{first.partition(':')[2]}"


def test_all_mistakes_in_one_go():
    with pytest.raises(LapisErrors) as caught:
        Database.parse("P(a\nP(b)\n0.5 P(c)\nP(d).\n", name="d.db")
    assert [str(error.span) for error in caught.value.errors] == [
        "d.db:1:1",
        "d.db:3:1",
        "d.db:4:5",
    ]


def test_many_mistakes_are_capped():
    with pytest.raises(LapisErrors) as caught:
        Database.parse("P(a\n" * 50)
    assert (len(caught.value.errors), caught.value.num_omitted) == (20, 30)
    assert str(caught.value).endswith("\nand 30 more")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Smokes(Ann)\n!Smokes(Ann)", "Smokes(Ann) is both true and false"),
        ("!Smokes(Ann)\nSmokes(Ann)", "Smokes(Ann) is both true and false"),
        ("Smokes(Ann)\n?Smokes(Ann)", "Smokes(Ann) is both true and unknown"),
        ("?Rain\n!Rain", "Rain is both false and unknown"),
        ("A = f(x)\n!A = f(x)", 'A = f("x") is both true and false'),
        (
            "A = f(x)\nB = f(x)",
            'a function has one value, but the data states A = f("x") and B = f("x")',
        ),
    ],
)
def test_contradictions_show_both_places(text: str, message: str):
    with pytest.raises(LapisError) as caught:
        Database.parse(text, name="d.db")
    first, second = text.split("\n")
    word = {"!": "false", "?": "unknown"}.get(first[0], "true")
    assert str(caught.value).split("\n") == [
        f"d.db:2:1: {message}",
        f"    {second}",
        f"    {'^' * len(second)}",
        f"d.db:1:1: first stated {word} here",
        f"    {first}",
        f"    {'^' * len(first)}",
    ]


def test_contradiction_between_files(tmp_path: Path):
    (tmp_path / "a.db").write_text("Smokes(Ann)\n")
    (tmp_path / "b.db.gz").write_bytes(gzip.compress(b"Smokes(Bob)\n!Smokes(Ann)\n"))
    with pytest.raises(LapisError) as caught:
        Database.read(tmp_path / "a.db", tmp_path / "b.db.gz")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'b.db.gz'}:2:1: Smokes(Ann) is both true and false")
    assert f"{tmp_path / 'a.db'}:1:1: first stated true here" in text


def test_a_predicate_has_one_arity():
    with pytest.raises(LapisError) as caught:
        Database.parse("P(a,b)\nP(c)\nP(d,e)\n", name="d.db")
    assert caught.value.code == "data-arity"
    assert str(caught.value).split("\n") == [
        "d.db:2:1: P has 1 argument in 1 fact, but 2 arguments in 2 facts",
        "    P(c)",
        "    ^^^^",
        "d.db:1:1: the other use is here",
        "    P(a,b)",
        "    ^^^^^^",
    ]


def test_a_function_is_no_predicate():
    with pytest.raises(LapisError, match="used both as a function and as a predicate"):
        Database.parse("A = f(b)\nf(b)\nf(c)\n")


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(LapisError, match="there is no such file"):
        Database.read(tmp_path / "absent.db")
    (tmp_path / "latin.db").write_bytes("P(a)\nP(é)\n".encode("latin-1"))
    with pytest.raises(LapisError) as caught:
        Database.read(tmp_path / "latin.db")
    assert caught.value.code == "data-encoding"
    assert str(caught.value.span).endswith("latin.db:2:3")
    (tmp_path / "broken.db.gz").write_bytes(gzip.compress(b"P(a)\n" * 1000)[:20])
    with pytest.raises(LapisError, match="cannot be read"):
        Database.read(tmp_path / "broken.db.gz")
    (tmp_path / "not.db.gz").write_bytes(b"P(a)\n")
    with pytest.raises(LapisError, match="cannot be read"):
        Database.read(tmp_path / "not.db.gz")


@pytest.mark.parametrize("last", ["9" * 5000, "²", "1e9", "99999999999999999999"])
def test_a_range_needs_two_whole_numbers(last):
    with pytest.raises(LapisError, match=r"needs two whole numbers|not a list of constants"):
        Database.parse(f"n = {{1, ..., {last}}}\n")
