"""Learning on an engine: the weights of memory, bit for bit, and refused options."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

import lapis
from cli_run import Run
from lapis.data import lazy_database
from lapis.errors import LapisError, TooLarge
from lapis.learning.examples import build_examples
from lapis.stores import open_store
from lapis.stores.load_to_store import place_problem
from store_urls import QUICK_STORES, STORES, store_url

MODEL = """
Smokes(person)
Cancer(person)
Friends(person, person)
Age(person, group!)
Likes(person, topic)
Smokes(x)
Smokes(x) => Cancer(x)
Friends(x,y) ^ Smokes(x) => Smokes(y)
Friends(x,y) ^ Friends(y,x)
Age(x,g) ^ Friends(x,y) => Age(y,g)
Likes(x,+t) => Smokes(x)
Likes(x,t) => EXIST y Friends(x,y)
"""


def random_world(seed: int, num_people: int = 24) -> lapis.Database:
    draw = np.random.default_rng(seed)
    people = [f"P{number}" for number in range(num_people)]
    facts = [f"Age({p},G{draw.integers(3)})" for p in people]
    facts += [f"Smokes({p})" for p in people if draw.random() < 0.4]
    facts += [f"Cancer({p})" for p in people if draw.random() < 0.3]
    facts += [f"Friends({p},{q})" for p in people for q in people if draw.random() < 0.1]
    facts += [f"Likes({p},T{t})" for p in people for t in range(4) if draw.random() < 0.3]
    return lapis.Database.parse(" ".join(facts), f"world {seed}")


@pytest.mark.parametrize("name", STORES)
def test_the_weights_are_those_of_memory(name: str, request: pytest.FixtureRequest) -> None:
    model = lapis.parse(MODEL)
    worlds = [random_world(0), random_world(1, 17)]
    objectives = ["pseudo", "weighted-pseudo"]
    if name not in QUICK_STORES:  # hundreds of statements, and each is a Spark job
        del worlds[1], objectives[1]
    engine = store_url(name, request)
    for objective in objectives:
        here = lapis.learn(model, worlds, objective=objective)
        there = lapis.learn(model, worlds, objective=objective, engine=engine)
        np.testing.assert_array_equal(there.weights, here.weights)
        assert there.value == here.value


def test_the_facts_may_be_tables_of_a_file(run: Run, tmp_path: Path) -> None:
    model = "Smokes(person)\nFriends(person,person)\nSmokes(x)\n" \
            "Friends(x,y) ^ Smokes(x) => Smokes(y)\n"  # fmt: skip
    friends = [(p, (p * p + k) % 20) for p in range(20) for k in (1, 5)]
    smokes = [0, 3, 4, 8, 15]
    with duckdb.connect(str(tmp_path / "facts.duckdb")) as connection:
        connection.execute("CREATE TABLE Friends (a INTEGER, b INTEGER)")
        connection.executemany("INSERT INTO Friends VALUES (?, ?)", friends)
        connection.execute("CREATE TABLE Smokes (a INTEGER)")
        connection.executemany("INSERT INTO Smokes VALUES (?)", [(p,) for p in smokes])
    facts = [f"Smokes({p})" for p in smokes] + [f"Friends({p},{q})" for p, q in friends]
    here = lapis.learn(lapis.parse(model), lapis.Database.parse(" ".join(facts)))
    place = {"engine": f"duckdb:{tmp_path / 'facts.duckdb'}", "tables": "main"}
    there = lapis.learn(lapis.parse(model), **place)
    np.testing.assert_array_equal(there.weights, here.weights)
    (tmp_path / "m.mln").write_text(model)
    words = ["learn", str(tmp_path / "m.mln"), "--engine", place["engine"], "--tables", "main"]
    _, out, _ = run(*words, "--json")
    found = json.loads(out)
    assert [row["weight"] for row in found["weights"]] == here.weights.tolist()
    declared = lapis.parse("Smokes(person)\nFriends(person,person)")
    rules = lapis.learn_structure(declared, max_literals=2, **place).rules
    expected = lapis.learn_structure(
        declared, lapis.Database.parse(" ".join(facts)), max_literals=2, jobs=1
    ).rules
    assert [(r.text, r.weight) for r in rules] == [(r.text, r.weight) for r in expected]


def test_of_a_query_and_of_listed_atoms() -> None:
    model = lapis.parse("Smokes(person)\nFriends(person,person)\nSmokes(x)\n"
                        "Friends(x,y) ^ Smokes(x) => Smokes(y)")  # fmt: skip
    facts = "Friends(A,B) Friends(B,C) Friends(C,D) Friends(D,A) Smokes(A) Smokes(B) !Smokes(C)"
    data = lapis.Database.parse(facts)
    for listed in (False, True):
        here, there = (
            lapis.learn(
                model, data, "Smokes", objective="pseudo", only_listed=listed, engine=engine
            ).weights
            for engine in (None, "duckdb")
        )
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"objective": "likelihood"},
            "an engine counts classes of atoms, and objective 'likelihood' needs inference",
        ),
        ({"counts": "ijgp"}, "an engine counts exactly"),
        (
            {"unobserved": ["Cancer"]},
            "learning on an engine needs complete data; some atoms are unknown",
        ),
        ({"engine": "oracle:prod"}, "unknown engine 'oracle:prod'"),
    ],
)
def test_what_an_engine_does_not_do(options: dict[str, object], message: str) -> None:
    model = lapis.parse("Smokes(person)\nCancer(person)\nSmokes(x) => Cancer(x)")
    data = lapis.Database.parse("Smokes(A) Cancer(A) Smokes(B)")
    with pytest.raises(LapisError) as caught:
        lapis.learn(model, data, **{"engine": "duckdb", **options})  # type: ignore[arg-type]
    assert caught.value.message == message


def test_what_is_many_is_not_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lapis.parse("Friends(person,person)\n1 Friends(x,y)")
    data = lapis.Database.parse("Friends(A,B) Friends(B,C)")
    monkeypatch.setattr(lazy_database, "MAX_FETCHED", 1)
    [example] = build_examples(model, [data])
    with open_store("duckdb") as store:
        placed = place_problem(example.complete, store)
        with pytest.raises(TooLarge, match="this needs the 2 facts of 'Friends' in memory"):
            placed.evidence["Friends"].true  # noqa: B018
        with pytest.raises(TooLarge, match="the 3 constants of type 'person'"):
            placed.domains["person"].constants  # noqa: B018
        assert placed.domains["person"].index.get("B") is not None
        assert placed.domains["person"].index.get("Z") is None
