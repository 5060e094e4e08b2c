"""The experiments of the papers: their smallest cells on small data, their records, their page."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import pytest
from benchmarks import protocol
from benchmarks.papers import cells, page
from benchmarks.papers.cells import (
    Cell,
    Experiment,
    Outcome,
    Record,
    Results,
    Section,
    read_results,
)
from benchmarks.papers.folds import Split, choose_setting, split_of
from benchmarks.papers.pictures import Curve, Panel, draw_panels

from papers.small_data import write_data

EXPERIMENTS = page.MODULES


def find_experiment(name: str) -> Experiment:
    [found] = [each for each in page.list_experiments() if each.name == name]
    return found


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small data sets in the layout of the real ones."""
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_smallest_cell(name: str, small_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "DATA", small_data)
    cell = find_experiment(name).smallest
    found = cell.work(**cell.arguments)
    assert found.status in (cells.DONE, cells.STOPPED)
    numbers = [value for value in found.figures.values() if isinstance(value, float)]
    assert numbers
    assert all(math.isfinite(value) for value in numbers)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_section_without_records(name: str) -> None:
    """A section can be written before any cell was run."""
    assert "not run" in page.make_section(find_experiment(name), Results({})).text


def test_page_is_current() -> None:
    sections = [(each, page.make_section(each)) for each in page.list_experiments()]
    assert page.PAGE.read_text("utf-8") == page.write_text(sections)


def test_pictures_exist() -> None:
    text = page.PAGE.read_text("utf-8")
    for part in text.split("](papers/")[1:]:
        assert (page.PICTURES / part.partition(")")[0]).exists()


def add(left: int, right: int) -> Outcome:
    return Outcome({"sum": float(left + right)})


def fail() -> Outcome:
    raise RuntimeError("of the test")


def fill_memory() -> Outcome:
    return Outcome({"size": float(len(bytearray(10**10)))})


def spin() -> Outcome:
    while True:
        pass


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        (Cell("a", add, {"left": 1, "right": 2}), cells.DONE),
        (Cell("a", fail, {}), cells.FAILED),
        (Cell("a", fill_memory, {}, memory=4.0), cells.OUT_OF_MEMORY),
        (Cell("a", spin, {}, seconds=3.0), cells.OUT_OF_TIME),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_run_cell(cell: Cell, status: str) -> None:
    record = cells.run_cell(cell)
    assert record.status == status
    assert record.versions["python"]


def test_records_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    cells.keep("table", "b", Record(cells.DONE, {"x": 1.25, "y": math.nan}))
    cells.keep("table", "a", Record(cells.REFUSED, reason="too large"))
    found = read_results("table")
    assert list(found.records) == ["a", "b"]
    assert found["b"].figure("x") == 1.25
    assert math.isnan(found["b"].figure("y"))
    assert found["a"].reason == "too large"
    assert math.isnan(found["a"].figure("x"))
    assert found["c"] is cells.MISSING


def test_run_keeps_every_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is run once, and the ones that have a record are left out."""
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # of the queue for cores
    own = [Cell(f"{number}", add, {"left": number, "right": 1}) for number in range(3)]
    experiment = Experiment(
        "sums", "Sums", "notes", lambda: own, lambda _: Section("", ""), smallest=own[0]
    )
    cells.keep("sums", "1", Record(cells.REFUSED))
    cells.run(experiment, ["--processes", "2"])
    found = read_results("sums")
    assert [found[each.key].figure("sum") for each in (own[0], own[2])] == [1.0, 3.0]
    assert found["1"].status == cells.REFUSED


def test_choose_setting() -> None:
    split = split_of("imdb", "fold2")
    assert split.train == ("fold1", "fold3", "fold4", "fold5")
    assert [inner.test for inner in split.inner(2)] == ["fold1", "fold3"]

    def score(width: float, inner: Split) -> float:
        assert "fold2" not in (inner.test, *inner.train)
        return math.nan if width == 3 and inner.test == "fold4" else -abs(width - 2.2)

    assert choose_setting([1, 2, 3], split.inner(), score).setting == 2


def test_draw_panels(tmp_path: Path) -> None:
    curves = {"one": Curve([1, 10], [0.5, 0.7], [0.1, 0.1]), "other": Curve([1], [0.2])}
    panels = [Panel(title, "seconds", "CLL", curves, log_x=True) for title in ("a", "b", "c")]
    draw_panels(panels, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5000
