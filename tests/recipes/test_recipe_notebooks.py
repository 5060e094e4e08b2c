"""The notebooks of the recipes run, from CSV files to the picture of an explanation."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import lapis

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(lapis.__file__).parents[1]


@pytest.mark.parametrize("name", ["classify", "link"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    )
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not stored"
    NotebookClient(
        notebook, timeout=300, kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
    ).execute()  # fmt: skip
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in shown if "image/png" in output.get("data", {})]
    assert len(pictures) == 2  # scores, and an explanation
