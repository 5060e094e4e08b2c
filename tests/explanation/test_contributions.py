"""What ground formulas add to an atom's log-odds is the difference of two worlds' scores."""

from __future__ import annotations

import math

import pytest
from explained_cases import OracleCase, close
from hypothesis import given, settings

import strategies
from oracle import NoWorld
from strategies import Case


def check_contributions(found: OracleCase) -> None:
    try:
        expected = found.answer()
    except NoWorld:
        return
    answer = found.infer()
    for name in sorted(expected.unknown):
        explained = answer.explain(name)
        assert explained.probability == close(expected.marginals[name])
        if explained.world is None:
            assert explained.probability in (0.0, 1.0)
            continue
        total = math.fsum(
            row.log_odds for row in explained.contributions if math.isfinite(row.log_odds)
        )
        score, possible = found.two_worlds(explained)
        if possible.all():
            assert total == pytest.approx(score[0] - score[1], abs=1e-12)
            assert explained.world.log_odds == total
        elif possible.any():
            assert explained.world.log_odds == (math.inf if possible[0] else -math.inf)
        near = {*explained.world.true_atoms, *explained.world.false_atoms}
        assert any(
            {n for n in world if n in near} == set(explained.world.true_atoms)
            for world in expected.map_worlds
        )


@settings(max_examples=25)
@given(strategies.cases())
def test_contributions_are_differences_of_scores(case: Case) -> None:
    check_contributions(OracleCase(case, {}))
