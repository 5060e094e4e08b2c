"""Names, components, blocks and weights of networks of small models."""

from __future__ import annotations

import numpy as np
import pytest

from lapis.data.database import Database
from lapis.grounding import ground
from lapis.language import parse_model
from lapis.problem.problem import Problem, build_problem

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
"""


def problem_of(model: str, data: str, query: list[str]) -> Problem:
    return build_problem(parse_model(model), Database.parse(data), query)


def test_atoms_are_named_and_found() -> None:
    network = ground(problem_of(SMOKERS, 'Friends(Anna,"b c") Smokes(Anna)', ["Smokes"]))
    assert network.atom_names(np.arange(network.num_atoms)) == ['Smokes("b c")']
    rows = np.array([[0], [1]], np.int32)
    assert network.atom_index("Smokes", rows).tolist() == [-1, 0]
    assert network.atom_index("Friends", np.zeros((2, 2), np.int32)).tolist() == [-1, -1]
    assert network.atom_index("Smokes", np.empty((0, 1), np.int32)).tolist() == []


def test_incidence_and_components() -> None:
    data = "Friends(Anna,Bob) Friends(Cid,Cid)"
    network = ground(problem_of(SMOKERS, data, ["Smokes", "Cancer"]))
    position = {name: i for i, name in enumerate(network.atom_names(np.arange(6)))}
    component = network.component
    together = [["Smokes(Anna)", "Smokes(Bob)", "Cancer(Anna)", "Cancer(Bob)"]]
    together.append(["Smokes(Cid)", "Cancer(Cid)"])
    for number, names in enumerate(together):
        assert {int(component[position[name]]) for name in names} == {number}
    for atom in range(network.num_atoms):
        start, end = network.atom_start[atom : atom + 2]
        for signed in network.atom_clause[start:end]:
            clause = abs(int(signed)) - 1
            row = network.literal[network.clause_start[clause] : network.clause_start[clause + 1]]
            assert (atom + 1) * np.sign(signed) in row
    assert len(network.atom_clause) == len(network.literal)


def test_blocks_join_components() -> None:
    network = ground(problem_of("Class(page, topic!)\n", "Class(P,A) ?Class(Q,B)", ["Class"]))
    assert network.atom_names(np.arange(network.num_atoms)) == ["Class(Q,A)", "Class(Q,B)"]
    assert network.component.tolist() == [0, 0]
    assert network.block_atom.tolist() == [0, 1]
    assert [network.is_feasible(np.array(w)) for w in ([0, 0], [0, 1], [1, 0], [1, 1])] == [
        False,
        True,
        True,
        False,
    ]


def test_weights_can_be_replaced() -> None:
    network = ground(problem_of(SMOKERS, "Friends(A,B)", ["Smokes"]))
    other = network.with_weights(np.array([2.0, -1.0]))
    world = np.array([True, False])
    assert other.score(world) == pytest.approx(float(network.counts(world) @ [2.0, -1.0]))
    with pytest.raises(ValueError, match="2 weights"):
        network.with_weights(np.ones(3))
