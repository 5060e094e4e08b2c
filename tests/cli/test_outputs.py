"""Outputs of commands are checked before the work; results are not lost if writing fails."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from cli_run import Run
from lapis.cli.command_line import COMMANDS
from lapis.registry.option_field import options_of

INPUTS = {  # options that are paths to read, and caches
    "cache", "posterior", "valid", "rows", "evidence_rows", "labels", "test", "fit", "folder",
}  # fmt: skip
OUTPUTS = [
    (name, option.flag)
    for name, command in COMMANDS.items()
    for option in options_of(command.options)
    if option.is_output
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "saved"))
    run = Run(tmp_path, capsys)
    run.write("rows.csv", "a,b\n" + "0,1\n1,1\n0,0\n" * 4)
    run.write("f.rrf", "Smokes(person)\nroot:\n  0.3    Smokes(x)\n")
    run.write("s.db", "Smokes(Anna)\n!Smokes(Bob)\n")
    return run


def test_all_paths_are_inputs_or_outputs() -> None:
    for command in COMMANDS.values():
        for option in options_of(command.options):
            if option.kind == "path" and not option.is_output:
                assert option.name in INPUTS, (command.name, option.name)
    assert ("learn", "--output") in OUTPUTS
    assert len(OUTPUTS) >= 20


@pytest.mark.parametrize(("name", "flag"), OUTPUTS)
def test_outputs_are_checked_before_files_are_read(name: str, flag: str, run: Run) -> None:
    """The model does not exist either: nothing was read before."""
    code, out, err = run(*name.split(), "no-model.mln", *needed(name), flag, "nowhere/x.parquet")
    assert (code, out) == (1, "")
    assert err == "error: nowhere/x.parquet: cannot be written: no folder nowhere\n"


def needed(name: str) -> list[str]:
    """Return further arguments that a command requires."""
    places = [argument for argument in COMMANDS[name].arguments[1:] if argument.is_required]
    return ["no-file.csv" for _ in places]


LATE = [
    (["learn", "m.mln", "d.db", "-o", "/dev/full"], "weight"),
    (["structure", "m.mln", "d.db", "-o", "/dev/full"], "weight"),
    (["field", "from", "m.mln", "-o", "/dev/full"], "root:"),
    (["field", "extract", "f.rrf", "-o", "/dev/full"], "Smokes(x)"),
    (["field", "learn", "f.rrf", "s.db", "-o", "/dev/full"], "weight"),
    (["circuit", "score", "c.npz", "rows.csv", "--per-example", "/dev/full"], "log likelihood"),
    (["circuit", "sample", "c.npz", "-n", "2", "-o", "/dev/full"], "a,b"),
]


@pytest.mark.parametrize(("arguments", "shown"), LATE, ids=[" ".join(a[:2]) for a, _ in LATE])
def test_a_result_is_shown_and_saved_if_it_cannot_be_written(
    arguments: list[str], shown: str, run: Run
) -> None:
    run("circuit", "learn", "rows.csv", "-o", "c.npz")
    code, out, err = run(*arguments)
    assert code == 1
    assert shown in out
    assert "error: /dev/full: cannot be written: No space left on device" in err
    (saved,) = run.folder.glob("saved/lapis-*/full")
    assert f"    saved as {saved}\n" in err
    assert saved.stat().st_size > 0


def test_the_json_of_a_result_that_cannot_be_written(run: Run) -> None:
    code, out, err = run("learn", "m.mln", "d.db", "-o", "/dev/full", "--json")
    assert (code, len(json.loads(out)["weights"])) == (1, 2)
    assert "cannot be written" in err


def test_a_model_may_go_to_a_device(run: Run) -> None:
    code, out, _ = run("learn", "m.mln", "d.db", "-o", "/dev/null")
    assert (code, "Smokes(x) => Cancer(x)" in out) == (0, True)
