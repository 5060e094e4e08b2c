"""Functions and commands raise the same errors with the same messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import pytest

import lapis
from cli_run import Run
from lapis.problem.check import check

MODEL = "P(t)\nQ(t)\n1 P(x) => Q(x)\n"
DATA = "P(A) Q(A) P(B)\n"


class Refusal(NamedTuple):
    message: str  # the first line
    model: str = MODEL
    data: str = DATA
    query: str = "Q"
    needs: str = "probabilities"  # what must be wanted for this to matter
    code: int = 1  # of the command


REFUSALS = {
    "cardinality": Refusal(
        "m.mln:4:1: cardinality constraints cannot be used here",
        model=f"{MODEL}|P| = 2\n",
        needs="no constraints",
    ),
    "factor": Refusal(
        "m.mln:1:1: predicate 'P' has a factor -1: only positive factors define probabilities",
        model=MODEL.replace("P(t)", "P(t) 1 -1"),
    ),
    "query": Refusal("unknown predicate 'Qq' in the query", query="Qq", needs="query"),
    "arity": Refusal(
        "d.db:2:1: P has 1 argument, but 2 in the data", data="Q(A)\nP(A, B)\n", needs="data"
    ),
    "near": Refusal(
        "d.db:2:1: data for an unknown predicate 'p'", data=f"{DATA}p(A)\n", needs="data"
    ),
    "kind": Refusal(
        "d.db:2:1: P is a predicate, but the data gives it a value",
        data="Q(A)\nB = P(A)\n",
        needs="data",
    ),
    "type": Refusal(
        "d.db:2:1: data for an unknown type 'T'", data=f"{DATA}T = {{C}}\n", needs="data"
    ),
    "weights": Refusal(
        "m.mln:5:1: 'R(+a, +b, +c, +d, +e)' has 10,000,000,000 weights, one for each combination "
        "of constants of +a, +b, +c, +d, +e: 80.0 GB for each array of them; at most 50,000,000 "
        "are possible",
        model=f"{MODEL}n = {{1, ..., 100}}\n1 R(+a,+b,+c,+d,+e)\nR(n, n, n, n, n)\n",
        needs="data",
        code=3,
    ),
    "model": Refusal(
        "m.mln:4:3: 'P' takes 1 argument, here it has 2", model=f"{MODEL}1 P(x, y)\n", needs="data"
    ),
}  # fmt: skip


ALL = ("probabilities", "query", "data", "no constraints")


class Door(NamedTuple):
    """A way in: a function of the paths and the query, and what it wants."""

    call: Callable[[str, str, str], Any]
    wants: tuple[str, ...] = ("probabilities", "query", "data")


def ground(model: str, data: str, query: str) -> object:
    problem = lapis.build_problem(lapis.read(model), lapis.Database.read(data), [query])
    return lapis.ground(problem)


FUNCTIONS = {
    "infer": Door(lapis.infer),
    "map": Door(lapis.map),
    "score": Door(lapis.score, ALL),
    "learn": Door(lapis.learn, ALL),
    "ground": Door(ground),
    "cross_validate": Door(lambda m, d, q: lapis.cross_validate(m, [d, d], q, jobs=1), ALL),
    "count": Door(lambda m, d, q: lapis.count(m, d), ("data",)),
    "check": Door(lambda m, d, q: check(m, d), ("data",)),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, refusal: str, run: Run) -> None:
    door, case = FUNCTIONS[name], REFUSALS[refusal]
    model, data = run.write("m.mln", case.model), run.write("d.db", case.data)
    if case.needs not in door.wants:
        door.call(model, data, case.query)
        return
    with pytest.raises(lapis.LapisError) as caught:
        door.call(model, data, case.query)
    assert str(caught.value).split("\n")[0] == case.message


COMMANDS = {
    "infer": Door(lambda m, d, q: ("infer", m, d, "-q", q)),
    "map": Door(lambda m, d, q: ("map", m, d, "-q", q)),
    "ground": Door(lambda m, d, q: ("ground", m, d, "-q", q)),
    "score": Door(lambda m, d, q: ("score", m, d, "-q", q), ALL),
    "learn": Door(lambda m, d, q: ("learn", m, d, "-q", q), ALL),
    "evaluate": Door(lambda m, d, q: ("evaluate", m, d, d, "-q", q, "--jobs", "1"), ALL),
    "count": Door(lambda m, d, q: ("count", m, d), ("data",)),
    "explain": Door(lambda m, d, q: ("count", m, d, "--explain"), ("data",)),
    "check": Door(lambda m, d, q: ("check", m, d), ("data",)),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str, refusal: str, run: Run) -> None:
    door, case = COMMANDS[name], REFUSALS[refusal]
    words = door.call(run.write("m.mln", case.model), run.write("d.db", case.data), case.query)
    code, out, err = run(*words)
    if case.needs not in door.wants:
        assert code == 0
        return
    assert (code, out) == (case.code, "")
    assert err.split("\n")[0].removeprefix("error: ") == case.message


@pytest.mark.parametrize("name", ["score", "learn", "cross_validate"])
def test_unknown_hidden_predicates_are_refused_before_anything_is_done(name: str) -> None:
    data = lapis.Database.parse(DATA)
    given = [data, data] if name == "cross_validate" else data
    with pytest.raises(lapis.LapisError) as caught:
        getattr(lapis, name)(lapis.parse(MODEL), given, ["Q"], unobserved=["Zz"])
    assert str(caught.value) == ("unknown predicate 'Zz' in the query\n    the model has: P, Q")


@pytest.mark.parametrize("query", ["Q(A)", "P(x) ^ Q(x)"])
@pytest.mark.parametrize("name", ["score", "learn", "cross_validate"])
def test_what_is_about_whole_predicates_takes_no_atoms(name: str, query: str, run: Run) -> None:
    model, data = run.write("m.mln", MODEL), run.write("d.db", DATA)
    with pytest.raises(lapis.LapisError) as caught:
        FUNCTIONS[name].call(model, data, query)
    expected = f"expected predicate names, got an atom or formula: {query}"
    assert caught.value.message == expected


@pytest.mark.parametrize("query", ["Q(A)", "P(x) ^ Q(x)", "Q(x)"])
def test_networks_are_written_for_every_query(query: str, run: Run) -> None:
    model, data = run.write("m.mln", MODEL), run.write("d.db", DATA)
    found = run.json("ground", model, data, "-q", query)
    answer = lapis.infer(model, data, query)
    assert found["atoms"] >= len(answer)


@pytest.mark.parametrize("name", ["infer", "map", "score", "learn", "count"])
def test_no_databases_are_not_no_data(name: str) -> None:
    arguments = (lapis.parse(MODEL), []) if name == "count" else (lapis.parse(MODEL), [], "Q")
    with pytest.raises(lapis.LapisError, match="the list of databases is empty"):
        getattr(lapis, name)(*arguments)


def test_networks_without_a_world_are_written_all_the_same(run: Run) -> None:
    model = run.write("m.mln", "t = {A, B}\nP(t!)\nQ(t)\n(P(x) => Q(x)).\n(P(x) => !Q(x)).\n")
    assert run.json("ground", model, "-q", "P,Q")["hard_clauses"] == 4
    code, _, error = run("infer", model, "-q", "P,Q")
    assert code == 1
    assert "no world satisfies the hard formulas" in error


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"P": pd.DataFrame({"x": ["A"]})}, "dict"),
        (pd.DataFrame({"x": ["A"]}), "DataFrame"),
        ([pd.DataFrame({"x": ["A"]})], "DataFrame"),
        ([None], "NoneType"),
        (3, "int"),
    ],
)
def test_what_is_no_data_is_told(data: Any, kind: str) -> None:
    """The columns of a frame, and the keys of a dictionary, were taken for paths."""
    for question in (lapis.infer, lapis.map, lapis.count, lapis.score, lapis.learn):
        with pytest.raises(lapis.LapisError) as caught:
            question(lapis.parse("P(t)\n1 P(x)"), data)  # type: ignore[operator]
        assert str(caught.value) == (
            f"data must be a Database, a path, or a list of these, not a {kind}\n"
            '    convert frames by Database.from_frames({"P": frame})'
        )


@pytest.mark.parametrize("command", ["infer -q P", "map -q P", "count", "score", "ground -q P"])
def test_what_a_model_file_is_warned_about_is_told_by_every_command(command: str, run: Run) -> None:
    """A misspelt predicate is one more predicate: only `lapis check` said so."""
    run.write("w.mln", "P(t)\nt = {A, B}\n1 P(x) => Quality(x)\n1 p(A)\n")
    name, *flags = command.split()
    code, out, err = run(name, "w.mln", *flags)
    assert code == 0
    assert out
    told = [line for line in err.splitlines() if "warning: " in line]
    assert told == [
        "w.mln:4:3: warning: 'p' is read as the declared predicate 'P'",
        "w.mln:3:11: warning: predicate 'Quality' is not declared; taken as Quality(t)",
    ]


def test_few_warnings_are_told_before_an_answer(run: Run) -> None:
    listed = "".join(f"1 P(B{i})\n" for i in range(9))
    run.write("w.mln", f"P(t)\nt = {{A}}\n{listed}")
    _, _, err = run("infer", "w.mln", "-q", "P")
    told = [line for line in err.splitlines() if "warning: " in line]
    assert len(told) == 6
    assert told[-1] == "warning: and 4 more (lapis check w.mln lists them)"
    assert run("check", "w.mln")[2].count("warning: ") == 9


def test_the_weights_of_all_worlds_are_counted_together() -> None:
    """Each world has few constants, all together have many."""
    model = lapis.parse("P(t, t, t, t, t, t)\n1 P(+a, +b, +c, +d, +e, +f)\n")
    worlds = [
        lapis.Database.parse(f"P({','.join(f'A{world}{i}' for i in range(6))})")
        for world in range(20)
    ]
    with pytest.raises(lapis.TooLarge, match="2,985,984,000,000 weights"):
        lapis.learn(model, worlds)
