"""Rows of evidence of a network are answered as one question each."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import lapis
from lapis.circuits.factor_graph import graph_of_tables
from lapis.circuits.network_models import network_model
from lapis.inference import evidence_rows
from lapis.language.model import Model

RAIN = """
variable rain { type discrete [ 2 ] { yes, no }; }
variable grass { type discrete [ 3 ] { dry, wet, "very wet" }; }
probability ( rain ) { table 0.2, 0.8; }
probability ( grass | rain ) { (yes) 0.0, 0.6, 0.4; (no) 0.7, 0.3, 0.0; }
"""


@pytest.fixture
def rain(tmp_path: Path) -> Model:
    (tmp_path / "rain.bif").write_text(RAIN)
    return lapis.read(tmp_path / "rain.bif")


def random_model(rng: np.random.Generator) -> Model:
    sizes = rng.integers(2, 4, rng.integers(2, 7)).tolist()
    tables = []
    for v in range(len(sizes)):
        parents = rng.permutation(v)[: rng.integers(0, 3)].tolist()
        value = rng.random([*(sizes[u] for u in parents), sizes[v]])
        if rng.random() < 0.7:
            value /= value.sum(axis=-1, keepdims=True)
        tables.append(([*parents, v], np.log(value)))
    states = [[str(s) for s in range(size)] for size in sizes]
    return network_model(graph_of_tables([f"v{v}" for v in range(len(sizes))], states, tables))


@given(
    seed=st.integers(0, 2**32 - 1),
    same=st.booleans(),
    planning=st.sampled_from([0.0, 1.0]),
    piece=st.sampled_from([1, 1 << 20]),
)
def test_rows_are_answered_as_alone(seed: int, same: bool, planning: float, piece: int) -> None:
    """By a tree for each set of observed variables (planning costs 0), or one for all."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    names = list(model.predicates)
    observed = rng.random(len(names)) < 0.5
    rows = []
    for _ in range(int(rng.integers(1, 6))):
        if not same:
            observed = rng.random(len(names)) < 0.5
        chosen = [name for name, seen in zip(names, observed, strict=True) if seen]
        rows.append({name: str(rng.choice(model.types[name])) for name in chosen})
    query = [name for name in names if rng.random() < 0.5] if rng.random() < 0.5 else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence_rows, "PLANNING", planning)
        patch.setattr(evidence_rows, "PIECE", piece)
        found = lapis.infer(model, query=query, evidence=rows)
    assert found.exact
    for number, row in enumerate(rows, 1):
        alone = lapis.infer(model, query=query, evidence=row, method="enumerate")
        assert [found[str(number), atom] for atom in alone.atoms] == pytest.approx(
            alone.probability.tolist(), abs=1e-12
        )
        assert found.diagnostics["worlds"][number - 1]["log_partition"] == pytest.approx(
            alone.log_partition, abs=1e-10
        )
    assert len(found) == sum(len(lapis.infer(model, query=query, evidence=row)) for row in rows)


def test_frames_and_arrays(rain: Model) -> None:
    frame = pd.DataFrame({"grass": ["wet", None, "dry"]})
    found = lapis.infer(rain, query="rain", evidence=frame)
    assert found["1", "rain=yes"] == pytest.approx(1 / 3)
    assert found["2", "rain=yes"] == pytest.approx(0.2)
    assert found["3", "rain=yes"] == 0.0
    texts = np.array([["", "wet"], ["yes", ""]], object)
    assert lapis.infer(rain, evidence=texts)["1", "rain=yes"] == pytest.approx(1 / 3)


def test_formulas_and_other_methods_answer_each_row(rain: Model) -> None:
    rows = [{"grass": "wet"}, {}]
    formula = lapis.infer(rain, query="rain=no ^ grass=wet", evidence=rows)
    assert formula.probability == pytest.approx([2 / 3, 0.24])
    named = lapis.infer(rain, query="rain", evidence=rows, method="enumerate")
    assert named.method == "enumerate"
    assert named["1", "rain=yes"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([{"grass": "soaked"}], "unknown state of grass 'soaked'"),
        ([{"snow": "yes"}], "unknown variable 'snow'"),
        (pd.DataFrame({"snow": ["yes"]}), "the model has no variable 'snow'"),
        (pd.DataFrame({"rain": ["maybe"]}), "row 1: rain has no state 'maybe'"),
        (pd.DataFrame({"rain": []}), "there is no row of evidence"),
        ([{"rain": "yes", "grass": "dry"}], "the evidence is impossible"),
    ],
)
def test_mistakes(rain: Model, evidence: object, message: str) -> None:
    with pytest.raises(lapis.LapisError, match=message):
        lapis.infer(rain, evidence=evidence)  # type: ignore[arg-type]


def test_rows_are_for_networks(rain: Model) -> None:
    model = lapis.parse("P(a)\n1 P(x)")
    with pytest.raises(lapis.LapisError, match="rows of evidence are for networks"):
        lapis.infer(model, lapis.Database.parse("?P(A)"), evidence=[{"P": "yes"}])
    with pytest.raises(lapis.LapisError, match="take the place of data"):
        lapis.infer(rain, lapis.Database.parse("rain(yes)"), evidence=[{"grass": "wet"}])
