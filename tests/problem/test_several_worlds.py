"""Several worlds: counts and scores are sums over worlds, claims hold for each world."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle
from lapis.language.instances import MIN_GATHERED
from lapis.results.answer import Answer, MostLikelyWorld
from oracle import Facts, NoWorld
from strategies import Case, cases

# Too dense to be exact, and no two of the people alike.
LINKS = np.argwhere(np.random.default_rng(0).random((32, 32)) < 0.7).tolist()
CROWD = lapis.Database.parse("\n".join(f"Fr(A{i}, A{j})" for i, j in LINKS), "crowd.db")
PAIR = lapis.Database.parse("Fr(A,B)", "pair.db")
SMOKERS = lapis.parse("Fr(t,t)\nSm(t)\n0.01 Fr(x,y) ^ Sm(x) => Sm(y)\n0.1 Sm(x)")


@given(cases(), st.integers(1, 2))
def test_worlds_add_up(case: Case, drop: int) -> None:
    """A world and the same with fewer facts, so that their constants may differ."""
    model = lapis.parse(case.model)
    groups = (case.facts.true, case.facts.false, case.facts.unknown)
    fewer = Facts(*(group[drop:] for group in groups))
    worlds = [case.facts, fewer]
    databases = [
        lapis.Database.parse(oracle.render_database(model.predicates, facts)) for facts in worlds
    ]
    try:
        expected = [oracle.infer(model, facts, case.query) for facts in worlds]
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.infer(model, databases, case.query, method="enumerate")
        return
    answer = lapis.infer(model, databases, case.query, method="enumerate")
    total = sum(found.log_partition for found in expected)
    assert answer.log_partition == pytest.approx(total, abs=1e-9)
    counts: dict[oracle.WeightKey, float] = {}
    for found in expected:
        for key, count in found.expected_counts.items():
            counts[key] = counts.get(key, 0.0) + count
    in_order = [counts[key] for key in sorted(counts, key=lambda key: key[0])]
    assert answer.expected_counts.tolist() == pytest.approx(in_order, abs=1e-9)
    names = ("<data>", "<data> (2)")
    for name, database, found in zip(names, databases, expected, strict=True):
        for atom in lapis.infer(model, database, case.query, method="enumerate").atoms:
            assert answer[name, atom] == pytest.approx(found.marginals[atom], abs=1e-9)
    best = lapis.map(model, databases, case.query, method="enumerate")
    assert best.optimal
    assert best.score == pytest.approx(sum(found.map_score for found in expected), abs=1e-9)


@pytest.mark.parametrize("order", [1, -1])
def test_the_whole_claims_what_holds_for_the_worst(order: int) -> None:
    answer = lapis.infer(SMOKERS, [PAIR, CROWD][::order], "Sm", max_samples=4000)
    assert not answer.exact
    assert answer.log_partition is None  # not that of the exact worlds only
    alone = {w.name: lapis.infer(SMOKERS, w, "Sm", max_samples=4000) for w in (PAIR, CROWD)}
    methods = [alone[name].method for name in ("pair.db", "crowd.db")[::order]]
    assert answer.method == "+".join(methods)
    sampled = alone["crowd.db"].diagnostics
    for name in ("converged", "interrupted", "rhat", "ess", "samples", "expected_counts_stderr"):
        assert answer.diagnostics[name] == sampled[name]
    assert [found["world"] for found in answer.diagnostics["worlds"]] == [
        "pair.db", "crowd.db",
    ][::order]  # fmt: skip
    for index, world in enumerate(answer.to_pandas()["world"]):
        assert answer.method_of(index) == alone[world].method
        assert (answer.errors[index] == 0.0) == (world == "pair.db")
    assert json.loads(json.dumps(answer.to_json()))["worlds"][0]["method"] == methods[0]


def test_beliefs_without_errors_claim_none() -> None:
    loop = lapis.Database.parse("Fr(A,B) Fr(B,C) Fr(C,A)", "loop.db")
    answer = lapis.infer(SMOKERS, [loop, loop], "Sm", method="bp")
    assert not answer.exact
    assert answer.stderr is None


def test_equal_names_are_kept_apart() -> None:
    model = lapis.parse("P(t)\nQ(t)\n1 P(x) => Q(x)")
    worlds = [lapis.Database.parse("P(A)"), lapis.Database.parse("?P(B) Q(A)")]
    for found in (lapis.infer(model, worlds, "Q"), lapis.map(model, worlds, "Q")):
        assert len(found) == 2
        assert len(found.to_pandas()) == 2
        assert set(found.to_pandas()["world"]) == {"<data>", "<data> (2)"}
    answer = lapis.infer(model, [worlds[0], worlds[0]], "Q")
    assert answer["<data>", "Q(A)"] == answer["<data> (2)", "Q(A)"]
    with pytest.raises(lapis.LapisError, match=r"<data> \(2\)"):
        answer["Q(A)"]


def gathered_model(num_rules: int) -> str:
    """Alike rules with one of another kind between them, and weights that tell them apart."""
    names = [f"C{i}" for i in range(num_rules)]
    alike = [f"{0.1 * (i + 1):.1f} P({name}) => Q({name})" for i, name in enumerate(names)]
    rules = [*alike[:3], "0.5 P(x)", "-0.3 Q(+x)", *alike[:2:-1], alike[0]]
    return f"t = {{{', '.join(names)}, D}}\nP(t)\nQ(t)\n" + "\n".join(rules)


@pytest.mark.parametrize("num_rules", [2, MIN_GATHERED - 2, MIN_GATHERED, MIN_GATHERED + 3])
def test_expected_counts_follow_the_rules_as_written(num_rules: int) -> None:
    """Against the derivative: ∂ log Z / ∂ w by finite differences, one weight at a time."""
    model = lapis.parse(gathered_model(num_rules))
    answer = lapis.infer(model, query=["P", "Q"], method="exact")
    sizes = [num_rules + 1 if rule.plus else 1 for rule in model.rules]
    assert len(answer.expected_counts) == sum(sizes)
    step = 1e-4
    start = np.cumsum([0, *sizes])
    for number, rule in enumerate(model.rules):
        values = []
        for sign in (1, -1):
            changed = list(model.rules)
            assert rule.weight is not None
            changed[number] = replace(rule, weight=rule.weight + sign * step)
            moved = model.with_rules(tuple(changed))
            found = lapis.infer(moved, query=["P", "Q"], method="exact").log_partition
            assert found is not None
            values.append(found)
        slope = (values[0] - values[1]) / (2 * step)
        own = answer.expected_counts[start[number] : start[number + 1]].sum()
        assert own == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("question", [lapis.infer, lapis.map], ids=["infer", "map"])
@pytest.mark.parametrize(
    ("query", "asked_of"),
    [
        ("Sm(A)", ["one"]),
        ("Sm(C)", ["two"]),
        ("Sm(A) v Sm(A)", ["one"]),
        ("Fr(C,D)", ["two"]),
        (["Sm(A)", "Sm(C)"], ["one", "two"]),
        ("Sm(B)", ["one", "two"]),
        ("Sm", ["one", "one", "two", "two", "two"]),
    ],
)
def test_rows_say_their_world_whichever_worlds_have_rows(
    question: Callable[..., Answer | MostLikelyWorld], query: str | list[str], asked_of: list[str]
) -> None:
    """Keys contain the world also if only one of two worlds has queried atoms."""
    worlds = [
        lapis.Database.parse("Fr(A,B)", "one"),
        lapis.Database.parse("Fr(B,C) Fr(C,D)", "two"),
    ]
    found = question(SMOKERS, worlds, query)
    assert found.world == found.worlds == tuple(asked_of)
    assert [key[0] for key in found.keys] == asked_of
    assert [row["world"] for row in found.to_json()["atoms"]] == asked_of
    assert found.to_pandas()["world"].tolist() == asked_of
    assert "of 2 worlds" in found.summary() or "in 2 worlds" in found.summary()
    for table in found.frames().values():
        assert set(table["world"]) <= set(asked_of)
    for world, name in found.keys:
        alone = question(SMOKERS, next(w for w in worlds if w.name == world), name)
        assert found[world, name] == pytest.approx(alone[name])
    with pytest.raises(lapis.LapisError, match=r"'Sm\(Z\)' was not queried in 'two'"):
        found["two", "Sm(Z)"]


def test_counts_and_expected_counts_are_in_one_order() -> None:
    """Rule by rule, though a later world has constants of + variables that the first has not."""
    model = lapis.parse("P(t)\nQ(t)\nW\n0.5 P(+x) ^ Q(x)\n1 P(x)\n0.2 W")
    worlds = [
        lapis.Database.parse("P(A) Q(A) Q(B)", "one"),
        lapis.Database.parse("P(C) Q(C) P(A)", "two"),
    ]
    for order in (worlds, worlds[::-1]):
        rows = lapis.count(model, order).rows
        assert [row.formula for row in rows[-2:]] == ["P(x)", "W"]
        expected = lapis.infer(model, order, "W").expected_counts
        assert [row.true for row in rows[:-1]] == pytest.approx(expected[:-1].tolist())
