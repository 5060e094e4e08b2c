"""Steps of a chain through complete worlds, and what they say of gradient and curvature.

An atom becomes true where w · d + ε > 0, with logistic noise ε. Drawn anew at each visit this is
Gibbs sampling; kept for a round of sweeps it is local search for the best world of noisy scores
(`count_based_noise`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.inference.sampling.counted_world import (
    BATCH,
    BlockChoice,
    CountedWorld,
    Difference,
    empty_block,
    truth_probability,
)
from lapis.learning.objectives.count_based_noise import gumbel, hashed_uniform, logistic
from lapis.learning.objectives.count_based_sites import Sites

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Flip = tuple[str, Sequence[int]]  # an atom that has changed its value

ROUNDS = 4  # of all predicates, at least, where there are steps enough


class Visits(NamedTuple):
    """What a walk has seen, in the weights of its world.

    Each visited atom stands for A_r/N_r atoms of its predicate.
    """

    counts: np.ndarray  # float64[num_records, num_weights], of worlds on the way
    # float64[num_weights], Σ (g − P) d, scaled to a sweep; P is 0 or 1 in a search
    pull: np.ndarray
    pull_variance: np.ndarray  # float64[num_weights]
    vectors: csr_matrix  # float64[n, num_weights], d; less its mean over the values, in blocks
    scale: np.ndarray  # float64[n], P(1 − P), scaled to a sweep; P in blocks
    flips: list[Flip]  # that were not taken back


@dataclass
class _Tally:
    """The visited differences as they come; rows of a sparse matrix, with two numbers each."""

    start: list[int] = field(default_factory=lambda: [0])
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)  # P(1 − P), or P in a block
    pull: list[float] = field(default_factory=list)  # g − P, or g less the value it is given
    visit: list[int] = field(default_factory=list)  # the visited site that the row belongs to
    importance: list[float] = field(default_factory=list)  # A_r/N_r of each visited site

    def add(
        self, columns: Sequence[int], values: Sequence[float], spread: float, pull: float, site: int
    ) -> None:
        self.column += columns
        self.value += values
        self.start.append(len(self.column))
        self.spread.append(spread)
        self.pull.append(pull)
        self.visit.append(site)


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
) -> Visits:
    """`num_steps` sites drawn at random are resampled; with `rounds`, in as many noises.

    Counts are taken of `records` worlds, evenly spaced and the last one included, once every site
    has been visited or half of the steps are made: worlds before that are still those of earlier
    weights. In rounds they are evenly spaced from the start, so that as many records as rounds
    are the worlds that the rounds end in. With `returns` the chain is put back to where it started.
    """
    tally = _Tally()
    counts: list[np.ndarray] = []
    flipped: list[Flip] = []
    first = 0 if rounds else min(sum(map(len, sites)), num_steps // 2)
    due = iter(np.linspace(first, num_steps, records + 1)[1:].round().astype(int).tolist())
    next_record = next(due, None)
    for step, flips in enumerate(_steps(chain, sites, weights, num_steps, rng, rounds, tally), 1):
        flipped += flips
        if step == next_record:
            counts.append(chain.counts())
            next_record = next(due, None)
    if records and not counts:  # no site to visit
        counts = [chain.counts()]
    if returns:
        for name, row in reversed(flipped):
            chain.flip(name, row)
        flipped = []
    return _summarise(tally, counts, len(weights), flipped)


def _steps(
    chain: CountedWorld,
    sites: Sequence[Sites],
    weights: np.ndarray,
    num_steps: int,
    rng: np.random.Generator,
    rounds: int,
    tally: _Tally,
) -> Iterator[list[Flip]]:
    """Visits one site after the other; yields the atoms that each has flipped."""
    local: list[float] = weights.tolist()
    ends = iter(np.linspace(0, num_steps, rounds + 1)[1:].round().astype(int).tolist())
    done, end, keys = 0, 0, dict.fromkeys((own.predicate.name for own in sites), 0)
    for own, drawn, importance in _draw_sites(sites, num_steps, rng):
        name, number = own.predicate.name, len(drawn)
        if rounds and done >= end:
            keys = {each: int(rng.integers(1 << 62)) for each in keys}
            end = next(ends)
        tally.importance += [importance] * number
        if own.shape is None:
            rows = own.rows(drawn)
            uniform = hashed_uniform(keys[name], drawn) if rounds else rng.random(number)
            noise = logistic(uniform).tolist()
            for at, difference in enumerate(chain.differences(name, rows)):
                flips: list[Flip] = []
                if _visit_atom(difference, local, noise[at], rounds > 0, tally, done + at):
                    flips.append((name, rows[at].tolist()))
                    chain.flip(*flips[0])
                yield flips
        else:
            for at, site in enumerate(drawn.tolist()):
                size = own.shape.num_values + 1
                values = site * size + np.arange(size)
                uniform = hashed_uniform(keys[name], values) if rounds else rng.random(size)
                noises = gumbel(uniform)
                yield _visit_block(chain, own, site, local, noises, rounds > 0, tally, done + at)
        done += number


def _draw_sites(
    sites: Sequence[Sites], num_steps: int, rng: np.random.Generator
) -> Iterator[tuple[Sites, np.ndarray, float]]:
    """Batches of sites of one predicate, int64[n], with A_r/N_r; `num_steps` sites in all.

    Where there are steps for a sweep, every site is visited once before any is visited again:
    drawn with replacement, a sweep's worth of steps leaves out a third of them. Where there are
    not, predicates take turns in random order, and their sites are drawn alike.
    """
    total = sum(map(len, sites))
    size = min(BATCH, max(1, min(num_steps, total) // (ROUNDS * max(1, len(sites)))))
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


def _visit_atom(
    difference: Difference,
    weights: list[float],
    noise: float,
    searches: bool,
    tally: _Tally,
    visit: int,
) -> bool:
    """Notes the atom, and says whether it flips."""
    score = difference.score(weights)
    probability = truth_probability(difference, score)
    value = (difference.hard or score + noise) > 0
    pull = difference.truth - (float(value) if searches else probability)
    spread = probability * (1.0 - probability)
    tally.add(difference.weight_id, difference.value, spread, pull, visit)
    return value != difference.truth


def _visit_block(
    chain: CountedWorld,
    sites: Sites,
    site: int,
    weights: list[float],
    noise: np.ndarray,
    searches: bool,
    tally: _Tally,
    visit: int,
) -> list[Flip]:
    """Gives a block a value by noise float64[num_values + 1]; returns the atoms that flipped."""
    name = sites.predicate.name
    rows = sites.block(site)
    listed = rows.tolist()
    choice = empty_block(chain, name, rows, sites.predicate.exactly_one, weights)
    taken = int(np.argmax(choice.score + noise[: len(choice.score)]))
    _note_block(choice, taken if searches else None, tally, visit)
    flipped = [(name, listed[at]) for at in choice.before if at < len(rows)]
    if taken < len(rows):
        chain.flip(name, listed[taken])
        flipped.append((name, listed[taken]))
    return flipped


def _note_block(choice: BlockChoice, taken: int | None, tally: _Tally, visit: int) -> None:
    """The rows D(v) − E[D] with P(v), which make up the covariance within the block.

    Σ_v P(v) (D(v) − E[D]) = 0, so that the pull is the row of the value before alone, or less
    the row of the value taken where it counts as certain.
    """
    values, _, probability, before = choice
    columns = sorted({column for value in values for column in value.weight_id})
    place = {column: number for number, column in enumerate(columns)}
    table = np.zeros((len(values), len(columns)))
    for number, value in enumerate(values):
        table[number, [place[column] for column in value.weight_id]] = value.value
    table -= probability @ table
    for number, row in enumerate(table):
        pull = float(number in before) - float(number == taken)
        tally.add(columns, row.tolist(), float(probability[number]), pull, visit)


def _summarise(
    tally: _Tally, counts: list[np.ndarray], num_weights: int, flips: list[Flip]
) -> Visits:
    from scipy.sparse import csr_matrix

    shape = (len(tally.spread), num_weights)
    vectors = csr_matrix(
        (np.array(tally.value, np.float64), np.array(tally.column, np.int64), tally.start), shape
    )
    visit = np.array(tally.visit, np.int64)
    weight = np.array(tally.importance, np.float64)[visit]
    # A chain of many sweeps has moved by the sum of its steps; a shorter one is scaled to a sweep.
    pulled = np.maximum(weight, 1.0) * np.array(tally.pull, np.float64)
    return Visits(
        np.array(counts).reshape(len(counts), num_weights),
        vectors.T @ pulled,
        vectors.power(2).T @ pulled**2,
        vectors,
        weight * np.array(tally.spread, np.float64),
        flips,
    )
