"""Formatting and parsing of constants in data and in models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.data import Database
from lapis.language.names import format_atom, format_constant, parse_constant


@pytest.mark.parametrize("name", ["Ann", "A_1", "0", "42", "1e5", "-3", "2.50", "-0.1", "9lives"])
def test_bare_constants(name: str):
    assert format_constant(name) == name


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ann", '"ann"'),
        ("", '""'),
        ("a b", '"a b"'),
        ("A-1", '"A-1"'),
        ("1.", '"1."'),
        ("É", '"É"'),
        ('"', '"\\""'),
        ("\\n", '"\\\\n"'),
        ("a\nb\tc\r", '"a\\nb\\tc\\r"'),
        ("A\n", '"A\\n"'),
        ("FORALL", '"FORALL"'),
        ("Exists", '"Exists"'),
    ],
)
def test_quoted_constants(name: str, written: str):
    assert format_constant(name) == written


@given(st.text())
def test_constants_read_back(name: str):
    assert parse_constant(format_constant(name)) == name


TEXT = st.text(st.characters(codec="utf-8"))


@given(st.lists(TEXT, max_size=3), st.booleans())
def test_atoms_read_back_as_facts(constants: list[str], function: bool):
    function = function and bool(constants)
    atom = format_atom("p", constants, function)
    assert list(Database.parse(atom).facts()) == [("p", tuple(constants), True)]
