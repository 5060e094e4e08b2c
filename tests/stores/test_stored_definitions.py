"""Quantifiers over unknown atoms, and long clauses, on engines: compared with the oracle."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from stored_cases import check_case, infer_there, map_there, same_answers

import lapis
from lapis.errors import LapisError, LapisWarning, TooLarge
from lapis.problem.task import build_task
from lapis.stores import fetch_all, open_store
from lapis.stores.components.packing import StoreLimits
from lapis.stores.grounding import stored_definitions, stored_literals
from lapis.stores.grounding.ground_on_store import ground_on_store
from lapis.stores.load_to_store import place_problem
from lapis.stores.store import ScratchTables
from store_urls import QUICK_STORES, store_url
from strategies import Case, cases


@pytest.fixture(params=QUICK_STORES)
def quick(request: pytest.FixtureRequest) -> str:
    return store_url(request.param, request)


@pytest.mark.parametrize(("split", "repeated"), [(0, 64), (6, -1), (1, 0)])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_however_clauses_are_split_and_disjunctions_written(
    quick: str, split: int, repeated: int, case: Case
) -> None:
    check_split(quick, split, repeated, case)


@pytest.mark.slow
@pytest.mark.parametrize(("split", "repeated"), [(0, 64), (6, -1), (1, 0), (6, 64)])
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_many_models_however_clauses_are_split(
    quick: str, split: int, repeated: int, case: Case
) -> None:
    check_split(quick, split, repeated, case)


def check_split(url: str, split: int, repeated: int, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_literals, "MOST_SPLIT", split)
        patch.setattr(stored_definitions, "MOST_REPEATED", repeated)
        check_case(url, case)


COURSES = """
Professor(person)
Student(person)
Advises(person, person)
Knows(person, person)
0.4 Professor(x)
-0.3 Student(x)
-0.9 Advises(x, y)
1.2 Student(x) => EXIST y (Professor(y) ^ Advises(y, x))
0.7 EXIST y Advises(x, y) ^ Professor(x)
-0.5 Knows(x, y) => EXIST z (Advises(x, z) v Advises(z, y))
!EXIST y (Student(y) ^ Advises(y, x)) v Professor(x).
0.8 FORALL y (Advises(x, y) => EXIST z Advises(y, z))
"""
PEOPLE = "Knows(A,B) Knows(B,C) Student(C) !Professor(C) Advises(A,C) !Advises(C,C)"


def test_quantifiers_in_every_place(quick: str) -> None:
    """Nested, negated, hard, over conjunctions, and in several rules."""
    question = COURSES, PEOPLE, ["Professor", "Student", "Advises"]
    here = lapis.infer(
        lapis.parse(COURSES), lapis.Database.parse(PEOPLE), question[2], method="enumerate"
    )
    there = infer_there(quick, *question)
    assert there.exact
    assert there.log_partition == pytest.approx(here.log_partition, abs=1e-9)
    assert there.marginals == pytest.approx(here.marginals, abs=1e-9)
    best = lapis.map(lapis.parse(COURSES), lapis.Database.parse(PEOPLE), question[2])
    world = map_there(quick, *question)
    assert world.optimal
    assert world.score == pytest.approx(best.score)
    same_answers(there, infer_there("duckdb", *question))


@pytest.mark.spark
def test_spark_grounds_quantifiers_as_others_do() -> None:
    """Replaced by literals, as an auxiliary atom, and over a conjunction."""
    model = "P(t)\nQ(t, t)\n0.3 P(x) => EXIST y (P(y) ^ Q(x, y))\n-0.4 !(EXIST y Q(x, y))"
    question = model, "t = {A, B}\nQ(A, B)", ["P", "Q"]
    limits = StoreLimits(jobs=1)
    there = infer_there("local[2]", *question, limits)
    same_answers(there, infer_there("duckdb", *question, limits))


def test_a_clause_of_twelve_literals_over_partly_known_predicates(quick: str) -> None:
    names = [f"P{i}" for i in range(12)]
    rules = (
        "".join(f"{name}(t)\n" for name in names)
        + "0.9 !P0(x) v !P1(x) v "
        + " v ".join(f"{name}(x)" for name in names[2:])
    )
    facts = " ".join(f"P{i}(A) " if i < 2 else f"!P{i}({'A' if i % 3 else 'B'})" for i in range(10))
    here = lapis.infer(lapis.parse(rules), lapis.Database.parse(facts), names, method="enumerate")
    there = infer_there(quick, rules, facts, names)
    assert there.marginals == pytest.approx(here.marginals, abs=1e-9)
    assert there.log_partition == pytest.approx(here.log_partition)


def test_instances_that_occur_in_no_row_are_not_ground() -> None:
    """A hundred people, two of them in the query: two disjunctions of a hundred literals."""
    model = lapis.parse(
        "Asked(person)\nLikes(person, person)\n-1 Likes(x, y)\n2 Asked(x) => EXIST y Likes(x, y)"
    )
    people = " ".join(f"P{i:02}" for i in range(100)).replace(" ", ", ")
    data = lapis.Database.parse(f"person = {{{people}}}\nAsked(P03) Asked(P07)")
    (world,) = build_task(model, data, ["Likes"]).worlds
    with open_store("duckdb") as store:
        ground = ground_on_store(place_problem(world.problem, store), ScratchTables(store))
        found = fetch_all(
            store,
            f"SELECT piece, count(*) AS n FROM ({ground.every_row()}) r "
            "WHERE piece >= 0 GROUP BY piece ORDER BY piece",
        )
        whole = fetch_all(store, f"SELECT count(*) AS n FROM ({ground.every_row()}) r")
    assert found["n"].tolist() == [100, 100]
    assert whole["n"].tolist() == [100 * 100 + 200]


def test_evidence_that_falsifies_a_hard_quantifier_is_refused(quick: str) -> None:
    model = "P(t)\nQ(t, u)\n1 Q(x, y)\nP(x) => EXIST y Q(x, y)."
    with pytest.raises(LapisError, match=r"contradict the hard rule .* at x = B\n"):
        infer_there(quick, model, "u = {C}\nP(A) P(B) !Q(B, C)", ["Q"])


def test_a_component_of_one_long_disjunction_says_what_would_split_it(quick: str) -> None:
    model = "P(t)\nQ(t)\n0.1 Q(x)\n1 EXIST x P(x)\n0.5 P(x) => Q(x)"
    data = f"t = {{{', '.join(f'A{i}' for i in range(60))}}}"
    with pytest.raises(TooLarge, match=r"120 unknown atoms and 121 ground clauses") as error:
        infer_there(quick, model, data, ["P", "Q"], max_memory=20_000)
    assert "leaving out 'EXIST x P(x)' would leave components of at most 2 atoms" in str(
        error.value
    )


def test_more_instances_than_numbers_are_refused() -> None:
    names = ", ".join("abcde")
    model = f"P(t)\nR(t, t, t, t, t)\n1 P(a)\n1 R({names}) ^ P(a) => EXIST f R(b, c, d, e, f)"
    data = f"t = {{{', '.join(f'C{i}' for i in range(9000))}}}\nR(C0, C1, C2, C3, C4)"
    refused = pytest.raises(TooLarge, match=r"more than 2\^62|too many possible")
    with pytest.warns(LapisWarning, match="R atoms are open"), refused:
        infer_there("duckdb", model, data, ["P", "R"])
