"""Clauses with dangling variables, or none: the choice that predicts other worlds better.

Kok & Domingos (2009, section 4.2) ran BUSL and MSL with and without clauses that have a variable
which occurs once, and report the better result on the test data. A learner cannot see these. So
`dangling="best"` learns both ways from all worlds but one, scores the world left out by its
weighted pseudo-log-likelihood, and takes the way with the larger sum over all worlds. A single
world cannot be left out: there the score is that of the training data, less the penalty of all
literals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from lapis.errors import LapisError
from lapis.problem.problem import build_problem
from lapis.registry.options import StructureOptions
from lapis.structure.candidates import RuleSearch
from lapis.structure.ensemble import Ensemble
from lapis.structure.path_differences import PartSums
from lapis.structure.scores import Scorer
from lapis.structure.select import Criteria, Selection
from lapis.structure.training_data import TrainingData, join_worlds

WAYS: tuple[Literal["keep", "drop"], ...] = ("keep", "drop")
RuleLearner = Callable[[RuleSearch, StructureOptions], Selection]


def learn_best_way(
    learner: RuleLearner, search: RuleSearch, options: StructureOptions
) -> Selection:
    """Return the learner's rules of the better way: dangling variables kept or dropped."""
    if search.data.groups:
        raise LapisError(
            "--dangling best compares pseudo-likelihoods, and predicates are given here",
            code="dangling-best",
            hint="say --dangling keep or drop, or leave out --conditioning and --joint-targets",
        )
    if search.data.num_worlds == 1:
        found = [learner(search, replace(options, dangling=way)) for way in WAYS]
        price = Criteria.penalty if options.penalty is None else options.penalty
        return max(found, key=lambda each: penalised_value(each, price))
    scores = {way: held_out_score(learner, search, replace(options, dangling=way)) for way in WAYS}
    best = max(WAYS, key=lambda way: scores[way])
    return learner(search, replace(options, dangling=best))


def penalised_value(found: Selection, price: float) -> float:
    """The WPLL on the training data less π for each literal."""
    return found.value - price * sum(len(clause.candidate) for clause in found.clauses)


def held_out_score(learner: RuleLearner, search: RuleSearch, options: StructureOptions) -> float:
    """Σ over worlds of the WPLL of rules that were learned from the other worlds."""
    total = 0.0
    for number in range(search.data.num_worlds):
        others = [at for at in range(search.data.num_worlds) if at != number]
        data = choose_worlds(search, others)
        databases = [search.databases[at] for at in others]
        found = learner(search._replace(databases=databases, scorer=Scorer(data)), options)
        total += score_world(choose_worlds(search, [number]), found)
    return total


def choose_worlds(search: RuleSearch, numbers: list[int]) -> TrainingData:
    problems = [build_problem(search.model, search.databases[number]) for number in numbers]
    return join_worlds(search.model, problems, search.data.targets)


def score_world(data: TrainingData, found: Selection) -> float:
    """The WPLL of learned clauses and unit clauses, at their weights, on other data."""
    ensemble = Ensemble(data, PartSums(data))
    for clause in found.clauses:
        ensemble.add(clause.candidate)
    weights = [clause.weight for clause in found.clauses]
    units = [found.units.get(target.predicate, 0.0) for target in ensemble.targets]
    return ensemble.value_at(np.array([*weights, *units]), frozenset())[0]
