"""Files appear whole or not at all; links, devices and modes stay; failures are found early."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from lapis.data.archives import DamagedFile, read_arrays, read_single_array, write_arrays
from lapis.data.atomic_write import replace_path, require_writable, save_path, write_whole
from lapis.errors import LapisError


def fail(place: Path) -> None:
    place.write_text("a part")
    raise OSError(28, "No space left on device")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_whole(path, "old")
    with pytest.raises(LapisError, match=r"f: cannot be written: No space left on device$"):
        replace_path(path, fail)
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_result_that_cannot_be_written_is_saved_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "saved"))
    with pytest.raises(LapisError) as raised:
        write_whole(tmp_path / "none" / "f.txt", "the result")
    (saved,) = (tmp_path / "saved").rglob("f.txt")
    assert raised.value.hint == f"saved as {saved}"
    assert saved.read_text() == "the result"
    with pytest.raises(LapisError) as raised:
        save_path(tmp_path / "g", fail)
    assert raised.value.hint is None  # there is no place for it
    assert [*tmp_path.rglob("g")] == []


def test_the_target_of_a_link_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "folder" / "link"
    link.parent.mkdir()
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to("../real")
    require_writable(link)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600
    assert not real.is_symlink()


def test_a_link_to_nothing_creates_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    require_writable(tmp_path / "link")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "later").read_text() == "new"
    (tmp_path / "lost").symlink_to("nowhere/later")
    with pytest.raises(LapisError, match=f"lost: cannot be written: no folder {tmp_path}/nowhere"):
        require_writable(tmp_path / "lost")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LapisError, match="loop: cannot be written: it is a link"):
        require_writable(tmp_path / "loop")


def test_a_fifo_is_written_to(tmp_path: Path) -> None:
    path, found = tmp_path / "fifo", list[str]()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: found.append(path.read_text()))
    require_writable(path)  # does not open it: a reader would see its end
    reader.start()
    write_whole(path, "new")
    reader.join()
    assert found == ["new"]
    assert path.is_fifo()


def test_devices_stay_devices() -> None:
    require_writable(Path("/dev/null"))
    write_whole("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(LapisError, match="/dev/full: cannot be written: No space left"):
        replace_path(Path("/dev/full"), lambda place: place.write_text("too much"))


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_in_order(tmp_path: Path, name: str) -> None:
    """A file that the shell opened for the output is not replaced either."""
    program = (
        "from lapis.data.atomic_write import *; print('first'); "
        f"require_writable(Path({name!r})); write_whole({name!r}, 'second\\n'); print('third')"
    )
    with (tmp_path / "out").open("w") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True, timeout=60)
    assert (tmp_path / "out").read_text() == "first\nsecond\nthird\n"


def test_places_that_cannot_be_written_are_found_early(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path, "it is a folder"),
        (tmp_path / "none" / "f", f"no folder {tmp_path}/none"),
        (tmp_path / "file" / "f", f"no folder {tmp_path}/file"),
        (tmp_path / ("f" * 300), "File name too long"),
        (Path("/proc/f"), "No such file or directory"),
    ):
        with pytest.raises(LapisError) as raised:
            require_writable(path)
        assert str(raised.value) == f"{path}: cannot be written: {reason}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # no trace of a trial


def test_a_full_or_protected_place_is_found_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(LapisError, match="f: cannot be written: the file is write-protected"):
            require_writable(path)

    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", full)
        with pytest.raises(LapisError, match="f: cannot be written: No space left on device"):
            require_writable(path)
    require_writable(path)
    assert path.read_text() == "old"


def test_archives_come_back(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3), "b": np.array("text é"), "c": np.empty((0, 2)),
        "d": np.asfortranarray(np.eye(3)), "e": np.array(["x", ""]),
    }  # fmt: skip
    for compressed in (False, True):
        write_arrays(tmp_path / "f.npz", arrays, compressed)
        found = read_arrays(tmp_path / "f.npz")
        assert [*found] == [*arrays]
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
        with np.load(tmp_path / "f.npz") as loaded:
            np.testing.assert_array_equal(loaded["a"], arrays["a"])


@pytest.mark.parametrize("shape", [(10**12,), (2**32, 2**32), (-1,), (5,), (7,)])
def test_an_array_must_have_the_declared_size(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        head = {"descr": "<i8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)
        file.write(bytes(8 * 6))
    with pytest.raises(DamagedFile):
        read_single_array(path)
