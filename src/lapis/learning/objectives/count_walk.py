"""Steps of a chain through complete worlds, and what they say of gradient and curvature.

An atom becomes true where w · d + ε > 0, with logistic noise ε. Drawn anew at each visit this is
Gibbs sampling; kept for a round of sweeps it is local search for the best world of noisy scores
(below, "Noise").

Atoms are visited in stretches between two worlds that are counted, each of them one call of the
chain, and so are batches of blocks. Of long walks the differences of every k-th visit are kept,
which estimate the curvature as well as all of them do: memory stays where it is however many atoms
there are.

**Sites.** The asked atoms of an example, drawn at random without listing them.

A site is what Gibbs sampling resamples at once: an atom, or a whole block. Where nothing is known
of a predicate its sites are numbered by the mixed-radix value of their arguments, so that twenty
million atoms take no memory at all; where evidence decides some, the undecided ones are listed.

**Noise.** Noise that a site keeps for a while without anything being kept.

A voted perceptron expects the counts of the most likely world. That world calls every atom that is
true in 30 % of the cases false, whatever the weights, until they call all of them true: weights of
such rules circle around zero, their average is an accident, and no length of it predicts better
than frequencies do (seen on friends and smokers: CLL −.660, frequencies −.562). With noise in the
scores, logistic for an atom and Gumbel for each value of a block, the best world of the noisy
scores is a draw from the model wherever atoms are independent, and near one where they are not
(perturb and MAP: Papandreou and Yuille 2011; Hazan and Jaakkola 2012). Weights have a scale then,
that of the noise, and frequencies are learned as they are.

The noise of a site is a hash of its number and of a key that a round of the search draws
(splitmix64: Steele, Lea and Flood 2014), so that twenty million sites take no memory.
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
from lapis.grounding.atoms import PredicateAtoms, number_unknown_atoms
from lapis.grounding.blocks import BlockShape, apply_blocks, block_shape
from lapis.inference.sampling.counted_world import CountedWorld, Drawn, DrawnBlocks, OpenBlocks
from lapis.language.model import Predicate
from lapis.problem.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROUNDS = 4  # of all predicates, at least, where there are steps enough
MOST_AT_ONCE = 1 << 18  # visits of a stretch
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
        """int32[n, arity], the atoms that are the sites with these numbers; not for blocks."""
        codes = self.unknown.unknown_codes
        return unpack(sites if codes is None else codes[sites], self.unknown.sizes)

    def blocks(self, sites: np.ndarray) -> OpenBlocks:
        """The undecided atoms of the blocks with these numbers."""
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
        """int64[num_blocks + 1], where each block begins."""
        assert self.shape is not None
        keys = self.shape.keys(self._block_rows)
        return np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))


def asked_sites(free: Problem) -> tuple[Sites, ...]:
    """The sites of all predicates with undecided atoms."""
    numbered = number_unknown_atoms(apply_blocks(free), free.domains)
    found = []
    for name, atoms in numbered.items():
        predicate = free.model.predicates[name]
        if atoms.num_unknown:
            shape = block_shape(predicate, free.domains) if predicate.block else None
            found.append(Sites(predicate, atoms, shape))
    return tuple(found)


class WalkVisits(NamedTuple):
    """What a walk has seen, in the weights of its world.

    Each visited atom stands for A_r/N_r atoms of its predicate.
    """

    counts: np.ndarray  # float64[num_records, num_weights], of worlds on the way
    # float64[num_weights], Σ (g − P) d, scaled to a sweep; P is 0 or 1 in a search
    pull: np.ndarray
    pull_variance: np.ndarray  # float64[num_weights]
    vectors: csr_matrix  # float64[n, num_weights], d; less its mean over the values, in blocks
    scale: np.ndarray  # float64[n], P(1 − P), scaled to a sweep; P in blocks


class _Values(NamedTuple):
    """Values of blocks that wait to be added up."""

    vectors: SparseVectors
    block: np.ndarray  # int64[n], from 0 on with the first that waits
    importance: np.ndarray  # float64[n]
    probability: np.ndarray  # float64[n]
    pull: np.ndarray  # float64[n]


@dataclass
class _Tally:
    """What visits add up to, and the differences of some of them."""

    num_weights: int
    keep_every: int  # of so many visits one
    visits: int = 0
    kept: int = 0
    pull: np.ndarray = field(init=False)
    pull_variance: np.ndarray = field(init=False)
    vectors: list[SparseVectors] = field(default_factory=list)
    scale: list[np.ndarray] = field(default_factory=list)
    waiting: list[_Values] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pull, self.pull_variance = np.zeros((2, self.num_weights))

    def add(
        self,
        vectors: SparseVectors,
        visit: np.ndarray,  # int64[n], from 0 on, that each vector belongs to
        importance: np.ndarray,  # float64[n], A_r/N_r of each
        spread: np.ndarray,  # float64[n], P(1 − P), or P in a block
        pull: np.ndarray,  # float64[n], g − P, or g less the value it is given
    ) -> None:
        # A chain of many sweeps has moved by the sum of its steps; shorter ones are scaled to one.
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
        """Their values wait until there are many: a sparse product of few takes as long."""
        assert drawn.vectors is not None
        pull = drawn.before.astype(np.float64) - (drawn.taken if searches else 0.0)
        if self.waiting:
            block = block + self.waiting[-1].block[-1] + 1
        self.waiting.append(_Values(drawn.vectors, block, importance, drawn.probability, pull))
        if block[-1] >= MOST_AT_ONCE:
            self.add_waiting()

    def add_waiting(self) -> None:
        """The rows D(v) − E[D] with P(v), which make up the covariance within a block.

        Σ_v P(v) (D(v) − E[D]) = 0, so that the pull is the row of the value before alone, or less
        the row of the value taken where it counts as certain.
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
    """`num_steps` sites drawn at random are resampled; with `rounds`, in as many noises.

    Counts are taken of `records` worlds, evenly spaced and the last one included, once every site
    has been visited or half of the steps are made: worlds before that are still those of earlier
    weights. In rounds they are evenly spaced from the start, so that as many records as rounds
    are the worlds that the rounds end in. With `returns` they are evenly spaced from the start too,
    and the chain is put back to where it started.
    """
    chain.settle()
    tally = _Tally(len(weights), -(-num_steps // MOST_KEPT))
    counts: list[np.ndarray] = []
    first = 0 if rounds or returns else min(sum(map(len, sites)), num_steps // 2)
    due = set(np.linspace(first, num_steps, records + 1)[1:].round().astype(int).tolist())
    starts = set(np.linspace(0, num_steps, rounds + 1)[:-1].round().astype(int).tolist())
    walker = _Walker(chain, weights, rng, rounds > 0, tally)
    cuts, done = sorted(due | starts | {num_steps}), 0
    for own, drawn, importance in _draw_sites(sites, num_steps, rng, chain.batch):
        while len(drawn):
            if done in starts:
                walker.change_noise(sites)
            room = cuts[bisect_right(cuts, done)] - done
            walker.visit(own, drawn[:room], importance)
            done += len(drawn[:room])
            drawn = drawn[room:]
            if done in due:
                walker.make_visits()
                counts.append(chain.counts())
    walker.make_visits()
    if records and not counts:  # no site to visit
        counts = [chain.counts()]
    if returns:
        chain.flip([(name, rows[::-1]) for name, rows in reversed(walker.flips)])
    return tally.summary(counts)


@dataclass
class _Walker:
    """Makes the visits: they are gathered until somebody wants the world as it is.

    Atoms of all predicates wait together, or blocks of one.
    """

    chain: CountedWorld
    weights: np.ndarray
    rng: np.random.Generator
    searches: bool
    tally: _Tally
    keys: dict[str, int] = field(default_factory=dict)  # of the noise in this round
    parts: list[tuple[Sites, np.ndarray]] = field(default_factory=list)  # with sites that wait
    part_keys: list[int] = field(default_factory=list)
    importance: list[float] = field(default_factory=list)
    flips: list[tuple[str, np.ndarray]] = field(default_factory=list)  # in their order

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
        """Visit what was gathered."""
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
        """float64[n], of each key and number in a search."""
        return hashed_uniform(key, numbers) if self.searches else self.rng.random(len(numbers))

    def _visit_atoms(self, drawn: np.ndarray, key: np.ndarray, importance: np.ndarray) -> None:
        parts = [(own.predicate.name, own.rows(sites)) for own, sites in self.parts]
        noise = logistic(self._uniform(key, drawn))
        found = self.chain.draw(parts, self.weights, noise, noted=True)
        self.tally.add_drawn(found, importance, self.searches)
        begin = 0
        for name, rows in parts:
            flipped = rows[found.flipped[begin : begin + len(rows)]]
            begin += len(rows)
            if len(flipped):
                self.flips.append((name, flipped))

    def _visit_blocks(
        self, own: Sites, drawn: np.ndarray, key: np.ndarray, importance: np.ndarray
    ) -> None:
        """Give blocks the values that are best with noise."""
        assert own.shape is not None
        blocks = own.blocks(drawn)
        block, first = blocks.block, drawn * (own.shape.num_values + 1) - blocks.value_start[:-1]
        noise = gumbel(self._uniform(key[block], first[block] + np.arange(len(block))))
        found = self.chain.draw_blocks(blocks, self.weights, noise, noted=True)
        self.tally.add_blocks(block, found, importance[block], self.searches)
        flipped = (found.before ^ found.taken)[blocks.is_atom]
        self.flips.append((blocks.predicate, blocks.rows[flipped]))


def _draw_sites(
    sites: Sequence[Sites], num_steps: int, rng: np.random.Generator, batch: int
) -> Iterator[tuple[Sites, np.ndarray, float]]:
    """Batches of sites of one predicate, int64[n], with A_r/N_r; `num_steps` sites in all.

    Where there are steps for a sweep, every site is visited once before any is visited again:
    drawn with replacement, a sweep's worth of steps leaves out a third of them. Where there are
    not, predicates take turns in random order, and their sites are drawn alike.
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
            # Each gets visits by its size in whole sweeps, num_steps / len(sites) in parts of one.
            share = total if num_steps >= total else len(own) * len(sites)
            yield own, drawn, share / num_steps
            done += len(drawn)


def hashed_uniform(key: int | np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """float64[n] in (0, 1), the same for the same key, one or uint64[n], and number, int64[n].

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


def logistic(uniform: np.ndarray) -> np.ndarray:
    """P(ε > −s) = σ(s)."""
    noise: np.ndarray = np.log(uniform) - np.log1p(-uniform)
    return noise


def gumbel(uniform: np.ndarray) -> np.ndarray:
    """P(v has the largest s_v + ε_v) = exp s_v / Σ exp s."""
    noise: np.ndarray = -np.log(-np.log(uniform))
    return noise
