"""Files of other systems mean what the same file in our notation says, by enumeration.

`tests/peers/SYSTEM/NAME.mln` is a file in the notation of the system, `NAME.db` beside it its data,
and `NAME.lapis.mln` says the same in plain formulas: it was written by hand from the definitions of
the system. Its first lines are comments:

    // query P,Q            the open predicates
    // learn                weights can be learned from the data too
    // notes …              a note that the other file has
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import lapis
import oracle
from cli_run import Run
from lapis.language.printer import print_model

FOLDER = Path(__file__).parent
SUFFIXES = (".mln", ".wmc", ".fg")
FEWEST = {"lomrf": 12, "forclift": 12, "rockit": 8, "pracmln": 10}


@dataclass(frozen=True)
class Pair:
    path: Path  # in the notation of the system
    ours: Path

    @property
    def data(self) -> Path | None:
        path = self.path.with_suffix(".db")
        return path if path.exists() else None

    def said(self, word: str) -> list[str]:
        return re.findall(rf"^// {word}(?: (.*))?$", self.ours.read_text(), re.MULTILINE)

    @property
    def query(self) -> list[str]:
        return self.said("query")[0].split(",")

    def database(self) -> lapis.Database:
        return lapis.Database.parse("") if self.data is None else lapis.Database.read(self.data)


def pairs() -> list[Pair]:
    found = []
    for ours in sorted(FOLDER.glob("*/*.lapis.mln")):
        name = ours.name.removesuffix(".lapis.mln")
        path = ours.with_name(name if name.endswith(SUFFIXES) else f"{name}.mln")
        found.append(Pair(path, ours))
    return found


PAIRS = pairs()
each_pair = pytest.mark.parametrize(
    "pair", PAIRS, ids=[f"{pair.path.parent.name}-{pair.path.name}" for pair in PAIRS]
)


def facts_of(pair: Pair) -> oracle.Facts:
    data = pair.database()
    groups: list[list[oracle.GroundAtom]] = [[], [], []]
    for relation in data.relations.values():
        for truth, rows in relation.stated():
            atoms = [(relation.predicate, row) for row in data.decode(relation, rows)]
            groups[truth] += atoms
    return oracle.Facts(*map(tuple, groups))


def expected_answer(pair: Pair) -> oracle.OracleAnswer:
    return oracle.infer(lapis.read(pair.ours), facts_of(pair), pair.query)


def test_there_are_many_files() -> None:
    number = {folder: len(list((FOLDER / folder).glob("*.lapis.mln"))) for folder in FEWEST}
    assert all(number[folder] >= FEWEST[folder] for folder in FEWEST)
    assert {path for path in FOLDER.glob("*/*") if path.suffix in SUFFIXES} == {
        path for pair in PAIRS for path in (pair.path, pair.ours)
    }


@each_pair
def test_probabilities(pair: Pair) -> None:
    expected = expected_answer(pair)
    answer = lapis.infer(lapis.read(pair.path), pair.database(), pair.query)
    assert answer.exact
    found = dict(answer.marginals)
    of_query = {name: expected.marginals[name] for name in found}
    assert found == pytest.approx(of_query, abs=1e-9)
    unknown = {name for name in expected.unknown if name in found}
    assert unknown == expected.unknown


@each_pair
def test_most_likely_world(pair: Pair) -> None:
    expected = expected_answer(pair)
    best = lapis.map(lapis.read(pair.path), pair.database(), pair.query)
    assert best.optimal
    shown = {name for name in expected.marginals if name in best.atoms}
    assert set(best.true_atoms) in [set(world) & shown for world in expected.map_worlds]


@each_pair
def test_written_in_our_notation_it_means_the_same(pair: Pair) -> None:
    model = lapis.read(pair.path)
    again = lapis.parse(print_model(model))
    expected = expected_answer(pair)
    answer = lapis.infer(again, pair.database(), pair.query)
    found = dict(answer.marginals)
    assert found == pytest.approx({name: expected.marginals[name] for name in found}, abs=1e-9)


@each_pair
def test_notes(pair: Pair) -> None:
    model = lapis.read(pair.path)
    notes = [warning.message for warning in model.warnings if warning.code == "dialect"]
    assert [re.sub(r"^.*/", "", note).replace(pair.path.name, "m.mln") for note in notes] == (
        pair.said("notes")
    )


@each_pair
def test_commands(pair: Pair, run: Run) -> None:
    data = [] if pair.data is None else [str(pair.data)]
    query = ["-q", ",".join(pair.query)]
    for words in (["check"], ["count"], ["infer", *query], ["map", *query]):
        code, _, err = run(words[0], str(pair.path), *data, *words[1:])
        assert code == 0, err
    if pair.said("learn"):
        learned = str(run.folder / "learned.mln")
        code, _, err = run("learn", str(pair.path), *data, *query, "-o", learned)
        assert code == 0, err
        assert run("infer", learned, *data, *query)[0] == 0
