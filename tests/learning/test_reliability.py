"""Weights that nothing bounds, where the objective is a likelihood: told as the definition has it.

log P(data) rises for ever along d exactly where no world has a larger d · n than the data, and some
has a smaller one. Worlds are enumerated by the oracle, and d is found by linear programming.
"""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import brute_force
from scipy.optimize import linprog

import lapis
from oracle import Facts, render_database

DECLARED = "t = {A, B, C, D}\nP(t)\nR(t)\nQ(t)\n"
FORMULAS = (
    "P(x) ^ Q(x)", "R(x) ^ Q(x)", "Q(x)", "(P(x) v R(x)) ^ Q(x)", "P(x) => Q(x)", "Q(x) <=> R(x)",
    "P(x) v !P(x)", "R(x) ^ Q(x) ^ P(x)",
)  # fmt: skip


def is_separable(margins: np.ndarray) -> bool:
    """Whether some d has margins · d ≥ 0, not all 0."""
    size = margins.shape[1]
    bounds = [(-1.0, 1.0)] * size
    found = linprog(-margins.sum(axis=0), A_ub=-margins, b_ub=np.zeros(len(margins)), bounds=bounds)
    return -float(found.fun) > 1e-7


@pytest.mark.parametrize("asked", [("Q",), ("P", "R", "Q")])
@pytest.mark.parametrize("seed", range(12))
def test_no_bound_is_said_exactly_where_there_is_none(asked: tuple[str, ...], seed: int) -> None:
    """Also where weights grow only together, one up and another down."""
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.choice(len(FORMULAS), 3, replace=False).tolist())
    model = lapis.parse(DECLARED + "".join(f"0 {FORMULAS[i]}\n" for i in chosen))
    drawn = [(name, (c,)) for name in ("P", "R", "Q") for c in "ABCD" if rng.random() < 0.5]
    facts = Facts(tuple(drawn), (), ())
    data = lapis.Database.parse(render_database(model.predicates, facts))
    whole = len(asked) == 3
    objective = "likelihood" if whole else "conditional"
    fit = lapis.learn(model, data, () if whole else asked, objective=objective, prior="none")
    worlds = brute_force(model, [facts], fit.parameters, asked)
    margins = np.unique(worlds.clamped[0].counts - worlds.free[0].counts, axis=0)
    assert (not fit.bounded.all()) == is_separable(margins)
    assert fit.converged == (not is_separable(margins))


IDLE = "P(x) v !P(x)", "P(x) ^ x != x"


@pytest.mark.parametrize("weight", [0, 7])
def test_what_no_count_depends_on_is_not_growing(weight: int) -> None:
    text = DECLARED + "".join(f"{weight} {formula}\n" for formula in IDLE)
    text += f"{weight} Q(x)\n{-weight} Q(x)\n"  # twice the same: their difference is open
    data = lapis.Database.parse("Q(A) Q(B) Q(C) P(A)")
    fit = lapis.learn(lapis.parse(text), data, "Q", prior="none")
    assert fit.bounded.all()
    assert fit.weights[2] + fit.weights[3] == pytest.approx(np.log(3))


@pytest.mark.parametrize("objective", ["conditional", "likelihood", "pseudo", "weighted-pseudo"])
def test_hidden_facts_do_not_hide_that_a_weight_has_no_bound(objective: str) -> None:
    model = lapis.parse("P(t)\nQ(t)\nR(t)\n0 P(x) => Q(x)\n0 Q(x) <=> R(x)\n0 R(x)")
    data = lapis.Database.parse("P(A) Q(A) P(B) Q(B) Q(C) !P(D) ?R(A) R(B) !R(D) R(C)")
    asked = () if objective == "likelihood" else ("Q", "R")
    fit = lapis.learn(model, data, asked, objective=objective, prior="none")
    assert [weight.formula for weight in fit.unbounded] == ["P(x) => Q(x)", "Q(x) <=> R(x)"]
    assert np.abs(fit.weights).max() <= 100.0


@pytest.mark.parametrize("objective", ["pseudo", "weighted-pseudo", "likelihood"])
def test_weights_without_a_penalty_of_their_own_may_have_no_bound(objective: str) -> None:
    """Nobody has R: its weight falls for ever, unless l1 holds it as it holds that of P."""
    model = lapis.parse(DECLARED + "0 P(x)\n0 R(x)\n")
    data = lapis.Database.parse("P(A) P(B) P(C) Q(A)")
    loose = lapis.Prior("l1", np.array([0.1, 0.0]))
    fit = lapis.learn(model, data, objective=objective, prior=loose)
    assert fit.bounded.tolist() == [True, False]
    held = lapis.learn(model, data, objective=objective, prior=lapis.Prior("l1", np.full(2, 0.01)))
    assert held.bounded.all()
