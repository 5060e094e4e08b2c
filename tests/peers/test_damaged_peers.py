"""Damaged files of other systems end in located errors, or load."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.language import parse_model
from lapis.language.model import Model
from lapis.language.printer import print_model
from peers.test_peers import PAIRS

TEXTS = [pair.path.read_text(encoding="utf-8") for pair in PAIRS]
PIECE = re.compile(r"\s+|\w+|.")
EXTRA = ["(", ")", "?", "|", ":", "-", ":-", "<=", ",", "!=", "+", "++", "[", "]", "{", "}", "."]
EXTRA += [" in ", "v", "=", "#unique{", "#fixweight", "3 {", "float_", "count(", "1.5", "\n", '"']


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A file with pieces removed, doubled, exchanged or replaced."""
    pieces = PIECE.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(pieces) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                pieces[place] = draw(st.sampled_from(EXTRA))
            case 1:
                pieces[place] = ""
            case 2:
                pieces[place] *= 2
            case _:
                other = draw(st.integers(0, len(pieces) - 1))
                pieces[place], pieces[other] = pieces[other], pieces[place]
    return "".join(pieces)


def read(text: str) -> Model | LapisError:
    try:
        return parse_model(text, "m.mln")
    except LapisError as error:
        return error


def check(text: str) -> None:
    found = read(text)
    if isinstance(found, LapisError):
        assert found.span is not None or hasattr(found, "errors")
    else:
        assert isinstance(read(print_model(found)), Model)


@given(damaged())
def test_damaged_files(text: str) -> None:
    check(text)


@pytest.mark.slow
@given(damaged())
@settings(max_examples=20_000)
def test_damaged_files_at_length(text: str) -> None:
    check(text)
