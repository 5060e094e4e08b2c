"""The pages of the handbook: links, spelling, length, places in the list of pages."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if not page.startswith("_")
)
NEW = [page for page in PAGES if page.partition("/")[0] in ("tutorials", "howto", "understanding")]
MAX_LINES = 300
LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_have_targets(page: str) -> None:
    path = DOCS / page
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_words_are_spelt_as_in_the_dictionary() -> None:
    spelling = load("spelling")
    assert spelling.unknown_words(spelling.pages()) == {}


def test_a_misspelt_word_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spelling = load("spelling")
    page = tmp_path / "page.md"
    page.write_text("A probabilty of `kode`.\n\n    indented kode\n\n```\nkode\n```\nDone.\n")
    monkeypatch.setattr(spelling, "DOCS", tmp_path / "docs")
    assert spelling.unknown_words([page]) == {"probabilty": ["page.md:1"]}


@pytest.mark.parametrize("page", NEW)
def test_a_page_of_the_handbook_is_short_and_runs(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert text.startswith("# ")
    shows_code = ">>> " in text or "\n    $ lapis " in text
    assert shows_code or page in ("understanding/measured.md",)


def test_a_link_without_a_target_is_found(tmp_path: Path) -> None:
    check_site = load("check_site")
    (tmp_path / "a.html").write_text('<a href="b.html#one">x</a><a href="b.html#two">y</a>')
    (tmp_path / "b.html").write_text('<h1 id="one"></h1><a href="c.html">z</a>')
    assert check_site.broken_links(tmp_path) == ["a.html: b.html#two", "b.html: c.html"]


def test_charts_link_to_pages_that_exist(tmp_path: Path) -> None:
    figures = load("figures")
    figures.draw_all(tmp_path / "drawn")
    for step in (*figures.COMMANDS, *figures.METHODS):
        page = (DOCS / "howto" / step.page.partition("#")[0]).with_suffix(".md")
        assert page.exists(), step.page
    assert "<svg" in (tmp_path / "drawn" / "commands.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert load("check_site").broken_links(tmp_path / "site") == []
    assert (tmp_path / "site" / "searchindex.js").exists()
