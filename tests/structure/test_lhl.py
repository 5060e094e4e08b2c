"""The two heuristics of LHL's CreateMLN, compared with their definitions (algorithm 4)."""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain, product

import numpy as np
import pytest

import lapis
from lapis.optimisation.replay_log import ReplayLog
from lapis.runtime.progress import Stop
from lapis.structure.candidates import sign_patterns
from lapis.structure.clause_scores import Scorer, fit_unit
from lapis.structure.learners.find_paths import FoundPath, find_paths
from lapis.structure.learners.lhl import LhlOptions, draw_path_atoms, has_support, try_path
from lapis.structure.learners.lift_graph import LiftedGraph, lift_graph
from lapis.structure.rule_search import RuleSearch
from lapis.structure.training_data import TrainingData, join_worlds

MODEL = lapis.parse("likes(person, thing)\nkind(thing)\nknows(person, person)")


def data_of(seed: int) -> TrainingData:
    """Return two worlds with two kinds of people and things, with exceptions."""
    generator = np.random.default_rng(seed)
    texts = []
    for _ in range(2):
        facts = [f"likes(P{i},T{j})" for i in range(8) for j in range(6)
                 if (i % 2 == j % 2) != (generator.random() < 0.05)]  # fmt: skip
        facts += [f"kind(T{j})" for j in range(0, 6, 2)]
        facts += [f"knows(P{i},P{j})" for i in range(8) for j in range(8)
                  if i % 2 == j % 2 and i != j and generator.random() < 0.8]  # fmt: skip
        texts.append(" ".join(facts))
    problems = [lapis.build_problem(MODEL, lapis.Database.parse(text)) for text in texts]
    return join_worlds(MODEL, problems, list(MODEL.predicates))


def search_of(data: TrainingData) -> RuleSearch:
    stop = Stop()
    return RuleSearch(
        MODEL, [], Scorer(data), 1, time.monotonic(), None, stop, ReplayLog(stop=stop)
    )


def contained_atoms(graph: LiftedGraph, found: FoundPath) -> set[tuple[str, tuple[int, ...]]]:
    """Return the ground atoms, true or false, of the clusters of a hyperedge."""
    return {
        (edge.predicate, row)
        for edge in found.edges
        for row in product(*([c for _, c in graph.members[node]] for node in edge.nodes))
    }


def true_atoms(data: TrainingData) -> set[tuple[str, tuple[int, ...]]]:
    return {(name, tuple(row)) for name, rows in data.tuples.items() for row in rows.tolist()}


@pytest.mark.parametrize("seed", range(3))
def test_support_is_the_number_of_true_atoms_in_the_hyperedges(seed: int) -> None:
    data = data_of(seed)
    graph = lift_graph(data, 5.0)
    paths = list(chain.from_iterable(find_paths(graph, 3, max_variables=0, max_examples=0)))
    assert len({has_support(graph, each, 30) for each in paths}) == 2
    for each in paths:
        number = len(contained_atoms(graph, each) & true_atoms(data))
        for least in (0, 1, 10, 20, 30, 40):
            assert has_support(graph, each, least) == (number >= least * len(each.path))


def listed(data: TrainingData, graph: LiftedGraph, found: FoundPath, number: int, seed: int):  # type: ignore[no-untyped-def]
    sample = draw_path_atoms(data, graph, found, number, np.random.default_rng(seed))
    return [(name, tuple(row)) for name, own in sample.items() for row in own.rows.tolist()]


def test_the_first_trial_draws_uniformly_from_the_atoms_of_the_hyperedges() -> None:
    data = data_of(0)
    graph = lift_graph(data, 5.0)
    found = next(find_paths(graph, 2, max_variables=0, max_examples=0))[0]
    every = contained_atoms(graph, found)
    assert len(every) > 30
    assert every & true_atoms(data) != every
    whole = listed(data, graph, found, len(every), 0)
    assert (len(whole), set(whole)) == (len(every), every)
    times: Counter[tuple[str, tuple[int, ...]]] = Counter()
    num_draws, size = 400, 10
    for seed in range(num_draws):
        drawn = listed(data, graph, found, size, seed)
        assert len(set(drawn)) == size
        times.update(drawn)
    share = size / len(every)
    spread = np.sqrt(num_draws * share * (1 - share))
    assert max(abs(times[atom] - num_draws * share) for atom in every) < 5 * spread


@pytest.mark.parametrize(("seed", "prior"), [(0, 5.0), (1, 5.0), (0, 1.0)])
def test_a_path_passes_if_a_clause_scores_above_the_empty_one(seed: int, prior: float) -> None:
    """Score(c, D′) > Score(∅, D′) with the penalty π′, unless no clause at all could pass."""
    data = data_of(seed)
    graph, search = lift_graph(data, prior), search_of(data)
    options = LhlOptions(max_atoms=60, first_penalty=0.05)
    true, outcomes = true_atoms(data), set()
    for each in list(chain.from_iterable(find_paths(graph, 3, max_variables=0, max_examples=0))):
        price = options.first_penalty * len(each.path)
        sample = draw_path_atoms(data, graph, each, 60, np.random.default_rng(seed))
        unexplained = 0.0  # −WPLL of unit clauses on D′
        for name, own in sample.items():
            rows = [(name, tuple(row)) in true for row in own.rows.tolist()]
            unexplained -= fit_unit(sum(rows) / len(rows))[1] if rows else 0.0
        scores = search.scorer.score(each.path, sign_patterns(each.path), sample)
        expected = unexplained <= price or max(score.gain for score in scores) > price
        found = try_path(search, graph, each, options, np.random.default_rng(seed))
        assert found == [float(expected)]
        outcomes.add((unexplained > price, expected))
    assert {(True, True), (True, False)} <= outcomes if prior > 1 else (False, True) in outcomes


def test_without_a_first_trial_all_paths_pass() -> None:
    data = data_of(0)
    graph, search = lift_graph(data, 5.0), search_of(data)
    options = LhlOptions(max_atoms=0, first_penalty=1e6)
    for each in list(chain.from_iterable(find_paths(graph, 2))):
        assert try_path(search, graph, each, options, np.random.default_rng(0)) == [1.0]
