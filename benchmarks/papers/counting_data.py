"""The data sets of Sarkhel et al. (2016) and our models of them, with one world for each fold.

The paper gives the sizes of its models (Table 2), not the models. Those in
`benchmarks/models/counting-*.mln` have its numbers of parameters and nearly its numbers of clauses:

- smoker: five generated towns of 50 people.
- webkb: seven classes of pages, linked pages, and the 640 most frequent words, which make 20
  million atoms.
- protein: the 14 most frequent functions (14² + 14 + 1 parameters) and the eight largest complexes.
  A rule between members of a complex has 14 · 8 groundings for each pair of proteins; with all 181
  complexes it has 8 billion.
- er: rules of four and more variables between citations, their fields and words. Our copy of Cora
  has fewer different titles, venues and words than the paper's 5.5 million atoms need.

The query predicates are not named in the paper either. `DataSet.query` holds ours: their atoms are
predicted, all others are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from benchmarks import protocol
from benchmarks.papers.folds import FOLDS

import lapis

Frames = dict[str, pd.DataFrame]

NUM_WORDS = 640
NUM_FUNCTIONS = 14
NUM_COMPLEXES = 8
CLASSES = ("Course", "Department", "Faculty", "Person", "ResearchProject", "Staff", "Student")
TOWNS = ("town1", "town2", "town3", "town4", "town5")
TOWN_SIZE = 50


class PaperSizes(NamedTuple):
    """A row of the paper's Table 2, as printed."""

    clauses: str
    atoms: str
    parameters: str
    evidence: str


@dataclass(frozen=True)
class DataSet:
    name: str
    title: str  # in the paper
    folds: tuple[str, ...]
    query: tuple[str, ...]  # predicates whose atoms are predicted, all others being given
    sampled: str  # the type of which a fraction is kept where a part of the data is used
    load: Callable[[], list[Frames]]
    sizes: PaperSizes
    dense: tuple[str, ...] = ()  # how rules begin whose prior has its width chosen by validation

    def model(self) -> lapis.Model:
        return lapis.read(protocol.MODELS / f"counting-{self.name}.mln")

    def worlds(self, fraction: float = 1.0) -> dict[str, lapis.Database]:
        """Return one database for each fold; with a fraction, of a random part of the constants."""
        model, rng = self.model(), np.random.default_rng(0)
        return {
            fold: lapis.Database.from_frames(self._part(model, frames, fraction, rng))
            for fold, frames in zip(self.folds, self.load(), strict=True)
        }

    def whole(self) -> lapis.Database:
        """Return all folds as one database."""
        parts = self.load()
        names = dict.fromkeys(name for part in parts for name in part)
        return lapis.Database.from_frames(
            {
                name: pd.concat([part[name] for part in parts if name in part]).drop_duplicates()
                for name in names
            }
        )

    def _part(
        self, model: lapis.Model, frames: Frames, fraction: float, rng: np.random.Generator
    ) -> Frames:
        """Keep only the facts about some constants of the sampled type."""
        if fraction >= 1.0:
            return frames
        places = {
            name: [n for n, kind in enumerate(model.predicates[name].types) if kind == self.sampled]
            for name in frames
        }
        columns = [frames[name].iloc[:, n] for name, where in places.items() for n in where]
        known = np.sort(pd.concat(columns).unique())
        kept = set(rng.choice(known, max(2, round(fraction * len(known))), replace=False))
        return {name: keep(frames[name], where, kept) for name, where in places.items()}


def keep(frame: pd.DataFrame, columns: Sequence[int], constants: set[str]) -> pd.DataFrame:
    """Return the rows whose values in some columns are all among the constants."""
    inside = np.ones(len(frame), bool)
    for column in columns:
        inside &= frame.iloc[:, column].isin(constants).to_numpy()
    return frame[inside]


def read(folder: str, file: str, model: lapis.Model) -> Frames:
    """Return the facts of a file about the predicates of a model."""
    frames = lapis.Database.read(protocol.DATA / folder / file).to_frames()
    return {name: frame for name, frame in frames.items() if name in model.predicates}


def load_smoker() -> list[Frames]:
    """Generate towns in which people with the same habit are friends more often."""
    return [make_town(town, TOWN_SIZE) for town in range(len(TOWNS))]


def make_town(town: int, size: int) -> Frames:
    rng = np.random.default_rng(town)
    people = np.array([f"P{town}_{number}" for number in range(size)])
    inclined = rng.random(size) < 0.4
    alike = inclined[:, None] == inclined[None, :]
    friends = (rng.random((size, size)) < np.where(alike, 0.3, 0.1)) & ~np.eye(size, dtype=bool)
    smokes = rng.random(size) < np.where(inclined, 0.8, 0.1)
    cancer = rng.random(size) < np.where(smokes, 0.4, 0.05)
    pairs = np.argwhere(friends)
    return {
        "Friends": pd.DataFrame({0: people[pairs[:, 0]], 1: people[pairs[:, 1]]}),
        "Smokes": pd.DataFrame({0: people[smokes]}),
        "Cancer": pd.DataFrame({0: people[cancer]}),
    }


def load_webkb() -> list[Frames]:
    """Read pages by university: classes as one predicate, links without names, frequent words."""
    found = [
        dict(lapis.Database.read(protocol.DATA / "webkb" / f"{name}.db.gz").to_frames())
        for name in FOLDS["webkb"]
    ]
    everywhere = pd.concat([frames["Has"] for frames in found])
    frequent = set(everywhere.iloc[:, 0].value_counts(sort=True).index[:NUM_WORDS])
    return [page_facts(frames, frequent) for frames in found]


def page_facts(frames: Frames, words: set[str]) -> Frames:
    classes = [
        pd.DataFrame({0: frames[name].iloc[:, 0], 1: name}) for name in CLASSES if name in frames
    ]
    has = keep(frames["Has"], [0], words)
    return {
        "PageClass": pd.concat(classes),
        "Has": has.iloc[:, [1, 0]],
        "Linked": frames["LinkTo"].iloc[:, 1:3].drop_duplicates(),
    }


def load_protein() -> list[Frames]:
    """Read proteins by fold, with the most frequent functions and the largest complexes."""
    model = DATA_SETS["protein"].model()
    found = [read("yeast-protein", f"{fold}.db", model) for fold in FOLDS["yeast-protein"]]
    for name, number in (("function", NUM_FUNCTIONS), ("complex", NUM_COMPLEXES)):
        values = pd.concat([frames[name] for frames in found]).iloc[:, 1]
        frequent = set(values.value_counts().index[:number])
        for frames in found:
            frames[name] = keep(frames[name], [1], frequent)
    return found


def load_er() -> list[Frames]:
    model = DATA_SETS["er"].model()
    return [read("cora-er", f"{fold}.db", model) for fold in FOLDS["cora-er"]]


DATA_SETS: Mapping[str, DataSet] = {
    each.name: each
    for each in (
        DataSet(
            "smoker",
            "Smoker",
            TOWNS,
            ("Smokes", "Cancer"),
            "person",
            load_smoker,
            PaperSizes("125K", "63K", "5", "7.5K"),
        ),
        DataSet(
            "webkb",
            "WebKB",
            FOLDS["webkb"],
            ("PageClass",),
            "page",
            load_webkb,
            PaperSizes("892 million", "20 million", "64", "227.5K"),
        ),
        DataSet(
            "protein",
            "Protein",
            FOLDS["yeast-protein"],
            ("function",),
            "protein",
            load_protein,
            PaperSizes("408 million", "3.3 million", "211", "25.8K"),
            ("interaction(p, q)", "complex(p, c)"),
        ),
        DataSet(
            "er",
            "ER",
            FOLDS["cora-er"],
            ("SameBib", "SameAuthor", "SameTitle", "SameVenue"),
            "bib",
            load_er,
            PaperSizes("1.7 trillion", "5.5 million", "15", "56K"),
        ),
    )
}
