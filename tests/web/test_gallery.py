"""The problems of the gallery are answered, by the same functions that a user calls."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import lapis
from lapis.registry.option_field import keywords
from lapis.web.files import Folder
from lapis.web.gallery import copy_problem, list_gallery, open_problem
from lapis.web.runs import OPTIONS, choose_options

NAMES = [card["name"] for card in list_gallery()]


def test_there_are_ten() -> None:
    assert len(NAMES) >= 10
    assert all(len(card["sentences"]) == 3 for card in list_gallery())


def answer(folder: Path, name: str) -> object:
    """Answer a problem by the function of the API that its command names."""
    copy_problem(name, Folder(folder))
    problem = open_problem(name, f"{folder}/{name}/")
    assert problem["model"] is not None
    model, data = problem["model"], problem["data"]
    given = keywords(choose_options(OPTIONS[problem["command"]], problem["options"]))
    query = problem["query"]
    command = problem["command"]
    if command == "circuit-learn":
        return lapis.circuits.learn(model, edge_costs=given["edge_costs"], progress=None)
    world = lapis.Database.read(*data) if data else None
    if command == "infer":
        return lapis.infer(model, world, query, evidence=problem["evidence"], progress=None)
    if command == "lift":
        return lapis.lift(model, world)
    if command == "structure":
        return lapis.learn_structure(model, world, progress=None)
    assert command == "field-infer"
    return lapis.fields.infer(model, world, query, progress=None)


def infer(folder: Path, name: str) -> lapis.Answer:
    found = answer(folder, name)
    assert isinstance(found, lapis.Answer)
    return found


def test_smokers(tmp_path: Path) -> None:
    found = infer(tmp_path, "smokers")
    assert found.exact
    assert found["Cancer(Anna)"] > found["Cancer(Daniel)"]


def test_records_are_joined_along_the_chain(tmp_path: Path) -> None:
    found = infer(tmp_path, "entity-resolution")
    assert found["Same(R1,R2)"] > 0.9
    assert found["Same(R1,R3)"] > 5 * found["Same(R1,R6)"]


def test_pages_without_words_follow_their_links(tmp_path: Path) -> None:
    found = infer(tmp_path, "collective")
    truth = lapis.Database.read(tmp_path / "collective" / "truth.db")
    for _, (page, topic), _ in truth.facts():
        others = {t: found[f"Class({page},{t})"] for t in ("Course", "Person", "Project")}
        assert max(others, key=lambda t: others[t]) == topic, page


def test_advisors_compete(tmp_path: Path) -> None:
    found = infer(tmp_path, "link-prediction")
    assert found["AdvisedBy(Dana,Abel)"] > 0.5
    assert (
        found["AdvisedBy(Eli,Bruns)"] > found["AdvisedBy(Eli,Abel)"] > found["AdvisedBy(Hal,Abel)"]
    )
    assert found["AdvisedBy(Abel,Dana)"] == 0


def test_blocks_clean_the_graph(tmp_path: Path) -> None:
    found = infer(tmp_path, "knowledge-graph")
    assert found["BornIn(Ada,London)"] + found["BornIn(Ada,Paris)"] <= 1
    assert found["BornIn(Ada,London)"] > found["BornIn(Ada,Paris)"]
    assert found["CitizenOf(Emmy,Germany)"] > 2 * found["CitizenOf(Emmy,France)"]


def test_no_coffee(tmp_path: Path) -> None:
    found = infer(tmp_path, "network")
    assert found["Water=empty"] > 0.15
    assert found["Heater=cold"] > 0.5


@pytest.mark.slow
def test_a_hundred_thousand_people(tmp_path: Path) -> None:
    found = infer(tmp_path, "large-network")
    assert len(found) == 67_000


def test_a_town_is_counted(tmp_path: Path) -> None:
    found = answer(tmp_path, "lifted-counting")
    assert isinstance(found, lapis.Lifted)
    smokers = next(row for row in found.formulas if row.formula == "Smokes(x)")
    assert 0 < smokers.expected < 500


def test_the_field_prefers_the_smoker(tmp_path: Path) -> None:
    found = infer(tmp_path, "field")
    assert found["Friends(Bob,Anna)"] > found["Friends(Bob,Carl)"]


def test_rules_about_parents_are_found(tmp_path: Path) -> None:
    found = answer(tmp_path, "rules")
    texts = [rule.text for rule in found.rules if rule.gain is not None]  # type: ignore[attr-defined]
    assert any("Parent" in text and "Plays" in text for text in texts), texts


def test_a_circuit_is_learned(tmp_path: Path) -> None:
    found = answer(tmp_path, "circuit")
    circuit = found.compile().circuit  # type: ignore[attr-defined]
    rain = lapis.circuits.query(circuit, query=["rain=1"])
    assert 0.3 < math.exp(rain.log_probability) < 0.5
