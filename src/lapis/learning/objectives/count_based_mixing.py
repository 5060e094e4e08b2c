"""Whether chains by counts know more than the worlds that they started near.

A chain that starts in the data and flips single atoms may never leave: transitivity holds clusters
together, a ferromagnet keeps its sign, a hard equivalence lets neither side move. Its counts then
vary little and the gradient reads zero with a small error, which is that of one region of worlds.
No diagnostic of the chain alone can tell.

So once weights are learned the atoms of a world are tossed like coins, hard rules or not, and the
chain walks on at these weights for two evaluations. Where it mixes, its counts come back to what
they were, or are on their way: it has forgotten where it began. Where they are others, by more than
noise and by more than a standard deviation, and the second evaluation is not much nearer than the
first, the weights are doubtful. Sites that coins leave in a broken world say nothing.

It is a sign, not a proof: a region that coins do not fall into is not seen. In worlds of more than
`MOST_COINS` sites, where half of all atoms would be more than there is room for, coins come up as
often as the predicate's atoms are true in the data, and a region of another density is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.tuples import contains, sorted_unique
from lapis.learning.objectives.count_based_sites import Sites

if TYPE_CHECKING:
    from lapis.learning.objectives.count_based import CountObjective, Seen, Walker

MOST_COINS = 20_000  # sites of a world whose atoms are tossed with fair coins
SMALL = 10_000  # steps of an evaluation: a world so small that coins may fall as the data has it,
TOSSES = 8  # which is why it is tossed more than once; large ones, where it takes long, are not
CHANCE = 1e-4  # that noise alone makes a weight doubtful
ROUNDING = 1e-6  # of counts that never vary, estimated ones too
BATCH = 1 << 16  # sites tossed at once


def doubtful_weights(objective: CountObjective, weights: np.ndarray) -> np.ndarray:
    """int64[k], parameters whose counts depend on where a chain began, most doubtful first.

    The chains are not put back.
    """
    doubt = np.zeros(len(weights))
    if not objective.persistent:
        return np.flatnonzero(doubt)
    objective.evaluate(weights)
    for number, world in enumerate(objective.worlds):
        if not world.num_steps or world.seen is None:
            continue
        index, before = objective.parameters.world_index[number], world.seen
        for _ in range(TOSSES if world.num_steps <= SMALL else 1):
            toss(world)
            first = objective.visit(number, weights)[0]
            second = objective.visit(number, weights)[0]
            if not world.chain.num_broken:
                np.maximum.at(doubt, index, disagreement(before, first, second))
    found = np.argsort(-doubt, kind="stable")
    return found[: np.count_nonzero(doubt)]


def disagreement(before: Seen, first: Seen, second: Seen) -> np.ndarray:
    """float64[num_weights], of counts that stay away from what they were; 0 where they do not."""
    away = np.abs(second.moved - before.moved)
    # A quantile of normal noise, for all weights together: √(2 log(2n/p)) bounds it from above.
    most = np.sqrt(2.0 * np.log(2.0 * max(1, len(away)) / CHANCE))
    noise = most * np.sqrt(before.variance + second.variance)
    spread = np.sqrt(np.maximum(before.spread, second.spread))
    least = np.maximum(np.maximum(noise, spread), ROUNDING)
    stays = away > 0.5 * np.abs(first.moved - before.moved)
    return np.where((away > least) & stays, away / least, 0.0)


def toss(world: Walker) -> None:
    """Give every site of a world a value by chance, whatever the rules say."""
    few = sum(map(len, world.sites)) <= MOST_COINS
    for own in world.sites:
        name, size = own.predicate.name, len(own)
        true = sorted_unique(world.chain.true_rows(name))
        if own.shape is None:
            rate = 0.5 if few else len(world.data[name]) / max(1, size)
            flipped = toss_atoms(own, true, rate, world.rng)
        else:
            flipped = toss_blocks(own, true, world.rng)
        for rows in flipped:
            world.chain.flip([(name, rows)])


def toss_atoms(
    own: Sites, true: np.ndarray, rate: float, rng: np.random.Generator
) -> Sequence[np.ndarray]:
    """The atoms int32[n, arity] that coins turn over, of those that are `true` and the others."""
    found = []
    for begin in range(0, len(own), BATCH):
        rows = own.rows(np.arange(begin, min(begin + BATCH, len(own))))
        found.append(rows[(rng.random(len(rows)) < rate) != contains(true, rows)])
    return found


def toss_blocks(own: Sites, true: np.ndarray, rng: np.random.Generator) -> Sequence[np.ndarray]:
    found = []
    for begin in range(0, len(own), BATCH):
        blocks = own.blocks(np.arange(begin, min(begin + BATCH, len(own))))
        number = np.diff(blocks.value_start) - blocks.is_exact  # of values that may be
        taken = np.zeros(blocks.num_values, bool)
        taken[blocks.value_start[:-1] + rng.integers(number)] = True
        found.append(blocks.rows[contains(true, blocks.rows) != taken[blocks.is_atom]])
    return found
