"""Which data each fold learns from and is tested on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from lapis.data.database import Database
from lapis.evaluation.folds import make_folds, split_database

MODEL = lapis.parse("Friends(person, person)\nSmokes(person)\nHas(person, word)\nRains\n"
                    "1 Has(x, +w) => Smokes(x)")  # fmt: skip


def worlds(number: int) -> list[Database]:
    return [Database.parse(f"Smokes(P{i})", f"world {i}") for i in range(number)]


@given(st.integers(2, 12), st.data(), st.integers(0, 5))
def test_every_database_is_tested_once_and_never_where_it_is_learned(
    number: int, data: st.DataObject, seed: int
) -> None:
    folds = data.draw(st.integers(2, number))
    plan = make_folds(MODEL, worlds(number), ["Smokes"], folds=folds, random_state=seed)
    assert len(plan) == folds
    assert sorted(i for test in plan.test for i in test) == list(range(number))
    sizes = [len(test) for test in plan.test]
    assert max(sizes) - min(sizes) <= 1
    for fold in range(folds):
        assert sorted((*plan.train(fold), *plan.test[fold])) == list(range(number))
    again = make_folds(MODEL, worlds(number), ["Smokes"], folds=folds, random_state=seed)
    assert again.test == plan.test


def test_leave_one_out_is_the_default_and_in_order() -> None:
    for chosen in ({}, {"leave_one_out": True}, {"folds": 3}):
        plan = make_folds(MODEL, worlds(3), ["Smokes"], **chosen)  # type: ignore[arg-type]
        assert plan.test == ((0,), (1,), (2,))
        assert plan.train(1) == (0, 2)


@pytest.mark.parametrize(
    ("number", "chosen", "message"),
    [
        (3, {"folds": 2, "leave_one_out": True}, "not both"),
        (3, {"folds": 1}, "leave nothing to learn from"),
        (3, {"folds": 4}, "4 folds need as many databases, but there are 3"),
        (1, {}, "needs several databases"),
        (1, {"leave_one_out": True}, "needs several databases"),
        (0, {"folds": 2}, "needs several databases"),
        (1, {"folds": 2}, "facts connect all of its constants"),
    ],
)
def test_refusals(number: int, chosen: dict[str, int], message: str) -> None:
    with pytest.raises(lapis.LapisError, match=message) as caught:
        make_folds(MODEL, worlds(number), ["Smokes"], **chosen)  # type: ignore[arg-type]
    assert caught.value.code == "cross-validation"


PEOPLE = [f"P{i}" for i in range(8)]
PAIRS = st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE))


@given(
    st.lists(PAIRS, max_size=8),
    st.lists(PAIRS, max_size=2),
    st.lists(st.sampled_from(PEOPLE), max_size=5),
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from("UVW")), max_size=5),
    st.integers(2, 4),
    st.integers(0, 3),
)
def test_a_split_loses_no_fact_and_shares_no_person(
    friends: list[tuple[str, str]],
    strangers: list[tuple[str, str]],
    smokers: list[str],
    words: list[tuple[str, str]],
    num_parts: int,
    seed: int,
) -> None:
    strangers = [pair for pair in strangers if pair not in friends]
    lines = [f"Friends({a},{b})" for a, b in friends]
    lines += [f"!Friends({a},{b})" for a, b in strangers]
    lines += [f"?Smokes({a})" for a in smokers[:1]] + [f"Smokes({a})" for a in smokers[1:]]
    lines += [f"Has({a},{w})" for a, w in words]
    lines = [line for line in lines if not (line.startswith("Smokes") and f"?{line}" in lines)]
    data = Database.parse("\n".join([*lines, "Rains"]))
    groups = groups_of([*friends, *strangers], [*smokers, *(a for a, _ in words)])
    if len(groups) < num_parts:
        with pytest.raises(lapis.LapisError, match="cannot be split"):
            split_database(MODEL, data, ["Smokes"], num_parts, seed)
        return
    parts = split_database(MODEL, data, ["Smokes"], num_parts, seed)
    assert len(parts) == num_parts
    facts = [set(part.facts()) for part in parts]
    rains = ("Rains", (), True)
    assert all(rains in own for own in facts)
    own_facts = [own - {rains} for own in facts]
    assert set().union(*own_facts) == set(data.facts()) - {rains}
    assert sum(map(len, own_facts)) == len(set().union(*own_facts))
    people = [set(part.domains["person"].constants) for part in parts]
    for index, own in enumerate(people):
        assert own
        assert all(own.isdisjoint(other) for other in people[index + 1 :])
        assert all(group <= own or own.isdisjoint(group) for group in groups)
        lapis.build_problem(MODEL, parts[index], ["Smokes"])
    assert all(set(part.domains["word"].constants) == {w for _, w in words} for part in parts)


def groups_of(pairs: list[tuple[str, str]], alone: list[str]) -> list[set[str]]:
    """Connected components, by merging sets."""
    groups: list[set[str]] = []
    for members in [*map(set, pairs), *({person} for person in alone)]:
        touching = [group for group in groups if group & members]
        groups = [group for group in groups if not group & members]
        groups.append(members.union(*touching))
    return groups


def test_parts_have_similar_numbers_of_facts() -> None:
    facts = " ".join(f"Friends(A{i},B{i}) Smokes(A{i})" for i in range(30))
    parts = split_database(MODEL, Database.parse(facts), ["Smokes"], 4)
    sizes = [len(list(part.facts())) for part in parts]
    assert max(sizes) - min(sizes) <= 2


def test_constants_of_the_model_do_not_connect() -> None:
    model = lapis.parse("Phase(person, phase)\nphase = {Pre, Post}\nDone(person)\n1 Phase(x,Pre)")
    data = Database.parse("Phase(Ann,Pre) Phase(Bob,Pre) Phase(Cid,Post) Done(Ann)")
    parts = split_database(model, data, ["Done"], 3)
    assert sorted(part.domains["person"].constants for part in parts) == [
        ("Ann",), ("Bob",), ("Cid",),
    ]  # fmt: skip
    assert all(part.domains["phase"].constants == ("Pre", "Post") for part in parts)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Smokes(A) Smokes(B) Rains", ["Rains"]),
        ("Smokes(A) Smokes(B)", ["Smokes", "Rains"]),
        ("Smokes(A) Smokes(B) Common(W)", ["Common"]),
        ("Smokes(A) Smokes(B) Leads(Ann)", ["Leads"]),
    ],
)
def test_a_query_about_what_is_shared_is_refused(text: str, query: list[str]) -> None:
    model = lapis.parse("Smokes(person)\nRains\nCommon(word)\nLeads(boss)\nHas(person, word)\n"
                        "1 Has(x, +w) => Smokes(x)\n1 Leads(Ann)")  # fmt: skip
    assert len(split_database(model, Database.parse(text), ["Smokes"], 2)) == 2
    with pytest.raises(lapis.LapisError, match="both learned from and tested on"):
        split_database(model, Database.parse(text), query, 2)


def test_how_far_a_database_can_be_split_is_said() -> None:
    data = Database.parse("Friends(A,B) Friends(C,D)")
    with pytest.raises(lapis.LapisError, match=r"into 3 parts: .* into 2 groups"):
        split_database(MODEL, data, ["Smokes"], 3)
