"""A complete world that Gibbs sampling and local search walk through, by counts alone.

    d(g) = n(g = 1) − n(g = 0)      for each weight, all other atoms as they are

is all that a step needs: the log-odds of the atom are w · d. `ExactWorld` takes d from the
incremental `World` of counting, `EstimatedWorld` from the propagations of `ijgp.differences`. Both
offer the differences of a batch of atoms as an iterator. The exact one looks at the world when it
is asked for the next atom, so that flips made in between are seen. The estimated one answers the
whole batch from one propagation a clause, which is some hundred times faster than one for each
atom, and propagates again once the world has changed in `patience` atoms. That is one in
small worlds, which makes it as strict as the exact one; in large ones it is a small share of the
atoms (`STALE_SHARE`), few of which have to do with each other.

Estimating n before and after a flip and subtracting, as Algorithm 1 of the paper is written, was
tried first: thirty flips a second on Cora, and a small difference of two large estimates, each
with an error of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp
from typing import NamedTuple, Protocol

import numpy as np

from lapis.problem.problem import Problem

BATCH = 64  # atoms of one predicate that are visited one after the other
STALE_SHARE = 0.002  # of the atoms may have flipped since differences were estimated
MOST_STALE = 64
LARGEST_SCORE = 700.0  # exp beyond this overflows


class Difference(NamedTuple):
    """d(g) of one atom, sparse, and its truth."""

    weight_id: Sequence[int]
    value: Sequence[float]
    hard: int  # hard groundings that hold with g true, less those with g false
    truth: bool

    def score(self, weights: Sequence[float]) -> float:
        """w · d, the log-odds of the atom where hard rules do not decide."""
        score = 0.0
        for column, value in zip(self.weight_id, self.value, strict=True):
            score += weights[column] * value
        return score


class CountedWorld(Protocol):
    def differences(self, predicate: str, rows: np.ndarray) -> Iterator[Difference]:
        """Of atoms int32[n, arity], one after the other."""

    def is_true(self, predicate: str, row: Sequence[int]) -> bool: ...

    def flip(self, predicate: str, row: Sequence[int]) -> None: ...

    def counts(self) -> np.ndarray:
        """float64[num_weights], of the world as it is."""

    @property
    def is_broken(self) -> bool:
        """Whether the world as it is breaks a hard rule."""


class ExactWorld:
    """Differences and counts by exact counting."""

    def __init__(self, problem: Problem, true: Mapping[str, np.ndarray] | None = None) -> None:
        from lapis.counting.flipping_world import World

        self.world = World(problem) if true is None else World(problem, world=dict(true))

    def differences(self, predicate: str, rows: np.ndarray) -> Iterator[Difference]:
        delta, is_true = self.world.delta, self.world.is_true
        for row in rows.tolist():
            change = delta(predicate, row)
            if is_true(predicate, row):
                value = tuple(-number for number in change.difference)
                yield Difference(change.weight_id, value, change.violations, True)
            else:
                yield Difference(change.weight_id, change.difference, -change.violations, False)

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return self.world.is_true(predicate, row)

    def flip(self, predicate: str, row: Sequence[int]) -> None:
        self.world.flip(predicate, row)

    def counts(self) -> np.ndarray:
        return self.world.counts.astype(np.float64)

    @property
    def is_broken(self) -> bool:
        return self.world.violations > 0


class EstimatedWorld:
    """Differences and counts by IJGP(i)."""

    def __init__(
        self, problem: Problem, true: Mapping[str, np.ndarray], ibound: int, patience: int
    ) -> None:
        from lapis.counting.ijgp.differences import DifferenceEstimator

        self.problem, self.ibound, self.patience = problem, ibound, patience
        self.estimator = DifferenceEstimator(problem, ibound)
        self.num_flips = 0
        self._tuples: dict[str, np.ndarray] = {}
        self.true: dict[str, set[tuple[int, ...]]] = {
            name: set(map(tuple, rows.tolist())) for name, rows in true.items()
        }

    def differences(self, predicate: str, rows: np.ndarray) -> Iterator[Difference]:
        known = self.true[predicate]
        listed = list(map(tuple, rows.tolist()))
        begin = 0
        while begin < len(listed):
            made_at = self.num_flips
            truth = np.array([row in known for row in listed[begin:]], bool)
            found = self.estimator.differences(predicate, rows[begin:], truth, self.tuples())
            bounds, weights, values = found.indptr.tolist(), found.indices, found.data
            for number, row in enumerate(listed[begin:]):
                if self.num_flips - made_at >= self.patience:
                    break
                part = slice(bounds[number], bounds[number + 1])
                yield Difference(weights[part].tolist(), values[part].tolist(), 0, row in known)
                begin += 1

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return tuple(row) in self.true[predicate]

    def flip(self, predicate: str, row: Sequence[int]) -> None:
        self.true[predicate] ^= {tuple(row)}
        self._tuples.pop(predicate, None)
        self.num_flips += 1

    def counts(self) -> np.ndarray:
        from lapis.counting.ijgp import count_ijgp

        problem = self.problem
        return count_ijgp(
            problem.normal_form, problem.model, problem.domains, self.tuples(), self.ibound
        ).count

    @property
    def is_broken(self) -> bool:
        return False  # the estimator refuses hard rules

    def tuples(self) -> Mapping[str, np.ndarray]:
        """The true tuples, int32[num_true, arity], by predicate."""
        for name, predicate in self.problem.model.predicates.items():
            if name not in self._tuples:
                rows = np.array(list(self.true[name]), np.int32)
                self._tuples[name] = rows.reshape(len(self.true[name]), predicate.arity)
        return self._tuples


def count_world(
    problem: Problem,
    true: Mapping[str, np.ndarray],
    ibound: int | None,
    moved: Iterable[str],
    num_sites: int,
) -> CountedWorld:
    """The world with these true tuples, of which the atoms of `moved` predicates will flip.

    `ibound` asks for estimated differences; where IJGP(ibound) would be exact, they are counted.
    """
    if ibound is None:
        return ExactWorld(problem, true)
    from lapis.counting.ijgp.differences import propagates_exactly

    if all(propagates_exactly(problem, name, ibound) for name in moved):
        return ExactWorld(problem, true)
    patience = max(1, min(MOST_STALE, int(STALE_SHARE * num_sites)))
    return EstimatedWorld(problem, true, ibound, patience)


def truth_probability(difference: Difference, score: float) -> float:
    """P(g = 1 | rest); a value that breaks more hard groundings is never taken."""
    if difference.hard:
        return float(difference.hard > 0)
    return 1.0 / (1.0 + exp(min(LARGEST_SCORE, -score)))


class BlockChoice(NamedTuple):
    """The values a block may take, the last of them none if it may be empty."""

    values: list[Difference]  # what each adds to the block left empty
    score: np.ndarray  # float64[num_values], −inf where hard rules forbid it
    probability: np.ndarray  # float64[num_values], given the rest
    before: list[int]  # the values it had


def empty_block(
    world: CountedWorld, predicate: str, rows: np.ndarray, exact: bool, weights: Sequence[float]
) -> BlockChoice:
    """Take a block's value away, atoms int32[num_atoms, arity], and weigh all it may have."""
    listed = rows.tolist()
    before = [at for at, row in enumerate(listed) if world.is_true(predicate, row)]
    for at in before:
        world.flip(predicate, listed[at])
    values = list(world.differences(predicate, rows))
    if not exact:
        values.append(Difference((), (), 0, False))
        before = before or [len(rows)]
    score = np.array([value.score(weights) for value in values], np.float64)
    hard = np.array([value.hard for value in values])
    score[hard < hard.max()] = -np.inf
    probability = np.exp(score - score.max())
    return BlockChoice(values, score, probability / probability.sum(), before)
