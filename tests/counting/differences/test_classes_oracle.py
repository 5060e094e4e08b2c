"""Compare the pseudo-likelihood from classes with the oracle, on models as text."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

import lapis
import oracle
from lapis.counting.differences.atom_classes import find_difference_classes, pseudo_log_likelihood
from lapis.counting.differences.block_classes import find_block_classes
from lapis.counting.flipping_world import FlippingWorld
from strategies import Case, cases

pytestmark = pytest.mark.usefixtures("price_everything")


@given(cases(observed=True))
def test_pseudo_likelihood_and_counts_match_the_oracle(case: Case) -> None:
    model = lapis.parse(case.model)
    problem = lapis.build_problem(model, lapis.Database.parse(case.data))
    weights = problem.weight_table.value
    for name, predicate in model.predicates.items():
        find = find_block_classes if predicate.block else find_difference_classes
        found = pseudo_log_likelihood(find(problem, name), weights).value
        try:
            expected = oracle.pseudo_log_likelihood(model, case.facts, [name])
        except oracle.NoWorld:
            continue
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    counts = oracle.count_true(model, case.facts)
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    assert FlippingWorld(problem).counts.tolist() == [counts[key][0] for key in keys]


def test_friends_and_smokers_by_hand() -> None:
    """Two people; Anna smokes and is friends with Bob, who does not smoke."""
    model = lapis.parse(
        """
        person = {Anna, Bob}
        Friends(person, person)
        Smokes(person)
        1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
        """
    )
    problem = lapis.build_problem(model, lapis.Database.parse("Friends(Anna,Bob)\nSmokes(Anna)"))
    friends = find_difference_classes(problem, "Friends")
    # Only Friends(Anna,Bob) matters: were it false, its grounding would be true.
    found = {
        (tuple(friends.vectors.take(np.array([each])).value), bool(friends.truth[each])): int(count)
        for each, count in enumerate(friends.multiplicity)
    }
    assert found == {((-1,), True): 1, ((), False): 3}
    value = pseudo_log_likelihood(friends, problem.weight_table.value).value
    assert value == pytest.approx(-math.log1p(math.exp(1.1)) - 3 * math.log(2))

    smokes = find_difference_classes(problem, "Smokes")
    # Smokes(Anna) breaks one grounding, Smokes(Bob) mends it.
    assert sorted(zip(smokes.difference.tolist(), smokes.truth.tolist(), strict=True)) == [
        (-1, True),
        (1, False),
    ]
