"""Runs the notebooks of `examples/` and writes each as a page with its outputs.

`run_notebook` is what the test of the notebooks calls too. A page is written again if its notebook
or the version of Lapis changed.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

import lapis

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 300  # of a cell
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def run_notebook(path: Path) -> Any:
    """Return a notebook with its outputs; raise if a cell fails.

    It runs in a copy of its folder, because notebooks write files.
    """
    notebook = nbformat.read(path, as_version=4)
    quiet = ["--log-level=ERROR"]  # of the kernel's own notes
    with TemporaryDirectory() as place:
        copy = copytree(path.parent, Path(place) / path.parent.name)
        folder = {"metadata": {"path": str(copy)}}
        NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources=folder,
            extra_arguments=quiet,
        ).execute()  # fmt: skip
    return notebook


def write_page(notebook: Any, name: str, folder: Path) -> None:
    parts = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            parts.append(draw_output(output, folder / f"{name}-{number}-{place}.png"))
    link = f"The notebook is `examples/{name}.ipynb` in the repository."
    (folder / f"{name}.md").write_text("\n\n".join([*parts, link]) + "\n", encoding="utf-8")


def draw_output(output: Any, picture: Path) -> str:
    """An output of a cell as Markdown; its picture is written to a file."""
    if output.output_type == "stream":
        if output.name == "stderr":  # progress
            return ""
        return f"```text\n{ANSI.sub('', output.text).rstrip()}\n```" if output.text.strip() else ""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![Output of the cell above]({picture.name})"
    if "text/html" in data:
        return f'```{{raw}} html\n<div class="output">{data["text/html"]}</div>\n```'
    return f"```text\n{data.get('text/plain', '').rstrip()}\n```"


def write_gallery(folder: Path) -> None:
    """Write a page for each notebook."""
    folder.mkdir(exist_ok=True)
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8") + lapis.__version__
        key, stamp = sha256(text.encode()).hexdigest(), folder / f"{path.stem}.key"
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != key:
            write_page(run_notebook(path), path.stem, folder)
            stamp.write_text(key, encoding="utf-8")


if __name__ == "__main__":
    write_gallery(Path(__file__).parent / "_gallery")
