"""Differences through quantifiers, in every world of two people."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lapis
from counting.small_worlds import Small, all_atoms, build, difference
from lapis.counting.differences.atom_differences import (
    AtomDifferences,
    ListedDifferences,
    open_differences,
)
from lapis.language.model import Predicate
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Condition, Cube, Definition, Feature, Literal

pytestmark = pytest.mark.usefixtures("price_everything")

DECLARATIONS = "person = {Anna, Bob}\nFriends(person,person)\nSmokes(person)\n"
CLOSED_FORM = [
    "EXIST y Friends(x,y)",
    "!(EXIST y Friends(x,y)) v Friends(x,z)",
    "EXIST y (Friends(x,y) v Friends(y,x))",
    "EXIST y (Friends(x,y) ^ !Friends(y,x))",
    "FORALL y (Friends(x,y) => Friends(y,x))",
    "(EXIST y Friends(x,y)) ^ (EXIST y Friends(y,x))",
    "EXIST y (Friends(x,y) ^ Smokes(y)) => Smokes(x)",
]
ATOM_BY_ATOM = [
    "FORALL x EXIST y Friends(x,y)",
    "EXIST y (Friends(x,y) ^ EXIST z Friends(y,z))",
    "EXIST y, z (Friends(x,y) ^ Friends(y,z) ^ y != z)",
]


def check_worlds(formula: str, way: type) -> None:
    model = lapis.parse(f"{DECLARATIONS}1 {formula}\n")
    problem = lapis.build_problem(model)
    names = ["Friends", "Smokes"] if "Smokes" in formula else ["Friends"]
    atoms = [(name, row) for name in names for row in all_atoms(problem, model.predicates[name])]
    for bits in itertools.product((False, True), repeat=len(atoms)):
        true = frozenset(atom for atom, bit in zip(atoms, bits, strict=True) if bit)
        world = {
            name: np.array([row for own, row in true if own == name], np.int32) for name in names
        }
        for name in names:
            differences = open_differences(problem, name, world=world)
            assert isinstance(differences, way) or name == "Smokes"
            rows = all_atoms(problem, model.predicates[name])
            vectors, truth = differences.at_rows(np.array(rows, np.int32))
            found = np.zeros((len(rows), 1), np.int64)
            found[vectors.row, vectors.column] = vectors.value
            small = Small(problem, true)
            expected = [difference(small, (name, row))[0] for row in rows]
            assert found.tolist() == [list(vector) for vector in expected]
            assert truth.tolist() == [(name, row) in true for row in rows]


@pytest.mark.parametrize("formula", CLOSED_FORM)
def test_closed_form_in_every_world(formula: str) -> None:
    check_worlds(formula, AtomDifferences)


@pytest.mark.parametrize("formula", ATOM_BY_ATOM)
def test_atom_by_atom_in_every_world(formula: str) -> None:
    check_worlds(formula, ListedDifferences)


def test_a_witness_that_the_free_variables_determine() -> None:
    """Rains decides D(x,z) ⇔ ∃y: Rains ∧ y = x for all four (x,z), whatever y is called."""
    head, bound = (("x", "person"), ("z", "person")), (("y", "person"),)
    same = Condition("=", Variable("y"), Variable("x"))
    cube = Cube((Literal("Rains", (), True),), (same,))
    definition = Definition(Predicate("D", ("person", "person")), head, bound, (cube,))
    clause = Clause((Literal("D", (Variable("x"), Variable("z")), True),))
    feature = Feature(0, head, (), (clause,), 0, False)
    rains = Predicate("Rains", ())
    for true in (set(), {("Rains", ())}):
        small = build({"person": ("Anna", "Bob")}, (rains,), (feature,), true, [definition])
        vectors, _ = open_differences(small.problem, "Rains").at_rows(np.empty((1, 0), np.int32))
        assert vectors.value.tolist() == [4]
        assert difference(small, ("Rains", ())) == ((4,), 0)
