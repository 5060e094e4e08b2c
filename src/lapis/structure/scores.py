"""Scores of clauses: the gain in weighted pseudo-log-likelihood over unit clauses alone.

    Score(c) = max_w WPLL(c and one unit clause a predicate) − π·(number of literals)

(Kok & Domingos 2005; LHL, section 3.3.) Unit clauses alone have a closed form, the entropy of each
predicate's share of true atoms, and predicates that a clause does not mention keep it: only the
clause's own predicates are looked at. All clauses of a path share their classes of atoms. Scores
are of all atoms, or of a sample of them where one is given; under a prior of the weight where the
`Pricing` has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lapis.structure.clause_fit import fit
from lapis.structure.clauses import Candidate, Path
from lapis.structure.paths.path_differences import AtomClasses, Joins, PartSums
from lapis.structure.pricing import Pricing, flat_pricing
from lapis.structure.training_data import TrainingData

FAR = 30.0  # the unit weight of a predicate that is never, or always, true


class ClauseScore(NamedTuple):
    """What one clause brings by itself."""

    candidate: Candidate
    gain: float  # in WPLL, before the penalty of its length
    weight: float
    worth: float  # the gain as it is priced (`Pricing.worth`)


class AtomSample(NamedTuple):
    """Some atoms of a predicate."""

    rows: np.ndarray  # int32[n, arity]
    world: np.ndarray  # int64[n], increasing


Sample = Mapping[str, AtomSample]


class Scorer:
    """Scores clauses on training data, remembering joins."""

    def __init__(
        self,
        data: TrainingData,
        sample: Sample | None = None,
        joins: Joins[Any] | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        self.data, self.sample = data, sample
        self.pricing = pricing if pricing is not None else flat_pricing(data)
        self.sums = PartSums(data)
        self.joins: Joins[Any] = self.sums if joins is None else joins

    @property
    def is_here(self) -> bool:
        """Whether other processes can do the same."""
        return self.joins is self.sums

    def score(
        self, path: Path, patterns: Mapping[Candidate, int], sample: Sample | None = None
    ) -> list[ClauseScore]:
        """Scores of clauses of one path, given with their signs in the path's order."""
        chosen = self.sample if sample is None else sample
        names = [
            name
            for name in dict.fromkeys(atom.predicate for atom in path)
            if name in self.data.targets and not self.data.couples(path, name)
        ]
        found_atoms = {name: self._atoms(path, name, chosen) for name in names}
        names = [name for name in names if len(found_atoms[name].truth)]
        parts = [found_atoms[name] for name in names]
        if not parts:
            return []
        truth = np.concatenate([part.truth for part in parts])
        total = [self.data.atom_share[n] * self.data.num_atoms[n] for n in names]
        share = np.concatenate(
            [
                part.multiplicity * (own / part.multiplicity.sum())
                for own, part in zip(total, parts, strict=True)
            ]
        )
        predicate = np.repeat(np.arange(len(parts)), [len(part.truth) for part in parts])
        offset = np.zeros(len(truth))
        alone = [
            fit_unit(float(share[predicate == j] @ truth[predicate == j]) / own)
            for j, own in enumerate(total)
        ]
        base = np.array([own * value for own, (_, value) in zip(total, alone, strict=True)])
        worth = np.array([self.pricing.worth[name] for name in names])
        shares = [self.data.atom_share[name] for name in names]
        bend = np.array([1 / (2 + 2 * math.cosh(weight)) for weight, _ in alone])  # p (1 − p)
        found = []
        for candidate, positive in patterns.items():
            difference = np.concatenate([part.differences(positive, len(path)) for part in parts])
            units = np.array([weight for weight, _ in alone])
            information = bend * np.bincount(predicate, share * difference**2, len(parts))
            ridge = self.pricing.ridge(shares, information.tolist())
            fitted = fit(units, offset, difference, truth, share, predicate, ridge)
            if fitted is None:
                found.append(ClauseScore(candidate, 0.0, 0.0, 0.0))
                continue
            gains = fitted.values - base
            found.append(
                ClauseScore(
                    candidate, max(0.0, float(gains.sum())), fitted.weight, float(worth @ gains)
                )
            )
        return found

    def _atoms(self, path: Path, name: str, sample: Sample | None) -> AtomClasses:
        differences = self.joins.differences(path, name)
        if sample is None:
            return differences.classes()
        return differences.at(*sample[name])


def fit_unit(share: float) -> tuple[float, float]:
    """The best weight of a unit clause, and the WPLL there, from the share of true atoms.

    >>> fit_unit(0.5)
    (0.0, -0.6931471805599453)
    """
    if share <= 0.0 or share >= 1.0:
        return math.copysign(FAR, share - 0.5), 0.0
    odds = math.log(share) - math.log1p(-share)
    return odds, share * math.log(share) + (1 - share) * math.log1p(-share)


def draw_atoms(data: TrainingData, fraction: float, generator: np.random.Generator) -> Sample:
    """A uniform share of the atoms of each target (σ)."""
    found = {}
    for name in data.targets:
        rows, worlds = [], []
        for world in range(data.num_worlds):
            sizes = data.sizes(name, world)
            number = round(fraction * math.prod(sizes))
            drawn = np.zeros((number, len(sizes)), np.int32)
            for at, t in enumerate(data.predicates[name].types):
                low, high = data.offset[t][world : world + 2]
                drawn[:, at] = generator.integers(low, high, number)
            rows.append(drawn)
            worlds.append(np.full(number, world))
        found[name] = AtomSample(np.concatenate(rows), np.concatenate(worlds))
    return found
