"""Test contradictory hard formulas: minimal cores, and answers that violate the fewest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
import oracle
from lapis.language.model import Model
from lapis.results.answer import relaxed_remarks
from strategies import Case, cases

DATA = """
Wrote(Ann,Moby) Wrote(Ann,Emma) Topic(Moby,Whales) Topic(Emma,Love)
"""
MODEL = """
Wrote(person, book)
Topic(book, topic)
Wrote(x, b) ^ Wrote(x, c) ^ Topic(b, t) => Topic(c, t).
Topic(b, t) ^ Topic(b, u) => t = u.
0.5 Topic(b, t)
"""


def hardened(case: Case) -> Model:
    """Make every second rule without + hard, so that many models contradict."""
    model = lapis.parse(case.model)
    rules = [
        replace(rule, hard=True, weight=None) if number % 2 == 0 and not rule.plus else rule
        for number, rule in enumerate(model.rules)
    ]
    return replace(model, rules=tuple(rules))


def num_broken(model: Model, domains: oracle.Domains, worlds: oracle.Worlds) -> np.ndarray:
    """Return which hard groundings are false, bool[num_worlds, num_hard_groundings]."""
    rows = [
        ~oracle.holds(rule, binding, worlds, domains)
        for rule in model.rules
        if rule.hard
        for binding in oracle.bindings(rule.variables, domains)
    ]
    return np.array(rows).T if rows else np.zeros((len(worlds.truth), 0), bool)


@given(cases())
def test_the_fewest_are_broken_and_then_the_score_is_best(case: Case) -> None:
    model, data = hardened(case), lapis.Database.parse(case.data)
    domains = oracle.constants_of(model, case.facts)
    known = oracle.known_atoms(model, case.facts, domains, set(case.query))
    assume(any(value is None for value in known.values()))
    worlds = oracle.worlds_agreeing_with(known)
    possible = oracle.satisfies_blocks(model, domains, worlds)
    assume(possible.any())
    worlds = oracle.Worlds(worlds.column, worlds.truth[possible])
    broken = num_broken(model, domains, worlds)
    score = oracle.weigh(model, domains, worlds).score
    fewest = broken.sum(axis=1).min()
    is_least = broken.sum(axis=1) == fewest
    found = lapis.map(model, data, case.query, relax=True)
    assert found.optimal
    assert found.score == pytest.approx(score[is_least].max(), abs=1e-6)
    assert found.diagnostics.get("relaxed_groundings", 0) == fewest
    assert found.diagnostics.get("relaxed_fewest", True)
    assert found.diagnostics.get("relaxed_at_least", 0) == fewest
    if fewest == 0:
        assert "relaxed" not in found.diagnostics
        return
    with pytest.raises(lapis.LapisError) as refused:
        lapis.map(model, data, case.query)
    assert refused.value.code in ("unsatisfiable", "hard-contradiction")
    # Marginals are those without the formulas that one such world violates.
    answer = lapis.infer(model, data, case.query, method="exact", relax=True)
    assert answer.exact
    names = [str(name) for name in answer.marginals]
    best = is_least & (score >= score[is_least].max() - 1e-9)
    column = {
        oracle.atom_text(model.predicates[atom[0]], atom[1]): place
        for atom, place in worlds.column.items()
    }
    columns = worlds.truth[:, [column[name] for name in names]]
    candidates = []
    for dropped in np.unique(broken[best], axis=0):
        log_weight = np.where((broken & ~dropped).any(axis=1), -np.inf, score)
        weight = np.exp(log_weight - log_weight.max())
        candidates.append(weight @ columns / weight.sum())
    assert any(np.allclose(answer.probability, one, rtol=0, atol=1e-9) for one in candidates)


def test_a_core_names_its_formulas_and_the_facts_behind_them() -> None:
    with pytest.raises(lapis.LapisError) as refused:
        lapis.infer(lapis.parse(MODEL), lapis.Database.parse(DATA), "Topic")
    assert (
        str(refused.value)
        == """\
no world satisfies the hard formulas: these 2 contradict each other
    correct the data, or give a rule a weight instead of its final period; infer and map can \
break as few as possible (relax=True, --relax)
<text>:4:1: Wrote(Ann, Emma) ^ Wrote(Ann, Moby) ^ Topic(Emma, Love) => Topic(Moby, Love), \
given Wrote(Ann,Emma), Wrote(Ann,Moby), Topic(Emma,Love)
    Wrote(x, b) ^ Wrote(x, c) ^ Topic(b, t) => Topic(c, t).
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
<text>:5:1: Topic(Moby, Whales) ^ Topic(Moby, Love) => Whales = Love, given Topic(Moby,Whales)
    Topic(b, t) ^ Topic(b, u) => t = u.
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"""
    )


def test_data_that_break_a_rule_are_named_with_the_facts() -> None:
    with pytest.raises(lapis.LapisError) as refused:
        lapis.map(lapis.parse(MODEL), lapis.Database.parse(DATA + " !Topic(Emma,Whales)"), "Topic")
    assert (
        str(refused.value)
        == """\
<text>:4:1: the data contradict the hard rule 'Wrote(x, b) ^ Wrote(x, c) ^ Topic(b, t) => \
Topic(c, t)' at x = Ann, b = Moby, c = Emma, t = Whales
    Wrote(x, b) ^ Wrote(x, c) ^ Topic(b, t) => Topic(c, t).
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    correct the data, or give a rule a weight instead of its final period; infer and map can \
break as few as possible (relax=True, --relax)
given Wrote(Ann,Moby), Wrote(Ann,Emma), Topic(Moby,Whales), !Topic(Emma,Whales)"""
    )


def test_a_block_in_a_core() -> None:
    model = lapis.parse("t = {A, B}\nP(t!)\n(P(x)).")
    with pytest.raises(lapis.LapisError) as refused:
        lapis.infer(model, query="P", method="gibbs")
    assert [note.message for note in refused.value.notes] == [
        "P(A)", "P(B)", "exactly one of P(A), P(B) is true",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, data: lapis.learn(
            model, data, "Liked", unobserved=["Topic"], objective="conditional"
        ),
        lambda model, data: lapis.score(model, data, "Liked"),
    ],
    ids=["learn", "score"],
)
def test_learning_and_scoring_refuse_alike(ask: Callable[[Model, lapis.Database], object]) -> None:
    model = lapis.parse(MODEL + "Liked(book)\n1 Liked(b)")
    with pytest.raises(lapis.LapisError, match="contradict") as refused:
        ask(model, lapis.Database.parse(DATA + " Liked(Emma)"))
    assert refused.value.code in ("unsatisfiable", "hard-contradiction")


def test_what_is_broken_is_listed() -> None:
    found = lapis.map(lapis.parse(MODEL), lapis.Database.parse(DATA), "Topic", relax=True)
    document = found.document()
    # If one topic follows the other book, "one topic" is violated twice.
    assert document["relaxed_groundings"] == len(document["relaxed"]) == 2
    assert {entry["rule"] for entry in document["relaxed"]} == {
        "Wrote(x, b) ^ Wrote(x, c) ^ Topic(b, t) => Topic(c, t)"
    }
    assert document["relaxed"][0]["facts"]
    assert found.remarks()[0] == "2 hard ground formulas broken, the fewest possible:"


@pytest.mark.parametrize("method", ["ilp", "maxwalksat", "icm"])
@pytest.mark.parametrize("weight", ["0.5", "-20", "3"])
def test_a_bound_never_passes_the_fewest(method: str, weight: str) -> None:
    model, data = lapis.parse(MODEL.replace("0.5", weight)), lapis.Database.parse(DATA)
    found = lapis.map(model, data, "Topic", method=method, relax=True).diagnostics
    assert found["relaxed_at_least"] <= 2 <= found["relaxed_groundings"]
    if found["relaxed_fewest"]:
        assert found["relaxed_at_least"] == 2


def test_what_is_not_proven_says_so() -> None:
    found = {"relaxed": [], "relaxed_groundings": 7, "relaxed_fewest": False}
    [line] = relaxed_remarks(found | {"relaxed_at_least": 5})
    assert line == (
        "7 hard ground formulas broken, the fewest found (every world breaks at least 5):"
    )


@pytest.mark.parametrize(("ask", "method"), [(lapis.infer, "count-gibbs"), (lapis.map, "lazy")])
def test_methods_that_do_not_list_all_formulas_refuse_to_relax(ask: object, method: str) -> None:
    assert callable(ask)
    with pytest.raises(lapis.LapisError, match=f"method '{method}' cannot relax"):
        ask(lapis.parse(MODEL), lapis.Database.parse(DATA), "Topic", method=method, relax=True)
