"""Completion of relations: log-odds, ranks, calibration, scores, files, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import lapis
import oracle
from cli_run import Run
from lapis.errors import LapisError
from lapis.recipes import LinkPrediction, link
from lapis.recipes.completion import Triple, each_candidate, filtered_rank, fit_calibration

COLUMNS = ["head", "relation", "tail"]


def families(seed: int, number: int) -> list[tuple[str, str, str]]:
    generator = np.random.default_rng(seed)
    facts = []
    for k in range(number):
        man, woman = f"M{k}", f"W{k}"
        facts += [(man, "husband of", woman), (woman, "wife of", man)]
        for child in range(generator.integers(3)):
            name = f"C{k}{child}"
            facts += [(man, "parent of", name), (woman, "parent of", name)]
            facts += [(name, "child of", man), (name, "child of", woman)]
    return facts


FACTS = families(0, 12)
ORDER = np.random.default_rng(1).permutation(len(FACTS))
KNOWN = pd.DataFrame([FACTS[k] for k in ORDER[12:]], columns=COLUMNS)
TEST = pd.DataFrame([FACTS[k] for k in ORDER[:12]], columns=COLUMNS)
GIVEN: dict[str, Any] = {"jobs": 1, "penalty": 0.001, "progress": None}


@pytest.fixture(scope="module")
def found() -> LinkPrediction:
    return link(KNOWN, test=TEST, held_out=0.3, **GIVEN)


def test_the_rules_are_found_and_complete(found: LinkPrediction) -> None:
    assert set(found.relations) == {"husband_of", "wife_of", "parent_of", "child_of"}
    assert found.scores["hits_at_3"] > 0.6
    ranks = found.ranks.to_pandas()
    first = ranks[ranks.tail_rank == 1].iloc[0]
    best = found.predict(first.head_entity, first.relation, limit=1).to_pandas()
    assert best.tail_entity[0] == first.tail_entity
    assert str(found).count("(") > 10


def test_log_odds_are_those_of_the_oracle() -> None:
    """P(fact | all others) by enumeration of the two worlds that differ in it."""
    facts = families(3, 2)
    found = link(pd.DataFrame(facts, columns=COLUMNS), **GIVEN)
    true = [(r.replace(" ", "_"), (h, t)) for h, r, t in facts]
    declared = "entity = {" + ", ".join(found.entities) + "}\n"
    rules = "\n".join(f"{rule.weight!r} {rule.text}" for rule in found.model.rules)
    names = "\n".join(f"{name}(entity, entity)" for name in found.model.predicates)
    model = lapis.parse(f"{declared}{names}\n{rules}")
    generator = np.random.default_rng(0)
    for relation in found.relations[:2]:
        log_odds = found.log_odds(relation)
        for _ in range(3):
            h, t = generator.integers(len(found.entities), size=2)
            atom = (relation, (found.entities[h], found.entities[t]))
            facts_of = oracle.Facts(tuple(a for a in true if a != atom), (), (atom,))
            answer = oracle.infer(model, facts_of, ())
            name = f"{relation}({atom[1][0]},{atom[1][1]})"
            assert log_odds[h, t] == pytest.approx(answer.log_odds[name], abs=1e-9)


def test_contributions_add_up(found: LinkPrediction) -> None:
    head, relation, tail = TEST.iloc[0]
    relation = relation.replace(" ", "_")
    why = found.explain(head, relation, tail)
    row, column = found.entities.index(head), found.entities.index(tail)
    assert why.log_odds == pytest.approx(found.log_odds(relation)[row, column])
    assert why.probability == pytest.approx(found.probability(relation)[row, column])
    assert why.text.startswith(f"{relation}({head}, {tail}) has probability")


def test_ranks_by_definition(found: LinkPrediction) -> None:
    """Each rank is counted entity by entity."""
    true = {(h, r.replace(" ", "_"), t) for h, r, t in FACTS}
    table = found.ranks.to_pandas()
    assert len(table) == len(TEST)
    for row in table.itertuples(index=False):
        score = found.log_odds(row.relation)
        place = {name: k for k, name in enumerate(found.entities)}
        own = score[place[row.head_entity], place[row.tail_entity]]
        others = [
            score[place[row.head_entity], place[name]]
            for name in found.entities
            if (row.head_entity, row.relation, name) not in true
        ]
        expected = 1 + sum(s > own for s in others) + sum(s == own for s in others) / 2
        assert row.tail_rank == expected
    ranks = np.concatenate([table.head_rank, table.tail_rank])
    assert found.scores["mrr"] == pytest.approx(np.mean(1 / ranks))
    assert found.scores["hits_at_10"] == pytest.approx(np.mean(ranks <= 10))


def test_ties_share_their_ranks() -> None:
    score, none = np.zeros(4), np.zeros(4, bool)
    assert [filtered_rank(score, none, k) for k in range(4)] == [2.5] * 4


def test_calibration_is_the_maximum(found: LinkPrediction) -> None:
    """scipy finds no better slope and offsets for the same penalised likelihood."""
    true = [Triple(h, r.replace(" ", "_"), t) for h, r, t in TEST.itertuples(index=False)]
    calibration = fit_calibration(found, true)
    parts = list(each_candidate(found, true, (), raw=True))

    def loss(at: np.ndarray) -> float:
        total = (at[0] - 1) ** 2 / 2 + 0.5e-6 * at[1] ** 2 + (at[2:] ** 2).sum() / 2
        for number, (_, x, truth) in enumerate(parts):
            z = at[0] * x + at[1] + at[2 + number]
            total += np.logaddexp(0, np.where(truth, -z, z)).sum()
        return float(total)

    best = minimize(loss, np.r_[1.0, np.zeros(len(parts) + 1)], method="BFGS", tol=1e-10)
    assert calibration.slope == pytest.approx(best.x[0], abs=1e-3)
    for number, relation in enumerate(found.relations):
        expected = best.x[1] + best.x[2 + number]
        assert calibration.offset[relation] == pytest.approx(expected, abs=2e-3)


def test_predictions_are_new(found: LinkPrediction) -> None:
    known = {(h, r.replace(" ", "_"), t) for h, r, t in KNOWN.itertuples(index=False)}
    frame = found.to_pandas()
    listed = set(frame[["head_entity", "relation", "tail_entity"]].itertuples(index=False))
    assert not known & {tuple(row) for row in listed}
    assert frame.probability.is_monotonic_decreasing
    heads = found.predict(None, "parent_of", "C00", limit=5, new_only=False).to_pandas()
    assert set(heads.tail_entity) == {"C00"}
    one = found.predict("M1", "husband_of", "W1").to_pandas()
    assert len(one) == 1


def test_pair_tables_and_databases_are_the_same() -> None:
    tables = {
        name: group[["head", "tail"]] for name, group in KNOWN.groupby("relation", sort=False)
    }
    data = lapis.Database.parse(
        " ".join(f"{r.replace(' ', '_')}({h},{t})" for h, r, t in KNOWN.itertuples(index=False))
    )
    one, two = link(tables, **GIVEN), link(data, **GIVEN)
    assert one.rules.text.partition("\n")[2] == two.rules.text.partition("\n")[2]


def test_the_folder(found: LinkPrediction, tmp_path: Path) -> None:
    found.save(tmp_path / "out")
    model = lapis.read(tmp_path / "out" / "model.mln")
    assert [rule.text for rule in model.rules] == [rule.text for rule in found.model.rules]
    assert len(pd.read_csv(tmp_path / "out" / "ranks.csv")) == len(TEST)


def test_pictures(found: LinkPrediction, tmp_path: Path) -> None:
    found.plot(tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes()[:4] == b"\x89PNG"
    why = found.explain(TEST["head"][0], TEST["relation"][0].replace(" ", "_"), TEST["tail"][0])
    assert len(why.plot().patches) == len(why.contributions)


ERRORS = [
    (lambda f: link(KNOWN[["head", "tail"]], **GIVEN), "facts has no column 'relation'"),
    (
        lambda f: link(KNOWN, ["wief of"], **GIVEN),
        "relations: the facts have no relation 'wief of'",
    ),
    (
        lambda f: link(KNOWN, test=TEST.assign(relation="owns"), **GIVEN),
        "test: the facts have no relation 'owns'",
    ),
    (lambda f: link(lapis.Database.parse("P(a)"), **GIVEN), "facts: P has 1 arguments"),
    (lambda f: link(KNOWN[:0], **GIVEN), "facts: there is no fact to learn from"),
    (lambda f: f.predict("Nobody", "wife_of"), "'Nobody' is no entity of the facts"),
    (lambda f: f.predict(None, "wife_of"), "give a head or a tail"),
    (lambda f: f.log_odds("wife"), "the relation 'wife' was not completed"),
    (lambda f: link(KNOWN, held_out=0.9, **GIVEN), "held_out must be a number between 0 and 0.5"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS, ids=[m[:36] for _, m in ERRORS])
def test_errors(call: Any, message: str, found: LinkPrediction) -> None:
    with pytest.raises(LapisError) as caught:
        call(found)
    assert str(caught.value).startswith(message)


def test_scores_need_test_facts(found: LinkPrediction) -> None:
    blind = LinkPrediction(found.rules, found.facts, found.relations, found.calibration)
    for call in (lambda: blind.scores, blind.plot, blind.candidates):
        with pytest.raises(LapisError, match="there are no scores without test facts"):
            call()


def test_the_command(run: Run) -> None:
    KNOWN.to_csv(run.folder / "facts.csv", index=False)
    TEST.to_csv(run.folder / "test.csv", index=False)
    words = ["recipe", "link", "facts.csv", "--test", "test.csv", "--penalty", "0.001"]
    code, out, _ = run(*words, "--jobs", "1", "--json", "-o", "out")
    document = json.loads(out)
    assert code == 0
    expected = link(KNOWN, test=TEST, **GIVEN)
    assert document["scores"]["mrr"] == pytest.approx(expected.scores["mrr"])
    assert (run.folder / "out" / "predictions.csv").exists()
