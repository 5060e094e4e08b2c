"""Every spelling of a ground atom or formula has the same canonical name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from lapis.language.instances import canonical_name
from lapis.language.names import format_atom, quote_text

CONSTANTS = st.one_of(
    st.sampled_from(
        ["Anna", "anna", "3", "-2.5", "a, b", 'q"\\', "c1cc[nH]c1", "v", "", "f(x) = y"]
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.lists(CONSTANTS, min_size=1, max_size=3), st.booleans(), st.sampled_from(["", " ", "  "]))
def test_an_atom_keeps_its_name_however_it_is_spaced_and_quoted(
    constants: list[str], function: bool, gap: str
) -> None:
    function = function and len(constants) > 1
    name = format_atom("Rel", constants, function)
    assert canonical_name(name) == name
    quoted = [f"{gap}{quote_text(constant)}{gap}" for constant in constants]
    if not function:
        assert canonical_name(f"Rel({','.join(quoted)})") == name
    else:
        inner = f"Rel({','.join(quoted[:-1])})"
        assert canonical_name(f"{quoted[-1]}={inner}") == name
        assert canonical_name(f"{inner}={quoted[-1]}") == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("P(A,B)^P(B,A)", "P(A, B) ^ P(B, A)"),
        ("P(anna) => Q(anna)", 'P("anna") => Q("anna")'),
        ("EXIST x (P(x, anna))", 'EXIST x P(x, "anna")'),
        ("P(i+1) v P(anna)", 'P(i+1) v P("anna")'),
        ("Rain", "Rain"),
    ],
)
def test_formulas_are_named_as_they_are_printed(written: str, name: str) -> None:
    assert canonical_name(written) == name


def test_nothing_is_added_to_a_name() -> None:
    """The formula of a weight is written out for each constant, also of one that is no number."""
    model = lapis.parse("n = {1, Old}\nP(n)\n3 i < i+8 => P(+i)")
    with pytest.raises(lapis.LapisError) as caught:
        lapis.count(model)
    said = str(caught.value).splitlines()[0]
    assert (
        said
        == "<text>:3:1: 'i < i+8 => P(+i)' compares numbers, but Old of type 'n' is not a number"
    )
