"""Test the notes on predicates without facts and types without constants."""

from __future__ import annotations

import pandas as pd
import pytest

import lapis

MODEL = """
Smokes(p)
Friends(p, p)
Likes(p, p)
Unused(p)
1 Friends(x,y) ^ Likes(x,y) ^ Smokes(x) => Smokes(y)
"""
ONE = "Friends has no fact in the data: every Friends atom is taken as false"
TWO = "Friends, Likes have no fact in the data: all their atoms are taken as false"
TYPE = "type 'p' has no constants: formulas over 'p' have no groundings"


@pytest.mark.parametrize("solve", [lapis.infer, lapis.map])
@pytest.mark.parametrize(
    ("facts", "notes"),
    [
        ("Smokes(A) ?Smokes(B) Likes(A, B)", [ONE]),
        ("Smokes(A) ?Smokes(B)", [TWO]),
        ("Friends(A, B) Likes(A, B)", []),
        ("Friends(A, B) !Likes(A, B)", []),
        ("", [TWO, TYPE]),
    ],
)
def test_notes(solve: object, facts: str, notes: list[str]) -> None:
    assert callable(solve)
    found = solve(lapis.parse(MODEL), lapis.Database.parse(facts), query="Smokes")
    assert [line for line in found.remarks() if "no fact" in line or "constants" in line] == notes
    assert found.diagnostics.get("notes", []) == notes


def test_an_empty_table_states_that_there_are_no_facts() -> None:
    tables = {"Smokes": [("A",)], "Friends": pd.DataFrame({"a": [], "b": []}, dtype=str)}
    frames = {"Likes": [("A", "A")], **tables}
    data = lapis.Database.from_frames(
        {k: v if isinstance(v, pd.DataFrame) else pd.DataFrame(v) for k, v in frames.items()}
    )
    found = lapis.infer(lapis.parse(MODEL), data, query="Smokes")
    assert "notes" not in found.diagnostics


def test_the_command_prints_the_note(run: object) -> None:
    assert callable(run)
    model, data = run.write("m.mln", MODEL), run.write("d.db", "?Smokes(A) Likes(A, A)")
    _, _, err = run("infer", model, data, "-q", "Smokes")
    assert ONE in err
