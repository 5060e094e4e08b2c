"""What `lapis evaluate` and `lapis score` print."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import lapis
from lapis.cli.commands import evaluate
from lapis.cli.render import present, show
from lapis.data.database import Database
from lapis.evaluation.cross_validation import CrossValidation, FoldResult
from lapis.evaluation.score import score_worlds
from lapis.registry.options import EvaluateOptions

MODEL = "Person(p)\nSmokes(p)\nCancer(p)\nSmokes(x)\nSmokes(x) => Cancer(x)\n"
FACTS = [
    "Person(A) Person(B) Person(C) Smokes(A) Cancer(A)",
    "Person(A) Person(B) Smokes(B)",
    "Person(A) Person(B) Person(C) Person(D) Smokes(A) Smokes(D) Cancer(D)",
]


def run_evaluate(
    model: Path, worlds: list[Database], query: list[str], **given: Any
) -> CrossValidation:
    found = evaluate(model, worlds, EvaluateOptions(query=query, **given), None)
    assert isinstance(found, CrossValidation)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.mln"
    path.write_text(MODEL, encoding="utf-8")
    return path


WORLDS = [Database.parse(text, f"town {i}") for i, text in enumerate(FACTS)]


@pytest.mark.parametrize(("generative", "objective"), [(False, "conditional"), (True, "pseudo")])
def test_learned_and_tested_for_real(
    generative: bool, objective: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a prior, the weight of a unit formula is the log-odds in the training data."""
    model.write_text("Person(p)\nSmokes(p)\nCancer(p)\nSmokes(x)\n", encoding="utf-8")
    evaluated = run_evaluate(
        model, WORLDS, ["Smokes"], leave_one_out=True, prior="none", generative=generative, jobs=1
    )
    present(evaluated, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [fold["test"] for fold in found["folds"]] == [["town 0"], ["town 1"], ["town 2"]]
    assert {fold["learning"]["objective"] for fold in found["folds"]} == {objective}
    shares = [(3, 1), (2, 1), (4, 2)]
    for number, fold in enumerate(found["folds"]):
        others = [share for i, share in enumerate(shares) if i != number]
        chance = sum(s for _, s in others) / sum(p for p, _ in others)
        people, smokers = shares[number]
        expected = smokers * math.log(chance) + (people - smokers) * math.log(1 - chance)
        assert fold["cll"] == pytest.approx(expected / people, abs=1e-6)
    assert found["mean"]["cll"] == pytest.approx(sum(fold["cll"] for fold in found["folds"]) / 3)


def test_the_table(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "curves.png"
    show(run_evaluate(model, WORLDS, ["Smokes,Cancer"], folds=3, jobs=1, plot=picture))
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == [
        "fold", "tested", "on", "atoms", "true", "CLL", "AUC-PR", "(trapezoid)", "AUC-ROC", "Brier",
        "seconds",
    ]  # fmt: skip
    assert [line[:5] for line in lines[2:5]] == [
        ["1", "town", "0", "6", "2"],
        ["2", "town", "1", "4", "1"],
        ["3", "town", "2", "8", "3"],
    ]
    assert [line[0] for line in lines[5:8]] == ["mean", "sd", "pooled"]
    assert lines[7][:3] == ["pooled", "18", "6"]
    assert "learned by conditional, lbfgs" in out
    assert "predictions exact" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_is_refused_before_the_work(model: Path, tmp_path: Path) -> None:
    with pytest.raises(lapis.LapisError, match="suffix"):
        run_evaluate(model, [], ["Smokes"], plot=tmp_path / "curves")


def test_whole_predicates_are_asked(model: Path) -> None:
    with pytest.raises(lapis.LapisError, match="expected predicate names"):
        run_evaluate(model, WORLDS, ["Smokes(A)"])


def test_concerns_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = lapis.parse(MODEL)
    score = score_worlds(parsed, [Database.parse("Smokes(A) ?Smokes(B)", "x")], ["Smokes"])
    fold = FoldResult(1, ("y",), ("x",), score, {"converged": False, "reason": "time limit"}, {})
    show(CrossValidation(("Smokes",), (fold,), 2, True))
    said = capsys.readouterr().err
    assert "stopped early: 1 of 2 folds are finished" in said
    assert "fold 1: learning has not converged (time limit)" in said
    assert "fold 1: no pseudo-log-likelihood" in said


def test_scores_are_shown_for_each_predicate(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = lapis.parse("Smokes(p)\nCancer(p)\n0 Smokes(x)\n")
    data = Database.parse("Smokes(A) Cancer(A) Smokes(B)")
    show(score_worlds(parsed, [data], ["Smokes", "Cancer"]))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    half = f"{math.log(0.5):.4f}"
    pseudo = f"{2 * math.log(0.5):.4f}"
    assert ["Smokes", "2", "2", half, "1.0000", "1.0000", "–", "0.2500", pseudo] in lines
    assert any(line[-4:] == ["predictions", "exact", "(by", "enumerate)"] for line in lines)
    show(score_worlds(parsed, [data]))
    assert "predictions" not in capsys.readouterr().out
