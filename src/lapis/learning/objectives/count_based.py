"""Contrastive divergence and voted perceptron by counting: nothing is ever grounded.

Algorithm 1 of Sarkhel et al. 2016. With n the true groundings in the data, the gradient of the
log-likelihood is n − E[n]. A chain of complete worlds starts in the data; each step takes a random
atom g, its difference d = n(g = 1) − n(g = 0) by counting (exactly or by IJGP(i)), and draws
g from σ(w · d) (`gibbs`), or gives it the better value of w · d + ε, with noise that the atom keeps
for a round of `ROUND_SWEEPS` sweeps (`map`, the voted perceptron's local search; why with noise is
said in `count_walk`). A walk has as many rounds as it has sweeps for, and E[n] is the mean
of the counts in which they end. `maxwalksat` is the voted perceptron of the paper: N flips of
MaxWalkSAT (`count_maxwalksat`), and E[n] is n of the best world among them. Time follows the
neighbourhoods of the atoms visited, memory the true atoms and those that differ from the data.

    persistent   the chain goes on where the last evaluation left it; E[n] is the mean of the
                 counts of the worlds on its way (persistent CD, Tieleman 2008)
    restarted    each evaluation starts in the data, as the paper has it, and n − E[n] is
                 Σ over the visited atoms of (g − P(g = 1)) d · A/N

With N steps and A atoms, N < A, a restarted chain covers N/A of a sweep; scaling its movement to a
whole sweep keeps it on the scale of the log-likelihood, which a prior is weighed against. (For
N ≥ A the factor is 1.) Its expectation for short chains is the gradient of the
pseudo-log-likelihood (Hyvärinen 2006), and taking P(g) instead of the value drawn removes most of
the noise where nearly every atom is false and rarely flips.

Deviations. A chain of whole sweeps visits every atom before it visits one again. In shorter ones
predicates take turns, and atoms are drawn within one: drawn from all atoms alike, the 30,000
classes of pages among WebKB's 20 million atoms would hardly be visited. Any such choice leaves the
distribution of the chain as it is; sums over visited atoms are weighted by A_r/N_r for the A_r
atoms and N_r visits of a predicate. Blocks are resampled whole.

A persistent chain must go round between two evaluations, and be averaged only once it has. Worlds
before that are those of earlier weights: the gradient reads zero where it is not, and the weights
overshoot without end. (Seen on Cora, ten thousand steps among 300,000 atoms; and on WebKB, one
sweep drawn with replacement and averaged from its first step: held-out CLL −.36 after 14
iterations, where the frequency of true atoms scores −.262.) So chains are persistent where an
evaluation makes `PERSISTENT_SWEEPS` sweeps, unless asked for, and the first of them is not
averaged. That scores −.251 on the same fold after 20 iterations. (Restarted chains of a sweep were
scored on a sample of the atoms only, which tells no difference of .01: −.260.) Restarted chains
near the data learn what pseudo-likelihood does, which predicts badly where all atoms are asked at
once. Unless told, an evaluation makes those sweeps wherever they are at most `MOST_STEPS`, which is
ten million atoms with exact counts: steps are in proportion to the data, and only beyond that are
chains restarted.

Curvature is the covariance of the counts. From worlds less than a sweep apart it cannot be read:
they hardly differ, it comes out near zero, and Newton steps explode (tried). Without as many
sweeps it is Σ_g P(g)(1 − P(g)) d dᵀ, the covariance with atoms independent of each other given the
rest, estimated from the visited atoms.

**Mixing.** Whether chains by counts know more than the worlds that they started near.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from lapis.counting.ijgp import IjgpSettings
from lapis.data.keys import contains, exclusive, sorted_unique
from lapis.errors import LapisError
from lapis.inference.sampling.counted_world import (
    CountedWorld,
    EstimatedWorld,
    ExactWorld,
    count_world,
)
from lapis.learning.examples import Example
from lapis.learning.objectives.count_maxwalksat import search, undo
from lapis.learning.objectives.count_walk import Sites, WalkVisits, asked_sites, walk
from lapis.learning.objectives.pseudo import undecided_counts
from lapis.learning.parameters import Parameters
from lapis.optimisation.objective import Point
from lapis.registry.options import ChainStart

Expectation = Literal["gibbs", "map", "maxwalksat"]
WALK_OF: Mapping[str, Expectation] = {
    "count-gibbs": "gibbs",
    "count-map": "map",
    "count-maxwalksat": "maxwalksat",
}

NAMES: Mapping[Expectation, str] = {
    "gibbs": "contrastive divergence",
    "map": "voted perceptron",
    "maxwalksat": "voted perceptron with MaxWalkSAT",
}

ROUND_SWEEPS = 2  # of a search before its noise changes and its world is counted
PERSISTENT_SWEEPS = 2  # the first gets used to new weights, the second is averaged
COVARIANCE_SWEEPS = 4
DEFAULT_SWEEPS = 20
DEFAULT_STEPS = (500, 10_000)  # at least, at most; but PERSISTENT_SWEEPS where they are more,
MOST_STEPS = 20_000_000  # up to here: half a minute or so
MOST_ESTIMATED_STEPS = 100_000  # the same by estimated counts
MOST_FLIPS = 10_000  # of MaxWalkSAT, a millisecond each
MOST_NEARBY = 256  # sites visited around a most likely world, for the curvature
NUM_BATCHES = 16  # of the recorded worlds, for standard errors
EXACT_RECORDS = 16 * NUM_BATCHES  # worlds counted on the way of a persistent chain
ESTIMATED_RECORDS = 8  # fewer: estimating all counts is dear
MOST_COINS = 20_000  # sites of a world whose atoms are tossed with fair coins
SMALL = 10_000  # steps of an evaluation: a world so small that coins may fall as the data has it,
TOSSES = 8  # which is why it is tossed more than once; large ones, where it takes long, are not
CHANCE = 1e-4  # that noise alone makes a weight doubtful
ROUNDING = 1e-6  # of counts that never vary, estimated ones too
BATCH = 1 << 16  # sites tossed at once


class CurvatureFactors(NamedTuple):
    """Curvature as Vᵀ diag(scale) V: rows of V are differences, or counts less their mean."""

    vectors: np.ndarray  # float64[n, num_parameters], a scipy sparse matrix where sparse
    scale: np.ndarray  # float64[n]


def spread_diagonal(spreads: Sequence[CurvatureFactors], size: int) -> np.ndarray:
    """float64[size], the diagonal of the curvature."""
    diagonal = np.zeros(size)
    for vectors, scale in spreads:
        squared = vectors**2 if isinstance(vectors, np.ndarray) else vectors.power(2)
        diagonal += squared.T @ scale
    return diagonal


def spread_product(spreads: Sequence[CurvatureFactors], direction: np.ndarray) -> np.ndarray:
    """float64[size], the curvature times a direction float64[size]."""
    result = np.zeros(len(direction))
    for vectors, scale in spreads:
        result += vectors.T @ (scale * (vectors @ direction))
    return result


class Seen(NamedTuple):
    """What a chain has seen of the counts of its world at one evaluation."""

    moved: np.ndarray  # float64[num_weights], n − E[n]
    variance: np.ndarray  # float64[num_weights], of that
    spread: np.ndarray  # float64[num_weights], of a count, atoms independent given the rest


@dataclass
class Walker:
    """One example's chain."""

    chain: CountedWorld
    sites: tuple[Sites, ...]
    counts: np.ndarray  # float64[num_weights], in the data
    rng: np.random.Generator
    num_steps: int  # at each evaluation
    data: Mapping[str, np.ndarray]  # int32[num_true, arity], sorted, where the chain starts
    seen: Seen | None = None  # at the last evaluation

    @property
    def num_sites(self) -> int:
        return sum(map(len, self.sites))

    def keep(self) -> dict[str, np.ndarray]:
        """What differs from the data, and the generator: all that a chain is."""
        kept = {each.predicate.name: self._away(each.predicate.name) for each in self.sites}
        return {**kept, "": keep_generator(self.rng)}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        for each in self.sites:
            name = each.predicate.name
            rows = kept[name].reshape(len(kept[name]), each.predicate.arity)
            self.chain.flip([(name, exclusive(self._away(name), rows))])
        resume_generator(self.rng, kept[""])

    def _away(self, name: str) -> np.ndarray:
        """int32[n, arity], the atoms that are not as in the data."""
        return exclusive(sorted_unique(self.chain.true_rows(name)), self.data[name])


@dataclass(frozen=True)
class CountObjective:
    """The log-likelihood of the asked atoms given the rest, known by its gradient."""

    name: str
    parameters: Parameters
    examples: tuple[Example, ...]
    worlds: tuple[Walker, ...]
    expectation: Expectation
    start: ChainStart
    num_records: int  # at most, at each evaluation of a chain that is averaged
    averages: bool = True  # E[n] is the mean of recorded counts, not data less the chain's pull
    ijgp: IjgpSettings = field(default_factory=IjgpSettings)  # by which MaxWalkSAT draws groundings
    is_exact: bool = False
    is_fixed: bool = False

    @property
    def persistent(self) -> bool:
        """Whether a chain goes on where the last evaluation left it."""
        return self.start == "last"

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def num_atoms(self) -> int:
        return sum(sites.unknown.num_unknown for world in self.worlds for sites in world.sites)

    @cached_property
    def true_counts(self) -> np.ndarray:
        """float64[num_parameters], n in the data without what evidence makes true."""
        total = np.zeros(len(self.parameters))
        for number, each in enumerate(self.examples):
            counts = undecided_counts(each.complete, each.asked)
            total += self.parameters.to_parameters(number, counts)
        return total

    def evaluate(self, weights: np.ndarray) -> Point:
        """Counts without a value: log Z is never computed."""
        gradient = np.zeros(len(self.parameters))
        variance = np.zeros(len(self.parameters))
        spreads: list[CurvatureFactors] = []
        for number, world in enumerate(self.worlds):
            world.seen, spread = self.visit(number, weights)
            gradient += self.parameters.to_parameters(number, world.seen.moved)
            variance += self.parameters.to_parameters(number, world.seen.variance)
            spreads.append(self._to_parameters(number, spread))
        # How far a best world's counts are from any mean is not known.
        stderr = None if self.expectation == "maxwalksat" else np.sqrt(variance)
        return Point(
            weights,
            None,
            gradient,
            partial(spread_diagonal, spreads, len(weights)),
            partial(spread_product, spreads),
            stderr,
        )

    def visit(self, number: int, weights: np.ndarray) -> tuple[Seen, CurvatureFactors]:
        """What the chain of one world sees at weights float64[num_parameters], and curvature."""
        world, own = self.worlds[number], self.parameters.of_world(number, weights)
        if self.expectation == "maxwalksat":
            return self._search(number, own)
        visits = walk(
            world.chain,
            world.sites,
            own,
            world.num_steps,
            world.rng,
            rounds=self._num_rounds(world),
            returns=not self.persistent,
            records=self.num_records_of(world),
        )
        return self._summarise(world, visits)

    def _search(self, number: int, weights: np.ndarray) -> tuple[Seen, CurvatureFactors]:
        """n less the counts of the best world that MaxWalkSAT finds, and the curvature there."""
        world, problem = self.worlds[number], self.examples[number].complete
        chain, sites, rng = world.chain, world.sites, world.rng
        if self.start == "random":
            toss(world)
        moves = search(chain, sites, problem, weights, world.num_steps, rng, self.ijgp)
        moved = world.counts - chain.counts()
        nearby = min(world.num_sites, MOST_NEARBY)
        visits = walk(chain, sites, weights, nearby, rng, rounds=0, returns=True, records=0)
        if self.start == "data":
            undo(chain, moves)
        draw = np.asarray(visits.vectors.power(2).T @ visits.scale)
        return Seen(moved, draw, draw), CurvatureFactors(visits.vectors, visits.scale)

    def keep(self) -> dict[str, np.ndarray]:
        return {
            f"{number}.{name}": array
            for number, world in enumerate(self.worlds)
            for name, array in world.keep().items()
        }

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        for number, world in enumerate(self.worlds):
            start = f"{number}."
            world.resume({n.removeprefix(start): a for n, a in kept.items() if n.startswith(start)})

    def _num_rounds(self, world: Walker) -> int:
        """In each of which a search keeps its noise; none where chains are sampled."""
        if self.expectation == "gibbs":
            return 0
        return max(1, world.num_steps // (ROUND_SWEEPS * max(1, world.num_sites)))

    def num_records_of(self, world: Walker) -> int:
        """Worlds whose counts are taken on the way; of MaxWalkSAT the best one."""
        if self.expectation == "maxwalksat":
            return 1
        if not self.averages:
            return 0
        if not world.num_steps:
            return 1
        return min(self._num_rounds(world) or world.num_steps, self.num_records)

    def _summarise(self, world: Walker, visits: WalkVisits) -> tuple[Seen, CurvatureFactors]:
        """n − E[n] of one world, with its variance, and the curvature."""
        sweeps = world.num_steps / max(1, world.num_sites)
        local = CurvatureFactors(visits.vectors, visits.scale)
        draw = np.asarray(visits.vectors.power(2).T @ visits.scale)
        if not self.averages:
            return Seen(visits.pull, visits.pull_variance, draw), local
        moved = world.counts - visits.counts.mean(axis=0)
        centred = visits.counts - visits.counts.mean(axis=0)
        if not self.persistent:
            # At most what the steps of the walk add up to: its mean is nearer to the data.
            return Seen(moved, draw * min(1.0, sweeps), draw), local
        mixed = sweeps >= COVARIANCE_SWEEPS and len(centred) >= 2 * NUM_BATCHES
        if self.expectation == "map" or not mixed:
            # As good as one draw from a chain that has not gone round, or one from each round.
            return Seen(moved, draw / max(1.0, self._num_rounds(world) or sweeps), draw), local
        batches = np.array_split(centred, NUM_BATCHES)
        means = np.array([batch.mean(axis=0) for batch in batches])
        error = means.var(axis=0, ddof=1) / NUM_BATCHES
        covariance = CurvatureFactors(centred, np.full(len(centred), 1.0 / (len(centred) - 1)))
        return Seen(moved, error, draw), covariance

    def _to_parameters(self, number: int, spread: CurvatureFactors) -> CurvatureFactors:
        from scipy.sparse import csr_matrix

        index = self.parameters.world_index[number]
        size = len(self.parameters)
        entries = np.ones(len(index)), (np.arange(len(index)), index)
        place = csr_matrix(entries, shape=(len(index), size))
        return CurvatureFactors(spread.vectors @ place, spread.scale)


def count_objective(
    examples: Sequence[Example],
    parameters: Parameters,
    *,
    ijgp: IjgpSettings | None = None,
    expectation: Expectation = "gibbs",
    num_steps: int | None = None,
    num_records: int | None = None,
    start: ChainStart | None = None,
    seed: int = 0,
) -> CountObjective:
    """The likelihood of the asked atoms by counts: CD (`gibbs`) or VP (`map`, `maxwalksat`).

    `num_steps` steps (N of Algorithm 1) are made at each evaluation, shared out among the examples
    by their number of asked atoms; unless told, those of `default_steps`. The counts of
    `num_records` worlds (K) are averaged, evenly spaced over the walk, or over what follows its
    first sweep where the chain is persistent; a walk of fewer steps has as many as it has steps.
    Unless `start` is given, chains are persistent where N makes PERSISTENT_SWEEPS sweeps and
    restarted where it does not; MaxWalkSAT starts in random worlds, where no rule is hard.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob) Smokes(Cid)")
    >>> examples = build_examples(model, [data], ["Cancer"])
    >>> shared = share_parameters(model, [example.complete for example in examples])
    >>> found = count_objective(examples, shared, num_steps=1000)
    >>> found.name, found.num_atoms, found.true_counts.tolist()
    ('contrastive divergence by exact counts', 3, [1.0])
    """
    sites = [asked_sites(example.free) for example in examples]
    sizes = np.array([sum(map(len, each)) for each in sites], np.float64)
    if num_steps is None:
        most = MOST_STEPS if ijgp is None else MOST_ESTIMATED_STEPS
        most = MOST_FLIPS if expectation == "maxwalksat" else most
        num_steps = default_steps(int(sizes.sum()), most)
    if num_steps < 1:
        raise LapisError("num_steps must be at least 1", code="invalid-option")
    if num_records is not None and num_records > num_steps:
        raise LapisError(
            f"{num_records:,} worlds cannot be recorded in {num_steps:,} steps",
            code="too-many-records",
            hint="ask for fewer records, or for more steps",
        )
    hard = next((rule for rule in parameters.model.rules if rule.hard), None)
    if start is None and expectation == "maxwalksat":
        start = "random" if hard is None else "data"
    elif start is None:
        start = "last" if num_steps >= PERSISTENT_SWEEPS * sizes.sum() else "data"
    elif start == "random" and hard is not None:
        raise LapisError(
            "a random world breaks hard rules, and MaxWalkSAT by counts may not mend it",
            code="hard-random-start",
            span=hard.span,
            hint="start in the data (--chain-start data), or give the rule a weight",
        )
    streams = np.random.default_rng(seed).spawn(len(examples))
    worlds = []
    for example, own, size, rng in zip(examples, sites, sizes.tolist(), streams, strict=True):
        chain = data_world(example, ijgp, own)
        steps = int(np.ceil(num_steps * size / max(1.0, sizes.sum())))
        data = {name: known.true for name, known in example.complete.evidence.items()}
        worlds.append(Walker(chain, own, chain.counts(), rng, steps, data))
    method = NAMES[expectation]
    estimated = any(isinstance(world.chain, EstimatedWorld) for world in worlds)
    how = "exact counts" if ijgp is None else f"ijgp({ijgp.ibound}) counts"
    if ijgp is not None and not estimated:
        how += ", which are exact"
    elif ijgp is not None and ijgp.differences == "subtracted":
        how += ", subtracted"
    return CountObjective(
        f"{method} by {how}",
        parameters,
        tuple(examples),
        tuple(worlds),
        expectation,
        start,
        num_records or (ESTIMATED_RECORDS if estimated else EXACT_RECORDS),
        averages=start == "last" or num_records is not None,
        ijgp=ijgp or IjgpSettings(),
    )


def default_steps(num_sites: int, most: int = MOST_STEPS) -> int:
    """The steps of an evaluation: DEFAULT_SWEEPS sweeps, in large worlds PERSISTENT_SWEEPS.

    >>> [default_steps(number) for number in (10, 100, 5_000, 20_000, 20_000_000)]
    [500, 2000, 10000, 40000, 20000000]
    """
    some = int(np.clip(DEFAULT_SWEEPS * num_sites, *DEFAULT_STEPS))
    return max(some, min(PERSISTENT_SWEEPS * num_sites, most))


def keep_generator(rng: np.random.Generator) -> np.ndarray:
    """uint64[6], where a generator stands.

    >>> one, other = np.random.default_rng(1), np.random.default_rng(2)
    >>> resume_generator(other, keep_generator(one))
    >>> bool(one.random() == other.random())
    True
    """
    state: dict[str, Any] = dict(rng.bit_generator.state)
    low = (1 << 64) - 1
    numbers = [state["state"]["state"], state["state"]["inc"]]
    words = [word for number in numbers for word in (number >> 64, number & low)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


def resume_generator(rng: np.random.Generator, kept: np.ndarray) -> None:
    words = kept.tolist()
    state: dict[str, Any] = dict(rng.bit_generator.state)
    state["state"] = {"state": words[0] << 64 | words[1], "inc": words[2] << 64 | words[3]}
    rng.bit_generator.state = {**state, "has_uint32": words[4], "uinteger": words[5]}


def data_world(example: Example, ijgp: IjgpSettings | None, sites: Sequence[Sites]) -> CountedWorld:
    """The world of the data, in which a chain starts; `ijgp` asks for estimated differences."""
    if example.has_hidden:
        raise LapisError(
            "learning by counts needs complete data, but some atoms are unknown",
            code="incomplete-data",
            hint="learn with the conditional or the likelihood objective, which sum over them",
        )
    problem = example.complete
    true = {name: known.true for name, known in problem.evidence.items()}
    moved = [each.predicate.name for each in sites]
    world = count_world(problem, true, ijgp, moved, sum(map(len, sites)))
    if isinstance(world, ExactWorld) and world.world.violated_rules:
        broken = problem.model.rules[world.world.violated_rules[0]]
        raise LapisError(
            f"the data break the hard rule {broken.text!r}: no weights make them possible",
            code="data-breaks-hard-rule",
            span=broken.span,
            hint="correct the data, or give the rule a weight",
        )
    return world


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
