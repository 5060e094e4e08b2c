"""A complete world for Gibbs sampling and local search without grounding.

    d(g) = n(g = 1) − n(g = 0)      for each weight, all other atoms as they are

is all that a step needs: the log-odds of atom g are w · d. `ExactWorld` gets d from the incremental
`FlippingWorld` of counting, whose kernel makes all steps of a batch. Subclasses of `EstimatedWorld`
estimate d by IJGP:

`SubstitutedWorld` uses `ijgp.estimated_differences`. One propagation for each clause gives d of a
batch of atoms, about a hundred times faster than one for each atom. It propagates again after
`patience` flips: one in small worlds, and a small share of the atoms in large ones (`STALE_SHARE`),
few of which interact.

`SubtractedWorld` uses `estimate_flip`, as in Algorithm 1 of Sarkhel et al. (2016, "Scalable
training of Markov logic networks using approximate counting"): it estimates n before and after each
flip, one atom at a time, and reuses messages from world to world. The small difference of two large
estimates has the errors of both, unless they cancel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from lapis.counting.differences.sparse_vectors import SparseVectors, gather_ranges, split_column
from lapis.counting.flipping_world import FlippingWorld, Parts
from lapis.counting.flips_kernel import LARGEST_SCORE, AtomVisits
from lapis.network.csr import row_starts
from lapis.problem.problem import Problem

if TYPE_CHECKING:
    from lapis.counting.ijgp import IjgpCounter, IjgpSettings

STALE_SHARE = 0.002  # largest share of atoms that may flip before differences are estimated again
MOST_STALE = 64
MOST_FOLLOWED = 64  # most joint flips after which messages are reused
MOST_REMEMBERED = 64  # worlds one flip away whose messages are kept


class FlipDifference(NamedTuple):
    """d(g) of one atom, sparse, and its truth."""

    weight_id: Sequence[int]
    value: Sequence[float]
    truth: bool

    def score(self, weights: Sequence[float]) -> float:
        """Compute w · d, the log-odds of the atom; estimators do not support hard rules."""
        score = 0.0
        for column, value in zip(self.weight_id, self.value, strict=True):
            score += weights[column] * value
        return score


class Drawn(NamedTuple):
    """The results of resampling atoms, in their order."""

    truth: np.ndarray  # bool[n], before
    flipped: np.ndarray  # bool[n]
    probability: np.ndarray  # float64[n], P(true | rest)
    vectors: SparseVectors | None  # d of each, if requested


@dataclass(frozen=True)
class OpenBlocks:
    """The unknown atoms of some blocks of a predicate, block by block.

    The values of a block are its atoms, and last that none of them is true.
    """

    predicate: str
    rows: np.ndarray  # int32[num_atoms, arity]
    start: np.ndarray  # int64[num_blocks + 1]
    is_exact: np.ndarray  # bool[num_blocks], one atom must be true

    @property
    def num_values(self) -> int:
        return len(self.rows) + len(self.is_exact)

    @cached_property
    def value_start(self) -> np.ndarray:
        """int64[num_blocks + 1], the first value of each block."""
        start: np.ndarray = self.start + np.arange(len(self.start))
        return start

    @cached_property
    def block(self) -> np.ndarray:
        """int64[num_values], the block of each value."""
        return np.repeat(np.arange(len(self.is_exact)), np.diff(self.value_start))

    @cached_property
    def is_atom(self) -> np.ndarray:
        """bool[num_values], all but the last of each block."""
        found = np.ones(self.num_values, bool)
        found[self.value_start[1:] - 1] = False
        return found


class DrawnBlocks(NamedTuple):
    """The results of resampling blocks, in their order."""

    before: np.ndarray  # bool[num_values], the values before
    taken: np.ndarray  # bool[num_values], the values after
    probability: np.ndarray  # float64[num_values], given the rest
    vectors: SparseVectors | None  # d of each value relative to the empty block, if requested


class Gain(NamedTuple):
    """The changes by flips."""

    kept: int  # of the number of true hard groundings
    score: float  # of w · n


class CountedWorld(Protocol):
    """A world that gives conditional distributions from counts."""

    batch: int  # atoms of one predicate to resample in one call

    def draw(self, parts: Parts, weights: np.ndarray, noise: np.ndarray, noted: bool) -> Drawn:
        """Set atoms, one after the other, to w · d + noise > 0; `noted` requests d."""

    def draw_blocks(
        self, blocks: OpenBlocks, weights: np.ndarray, noise: np.ndarray, noted: bool
    ) -> DrawnBlocks:
        """Set blocks, one after the other, to the value with the largest w · d + noise."""

    def flip(self, parts: Parts) -> None: ...

    def gain(self, predicate: str, rows: np.ndarray, weights: np.ndarray) -> Gain:
        """Compute the gain of flipping atoms int32[n, arity]; the world does not change."""

    def is_true(self, predicate: str, row: Sequence[int]) -> bool: ...

    def true_rows(self, predicate: str) -> np.ndarray:
        """Return int32[n, arity], the true atoms in any order."""

    def counts(self) -> np.ndarray:
        """Return float64[num_weights], the counts of the current world."""

    def settle(self) -> None:
        """Drop messages that estimates have kept of earlier worlds."""

    @property
    def num_broken(self) -> int:
        """The number of hard groundings that the current world violates."""


class ExactWorld:
    """Differences and counts by exact counting."""

    batch = 256

    def __init__(self, problem: Problem, true: Mapping[str, np.ndarray] | None = None) -> None:
        self.world = (
            FlippingWorld(problem) if true is None else FlippingWorld(problem, world=dict(true))
        )
        self.num_weights = len(problem.weight_table)

    def draw(self, parts: Parts, weights: np.ndarray, noise: np.ndarray, noted: bool) -> Drawn:
        found = self.world.draw(parts, weights, noise, noted)
        vectors = self._vectors(found) if noted else None
        return Drawn(found.truth, found.flipped, found.probability, vectors)

    def draw_blocks(
        self, blocks: OpenBlocks, weights: np.ndarray, noise: np.ndarray, noted: bool
    ) -> DrawnBlocks:
        given = blocks.predicate, blocks.rows, blocks.start, blocks.is_exact, weights, noise
        found, chosen = self.world.draw_blocks(*given, noted)
        vectors = self._vectors(found) if noted else None
        return drawn_blocks(blocks, found.truth, chosen.taken, chosen.score, vectors)

    def _vectors(self, found: AtomVisits) -> SparseVectors:
        return split_column(self.world.vectors(found), self.num_weights)[0]

    def flip(self, parts: Parts) -> None:
        self.world.flip_all(parts)

    def gain(self, predicate: str, rows: np.ndarray, weights: np.ndarray) -> Gain:
        *before, last = rows.tolist()
        changes = [self.world.flip(predicate, row) for row in before]
        changes.append(self.world.delta(predicate, last))
        self.world.flip_all([(predicate, rows[:-1][::-1])])
        score = sum(float(weights[list(c.weight_id)] @ np.array(c.difference)) for c in changes)
        return Gain(-sum(change.violations for change in changes), score)

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return self.world.is_true(predicate, row)

    def true_rows(self, predicate: str) -> np.ndarray:
        return self.world.true_rows(predicate)

    def counts(self) -> np.ndarray:
        return self.world.counts.astype(np.float64)

    def settle(self) -> None:
        """Do nothing: exact counts keep no messages."""

    @property
    def num_broken(self) -> int:
        return self.world.violations


class EstimatedWorld(ABC):
    """Differences and counts by IJGP(i)."""

    batch = 64

    def __init__(
        self, problem: Problem, true: Mapping[str, np.ndarray], settings: IjgpSettings
    ) -> None:
        self.problem, self.settings = problem, settings
        self._tuples: dict[str, np.ndarray] = {}
        self.true: dict[str, set[tuple[int, ...]]] = {
            name: set(map(tuple, rows.tolist())) for name, rows in true.items()
        }

    def draw(self, parts: Parts, weights: np.ndarray, noise: np.ndarray, noted: bool) -> Drawn:
        local: list[float] = weights.tolist()
        seen: list[FlipDifference] = []
        probability, flipped = np.empty(len(noise)), np.zeros(len(noise), bool)
        for name, rows in parts:
            for row, difference in zip(rows, self._differences(name, rows), strict=True):
                at, score = len(seen), difference.score(local)
                seen.append(difference)
                probability[at] = 1.0 / (1.0 + exp(min(LARGEST_SCORE, -score)))
                value = score + noise[at] > 0
                if value != difference.truth:
                    flipped[at] = True
                    self.flip([(name, row[None])])
        truth = np.array([each.truth for each in seen], bool)
        return Drawn(truth, flipped, probability, sparse_vectors(seen) if noted else None)

    def draw_blocks(
        self, blocks: OpenBlocks, weights: np.ndarray, noise: np.ndarray, noted: bool
    ) -> DrawnBlocks:
        local: list[float] = weights.tolist()
        name, seen = blocks.predicate, list[FlipDifference]()
        score, taken = np.zeros(len(noise)), np.empty(len(blocks.is_exact), np.int64)
        truth = np.empty(len(blocks.rows), bool)
        score[blocks.value_start[1:] - 1] = np.where(blocks.is_exact, -np.inf, 0.0)
        for number, (begin, end) in enumerate(zip(blocks.start, blocks.start[1:], strict=False)):
            rows = blocks.rows[begin:end]
            truth[begin:end] = [tuple(row) in self.true[name] for row in rows.tolist()]
            self.flip([(name, rows[truth[begin:end]])])
            values = list(self._differences(name, rows))
            own = slice(begin + number, end + number + 1)
            score[own][:-1] = [value.score(local) for value in values]
            taken[number] = np.argmax(score[own] + noise[own])
            self.flip([(name, rows[taken[number] : taken[number] + 1])])
            seen += values
        return drawn_blocks(blocks, truth, taken, score, sparse_vectors(seen) if noted else None)

    @abstractmethod
    def _differences(self, predicate: str, rows: np.ndarray) -> Iterator[FlipDifference]:
        """Yield the differences, each in the world at that time."""

    @abstractmethod
    def counts(self) -> np.ndarray: ...

    @abstractmethod
    def settle(self) -> None: ...

    def flip(self, parts: Parts) -> None:
        for predicate, rows in parts:
            for row in rows.tolist():
                self._flip_atom(predicate, tuple(row))

    def gain(self, predicate: str, rows: np.ndarray, weights: np.ndarray) -> Gain:
        local: list[float] = weights.tolist()
        total = 0.0
        for number in range(len(rows)):
            row = rows[number : number + 1]
            (difference,) = self._differences(predicate, row)
            total += -difference.score(local) if difference.truth else difference.score(local)
            if number + 1 < len(rows):
                self.flip([(predicate, row)])
        self.flip([(predicate, rows[:-1][::-1])])
        return Gain(0, total)

    def is_true(self, predicate: str, row: Sequence[int]) -> bool:
        return tuple(row) in self.true[predicate]

    def _flip_atom(self, predicate: str, row: tuple[int, ...]) -> None:
        self.true[predicate] ^= {row}
        self._tuples.pop(predicate, None)

    def true_rows(self, predicate: str) -> np.ndarray:
        return self.tuples()[predicate]

    @property
    def num_broken(self) -> int:
        return 0  # estimators do not support hard rules

    def tuples(self) -> Mapping[str, np.ndarray]:
        """Return the true tuples, int32[num_true, arity], by predicate."""
        for name, predicate in self.problem.model.predicates.items():
            if name not in self._tuples:
                rows = np.array(list(self.true[name]), np.int32)
                self._tuples[name] = rows.reshape(len(self.true[name]), predicate.arity)
        return self._tuples


class SubstitutedWorld(EstimatedWorld):
    """Differences from the groundings that contain an atom, for many atoms at once."""

    def __init__(
        self,
        problem: Problem,
        true: Mapping[str, np.ndarray],
        settings: IjgpSettings,
        patience: int,
    ) -> None:
        from lapis.counting.ijgp.estimated_differences import DifferenceEstimator

        super().__init__(problem, true, settings)
        self.patience = patience
        self.estimator = DifferenceEstimator(problem, settings)
        self.num_flips = 0

    def _differences(self, predicate: str, rows: np.ndarray) -> Iterator[FlipDifference]:
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
                yield FlipDifference(weights[part].tolist(), values[part].tolist(), row in known)
                begin += 1

    def _flip_atom(self, predicate: str, row: tuple[int, ...]) -> None:
        super()._flip_atom(predicate, row)
        self.num_flips += 1

    def settle(self) -> None:
        """Do nothing: differences depend only on the current world."""

    def counts(self) -> np.ndarray:
        from lapis.counting.ijgp import count_ijgp

        problem = self.problem
        return count_ijgp(
            problem.normal_form, problem.model, problem.domains, self.tuples(), self.settings
        ).count


class SubtractedWorld(EstimatedWorld):
    """Differences of two estimated counts; messages are reused from world to world."""

    def __init__(
        self, problem: Problem, true: Mapping[str, np.ndarray], settings: IjgpSettings
    ) -> None:
        from lapis.counting.ijgp.estimated_differences import new_counter

        super().__init__(problem, true, settings)
        self.counter = new_counter(problem, settings)
        # Counters of worlds one flip away that were estimated since the last flip.
        self._flipped: dict[tuple[str, tuple[int, ...]], IjgpCounter] = {}
        self.settle()

    def _differences(self, predicate: str, rows: np.ndarray) -> Iterator[FlipDifference]:
        from lapis.counting.ijgp.estimated_differences import estimate_flip

        for row in map(tuple, rows.tolist()):
            truth = row in self.true[predicate]
            found = estimate_flip(self.counter, predicate, row, truth)
            self._remember(predicate, row, found.flipped)
            yield FlipDifference(found.weight_id.tolist(), found.value.tolist(), truth)

    def gain(self, predicate: str, rows: np.ndarray, weights: np.ndarray) -> Gain:
        """Estimate from the messages of this world; intermediate flips leave no messages."""
        flipped = self.counter.branch()
        for row in map(tuple, rows.tolist()):
            flipped.assign(predicate, row, row not in self.true[predicate])
        if len(rows) == 1:
            self._remember(predicate, row, flipped)
        weight, change = flipped.change_since(self.counter)
        return Gain(0, float(weights[weight] @ change))

    def flip(self, parts: Parts) -> None:
        if sum(len(rows) for _, rows in parts) <= MOST_FOLLOWED:
            super().flip(parts)
            return
        for predicate, rows in parts:
            for row in rows.tolist():
                super()._flip_atom(predicate, tuple(row))
        self.settle()

    def _remember(self, predicate: str, row: tuple[int, ...], flipped: IjgpCounter) -> None:
        if len(self._flipped) >= MOST_REMEMBERED:
            self._flipped.clear()
        self._flipped[predicate, row] = flipped

    def _flip_atom(self, predicate: str, row: tuple[int, ...]) -> None:
        super()._flip_atom(predicate, row)
        flipped = self._flipped.get((predicate, row))
        self._flipped.clear()
        if flipped is None:
            self.counter.assign(predicate, row, row in self.true[predicate])
        else:
            self.counter = flipped

    def settle(self) -> None:
        """Count the world again with new messages."""
        self._flipped.clear()
        self.counter.count(self.tuples())

    def counts(self) -> np.ndarray:
        return self.counter.counts()


def count_world(
    problem: Problem,
    true: Mapping[str, np.ndarray],
    ijgp: IjgpSettings | None,
    moved: Iterable[str],
    num_sites: int,
) -> CountedWorld:
    """Build the world with these true tuples, in which atoms of `moved` predicates will flip.

    With `ijgp` differences are estimated, unless the estimates would be exact.
    """
    if ijgp is None:
        return ExactWorld(problem, true)
    from lapis.counting.ijgp.estimated_differences import are_differences_exact

    if all(are_differences_exact(problem, name, ijgp) for name in moved):
        return ExactWorld(problem, true)
    if ijgp.differences == "subtracted":
        return SubtractedWorld(problem, true, ijgp)
    patience = max(1, min(MOST_STALE, int(STALE_SHARE * num_sites)))
    return SubstitutedWorld(problem, true, ijgp, patience)


def sparse_vectors(differences: Sequence[FlipDifference]) -> SparseVectors:
    """Concatenate differences."""
    start = row_starts(np.array([len(each.weight_id) for each in differences], np.int64))
    column = np.array([column for each in differences for column in each.weight_id], np.int64)
    value = np.array([value for each in differences for value in each.value], np.float64)
    return SparseVectors(start, column, value)


def drawn_blocks(
    blocks: OpenBlocks,
    truth: np.ndarray,  # bool[num_atoms], before
    taken: np.ndarray,  # int64[num_blocks], numbers of values in their blocks
    score: np.ndarray,  # float64[num_values], −inf if a value is impossible
    vectors: SparseVectors | None,  # of atoms
) -> DrawnBlocks:
    """Build the results of resampled blocks."""
    begin, block = blocks.value_start[:-1], blocks.block
    weight = np.exp(score - np.maximum.reduceat(score, begin)[block])
    before, after = np.zeros((2, blocks.num_values), bool)
    before[blocks.is_atom] = truth
    before[blocks.value_start[1:] - 1] = ~(np.logical_or.reduceat(before, begin) | blocks.is_exact)
    after[begin + taken] = True
    if vectors is not None:  # an empty vector for the last value of each block
        _, places = gather_ranges(blocks.start[:-1], blocks.start[1:] + 1)
        start = np.append(vectors.start[places], vectors.start[-1])
        vectors = vectors._replace(start=start)
    return DrawnBlocks(before, after, weight / np.add.reduceat(weight, begin)[block], vectors)
