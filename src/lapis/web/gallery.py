"""The gallery: worked problems, each a folder of ordinary files in `gallery/`.

`problem.json` has the title, three sentences and the question. The data of a problem with a
`data.py` is made by its function `facts` when the problem is opened.
"""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path
from typing import Any

from lapis.errors import LapisError
from lapis.web.contract import GalleryCard, WorkspaceState
from lapis.web.files import Folder

OWN_FILES = ("problem.json", "data.py")
PROBLEMS = Path(__file__).parent / "gallery"


@cache
def read_problems() -> dict[str, dict[str, Any]]:
    """Return the description of each problem by name, in the order of the gallery."""
    found = {
        place.parent.name: json.loads(place.read_text(encoding="utf-8"))
        for place in PROBLEMS.glob("*/problem.json")
    }
    return dict(sorted(found.items(), key=lambda item: item[1]["order"]))


def list_gallery() -> list[GalleryCard]:
    return [
        {
            "name": name,
            "title": problem["title"],
            "sentences": problem["sentences"],
            "command": problem["command"],
        }
        for name, problem in read_problems().items()
    ]


def problem_folder(name: str) -> Path:
    """Return the folder of a problem; raise if there is none."""
    if name not in read_problems():
        raise LapisError("there is no such problem", code="no-file")
    return PROBLEMS / name


def copy_problem(name: str, folder: Folder) -> None:
    """Copy the files of a problem into the folder; those that exist are kept."""
    source = problem_folder(name)
    folder.copy_tree(source, name, OWN_FILES)
    data = read_problems()[name]["data"]
    target = data[0] if data else ""
    if (source / "data.py").is_file() and not folder.locate(f"{name}/{target}").exists():
        facts = runpy.run_path(str(source / "data.py"))["facts"]
        folder.write_text(f"{name}/{target}", "".join(facts()))


def open_problem(name: str, at: str = "") -> WorkspaceState:
    """Return the workspace of a problem whose files are in the folder `at`."""
    problem_folder(name)
    problem = read_problems()[name]
    return {
        "model": at + problem["model"],
        "data": [at + path for path in problem["data"]],
        "query": problem["query"],
        "evidence": problem.get("evidence", []),
        "command": problem["command"],
        "options": problem.get("options", {}),
        "truth": at + problem["truth"] if "truth" in problem else None,
        "gallery": name,
    }
