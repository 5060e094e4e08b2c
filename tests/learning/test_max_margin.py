"""Max-margin weights against the constraints of all worlds, taken from the definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import lapis
import oracle
from brute_force import ensemble, facts_groups
from lapis.inference.exact.by_components import plan_exact
from lapis.inference.exact.treewidth_bounds import Division
from lapis.inference.map import solver as map_solver
from lapis.inference.marginals import InferenceOptions
from lapis.language.model import Model
from lapis.learning import max_margin
from lapis.learning.examples import Example, build_examples
from lapis.learning.max_margin import Margin, fit_max_margin
from lapis.learning.objectives.priors import Prior, expand_prior
from lapis.learning.parameters import Parameters, share_parameters
from lapis.network import Network
from lapis.network.components import keep_part
from lapis.runtime.progress import Progress
from oracle import Facts, NoWorld
from strategies import Case, cases

SMOKING = """
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Friends(x, +y) ^ Cancer(x)
@fixed -0.5 Smokes(x)
"""
SMOKERS = (
    "Smokes(A) Cancer(A) Smokes(B) Friends(A,B) Friends(B,C) Cancer(C)",
    "Smokes(E) Friends(E,A) Friends(A,F) Cancer(F) Cancer(E)",
)
TOPICS = """
topic = {Art, Maths, Law}
Topic(page, topic!)
Draft(page)
Has(page, word)
Link(page, page)
Has(p, +w) => Topic(p, +t)
Link(p, q) ^ Topic(p, t) => Topic(q, t)
Draft(p) <=> Topic(p, Law)
"""
PAGES = (
    "Topic(P,Art) Topic(Q,Law) Topic(R,Art) Has(P,X) Has(Q,Y) Has(Q,X) Link(P,R) Draft(Q)",
    "Topic(S,Maths) Topic(T,Maths) Has(S,Z) Has(T,Y) Link(T,S) Draft(S)",
)
HARD = """
A(thing)
B(thing)
C(thing, thing)
A(x) => B(x).
A(x) ^ C(x, y) => A(y)
EXIST y (C(x, y) ^ B(y)) => A(x)
"""
THINGS = ("A(X) B(X) B(Y) C(X,Y) C(Y,X)", "B(U) C(U,U)")


class Constraints:
    """n(y) − n(y') and Δ(y, y') of every world y' of every example."""

    def __init__(
        self, model: Model, worlds: Sequence[Facts], parameters: Parameters, asked: Sequence[str]
    ) -> None:
        self.parts = []
        for facts in worlds:
            domains = oracle.constants_of(model, facts)
            given = Facts(*(tuple(a for a in g if a[0] not in asked) for g in facts_groups(facts)))
            known = oracle.known_atoms(model, given, domains, set(asked))
            truth = oracle.known_atoms(model, facts, domains, set())
            all_worlds = oracle.worlds_agreeing_with(known)
            possible = oracle.weigh(model, domains, all_worlds).possible
            errors = np.zeros(len(possible))
            for name in asked:
                for cell in oracle.cells_of(model.predicates[name], domains):
                    if not model.predicates[name].block:
                        right = all_worlds[cell.atoms[0]] == truth[cell.atoms[0]]
                    else:
                        right = all_worlds.constantly(True)
                        for atom in cell.atoms:
                            right &= all_worlds[atom] == truth[atom]
                    errors += ~right
            observed = ensemble(model, domains, parameters, truth).counts
            counts = ensemble(model, domains, parameters, known).counts
            rows = np.column_stack([observed - counts, errors[possible]])
            self.parts.append(np.unique(rows, axis=0))

    def hinge(self, weights: np.ndarray) -> float:
        return sum(float((rows[:, -1] - rows[:, :-1] @ weights).max()) for rows in self.parts)

    def cost(self, weights: np.ndarray, prior: Prior, fixed: np.ndarray, price: float) -> float:
        away = (weights - expand_prior(prior, len(weights)).mean)[~fixed]
        penalty = 0.5 * float(expand_prior(prior, len(weights)).precision[~fixed] @ away**2)
        return penalty + price * self.hinge(weights)

    def solve(self, parameters: Parameters, prior: Prior, price: float) -> np.ndarray:
        """float64[num_parameters], by SLSQP with a slack an example and all constraints."""
        free = np.flatnonzero(~parameters.fixed)
        size, slacks = len(free), len(self.parts)
        base = np.where(parameters.fixed, parameters.initial, 0.0)
        mean = expand_prior(prior, len(parameters)).mean[free]
        precision = expand_prior(prior, len(parameters)).precision[free]
        rows = np.vstack([part[:, free] for part in self.parts])
        which = np.repeat(np.eye(slacks), [len(part) for part in self.parts], axis=0)
        need = np.concatenate([part[:, -1] - part[:, :-1] @ base for part in self.parts])
        matrix = np.column_stack([rows, which])

        def loss(x: np.ndarray) -> float:
            return 0.5 * float(precision @ (x[:size] - mean) ** 2) + price * float(x[size:].sum())

        def slope(x: np.ndarray) -> np.ndarray:
            return np.concatenate([precision * (x[:size] - mean), np.full(slacks, price)])

        start = np.concatenate([mean, np.full(slacks, float((need - rows @ mean).max()))])
        held = {"type": "ineq", "fun": lambda x: matrix @ x - need, "jac": lambda _: matrix}
        found = minimize(
            loss, start, jac=slope, method="SLSQP", constraints=held,
            options={"ftol": 1e-13, "maxiter": 1000},
        )  # fmt: skip
        weights = base.copy()
        weights[free] = found.x[:size]
        return weights


def set_up(
    text: str, data: Sequence[str], asked: Sequence[str]
) -> tuple[list[Example], Parameters, Constraints]:
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse(d) for d in data], asked)
    parameters = share_parameters(model, [example.free for example in examples])
    return examples, parameters, Constraints(model, [facts_of(d) for d in data], parameters, asked)


def facts_of(text: str) -> Facts:
    found = [word.rstrip(")").split("(") for word in text.split()]
    return Facts(tuple((name, tuple(inner.split(","))) for name, inner in found))


def assert_best(
    found: Margin, constraints: Constraints, parameters: Parameters, prior: Prior, price: float
) -> None:
    """The value is J, and no world makes it wrong; a general solver finds nothing better."""
    fixed = parameters.fixed
    weights = found.trajectory.weights
    cost = constraints.cost(weights, prior, fixed, price)
    assert found.trajectory.converged
    assert found.proven
    assert found.trajectory.value == pytest.approx(-cost, rel=1e-9, abs=1e-9)
    assert weights[fixed] == pytest.approx(parameters.initial[fixed])
    best = constraints.solve(parameters, prior, price)
    least = constraints.cost(best, prior, fixed, price)
    assert cost <= least + 1e-6 * max(1.0, least)
    assert cost - found.gap <= least + 1e-9
    assert weights == pytest.approx(best, abs=1e-2)


@given(cases(observed=True), st.sampled_from((0.5, 3.0)), st.sampled_from((1.0, 0.25)))
def test_random_models(case: Case, width: float, price: float) -> None:
    model = lapis.parse(case.model)
    examples = build_examples(model, [lapis.Database.parse(case.data)], case.query)
    parameters = share_parameters(model, [examples[0].free])
    prior = Prior("gaussian", width, 0.1)
    try:
        constraints = Constraints(model, [case.facts], parameters, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            fit_max_margin(examples, parameters, prior)
        return
    found = fit_max_margin(examples, parameters, prior, slack_cost=price, tolerance=1e-7)
    assert_best(found, constraints, parameters, prior, price)


WORLDS = {
    "smokers": (SMOKING, SMOKERS, ("Smokes", "Cancer")),
    "pages": (TOPICS, PAGES, ("Topic", "Draft")),
    "hard rules": (HARD, THINGS, ("A", "B")),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("width", [0.3, 5.0])
def test_several_worlds(name: str, width: float) -> None:
    examples, parameters, constraints = set_up(*WORLDS[name])
    prior = Prior("gaussian", width)
    found = fit_max_margin(examples, parameters, prior, tolerance=1e-7)
    assert_best(found, constraints, parameters, prior, 1.0)
    assert found.num_cuts == found.trajectory.iterations == len(found.trajectory.curve)


def solve_nothing(network: Network, max_memory: int) -> Division:
    """As if no component could be eliminated."""
    none = keep_part(network, np.zeros(network.num_atoms, bool))
    everything = keep_part(network, np.ones(network.num_atoms, bool))
    return Division(plan_exact(none.network, max_memory), none.atom, everything)


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_found_by_integer_programming(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Components too large for elimination: here all of them."""
    monkeypatch.setattr(max_margin, "divide_network", solve_nothing)
    examples, parameters, constraints = set_up(*WORLDS[name])
    prior = Prior("gaussian", 1.0)
    solved: list[int] = []
    solve = map_solver.most_likely_world

    def watched(*args: object, **options: object) -> map_solver.MapResult:
        result = solve(*args, **options)  # type: ignore[arg-type]
        solved.append(len(result.world))
        return result

    monkeypatch.setattr(map_solver, "most_likely_world", watched)
    found = fit_max_margin(examples, parameters, prior, tolerance=1e-7)
    assert_best(found, constraints, parameters, prior, 1.0)
    assert solved


def test_search_without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where worlds are not proven to be the worst, the gap still bounds the distance."""
    monkeypatch.setattr(max_margin, "divide_network", solve_nothing)
    solve = map_solver.most_likely_world
    rng = np.random.default_rng(0)

    def lazy(network: Network, method: str, options: InferenceOptions) -> map_solver.MapResult:
        """Now and then some other world, with how much worse it may be than the best."""
        best = solve(network, method, options)
        if rng.random() < 0.5:
            return best
        world = rng.random(network.num_atoms) < 0.5
        return replace(best, world=world, gap=best.score - network.score(world), optimal=False)

    monkeypatch.setattr(map_solver, "most_likely_world", lazy)
    examples, parameters, constraints = set_up(*WORLDS["smokers"])
    prior = Prior("gaussian", 1.0)
    found = fit_max_margin(examples, parameters, prior, max_iterations=30)
    cost = constraints.cost(found.trajectory.weights, prior, parameters.fixed, 1.0)
    best = constraints.solve(parameters, prior, 1.0)
    least = constraints.cost(best, prior, parameters.fixed, 1.0)
    assert not found.proven
    assert found.gap >= cost - least - 1e-9
    assert -found.trajectory.value >= cost - 1e-9  # type: ignore[operator]


def test_separable_data_is_predicted_right() -> None:
    """With a wide prior the most likely world given the evidence is that of the data."""
    examples, parameters, constraints = set_up(TOPICS, PAGES, ("Topic",))
    found = fit_max_margin(examples, parameters, Prior("gaussian", 20.0), tolerance=1e-6)
    assert constraints.hinge(found.trajectory.weights) <= 1e-2
    for rows in constraints.parts:
        wrong = rows[rows[:, -1] > 0]
        assert (wrong[:, :-1] @ found.trajectory.weights > 0).all()


def test_everything_fixed() -> None:
    examples, parameters, constraints = set_up(
        "A(thing)\nB(thing)\n@fixed 0.5 A(x) => B(x)", ["A(X) B(X) B(Y)"], ["B"]
    )
    found = fit_max_margin(examples, parameters, Prior("gaussian", 1.0))
    assert found.trajectory.weights.tolist() == [0.5]
    assert found.trajectory.value == pytest.approx(-constraints.hinge(np.array([0.5])))
    assert found.trajectory.converged


def test_progress_and_limits() -> None:
    examples, parameters, _ = set_up(*WORLDS["smokers"])
    seen: list[Progress] = []
    prior = Prior("gaussian", 1.0)
    few = fit_max_margin(
        examples, parameters, prior, tolerance=1e-9, max_iterations=2, progress=seen.append
    )
    assert [step.done for step in seen] == [1, 2]
    assert seen[-1].weights == pytest.approx(few.trajectory.weights)
    assert few.trajectory.reason == "2 iterations"
    assert not few.trajectory.converged
    stopped = fit_max_margin(examples, parameters, prior, should_stop=lambda: True)
    assert stopped.trajectory.interrupted


@pytest.mark.parametrize(
    ("text", "data", "prior", "code"),
    [
        ("B(thing)\n0 B(x)", "B(X)", Prior("none", 0.0), "prior"),
        ("B(thing)\n0 B(x)", "B(X)", Prior("l1", 1.0), "prior"),
        ("B(thing)\n0 B(x)", "B(X) ?B(Y)", Prior("gaussian", 1.0), "incomplete-data"),
        ("B(thing)\n1 B(x)\n!B(X).", "B(X)", Prior("gaussian", 1.0), "hard-contradiction"),
    ],
    ids=["no prior", "l1", "hidden", "hard rule"],
)
def test_refusals(text: str, data: str, prior: Prior, code: str) -> None:
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse(data)], ["B"])
    parameters = share_parameters(model, [example.free for example in examples])
    with pytest.raises(lapis.LapisError) as error:
        fit_max_margin(examples, parameters, prior)
    assert error.value.code == code
