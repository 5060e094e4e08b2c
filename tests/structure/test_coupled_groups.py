"""Predicates given the others: scores and weights compared with enumerated likelihoods."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import lapis
from cli_run import Run
from lapis.optimisation.replay_log import ReplayLog
from lapis.runtime.progress import Stop
from lapis.structure.candidates import Candidate, PathAtom, canonicalize_clause, sign_patterns
from lapis.structure.clause_scores import Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.learned_rules import CONDITIONAL, PSEUDO
from lapis.structure.pricing import nat_pricing
from lapis.structure.rule_search import RuleSearch
from lapis.structure.select import CoupledGroup, fits_networks, ground_group, refit_groups
from lapis.structure.training_data import TrainingData, join_worlds

MODEL = lapis.parse("P(a)\nQ(a)\nR(a, b)\nT(b)")
CONSTANTS = {"a": ["A1", "A2", "A3"], "b": ["B1", "B2"]}
GROUPS = (("P", "Q"), ("R",), ("T",))
World = dict[tuple[str, tuple[str, ...]], bool]


def random_world(seed: int) -> World:
    generator = np.random.default_rng(seed)
    return {
        (name, row): bool(generator.random() < 0.5)
        for name, predicate in MODEL.predicates.items()
        for row in product(*(CONSTANTS[t] for t in predicate.types))
    }


def database(world: World) -> lapis.Database:
    facts = [f"{'' if v else '!'}{n}({','.join(row)})" for (n, row), v in world.items()]
    return lapis.Database.parse(" ".join(facts))


WORLDS = [random_world(4), random_world(24)]
DATABASES = [database(world) for world in WORLDS]


def join(groups: tuple[tuple[str, ...], ...] = GROUPS) -> TrainingData:
    problems = [lapis.build_problem(MODEL, data) for data in DATABASES]
    return join_worlds(MODEL, problems, list(MODEL.predicates), groups)


def counts(clauses: list[Candidate], world: World) -> np.ndarray:
    """Count true groundings of clauses, then true atoms of predicates."""
    found = []
    for clause in clauses:
        kinds = {
            v: t
            for atom in clause.path
            for v, t in zip(atom.variables, MODEL.predicates[atom.predicate].types, strict=True)
        }
        found.append(0.0)
        for values in product(*(CONSTANTS[t] for t in kinds.values())):
            value = dict(zip(kinds, values, strict=True))
            found[-1] += any(
                world[atom.predicate, tuple(value[v] for v in atom.variables)] == positive
                for atom, positive in clause.literals
            )
    found += [sum(v for (n, _), v in world.items() if n == name) for name in MODEL.predicates]
    return np.array(found, np.float64)


class Likelihoods:
    """Σ over groups of |G| / atoms · log P(group | rest), by enumeration."""

    def __init__(self, clauses: list[Candidate], groups: tuple[tuple[str, ...], ...]) -> None:
        self.size = len(clauses) + len(MODEL.predicates)
        self.parts = []
        for group in groups:
            unknown = [atom for atom in WORLDS[0] if atom[0] in group]
            for world in WORLDS:
                others = [
                    counts(clauses, {**world, **dict(zip(unknown, values, strict=True))})
                    for values in product((False, True), repeat=len(unknown))
                ]
                share = len(group) / (len(unknown) * len(WORLDS))
                self.parts.append((share, counts(clauses, world), np.array(others)))

    def value(self, weights: np.ndarray) -> float:
        return sum(
            share * float(true @ weights - np.logaddexp.reduce(others @ weights))
            for share, true, others in self.parts
        )

    def best(self, penalty: np.ndarray) -> float:
        found = minimize(
            lambda w: float(penalty @ w**2) / 2 - self.value(w), np.zeros(self.size), method="BFGS",
            options={"gtol": 1e-8},
        )  # fmt: skip
        return -float(found.fun)


ALONE = (PathAtom("P", (0,)), PathAtom("R", (0, 1)), PathAtom("T", (1,)))
COUPLED = (PathAtom("R", (0, 1)), PathAtom("R", (2, 1)), PathAtom("T", (1,)))
BOTH = (PathAtom("P", (0,)), PathAtom("Q", (0,)), PathAtom("R", (0, 1)))
WITHIN = (PathAtom("P", (0,)), PathAtom("Q", (0,)))


@pytest.mark.parametrize(("path", "groups"), [(ALONE, GROUPS), (BOTH, (("R",),))])
def test_a_score_is_the_gain_in_the_likelihood_of_the_groups(
    path: tuple[PathAtom, ...], groups: tuple[tuple[str, ...], ...]
) -> None:
    """A coupling clause is scored for the groups that it does not couple."""
    own = canonicalize_clause(path).path
    zero = np.zeros(len(MODEL.predicates))
    none = Likelihoods([], groups).best(zero)
    scores = Scorer(join()).score(own, sign_patterns(own))
    bounded = [score for score in scores if 0.01 < abs(score.weight) < 3]
    assert bounded
    for score in bounded[:3]:
        best = Likelihoods([score.candidate], groups).best(np.zeros(1 + len(zero)))
        assert score.gain == pytest.approx(best - none, abs=1e-6)


def test_a_clause_inside_a_group_has_no_score() -> None:
    own = canonicalize_clause(WITHIN).path
    assert Scorer(join()).score(own, sign_patterns(own)) == []
    assert Scorer(join(())).score(own, sign_patterns(own)) != []


def test_weights_are_those_of_the_likelihoods_of_all_groups() -> None:
    data = join()
    log = ReplayLog()
    search = RuleSearch(MODEL, DATABASES, Scorer(data), 1, time.monotonic(), None, Stop(), log)
    clauses = [canonicalize_clause(ALONE, 3), canonicalize_clause(COUPLED, 4)]
    ensemble = Ensemble(data, search.scorer.sums)
    for clause in clauses:
        assert fits_networks(search, ensemble, clause)
        ensemble.add(clause)
    l2 = 0.02
    refit_groups(search, ensemble, l2)
    likelihoods = Likelihoods(clauses, GROUPS)
    point = np.concatenate([ensemble.weights, ensemble.units])
    penalty = np.array([l2, l2, *[l2] * len(MODEL.predicates)])
    assert ensemble.value == pytest.approx(likelihoods.value(point), abs=1e-9)
    penalised = ensemble.value - float(penalty @ point**2) / 2
    assert penalised == pytest.approx(likelihoods.best(penalty), abs=1e-7)


def test_a_clause_is_left_out_of_networks_that_cannot_be_summed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = join()
    log = ReplayLog()
    search = RuleSearch(MODEL, DATABASES, Scorer(data), 1, time.monotonic(), None, Stop(), log)
    monkeypatch.setattr("lapis.structure.select.MAX_TABLES", 1)
    ensemble = Ensemble(data, search.scorer.sums)
    coupling = canonicalize_clause(COUPLED, 4)
    assert fits_networks(search, ensemble, coupling)
    assert ensemble.left_out == {(("R",), coupling)}
    assert ensemble.coupled_groups(coupling) == []
    assert fits_networks(search, ensemble, canonicalize_clause(ALONE, 3))
    ensemble.add(coupling)
    search.refit(ensemble, l2=0.02)
    weights = ensemble.weights.copy()
    refit_groups(search, ensemble, 0.02)
    assert (ensemble.weights == weights).all()


def test_learned_values_are_conditional_likelihoods() -> None:
    """Compare the reported value with the likelihood of the model that was written."""
    found = lapis.learn_structure(
        MODEL,
        DATABASES,
        conditioning="predicates",
        joint_targets="P,Q",
        max_literals=3,
        jobs=1,
        max_clauses=4,
    )
    total = 0.0
    for group, world in product(GROUPS, WORLDS):
        rows = lapis.count(found.model, database(world)).rows
        score = sum(row.true * rule.weight for row, rule in zip(rows, found.rules, strict=True))
        given = database({atom: value for atom, value in world.items() if atom[0] not in group})
        answer = lapis.infer(found.model, given, query=list(group), method="exact")
        atoms = sum(name in group for name, _ in world) * len(WORLDS)
        total += len(group) / atoms * (score - answer.log_partition)
    assert found.value == pytest.approx(total, abs=1e-8)
    assert found.document()["measure"].startswith("log-likelihood of predicates given the others")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            "--conditioning atoms --joint-targets Smokes,Cancer",
            "error: joint targets are conditioned on other predicates, not on other atoms\n"
            "    use --conditioning predicates\n",
        ),
        (
            "--joint-targets Smokes,Cancer -q Smokes",
            "error: 'Cancer' cannot be a joint target: it is not a target\n",
        ),
        (
            "--joint-targets Smokes,Cancer --joint-targets Cancer,Friends",
            "error: 'Cancer' cannot be a joint target: it is in two groups\n",
        ),
        (
            "--method msl --conditioning predicates",
            "error: method 'msl' does not read --conditioning\n    it belongs to lapis\n",
        ),
    ],
)
def test_messages(typed: str, message: str, run: Run) -> None:
    code, out, err = run("structure", "m.mln", "d.db", *typed.split())
    assert (code, out) == (1, "")
    assert err.endswith(message)


def test_what_is_checked_is_what_is_refitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory limit includes unit clauses and clauses that couple nothing."""
    data = join()
    log = ReplayLog()
    search = RuleSearch(MODEL, DATABASES, Scorer(data), 1, time.monotonic(), None, Stop(), log)
    ensemble = Ensemble(data, search.scorer.sums)
    ensemble.add(canonicalize_clause(ALONE, 3))
    seen: list[tuple[object, ...]] = []

    def record(
        search: RuleSearch, own: Ensemble, clauses: Sequence[Candidate], group: tuple[str, ...]
    ) -> CoupledGroup:
        seen.append((*clauses, group))
        return ground_group(search, own, clauses, group)

    monkeypatch.setattr("lapis.structure.select.ground_group", record)
    assert fits_networks(search, ensemble, canonicalize_clause(COUPLED, 4))
    checked = list(seen)
    ensemble.add(canonicalize_clause(COUPLED, 4))
    seen.clear()
    refit_groups(search, ensemble, 0.02)
    assert checked == seen != []


def test_predicates_are_conditioned_on_the_others_by_default() -> None:
    ask: dict[str, Any] = {"max_literals": 3, "penalty": 0.001, "jobs": 1}
    found = lapis.learn_structure(MODEL, DATABASES, **ask)
    same = lapis.learn_structure(MODEL, DATABASES, conditioning="predicates", **ask)
    assert found.measure == CONDITIONAL
    assert (found.rules, found.value) == (same.rules, same.value)


def test_a_single_predicate_is_conditioned_on_its_other_atoms() -> None:
    facts = [f"R(A{i}, A{j})" for i in range(12) for j in range(12) if (i + j) % 3 == 0]
    model, data = lapis.parse("R(a, a)"), lapis.Database.parse(" ".join(facts))
    found = lapis.learn_structure(model, data, max_literals=2, penalty=0.01, jobs=1)
    assert found.measure == PSEUDO
    assert any(rule.text.count("R(") == 2 for rule in found.rules)


def test_a_world_is_one_observation_of_a_clause_that_couples_atoms() -> None:
    """The prior has width 5 on the largest log-odds that the clause gives an atom."""
    data = join()
    log = ReplayLog()
    search = RuleSearch(MODEL, DATABASES, Scorer(data), 1, time.monotonic(), None, Stop(), log)
    ensemble = Ensemble(data, search.scorer.sums, pricing=nat_pricing(data))
    ensemble.add(canonicalize_clause(COUPLED, 4))
    scale, ridge = ensemble.scales(None)
    refit_groups(search, ensemble, None)
    precision = [1 / (len(WORLDS) * 5.0**2), *ridge[1:]] * scale**2
    point = np.concatenate([ensemble.weights, ensemble.units])
    penalised = ensemble.value - float(precision @ point**2) / 2
    own = Likelihoods(ensemble.clauses, GROUPS)
    assert penalised == pytest.approx(own.best(precision), abs=1e-6)
