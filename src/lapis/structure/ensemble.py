"""Several clauses together: the joint weighted pseudo-log-likelihood, and its best weights.

The atoms of each target predicate are told apart by the differences they make to all clauses in
the ensemble: a new clause splits the classes of the ones before. Weights maximise

    WPLL(w) − λ₁ Σ |w_i| − λ₂/2 Σ w_i²      (λ₁ spares unit weights)

or under the prior of a `Pricing` instead of λ₂, by Newton's method, each step a coordinate descent
on the quadratic model (as glmnet does), which sets weights to zero exactly. Where a predicate has
more than `MAX_LISTED` atoms, its true atoms are kept and its false ones sampled, each standing for
its share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lapis.data.keys import contains, unpack
from lapis.runtime.kernels import allocating_entry
from lapis.structure.candidates import Candidate
from lapis.structure.path_differences import Joins
from lapis.structure.pricing import UNIT_WIDTH, Pricing, flat_pricing
from lapis.structure.scores import fit_weight
from lapis.structure.training_data import TrainingData

MAX_LISTED = 2_000_000  # atoms of a predicate looked at one by one
SHRINKAGE = 1e-3  # λ₂: a Gaussian prior of width 32
FAR = 30.0  # unit weights of what is never, or always, true
COUPLING = 1.0  # λ₂ of clauses that couple unknown atoms


@dataclass
class TargetAtoms:
    """Atoms of one target predicate, in classes that the clauses so far tell apart."""

    predicate: str
    rows: np.ndarray  # int32[n, arity], worlds in order
    world: np.ndarray  # int64[n]
    share: np.ndarray  # float64[n], what the atom stands for times c_r; sums to 1 without groups
    truth: np.ndarray  # bool[n]
    class_of: np.ndarray  # int64[n]
    first: np.ndarray  # int64[num_classes], an atom of each class
    matrix: np.ndarray  # float64[num_classes, num_clauses]

    def column(self, joins: Joins[Any], candidate: Candidate) -> np.ndarray | None:
        """float64[n], what each atom changes in the clause.

        None where it does not occur there, or occurs with others that are as unknown.
        """
        occurs = any(atom.predicate == self.predicate for atom in candidate.path)
        if not occurs or joins.data.couples(candidate.path, self.predicate):
            return None
        found = joins.differences(candidate.path, self.predicate).at(self.rows, self.world)
        return found.differences(candidate.positive, len(candidate))

    def append(self, column: np.ndarray | None) -> None:
        """Split the classes by a clause's differences."""
        if column is None:
            self.matrix = np.column_stack([self.matrix, np.zeros(len(self.first))])
            return
        first, number = self.split(column)
        self.matrix = np.column_stack([self.matrix[self.class_of[first]], column[first]])
        self.class_of, self.first = number, first

    def split(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An atom of each class that a clause's differences leave, and the class of each atom."""
        value = np.unique(column, return_inverse=True)[1]
        key = self.class_of * (int(value.max(initial=0)) + 1) + value
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return first, number

    def drop_last(self) -> None:
        self.matrix = self.matrix[:, :-1]

    def class_share(self) -> np.ndarray:
        return np.bincount(self.class_of, self.share, minlength=len(self.first))


class Ensemble:
    """Clauses on training data, with their weights."""

    def __init__(
        self,
        data: TrainingData,
        joins: Joins[Any],
        seed: int = 0,
        pricing: Pricing | None = None,
    ) -> None:
        self.data, self.joins = data, joins
        self.pricing = pricing if pricing is not None else flat_pricing(data)
        generator = np.random.default_rng(seed)
        self.targets = [
            list_target_atoms(data, name, generator)
            for name in data.targets
            if data.num_atoms[name]
        ]
        self.clauses: list[Candidate] = []
        self.weights = np.zeros(0)
        self.ridges: list[float] = []  # of each clause, by the prior of the pricing
        self.units = np.array([unit_weight(t) for t in self.targets])
        self.unit_bend = [1 / (2 + 2 * np.cosh(weight)) for weight in self.units]  # p (1 − p)
        self.value = float(self.values().sum())

    def gain_of(self, candidate: Candidate) -> float:
        """The worth of what the clause would add at its best weight, unit weights free and all
        others as now."""
        columns = [target.column(self.joins, candidate) for target in self.targets]
        used = [j for j, column in enumerate(columns) if column is not None]
        parts = [self._with_column(j, columns[j]) for j in used]
        difference, offset, truth, share = (
            np.concatenate([part[k] for part in parts]) for k in range(4)
        )
        predicate = np.repeat(np.arange(len(used)), [len(part[0]) for part in parts])
        units = self.units[used].copy()
        now = [target_value(self.targets[j], self._field(j)) for j in used]
        ridge = self._ridge({j: column for j in used if (column := columns[j]) is not None})
        fitted = fit_weight(units, offset, difference, truth, share, predicate, ridge)
        if fitted is None:
            return 0.0
        worth = np.array([self.pricing.worth[self.targets[j].predicate] for j in used])
        return float(worth @ (fitted.values - now))

    def worth(self) -> float:
        """The WPLL as it is priced."""
        return float(
            sum(
                self.pricing.worth[target.predicate] * value
                for target, value in zip(self.targets, self.values(), strict=True)
            )
        )

    def add(self, candidate: Candidate) -> None:
        """Take a clause in, with weight 0."""
        columns = [target.column(self.joins, candidate) for target in self.targets]
        for target, column in zip(self.targets, columns, strict=True):
            target.append(column)
        self.clauses.append(candidate)
        self.weights = np.append(self.weights, 0.0)
        self.ridges.append(self._ridge({j: c for j, c in enumerate(columns) if c is not None}))

    def remove_last(self) -> None:
        for target in self.targets:
            target.drop_last()
        self.clauses.pop()
        self.ridges.pop()
        self.weights = self.weights[:-1]

    def refit(self, *, l1: float = 0.0, l2: float | None = SHRINKAGE, max_steps: int = 50) -> float:
        """Best weights of all clauses together; the WPLL there, without penalties.

        Without `l2` weights have the prior of the pricing.
        """
        size = len(self.weights)
        scales, penalty2 = self.scales(l2)
        scale = scales[:size]
        point = np.concatenate([self.weights, self.units]) * scales
        penalty1 = np.concatenate([l1 / scale, np.zeros(len(self.units))])
        matrices = [target.matrix / scale for target in self.targets]
        shares = [target.class_share() for target in self.targets]
        goal = self._goal(point, matrices, shares, penalty1, penalty2)
        for _ in range(max_steps):
            gradient, curvature = self._slope(point, matrices, shares)
            step = descend_coordinates(curvature, gradient, point, penalty1, penalty2)
            expected = float(gradient @ step) - float(
                penalty1 @ (np.abs(point + step) - np.abs(point))
                + penalty2 @ ((point + step) ** 2 - point**2) / 2
            )
            length = 1.0
            while length > 1e-6:
                after = self._goal(point + length * step, matrices, shares, penalty1, penalty2)
                if after >= goal + 1e-4 * length * expected:
                    break
                length /= 2
            if after <= goal + 1e-10:
                break
            point, goal = point + length * step, after
        self.weights, self.units = point[:size] / scale, point[size:]
        self.value = float(self.values().sum())
        return self.value

    def calibrated(self) -> np.ndarray:
        """float64[num_targets]: `values` where unit weights are the best ones, and all weights are
        multiplied by the best factor of each target, which is not negative."""
        from scipy.optimize import minimize

        found = []
        for j, target in enumerate(self.targets):
            field = target.matrix @ self.weights
            truth, share = target.truth[target.first], target.class_share()
            scale = max(1.0, float(np.abs(field).max(initial=0.0)))

            def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
                own = point[0] + point[1] * field / scale  # noqa: B023
                slope = share * (1.0 / (1.0 + np.exp(-np.clip(own, -500, 500))) - truth)  # noqa: B023
                gradient = np.array([slope.sum(), slope @ field / scale])  # noqa: B023
                return -class_log_likelihood(own, truth, share), gradient  # noqa: B023

            start = np.array([self.units[j], 0.0])
            bounds = [(-FAR, FAR), (0.0, FAR * scale)]
            fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
            found.append(-float(fitted.fun))
        return np.array(found)

    def scales(self, l2: float | None) -> tuple[np.ndarray, np.ndarray]:
        """float64[num_clauses + num_units]: the largest difference, and λ₂ for scaled weights.

        Clauses that couple unknown atoms have a narrow prior: what they were learned from is as
        few as the worlds, and attraction that these bear turns over a world with more to attract.
        """
        scale = np.ones(len(self.weights))
        for target in self.targets:
            scale = np.maximum(scale, np.abs(target.matrix).max(axis=0, initial=0.0))
        own = np.array(self.ridges) if l2 is None else l2 / scale**2
        coupled = np.array([self.data.couples_any(c.path) for c in self.clauses], bool)
        share = np.array([self.data.atom_share[target.predicate] for target in self.targets])
        unit = share / UNIT_WIDTH**2 if l2 is None else np.full(len(self.units), l2)
        ridge = np.concatenate([np.where(coupled, COUPLING / scale**2, own), unit])
        return np.concatenate([scale, np.ones(len(self.units))]), ridge

    def value_at(self, point: np.ndarray, left_out: Set[str]) -> tuple[float, np.ndarray]:
        """The WPLL of all predicates but some, and its gradient."""
        size = len(self.weights)
        value, gradient = 0.0, np.zeros(len(point))
        for j, target in enumerate(self.targets):
            if target.predicate not in left_out:
                field = np.clip(target.matrix @ point[:size] + point[size + j], -500, 500)
                truth, share = target.truth[target.first], target.class_share()
                value += class_log_likelihood(field, truth, share)
                slope = share * (truth - 1.0 / (1.0 + np.exp(-field)))
                gradient[:size] += slope @ target.matrix
                gradient[size + j] = slope.sum()
        return value, gradient

    def _goal(
        self, point: np.ndarray, matrices: Sequence[np.ndarray], shares: Sequence[np.ndarray],
        penalty1: np.ndarray, penalty2: np.ndarray,
    ) -> float:  # fmt: skip
        size = len(self.weights)
        value = -float(penalty1 @ np.abs(point) + penalty2 @ point**2 / 2)
        for j, target in enumerate(self.targets):
            field = matrices[j] @ point[:size] + point[size + j]
            value += class_log_likelihood(field, target.truth[target.first], shares[j])
        return value

    def _slope(
        self, point: np.ndarray, matrices: Sequence[np.ndarray], shares: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of the WPLL and −∇²."""
        size = len(self.weights)
        gradient = np.zeros(len(point))
        curvature = np.zeros((len(point), len(point)))
        for j, target in enumerate(self.targets):
            field = np.clip(matrices[j] @ point[:size] + point[size + j], -500, 500)
            p = 1.0 / (1.0 + np.exp(-field))
            slope = shares[j] * (target.truth[target.first] - p)
            bend = shares[j] * p * (1.0 - p)
            bent = matrices[j] * bend[:, None]
            gradient[:size] += slope @ matrices[j]
            gradient[size + j] = slope.sum()
            curvature[:size, :size] += matrices[j].T @ bent
            curvature[:size, size + j] = curvature[size + j, :size] = bent.sum(axis=0)
            curvature[size + j, size + j] = bend.sum()
        return gradient, curvature

    def _field(self, j: int) -> np.ndarray:
        """float64[num_classes] of target j."""
        return self.targets[j].matrix @ self.weights + self.units[j]

    def values(self) -> np.ndarray:
        """float64[num_targets], the part of each target in the WPLL."""
        return np.array([target_value(t, self._field(j)) for j, t in enumerate(self.targets)])

    def _ridge(self, columns: Mapping[int, np.ndarray]) -> float:
        """The prior's precision for a clause with these differences, by target."""
        if not columns:
            return 0.0
        shares = [self.data.atom_share[self.targets[j].predicate] for j in columns]
        information = [
            float(self.unit_bend[j] * (self.targets[j].share @ column**2))
            for j, column in columns.items()
        ]
        return self.pricing.ridge(shares, information)

    def _with_column(self, j: int, column: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Differences, fields without the unit, truth and share of classes split by the column."""
        target = self.targets[j]
        assert column is not None
        first, number = target.split(column)
        offset = (self._field(j) - self.units[j])[target.class_of[first]]
        return column[first], offset, target.truth[first], np.bincount(number, target.share)


def list_target_atoms(data: TrainingData, name: str, generator: np.random.Generator) -> TargetAtoms:
    """All atoms of a predicate; where they are many, the true ones and a sample of the others."""
    types = data.predicates[name].types
    keep = min(1.0, MAX_LISTED / data.num_atoms[name])
    parts, worlds, shares, truths = [], [], [], []
    for world in range(data.num_worlds):
        sizes = data.sizes(name, world)
        total = prod(sizes)
        shift = np.array([data.offset[t][world] for t in types], np.int32)
        true = data.true_rows(name, world)
        if not types:
            rows = np.zeros((1, 0), np.int32)
        elif keep == 1.0:
            rows = unpack(np.arange(total), sizes) + shift
        else:
            drawn = np.unique(generator.integers(total, size=int(total * keep)))
            rows = unpack(drawn, sizes) + shift
            rows = np.concatenate([true, rows[~contains(true, rows)]])
        truth = contains(true, rows) if types else np.array([len(true) > 0])
        num_false = int((~truth).sum())
        false_share = (total - len(true)) / num_false if num_false else 0.0
        parts.append(rows.astype(np.int32))
        worlds.append(np.full(len(rows), world))
        truths.append(truth)
        shares.append(np.where(truth, 1.0, false_share) * data.atom_share[name])
    truth = np.concatenate(truths)
    first, class_of = np.unique(truth, return_index=True, return_inverse=True)[1:]
    return TargetAtoms(
        name, np.concatenate(parts), np.concatenate(worlds), np.concatenate(shares), truth,
        class_of, first, np.zeros((len(first), 0)),
    )  # fmt: skip


def unit_weight(target: TargetAtoms) -> float:
    share = float(target.share[target.truth].sum() / target.share.sum())
    return float(np.log(share) - np.log1p(-share)) if 0 < share < 1 else (FAR if share else -FAR)


def class_log_likelihood(field: np.ndarray, truth: np.ndarray, share: np.ndarray) -> float:
    """Σ share · log P(truth)."""
    return float(-share @ np.logaddexp(0.0, np.where(truth, -field, field)))


def target_value(target: TargetAtoms, field: np.ndarray) -> float:
    return class_log_likelihood(field, target.truth[target.first], target.class_share())


@allocating_entry
def descend_coordinates(curvature, gradient, point, penalty1, penalty2):  # type: ignore[no-untyped-def]
    """The step that maximises the quadratic model less the penalties, coordinate by coordinate."""
    size = len(point)
    step = np.zeros(size)
    residual = gradient.copy()
    for _ in range(200):
        largest = 0.0
        for i in range(size):
            bend = curvature[i, i] + penalty2[i]
            if bend < 1e-14:
                continue
            now = point[i] + step[i]
            wish = residual[i] + curvature[i, i] * now
            shrunk = max(abs(wish) - penalty1[i], 0.0)
            move = (shrunk if wish > 0 else -shrunk) / bend - now
            if move != 0.0:
                step[i] += move
                residual -= move * curvature[i]
                largest = max(largest, abs(move) * np.sqrt(bend))
        if largest < 1e-9:
            break
    return step
