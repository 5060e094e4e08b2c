"""Compare networks of random problems with the definition, with every plan."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from ground_evaluation import World, known_true, network_world
from ground_problems import problems
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.grounding import ground
from lapis.grounding.blocks import apply_blocks
from lapis.grounding.templates import PlanLimits
from lapis.problem.problem import Problem

pytestmark = pytest.mark.usefixtures("price_everything")

WHOLE = PlanLimits(split_above=10**9)
SPLIT = PlanLimits(split_above=0)


def check(problem: Problem, limits: PlanLimits, seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        evidence = apply_blocks(problem)
        network = ground(problem, limits=limits)
    except LapisError as error:
        if error.code not in ("block-violated", "hard-contradiction", "unsatisfiable"):
            raise
        check_no_world(problem, rng)
        return
    rows = [
        (weight_id, tuple(network.literal[start:end]))
        for weight_id, (start, end) in zip(
            network.weight_id, itertools.pairwise(network.clause_start), strict=True
        )
    ]
    assert len(set(rows)) == len(rows)
    for density in (0.0, 0.5, 0.8):
        base = rng.random(network.num_base_atoms) < density
        expected = network_world(problem, evidence, network, base)
        world = network.complete(base)
        np.testing.assert_allclose(network.counts(world), expected.counts(), atol=1e-9)
        weights = problem.weight_table.value
        assert network.score(world) == pytest.approx(float(weights @ expected.counts()))
        assert network.is_feasible(world) == expected.is_feasible()


def check_no_world(problem: Problem, rng: np.random.Generator) -> None:
    """Worlds that agree with the evidence break a hard rule or a block, all that we try."""
    for _ in range(20):
        true = known_true(problem, problem.evidence)
        for name, known in problem.evidence.items():
            sizes = [len(problem.domains[t]) for t in known.predicate.types]
            settled = {tuple(row) for row in (*known.true.tolist(), *known.false.tolist())}
            for row in np.ndindex(*sizes):
                unknown = row not in settled if known.open else list(row) in known.unknown.tolist()
                if unknown and rng.random() < 0.5:
                    constants = zip(known.predicate.types, row, strict=True)
                    true.add((name, tuple(problem.domains[t].constants[c] for t, c in constants)))
        assert not World(problem, true).is_feasible()


@pytest.mark.parametrize("limits", [WHOLE, SPLIT], ids=["whole", "split"])
@given(problem=problems(with_definitions=False), seed=st.integers(0, 1000))
def test_clauses(limits: PlanLimits, problem: Problem, seed: int) -> None:
    check(problem, limits, seed)


@pytest.mark.parametrize("limits", [WHOLE, SPLIT], ids=["whole", "split"])
@given(problem=problems(), seed=st.integers(0, 1000))
def test_definitions(limits: PlanLimits, problem: Problem, seed: int) -> None:
    check(problem, limits, seed)
