"""The gallery: worked problems, each a folder of ordinary files in `gallery/`.

`problem.json` has the title, three sentences and the question. A problem with `data.py` makes its
data when it is opened.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from lapis.errors import LapisError
from lapis.web.contract import GalleryCard, WorkspaceState

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
