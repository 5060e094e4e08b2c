"""Compare worlds that flip atom by atom with a new count after every flip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from counting.small_worlds import PREDICATES, Small, all_atoms, count_true, small_problems
from lapis.counting.flipping_world import FlippingWorld
from lapis.errors import TooLarge


def check_flips(small: Small, choices: list[int]) -> None:
    world = FlippingWorld(small.problem)
    true = set(small.true)
    atoms = [
        (predicate.name, arguments)
        for predicate in PREDICATES
        for arguments in all_atoms(small.problem, predicate)
    ]
    counts, violations = count_true(small.problem, frozenset(true))
    assert (world.counts.tolist(), world.violations) == (counts, violations)
    for choice in choices:
        name, arguments = atoms[choice % len(atoms)]
        assert world.is_true(name, arguments) == ((name, arguments) in true)
        true ^= {(name, arguments)}
        after, violations_after = count_true(small.problem, frozenset(true))
        delta = world.delta(name, arguments)
        change = np.zeros(len(counts), np.int64)
        change[list(delta.weight_id)] = delta.difference
        assert change.tolist() == np.subtract(after, counts).tolist()
        assert delta.violations == violations_after - violations
        assert world.counts.tolist() == counts, "asking for a change makes none"
        world.flip(name, arguments)
        counts, violations = after, violations_after
        assert (world.counts.tolist(), world.violations) == (counts, violations)
    for predicate in PREDICATES:
        for arguments in all_atoms(small.problem, predicate):
            assert world.is_true(predicate.name, arguments) == ((predicate.name, arguments) in true)


choices = st.lists(st.integers(0, 10**6), min_size=1, max_size=8)


@given(small_problems(), choices)
def test_flips_match_recounting(small: Small, choices: list[int]) -> None:
    check_flips(small, choices)


@given(small_problems(quantifiers=True), choices)
def test_flips_match_recounting_with_quantifiers(small: Small, choices: list[int]) -> None:
    check_flips(small, choices)


def test_every_part_of_a_hard_conjunction_is_counted() -> None:
    model = lapis.parse("P(t)\nQ(t)\nR(t)\nP(x) ^ Q(x) ^ R(x).")
    world = FlippingWorld(lapis.build_problem(model, lapis.Database.parse("P(A) Q(B) R(A) R(B)")))
    assert (world.violations, world.violated_rules) == (2, (0,))
    world.flip("Q", [0])
    assert world.violations == 1


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(small_problems(quantifiers=True), choices)
def test_flips_match_recounting_long(small: Small, choices: list[int]) -> None:
    check_flips(small, choices)


@pytest.mark.parametrize(("literals", "refused"), [(5, False), (11, True)])
def test_a_quantified_parity_is_followed_or_refused(literals: int, refused: bool) -> None:
    names = [f"P{number}" for number in range(literals)]
    declared = "".join(f"{name}(t)\n" for name in names)
    model = lapis.parse(f"{declared}EXIST x ({' <=> '.join(f'{name}(x)' for name in names)})")
    data = lapis.Database.parse("t = {A, B} P0(A) P1(B)")
    if not refused:
        assert lapis.learn(model, data).objective == "pseudo"
        return
    with pytest.raises(TooLarge, match="1,024 conjunctions") as caught:
        lapis.learn(model, data)
    assert caught.value.exit_code == 3
