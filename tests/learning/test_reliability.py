"""Unbounded weights, standard errors, and bounds of count errors.

log P(data) rises without end along d exactly if no world has a larger d · n than the data, and some
world has a smaller one: the oracle enumerates the worlds, and linear programming finds d. Standard
errors are compared with the inverse of the curvature. Count errors are those of counts that are
perturbed on purpose, with likelihoods by enumeration (Theorem 1 of Sarkhel et al. 2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import lapis
import oracle
from brute_force import brute_force
from lapis.counting.ijgp import IjgpSettings
from lapis.learning.examples import build_examples
from lapis.learning.parameters import share_parameters
from lapis.learning.reliability import likelihood_bound, measure_errors, standard_errors
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


@dataclass(frozen=True)
class Curved:
    matrix: np.ndarray
    value: float = 0.0
    gradient_stderr: None = None

    @property
    def weights(self) -> np.ndarray:
        return np.zeros(len(self.matrix))

    @property
    def gradient(self) -> np.ndarray:
        return np.zeros(len(self.matrix))

    def curvature_diagonal(self) -> np.ndarray:
        return np.diag(self.matrix)

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return self.matrix @ direction


def test_full_errors_are_those_of_the_inverse() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5)) * np.array([1, 10, 100, 1, 1e3])[:, None]
    matrix = root @ root.T
    errors, method = standard_errors(Curved(matrix), full=True)
    assert method == "full"
    assert errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(matrix))), rel=1e-6)


def test_the_diagonal_bounds_them_from_below() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4))
    matrix = root @ root.T
    full, _ = standard_errors(Curved(matrix), full=True)
    diagonal, method = standard_errors(Curved(matrix), full=False)
    assert method == "diagonal"
    assert diagonal == pytest.approx(1 / np.sqrt(np.diag(matrix)))
    assert (diagonal <= full + 1e-12).all()


def test_undetermined_weights_have_none() -> None:
    # Weights 0 and 1 matter only through their sum, weight 2 not at all.
    matrix = np.array([[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [0.0] * 4, [0.0, 0.0, 0.0, 4.0]])
    errors, _ = standard_errors(Curved(matrix), full=True)
    assert np.isnan(errors).tolist() == [True, True, True, False]
    assert errors[3] == pytest.approx(0.5)


@pytest.mark.parametrize("full", [True, False])
def test_held_weights_are_as_if_they_were_not_there(full: bool) -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    matrix = root @ root.T
    held = np.array([False, True, False, True, False])
    errors, method = standard_errors(Curved(matrix), full=full, held=held)
    alone, same = standard_errors(Curved(matrix[np.ix_(~held, ~held)]), full=full)
    assert method == same
    assert np.isnan(errors[held]).all()
    assert errors[~held] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("objective", ["pseudo", "conditional"])
def test_errors_of_l1_are_of_the_weights_that_move(objective: str) -> None:
    """Three of ten have P, whether or not they have Q; a prior holds the rule of both at 0.

    The weight of P alone is then that of ten coins: its curvature is Σ p(1 − p).
    """
    model = lapis.parse("P(t)\nQ(t)\nP(x)\nP(x) ^ Q(x)")
    names = [f"A{i}" for i in range(10)]
    facts = [f"P({a})" for a in names[:3]] + [f"Q({a})" for a in names[::2]]
    data = lapis.Database.parse(f"t = {{{', '.join(names)}}}\n" + " ".join(facts))
    fit = lapis.learn(
        model, data, query=["P"], objective=objective, prior=lapis.Prior("l1", np.array([0.1, 9.0]))
    )
    assert fit.weights[1] == 0.0
    p = 1 / (1 + np.exp(-fit.weights[0]))
    assert fit.standard_errors is not None
    assert fit.standard_errors[0] == pytest.approx(1 / np.sqrt(10 * p * (1 - p)), rel=1e-9)
    assert np.isnan(fit.standard_errors[1])


def test_nothing_to_say_of_no_weights() -> None:
    errors, _ = standard_errors(Curved(np.zeros((0, 0))), full=True)
    assert errors.shape == (0,)


MODEL = """
E(n, n)
S(n)
E(x,y) ^ S(x) => S(y)
E(x,y) ^ E(y,x)
S(x)
"""
FACTS = oracle.Facts(true=(("E", ("A", "B")), ("E", ("B", "A")), ("S", ("A",)), ("E", ("A", "A"))))


def all_counts() -> tuple[np.ndarray, int]:
    """float64[num_worlds, num_weights] of every world, and which of them is the data."""
    model = lapis.parse(MODEL)
    domains = oracle.constants_of(model, FACTS)
    observed = oracle.observed_world(model, FACTS, domains)
    worlds = oracle.worlds_agreeing_with(dict.fromkeys(observed.column))
    weighing = oracle.weigh(model, domains, worlds)
    counts = [weighing.counts[key] for key in oracle.weight_keys(model, domains)]
    [data] = np.flatnonzero((worlds.truth == observed.truth[0]).all(axis=1))
    return np.stack(counts, axis=1).astype(float), int(data)


def log_likelihood(counts: np.ndarray, data: int, weights: np.ndarray) -> float:
    return float(counts[data] @ weights) - oracle.log_sum_exp(counts @ weights)


def maximise(counts: np.ndarray, data: int) -> np.ndarray:
    found = minimize(
        lambda w: -log_likelihood(counts, data, w), np.zeros(counts.shape[1]), method="L-BFGS-B"
    )
    weights: np.ndarray = found.x
    return weights


@pytest.mark.parametrize("seed", range(6))
def test_perturbed_counts_lose_no_more_than_the_bound(seed: int) -> None:
    counts, data = all_counts()
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.05, 1.0, counts.shape[1])
    shift = errors * rng.uniform(-1.0, 1.0, counts.shape)
    # Shifting the data against the rest is the worst that can happen.
    if seed % 2:
        shift = np.full(counts.shape, 1.0) * -errors
        shift[data] = errors
    perturbed = counts + shift
    exact, approximate = maximise(counts, data), maximise(perturbed, data)
    loss = log_likelihood(counts, data, exact) - log_likelihood(counts, data, approximate)
    both = [likelihood_bound(weights, errors).value for weights in (exact, approximate)]
    assert 0.0 <= loss + 1e-9 <= sum(both)
    for weights in (exact, approximate, rng.normal(size=len(errors))):
        off = log_likelihood(counts, data, weights) - log_likelihood(perturbed, data, weights)
        assert abs(off) <= likelihood_bound(weights, errors).value + 1e-9


def test_lemma_is_tight() -> None:
    """All worlds but the data raised, the data lowered: the lemma's value is nearly reached."""
    counts, data = all_counts()
    weights = np.array([0.3, 0.2, 0.1])
    errors = np.full(3, 0.01)
    shift = np.full(counts.shape, 0.01)
    shift[data] = -0.01
    off = log_likelihood(counts, data, weights) - log_likelihood(counts + shift, data, weights)
    share = np.exp(log_likelihood(counts, data, weights))  # the data's own part of Z
    assert off == pytest.approx(likelihood_bound(weights, errors).value * (1 - share), rel=1e-3)


def test_words() -> None:
    bound = likelihood_bound(np.array([1.5, -2.0]), np.array([0.5, 0.0]))
    assert (bound.value, bound.largest_error) == (1.5, 0.5)
    assert "is off by at most 1.5" in bound.words
    assert "other worlds, which were not measured" in bound.words


def test_measured_errors_of_the_data() -> None:
    model = lapis.parse("E(n, n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x)\nE(x,y)\nE(x,+y) ^ E(+y,x)")
    facts = " ".join(f"E({a},{b})" for a in range(5) for b in range(5) if (b - a) % 5 in (1, 2))
    databases = [lapis.Database.parse(facts), lapis.Database.parse("E(0,1) E(1,0)")]
    examples = build_examples(model, databases)
    parameters = share_parameters(model, [example.complete for example in examples])
    exact = measure_errors(examples, parameters, IjgpSettings(4))
    np.testing.assert_array_equal(exact, np.zeros(len(parameters)))
    rough = measure_errors(examples, parameters, IjgpSettings(1))
    assert rough[0] > 0.0
    assert rough[1] == 0.0
