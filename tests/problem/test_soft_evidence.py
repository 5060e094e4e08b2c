"""Soft evidence against the oracle: the atom is unknown and has a unit rule."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
import oracle
from oracle import NoWorld
from strategies import Case, cases

PEOPLE = lapis.Database.parse("Person(anna) Person(bob) Person(Chris)", "people.db")
MODEL = "Smokes(person)\nPerson(person)\n0 Smokes(x)"


@given(cases(), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.data())
def test_a_belief_is_a_unit_rule_on_an_open_atom(
    case: Case, probability: float, data: st.DataObject
) -> None:
    model = lapis.parse(case.model)
    domains = oracle.constants_of(model, case.facts)
    stated = {*case.facts.true, *case.facts.false}
    free = [atom for atom in oracle.ground_atoms(model, domains) if atom not in stated]
    assume(free)
    name, constants = data.draw(st.sampled_from(free))
    text = oracle.atom_text(model.predicates[name], constants)
    rule = f"{text}." if probability == 1 else f"!({text})."
    if 0 < probability < 1:
        rule = f"{math.log(probability / (1 - probability))!r} {text}"
    believing = lapis.parse(f"{case.model}{rule}\n")
    facts = replace(case.facts, unknown=(*case.facts.unknown, (name, constants)))
    database = lapis.Database.parse(case.data)

    def infer() -> lapis.Answer:
        return lapis.infer(
            model, database, case.query, soft_evidence={text: probability}, method="enumerate"
        )

    known = oracle.known_atoms(model, facts, domains, set(case.query))
    worlds = oracle.worlds_agreeing_with(known)
    possible = worlds[name, constants][oracle.satisfies_blocks(model, domains, worlds)]
    if len(set(possible.tolist())) == 1 and model.predicates[name].block:
        with pytest.raises(lapis.LapisError):  # blocks decide it, whatever is believed
            infer()
        return
    try:
        expected = oracle.infer(believing, facts, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            infer()
        return
    answer = infer()
    assert answer.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    for atom, found in answer.marginals.items():
        assert found == pytest.approx(expected.marginals[atom], abs=1e-9)
    keys = oracle.weight_keys(model, domains)
    counts = [expected.expected_counts[key] for key in keys]
    assert answer.expected_counts.tolist() == pytest.approx(counts, abs=1e-9)


@pytest.mark.parametrize("written", ["Smokes(anna)", 'Smokes("anna")', "Smokes( anna )"])
def test_a_name_is_a_constant_quoted_or_not(written: str) -> None:
    answer = lapis.infer(lapis.parse(MODEL), PEOPLE, "Smokes", soft_evidence={written: 0.9})
    assert answer[written] == pytest.approx(0.9)
    assert answer["Smokes(bob)"] == answer["Smokes(Chris)"] == 0.5


def test_soft_evidence_opens_an_atom_of_a_closed_predicate() -> None:
    model = lapis.parse("Sim(rec,rec)\nSame(rec,rec)\n3 Sim(x,y) => Same(x,y)\n-2 Same(x,y)")
    data = lapis.Database.parse("rec = {A, B}")
    marked = lapis.Database.parse("rec = {A, B} ?Sim(A,B)")
    before = lapis.infer(model, data, "Same")
    for probability in (0.99, 1.0):
        beliefs = {"Sim(A,B)": probability}
        answer = lapis.infer(model, data, "Same", soft_evidence=beliefs)
        same = lapis.infer(model, marked, "Same", soft_evidence=beliefs)
        assert answer.marginals == pytest.approx(same.marginals)
        assert answer["Same(A,B)"] > before["Same(A,B)"] + 0.5
        assert answer["Same(B,A)"] == pytest.approx(before["Same(B,A)"])


def test_a_belief_holds_in_the_worlds_that_have_its_constants() -> None:
    others = lapis.Database.parse("Person(Dora)", "others.db")
    beliefs = {"Smokes(anna)": 0.9}
    both = lapis.infer(lapis.parse(MODEL), [PEOPLE, others], "Smokes", soft_evidence=beliefs)
    assert len(both) == 4
    assert sorted(both.probability.tolist()) == pytest.approx([0.5, 0.5, 0.5, 0.9])


REFUSED = [
    (
        {"Smokes(Zed)": 0.9},
        "unknown constant 'Zed' of type 'person' in the soft evidence Smokes(Zed)",
    ),
    (
        {"Smokes(ann)": 0.9},
        "unknown constant 'ann' of type 'person' in the soft evidence Smokes(ann)\n"
        "    did you mean 'anna'?",
    ),
    (
        {"Smoks(anna)": 0.9},
        "unknown predicate 'Smoks' in soft evidence\n    did you mean 'Smokes'?",
    ),
    (
        {"Smokes(x)": 0.9},
        "unknown constant 'x' of type 'person' in the soft evidence Smokes(x)",
    ),
    (
        {"Person(anna)": 0.2},
        'soft evidence for Person("anna") has no effect: people.db states that it is true\n'
        '    remove the fact, or mark it unknown: ?Person("anna")',
    ),
    (
        {"Smokes(anna)": 0.2, 'Smokes("anna")': 0.3},
        'soft evidence for Smokes("anna") is given twice',
    ),
    *(
        (
            {"Smokes(anna)": value},
            "soft evidence must be a ground atom and a probability, "
            f"not 'Smokes(anna)' = {value!r}\n"
            "    a probability is a number from 0 to 1",
        )
        for value in (True, np.True_, "x", float("nan"), 1.5, -0.1, None)
    ),
]


@pytest.mark.parametrize(("beliefs", "message"), REFUSED)
def test_soft_evidence_without_effect_is_refused_with_the_reason(
    beliefs: dict[str, float], message: str
) -> None:
    for question in (lapis.infer, lapis.map):
        with pytest.raises(lapis.LapisError) as caught:
            question(lapis.parse(MODEL), PEOPLE, "Smokes", soft_evidence=beliefs)
        assert str(caught.value) == message


def test_arguments_and_formulas_are_checked() -> None:
    for text, code in (
        ("Smokes(anna, bob)", "arity"),
        ("Smokes(anna) ^ Smokes(bob)", "soft-evidence"),
    ):
        with pytest.raises(lapis.LapisError) as caught:
            lapis.infer(lapis.parse(MODEL), PEOPLE, "Smokes", soft_evidence={text: 0.5})
        assert caught.value.code == code


def test_numpy_numbers_are_numbers() -> None:
    beliefs = {"Smokes(anna)": np.float32(0.5), "Smokes(bob)": np.int64(1)}
    answer = lapis.infer(lapis.parse(MODEL), PEOPLE, "Smokes", soft_evidence=beliefs)
    assert answer["Smokes(bob)"] == 1.0


@pytest.mark.parametrize(
    ("data", "query", "reason"),
    [
        ("Topic(P,C) Long(P)", "Long", "d.db states Topic(P,C), and only one value is true"),
        ("Topic(P,C) Long(P)", "Topic", "d.db states Topic(P,C), and only one value is true"),
        ("?Topic(P,A) Topic(P,C)", "Long", "d.db states Topic(P,C), and only one value is true"),
        ("Long(P)", "Long", "one value must be true, and all others are false"),
        ("!Topic(P,B) !Topic(P,C)", "Topic", "one value must be true, and all others are false"),
    ],
)
def test_a_belief_that_a_block_decides_is_refused(data: str, query: str, reason: str) -> None:
    """An unsure 0.7 was a certain 1, or 0, without a word."""
    model = lapis.parse(
        "Topic(page, topic!)\nLong(page)\n1 Long(x) => Topic(x, A)\ntopic = {A, B, C}"
    )
    world = lapis.Database.parse(data, "d.db")
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(model, world, query, soft_evidence={"Topic(P,A)": 0.7})
    assert caught.value.message == f"soft evidence for Topic(P,A) has no effect: {reason}"


def test_beliefs_in_several_values_of_a_block_are_weighed() -> None:
    """Odds of 0.7 and 0.2 against each other: 7/3 to 1/4, where one of the two must hold."""
    model = lapis.parse("Topic(page, topic!)\nLong(page)\ntopic = {A, B, C}")
    beliefs = {"Topic(P,A)": 0.7, "Topic(P,B)": 0.2}
    answer = lapis.infer(model, lapis.Database.parse("Long(P)"), (), soft_evidence=beliefs)
    assert answer.marginals == pytest.approx({"Topic(P,A)": 28 / 31, "Topic(P,B)": 3 / 31})
