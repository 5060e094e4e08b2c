"""Lines read by their form mean what the parser reads, mistakes and warnings included."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.language import parse_model, parse_program
from lapis.language.model import Model
from lapis.language.syntax import WeightedFormula

DECLARED = "t = {A, B}\nP(t)\nQ(t, u)\nRain\nt f(u)\nÉté(t)\n"
ATOMS = [
    "P(A)",
    "P(x)",
    "Q(x,3)",
    'Q("A", y)',
    "Rain",
    "Été(B)",
    "Q(A , Zoe)",
    "New(x , B)",
    "New(y,x)",
]
ODD = [
    *("P(+x)", "*P(x)", "x = y", "f(y) = A", "Q(A,-3)", "Q(i, i+1)", "EXIST x P(x)", "(P(A))"),
    *(
        "P(A,B)",
        "Pp(A)",
        "New(x)",
        "Other( z )",
        "p(A)",
        "P(y) ^ Q(x, y)",
        "P(",
        "Rain)",
        "v",
        "P(a$)",
        'P("',
    ),
]
JOINTS = [
    " ^ ",
    " v ",
    " => ",
    "<=>",
    " | ",
    " ^\n",
    "\nv ",
    " ^ !",
    " => ~",
    "  ",
    "\n",
    ".\n",
    ",",
]


@st.composite
def lines(draw: st.DrawFn) -> str:
    head = draw(
        st.sampled_from(["", "1.5 ", "-2 ", " .5\t", "1e999 ", "@fixed 1 ", "log(2) ", "2:3 "])
    )
    text = draw(st.sampled_from(["", "", "!", "("])) + draw(st.sampled_from(ATOMS))
    for _ in range(draw(st.integers(0, 3))):
        atom = draw(st.sampled_from(ATOMS * 3 + ODD))
        text += draw(st.sampled_from(JOINTS[:6] * 3 + JOINTS)) + atom
    tail = draw(st.sampled_from(["", "", ")", ".", " ^", " // P(A)", "\r", " "]))
    return head + text + tail


def outcome(text: str) -> tuple[Model, list[str]] | str:
    try:
        model = parse_model(text, "m.mln")
    except LapisError as error:
        return str(error)
    return model, [str(warning) for warning in model.warnings]


@given(st.lists(lines(), max_size=8).map("\n".join), st.booleans())
@example("1 P(A)\n1 P(B)\n^ Rain", False)
@example("1 P(A) ^ P(B)\n1 P(B) ^ Q(B, C) ^\n1.5 P(A)\n2 P(A)", False)
@example("1 P(x) ^ Q(x, y)\n1 Q(x, y) ^ P(y)", False)
@example("1 New(x, B) ^ P(x)\n1 New(x, B) ^ New(y,x)\n1 New(x, 3) ^ Q(A, x)", False)
def test_a_line_read_by_its_form_is_what_the_parser_reads(text: str, repeated: bool) -> None:
    text = DECLARED + (f"{text}\n{text}" if repeated else text)
    # A block comment may reach over lines, so that nothing is read by its form.
    assert outcome(f"{text}\n// ") == outcome(f"{text}\n/**/")


def test_alike_lines_are_read_by_one_form() -> None:
    found = parse_program("P(t)\n1 P(A) ^ !P(B)\n2.5 P(C) ^ !P(D)\nP(A) ^ !P(B).").statements[1:]
    forms = [s.line.form for s in found if isinstance(s, WeightedFormula) and s.line]
    assert len(forms) == 3
    assert forms[0].text_parts == forms[1].text_parts == ("", " ^ !", "")


@pytest.mark.parametrize("number", [10, 300])
def test_a_long_line_is_cut_into_words_a_few_times(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many atoms it has: once for each made a line of a thousand take seconds."""
    from lapis.language import plain_lines

    words = plain_lines.WORDS

    class Counted:
        num_splits = 0
        fullmatch = words.fullmatch

        def split(self, text: str) -> list[str | None]:
            Counted.num_splits += 1
            return re.split(words, text)

    monkeypatch.setattr(plain_lines, "WORDS", Counted())
    rule = " v ".join(f"Q(x{i}, x{i + 1})" for i in range(number))
    [parsed] = parse_model(f"Q(t, t)\n1 {rule}").rules
    assert len(parsed.variables) == number + 1
    assert Counted.num_splits <= 4
