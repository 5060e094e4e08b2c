"""How well a model explains data.

The log-likelihood of the facts is log Z(facts known) − log Z(nothing known): exact also where
some facts are marked unknown. The pseudo-log-likelihood sums log P(atom | all others) over all
ground atoms, a block (exactly one value) counting as one variable. For query predicates, their
facts are hidden, predicted from the other predicates, and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lapis.data.database import Database, Relation, empty_tuples
from lapis.errors import TooLarge
from lapis.evaluation.metrics import (
    average_precision,
    conditional_log_likelihood,
    trapezoid_auc,
)
from lapis.language.model import Model
from lapis.problem import Problem, build_problem


@dataclass(frozen=True, slots=True)
class Score:
    log_likelihood: float | None  # None where it cannot be had exactly
    pseudo_log_likelihood: float
    cll: float | None  # None without a query
    auc_pr: float | None  # average precision
    auc_pr_trapezoid: float | None
    conditional_log_likelihood: float | None  # log P(all query atoms | the rest)
    num_atoms: int  # query atoms compared

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def score_worlds(model: Model, worlds: Sequence[Database], query: Sequence[str]) -> Score:
    """Likelihoods added over independent worlds; CLL and AUC-PR over their pooled atoms."""
    likelihoods = [log_likelihood(model, world) for world in worlds]
    pseudo = sum(pseudo_log_likelihood(model, world) for world in worlds)
    predictions = [predict(model, world, query) for world in worlds] if query else []
    total = total_or_none(likelihoods)
    if not predictions:
        return Score(total, pseudo, None, None, None, None, 0)
    probability = np.concatenate([p.probability for p in predictions])
    truth = np.concatenate([p.truth for p in predictions])
    joint = total_or_none([p.log_likelihood for p in predictions])
    if not len(truth):
        return Score(total, pseudo, None, None, None, joint, 0)
    return Score(
        total,
        pseudo,
        conditional_log_likelihood(probability, truth),
        average_precision(probability, truth),
        trapezoid_auc(probability, truth),
        joint,
        len(truth),
    )


def total_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def log_likelihood(model: Model, database: Database) -> float | None:
    """log Z(facts known) − log Z(nothing known); None where a component is too large."""
    try:
        free = log_partition(build_problem(model, without_facts(database), list(model.predicates)))
        return log_partition(build_problem(model, database)) - free
    except TooLarge:
        return None


def log_partition(problem: Problem) -> float:
    from lapis.grounding.bottom_up import ground
    from lapis.inference.enumerate import enumerate_worlds

    return enumerate_worlds(ground(problem)).log_partition


def pseudo_log_likelihood(model: Model, database: Database) -> float:
    """Σ log P(atom or block | all others), over all predicates; −inf if a hard rule is broken."""
    from lapis.counting.blocks import block_classes
    from lapis.counting.class_likelihood import pseudo_log_likelihood as evaluate
    from lapis.counting.classes import difference_classes

    problem = build_problem(model, database)
    problem.require_complete()
    weights = problem.weight_table.value
    total = 0.0
    for name, predicate in model.predicates.items():
        classes = (block_classes if predicate.block else difference_classes)(problem, name)
        total += evaluate(classes, weights).value
    return total


@dataclass(frozen=True, slots=True)
class Prediction:
    probability: np.ndarray  # float64[num_atoms]
    truth: np.ndarray  # bool[num_atoms]
    log_likelihood: float  # of all query atoms together


def predict(model: Model, database: Database, query: Sequence[str]) -> Prediction:
    """Hide the facts of the query predicates and predict them."""
    from lapis.data.tuples import contains
    from lapis.grounding.bottom_up import ground
    from lapis.inference.enumerate import enumerate_worlds

    actual = build_problem(model, database)
    problem = build_problem(model, without_facts(database, query), query)
    network = ground(problem)
    found = enumerate_worlds(network)
    truth = np.zeros(network.num_base_atoms, dtype=bool)
    asked = np.zeros(network.num_base_atoms, dtype=bool)
    table = network.atoms
    for name, start, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
        if name in query:
            chosen = slice(int(start), int(start) + len(rows))
            truth[chosen] = contains(actual.evidence[name].true, rows)
            asked[chosen] = True
    joint = log_partition(actual) - found.log_partition
    return Prediction(found.marginal[asked], truth[asked], joint)


def without_facts(database: Database, names: Sequence[str] | None = None) -> Database:
    """The same constants, with nothing known of the predicates named (default: of any)."""

    def hidden(relation: Relation) -> Relation:
        none = empty_tuples(relation.arity)
        return replace(relation, true=none, false=none, unknown=none)

    relations = {
        name: hidden(relation) if names is None or name in names else relation
        for name, relation in database.relations.items()
    }
    return replace(database, relations=relations)
