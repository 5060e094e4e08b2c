"""Names from files hold anything; every command shows them as they are, and nothing else happens.

Each hostile name is put where a user can put one: as a constant, a data file and in a formula.
"""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

import lapis
from cli_run import Run
from lapis.language.names import format_constant
from lapis.results.plots import MAX_LABEL

HOSTILE = [
    "c1cc[nH]c1",
    "C[na]C",
    "[/b]",
    "[bold red]x[/]",
    "[link=https://example.org]y[/link]",
    "ends with a backslash\\",
    "[\\[/",
    ":smile: :warning:",
    "<b>bold</b> & <script>alert(1)</script>",
    "$x_1$ costs 5$",
    "\\frac{",
    "_hidden",
    "{braces} %s %(x)d {0}",
    "quotes \" and ' inside",
    "with, commas, (and) brackets",
    "a => b v c",
    "ж 漢字 🧪",
    "\x1b[31mred\x1b[0m",
    "bell\x07tab\tline\nend",
]


def spelled_out(text: str) -> str:
    """A text with escapes for the characters that cannot be seen."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def shown(name: str) -> str:
    """The name as a fact writes it."""
    return spelled_out(format_constant(name))


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lapis.cli.render.PIPE_WIDTH", 400)  # no name is folded
    return Run(tmp_path, capsys)


def write_inputs(run: Run, name: str) -> None:
    written = format_constant(name)
    run.write(
        "h.mln",
        "Active(mol)\nToxic(mol)\nBound(mol, mol)\n0.7 Active(x) => Toxic(x)\n"
        f"1 Active({written})\n0.2 Toxic(x) v Bound(x, {written})\n",
    )
    for number in (1, 2, 3):
        run.write(f"d{number}.db", f"Active({written})\nToxic(Plain{number})\nActive(Plain)\n")


COMMANDS = {
    "check": ("check", "h.mln", "d1.db"),
    "count": ("count", "h.mln", "d1.db"),
    "infer": ("infer", "h.mln", "d1.db", "-q", "Toxic"),
    "infer worlds": ("infer", "h.mln", "d1.db", "d2.db", "-q", "Toxic"),
    "map": ("map", "h.mln", "d1.db", "-q", "Toxic"),
    "learn": ("learn", "h.mln", "d1.db", "-q", "Toxic", "-o", "learned.mln"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_table_shows_the_name_whole(run: Run, name: str, command: str) -> None:
    write_inputs(run, name)
    code, out, err = run(*COMMANDS[command])
    assert code == 0, err
    assert shown(name) in out
    assert "\x1b" not in out + err
    assert "\x07" not in out + err


@pytest.mark.parametrize("command", ["count", "infer", "map", "learn"])
def test_json_holds_the_name_itself(run: Run, name: str, command: str) -> None:
    write_inputs(run, name)
    _, out, _ = run(*COMMANDS[command], "--json")
    found = json.loads(out)
    texts = [row.get("atom", row.get("formula")) for row in next(
        found[key] for key in ("formulas", "atoms", "weights") if key in found
    )]  # fmt: skip
    assert any(format_constant(name) in text for text in texts)


def test_a_learned_model_reads_back(run: Run, name: str) -> None:
    write_inputs(run, name)
    run(*COMMANDS["learn"])
    learned = lapis.read(run.folder / "learned.mln")
    assert name in learned.types["mol"]


def test_score_ground_and_evaluate_run(run: Run, name: str) -> None:
    write_inputs(run, name)
    for command in (
        ("score", "h.mln", "d1.db", "-q", "Toxic"),
        ("ground", "h.mln", "d1.db", "-q", "Toxic", "-o", "net.json"),
        ("evaluate", "h.mln", "d1.db", "d2.db", "d3.db", "-q", "Toxic", "--jobs", "1",
         "--objective", "pseudo"),
    ):  # fmt: skip
        code, out, err = run(*command)
        assert code == 0, err
        assert "\x1b" not in out


@pytest.mark.parametrize("stem", ["[bold]x[/]", "$1$ [/b]", "<i>&", "_a {0} %s", ":smile:", "漢字"])
def test_data_files_may_be_called_anything(run: Run, stem: str) -> None:
    write_inputs(run, "Plain")
    files = [run.write(f"{number}{stem}.db".replace("/", "|"), "Active(A)\n") for number in "123"]
    for command in ("infer", "map", "score"):
        code, out, err = run(command, "h.mln", *files, "-q", "Toxic")
        assert code == 0, err
    assert all(name in run("infer", "h.mln", *files, "-q", "Toxic")[1] for name in files)
    code, out, err = run(
        "evaluate", "h.mln", *files, "-q", "Toxic", "--jobs", "1", "--objective", "pseudo",
        "--plot", "folds.png",
    )  # fmt: skip
    assert code == 0, err
    assert all(name in out for name in files)


def test_errors_show_the_name(run: Run, name: str) -> None:
    write_inputs(run, name)
    atom = f"Toxik({format_constant(name)})"
    code, _, err = run("infer", "h.mln", "d1.db", "-q", atom)
    assert code == 1
    assert "Toxik" in err
    assert "\x1b" not in err


def test_html_shows_the_name(name: str) -> None:
    model = lapis.parse("Active(mol)\nToxic(mol)\n0.7 Active(x) => Toxic(x)\n")
    data = lapis.Database.parse(f"Active({format_constant(name)})")
    for result in (lapis.infer(model, data, "Toxic"), lapis.map(model, data, "Toxic")):
        page = result._repr_html_()
        assert html.escape(shown(name)) in page
        assert "<script>" not in page
        assert "mathjax_ignore" in page


def test_pictures_are_drawn(name: str, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    model = lapis.parse("Active(mol)\nToxic(mol)\n0.7 Active(x) => Toxic(x)\n")
    data = lapis.Database.parse(f"Active({format_constant(name)})")
    answer = lapis.infer(model, data, "Toxic")
    with plt.rc_context({"font.family": "DejaVu Sans"}):
        axes = answer.plot()
        drawn = [text.get_text() for text in axes.get_yticklabels()]
        if name.isascii():
            axes.figure.savefig(tmp_path / "bars.png")
        whole = answer.atoms[0]
        short = whole if len(whole) <= MAX_LABEL else f"{whole[: MAX_LABEL - 1]}…"
        assert drawn[0].strip().replace(r"\$", "$") == spelled_out(short)
        plt.close("all")
