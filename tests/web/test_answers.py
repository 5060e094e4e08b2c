"""What the page shows is what the functions of the API return."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from typing import Any

import pytest

import lapis
from web.workbench import DATA, MODEL, Bench

pytestmark = pytest.mark.web


def api_answer(evidence: str = "") -> lapis.Answer:
    data = lapis.Database.parse(DATA + evidence)
    return lapis.infer(lapis.parse(MODEL), data, query=["Smokes", "Cancer"], progress=None)


def test_rows_and_csv_are_the_answer_of_the_api(bench: Bench) -> None:
    run = bench.run("infer", "model.mln", ["people.db"], query=["Smokes", "Cancer"])
    assert run["status"] == "done", run
    expected = api_answer().marginals
    rows = bench.rows(run)["rows"]
    assert {row[0]: row[3] for row in rows} == expected
    text = bench.client.get(f"/api/jobs/{run['id']}/export?format=csv").text
    listed = csv.DictReader(io.StringIO(text))
    assert {row["atom"]: float(row["probability"]) for row in listed} == expected


def test_rows_are_sorted_and_filtered(bench: Bench) -> None:
    run = bench.run("infer", "model.mln", ["people.db"], query=["Smokes", "Cancer"])
    expected = sorted(api_answer().marginals.items(), key=lambda item: -item[1])
    found = bench.rows(run, sort="probability", descending=True, offset=1, limit=2)
    assert [(row[0], row[3]) for row in found["rows"]] == expected[1:3]
    assert found["total"] == len(expected)
    cancer = bench.rows(run, predicate="Cancer", arguments={"arg1": "ann"})
    assert [row[0] for row in cancer["rows"]] == ["Cancer(Anna)"]
    likely = bench.rows(run, low=0.5)
    assert {row[0] for row in likely["rows"]} == {atom for atom, p in expected if p >= 0.5}


def test_the_code_beside_an_answer_gives_it(bench: Bench) -> None:
    run = bench.run("infer", "model.mln", ["people.db"], query=["Smokes"], evidence=["Smokes(Bob)"])
    code = bench.result(run)["python"].replace("print(found)", "print(found.marginals)")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=bench.root, capture_output=True, text=True, check=True
    )
    rows = bench.rows(run)["rows"]
    assert done.stdout.strip() == str({row[0]: row[3] for row in rows})


@pytest.mark.parametrize("evidence", ["!Smokes(Anna)", "?Smokes(Anna)"])
def test_evidence_replaces_a_fact_of_the_data(bench: Bench, evidence: str) -> None:
    data = lapis.Database.parse(DATA.replace("Smokes(Anna)", evidence))
    answer = lapis.infer(lapis.parse(MODEL), data, query="Smokes", progress=None)
    run = bench.run("infer", "model.mln", ["people.db"], query=["Smokes"], evidence=[evidence])
    assert run["status"] == "done", run
    assert {row[0]: row[3] for row in bench.rows(run)["rows"]} == answer.marginals
    live = bench.post("/api/live", live_request(evidence=[evidence]))
    assert {row["atom"]: row["probability"] for row in live["atoms"]} == answer.marginals
    code = bench.result(run)["python"].replace("print(found)", "print(found.marginals)")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=bench.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(answer.marginals)


def live_request(**more: Any) -> dict[str, Any]:
    return {
        "text": MODEL, "path": "model.mln", "data": ["people.db"], "query": ["Smokes"],
        "evidence": [], "weights": {}, "limit": 100, **more,
    }  # fmt: skip


def test_a_slider_changes_the_weight_of_its_formula(bench: Bench) -> None:
    changed = lapis.parse(MODEL.replace("1.1 Friends", "2.5 Friends"))
    data = lapis.Database.parse(DATA)
    answer = lapis.infer(changed, data, query="Smokes", progress=None)
    live = bench.post("/api/live", live_request(weights={"1": 2.5}))
    assert {row["atom"]: row["probability"] for row in live["atoms"]} == pytest.approx(
        answer.marginals, abs=1e-12
    )


def test_mistakes_have_places_in_the_text(bench: Bench) -> None:
    text = MODEL + "𝛼(x)\n" + "1 Smoks(x)\n"
    reply = bench.post("/api/check", {"text": text, "path": "model.mln", "data": []})
    units = text.encode("utf-16-le")
    marked = {
        units[2 * mark["start"] : 2 * mark["end"]].decode("utf-16-le"): mark
        for mark in reply["marks"]
    }
    assert marked["Smoks"]["fix"] == "Smokes"
    assert "unknown predicate 'Smoks'" in marked["Smoks"]["message"]


def test_weights_are_found_in_the_text(bench: Bench) -> None:
    text = (
        MODEL + "log(3) Cancer(x)\n2 * 1 Cancer(x)\n1e1 Smokes(x) v\n  Cancer(x)\n!Cancer(Bob).\n"
    )
    reply = bench.post("/api/check", {"text": text, "path": "model.mln", "data": []})
    found = [
        text[f["weight_start"] : f["weight_end"]] for f in reply["formulas"] if f["weight_end"]
    ]
    assert found == ["1.5", "1.1", "-0.5", "1e1"]


def test_learned_rules_have_words_and_examples(bench: Bench) -> None:
    pairs = [f"Smokes(P{n})\nCancer(P{n})" for n in range(12)]
    pairs += [f"Smokes(Q{n})" for n in range(2)] + [
        f"person = {{{', '.join(f'R{n}' for n in range(12))}}}"
    ]
    (bench.root / "many.db").write_text("\n".join(pairs))
    (bench.root / "bare.mln").write_text("Smokes(person)\nCancer(person)\n")
    run = bench.run("structure", "bare.mln", ["many.db"])
    assert run["status"] == "done", run
    rules = bench.result(run)["document"]["rules"]
    rule = next(rule for rule in rules if rule["gain"] is not None)
    assert "Smokes" in rule["words"]
    assert rule["examples"]


def test_learning_reports_its_curve(bench: Bench) -> None:
    run = bench.run("learn", "model.mln", ["people.db"], prior="gaussian:2")
    assert run["status"] == "done", run
    document = bench.result(run)["document"]
    data = lapis.Database.parse(DATA)
    fit = lapis.learn(lapis.parse(MODEL), data, prior="gaussian:2", progress=None)
    assert [row["weight"] for row in document["weights"]] == pytest.approx(fit.weights.tolist())
    assert len(document["curve"]) == len(fit.curve)


def test_columns_of_a_table_become_facts(bench: Bench) -> None:
    (bench.root / "works.csv").write_text('who,year,where\nAnna,1999,"Bern, CH"\nBob,2001,Rome\n')
    columns = bench.post("/api/data/columns", {"path": "works.csv"})
    assert (columns["columns"], columns["num_rows"]) == (["who", "year", "where"], 2)
    mapping = {
        "path": "works.csv", "kind": "table", "predicate": "WorksAt", "columns": ["who", "where"],
        "target": "works.db",
    }  # fmt: skip
    bench.post("/api/data/map", mapping)
    facts = set(lapis.Database.read(bench.root / "works.db").facts())
    assert facts == {
        ("WorksAt", ("Anna", "Bern, CH"), True), ("WorksAt", ("Bob", "Rome"), True)
    }  # fmt: skip


def test_triples_become_facts_of_several_predicates(bench: Bench) -> None:
    (bench.root / "world.nt").write_text(
        "<http://e.org/Anna> <http://e.org/p#born in> <http://e.org/Bern> .\n"
        '<http://e.org/Anna> <http://e.org/p#name> "Anna B."@en .\n'
        "# a comment\n<http://e.org/Bob> <http://e.org/p#born in> <http://e.org/Rome> .\n"
    )
    columns = bench.post("/api/data/columns", {"path": "world.nt"})["columns"]
    mapping = {
        "path": "world.nt", "kind": "triples", "predicate": "", "columns": columns,
        "target": "world.db",
    }  # fmt: skip
    bench.post("/api/data/map", mapping)
    facts = set(lapis.Database.read(bench.root / "world.db").facts())
    assert facts == {
        ("Born_in", ("Anna", "Bern"), True), ("Born_in", ("Bob", "Rome"), True),
        ("Name", ("Anna", "Anna B."), True),
    }  # fmt: skip


def test_typos_in_data_have_a_proposal(bench: Bench) -> None:
    (bench.root / "typo.db").write_text("Smoks(Anna)\n")
    request = {"data": ["typo.db"], "model": "model.mln"}
    [note] = bench.post("/api/data", request)["files"][0]["notes"]
    assert (note["name"], note["proposal"]) == ("Smoks", "Smokes")
    bench.post("/api/data/rename", {"path": "typo.db", "name": "Smoks", "proposal": "Smokes"})
    assert (bench.root / "typo.db").read_text() == "Smokes(Anna)\n"
    assert bench.post("/api/data", request)["files"][0]["notes"] == []


def test_a_run_that_is_stopped_keeps_its_answer(bench: Bench) -> None:
    people = [f"P{n}" for n in range(30)]
    (bench.root / "dense.mln").write_text(
        f"person = {{{', '.join(people)}}}\nLikes(person, person)\nKnows(person, person)\n"
        "0.3 Likes(x, y) ^ Likes(y, z) => Likes(x, z)\n0.2 Knows(x, y) ^ Likes(y, z)\n"
    )
    job = {
        "command": "infer", "model": "dense.mln", "data": [],
        "options": {
            "query": "Likes,Knows", "method": "gibbs", "precision": 1e-6,
            "max_samples": 100_000_000,
        },
    }  # fmt: skip
    run_id = bench.post("/api/jobs", job)["id"]
    with bench.client.stream("GET", f"/api/jobs/{run_id}/events") as stream:
        for line in stream.iter_lines():
            if '"phase": "sampling"' in line:
                break
    bench.post(f"/api/jobs/{run_id}/stop", {"now": False})
    state = bench.wait(run_id)
    assert state["status"] == "stopped"
    assert state["error"] is None
    assert bench.rows(state, limit=5)["total"] == 2 * 30 * 30
    assert "stopped early" in " ".join(bench.result(state)["remarks"])
