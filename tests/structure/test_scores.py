"""Scores, differences and joint weights, compared with their definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lapis
from lapis.structure.candidates import (
    Candidate,
    PathAtom,
    canonicalize_clause,
    is_condensed,
    is_connected,
    sign_patterns,
    sub_clauses,
    write_clause,
)
from lapis.structure.clause_scores import Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.path_differences import PartSums
from lapis.structure.training_data import TrainingData, join_worlds

DECLARED = "P(a)\nQ(a)\nR(a, a)\nS(a, b)\nT(b)\n"
MODEL = lapis.parse(DECLARED)
ARITY = {name: p.arity for name, p in MODEL.predicates.items()}
TYPES = {name: p.types for name, p in MODEL.predicates.items()}


@given(st.data())
def test_a_condensed_clause_has_no_smaller_image(data: st.DataObject) -> None:
    """By definition: some substitution of variables makes the clause smaller."""
    atoms = st.builds(
        lambda name, left, right: PathAtom(name, (left, right)[: ARITY[name]]),
        st.sampled_from(["P", "Q", "R"]), st.integers(0, 3), st.integers(0, 3),
    )  # fmt: skip
    path = tuple(data.draw(st.lists(atoms, min_size=1, max_size=4, unique=True)))
    clause = Candidate(path, data.draw(st.integers(0, 2 ** len(path) - 1)))
    literals = set(clause.literals)
    names = sorted({name for atom in path for name in atom.variables})
    images = [
        {
            (PathAtom(atom.predicate, tuple(to[name] for name in atom.variables)), sign)
            for atom, sign in literals
        }
        for to in (
            dict(zip(names, others, strict=True)) for others in product(names, repeat=len(names))
        )
    ]
    assert is_condensed(clause) == (not any(image < literals for image in images))


@st.composite
def worlds(draw: st.DrawFn) -> list[lapis.Database]:
    """Draw one or two small worlds with some true atoms."""
    found = []
    for _ in range(draw(st.integers(1, 2))):
        constants = {"a": ["A1", "A2", "A3"][: draw(st.integers(1, 3))], "b": ["B1", "B2"]}
        facts = []
        for name, types in TYPES.items():
            for row in product(*(constants[t] for t in types)):
                mark = "" if draw(st.booleans()) else "!"
                facts.append(f"{mark}{name}({','.join(row)})")
        found.append(lapis.Database.parse(" ".join(facts)))
    return found


@st.composite
def paths(draw: st.DrawFn) -> tuple[PathAtom, ...]:
    """Draw two or three connected atoms; variables 0–2 are of type a, 3–4 of type b."""
    variables = {"a": [0, 1, 2], "b": [3, 4]}
    atoms = draw(
        st.lists(
            st.sampled_from(sorted(TYPES)).flatmap(
                lambda n: st.tuples(*(st.sampled_from(variables[t]) for t in TYPES[n])).map(
                    lambda v: PathAtom(n, v)
                )
            ),
            min_size=2,
            max_size=3,
            unique=True,
        ).filter(lambda a: is_connected(tuple(a)))
    )
    return canonicalize_clause(tuple(atoms)).path


def join(databases: list[lapis.Database]) -> TrainingData:
    problems = [lapis.build_problem(MODEL, database) for database in databases]
    return join_worlds(MODEL, problems, list(MODEL.predicates))


def truths(database: lapis.Database) -> dict[tuple[str, tuple[str, ...]], bool]:
    """Return every ground atom of a world and its value, from the text of the facts."""
    problem = lapis.build_problem(MODEL, database)
    found = {}
    for name, types in TYPES.items():
        domains = [problem.domains[t].constants for t in types]
        true = {
            tuple(domains[at][c] for at, c in enumerate(row))
            for row in problem.evidence[name].true.tolist()
        }
        for row in product(*domains):
            found[name, row] = row in true
    return found


def count_true(candidate: Candidate, world: dict[tuple[str, tuple[str, ...]], bool]) -> int:
    """Count the true groundings of a clause, one by one."""
    names = sorted({v for atom in candidate.path for v in atom.variables})
    kinds = {
        v: t
        for atom in candidate.path
        for v, t in zip(atom.variables, TYPES[atom.predicate], strict=True)
    }
    constants = {
        t: sorted({row[at] for (n, row) in world for at, k in enumerate(TYPES[n]) if k == t})
        for t in ("a", "b")
    }
    total = 0
    for values in product(*(constants[kinds[v]] for v in names)):
        value = dict(zip(names, values, strict=True))
        total += any(
            world[atom.predicate, tuple(value[v] for v in atom.variables)] == positive
            for atom, positive in candidate.literals
        )
    return total


def brute_differences(
    candidate: Candidate, database: lapis.Database, predicate: str
) -> list[tuple[float, bool]]:
    world = truths(database)
    found = []
    for atom, truth in world.items():
        if atom[0] == predicate:
            counts = [count_true(candidate, {**world, atom: value}) for value in (False, True)]
            found.append((float(counts[1] - counts[0]), truth))
    return found


@settings(max_examples=25)
@given(worlds(), paths(), st.integers(0, 7))
def test_differences_are_those_of_flipped_worlds(
    databases: list[lapis.Database], path: tuple[PathAtom, ...], signs: int
) -> None:
    candidate = canonicalize_clause(path, signs % (1 << len(path)))
    data = join(databases)
    sums = PartSums(data)
    for name in {atom.predicate for atom in path}:
        classes = sums.differences(candidate.path, name).classes()
        found = classes.differences(candidate.positive, len(candidate))
        expected: dict[tuple[float, bool], float] = {}
        for database in databases:
            for key in brute_differences(candidate, database, name):
                expected[key] = expected.get(key, 0) + 1
        got: dict[tuple[float, bool], float] = {}
        for d, truth, number in zip(found, classes.truth, classes.multiplicity, strict=True):
            got[float(d), bool(truth)] = got.get((float(d), bool(truth)), 0) + number
        assert {k: v for k, v in got.items() if v} == expected


class Table:
    """All atoms with their differences, by definition."""

    def __init__(self, clauses: list[Candidate], databases: list[lapis.Database]) -> None:
        self.parts = []
        for place, name in enumerate(TYPES):
            truth = [t for d in databases for (n, _), t in truths(d).items() if n == name]
            columns = [
                [d for database in databases for d, _ in brute_differences(c, database, name)]
                for c in clauses
            ]
            units = np.zeros((len(truth), len(TYPES)))
            units[:, place] = 1.0
            matrix = np.concatenate(
                [np.array(columns).reshape(len(clauses), len(truth)).T, units], axis=1
            )
            self.parts.append((matrix, np.array(truth)))

    def wpll(self, weights: np.ndarray) -> float:
        """Return Σ_r mean over r's atoms of log P(atom | others)."""
        return -sum(
            float(np.logaddexp(0.0, np.where(truth, -1, 1) * (matrix @ weights)).mean())
            for matrix, truth in self.parts
        )

    def best(self, l2: float) -> float:
        """Maximise the WPLL minus the penalty by another optimiser."""
        found = minimize(
            lambda w: l2 / 2 * float(w @ w) - self.wpll(w),
            np.zeros(self.parts[0][0].shape[1]),
            method="BFGS",
            options={"gtol": 1e-8},
        )
        return -float(found.fun)


def random_world(seed: int, num_a: int, num_b: int) -> lapis.Database:
    generator = np.random.default_rng(seed)
    constants = {"a": [f"A{i}" for i in range(num_a)], "b": [f"B{i}" for i in range(num_b)]}
    facts = [
        f"{'' if generator.random() < 0.4 else '!'}{name}({','.join(row)})"
        for name, types in TYPES.items()
        for row in product(*(constants[t] for t in types))
    ]
    return lapis.Database.parse(" ".join(facts))


WORLD = random_world(3, 4, 4)


@pytest.mark.parametrize(
    "path",
    [
        (PathAtom("P", (0,)), PathAtom("R", (0, 1))),
        (PathAtom("R", (0, 1)), PathAtom("R", (1, 0))),
        (PathAtom("Q", (0,)), PathAtom("S", (0, 3)), PathAtom("T", (3,))),
    ],
)
def test_a_score_is_the_gain_at_the_best_weights(path: tuple[PathAtom, ...]) -> None:
    """Compare with another optimiser; if the optimum is at infinity, with its best value."""
    scorer = Scorer(join([WORLD]))
    none = Table([], [WORLD]).best(0.0)
    bounded = 0
    for score in scorer.score(
        canonicalize_clause(path).path, sign_patterns(canonicalize_clause(path).path)
    ):
        best = Table([score.candidate], [WORLD]).best(0.0)
        assert score.gain >= best - none - 1e-7
        if abs(score.weight) < 5:
            bounded += 1
            assert score.gain == pytest.approx(best - none, abs=1e-6)
    assert bounded


def test_joint_weights_are_the_maximum() -> None:
    data = join([WORLD])
    clauses = [
        canonicalize_clause((PathAtom("P", (0,)), PathAtom("R", (0, 1))), 1),
        canonicalize_clause((PathAtom("R", (0, 1)), PathAtom("R", (1, 0))), 2),
        canonicalize_clause((PathAtom("Q", (0,)), PathAtom("P", (0,))), 1),
    ]
    ensemble = Ensemble(data, PartSums(data))
    for clause in clauses:
        ensemble.add(clause)
    l2 = 0.05
    value = ensemble.refit(l2=l2)
    point = np.concatenate([ensemble.weights, ensemble.units])
    table = Table(clauses, [WORLD])
    assert value == pytest.approx(table.wpll(point), abs=1e-9)
    penalised = value - l2 / 2 * float(point @ point)
    assert penalised == pytest.approx(table.best(l2), abs=1e-7)
    ensemble.refit(l1=10.0, l2=l2)
    assert np.all(ensemble.weights == 0.0)


def test_clauses_are_equal_up_to_names_and_order() -> None:
    left = canonicalize_clause(
        (PathAtom("R", (7, 5)), PathAtom("P", (5,)), PathAtom("R", (5, 2))), 5
    )
    right = canonicalize_clause(
        (PathAtom("P", (1,)), PathAtom("R", (1, 9)), PathAtom("R", (4, 1))), 6
    )
    assert left == right
    assert left != canonicalize_clause(
        (PathAtom("P", (1,)), PathAtom("R", (1, 9)), PathAtom("R", (4, 1))), 3
    )
    assert {write_clause(c, MODEL.predicates) for c in sub_clauses(left)} == {
        "P(a1) => R(a1, a2)", "P(a1) => R(a2, a1)", "R(a1, a2) v R(a2, a3)",
    }  # fmt: skip
