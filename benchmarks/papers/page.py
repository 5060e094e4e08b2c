"""The page `docs/papers.md`, drawn from the records of all experiments.

python -m benchmarks.papers.page          write the page and its pictures
python -m benchmarks.papers.page --run    run all cells that have no record yet, then write
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import NamedTuple

from benchmarks.papers.cells import Experiment, Results, Section, read_results, run
from benchmarks.papers.markdown import table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
PICTURES = ROOT / "docs" / "papers"


class Paper(NamedTuple):
    heading: str
    citation: str


PAPERS = {
    "structure": Paper(
        "Learning structure by hypergraph lifting",
        "Kok and Domingos, “Learning Markov logic network structure via hypergraph lifting”, "
        "ICML 2009.",
    ),
    "lifted": Paper(
        "Lifted generative learning",
        "Van den Broeck, Meert and Davis, “Lifted generative parameter learning”, StarAI 2013.",
    ),
    "thesis": Paper(
        "Efficient learning and inference in rich statistical representations",
        "Lowd, PhD thesis, University of Washington, 2010. Chapter 6 appeared as Lowd and "
        "Domingos, “Approximate inference by compilation to arithmetic circuits”, NIPS 2010.",
    ),
    "counting": Paper(
        "Training with approximate counting",
        "Sarkhel, Venugopal, Pham, Singla and Gogate, “Scalable training of Markov logic networks "
        "using approximate counting”, AAAI 2016.",
    ),
    "notes": Paper(
        "Notes on learning Markov logic networks",
        "Lecture notes on maximum-likelihood, most likely and expected weights.",
    ),
}

MODULES: tuple[str, ...] = (
    "structure_table1",
    "structure_table2",
    "lifted_table1",
    "lifted_figure2",
    "thesis_figure32",
    "fields_real",
    "thesis_figure41",
    "thesis_conditioning",
    "thesis_table54",
    "thesis_figure53",
    "thesis_chapter6",
    "circuits_mixtures",
    "counting_table2",
    "counting_choice",
    "counting_table3",
    "counting_table4",
    "counting_figures",
    "notes_weights",
)

INTRODUCTION = """# The papers, table by table

Every table and figure of the experiments of five papers, beside what Lapis gives. Lapis contains
the methods of these papers; this page shows how far their results are reproduced.

- **Figures of the papers** are printed as the papers print them.
- **Our figures** come from `benchmarks/papers/results/`. Each cell of a table has a record there:
  its figures, seed, settings, versions, processor seconds and peak memory.
- **Seconds** are processor seconds of one core, on a shared machine with two cores. Those of the
  papers are wall time on machines of their time, so only orders of magnitude compare.
- **A star** marks a result whose search was ended by its own time limit. "refused", "not done in"
  and "failed" are results too: the cell was run and ended so.
- **Settings** are those of the paper where it names them. Others were chosen on training folds,
  except those that the list at the end calls "not blind".

`make papers` runs the cells that have no record (hours). `make papers-page` writes this page from
the records. A single table is run by `python -m benchmarks.papers.MODULE`, with the module that
stands under its heading.
"""


def list_experiments() -> list[Experiment]:
    """Return all experiments, in the order of the page."""
    return [importlib.import_module(f"benchmarks.papers.{name}").EXPERIMENT for name in MODULES]


def write_section(experiment: Experiment, section: Section) -> str:
    source = f"Module `{experiment.name}`."
    return f"### {experiment.title}\n\n{source}\n\n{section.text.strip()}\n"


def write_text(experiments: list[tuple[Experiment, Section]]) -> str:
    """Return the page for experiments and their sections."""
    summary = table(
        ["paper", "table or figure", "verdict"],
        [
            [PAPERS[experiment.paper].heading, experiment.title, section.verdict]
            for experiment, section in experiments
        ],
    )
    parts = [INTRODUCTION, "## Summary\n", summary]
    for key, paper in PAPERS.items():
        own = [pair for pair in experiments if pair[0].paper == key]
        if own:
            parts += [f"## {paper.heading}\n", paper.citation + "\n"]
            parts += [write_section(*pair) for pair in own]
    choices = [
        [experiment.title, choice.setting, choice.how, "yes" if choice.blind else "**no**"]
        for experiment, section in experiments
        for choice in section.choices
    ]
    parts += [
        "## What was blind\n",
        "Blind means that the setting was chosen without looking at a result on a test fold.\n",
        table(["table or figure", "setting", "how it was chosen", "blind"], choices),
    ]
    return "\n".join(parts)


def make_section(experiment: Experiment, results: Results | None = None) -> Section:
    return experiment.section(read_results(experiment.name) if results is None else results)


def write_page() -> None:
    """Write the page and its pictures."""
    experiments = list_experiments()
    PICTURES.mkdir(exist_ok=True)
    for experiment in experiments:
        if experiment.draw is not None:
            experiment.draw(read_results(experiment.name), PICTURES)
    PAGE.write_text(write_text([(each, make_section(each)) for each in experiments]), "utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--run", action="store_true", help="run the cells without a record first")
    if options.parse_args().run:
        for experiment in list_experiments():
            run(experiment, [])
    write_page()


if __name__ == "__main__":
    main()
