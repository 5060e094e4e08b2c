"""Predicted probabilities of atoms whose truth is known.

The facts of the query predicates are hidden and predicted from the rest of the data. Log-likelihood
and rankings use log-odds, which keep their precision for probabilities near 0 and 1
(`lapis.inference.marginals`). Sampled atoms are ranked by their share of the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.errors import TooLarge
from lapis.learning.examples import HIDDEN, Example
from lapis.network.network import Network, label_atoms
from lapis.problem.problem import Problem
from lapis.results.atom_groups import Atoms, join_atoms
from lapis.results.atom_result import AtomResult, rank_by
from lapis.results.columns import Coded
from lapis.runtime.views import MAX_ROWS, View

if TYPE_CHECKING:
    from lapis.inference.marginals import InferenceOptions, Marginals

TIE = 1e-9  # relative difference of equal log-odds: symmetric atoms are rounded differently


@dataclass(frozen=True, repr=False)
class Predictions(AtomResult):
    """Predicted atoms of one or several worlds, one world after the other."""

    predicates: tuple[str, ...]
    predicate: np.ndarray  # int64[num_atoms], position in `predicates`
    probability: np.ndarray  # float64[num_atoms]
    log_odds: np.ndarray  # float64[num_atoms]
    truth: np.ndarray  # bool[num_atoms]
    stderr: np.ndarray  # float64[num_atoms], 0 if exact, NaN if unknown
    asked: Atoms

    @property
    def atoms(self) -> tuple[str, ...]:
        """The atoms as facts are written."""
        return self.names

    @cached_property
    def rank(self) -> np.ndarray:
        """float64[num_atoms], 1, 2, … from the least likely; ties have the same rank.

        Ranks are by log-odds, which differ also between probabilities that round to 1.
        """
        with np.errstate(divide="ignore"):
            shares = np.log(self.probability) - np.log1p(-self.probability)
        odds = np.where(self.stderr == 0.0, self.log_odds, shares)
        order = np.argsort(odds, kind="stable")
        low, high = odds[order][:-1], odds[order][1:]
        with np.errstate(invalid="ignore"):  # inf − inf of two certain atoms
            rises = high - low > TIE * np.maximum(1.0, np.minimum(np.abs(low), np.abs(high)))
        rank = np.empty(len(odds))
        rank[order] = 1.0 + np.cumsum(np.append(False, rises)[: len(odds)])
        return rank

    def take(self, chosen: np.ndarray) -> Predictions:
        """Select atoms by a mask, bool[num_atoms]."""
        names = ("predicate", "probability", "log_odds", "truth", "stderr")
        arrays = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, **arrays, asked=self.asked.select(chosen))

    def of(self, predicate: str) -> Predictions:
        """Select the atoms of one predicate."""
        wanted = self.predicates.index(predicate) if predicate in self.predicates else -1
        return self.take(self.predicate == wanted)

    @property
    def max_stderr(self) -> float | None:
        """The largest standard error; None if one is unknown."""
        largest = float(self.stderr.max(initial=0.0))
        return None if math.isnan(largest) else largest

    def measured(self) -> dict[str, np.ndarray | Coded]:
        """Return probabilities, standard errors (NaN if all are exact) and truth."""
        stderr = self.stderr if self.stderr.any() else np.full(len(self.stderr), np.nan)
        return {"probability": self.probability, "stderr": stderr, "truth": self.truth}

    def document(self) -> dict[str, Any]:
        return {"atoms": self._entries()}

    def views(self) -> list[View]:
        """Return the atoms, most likely first."""
        order = rank_by(self.probability, MAX_ROWS)
        cells = [f"{p:.4f}" for p in self.probability[order]]
        truth = ["true" if value else "false" for value in self.truth[order]]
        return [self._ranked_view(order, {"probability": cells, "truth": truth}, self.probability)]

    def summary(self) -> str:
        return f"{len(self):,} atoms, {int(self.truth.sum()):,} true"


def join_predictions(parts: Sequence[Predictions], predicates: Sequence[str]) -> Predictions:
    """Concatenate the predictions of several worlds about the same predicates."""
    return Predictions(
        tuple(predicates),
        np.concatenate([np.empty(0, np.int64), *(part.predicate for part in parts)]),
        np.concatenate([np.empty(0), *(part.probability for part in parts)]),
        np.concatenate([np.empty(0), *(part.log_odds for part in parts)]),
        np.concatenate([np.empty(0, bool), *(part.truth for part in parts)]),
        np.concatenate([np.empty(0), *(part.stderr for part in parts)]),
        join_atoms([part.asked for part in parts]),
    )


class WorldPrediction(NamedTuple):
    """The predictions of one world."""

    predictions: Predictions
    log_likelihood: float | None  # log P(all query atoms | the rest); None if not exact
    methods: tuple[str, ...]
    exact: bool
    diagnostics: dict[str, Any]


def predict_example(
    example: Example, method: str = "auto", options: InferenceOptions | None = None
) -> WorldPrediction:
    """Predict the query atoms whose truth is known, given the rest of the world.

    Atoms that blocks alone decide are not predicted. If a formula is too large to ground, "auto"
    predicts by counts (`count-gibbs`), with the reason in the diagnostics. Raises LapisError if the
    data violate hard rules or blocks, and TooLarge if another method exceeds its limits.
    """
    from lapis.inference.solve import infer_problem

    try:
        network, found = infer_problem(example.free, method, options)
    except TooLarge as error:
        if method != "auto":
            raise
        network, found = infer_problem(example.free, "count-gibbs", options)
        found = replace(found, diagnostics={**found.diagnostics, "not_ground": error.message})
    predictions = predict_atoms(example, network, found)
    joint = joint_log_likelihood(example, network, found, options)
    return WorldPrediction(predictions, joint, found.methods, found.exact, found.diagnostics)


def predict_atoms(example: Example, network: Network, found: Marginals) -> Predictions:
    """Pair the marginals of the query atoms with their truth, where it is known."""
    answers = example.answers(network)
    groups = network.atoms.predicate_of(np.arange(network.num_base_atoms))
    place = {name: index for index, name in enumerate(example.asked)}
    position = np.array([place.get(name, -1) for name in network.atoms.predicates], np.int64)
    predicate = position[groups] if len(groups) else np.empty(0, np.int64)
    asked = np.flatnonzero((predicate >= 0) & (answers != HIDDEN))
    return Predictions(
        example.asked,
        predicate[asked],
        found.marginal[asked],
        found.log_odds[asked],
        answers[asked] == 1,
        found.errors[asked],
        label_atoms(network, asked, example.free.name),
    )


def joint_log_likelihood(
    example: Example, network: Network, found: Marginals, options: InferenceOptions | None
) -> float | None:
    """Compute log P(query | the rest) = log Z(query known) − log Z(query unknown), if exact."""
    from lapis.learning.objectives.conditional import observed_world

    log_partition = found.log_partition if found.exact else None
    if example.has_hidden or "lifted" in found.methods:
        if log_partition is None:
            return None
        try:
            return exact_log_partition(example.complete, options) - log_partition
        except TooLarge:
            return None
    world = observed_world(example, network, example.answers(network))
    return None if log_partition is None else network.score(world) - log_partition


def exact_log_partition(problem: Problem, options: InferenceOptions | None = None) -> float:
    """Compute log Z of a problem exactly; raises TooLarge if that exceeds the limits."""
    from lapis.grounding.bottom_up import ground
    from lapis.inference.plan import is_tiny
    from lapis.inference.solve import infer_network

    network = ground(problem, max_memory=None if options is None else options.max_memory)
    method = "enumerate" if is_tiny(network) else "exact"
    found = infer_network(network, method, options).log_partition
    assert found is not None
    return found
