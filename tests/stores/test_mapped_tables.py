"""Marginals and most likely worlds of facts in tables of an engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lapis
from lapis.stores import open_store

MODEL = """
Smokes(person)
Friends(person, person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.3 Smokes(x)
"""
FACTS = "Friends(Anna,Bob) Friends(Bob,Carl) Friends(Carl,Anna) Friends(Dora,Anna) Cancer(Bob)"


@pytest.fixture
def file(tmp_path: Path) -> str:
    facts = lapis.Database.parse(FACTS)
    url = f"duckdb:{tmp_path / 'facts.duckdb'}"
    with open_store(url) as store:
        for name, relation in facts.relations.items():
            columns = facts.columns(relation, relation.true)
            store.load(name, {f"a{place}": np.array(c) for place, c in enumerate(columns)})
            store.publish(name, name)
    return url


def test_answers_are_those_of_files_and_outlive_the_store(file: str) -> None:
    model, data = lapis.parse(MODEL), lapis.Database.parse(FACTS)
    here = lapis.infer(model, data, "Smokes")
    there = lapis.infer(model, query="Smokes", engine=file, tables="main")
    assert there.exact
    for person in ("Anna", "Bob", "Carl", "Dora"):
        atom = f"Smokes({person})"
        assert there[atom] == pytest.approx(here[atom], rel=1e-9)
    likely = lapis.map(model, query="Smokes", engine=file, tables="main")
    assert sorted(likely.true_atoms) == sorted(lapis.map(model, data, "Smokes").true_atoms)
