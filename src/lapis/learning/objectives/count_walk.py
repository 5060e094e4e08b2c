"""Steps of a chain through complete worlds, and the gradient and curvature that they estimate.

An atom becomes true if w · d + ε > 0, with logistic noise ε. With new noise at each visit this is
Gibbs sampling; with noise kept for a round of sweeps it is local search for the best world of noisy
scores.

Atoms are visited in batches between two worlds that are counted, each batch by one call of the
chain, and so are blocks. On long walks only the differences of every k-th visit are kept, which
suffice to estimate the curvature, so that memory does not grow with the number of atoms.

**Sites.** A site is an atom or a whole block, which Gibbs sampling resamples at once. Without
evidence on a predicate its sites are numbered by the mixed-radix value of their arguments, so that
twenty million atoms take no memory; with evidence the undecided atoms are listed.

**Noise.** A voted perceptron replaces expected counts by those of the most likely world. In that
world atoms that are true in 30 % of the cases are all false until the weights make all of them
true: weights of such rules oscillate around zero, and their average predicts no better than
frequencies (friends and smokers: CLL −.660, frequencies −.562). With noise in the scores, logistic
for an atom and Gumbel for each value of a block, the best world is a draw from the model if atoms
are independent, and approximately one if not (perturb and MAP: Papandreou & Yuille 2011; Hazan &
Jaakkola 2012). Weights then have the scale of the noise, and frequencies are learned.

The noise of a site is a hash of its number and of the round's key (splitmix64: Steele, Lea & Flood
2014), so that twenty million sites take no memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.counting.differences.sparse_vectors import SparseVectors, gather_ranges, stack_vectors
from lapis.data.keys import unpack
from lapis.grounding.blocks import BlockShape, apply_blocks, block_shape
from lapis.grounding.ground_atoms import PredicateAtoms, number_unknown_atoms
from lapis.inference.sampling.counted_world import CountedWorld, Drawn, DrawnBlocks, OpenBlocks
from lapis.language.model import Predicate
from lapis.problem.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROUNDS = 4  # least alternations between predicates, if there are enough steps
MOST_AT_ONCE = 1 << 18  # visits of a batch
MOST_KEPT = 200_000  # visits whose differences are kept
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class Sites:
    """The undecided atoms or blocks of one predicate."""

    predicate: Predicate
    unknown: PredicateAtoms
    shape: BlockShape | None  # of a predicate with blocks

    def __len__(self) -> int:
        if self.shape is None:
            return self.unknown.num_unknown
        if self.unknown.unknown_codes is None:
            return self.shape.num_keys
        return len(self._block_start) - 1

    def rows(self, sites: np.ndarray) -> np.ndarray:
        """int32[n, arity], the atoms with these site numbers; not for blocks."""
        codes = self.unknown.unknown_codes
        return unpack(sites if codes is None else codes[sites], self.unknown.sizes)

    def blocks(self, sites: np.ndarray) -> OpenBlocks:
        """Return the undecided atoms of the blocks with these site numbers."""
        assert self.shape is not None
        if self.unknown.unknown_codes is None:
            number, size = len(sites), self.shape.num_values
            values = np.tile(np.arange(size, dtype=np.int64), number)
            rows = self.shape.rows(np.repeat(sites, size), values)
            start = size * np.arange(number + 1)
        else:
            start, places = gather_ranges(self._block_start[sites], self._block_start[sites + 1])
            rows = self._block_rows[places]
        is_exact = np.full(len(sites), self.predicate.exactly_one)
        return OpenBlocks(self.predicate.name, rows, start, is_exact)

    def includes(self, row: np.ndarray) -> bool:
        """Whether an atom int32[arity] is undecided."""
        codes = self.unknown.unknown_codes
        if codes is None:
            return True
        (code,) = self.unknown.codes(row[None])
        at = int(np.searchsorted(codes, code))
        return at < len(codes) and bool(codes[at] == code)

    def block_around(self, row: np.ndarray) -> np.ndarray:
        """int32[n, arity], the undecided atoms of the block of an atom int32[arity]."""
        assert self.shape is not None
        (key,) = self.shape.keys(row[None])
        if self.unknown.unknown_codes is None:
            values = np.arange(self.shape.num_values)
            return self.shape.rows(np.full(len(values), key), values)
        return self._block_rows[self.shape.keys(self._block_rows) == key]

    @cached_property
    def _block_rows(self) -> np.ndarray:
        """int32[num_unknown, arity], the undecided atoms, block by block."""
        assert self.shape is not None
        rows = self.unknown.unknown
        return rows[np.argsort(self.shape.keys(rows), kind="stable")]

    @cached_property
    def _block_start(self) -> np.ndarray:
        """int64[num_blocks + 1], the first row of each block."""
        assert self.shape is not None
        keys = self.shape.keys(self._block_rows)
        return np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))


def asked_sites(free: Problem) -> tuple[Sites, ...]:
    """List the sites of all predicates with undecided atoms."""
    numbered = number_unknown_atoms(apply_blocks(free), free.domains)
    found = []
    for name, atoms in numbered.items():
        predicate = free.model.predicates[name]
        if atoms.num_unknown:
            shape = block_shape(predicate, free.domains) if predicate.block else None
            found.append(Sites(predicate, atoms, shape))
    return tuple(found)


class WalkVisits(NamedTuple):
    """Sums over the visits of a walk, in the weights of its world.

    Each visited atom has the weight A_r/N_r of its predicate.
    """

    counts: np.ndarray  # float64[num_records, num_weights], of worlds on the way
    # float64[num_weights], Σ (g − P) d, scaled to a sweep; P is 0 or 1 in a search
    pull: np.ndarray
    pull_variance: np.ndarray  # float64[num_weights]
    vectors: csr_matrix  # float64[n, num_weights], d; less its mean over the values, in blocks
    scale: np.ndarray  # float64[n], P(1 − P), scaled to a sweep; P in blocks


class WaitingBlocks(NamedTuple):
    """Values of blocks that are not yet added up."""

    vectors: SparseVectors
    block: np.ndarray  # int64[n], from 0 with the first block that waits
    importance: np.ndarray  # float64[n]
    probability: np.ndarray  # float64[n]
    pull: np.ndarray  # float64[n]


@dataclass
class VisitSums:
    """Sums over visits, and the differences of every `keep_every`-th of them."""

    num_weights: int
    keep_every: int
    visits: int = 0
    kept: int = 0
    pull: np.ndarray = field(init=False)
    pull_variance: np.ndarray = field(init=False)
    vectors: list[SparseVectors] = field(default_factory=list)
    scale: list[np.ndarray] = field(default_factory=list)
    waiting: list[WaitingBlocks] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pull, self.pull_variance = np.zeros((2, self.num_weights))

    def add(
        self,
        vectors: SparseVectors,
        visit: np.ndarray,  # int64[n], number of each vector's visit, from 0
        importance: np.ndarray,  # float64[n], A_r/N_r
        spread: np.ndarray,  # float64[n], P(1 − P), or P in a block
        pull: np.ndarray,  # float64[n], g − P, or g less its new value
    ) -> None:
        # Chains of less than a sweep are scaled to a sweep; longer ones add up their steps.
        pulled = (np.maximum(importance, 1.0) * pull)[vectors.row] * vectors.value
        self.pull += np.bincount(vectors.column, pulled, self.num_weights)
        self.pull_variance += np.bincount(vectors.column, pulled**2, self.num_weights)
        kept = np.flatnonzero((self.visits + visit) % self.keep_every == 0)
        self.vectors.append(vectors if len(kept) == len(visit) else vectors.take(kept))
        self.scale.append(importance[kept] * spread[kept])
        self.kept += len(np.unique(visit[kept]))
        self.visits += int(visit[-1]) + 1

    def add_drawn(self, drawn: Drawn, importance: np.ndarray, searches: bool) -> None:
        assert drawn.vectors is not None
        chance = drawn.probability
        pull = drawn.truth.astype(np.float64) - (
            drawn.truth ^ drawn.flipped if searches else chance
        )
        visit = np.arange(len(chance))
        self.add(drawn.vectors, visit, importance, chance * (1.0 - chance), pull)

    def add_blocks(
        self, block: np.ndarray, drawn: DrawnBlocks, importance: np.ndarray, searches: bool
    ) -> None:
        """Add blocks later, many at once: a sparse product of a few takes as long."""
        assert drawn.vectors is not None
        pull = drawn.before.astype(np.float64) - (drawn.taken if searches else 0.0)
        if self.waiting:
            block = block + self.waiting[-1].block[-1] + 1
        waiting = WaitingBlocks(drawn.vectors, block, importance, drawn.probability, pull)
        self.waiting.append(waiting)
        if block[-1] >= MOST_AT_ONCE:
            self.add_waiting()

    def add_waiting(self) -> None:
        """Add the rows D(v) − E[D] with P(v), whose outer products sum to a block's covariance.

        Since Σ_v P(v) (D(v) − E[D]) = 0, the pull is the row of the value before; in a search, less
        the row of the new value.
        """
        from scipy.sparse import csr_matrix

        if not self.waiting:
            return
        stacked, *arrays = zip(*self.waiting, strict=True)
        self.waiting.clear()
        block, importance, probability, pull = map(np.concatenate, arrays)
        start, column, value = stack_vectors(stacked)
        number = len(block)
        rows = csr_matrix((value.astype(np.float64), column, start), (number, self.num_weights))
        places = block, np.arange(number)
        mean = csr_matrix((probability, places), (block[-1] + 1, number)) @ rows
        rows = (rows - mean[block]).tocsr()
        start, column = rows.indptr.astype(np.int64), rows.indices.astype(np.int64)
        vectors = SparseVectors(start, column, rows.data)
        self.add(vectors, block, importance, probability, pull)

    def summary(self, counts: list[np.ndarray]) -> WalkVisits:
        from scipy.sparse import csr_matrix

        self.add_waiting()
        nothing = SparseVectors(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
        start, column, value = stack_vectors([nothing, *self.vectors])
        shape = (len(start) - 1, self.num_weights)
        scale = np.concatenate([np.empty(0), *self.scale]) * (self.visits / max(1, self.kept))
        return WalkVisits(
            np.array(counts).reshape(len(counts), self.num_weights),
            self.pull,
            self.pull_variance,
            csr_matrix((value.astype(np.float64), column, start), shape),
            scale,
        )


def walk(
    chain: CountedWorld,
    sites: Sequence[Sites],
    weights: np.ndarray,
    num_steps: int,
    rng: np.random.Generator,
    *,
    rounds: int,
    returns: bool,
    records: int,
) -> WalkVisits:
    """Resample `num_steps` random sites; with `rounds`, search with new noise in each round.

    The counts of `records` worlds are recorded at equal distances, the last world included. They
    begin after the first sweep, or half of the steps, since earlier worlds belong to earlier
    weights; with `rounds` or `returns` they begin at the start, so that with as many records as
    rounds they are the ends of the rounds. With `returns` the chain is reset to its start.
    """
    chain.settle()
    sums = VisitSums(len(weights), -(-num_steps // MOST_KEPT))
    counts: list[np.ndarray] = []
    first = 0 if rounds or returns else min(sum(map(len, sites)), num_steps // 2)
    due = set(np.linspace(first, num_steps, records + 1)[1:].round().astype(int).tolist())
    starts = set(np.linspace(0, num_steps, rounds + 1)[:-1].round().astype(int).tolist())
    visitor = SiteVisitor(chain, weights, rng, rounds > 0, sums)
    cuts, done = sorted(due | starts | {num_steps}), 0
    for own, drawn, importance in _draw_sites(sites, num_steps, rng, chain.batch):
        while len(drawn):
            if done in starts:
                visitor.change_noise(sites)
            room = cuts[bisect_right(cuts, done)] - done
            visitor.visit(own, drawn[:room], importance)
            done += len(drawn[:room])
            drawn = drawn[room:]
            if done in due:
                visitor.make_visits()
                counts.append(chain.counts())
    visitor.make_visits()
    if records and not counts:  # no site to visit
        counts = [chain.counts()]
    if returns:
        chain.flip([(name, rows[::-1]) for name, rows in reversed(visitor.flips)])
    return sums.summary(counts)


@dataclass
class SiteVisitor:
    """Gathers visits and makes them in batches: of atoms of all predicates, or of blocks of one."""

    chain: CountedWorld
    weights: np.ndarray
    rng: np.random.Generator
    searches: bool
    sums: VisitSums
    keys: dict[str, int] = field(default_factory=dict)  # of the noise in this round
    parts: list[tuple[Sites, np.ndarray]] = field(default_factory=list)  # gathered sites
    part_keys: list[int] = field(default_factory=list)
    importance: list[float] = field(default_factory=list)
    flips: list[tuple[str, np.ndarray]] = field(default_factory=list)  # in order

    def change_noise(self, sites: Sequence[Sites]) -> None:
        self.keys = {own.predicate.name: int(self.rng.integers(1 << 62)) for own in sites}

    def visit(self, own: Sites, drawn: np.ndarray, importance: float) -> None:
        if self.parts:
            last = self.parts[-1][0]
            together = last is own or (last.shape is None and own.shape is None)
            if not together or len(self.parts) * self.chain.batch >= MOST_AT_ONCE:
                self.make_visits()
        self.parts.append((own, drawn))
        self.part_keys.append(self.keys.get(own.predicate.name, 0))
        self.importance.append(importance)

    def make_visits(self) -> None:
        """Visit the gathered sites."""
        if not self.parts:
            return
        length = [len(drawn) for _, drawn in self.parts]
        key = np.repeat(np.array(self.part_keys, np.uint64), length)
        importance = np.repeat(self.importance, length)
        drawn = np.concatenate([drawn for _, drawn in self.parts])
        if self.parts[0][0].shape is None:
            self._visit_atoms(drawn, key, importance)
        else:
            self._visit_blocks(self.parts[0][0], drawn, key, importance)
        self.parts, self.part_keys, self.importance = [], [], []

    def _uniform(self, key: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """float64[n], random; in a search a hash of key and number."""
        return hashed_uniform(key, numbers) if self.searches else self.rng.random(len(numbers))

    def _visit_atoms(self, drawn: np.ndarray, key: np.ndarray, importance: np.ndarray) -> None:
        parts = [(own.predicate.name, own.rows(sites)) for own, sites in self.parts]
        noise = logistic_noise(self._uniform(key, drawn))
        found = self.chain.draw(parts, self.weights, noise, noted=True)
        self.sums.add_drawn(found, importance, self.searches)
        begin = 0
        for name, rows in parts:
            flipped = rows[found.flipped[begin : begin + len(rows)]]
            begin += len(rows)
            if len(flipped):
                self.flips.append((name, flipped))

    def _visit_blocks(
        self, own: Sites, drawn: np.ndarray, key: np.ndarray, importance: np.ndarray
    ) -> None:
        """Give blocks their best values with noise."""
        assert own.shape is not None
        blocks = own.blocks(drawn)
        block, first = blocks.block, drawn * (own.shape.num_values + 1) - blocks.value_start[:-1]
        noise = gumbel_noise(self._uniform(key[block], first[block] + np.arange(len(block))))
        found = self.chain.draw_blocks(blocks, self.weights, noise, noted=True)
        self.sums.add_blocks(block, found, importance[block], self.searches)
        flipped = (found.before ^ found.taken)[blocks.is_atom]
        self.flips.append((blocks.predicate, blocks.rows[flipped]))


def _draw_sites(
    sites: Sequence[Sites], num_steps: int, rng: np.random.Generator, batch: int
) -> Iterator[tuple[Sites, np.ndarray, float]]:
    """Yield batches of sites of one predicate, int64[n], with A_r/N_r; `num_steps` sites in all.

    With enough steps for a sweep, every site is visited once before any is visited again: drawn
    with replacement, a third would be left out. With fewer steps, predicates alternate in random
    order, and their sites are drawn uniformly.
    """
    total = sum(map(len, sites))
    size = min(batch, max(1, min(num_steps, total) // (ROUNDS * max(1, len(sites)))))
    done = 0
    while done < num_steps and sites:
        batches: list[tuple[Sites, np.ndarray]] = []
        for own in sites:
            if num_steps >= total:
                order = rng.permutation(len(own))
                cuts = range(0, len(own), size)
                batches += [(own, order[cut : cut + size]) for cut in cuts]
            else:
                batches.append((own, rng.integers(len(own), size=size)))
        for turn in rng.permutation(len(batches)).tolist():
            own, drawn = batches[turn]
            drawn = drawn[: num_steps - done]
            if not len(drawn):
                break
            # Visits in proportion to the size in whole sweeps, else equal for all predicates.
            share = total if num_steps >= total else len(own) * len(sites)
            yield own, drawn, share / num_steps
            done += len(drawn)


def hashed_uniform(key: int | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """float64[n] in (0, 1), a hash of keys (one or uint64[n]) and numbers int64[n].

    >>> one, two = hashed_uniform(1, np.arange(100_000)), hashed_uniform(2, np.arange(100_000))
    >>> bool(abs(one.mean() - 0.5) < 0.004), bool(abs(np.corrcoef(one, two)[0, 1]) < 0.02)
    (True, True)
    """
    with np.errstate(over="ignore"):
        word = np.asarray(key, np.uint64) + (numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN
        for shift, mixer in zip((30, 27), MIXERS, strict=True):
            word = (word ^ (word >> np.uint64(shift))) * mixer
    word ^= word >> np.uint64(31)
    return ((word >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def logistic_noise(uniform: np.ndarray) -> np.ndarray:
    """Transform uniform to logistic noise: P(ε > −s) = σ(s)."""
    noise: np.ndarray = np.log(uniform) - np.log1p(-uniform)
    return noise


def gumbel_noise(uniform: np.ndarray) -> np.ndarray:
    """Transform uniform to Gumbel noise: P(v has the largest s_v + ε_v) = exp s_v / Σ exp s."""
    noise: np.ndarray = -np.log(-np.log(uniform))
    return noise
