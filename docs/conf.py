"""The site: Sphinx with MyST and furo. `make site` builds it without a network.

The pages are those of this folder, in the order of `index.md`. The API is generated from
docstrings. Pages outside this folder (changelog, architecture) are included by pages of `project/`,
and links to them are rewritten. `figures.py` draws the charts and `gallery.py` runs the
notebooks before the pages are read.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import lapis

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
from figures import draw_all  # noqa: E402
from gallery import write_gallery  # noqa: E402

OUTSIDE = {  # files outside this folder, and the pages that include them
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
}
OPTIONAL = (  # places in index.md
    "recipes", "sklearn",
)  # fmt: skip
LINK = re.compile(r"\]\(((?:\.\./)*)([\w./-]+)(#[\w-]+)?\)")

project = "Lapis"
author = "the authors of Lapis"
copyright = author
version = release = lapis.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static", "_drawn"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

default_role = "code"  # of the backticks of docstrings
autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"Lapis {version}"
html_static_path = ["_static", "_drawn"]
html_css_files = ["lapis.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
smartquotes = False
pygments_style = "default"


def rewrite_links(app: Sphinx, name: str, text: list[str]) -> None:
    """Point links to files outside this folder to the pages that include them."""
    folder = DOCS / Path(name).parent
    if name.startswith("project/"):
        folder = DOCS.parent  # of what is included

    def rewrite(found: re.Match[str]) -> str:
        target = (folder / (found[1] + found[2])).resolve()
        up = "../" * name.count("/")
        if target.is_relative_to(DOCS):
            page = target.relative_to(DOCS).as_posix()
            return f"]({up}{page}{found[3] or ''})"
        inside = target.relative_to(DOCS.parent).as_posix() if target.exists() else ""
        if inside in OUTSIDE:
            return f"]({up}{OUTSIDE[inside]}{found[3] or ''})"
        return found[0]

    text[0] = LINK.sub(rewrite, text[0])


def drop_missing(app: Sphinx, name: str, text: list[str]) -> None:
    """Drop the places of optional pages that do not exist from the list of pages."""
    if name == "index":
        missing = {page for page in OPTIONAL if not (DOCS / f"{page}.md").exists()}
        lines = text[0].splitlines(keepends=True)
        text[0] = "".join(line for line in lines if line.strip() not in missing)


def list_decisions(app: Sphinx, name: str, text: list[str]) -> None:
    """Give the page of decisions its entries in the navigation."""
    if name == "decisions/README":
        text[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def include_outside(app: Sphinx, name: str, text: list[str]) -> None:
    """Put the text of an outside file in the place of the page that stands for it."""
    for outside, page in OUTSIDE.items():
        if page == f"{name}.md" and page != "index.md":
            text[0] = (DOCS.parent / outside).read_text(encoding="utf-8")


def setup(app: Sphinx) -> None:
    draw_all(DOCS / "_drawn")
    write_gallery(DOCS / "_gallery")
    app.connect("source-read", drop_missing, priority=50)
    app.connect("source-read", list_decisions, priority=60)
    app.connect("source-read", include_outside, priority=100)
    app.connect("source-read", rewrite_links, priority=200)
