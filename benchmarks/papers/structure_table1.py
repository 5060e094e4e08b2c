"""Table 1 of Kok and Domingos (2009): the data sets, counted.

The declarations and folds of this module are those of table 2 too. The predicates of equality of
constants are left out, as in the paper.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks import protocol
from benchmarks.papers.cells import Cell, Choice, Experiment, Outcome, Results, Section, run
from benchmarks.papers.folds import FOLDS
from benchmarks.papers.markdown import table

import lapis
from lapis.errors import LapisWarning


class DataSet(NamedTuple):
    """The files of a data set and the protocol of its queries."""

    title: str
    folder: str
    declarations: str
    together: tuple[tuple[str, ...], ...] = ()  # predicates that are predicted together
    queries: tuple[str, ...] = ()  # predicates that are predicted; empty: all
    left_out: tuple[str, ...] = ()  # predicates of equality of constants


SETS: Mapping[str, DataSet] = {
    "imdb": DataSet("IMDB", "imdb", "imdb.mln", together=(("actor", "director"),)),
    "uwcse": DataSet(
        "UW-CSE",
        "uwcse",
        "uwcse.mln",
        together=(("student", "professor"),),
        left_out=("samePerson", "sameCourse", "sameProject"),
    ),
    "cora": DataSet(
        "Cora", "cora-er", "cora.mln", queries=("SameBib", "SameTitle", "SameAuthor", "SameVenue")
    ),
}
FIGURES = ("types", "constants", "predicates", "true atoms", "atoms")
# Table 1 of the paper.
PAPER: Mapping[str, tuple[int, ...]] = {
    "imdb": (4, 316, 6, 1224, 17793),
    "uwcse": (9, 929, 12, 2112, 260254),
    "cora": (5, 3079, 10, 42558, 687422),
}


def read_declarations(name: str) -> lapis.Model:
    """Return the predicates of a data set without those of equality."""
    own = SETS[name]
    text = (protocol.DATA / own.folder / own.declarations).read_text(encoding="utf-8")
    lines = [x for x in text.splitlines() if x.partition("(")[0].strip() not in own.left_out]
    return lapis.parse("\n".join(lines))


def read_fold(name: str, fold: str) -> lapis.Database:
    return lapis.Database.read(protocol.DATA / SETS[name].folder / f"{fold}.db")


def count_data(data: str) -> Outcome:
    """Count constants and atoms; the worlds are the folds, so the counts are sums over folds."""
    model = read_declarations(data)
    constants = true = atoms = 0
    distinct: set[tuple[str, str]] = set()
    types: set[str] = set()
    for fold in FOLDS[SETS[data].folder]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LapisWarning)  # the predicates that are left out
            problem = lapis.build_problem(model, read_fold(data, fold))
        for kind, domain in problem.domains.items():
            types.add(kind)
            constants += len(domain)
            distinct |= {(kind, constant) for constant in domain.constants}
        for predicate in model.predicates.values():
            number = 1
            for kind in predicate.types:
                number *= len(problem.domains[kind])
            atoms += number
            true += len(problem.evidence[predicate.name].true)
    counts = (len(types), constants, len(model.predicates), true, atoms)
    figures = {name: float(count) for name, count in zip(FIGURES, counts, strict=True)}
    return Outcome(figures | {"distinct constants": float(len(distinct))})


def list_cells() -> list[Cell]:
    return [Cell(name, count_data, {"data": name}, 60.0, 4.0) for name in SETS]


def write_count(ours: float, theirs: float) -> str:
    if ours != ours:
        return "–"
    difference = round(ours - theirs)
    return f"{ours:,.0f}" + (f" ({difference:+,})".replace("-", "−") if difference else "")


def write_section(results: Results) -> Section:
    rows = []
    same = total = 0
    for name, own in SETS.items():
        record = results[name]
        rows.append([own.title, "paper", *(f"{count:,}" for count in PAPER[name])])
        if not record.has_result:
            rows.append(["", "Lapis", *[record.status] * len(FIGURES)])
            continue
        counts = [record.figure(figure) for figure in FIGURES]
        total += len(counts)
        same += sum(ours == theirs for ours, theirs in zip(counts, PAPER[name], strict=True))
        ours = [write_count(*pair) for pair in zip(counts, PAPER[name], strict=True)]
        rows.append(["", "Lapis", *ours])
    text = TEXT.replace("TABLE", table(["data", "", *FIGURES], rows))
    verdict = f"{same} of {total} counts are those of the paper" if total else "not run"
    choices = [Choice("the version of each data set", "the published copy at hand", True)]
    return Section(text, verdict, choices)


TEXT = """The paper counts types, constants, predicates and atoms after the predicates of equality
are left out. We count the same in our copies of the data: a constant of two folds counts twice, and
an atom is a predicate with constants of one fold. In brackets: the difference from the paper.

TABLE
- IMDB is the paper's, in every count.
- UW-CSE has the paper's true atoms. Our copy has fewer constants and hence fewer atoms. Counted
  once over all folds its constants are fewer still, so this is not another way of counting. Our
  copy has three of the nine predicates of equality; constants that only the other six mention are
  not known. They would be in no true atom of table 2.
- Cora has the paper's constants and true atoms. The number of atoms follows from the constants of
  each type and fold. The paper's number differs by one digit.
"""

EXPERIMENT = Experiment(
    name="structure_table1",
    title="Table 1: the data sets",
    paper="structure",
    cells=list_cells,
    section=write_section,
    smallest=Cell("imdb", count_data, {"data": "imdb"}),
)

if __name__ == "__main__":
    run(EXPERIMENT)
