"""Likelihoods of training data by enumeration of all worlds, from the oracle's definition only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import oracle
from lapis.language.model import Model
from lapis.learning.parameters import Parameters
from oracle import Facts, NoWorld


@dataclass(frozen=True)
class Ensemble:
    """All possible worlds of a problem."""

    counts: np.ndarray  # float64[num_worlds, num_parameters]

    def log_partition(self, weights: np.ndarray) -> float:
        return oracle.log_sum_exp(self.counts @ weights)

    def probability(self, weights: np.ndarray) -> np.ndarray:
        return np.exp(self.counts @ weights - self.log_partition(weights))

    def mean(self, weights: np.ndarray) -> np.ndarray:
        return self.probability(weights) @ self.counts

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        centered = self.counts - self.mean(weights)
        return centered.T @ (self.probability(weights)[:, None] * centered)


@dataclass(frozen=True)
class BruteForce:
    """log P(asked | given) with what is hidden summed out."""

    free: tuple[Ensemble, ...]
    clamped: tuple[Ensemble, ...]

    def value(self, weights: np.ndarray) -> float:
        return sum(
            known.log_partition(weights) - free.log_partition(weights)
            for known, free in zip(self.clamped, self.free, strict=True)
        )

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        return sum(
            (
                known.mean(weights) - free.mean(weights)
                for known, free in zip(self.clamped, self.free, strict=True)
            ),
            np.zeros(len(weights)),
        )

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        size = len(weights)
        return sum((free.covariance(weights) for free in self.free), np.zeros((size, size)))


def brute_force(
    model: Model,
    worlds: Sequence[Facts],
    parameters: Parameters,
    asked: Sequence[str],
    hidden: Sequence[str] = (),
) -> BruteForce:
    """Raises NoWorld if the data of a world are not possible."""
    free, clamped = [], []
    for facts in worlds:
        domains = oracle.constants_of(model, facts)
        given = Facts(*([a for a in group if a[0] not in asked] for group in facts_groups(facts)))
        known = oracle.known_atoms(model, facts, domains, set(hidden))
        opened = oracle.known_atoms(model, given, domains, {*asked, *hidden})
        clamped.append(ensemble(model, domains, parameters, known))
        free.append(ensemble(model, domains, parameters, opened))
    return BruteForce(tuple(free), tuple(clamped))


def facts_groups(facts: Facts) -> tuple[tuple[oracle.GroundAtom, ...], ...]:
    return facts.true, facts.false, facts.unknown


def ensemble(
    model: Model,
    domains: oracle.Domains,
    parameters: Parameters,
    known: dict[oracle.GroundAtom, bool | None],
) -> Ensemble:
    weighing = oracle.weigh(model, domains, oracle.worlds_agreeing_with(known))
    if not weighing.possible.any():
        raise NoWorld
    counts = np.zeros((len(weighing.possible), len(parameters)))
    for (rule, constants), count in weighing.counts.items():
        number = 0
        for constant, domain in zip(constants, parameters.domains[rule], strict=True):
            number = number * len(domain) + domain.constants.index(constant)
        counts[:, parameters.offset[rule] + number] += count
    return Ensemble(counts[weighing.possible])
