"""Inference in tasks of Spark: the answers equal those of other engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_cases import CIRCLES, circles, infer_there, map_there, same_answers

import lapis
from golden_models import golden_models
from lapis.errors import LapisError
from lapis.stores.components.packing import StoreLimits
from lapis.stores.spark import SparkStore

pytestmark = pytest.mark.spark

MASTER = "local[2]"
GOLDEN = [
    golden
    for golden in golden_models()
    if golden.applies_to("enumerate") and golden.query and not golden.impossible
]


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Open one Spark for all tests here: a store works in a new session beside the active one."""
    store = SparkStore(MASTER)
    yield
    store.close()


def test_samples_are_those_of_other_engines(session: None) -> None:
    data = circles([12, 15, 16, 20])
    limits = StoreLimits(parcel_literals=150, few_edges=20, jobs=1)
    asked = {"method": "gibbs", "max_samples": 400, "seed": 3}
    there = infer_there(MASTER, CIRCLES, data, ["Smokes"], limits, **asked)
    assert not there.exact
    same_answers(there, infer_there("duckdb", CIRCLES, data, ["Smokes"], limits, **asked))


def test_answers_in_a_folder_are_written_by_tasks(
    session: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet

    from lapis.stores.components import component_answers

    monkeypatch.delattr(component_answers, "write_parquet")  # which fetches rows into this process
    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([3]))
    folder = tmp_path / "world"
    told = lapis.map_to_store(model, data, "Smokes", engine=MASTER, output=f"file://{folder}")
    assert pyarrow.parquet.read_table(folder).num_rows == told.num_atoms == 3
    with pytest.raises(LapisError, match="cannot be written: it exists"):
        lapis.map_to_store(model, data, "Smokes", engine=MASTER, output=f"file://{folder}")
    with pytest.raises(LapisError, match="cannot be written: no folder"):
        lapis.map_to_store(
            model, data, "Smokes", engine=MASTER, output=f"file://{tmp_path}/no/world"
        )
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("golden", GOLDEN[::6], ids=lambda golden: golden.name)
def test_golden_models_are_answered_alike(session: None, golden) -> None:  # type: ignore[no-untyped-def]
    question = golden.text, golden.data, golden.query
    same_answers(infer_there(MASTER, *question), infer_there("duckdb", *question))
    assert map_there(MASTER, *question).score == map_there("duckdb", *question).score
