"""An include means the same as the text of its file at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from language.test_errors import sections
from lapis.errors import LapisError
from lapis.language import parse_model, read_model
from lapis.language.model import Model

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.mln"))
TEXTS = [path.read_text(encoding="utf-8") for path in MODELS]
TEXTS += [
    "A(t, t)\nA(x, y)\n1 A(x, x)",
    "Rain\n(Rain)\n1 Rain =>\n   Rain ^\n   Rain",
    "P(t)\n/* a comment\n   1 P(x)\n*/ 1 P(x)",
    "~p(X, X).  # irreflexive\n\\forall X: (\\exists Y: (p(X, Y))).\nd = 3",
]
FALSE_TEXTS = [text for text, _ in sections().values() if "#include" not in text]

unshrunk = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def splits(draw: st.DrawFn, texts: list[str]) -> tuple[str, list[str]]:
    """A text, and its lines cut at two places into three parts."""
    text = draw(st.sampled_from(texts))
    lines = text.split("\n")
    first = draw(st.integers(0, len(lines)))
    last = draw(st.integers(first, len(lines)))
    return text, ["\n".join(part) for part in (lines[:first], lines[first:last], lines[last:])]


def read_split(parts: list[str], folder: Path) -> Model:
    """Read the parts from three files: the second is included, and includes the third."""
    before, middle, after = parts
    (folder / "deep").mkdir(exist_ok=True)
    (folder / "whole.mln").write_text(f'{before}\n#include "deep/middle.mln"\n')
    (folder / "deep" / "middle.mln").write_text(f'{middle}\n  #include "../after.mln" // the rest')
    (folder / "after.mln").write_text(after)
    return read_model(folder / "whole.mln")


@unshrunk
@given(splits(TEXTS))
def test_a_model_in_three_files_is_the_same_model(
    tmp_path: Path, split: tuple[str, list[str]]
) -> None:
    text, parts = split
    whole, joined = parse_model(text), read_split(parts, tmp_path)
    assert joined == whole
    assert [str(w).split("\n")[1:] for w in joined.warnings] == [
        str(w).split("\n")[1:] for w in whole.warnings
    ]


@unshrunk
@given(splits(FALSE_TEXTS))
def test_errors_of_a_model_in_three_files_show_the_same_lines(
    tmp_path: Path, split: tuple[str, list[str]]
) -> None:
    text, parts = split
    with pytest.raises(LapisError) as expected:
        parse_model(text)
    with pytest.raises(LapisError) as found:
        read_split(parts, tmp_path)
    assert shown_errors(found.value) == shown_errors(expected.value)


def shown_errors(error: LapisError) -> list[tuple[str, list[str]]]:
    errors = getattr(error, "errors", (error,))
    return sorted((e.message, e.span.underlined() if e.span else []) for e in errors)


def test_a_formula_may_begin_in_one_file_and_end_in_another(tmp_path: Path) -> None:
    (tmp_path / "end.mln").write_text("Q(x)\n1 P(x) ^ R(y)\n")
    (tmp_path / "all.mln").write_text('P(t)\nQ(t)\n1 P(x) =>\n#include "end.mln"\n2 Q(x)\n')
    model = read_model(tmp_path / "all.mln")
    assert [rule.text for rule in model.rules] == ["P(x) => Q(x)", "P(x) ^ R(y)", "Q(x)"]
    assert (
        str(model.warnings[0])
        .split("\n")[0]
        .endswith("end.mln:2:10: warning: predicate 'R' is not declared; taken as R(r_1)")
    )
    assert str(model.rules[2].span) == f"{tmp_path / 'all.mln'}:5:1"


def test_an_include_in_a_comment_is_none(tmp_path: Path) -> None:
    (tmp_path / "all.mln").write_text('P(t)\n/*\n#include "none.mln"\n*/ // #include "none.mln"\n')
    assert list(read_model(tmp_path / "all.mln").predicates) == ["P"]
