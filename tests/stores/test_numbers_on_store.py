"""Formulas with numbers have the same answers, counts and weights on an engine as in memory."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, settings

import lapis
import oracle
from strategies import Case, numbered_cases
from sweeping import parse_case

MODEL = lapis.parse(
    """record = {A, B, C, D}
float sim(record, record)
float age(record)
Old(record)
Same(record, record)
Kind(record, kind!)
kind = {K, L, M}
sim(x, y) * Same(x, y)
(Same(x, y))
log(age(x)) * (Old(x) => EXIST y Same(x, y))
age(x) > 40 ^ Old(x)
sim(x, y) * (Kind(x, +k) ^ Kind(y, k))
"""
)
NAMES = "ABCD"
SIM = pandas.DataFrame(
    [
        (x, y, round(0.1 + 0.37 * i - 0.29 * j, 2))
        for i, x in enumerate(NAMES)
        for j, y in enumerate(NAMES)
    ],
    columns=["one", "other", "sim"],
)
AGE = pandas.DataFrame({"record": list(NAMES), "age": [41.5, 17.0, 63.0, 40.0]})
FRAMES = {
    "sim": SIM,
    "age": AGE,
    "Old": pandas.DataFrame({"record": ["A", "C"]}),
    "Same": pandas.DataFrame({"one": ["A", "B", "D"], "other": ["B", "A", "D"]}),
    "Kind": pandas.DataFrame({"record": list(NAMES), "kind": list("KLKM")}),
}


@pytest.fixture(params=["duckdb", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "duckdb" if request.param == "duckdb" else str(request.getfixturevalue("postgres_url"))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=numbered_cases())
def test_random_models(url: str, case: Case) -> None:
    model, data = parse_case(case), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except oracle.NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.infer(model, data, case.query, engine=url)
        return
    answer = lapis.infer(model, data, case.query, engine=url)
    assert answer.log_partition == pytest.approx(expected.log_partition, abs=1e-9, rel=1e-12)
    for atom, probability in answer.marginals.items():
        assert probability == pytest.approx(expected.marginals[atom], abs=1e-9), atom
    world = lapis.map(model, data, case.query, engine=url)
    assert world.score == pytest.approx(expected.map_score, abs=1e-9, rel=1e-12)


def test_counts(url: str) -> None:
    data = lapis.Database.from_frames(FRAMES)
    here, there = (lapis.count(MODEL, data, engine=engine) for engine in (None, url))
    assert [row.true for row in there] == pytest.approx([row.true for row in here], rel=1e-14)
    assert [row.groundings for row in there] == [row.groundings for row in here]


def test_learned_weights(url: str) -> None:
    data = lapis.Database.from_frames(FRAMES)
    here, there = (lapis.learn(MODEL, data, engine=engine) for engine in (None, url))
    assert there.weights == pytest.approx(here.weights, abs=1e-8)
    assert there.standard_errors == pytest.approx(here.standard_errors, rel=1e-6)
    assert there.value == pytest.approx(here.value, rel=1e-12)


def test_tables_of_the_engine(tmp_path: Path) -> None:
    for name, frame in FRAMES.items():
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
    here = lapis.count(MODEL, lapis.Database.from_frames(FRAMES))
    there = lapis.count(MODEL, tables=str(tmp_path), engine="duckdb")
    assert [row.true for row in there] == pytest.approx([row.true for row in here], rel=1e-14)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pandas.concat([AGE, AGE[:1].assign(age=12.0)]), "is one of several values"),
        (AGE.astype({"age": str}).assign(age=["1", "2", "x", "3"]), '"x" is not a finite number'),
    ],
)
def test_wrong_values(wrong: pandas.DataFrame, message: str, tmp_path: Path) -> None:
    for name, frame in {**FRAMES, "age": wrong}.items():
        frame.to_parquet(tmp_path / f"{name}.parquet", index=False)
    with pytest.raises(lapis.LapisError, match=message):
        lapis.count(MODEL, tables=str(tmp_path), engine="duckdb")
