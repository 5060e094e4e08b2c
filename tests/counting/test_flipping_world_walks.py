"""Random walks through the worlds of three people: compare every change with a new count."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from counting.small_worlds import all_atoms, count_true
from lapis.counting.flipping_world import FlippingWorld

DECLARATIONS = """
person = {Anna, Bob, Cid}
place = {1, 2}
Rains()
Smokes(person)
Friends(person,person)
Meets(person,place,person)
"""
RULES = [
    "Friends(x,y) ^ Smokes(x) => Smokes(y)",  # a set of friends without a set of smokers
    "Friends(x,y) ^ Friends(y,z) => Friends(x,z)",
    "Friends(y,y) ^ Smokes(x)",  # a repeated variable that nothing else needs
    "Friends(x,x) ^ Meets(x,p,x) => Rains()",
    "Meets(y,p,y) ^ Friends(x,y) ^ Smokes(x)",
    "Meets(x,1,y) ^ Meets(y,2,x) => Friends(x,y)",
    "Friends(x,y) v Friends(y,x) v Smokes(z)",
    "Smokes(+x) ^ Friends(x,y) => Smokes(y)",
    "Meets(x,+p,y) => Friends(x,y)",
    "x != y ^ Smokes(x) => !Smokes(y)",
    "p < q ^ Meets(x,p,y) => Meets(x,q,y)",
    "Rains() => (EXIST y Friends(x,y))",
    "Smokes(x) <=> (EXIST y (Friends(x,y) ^ !Smokes(y)))",
    "FORALL x EXIST y (Friends(x,y) ^ EXIST p Meets(x,p,y))",
    "EXIST y (Friends(x,y) v Friends(y,x)).",
]


@pytest.mark.parametrize("rule", RULES)
def test_every_change_along_a_walk(rule: str) -> None:
    text = rule if rule.endswith(".") else f"1 {rule}"
    problem = lapis.build_problem(lapis.parse(f"{DECLARATIONS}{text}\n"))
    atoms = [
        (name, arguments)
        for name, predicate in problem.model.predicates.items()
        if name in rule
        for arguments in all_atoms(problem, predicate)
    ]
    world = FlippingWorld(problem)
    generator = np.random.default_rng(0)
    true: frozenset[tuple[str, tuple[int, ...]]] = frozenset()
    for _ in range(25):
        counts, violations = count_true(problem, true)
        assert (world.counts.tolist(), world.violations) == (counts, violations)
        for name, arguments in atoms:
            after, violations_after = count_true(problem, true ^ {(name, arguments)})
            delta = world.delta(name, arguments)
            change = np.zeros(len(counts), np.int64)
            change[list(delta.weight_id)] = delta.difference
            assert change.tolist() == np.subtract(after, counts).tolist()
            assert delta.violations == violations_after - violations
        chosen = atoms[generator.integers(len(atoms))]
        world.flip(*chosen)
        true ^= {chosen}
