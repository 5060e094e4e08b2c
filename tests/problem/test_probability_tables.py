"""A table P.probability is soft evidence: like `soft_evidence`, but a column."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

import lapis

MODEL = lapis.parse(
    """page = {A, B, C}
topic = {X, Y}
Class(page, topic)
Link(page, page)
1 Link(p, q) ^ Class(p, t) => Class(q, t)
0.3 Class(p, +t)
"""
)
FACTS = "Link(A,B) Link(B,C)"
TABLE = pandas.DataFrame(
    {"page": ["A", "A", "B", "C"], "topic": ["X", "Y", "X", "Y"], "p": [0.9, 0.2, 0.5, 1.0]}
)
LINKS = pandas.DataFrame({"from": ["A", "B"], "to": ["B", "C"]})
STATED = {"Class(A,X)": 0.9, "Class(A,Y)": 0.2, "Class(B,X)": 0.5, "Class(C,Y)": 1.0}


def with_table(table: pandas.DataFrame) -> lapis.Database:
    return lapis.Database.from_frames({"Class.probability": table, "Link": LINKS})


def test_a_table_is_soft_evidence() -> None:
    stated = lapis.infer(MODEL, lapis.Database.parse(FACTS), query="Class", soft_evidence=STATED)
    found = lapis.infer(MODEL, with_table(TABLE), query="Class")
    assert found.log_partition == pytest.approx(stated.log_partition, rel=1e-14)
    for atom, probability in found.marginals.items():
        assert probability == pytest.approx(stated.marginals[atom], rel=1e-12)
    # A probability of 1 is a fact.
    assert set(stated.marginals) - set(found.marginals) == {"Class(C,Y)"}


def test_atoms_of_the_table_are_unknown_without_a_query() -> None:
    found = lapis.infer(MODEL, with_table(TABLE))
    assert set(found.marginals) == {"Class(A,X)", "Class(A,Y)", "Class(B,X)"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files(suffix: str, tmp_path: Path) -> None:
    for name, frame in {"Class.probability": TABLE, "Link": LINKS}.items():
        path = tmp_path / f"{name}.{suffix}"
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    found = lapis.infer(MODEL, tmp_path, query="Class")
    expected = lapis.infer(MODEL, with_table(TABLE), query="Class")
    assert found.log_partition == pytest.approx(expected.log_partition, rel=1e-15)


def test_an_engine_has_the_same_answer() -> None:
    here = lapis.infer(MODEL, with_table(TABLE), query="Class")
    there = lapis.infer(MODEL, with_table(TABLE), query="Class", engine="duckdb")
    assert there.log_partition == pytest.approx(here.log_partition, rel=1e-12)


def test_refusals() -> None:
    def refused(pattern: str, data: lapis.Database, **more: object) -> None:
        with pytest.raises(lapis.LapisError, match=pattern):
            lapis.infer(MODEL, data, query="Class", **more)  # type: ignore[arg-type]

    refused(r"the probability of Class\(B,X\) is 1.5", with_table(TABLE.assign(p=[0.1, 0, 1.5, 1])))
    refused("not fitted", with_table(TABLE), soft_as="posterior")
    known = lapis.Database.from_frames(
        {"Class.probability": TABLE, "Class": TABLE[["page", "topic"]][:1]}
    )
    refused(r"soft evidence for Class\(A,X\) has no effect", known)
    unknown = lapis.Database.from_frames({"Klass.probability": TABLE})
    refused("unknown predicate 'Klass' in the table Klass.probability", unknown)
    with pytest.raises(lapis.LapisError, match="used by infer, map and plan only"):
        lapis.learn(MODEL, with_table(TABLE))
