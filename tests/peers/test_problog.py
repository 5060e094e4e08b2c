"""ProbLog's programs: files in its dialect, and random programs, against an enumeration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
from cli_run import Run
from lapis.language.problog import ground_program
from lapis.language.problog.program_model import program_model
from problog_enumerator import Impossible, enumerate_program

PROGRAMS = sorted((Path(__file__).parent / "problog").glob("*.pl"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_file_gives_the_answers_of_an_enumeration(path: Path) -> None:
    expected = enumerate_program(path.read_text())
    answer = lapis.infer(path)
    assert answer.exact
    assert dict(answer.marginals) == pytest.approx(expected, abs=1e-9)
    assert set(answer.names) == set(expected)


ATOMS = ("a", "b", "c", "d", "e", "f(1)")
PROBABILITIES = st.sampled_from(["0.1", "0.5", "1/3", "0.9", "1.0", "0.0"])


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A ground program: atoms of a lower stratum may be negated, cycles are positive."""
    lines = []
    for atom in draw(st.lists(st.sampled_from(ATOMS), max_size=3, unique=True)):
        lines.append(f"{draw(PROBABILITIES)}::{atom}.")
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["plain", "probable", "several"]))
        heads = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3, unique=True))
        low = min(stratum(head) for head in heads)
        high = [atom for atom in ATOMS if stratum(atom) <= low]
        below = [atom for atom in ATOMS if stratum(atom) < low]
        body = draw(st.lists(st.sampled_from(high), max_size=2, unique=True))
        if below:
            body += [f"\\+{x}" for x in draw(st.lists(st.sampled_from(below), max_size=2))]
        tail = f" :- {', '.join(body)}" if body else ""
        if kind == "plain" and body:
            lines.append(f"{heads[0]}{tail}.")
        elif kind == "several":
            shares = draw(st.sampled_from([["0.3", "0.2", "0.5"], ["0.25", "0.25", "0.25"]]))
            joined = "; ".join(f"{p}::{h}" for p, h in zip(shares, heads, strict=False))
            lines.append(f"{joined}{tail}.")
        else:
            lines.append(f"{draw(PROBABILITIES)}::{heads[0]}{tail}.")
    for atom in draw(st.lists(st.sampled_from(ATOMS), max_size=2, unique=True)):
        lines.append(f"evidence({atom},{draw(st.sampled_from(['true', 'false']))}).")
    lines += [f"query({atom})." for atom in ATOMS]
    return "\n".join(lines)


def stratum(atom: str) -> int:
    return ATOMS.index(atom) // 2


@given(programs())
def test_random_programs_are_their_enumeration(text: str) -> None:
    try:
        expected = enumerate_program(text)
    except Impossible:
        with pytest.raises(lapis.LapisError):
            lapis.infer(program_model(text))
        return
    answer = lapis.infer(program_model(text))
    assert dict(answer.marginals) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9,
                unique=True))  # fmt: skip
def test_paths_of_random_graphs(edges: list[tuple[int, int]]) -> None:
    assume(any(a == 0 for a, _ in edges))
    text = "".join(f"0.{3 + (a + 2 * b) % 6}::edge({a},{b}). " for a, b in edges)
    text += "\npath(X,Y) :- edge(X,Y).\npath(X,Y) :- path(X,Z), edge(Z,Y).\n"
    text += "".join(f"query(path(0,{b})).\n" for b in range(5))
    answer = lapis.infer(program_model(text))
    assert dict(answer.marginals) == pytest.approx(enumerate_program(text), abs=1e-9)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("a :- \\+b. b :- \\+a. 0.5::c.", "problog-negative-cycle", "no unique least model"),
        ("0.5::a(X).", "problog-unbound", "variable X is bound by no positive goal"),
        ("a(X) :- \\+b(X).", "problog-unbound", "variable X"),
        ("0.5::a :- b(f(x)).", "problog-syntax", "function symbols"),
        ("a([1,2]).", "problog-syntax", "lists"),
        (":- use_module(library(lists)).", "problog-syntax", "directives"),
        ("0.7::a; 0.7::b.", "problog-syntax", "add up to 1.4"),
        ("1.5::a.", "problog-syntax", "1.5 is no probability"),
        ("P::a(X) :- b(X,P).", "problog-syntax", "must be a number"),
        ("0.5::a", "problog-syntax", "a clause ends with a period"),
        ("a :- b; c.", "problog-syntax", "disjunction in a body"),
        ("0.5::a. evidence(a(X)).", "problog-unbound", "ground atom"),
        ("a(1). b :- a(X), X < y.", "problog-number", "y is not a number"),
        ("n(0). n(Y) :- n(X), Y is X / 0.", "problog-number", "division by zero"),
    ],
)
def test_errors_point_into_the_program(text: str, code: str, message: str) -> None:
    with pytest.raises(lapis.LapisError) as caught:
        program_model(text, "p.pl")
    assert caught.value.code == code
    assert message in str(caught.value)
    assert "p.pl:1:" in str(caught.value)


def test_a_recursion_without_end_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ground_program, "MAX_GROUND_CLAUSES", 1_000)
    with pytest.raises(lapis.TooLarge, match="ground clauses"):
        program_model("n(0). n(Y) :- n(X), Y is X + 1, X < 1000000.")


def test_arithmetic_and_equality() -> None:
    text = """
    n(1). n(2). n(3).
    0.5::on(X) :- n(X).
    next(X) :- n(X), Y is X + 1, n(Y), on(Y).
    same(X) :- n(X), Y = X, on(Y), X =:= 4 / 2.
    query(next(2)). query(next(3)). query(same(_)).
    """
    answer = lapis.infer(program_model(text))
    assert dict(answer.marginals) == pytest.approx({"next(2)": 0.5, "next(3)": 0.0, "same(2)": 0.5})


def test_quoted_names_and_predicates_are_queried(run: Run) -> None:
    run.write("p.pl", "0.25::likes('Ann B', tea). 0.5::likes(bob, tea). query(likes(bob,tea)).")
    found = run.json("infer", "p.pl")
    assert [row["atom"] for row in found["atoms"]] == ["likes(bob,tea)"]
    found = run.json("infer", "p.pl", "-q", "likes")
    assert {row["atom"]: row["probability"] for row in found["atoms"]} == pytest.approx(
        {"likes('Ann B',tea)": 0.25, "likes(bob,tea)": 0.5}
    )


def test_evidence_beside_a_program(run: Run) -> None:
    run.write("p.pl", "0.4::a. 0.5::b. c :- a. c :- b. query(a).")
    found = run.json("infer", "p.pl", "--evidence", "c=true")
    assert found["atoms"][0]["probability"] == pytest.approx(0.4 / 0.7)
    assert found["log_partition"] == pytest.approx(-0.35667494393873245)
    found = run.json("infer", "p.pl", "--evidence", "c, b=false")
    assert found["atoms"][0]["probability"] == 1.0
    world = run.json("map", "p.pl", "-q", "a,b", "--evidence", "c")
    assert [a["value"] for a in world["atoms"]] == [False, True]


def test_without_queries_all_atoms_are_answered() -> None:
    answer = lapis.infer(program_model("0.4::a. b :- a. c :- \\+b."))
    assert dict(answer.marginals) == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.6})


def test_impossible_evidence_is_refused() -> None:
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(program_model("0.4::a. b :- a. evidence(a,false). evidence(b,true).", "p.pl"))
    assert caught.value.code == "unsatisfiable"
    assert "p.pl:1:" in str(caught.value)
