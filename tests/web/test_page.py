"""The page in a real browser: what a user does first, step by step.

Needs the built page (`make web`) and Debian's chromium; `make test-web` sees to both.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

import lapis
from lapis.web.server import PAGE
from web.workbench import Bench, serving

pytestmark = pytest.mark.web
WEB = Path(__file__).parents[2] / "web"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LONG = (
    f"person = {{{', '.join(f'P{n}' for n in range(30))}}}\nLikes(person, person)\n"
    "0.3 Likes(x, y) ^ Likes(y, z) => Likes(x, z)\n"
)
MILLION = 1_000_000
SMOKERS = (Path(lapis.__file__).parent / "web/gallery/smokers/model.mln").read_text()
SLOW = 120_000  # milliseconds: machines are shared


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert (PAGE / "index.html").is_file(), "run make web"
    chromium = shutil.which("chromium")
    assert chromium is not None, "apt install chromium"
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """A server of an empty folder, with the smokers of the gallery answered."""
    with serving(tmp_path_factory.mktemp("page")) as bench:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(SLOW)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(bench.settings.address)
        page.get_by_label("Open and answer: Friends and smokers").click()
        page.wait_for_selector(".answer .tr")
        yield Opened(bench, page, problems)
        assert problems == []
        page.close()


class Opened:
    def __init__(self, bench: Bench, page: Page, problems: list[str]) -> None:
        self.bench, self.page, self.problems = bench, page, problems

    def tab(self, name: str) -> Page:
        self.page.locator(f"#tab-{name}").click()
        return self.page

    def answer(self) -> dict[str, float]:
        """The rows in view: atom and probability."""
        rows = self.page.locator(".answer .tr").all()
        cells = [row.locator(".td").all_inner_texts() for row in rows]
        return {cell[0]: float(cell[1]) for cell in cells}

    def ask(self) -> None:
        """Ask and wait for the new run."""
        before = self.page.locator(".runs li").count()
        self.page.get_by_role("button", name="Ask", exact=True).click()
        self.await_run(before)

    def await_run(self, before: int) -> None:
        expect(self.page.locator(".runs li")).to_have_count(before + 1, timeout=SLOW)
        self.page.wait_for_selector(".runs li:first-child .dot.done")
        self.page.wait_for_selector(".answer .tr")

    def set_text(self, text: str) -> None:
        """Replace the text of the editor by typing."""
        self.page.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def fetch(self, path: str) -> Any:
        return self.bench.get(path)


def smokers(**weights: float) -> lapis.Answer:
    folder = Path(lapis.__file__).parent / "web" / "gallery" / "smokers"
    text = (folder / "model.mln").read_text()
    for old, new in weights.items():
        text = text.replace(old.lstrip("_").replace("_", "."), f"{new:g}", 1)
    data = lapis.Database.read(folder / "people.db")
    return lapis.infer(lapis.parse(text), data, query="Smokes, Cancer", progress=None)


def rounded(answer: lapis.Answer) -> dict[str, float]:
    return {atom: round(p, 4) for atom, p in answer.marginals.items()}


def test_the_gallery_answers_with_one_click(opened: Opened) -> None:
    expect(opened.page.locator(".answer h2")).to_contain_text("13 atoms, exact")
    assert opened.answer() == pytest.approx(rounded(smokers()), abs=1e-4)


def test_rows_are_sorted_by_a_click(opened: Opened) -> None:
    page = opened.tab("ask")
    page.locator(".answer .sort").first.click()
    expect(page.locator(".answer .tr").first).to_contain_text("Cancer(Anna)")
    names = list(opened.answer())
    assert names == sorted(names)
    page.locator(".answer .sort", has_text="probability").click()
    page.wait_for_timeout(300)
    values = list(opened.answer().values())
    assert values == sorted(values, reverse=True)


def test_csv_is_the_answer_of_the_api(opened: Opened) -> None:
    page = opened.tab("ask")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    rows = {row["atom"]: float(row["probability"]) for row in csv.DictReader(io.StringIO(text))}
    assert rows == smokers().marginals


def test_a_mistake_is_underlined_and_mended(opened: Opened) -> None:
    page = opened.tab("model")
    opened.set_text(SMOKERS.replace("Smokes(x) => Cancer(x)", "Smoks(x) => Cancer(x)"))
    expect(page.locator(".cm-lintRange-error").first).to_have_text("Smoks")
    expect(page.get_by_label("Mistakes", exact=True)).to_contain_text("unknown predicate 'Smoks'")
    page.get_by_role("button", name="Replace by Smokes").click()
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)
    expect(page.locator(".editor-card .status")).to_contain_text("no mistakes")


def test_names_are_completed(opened: Opened) -> None:
    page = opened.tab("model")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("Canc")
    expect(page.locator(".cm-tooltip-autocomplete li").first).to_contain_text("Cancer")
    page.keyboard.press("Enter")
    page.keyboard.type("x)")
    expect(page.locator(".cm-content")).to_contain_text("Cancer(x)")
    opened.set_text(SMOKERS)
    expect(page.locator(".editor-card .status")).to_contain_text("no mistakes")


def test_a_slider_answers_at_once_and_writes_its_weight(opened: Opened) -> None:
    page = opened.tab("model")
    page.wait_for_selector(".live li")
    page.wait_for_timeout(1500)
    slider = page.get_by_label("Weight of Smokes(x) => Cancer(x)", exact=True)
    slider.fill("3")
    expect(page.locator(".live .delta.up").first).not_to_be_empty()
    expected = smokers(_1_5=3.0)["Cancer(Anna)"]
    expect(page.locator(".live li", has_text="Cancer(Anna)")).to_contain_text(f"{expected:.3f}")
    expect(page.locator(".cm-content")).to_contain_text("3  Smokes(x) => Cancer(x)")
    number = page.get_by_label("Weight of Smokes(x) => Cancer(x), as a number")
    number.fill("1.5")
    number.press("Enter")
    expect(page.locator(".cm-content")).to_contain_text("1.5  Smokes(x) => Cancer(x)")


def test_why(opened: Opened) -> None:
    page = opened.tab("ask")
    page.locator(".answer .tr", has_text="Smokes(Bob)").click()
    page.get_by_role("button", name="Why?").click()
    expect(page.locator(".verdict")).to_contain_text("0.2223")
    expect(page.locator(".waterfall li").first).to_be_visible()
    expect(page.get_by_label("In words", exact=True)).to_contain_text("because")


def test_a_fact_is_changed_by_a_click(opened: Opened) -> None:
    page = opened.tab("data")
    page.locator(".relation", has_text="Smokes").get_by_title(
        "What if Smokes(Anna) were false?"
    ).click()
    opened.tab("ask")
    expect(page.locator(".chip.evidence")).to_contain_text("Smokes(Anna) is false")
    opened.ask()
    folder = opened.bench.root / "smokers"
    facts = (folder / "people.db").read_text().replace("Smokes(Anna)", "!Smokes(Anna)")
    data = lapis.Database.parse(facts)
    expected = lapis.infer(folder / "model.mln", data, query="Smokes, Cancer", progress=None)
    assert opened.answer() == pytest.approx(rounded(expected), abs=1e-4)
    page.keyboard.press("Escape")
    page.locator(".question h2").click()
    page.keyboard.press("Control+z")
    expect(page.locator(".chip.evidence")).to_have_count(0)


def test_an_atom_is_supposed_by_a_click(opened: Opened) -> None:
    page = opened.tab("ask")
    before = page.locator(".runs li").count()
    page.locator(".answer .tr", has_text="Smokes(Frank)").click()
    page.locator(".selection").get_by_role("button", name="true").click()
    opened.await_run(before)
    folder = opened.bench.root / "smokers"
    data = lapis.Database.read(folder / "people.db")
    expected = lapis.infer(
        folder / "model.mln", data, "Smokes, Cancer", evidence="Smokes(Frank)", progress=None
    )
    page.wait_for_timeout(500)
    assert opened.answer() == pytest.approx(rounded(expected), abs=1e-4)
    page.get_by_label("Remove Smokes(Frank)").click()


def test_a_plan_comes_before_the_run(opened: Opened) -> None:
    page = opened.tab("ask")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_label("Plan", exact=True)).to_contain_text("enumerate")


def test_weights_are_learned_with_their_curve(opened: Opened) -> None:
    page = opened.tab("learn")
    page.get_by_role("button", name="Learn", exact=True).click()
    expect(page.locator(".weights li")).to_have_count(4, timeout=SLOW)
    expect(page.locator(".curve canvas")).to_be_visible()
    folder = opened.bench.root / "smokers"
    fit = lapis.learn(folder / "model.mln", folder / "people.db", progress=None)
    expect(page.locator(".weights li").first).to_contain_text(f"{fit.weights[0]:.3f}")


def test_rules_are_accepted_one_by_one(opened: Opened) -> None:
    page = opened.tab("gallery")
    page.get_by_label("Open and answer: Rules from data").click()
    page.wait_for_selector(".rules li")
    rules = page.locator(".rules > li")
    first = rules.nth(0).locator("code").inner_text().split(maxsplit=1)[1]
    second = rules.nth(1).locator("code").inner_text().split(maxsplit=1)[1]
    rules.nth(0).get_by_role("button", name="Accept").click()
    rules.nth(1).get_by_role("button", name="Reject").click()
    expect(rules.nth(1)).to_contain_text("rejected")
    opened.tab("model")
    expect(page.locator(".editor-card .status")).to_contain_text("1 formula, no mistakes")
    expect(page.locator(".formulas")).to_contain_text(first)
    expect(page.locator(".formulas")).not_to_contain_text(second)
    expect(page.locator(".saved")).to_have_text("saved")
    assert first in (opened.bench.root / "rules" / "model.mln").read_text()


def test_a_long_run_is_stopped_and_survives_a_reload(opened: Opened) -> None:
    (opened.bench.root / "long.mln").write_text(LONG)
    options = {"method": "gibbs", "precision": 1e-7, "max_samples": 10**9}
    state = {
        "model": "long.mln", "data": [], "query": ["Likes"], "evidence": [], "command": "infer",
        "options": options,
    }  # fmt: skip
    opened.bench.client.put("/api/workspace", json=state)
    page = opened.page
    page.goto(opened.bench.url + "/#ask")
    page.reload()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator(".progress")).to_contain_text("R-hat", timeout=SLOW)
    page.reload()
    page.locator(".runs li .link").first.click()
    expect(page.locator(".progress")).to_contain_text("R-hat", timeout=SLOW)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".answer")).to_contain_text("stopped early", timeout=SLOW)
    expect(page.locator(".answer .tr").first).to_contain_text("Likes(")
    page.get_by_role("tab", name="Chains").click()
    expect(page.locator(".curve canvas")).to_be_visible()


def test_a_file_is_dropped_and_its_columns_mapped(opened: Opened, tmp_path: Path) -> None:
    page = opened.tab("data")
    table = tmp_path / "works.csv"
    table.write_text("who,year,where\nAnna,1999,Bern\nBob,2001,Rome\n")
    page.get_by_label("Files to add").set_input_files(table)
    page.get_by_role("button", name="Map columns").first.click()
    page.get_by_label("Predicate", exact=True).fill("WorksAt")
    page.get_by_role("button", name="2 · year").click()
    page.get_by_role("button", name="Write facts").click()
    expect(page.locator(".relation h3", has_text="WorksAt")).to_be_visible()
    facts = set(lapis.Database.read(opened.bench.root / "works-facts.db").facts())
    assert facts == {("WorksAt", ("Anna", "Bern"), True), ("WorksAt", ("Bob", "Rome"), True)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(opened: Opened, scheme: str) -> None:
    """WCAG AA on every tab, light and dark."""
    page = opened.page
    axe = (WEB / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
    for name in ("gallery", "model", "data", "ask", "why", "learn"):
        opened.tab(name)
        page.wait_for_timeout(400)
        page.evaluate(axe)
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})"
        )
        wrong = [
            (each["id"], [node["html"][:160] for node in each["nodes"][:3]])
            for each in found["violations"]
        ]
        assert wrong == [], (name, scheme)


@pytest.mark.parametrize("width", [390, 768, 1280, 2560])
def test_nothing_is_wider_than_the_page(opened: Opened, width: int) -> None:
    page = opened.page
    page.set_viewport_size({"width": width, "height": 860})
    for name in ("gallery", "model", "data", "ask", "why", "learn"):
        opened.tab(name)
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    page.set_viewport_size({"width": 1280, "height": 860})


def test_tabs_by_keyboard(opened: Opened) -> None:
    page = opened.tab("model")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-data")).to_be_focused()
    expect(page.locator("#tab-data")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Alt+3")
    expect(page.locator("#tab-ask")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def write_million(root: Path) -> None:
    """Leave a run of a million atoms, as an earlier server would have."""
    import duckdb

    place = root / ".lapis" / "runs" / "00000000000a"
    place.mkdir(parents=True)
    request = {"command": "infer", "model": "m.mln", "data": [], "options": {}}
    state = {
        "id": place.name, "command": "infer", "title": "million", "status": "done", "created": 1.0,
        "seconds": 9.0, "request": request, "progress": None, "curve": [], "summary": "a million",
        "error": None,
    }  # fmt: skip
    result = {
        "id": place.name, "command": "infer", "summary": "a million", "remarks": [],
        "document": {"exact": True}, "columns": ["atom", "predicate", "arg1", "probability"],
        "num_rows": MILLION, "predicates": ["Smokes"], "text": None, "drawing": False,
        "python": "", "shell": "",
    }  # fmt: skip
    (place / "request.json").write_text(json.dumps(state))
    (place / "result.json").write_text(json.dumps(result))
    duckdb.sql(
        "COPY (SELECT range AS row, 'Smokes(P' || range || ')' AS atom, 'Smokes' AS predicate, "
        "'P' || range AS arg1, ((range * 7919) % 1000000) / 1000000.0::DOUBLE AS probability "
        f"FROM range({MILLION})) TO '{place / 'answer.parquet'}' (FORMAT parquet)"
    )


def test_a_million_rows_scroll_and_filter(browser: Browser, tmp_path: Path) -> None:
    write_million(tmp_path)
    with serving(tmp_path) as bench:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(SLOW)
        page.goto(bench.settings.address)
        page.goto(bench.url + "/#ask")
        page.wait_for_selector(".answer .tr .pnum")
        page.locator(".tbody").focus()
        page.keyboard.press("End")
        expect(page.locator(".answer .tr").last).to_contain_text("0.0000")
        assert page.locator(".answer .tr").count() < 60
        row = page.locator(".answer .tr.cursor")
        expect(row).to_have_attribute("aria-rowindex", str(MILLION + 1))
        expect(row).to_contain_text("Smokes(P0)")
        page.mouse.move(700, 500)
        page.mouse.wheel(0, -3400)
        expect(page.locator(".answer .tr").last).to_contain_text("0.0001")
        page.get_by_label("Search").fill("P99999")
        expect(page.locator(".table")).to_have_attribute("aria-rowcount", "12", timeout=SLOW)
        found = page.locator(".answer .tr").all_inner_texts()
        assert all("P99999" in text for text in found)
        page.close()
