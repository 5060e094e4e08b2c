"""Groundings stored on disk are loaded for the same input and not for other input."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.grounding import bottom_up, ground
from lapis.grounding.cache import (
    ARRAYS,
    grounding_key,
    has_valid_indices,
    load_grounding,
    save_grounding,
)
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


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, Network]:
    folder = tmp_path_factory.mktemp("kept")
    network = ground(problem_of(), cache_dir=folder)
    (path,) = folder.iterdir()
    return path, path.read_bytes(), network


@given(flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=5))
def test_no_damaged_byte_is_believed(
    kept: tuple[Path, bytes, Network], flips: list[tuple[float, int]]
) -> None:
    path, whole, network = kept
    damaged = bytearray(whole)
    for place, change in flips:
        damaged[min(int(place * len(whole)), len(whole) - 1)] ^= change
    path.write_bytes(damaged)
    found = load_grounding(problem_of(), path.parent)
    assert (found is None) == (bytes(damaged) != whole)
    assert same_arrays(network, ground(problem_of(), cache_dir=path.parent))
    assert load_grounding(problem_of(), path.parent) is not None


@given(data=st.data())
def test_no_changed_array_is_believed(
    kept: tuple[Path, bytes, Network], data: st.DataObject
) -> None:
    """Archives that numpy reads and whose shapes are right, but whose content is another."""
    path, whole, network = kept
    arrays = dict(np.load(BytesIO(whole)))
    name = data.draw(st.sampled_from([name for name in ARRAYS if arrays[name].size]))
    at = data.draw(st.integers(0, arrays[name].size - 1))
    arrays[name][at] = (
        not arrays[name][at]
        if arrays[name].dtype == bool
        else data.draw(
            st.integers(-(1 << 31), (1 << 31) - 1).filter(lambda n: n != arrays[name][at])
        )
    )
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(buffer.getvalue())
    assert load_grounding(problem_of(), path.parent) is None
    assert same_arrays(network, ground(problem_of(), cache_dir=path.parent))


def test_a_file_of_another_problem_is_not_believed(tmp_path: Path) -> None:
    ground(problem_of(), cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    other = problem_of(data=DATA.replace("Smokes(A)", "!Smokes(A)"))
    path.rename(tmp_path / f"{grounding_key(other)}.npz")
    assert load_grounding(other, tmp_path) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("literal", 10**6), ("literal", 0), ("literal", -(2**31) + 1), ("weight_id", 999),
        ("weight_id", -2), ("clause_start", 10**6), ("clause_start", -1), ("block_atom", 10**6),
        ("block_atom", -1), ("block_start", 10**6), ("definition_literal", 10**6),
        ("definition_start", 10**6),
    ],
)  # fmt: skip
def test_numbers_that_lead_outside_are_refused_even_with_a_checksum(
    tmp_path: Path, name: str, value: int
) -> None:
    problem = problem_of(query="Smokes Class Friends")
    network = ground(problem)
    assert has_valid_indices(network)
    array = getattr(network, name).copy()
    array[len(array) // 2] = value
    save_grounding(problem, replace(network, **{name: array}), tmp_path)
    assert load_grounding(problem, tmp_path) is None


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    problem = build_problem(parse_model("t = {A}\nP(t)\n1 P(x)"), query=["P"])
    (tmp_path / "taken").write_text("")
    with pytest.raises(LapisError, match="cannot store groundings here"):
        save_grounding(problem, ground(problem), tmp_path / "taken")
