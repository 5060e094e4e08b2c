"""The data sets of Sarkhel et al. (2016), with one world for each fold.

The paper gives sizes (its Table 2) but not its models. Ours, in `models/counting-*.mln`, have the
same number of parameters; that of WebKB also has nearly the same numbers of atoms and clauses.
Smoker is generated: five towns of 50 people, 63 thousand atoms in total. The others are read from
LAPIS_DATA: WebKB by university, the proteins by fold, Cora by fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from protocol import data_folder

import lapis

Frames = dict[str, pd.DataFrame]
HERE = Path(__file__).resolve().parent

NUM_WORDS = 640  # of WebKB: the paper's 20 million atoms leave room for so many
NUM_FUNCTIONS = 14  # of the proteins: 14² + 14 + 1 are the paper's 211 parameters
CLASSES = ("Course", "Department", "Faculty", "Person", "ResearchProject", "Staff", "Student")


@dataclass(frozen=True)
class DataSet:
    name: str
    query: tuple[str, ...]  # whose atoms are predicted, all others being given
    sampled: str  # the type of which a fraction is kept where a part of the data is wanted
    load: Callable[[], list[Frames]]
    paper_sizes: tuple[str, str, int]  # clauses, atoms, parameters
    paper_cll: Mapping[str, str]  # Table 3: method -> CLL with its i
    paper_bounds: Mapping[str, tuple[str, str]]  # Table 4: i -> CLL, seconds, of CD
    dense: tuple[str, ...] = ()  # how rules begin whose prior has its width chosen by validation

    def model(self) -> lapis.Model:
        return lapis.read(HERE / "models" / f"counting-{self.name}.mln")

    def worlds(self, fraction: float = 1.0) -> list[lapis.Database]:
        """Return one database for each fold; with a fraction, of a random part of the constants."""
        model = self.model()
        rng = np.random.default_rng(0)
        return [
            lapis.Database.from_frames(self.part(model, frames, fraction, rng))
            for frames in self.load()
        ]

    def part(
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
        taken = {}
        for name, where in places.items():
            inside = np.ones(len(frames[name]), bool)
            for n in where:
                inside &= frames[name].iloc[:, n].isin(kept).to_numpy()
            taken[name] = frames[name][inside]
        return taken


def read(*path: str) -> Frames:
    return dict(lapis.Database.read(data_folder(path[0]).joinpath(*path[1:])).to_frames())


def load_smoker() -> list[Frames]:
    """Generate towns in which people with the same habit are friends more often."""
    return [make_town(town, 50) for town in range(5)]


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
    names = ("cornell", "texas", "washington", "wisconsin")
    found = [read("webkb", f"{name}.db.gz") for name in names]
    everywhere = pd.concat([frames["Has"] for frames in found])
    frequent = set(everywhere.iloc[:, 0].value_counts(sort=True).index[:NUM_WORDS])
    worlds = []
    for frames in found:
        classes = [
            pd.DataFrame({0: frames[name].iloc[:, 0], 1: name})
            for name in CLASSES
            if name in frames
        ]
        words = frames["Has"][frames["Has"].iloc[:, 0].isin(frequent)]
        links = frames["LinkTo"].iloc[:, 1:3].drop_duplicates()
        worlds.append(
            {
                "PageClass": pd.concat(classes),
                "Has": words.iloc[:, [1, 0]],
                "Linked": links,
            }
        )
    return worlds


def load_protein() -> list[Frames]:
    """Read proteins by fold, with their most frequent functions."""
    found = [read("yeast-protein", f"fold{fold}.db") for fold in range(1, 5)]
    functions = pd.concat([frames["function"] for frames in found]).iloc[:, 1]
    frequent = set(functions.value_counts().index[:NUM_FUNCTIONS])
    for frames in found:
        frames["function"] = frames["function"][frames["function"].iloc[:, 1].isin(frequent)]
    return found


def load_er() -> list[Frames]:
    return [read("cora-er", f"fold{fold}.db") for fold in range(1, 6)]


DATA_SETS = {
    each.name: each
    for each in (
        DataSet(
            "smoker",
            ("Smokes", "Cancer"),
            "person",
            load_smoker,
            ("125K", "63K", 5),
            {"cd": "-0.695 ± 0.01 (i=2)", "vp": "-1.16 ± 0.18 (i=3)", "pll": "-1.61 ± 0.08 (i=3)"},
            {},
        ),
        DataSet(
            "webkb",
            ("PageClass",),
            "page",
            load_webkb,
            ("892M", "20M", 64),
            {
                "cd": "-0.66 ± 0.004 (i=2)",
                "vp": "-0.91 ± 0.001 (i=3)",
                "pll": "-0.72 ± 0.001 (i=3)",
            },
            {"1": ("-0.788", "92,327"), "2": ("-0.664", "X"), "3": ("-1.686", "X")},
        ),
        DataSet(
            "protein",
            ("function",),
            "protein",
            load_protein,
            ("408M", "3.3M", 211),
            {
                "cd": "-0.779 ± 0.0002 (i=2)",
                "vp": "-0.78 ± 0.001 (i=2)",
                "pll": "-0.74 ± 0.0004 (i=3)",
            },
            {"1": ("-0.9948", "178.2"), "2": ("-0.7797", "293"), "3": ("-0.7795", "260")},
            ("interaction(p, q)", "complex(p, c)"),
        ),
        DataSet(
            "er",
            ("SameBib", "SameAuthor", "SameTitle", "SameVenue"),
            "bib",
            load_er,
            ("1.7T", "5.5M", 15),
            {
                "cd": "-0.694 ± 1e-6 (i=2)",
                "vp": "-0.693 ± 2e-6 (i=3)",
                "pll": "-0.693 ± 2e-5 (i=3)",
            },
            {"1": ("-0.6943", "653"), "2": ("-0.693", "X"), "3": ("-0.693", "X")},
        ),
    )
}
