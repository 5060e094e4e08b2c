"""The notebooks of `examples/` are kept without outputs, and every cell runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lapis

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
DRAWN = ("classify", "link", "resolve")  # end with pictures of an explanation
SOURCE = Path(lapis.__file__).parents[1]
RUN = """
import importlib.util, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("gallery", sys.argv[1])
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)
done = gallery.run_notebook(Path(sys.argv[2]))
gallery.write_page(done, "page", Path(sys.argv[3]))
"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["cells"][0]["source"][0].startswith("# ")
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_becomes_a_page(path: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES, tmp_path / "examples")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(tmp_path / "ipython")}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "docs" / "gallery.py"), str(folder / path.name),
         str(tmp_path)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "```python" in page
    assert "![" in page or path.stem not in DRAWN
