"""Plots hold the curves they are said to hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import stand_in_learners as learners

import lapis
from lapis.data.database import Database, Domain
from lapis.evaluation.cross_validation import cross_validate
from lapis.evaluation.metrics import average_precision, roc_auc
from lapis.evaluation.predictions import Predictions
from lapis.evaluation.score_plots import plot_calibration, plot_precision_recall, plot_roc
from lapis.results.atom_groups import Atoms, predicate_group
from lapis.results.plots import check_picture


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    mpl.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def predictions(seed: int = 0, size: int = 40) -> Predictions:
    rng = np.random.default_rng(seed)
    probability = np.round(rng.random(size), 1)
    truth, zeros = rng.random(size) < probability, np.zeros(size)
    domain = Domain("t", tuple(f"C{i}" for i in range(size)))
    codes = np.arange(size, dtype=np.int32)[:, None]
    atoms = Atoms((predicate_group("P", codes, [domain], ["t"]),))
    with np.errstate(divide="ignore"):
        odds = np.log(probability) - np.log1p(-probability)
    return Predictions(("P",), zeros.astype(np.int64), probability, odds, truth, zeros, atoms)


def test_the_steps_drawn_enclose_the_average_precision() -> None:
    given = predictions()
    axes = plot_precision_recall(given)
    x, y = axes.lines[0].get_data()
    # A step drawn "pre" is as high as its right end.
    area = float(np.sum(np.diff(x) * y[1:]))
    assert area == pytest.approx(average_precision(given.probability, given.truth))
    assert f"{area:.3f}" in axes.get_legend().get_texts()[0].get_text()
    assert axes.lines[1].get_ydata()[0] == given.truth.mean()


def test_the_lines_drawn_enclose_the_area_under_roc() -> None:
    given = predictions()
    axes = plot_roc(given)
    x, y = axes.lines[0].get_data()
    assert ((x[0], y[0]), (x[-1], y[-1])) == ((0.0, 0.0), (1.0, 1.0))
    area = float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))
    assert area == pytest.approx(roc_auc(given.probability, given.truth))
    assert f"{area:.3f}" in axes.get_legend().get_texts()[0].get_text()


def test_calibration_shows_groups_and_their_sizes() -> None:
    given = predictions(size=400)
    axes = plot_calibration(given, num_bins=5)
    x, y = axes.containers[0].lines[0].get_data()
    assert len(x) == 5
    for index in range(5):
        low, high = index / 5, (index + 1) / 5
        own = (given.probability >= low) & ((given.probability < high) | (index == 4))
        assert (x[index], y[index]) == pytest.approx(
            (given.probability[own].mean(), given.truth[own].mean())
        )
    (sizes,) = [other for other in axes.figure.axes if other is not axes]
    assert sum(bar.get_height() for bar in sizes.patches) == 400


def test_series_are_drawn_on_given_axes_and_named() -> None:
    import matplotlib.pyplot as plt

    _, axes = plt.subplots()
    several = {"one": predictions(1), "two": predictions(2)}
    assert plot_precision_recall(several, axes) is axes
    names = [text.get_text().split()[0] for text in axes.get_legend().get_texts()]
    assert names == ["one", "two"]


def test_nothing_true_and_nothing_at_all_are_drawn_too(tmp_path: Path) -> None:
    given = predictions()
    for chosen in (~given.truth, np.zeros(len(given), bool)):
        part = given.take(chosen)
        plot_precision_recall(part, tmp_path / "a.png")
        plot_calibration(part, tmp_path / "b.png")
        plot_roc(part, tmp_path / "c.png")
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png", "c.png"}


def test_pictures_are_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "curve.png"
    plot_precision_recall(predictions(), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    plot_calibration(predictions(), str(tmp_path / "curve.svg"))
    assert "<svg" in (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert len(list(tmp_path.iterdir())) == 2


def test_cross_validation_is_plotted(tmp_path: Path) -> None:
    model = lapis.parse("Person(p)\nSmokes(p)\n0 Smokes(x)\n")
    worlds = [Database.parse(f"Person(A) Person(B) Smokes({who})", who) for who in "AB"]
    found = cross_validate(model, worlds, ["Smokes"], learn=learners.learn_share, jobs=1)
    figure = found.plot(tmp_path / "both.png")
    assert (tmp_path / "both.png").exists()
    for axes in figure.axes[:2]:
        named = [text.get_text().split()[0] for text in axes.get_legend().get_texts()]
        assert named == ["A", "B", "pooled"]
    found.plot()


@pytest.mark.parametrize(
    ("name", "message"), [("curve.xyz", "suffix"), ("curve", "suffix"), ("no/a.png", "no folder")]
)
def test_pictures_that_cannot_be_written_are_refused(
    name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(lapis.LapisError, match=message):
        check_picture(tmp_path / name)
    with pytest.raises(lapis.LapisError, match=message):
        plot_precision_recall(predictions(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", [None, "curve.png"])
def test_without_matplotlib_the_extra_is_named(
    to: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(lapis.LapisError, match=r"lapis-mln\[plot\]"):
        plot_precision_recall(predictions(), to)
