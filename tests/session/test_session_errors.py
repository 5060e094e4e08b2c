"""Errors of a session: their messages, and that a refused change changes nothing."""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lapis

MODEL = """
person = {Anna, Bob, Carl}
Smokes(person)
Friends(person, person)
Job(person, job?)
town home(person)
1.5 Smokes(x) ^ Friends(x, y) => Smokes(y)
0.7 Smokes(x) ^ Job(x, +j)
Smokes(x) ^ Friends(x, y) => !Job(y, Cook).
"""
DATA = """
Friends(Anna, Bob) !Smokes(Anna) Job(Anna, Cook)
Rome = home(Anna) Rome = home(Bob) Bari = home(Carl)
"""

MESSAGES: dict[str, tuple[Callable[[lapis.Session], object], str]] = {
    "contradiction": (
        lambda session: session.add("Smokes(Anna)"),
        """
Smokes(Anna) contradicts the fact !Smokes(Anna)
    remove it first: session.remove('!Smokes(Anna)')
""",
    ),
    "two values of a function": (
        lambda session: session.add("Bari = home(Anna)"),
        """
Bari = home(Anna) contradicts the fact Rome = home(Anna)
    remove it first: session.remove('Rome = home(Anna)')
""",
    ),
    "unknown predicate": (
        lambda session: session.add("Smoke(Anna)"),
        """
<facts>:1:1: data for an unknown predicate 'Smoke'
    Smoke(Anna)
    ^^^^^
    did you mean 'Smokes', declared at smoking.mln:3:1?
""",
    ),
    "number of arguments": (
        lambda session: session.unknown("Smokes(Anna, Bob)"),
        """
<facts>:1:1: Smokes has 1 argument, but 2 in the data
    Smokes(Anna, Bob)
    ^^^^^^^^^^^^^^^^^
smoking.mln:3:1: Smokes is declared here
    Smokes(person)
    ^^^^^^^^^^^^^^
""",
    ),
    "no closing bracket": (
        lambda session: session.add(["Smokes(Bob)", "Smokes(Carl"]),
        """
<facts>:2:1: this fact has no closing )
    Smokes(Carl
    ^^^^^^^^^^^
    a fact stands on one line
""",
    ),
    "no facts": (
        lambda session: session.add([3]),  # type: ignore[list-item]
        """
facts must be texts or a database, not int
    as in session.add("Smokes(Anna)")
""",
    ),
    "fact stated otherwise": (
        lambda session: session.remove("Smokes(Anna)"),
        """
there is no fact Smokes(Anna) to remove: the data states !Smokes(Anna)
    session.data has the facts
""",
    ),
    "fact not stated": (
        lambda session: session.remove("Friends(Bob, Dora)"),
        """
there is no fact Friends(Bob,Dora) to remove: the data does not mention it
    session.data has the facts
""",
    ),
    "second value of a block": (
        lambda session: session.add("Job(Anna, Smith)"),
        """
smoking.mln:5:1: the data give two true values for Job(Anna, _), which is declared to have at most one
    Job(person, job?)
    ^^^^^^^^^^^^^^^^^
    correct the facts, or declare the predicate without '!' or '?'
""",
    ),
    "no value of a block": (
        lambda session: session.remove("Rome = home(Anna)"),
        """
smoking.mln:6:1: the data give no possible value for home(Anna, _), which is declared to have exactly one
    town home(person)
    ^^^^^^^^^^^^^^^^^
    unmentioned atoms of home are false: state a value, mark some as unknown (?fact), or open the predicate (-q or --open home)
""",
    ),
    "hard formula": (
        lambda session: session.add(["Friends(Carl, Anna)", "Smokes(Carl)"]),
        """
smoking.mln:9:1: the data contradict the hard rule 'Smokes(x) ^ Friends(x, y) => !Job(y, Cook)' at x = Carl, y = Anna
    Smokes(x) ^ Friends(x, y) => !Job(y, Cook).
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    correct the data, or give a rule a weight instead of its final period; infer and map can break as few as possible (relax=True, --relax)
given Smokes(Carl), Friends(Carl,Anna), Job(Anna,Cook)
""",
    ),
    "no such rule": (
        lambda session: session.set_weight("Smokes(x)", 1.0),
        """
no rule 'Smokes(x)'
    a rule is named by its formula, without its weight
""",
    ),
    "no rule at this place": (
        lambda session: session.set_weight(7, 1.0),
        """
no rule 7
    the model has 3 rules, from 0
""",
    ),
    "weight of a hard rule": (
        lambda session: session.set_weight(2, 1.0),
        """
smoking.mln:9:1: the rule 'Smokes(x) ^ Friends(x, y) => !Job(y, Cook)' is hard: it has no weight
    Smokes(x) ^ Friends(x, y) => !Job(y, Cook).
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    give it a weight in the model instead of its final period
""",
    ),
    "infinite weight": (
        lambda session: session.set_weight(0, float("inf")),
        """
a weight must be a finite number, not inf
    hard formulas are written with a final period in the model
""",
    ),
    "nothing to undo": (
        lambda session: session.undo(),
        """
there is no change to undo
""",
    ),
    "unknown constant": (
        lambda session: session.ask("Smokes(Dora)"),
        """
<query>:1:1: unknown constant 'Dora' of type 'person' in the query Smokes(Dora)
    Smokes(Dora)
    ^^^^^^^^^^^^
""",
    ),
    "formula": (
        lambda session: session.ask("Smokes(Bob) ^ Smokes(Carl)"),
        """
ask takes predicates and ground atoms, not formulas
    open the session with the formula as a query
""",
    ),
}  # fmt: skip


def open_session() -> lapis.Session:
    return lapis.Session(lapis.parse(MODEL, "smoking.mln"), lapis.Database.parse(DATA), "Smokes")


@pytest.mark.parametrize("name", MESSAGES)
def test_message(name: str) -> None:
    session = open_session()
    before, answer = session.data, session.ask()
    work, message = MESSAGES[name]
    with pytest.raises(lapis.LapisError) as caught:
        work(session)
    assert str(caught.value) == message.strip()
    assert session.data is before
    assert np.array_equal(session.ask().probability, answer.probability)
    session.add("Smokes(Bob)")
    fresh = lapis.infer(session.model, session.data, "Smokes")
    assert session.ask().marginals == fresh.marginals


def test_hard_formulas_that_contradict_each_other() -> None:
    """The evidence decides no formula alone: a search over the component finds it."""
    model = lapis.parse(
        "person = {A, B}\nP(person)\nQ(person)\nR(person)\nR(x) => P(x) v Q(x).\n"
        "R(x) ^ P(x) => Q(x).\nR(x) ^ Q(x) => !P(x).\nR(x) ^ Q(x) => P(x).\n0.3 P(x)\n"
    )
    session = lapis.Session(model, None, ["P", "Q"])
    before = session.ask()
    with pytest.raises(lapis.LapisError, match="no world satisfies the hard formulas: these"):
        session.add("R(A)")
    assert np.array_equal(session.ask().probability, before.probability)


def test_a_closed_session() -> None:
    with open_session() as session:
        session.ask()
    with pytest.raises(lapis.LapisError) as caught:
        session.add("Smokes(Bob)")
    assert str(caught.value) == "the session is closed\n    open another one: lapis.Session(…)"


def test_one_world() -> None:
    data = [lapis.Database.parse("Smokes(Anna)"), lapis.Database.parse("Smokes(Bob)")]
    with pytest.raises(lapis.LapisError) as caught:
        lapis.Session(lapis.parse("Smokes(person)\n1 Smokes(x)"), data, "Smokes")  # type: ignore[arg-type]
    expected = "a session has one world, not 2\n    merge the databases, or open a session for each"
    assert str(caught.value) == expected
