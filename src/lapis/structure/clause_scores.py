"""Score one clause: its gain in weighted pseudo-log-likelihood (WPLL) over unit clauses.

    Score(c) = max_w WPLL(c and a unit clause for each predicate) − π · (number of literals)

(Kok & Domingos 2005, "Learning the structure of Markov logic networks".) The WPLL of unit clauses
alone has a closed form, the entropy of each predicate's share of true atoms. Predicates outside the
clause keep it, so only the clause's own predicates are evaluated. All clauses of a path share their
classes of atoms. Scores use all atoms, or a sample of them.

The weight w of the clause and one unit weight u_r for each predicate maximise

    Σ_r Σ_{classes c of r} m_c · log P(truth_c) − ρ/2·w²
    P(true) = 1 / (1 + exp(−(w·d_c + u_r + o_c)))

by Newton's method, where m_c is the class's share of the predicate's atoms, d_c the difference, o_c
the log-odds from other clauses and ρ the precision of a prior. The Hessian is an arrow matrix (no
two unit weights interact), so a step takes one pass over the classes. The function is concave. If
its supremum is at infinity, steps stop when at most `TOLERANCE` can be gained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lapis.runtime.kernels import allocating_entry, inner
from lapis.structure.candidates import Candidate, Path
from lapis.structure.path_differences import AtomClasses, Joins, PartSums
from lapis.structure.pricing import Pricing, flat_pricing
from lapis.structure.training_data import TrainingData

TOLERANCE = 1e-11  # of the WPLL
MAX_STEPS = 100


class ClauseFit(NamedTuple):
    """The maximum over the weight of one clause and the unit weights."""

    values: np.ndarray  # float64[num_predicates], Σ m_c · log P(truth_c) of each predicate
    weight: float


@inner
def evaluate_clause_classes(  # type: ignore[no-untyped-def]
    w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
):
    """Return the value; fill the gradient, the arrow of the Hessian and the values by predicate.

    `corner` gets the diagonal of −∇², `across` its entries between w and the unit weights.
    """
    along[:] = 0.0
    across[:] = 0.0
    corner[:] = 0.0
    values[:] = 0.0
    for row in range(len(difference)):
        group = predicate[row]
        d = difference[row]
        field = w * d + units[group] + offset[row]
        signed = field if truth[row] else -field
        small = np.exp(-abs(signed))
        values[group] -= share[row] * (np.log1p(small) + max(-signed, 0.0))
        p = 1.0 / (1.0 + small) if field >= 0 else small / (1.0 + small)
        slope = share[row] * ((1.0 if truth[row] else 0.0) - p)
        bend = share[row] * small / (1.0 + small) ** 2
        along[0] += slope * d
        along[1 + group] += slope
        corner[0] += bend * d * d
        corner[1 + group] += bend
        across[group] += bend * d
    along[0] -= ridge * w
    corner[0] += ridge
    return values.sum() - ridge / 2 * w * w


@allocating_entry
def fit_clause(units, offset, difference, truth, share, predicate, ridge):  # type: ignore[no-untyped-def]
    """Return values and w; `units`, float64[num_predicates], is the start and gets the maximum."""
    size = len(units)
    along, across, corner = np.zeros(size + 1), np.zeros(size), np.zeros(size + 1)
    step, moved, values = np.zeros(size), np.zeros(size), np.zeros(size)
    w = 0.0
    value = evaluate_clause_classes(
        w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
    )
    for _ in range(MAX_STEPS):
        pivot, right = corner[0], along[0]
        for j in range(size):
            if corner[1 + j] > 1e-300:
                pivot -= across[j] * across[j] / corner[1 + j]
                right -= across[j] * along[1 + j] / corner[1 + j]
        forward = right / pivot if pivot > 1e-13 * corner[0] and pivot > 0 else 0.0
        decrement = along[0] * forward
        for j in range(size):
            bend = corner[1 + j]
            step[j] = (along[1 + j] - across[j] * forward) / bend if bend > 1e-300 else 0.0
            decrement += along[1 + j] * step[j]
        if decrement <= TOLERANCE:
            break
        length, better = 1.0, value
        while length > 1e-8:
            moved[:] = units + length * step
            better = evaluate_clause_classes(
                w + length * forward, moved, offset, difference, truth, share, predicate, along,
                across, corner, values, ridge,
            )  # fmt: skip
            if better >= value + 1e-4 * length * decrement:
                break
            length /= 2
        if better <= value:
            break
        w += length * forward
        units[:] = moved
        value = better
    evaluate_clause_classes(
        w, units, offset, difference, truth, share, predicate, along, across, corner, values, ridge
    )
    return values, w


def fit_weight(
    units: np.ndarray,
    offset: np.ndarray,
    difference: np.ndarray,
    truth: np.ndarray,
    share: np.ndarray,
    predicate: np.ndarray,
    ridge: float = 0.0,
) -> ClauseFit | None:
    """Fit the weight of a clause and the unit weights (in place); None if no atom matters to it.

    `ridge` is the precision ρ of the weight times the largest difference, that is, of the largest
    log-odds that the clause gives an atom.
    """
    scale = float(np.abs(difference).max(initial=0.0))
    if scale == 0.0:
        return None
    scaled = difference / scale
    values, weight = fit_clause(units, offset, scaled, truth, share, predicate, ridge)
    return ClauseFit(values, float(weight) / scale)


FAR = 30.0  # ± unit weight of a predicate that is always, or never, true


class ClauseScore(NamedTuple):
    """The gain of one clause over unit clauses."""

    candidate: Candidate
    gain: float  # in WPLL, before the penalty of its length
    weight: float
    worth: float  # the gain in units of the pricing (`Pricing.worth`)


class AtomSample(NamedTuple):
    """Some atoms of a predicate."""

    rows: np.ndarray  # int32[n, arity]
    world: np.ndarray  # int64[n], increasing


Sample = Mapping[str, AtomSample]


class Scorer:
    """Scores clauses on training data, with a cache of joins."""

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
    def is_in_memory(self) -> bool:
        """Whether joins are in memory, so that worker processes can score too."""
        return self.joins is self.sums

    def score(
        self, path: Path, patterns: Mapping[Candidate, int], sample: Sample | None = None
    ) -> list[ClauseScore]:
        """Score clauses of one path, given with their signs in the path's order."""
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
            fitted = fit_weight(units, offset, difference, truth, share, predicate, ridge)
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
    """Return the best weight of a unit clause and the WPLL, given the share of true atoms.

    >>> fit_unit(0.5)
    (0.0, -0.6931471805599453)
    """
    if share <= 0.0 or share >= 1.0:
        return math.copysign(FAR, share - 0.5), 0.0
    odds = math.log(share) - math.log1p(-share)
    return odds, share * math.log(share) + (1 - share) * math.log1p(-share)


def draw_atoms(data: TrainingData, fraction: float, generator: np.random.Generator) -> Sample:
    """Draw a uniform sample of the atoms of each target."""
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
