"""`lapis doctor` and `lapis new`."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

from cli_run import Run
from lapis import installation


def test_the_report_names_versions_stores_and_kernels(run: Run) -> None:
    found = run.json("doctor")
    values = {(each["topic"], each["name"]): each["value"] for each in found["findings"]}
    assert values["version", "lapis"] == found["version"]
    assert values["package", "numpy"] == metadata.version("numpy")
    assert values["store", "duckdb"] == "reachable, a query runs"
    assert ("library", "kernels") in values
    code, out, _ = run("doctor")
    assert code == 0
    assert "numpy" in out
    assert "no problems" in out


def test_a_missing_package_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "requirements", lambda: [("no-such-thing", "")])
    code, out, err = run("doctor")
    assert code == 1
    assert "not installed  !" in out
    assert err == (
        "no-such-thing: pip install no-such-thing\n"
        "error: the installation has problems: no-such-thing\n"
    )


def test_an_engine_that_cannot_be_reached_is_a_problem(run: Run) -> None:
    code, out, err = run("doctor", "--engine", "duck")
    assert code == 1
    assert "not reachable" in out
    assert "duck: unknown engine 'duck'" in err


def test_an_extra_that_is_not_installed_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [("numpy", ""), ("no-such-thing", "plot"), ("numpy", "plot")]
    monkeypatch.setattr(installation, "requirements", lambda: listed)
    report = installation.examine()
    (extra,) = (each for each in report.findings if each.topic == "extra")
    assert extra.value == "not installed: no-such-thing (pip install 'lapis-mln[plot]')"
    assert not report.problems


def test_requirements_are_those_of_the_project() -> None:
    names = installation.requirements()
    assert ("numpy", "") in names
    assert ("matplotlib", "plot") in names


def test_a_new_project_is_whole_and_its_test_runs(run: Run) -> None:
    code, out, err = run("new", "mine")
    assert (code, err) == (0, "")
    folder = run.folder / "mine"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "README.md", "model.mln", "explore.ipynb", "test_model.py", "facts/Friends.csv",
        "facts/Smokes.csv",
    }  # fmt: skip
    assert out.splitlines()[-1] == ("next: cd mine && lapis infer model.mln facts -q Smokes,Cancer")
    assert run("infer", "mine/model.mln", "mine/facts", "-q", "Smokes,Cancer")[0] == 0
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_the_notebook_of_a_new_project_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("new", "mine")
    monkeypatch.chdir(run.folder / "mine")
    notebook = json.loads((run.folder / "mine" / "explore.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    assert {"model", "data", "answer"} <= set(names)


def test_a_folder_that_exists_is_refused(run: Run) -> None:
    run.write("mine", "my file")
    code, out, err = run("new", "mine")
    assert (code, out) == (1, "")
    assert err == "error: mine: exists already\n    name a folder that does not exist\n"
    assert run.codes == ["file-exists"]
    assert (run.folder / "mine").read_text(encoding="utf-8") == "my file"


def test_a_project_that_cannot_be_written_leaves_nothing(run: Run) -> None:
    code, _, err = run("new", "m.mln/mine")
    assert code == 1
    assert "m.mln/mine: cannot be written: Not a directory" in err
    assert sorted(path.name for path in run.folder.iterdir()) == ["d.db", "m.mln"]
