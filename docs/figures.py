"""Draws the charts of the site, as SVG with the colours of the theme, and tables of records.

`draw_all(folder)` writes them.

A chart is a list of questions. The answer "yes" leads to the right, to a page; "no" leads down.
"""

from __future__ import annotations

import html
import json
import math
import textwrap
from dataclasses import dataclass
from pathlib import Path

QUESTION_WIDTH, ANSWER_WIDTH, GAP = 300, 300, 90
LINE, PADDING, SPACE = 18, 12, 34


@dataclass(frozen=True)
class Step:
    """A question, and what to do if the answer is yes."""

    question: str
    answer: str
    page: str


COMMANDS = (
    Step(
        "Are the data rows of one table, without relations?",
        "lapis circuit learn",
        "../circuits.html",
    ),
    Step(
        "Is the model a Bayesian network or a ProbLog program?",
        "lapis infer FILE",
        "../networks.html",
    ),
    Step("Have you no rules yet?", "lapis structure: rules from data", "../structure.html"),
    Step("Have the rules no weights?", "lapis learn: weights from data", "../learning.html"),
    Step("Do you want the probability of each atom?", "lapis infer", "../inference.html"),
    Step("Do you want the one most likely world?", "lapis map", "../map.html"),
    Step("Are there no facts, only sizes of types?", "lapis lift", "../lifted.html"),
    Step(
        "Do you want to know how well it predicts?",
        "lapis score, lapis evaluate",
        "../evaluation.html",
    ),
)
METHODS = (
    Step("Is this the first run?", "--method auto, and lapis plan", "../inference.html"),
    Step("Is the answer exact?", "nothing to choose", "exact-or-sampled.html"),
    Step("Are the facts in a database?", "--engine", "duckdb.html"),
    Step(
        "Does the query open far more atoms than you need?",
        "--only-listed, or query less",
        "too-large.html",
    ),
    Step("Do few facts tell constants apart?", "--method lifted or cells", "../lifted.html"),
    Step("Does it almost fit the memory?", "--max-memory, --method exact", "too-large.html"),
    Step("Does the chain not converge?", "--method tempering", "converge-sampling.html"),
    Step("Do you need proven bounds?", "--bounds", "../inference.html#certified-bounds"),
    Step("Do you need log Z?", "--method ais", "../inference.html#annealed-importance-sampling"),
)


def wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width // 8)


def draw_text(lines: list[str], x: float, y: float) -> str:
    spans = "".join(
        f'<tspan x="{x:g}" y="{y + LINE * (i + 0.5) + 4:g}">{html.escape(line)}</tspan>'
        for i, line in enumerate(lines)
    )
    return f'<text text-anchor="middle" font-size="14">{spans}</text>'


def draw_steps(steps: tuple[Step, ...], title: str) -> str:
    """A ladder of questions with their answers on the right."""
    parts, y = [], 10.0
    right = QUESTION_WIDTH + GAP
    for number, step in enumerate(steps):
        question, answer = wrap(step.question, QUESTION_WIDTH), wrap(step.answer, ANSWER_WIDTH)
        height = LINE * max(len(question), len(answer)) + 2 * PADDING
        middle = y + height / 2
        parts += [
            f'<rect class="box" x="5" y="{y:g}" width="{QUESTION_WIDTH}" height="{height}"/>',
            draw_text(question, 5 + QUESTION_WIDTH / 2, middle - LINE * len(question) / 2),
            f'<path d="M{5 + QUESTION_WIDTH} {middle:g} H{right - 6}" marker-end="url(#arrow)"/>',
            draw_text(["yes"], QUESTION_WIDTH + GAP / 2, middle - LINE - 4),
            f'<rect class="answer" x="{right}" y="{y:g}" width="{ANSWER_WIDTH}" height="{height}" '
            'rx="14"/>',
            f'<a href="{html.escape(step.page)}">'
            + draw_text(answer, right + ANSWER_WIDTH / 2, middle - LINE * len(answer) / 2)
            + "</a>",
        ]  # fmt: skip
        y += height
        if number + 1 < len(steps):
            centre = 5 + QUESTION_WIDTH / 2
            parts += [
                f'<path d="M{centre:g} {y:g} V{y + SPACE - 6:g}" marker-end="url(#arrow)"/>',
                draw_text(["no"], centre + 18, y + SPACE / 2 - LINE / 2 - 2),
            ]
            y += SPACE
    width = right + ANSWER_WIDTH + 5
    return (
        f'<svg class="chart" viewBox="0 0 {width} {y + 10:g}" width="{width}" role="img" '
        f'aria-label="{html.escape(title)}" xmlns="http://www.w3.org/2000/svg">'
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" style="fill: currentColor"/></marker></defs>'
        f"{''.join(parts)}</svg>\n"
    )


def draw_curve() -> str:
    """The probability of an atom as a function of the weight of its unit clause: 1 / (1 + e^-w)."""
    left, top, width, height = 50, 10, 480, 220
    points = []
    for step in range(121):
        weight = -6 + step / 10
        share = 1 / (1 + math.exp(-weight))
        points.append(f"{left + (weight + 6) / 12 * width:.1f},{top + (1 - share) * height:.1f}")
    grid = []
    for weight in range(-6, 7, 2):
        x = left + (weight + 6) / 12 * width
        grid.append(f'<line x1="{x:g}" y1="{top}" x2="{x:g}" y2="{top + height}" opacity="0.2"/>')
        grid.append(draw_text([str(weight)], x, top + height + 4))
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + (1 - share) * height
        grid.append(f'<line x1="{left}" y1="{y:g}" x2="{left + width}" y2="{y:g}" opacity="0.2"/>')
        grid.append(draw_text([f"{share:g}"], left - 22, y - LINE / 2))
    return (
        f'<svg class="chart" viewBox="0 0 560 275" width="560" role="img" '
        'aria-label="The probability of an atom by its weight" xmlns="http://www.w3.org/2000/svg">'
        f'{"".join(grid)}<polyline points="{" ".join(points)}" fill="none" '
        'stroke="currentColor" stroke-width="2"/>'
        f"{draw_text(['weight of P(x)'], left + width / 2, top + height + 24)}</svg>\n"
    )


RECORDS = Path(__file__).parents[1] / "benchmarks" / "papers" / "results"


def list_records() -> str:
    """A table of the records of papers: how many, how they ended, and what they cost."""
    rows = [
        "| table or figure | records | done | ended early or refused | processor time | memory |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(RECORDS.glob("*.json")):
        cells = list(json.loads(path.read_text(encoding="utf-8")).values())
        done = sum(cell["status"] == "done" for cell in cells)
        seconds = sum(cell.get("cpu_seconds") or 0 for cell in cells)
        memory = max((cell.get("peak_mb") or 0 for cell in cells), default=0)
        rows.append(
            f"| `{path.stem}` | {len(cells)} | {done} | {len(cells) - done} | "
            f"{seconds / 60:,.1f} min | {memory / 1000:,.1f} GB |"
        )
    return "\n".join(rows) + "\n"


def draw_all(folder: Path) -> None:
    """Write every chart to a folder; files that are the same are left alone."""
    charts = {
        "records.md": list_records(),
        "commands.svg": draw_steps(COMMANDS, "Which command?"),
        "methods.svg": draw_steps(METHODS, "Which method of inference?"),
        "curve.svg": draw_curve(),
    }
    folder.mkdir(exist_ok=True)
    for name, text in charts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    draw_all(Path(__file__).parent / "_drawn")
