"""Sets of facts whose change moves a probability across a threshold."""

from __future__ import annotations

import itertools

import pytest

import lapis

MODEL = lapis.parse(
    """
Friends(person, person)
Smokes(person)
1.2 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.8 Smokes(x)
"""
)
FACTS = ["Friends(A,B)", "Friends(C,B)", "Friends(B,D)", "Smokes(A)", "Smokes(C)", "!Smokes(D)"]


def probability(facts: list[str]) -> float:
    data = lapis.Database.parse("person = {A, B, C, D}\n" + " ".join(facts))
    return lapis.infer(MODEL, data, query=["Smokes"])["Smokes(B)"]


def reversed_facts(chosen: tuple[str, ...]) -> list[str]:
    return [
        (fact.removeprefix("!") if fact.startswith("!") else f"!{fact}") if fact in chosen else fact
        for fact in FACTS
    ]


@pytest.mark.parametrize("goal", [0.2, 0.35, 0.5, 0.9])
def test_no_smaller_set_of_facts_crosses(goal: float) -> None:
    base = probability(FACTS)
    data = lapis.Database.parse("person = {A, B, C, D}\n" + " ".join(FACTS))
    answer = lapis.infer(MODEL, data, query=["Smokes"])
    found = answer.explain("Smokes(B)", change_to=goal).changes
    assert found is not None
    assert found.search == "exact"
    crossing = [
        (size, probability(reversed_facts(chosen)))
        for size in range(1, len(FACTS) + 1)
        for chosen in itertools.combinations(FACTS, size)
        if (probability(reversed_facts(chosen)) < goal) == (base >= goal)
    ]
    assert found.reached == bool(crossing)
    if crossing:
        smallest = min(size for size, _ in crossing)
        assert len(found.facts) == smallest
        facts = [
            next((o for o in found.facts if o.removeprefix("!") == f.removeprefix("!")), f)
            for f in FACTS
        ]
        assert probability(facts) == pytest.approx(found.probability)


def test_a_set_is_found_greedily_where_there_are_many_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lapis.explanation.changes.MAX_SETS", 3)
    data = lapis.Database.parse("person = {A, B, C, D}\n" + " ".join(FACTS))
    answer = lapis.infer(MODEL, data, query=["Smokes"])
    found = answer.explain("Smokes(B)", change_to=0.35).changes
    assert found is not None
    assert found.search == "greedy"
    assert found.reached
    assert found.probability is not None
    assert found.probability < 0.35
