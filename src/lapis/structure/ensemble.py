"""The joint weighted pseudo-log-likelihood (WPLL) of several clauses, and the best weights.

The atoms of each target predicate are classified by the differences that they make to the clauses;
a new clause splits the classes. Weights maximise

    WPLL(w) − λ₁ Σ |w_i| − λ₂/2 Σ w_i²      (λ₁ does not apply to unit weights)

or the WPLL under the prior of a `Pricing` in place of λ₂. Each step of Newton's method solves the
quadratic model by coordinate descent, as glmnet does, which sets weights to exactly zero. Of a
predicate with more than `MAX_LISTED` atoms, all true atoms are kept and the false ones are sampled;
each sampled atom has the share of those that it represents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import compress
from math import prod
from typing import Any

import numpy as np

from lapis.data.keys import contains, number_rows, unpack
from lapis.runtime.kernels import allocating_entry
from lapis.structure.candidates import Candidate
from lapis.structure.clause_scores import fit_unit, fit_weight
from lapis.structure.path_differences import Joins
from lapis.structure.pricing import UNIT_WIDTH, Pricing, flat_pricing
from lapis.structure.training_data import TrainingData

MAX_LISTED = 2_000_000  # atoms of a predicate
LARGEST_COUNT = 2.0**53  # smaller counts are exact in float64
SHRINKAGE = 1e-3  # λ₂: a Gaussian prior of width 32


@dataclass
class TargetAtoms:
    """Atoms of one target predicate, in classes of equal differences."""

    predicate: str
    rows: np.ndarray  # int32[n, arity], worlds in order
    world: np.ndarray  # int64[n]
    share: np.ndarray  # float64[n], number of atoms represented times c_r; sums to 1 without groups
    truth: np.ndarray  # bool[n]
    class_of: np.ndarray  # int64[n]
    class_share: np.ndarray  # float64[num_classes]
    first: np.ndarray  # int64[num_classes], an atom of each class
    matrix: np.ndarray  # float64[num_classes, num_clauses]

    def column(self, joins: Joins[Any], candidate: Candidate) -> np.ndarray | None:
        """Return float64[n], the difference that each atom makes to the clause.

        None if the predicate does not occur in the clause, or if the clause couples its atoms.
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
        matrix = np.column_stack([self.matrix[self.class_of[first]], column[first]])
        share = np.bincount(number, self.share, minlength=len(first))
        self.matrix, self.class_of, self.first, self.class_share = matrix, number, first, share

    def split(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split the classes by a clause's differences: an atom of each class, and each atom's."""
        if np.abs(column).max(initial=0.0) < LARGEST_COUNT:
            value = column.astype(np.int64)
        else:
            value = np.unique(column, return_inverse=True)[1]
        return number_rows([self.class_of, value], len(column))

    def keep_first(self, num_clauses: int) -> None:
        self.matrix = self.matrix[:, :num_clauses]


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
        self.left_out: set[tuple[tuple[str, ...], Candidate]] = set()  # of the group's network
        self.units = np.array([unit_weight(t) for t in self.targets])
        self.unit_bend = [1 / (2 + 2 * np.cosh(weight)) for weight in self.units]  # p (1 − p)
        self.value = float(self.values().sum())

    def gain_of(self, candidate: Candidate) -> float:
        """Return the worth of a clause at its best weight; only unit weights are refitted too."""
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
        """Return the WPLL in units of the pricing."""
        return float(
            sum(
                self.pricing.worth[target.predicate] * value
                for target, value in zip(self.targets, self.values(), strict=True)
            )
        )

    def add(self, candidate: Candidate) -> None:
        """Add a clause with weight 0."""
        columns = [target.column(self.joins, candidate) for target in self.targets]
        ridge = self._ridge({j: c for j, c in enumerate(columns) if c is not None})
        try:
            for target, column in zip(self.targets, columns, strict=True):
                target.append(column)
        except BaseException:  # a limit: without the clause, finer classes change nothing
            for target in self.targets:
                target.keep_first(len(self.clauses))
            raise
        weights = np.append(self.weights, 0.0)
        self.clauses.append(candidate)
        self.ridges.append(ridge)
        self.weights = weights

    def coupled_groups(self, candidate: Candidate) -> list[tuple[str, ...]]:
        """Return the groups whose atoms the clause couples in their networks."""
        return [
            group
            for group in self.data.groups
            if self.data.couples(candidate.path, group[0])
            and (group, candidate) not in self.left_out
        ]

    def keep(self, chosen: Sequence[bool]) -> None:
        """Keep some of the clauses, with their weights."""
        mask = np.array(chosen, bool)
        for target in self.targets:
            target.matrix = target.matrix[:, mask]
        self.clauses = list(compress(self.clauses, chosen))
        self.ridges = list(compress(self.ridges, chosen))
        self.weights = self.weights[mask]
        self.value = float(self.values().sum())

    def remove_last(self) -> None:
        for target in self.targets:
            target.keep_first(len(self.clauses) - 1)
        self.clauses.pop()
        self.ridges.pop()
        self.weights = self.weights[:-1]

    def refit(self, *, l1: float = 0.0, l2: float | None = SHRINKAGE, max_steps: int = 50) -> float:
        """Fit the weights of all clauses; return the WPLL without penalties.

        If `l2` is None, weights have the prior of the pricing.
        """
        size = len(self.weights)
        scale, ridge = self.scales(l2)
        penalty1 = np.concatenate([np.full(size, l1), np.zeros(len(self.units))])
        penalty2 = ridge * scale**2

        def penalty(at: np.ndarray) -> float:
            return float(penalty1 @ np.abs(at) + penalty2 @ at**2 / 2)

        point = np.concatenate([self.weights, self.units])
        value, gradient = self.value_at(point)
        for _ in range(max_steps):
            step = descend_coordinates(self._curvature(point), gradient, point, penalty1, penalty2)
            before = value - penalty(point)
            expected = float(gradient @ step) - penalty(point + step) + penalty(point)
            length = 1.0
            while length > 1e-6:
                moved = point + length * step
                value, gradient = self.value_at(moved)
                if value - penalty(moved) >= before + 1e-4 * length * expected:
                    break
                length /= 2
            if value - penalty(moved) <= before + 1e-10:
                break
            point = moved
        self.weights, self.units = point[:size], point[size:]
        self.value = float(self.values().sum())
        return self.value

    def calibrated(self) -> np.ndarray:
        """Return `values` after fitting a unit weight and a factor ≥ 0 of all weights by target."""
        found = []
        for target in self.targets:
            field = target.matrix @ self.weights
            truth, share = target.truth[target.first], target.class_share
            unit, value = fit_unit(float(share @ truth / share.sum()))
            zeros = np.zeros(len(field))
            fitted = fit_weight(np.array([unit]), zeros, field, truth, share, zeros.astype(int))
            if fitted is not None and fitted.weight > 0:
                found.append(float(fitted.values[0]))
            else:
                found.append(value * float(share.sum()))
        return np.array(found)

    def scales(self, l2: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Return largest differences and λ₂ of the scaled weights, of clauses, then units."""
        scale = np.ones(len(self.weights))
        for target in self.targets:
            scale = np.maximum(scale, np.abs(target.matrix).max(axis=0, initial=0.0))
        own = np.array(self.ridges) if l2 is None else l2 / scale**2
        share = np.array([self.data.atom_share[target.predicate] for target in self.targets])
        unit = share / UNIT_WIDTH**2 if l2 is None else np.full(len(self.units), l2)
        ridge = np.concatenate([own, unit])
        return np.concatenate([scale, np.ones(len(self.units))]), ridge

    def value_at(
        self, point: np.ndarray, left_out: Set[str] = frozenset()
    ) -> tuple[float, np.ndarray]:
        """Return the WPLL of all predicates outside `left_out`, and its gradient."""
        size = len(self.weights)
        value, gradient = 0.0, np.zeros(len(point))
        for j, target in enumerate(self.targets):
            if target.predicate not in left_out:
                field = target.matrix @ point[:size] + point[size + j]
                truth, share = target.truth[target.first], target.class_share
                value += class_log_likelihood(field, truth, share)
                slope = share * (truth - 1.0 / (1.0 + np.exp(-np.clip(field, -500, 500))))
                gradient[:size] += slope @ target.matrix
                gradient[size + j] = slope.sum()
        return value, gradient

    def _curvature(self, point: np.ndarray) -> np.ndarray:
        """Return −∇² of the WPLL."""
        size = len(self.weights)
        curvature = np.zeros((len(point), len(point)))
        for j, target in enumerate(self.targets):
            field = np.clip(target.matrix @ point[:size] + point[size + j], -500, 500)
            p = 1.0 / (1.0 + np.exp(-field))
            bend = target.class_share * p * (1.0 - p)
            used = np.flatnonzero(target.matrix.any(axis=0))
            own = target.matrix[:, used]
            bent = own * bend[:, None]
            curvature[np.ix_(used, used)] += own.T @ bent
            curvature[used, size + j] = curvature[size + j, used] = bent.sum(axis=0)
            curvature[size + j, size + j] = bend.sum()
        return curvature

    def _field(self, j: int) -> np.ndarray:
        """Return float64[num_classes], the log-odds of the classes of target j."""
        return self.targets[j].matrix @ self.weights + self.units[j]

    def values(self) -> np.ndarray:
        """Return float64[num_targets], the WPLL by target."""
        return np.array([target_value(t, self._field(j)) for j, t in enumerate(self.targets)])

    def _ridge(self, columns: Mapping[int, np.ndarray]) -> float:
        """Return the prior's precision for a clause, given its differences by target."""
        if not columns:
            return 0.0
        shares = [self.data.atom_share[self.targets[j].predicate] for j in columns]
        information = [
            float(self.unit_bend[j] * np.einsum("i,i,i", self.targets[j].share, column, column))
            for j, column in columns.items()
        ]
        return self.pricing.ridge(shares, information)

    def _with_column(self, j: int, column: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Return differences, log-odds without the unit, truth and share of the split classes."""
        target = self.targets[j]
        assert column is not None
        first, number = target.split(column)
        offset = (self._field(j) - self.units[j])[target.class_of[first]]
        return column[first], offset, target.truth[first], np.bincount(number, target.share)


def list_target_atoms(data: TrainingData, name: str, generator: np.random.Generator) -> TargetAtoms:
    """List the atoms of a predicate; if they are many, the true ones and a sample of the others."""
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
    truth, share = np.concatenate(truths), np.concatenate(shares)
    first, class_of = np.unique(truth, return_index=True, return_inverse=True)[1:]
    return TargetAtoms(
        name, np.concatenate(parts), np.concatenate(worlds), share, truth,
        class_of, np.bincount(class_of, share), first, np.zeros((len(first), 0)),
    )  # fmt: skip


def unit_weight(target: TargetAtoms) -> float:
    return fit_unit(float(target.share[target.truth].sum() / target.share.sum()))[0]


def class_log_likelihood(field: np.ndarray, truth: np.ndarray, share: np.ndarray) -> float:
    """Return Σ share · log P(truth)."""
    return float(-share @ np.logaddexp(0.0, np.where(truth, -field, field)))


def target_value(target: TargetAtoms, field: np.ndarray) -> float:
    return class_log_likelihood(field, target.truth[target.first], target.class_share)


@allocating_entry
def descend_coordinates(curvature, gradient, point, penalty1, penalty2):  # type: ignore[no-untyped-def]
    """Return the step that maximises the quadratic model minus the penalties."""
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
            slope = residual[i] + curvature[i, i] * now
            shrunk = max(abs(slope) - penalty1[i], 0.0)
            move = (shrunk if slope > 0 else -shrunk) / bend - now
            if move != 0.0:
                step[i] += move
                residual -= move * curvature[i]
                largest = max(largest, abs(move) * np.sqrt(bend))
        if largest < 1e-9:
            break
    return step
