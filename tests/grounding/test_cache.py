"""Groundings kept on disk: found again for the same content, not for other content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lapis.data.database import Database
from lapis.grounding import bottom_up, ground
from lapis.grounding.cache import grounding_key
from lapis.language import parse_model
from lapis.network import Network
from lapis.problem.problem import Problem, build_problem

MODEL = """
Friends(person, person)
Smokes(person)
Class(person, kind!)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
0.5 EXIST y (Friends(x, y) ^ Smokes(y))
"""
DATA = "Friends(A,B) Friends(B,A) Friends(C,A) Smokes(A) Class(A,K) ?Class(B,L)"


def problem_of(model: str = MODEL, data: str = DATA, query: str = "Smokes Class") -> Problem:
    return build_problem(parse_model(model), Database.parse(data), query.split())


def same_arrays(one: Network, other: Network) -> bool:
    return all(
        np.array_equal(value, getattr(other, name))
        for name, value in vars(one).items()
        if isinstance(value, np.ndarray)
    )


def test_a_kept_network_is_not_grounded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ground(problem_of(), cache_dir=tmp_path / "cache")
    monkeypatch.delattr(bottom_up, "GroundingSession")
    again = ground(problem_of(), cache_dir=tmp_path / "cache")
    assert same_arrays(first, again)
    atoms = np.arange(first.num_atoms)
    assert again.atom_names(atoms) == first.atom_names(atoms)
    reweighted = problem_of(MODEL.replace("1.1", "7.5"))
    other = ground(reweighted, cache_dir=str(tmp_path / "cache"))
    assert other.weights.tolist() == [7.5, 0.5]


@pytest.mark.parametrize(
    "changed",
    [
        problem_of(MODEL.replace("=> Smokes(y)", "=> Smokes(x)")),
        problem_of(MODEL.replace("0.5 EXIST y (Friends(x, y) ^ Smokes(y))", "EXIST y Smokes(y).")),
        problem_of(MODEL.replace("kind!", "kind?")),
        problem_of(data=DATA + " Smokes(D)"),
        problem_of(data=DATA.replace("Smokes(A)", "!Smokes(A)")),
        problem_of(data=DATA.replace("A", "E")),
        problem_of(query="Smokes Class Friends"),
    ],
    ids=["clause", "hard", "block", "constant", "fact", "name", "query"],
)
def test_the_key_follows_the_content(changed: Problem) -> None:
    assert grounding_key(changed) != grounding_key(problem_of())


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    first = ground(problem_of(), cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:200], b"x" * len(whole)):
        path.write_bytes(damaged)
        assert same_arrays(first, ground(problem_of(), cache_dir=tmp_path))
        assert len(path.read_bytes()) == len(whole)
