"""Explanations of atoms, formulas and worlds; their errors, files and JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from explained_cases import OracleCase, close
from hypothesis import given, settings
from hypothesis import strategies as st
from test_absences import check_absences
from test_contributions import check_contributions
from test_sensitivity import check_sensitivity

import lapis
import oracle
import strategies
from cli_run import Run
from lapis.errors import LapisError
from oracle import NoWorld
from strategies import Case

SMOKERS = """
Friends(person, person)
Smokes(person)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.6 Smokes(x)
"""
DATA = "Friends(A,B) Friends(B,C) Smokes(A)"
MODEL = lapis.parse(SMOKERS)


def explain(atom: str, data: str = DATA, **options: object) -> lapis.Explanation:
    return lapis.explain(MODEL, lapis.Database.parse(data), atom, "Smokes", **options)  # type: ignore[arg-type]


@st.composite
def soft_cases(draw: st.DrawFn) -> OracleCase:
    """A case with soft evidence on unknown atoms outside blocks."""
    case = draw(strategies.cases())
    found = OracleCase(case, {})
    free = [
        name
        for name, atom in found.names.items()
        if found.known[atom] is None and not found.model.predicates[atom[0]].block
    ]
    chosen = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    return OracleCase(case, {name: draw(st.sampled_from((0.2, 0.7, 0.9))) for name in chosen})


@settings(max_examples=10)
@given(soft_cases())
def test_soft_evidence_is_explained_as_rules(found: OracleCase) -> None:
    check_contributions(found)


@pytest.mark.slow
@settings(max_examples=2000)
@given(soft_cases(), st.sampled_from(("removed", "unknown", "false")))
def test_the_three_views_of_many_models(found: OracleCase, mode: str) -> None:
    check_contributions(found)
    check_absences(found, mode)  # type: ignore[arg-type]
    check_sensitivity(found)


@settings(max_examples=10)
@given(strategies.cases())
def test_probabilities_of_formulas_are_those_of_the_oracle(case: Case) -> None:
    found = OracleCase(case, {})
    try:
        expected = found.answer()
    except NoWorld:
        return
    unknown = sorted(expected.unknown)[:2]
    if len(unknown) < 2:
        return
    formula = f"({unknown[0]}) ^ !({unknown[1]})"
    first, second = (found.names[name] for name in unknown)
    worlds = oracle.worlds_agreeing_with(found.known)
    weight = oracle.weigh(found.model, found.domains, worlds).log_weight
    share = weight[worlds[first] & ~worlds[second]]
    log_probability = oracle.log_sum_exp(share) if len(share) else -math.inf
    explained = found.infer().explain(formula)
    assert explained.probability == close(math.exp(log_probability - expected.log_partition))


def test_a_given_world_is_explained() -> None:
    answer = lapis.infer(MODEL, lapis.Database.parse(DATA), query="Smokes")
    for world in ({"Smokes(C)": True}, ["Smokes(C)"]):
        found = answer.explain("Smokes(B)", world=world)
        assert found.world is not None
        assert found.world.name == "given"
        # The friend who smokes supports, the one B would infect needs no support.
        assert found.world.log_odds == pytest.approx(1.1 - 0.6)
    best = lapis.map(MODEL, lapis.Database.parse(DATA), query="Smokes")
    own = best.explain("Smokes(B)").world
    assert own is not None
    assert own.value == best["Smokes(B)"]


def test_interchangeable_ground_formulas_are_one_line() -> None:
    friends = " ".join(f"Friends(F{number},Anna) Smokes(F{number})" for number in range(49))
    found = explain("Smokes(Anna)", friends)
    [many] = [row for row in found.contributions if row.number > 1]
    assert many.number == 49
    assert many.log_odds == pytest.approx(49 * 1.1)
    assert many.formula == "Friends(x, Anna) ^ Smokes(x) => Smokes(Anna)"
    assert "49 ground formulas" in "\n".join(found.words)


def test_a_hard_formula_is_said_in_words() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x).\n1 P(x)\nt = {A}\n")
    found = lapis.explain(model, None, "Q(A)", ["P", "Q"])
    assert found.world is not None
    assert found.world.log_odds == math.inf
    assert any("it must hold because P(A)" in line for line in found.words)
    assert found.to_json()["contributions"][0]["hard"] == "for"


def test_facts_are_explained_by_what_would_hold_without_them() -> None:
    found = explain("Smokes(A)")
    assert found.known == "the data states it"
    assert found.probability == 1.0
    expected = lapis.infer(MODEL, lapis.Database.parse("Friends(A,B) Friends(B,C)"), query="Smokes")
    assert found["Smokes(A)"].probability == close(expected["Smokes(A)"])
    silent = lapis.explain(MODEL, lapis.Database.parse(DATA), "Friends(A,C)", "Smokes")
    assert silent.known == "its predicate is closed, and the data does not state it"


def test_numbers_multiply_contributions() -> None:
    model = lapis.parse("Dup(r, r)\nfloat sim(r, r)\n2 sim(x, y) * Dup(x, y)\n-1 Dup(x, y)\n")
    data = lapis.Database.parse("0.7 = sim(A,B)\n0 = sim(B,A)\n0 = sim(A,A)\n0 = sim(B,B)")
    found = lapis.explain(model, data, "Dup(A,B)", "Dup")
    assert [row.log_odds for row in found.contributions] == [pytest.approx(1.4), -1.0]
    assert found.contributions[0].weight == 2.0
    p = found.probability
    slopes = {row.rule: row.derivative for row in found.sensitivity}
    assert slopes["sim(x, y) * Dup(x, y)"] == pytest.approx(0.7 * p * (1 - p))


def test_samples_are_weighed_where_exact_inference_is_too_expensive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact = explain("Smokes(B)")
    monkeypatch.setattr("lapis.explanation.probabilities.LocalSolver.exact", lambda *_: None)
    found = explain("Smokes(B)")
    assert not found.exact
    assert found.probability == pytest.approx(exact.probability, abs=0.06)
    assert any(row.stderr for row in found.without)
    for row in found.without:
        if row.probability is not None and row.stderr:
            assert abs(row.probability - exact_value(exact, row.text)) < 0.06


def exact_value(exact: lapis.Explanation, text: str) -> float:
    rows = [row for row in exact.without if row.text == text]
    return exact.probability if not rows else float(rows[0].probability or 0.0)


ONLY = "is not ground: only single atoms and formulas of them can be explained"
WRONG = {
    "Smokes": f"'Smokes' {ONLY}",
    "Smokes(x)": f"'Smokes(x)' {ONLY}",
    "Smokes(Zoe)": "unknown constant 'Zoe' of type 'person' in the query Smokes(Zoe)",
    "Smoks(A)": "unknown predicate 'Smoks' in the query",
    "": "explain one atom or ground formula, not ''",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_name_what_is_wrong(text: str) -> None:
    with pytest.raises(LapisError) as raised:
        explain(text)
    assert raised.value.message == WRONG[text]


def test_an_answer_without_a_source_cannot_be_explained() -> None:
    from dataclasses import replace

    answer = replace(lapis.infer(MODEL, lapis.Database.parse(DATA), query="Smokes"), source=None)
    with pytest.raises(LapisError, match="this answer cannot be explained"):
        answer.explain("Smokes(B)")


def test_the_command_explains_draws_and_prints_json(run: Run) -> None:
    call = ["infer", "m.mln", "d.db", "-q", "Smokes,Cancer", "--why", "Smokes(Bob)"]
    document = run.json(*call, "--change-to", "0.4", "--draw", "near.graphml")
    assert document["atom"] == "Smokes(Bob)"
    assert document["changes"]["reached"]
    assert "<graphml" in Path(run.folder, "near.graphml").read_text(encoding="utf-8")
    code, out, _ = run(*call)
    assert code == 0
    assert "P(Smokes(Bob)) =" in out
    code, _, error = run("infer", "m.mln", "d.db", "-q", "Smokes", "--change-to", "0.5")
    assert code == 1
    assert error.startswith("error: --change-to is for explanations\n    add --why ATOM")
    assert json.dumps(run.json("map", "m.mln", "d.db", "-q", "Smokes", "--why", "Smokes(Bob)"))


def test_networks_are_drawn(run: Run) -> None:
    for name in ("n.dot", "n.svg", "n.graphml"):
        assert run("ground", "m.mln", "d.db", "-q", "Smokes", "-o", name)[0] == 0
        assert "Smokes(Bob)" in Path(run.folder, name).read_text(encoding="utf-8")


def test_pictures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = explain("Smokes(B)")
    axes = found.plot()
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels[-1] == "together"
    assert "Friends(A,B) and Smokes(A)" in labels
    found.draw().save(tmp_path / "near.png")
    assert (tmp_path / "near.png").stat().st_size > 1000
