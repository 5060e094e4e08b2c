"""Checkpoints are restored unchanged; other files are rejected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lapis
from lapis.data.archives import read_arrays, write_arrays
from lapis.errors import LapisError, LapisWarning
from lapis.optimisation.checkpoint import (
    Checkpoint,
    CheckpointFile,
    join_sections,
    pack_state,
    read_checkpoint,
    unpack_state,
    write_archive,
    write_checkpoint,
)

FIELDS = {"weights": np.array([1.5, -0.0]), "damping": 0.1, "iteration": 7, "point": object()}
CURVE = np.array([[0, 0, np.nan, 1, 0]])
SAVED = Checkpoint(
    "pscg", "rules and data", 2.5, join_sections(state=pack_state(FIELDS)) | {"curve": CURVE}
)


def test_numbers_and_arrays_come_back_bitwise(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_checkpoint(path, SAVED)
    found = read_checkpoint(path, "pscg", "rules and data")
    assert found is not None
    fields = unpack_state(found.section("state"))
    assert set(fields) == {"weights", "damping", "iteration"}
    assert fields["weights"].tobytes() == FIELDS["weights"].tobytes()
    assert fields["damping"] == 0.1
    assert type(fields["iteration"]) is int
    assert found.arrays["curve"].tobytes() == CURVE.tobytes()
    assert found.seconds == 2.5
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_no_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "none", "pscg", "") is None


@pytest.mark.parametrize(
    ("optimizer", "fingerprint", "size", "words"),
    [
        ("cd", "rules and data", 2, "of the method pscg, not cd"),
        ("pscg", "other rules", 2, "of other rules, data or options"),
        ("pscg", "rules and data", 3, "of other rules, data or options"),
    ],
    ids=["optimizer", "problem", "size"],
)
def test_a_foreign_checkpoint_is_refused(
    tmp_path: Path, optimizer: str, fingerprint: str, size: int, words: str
) -> None:
    path = tmp_path / "run"
    write_checkpoint(path, SAVED)
    with pytest.raises(LapisError, match=words) as caught:
        CheckpointFile(path, optimizer, fingerprint).read(size)
    assert caught.value.code == "foreign-checkpoint"


def test_a_checkpoint_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(lapis, "__version__", "0.0.1")
        write_checkpoint(path, SAVED)
    with pytest.raises(LapisError, match=r"a checkpoint of lapis 0\.0\.1; this is lapis") as caught:
        read_checkpoint(path, "pscg", "rules and data")
    assert caught.value.code == "foreign-checkpoint"
    write_archive(path, {"format": "lapis checkpoint 2"}, {})
    with pytest.raises(LapisError, match="a checkpoint of another version of lapis") as caught:
        read_checkpoint(path, "pscg", "rules and data")
    assert caught.value.code == "foreign-checkpoint"


def test_damaged_files_are_refused_at_every_length(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write_checkpoint(whole, SAVED)
    content = whole.read_bytes()
    path = tmp_path / "damaged"
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        with pytest.raises(LapisError) as caught:
            read_checkpoint(path, "pscg", "rules and data")
        assert caught.value.code == "damaged-checkpoint"


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for content in (b"Smokes(Ann)\n", b"", b"\x93NUMPY"):
        path.write_bytes(content)
        with pytest.raises(LapisError) as caught:
            read_checkpoint(path, "pscg", "")
        assert caught.value.code == "damaged-checkpoint"
    with path.open("wb") as file:
        np.savez(file, weights=np.ones(2))
    with pytest.raises(LapisError):
        read_checkpoint(path, "pscg", "")
    with path.open("wb") as file:
        np.save(file, np.ones(2))
    with pytest.raises(LapisError):
        read_checkpoint(path, "pscg", "")


def test_a_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    write_checkpoint(path, SAVED)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lapis.optimisation.checkpoint.write_arrays", fail)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, SAVED)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_checkpoint_that_cannot_be_written_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run continues, and writes no more checkpoints."""
    file = CheckpointFile(tmp_path / "run", "pscg", "rules and data")
    tried = []

    def full(*_: object, **__: object) -> None:
        tried.append(1)
        raise OSError(28, "No space left on device")

    file.schedule_arrays(2.5, SAVED.arrays)
    monkeypatch.setattr("lapis.optimisation.checkpoint.write_arrays", full)
    with pytest.warns(LapisWarning, match="run: cannot be written: No space .* continues without"):
        file.write()
    file.write()
    file.schedule_arrays(3.5, SAVED.arrays)
    file.write()
    assert tried == [1]
    assert [*tmp_path.iterdir()] == []


def test_learning_outlives_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lapis.optimisation.checkpoint.write_arrays", full)
    monkeypatch.setattr("lapis.optimisation.checkpoint.CHECKPOINT_SECONDS", -1)
    model = lapis.parse("t = {A, B, C}\nP(t)\nQ(t)\nP(x) => Q(x)")
    data = lapis.Database.parse("P(A) P(B) Q(A)")
    with pytest.warns(LapisWarning) as caught:
        fit = lapis.learn(model, data, checkpoint=tmp_path / "c.npz")
    assert len(caught) == 1
    assert fit.converged
    with pytest.warns(LapisWarning, match=r"s\.npz: cannot be written") as caught:
        found = lapis.learn_structure(
            lapis.parse("t = {A, B, C}\nP(t)\nQ(t)"), data, checkpoint=tmp_path / "s.npz"
        )
    assert len(caught) == 1
    assert len(found.rules) >= 2


def test_an_archive_whose_arrays_were_exchanged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_checkpoint(path, SAVED)
    arrays = read_arrays(path)
    write_arrays(path, {**arrays, "curve": CURVE + 1})
    with pytest.raises(LapisError) as caught:
        read_checkpoint(path, "pscg", "rules and data")
    assert caught.value.code == "damaged-checkpoint"
