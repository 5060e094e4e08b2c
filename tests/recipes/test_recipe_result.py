"""The folder of a recipe: a model and facts that give the same answer again, and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas
import pytest

import lapis
from lapis.errors import LapisError
from lapis.recipes import RecipeResult
from lapis.results.result import Columns
from lapis.runtime.views import View

MODEL = lapis.parse("Near(rec, rec)\nSame(rec, rec)\n-1.0 Same(x, y)\n2.5 Near(x, y) ^ Same(x, y)")
DATA = lapis.Database.parse("Near(A, B) ?Same(A, B) ?Same(A, C)")


class PairScores(RecipeResult):
    """The smallest result of a recipe."""

    @property
    def query(self) -> str:
        return "Same"

    @property
    def only_listed(self) -> bool:
        return True

    @property
    def model(self) -> lapis.Model:
        return MODEL

    @property
    def data(self) -> lapis.Database:
        return DATA

    def columns(self) -> Columns:
        return {"left": ["A", "A"], "right": ["B", "C"], "probability": [0.8, None]}

    def frames(self) -> Mapping[str, Columns]:
        return {"pairs": self.columns()}

    def views(self) -> list[View]:
        return []

    def summary(self) -> str:
        return "two pairs"

    def document(self) -> dict[str, Any]:
        return {}


def test_the_folder_can_be_run_again(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    PairScores().save(folder)
    text = (folder / "model.mln").read_text()
    assert text.startswith(
        "// two pairs\n// To run it again: lapis infer model.mln data -q Same --only-listed\n"
    )
    again = lapis.infer(folder / "model.mln", folder / "data", "Same", only_listed=True)
    expected = lapis.infer(MODEL, DATA, "Same", only_listed=True)
    assert again.to_json()["atoms"] == expected.to_json()["atoms"]
    assert len(again.to_json()["atoms"]) == 2
    pairs = pandas.read_csv(folder / "pairs.csv")
    assert list(pairs.columns) == ["left", "right", "probability"]
    assert pairs["probability"].tolist()[0] == 0.8
    assert pairs["probability"].isna().tolist() == [False, True]


def test_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    with pytest.raises(LapisError) as caught:
        PairScores().save(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: cannot be written: it exists\n    name a new folder, or remove this one"
    )
    assert list(tmp_path.iterdir()) == []
