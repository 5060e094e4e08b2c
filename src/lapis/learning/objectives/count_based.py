"""Contrastive divergence and voted perceptron by counting, without grounding.

Algorithm 1 of Sarkhel, Venugopal, Pham, Singla and Gogate (2016, "Scalable Training of Markov Logic
Networks Using Approximate Counting"). With n the true groundings in the data, the gradient of the
log-likelihood is n − E[n]. A chain of complete worlds starts in the data. Each step takes a random
atom g and its difference d = n(g = 1) − n(g = 0), counted exactly or by IJGP(i).

    gibbs        g is drawn from σ(w · d)
    map          g gets the better value of w · d + ε. The atom keeps its noise ε for a round of
                 `ROUND_SWEEPS` sweeps (`count_walk` says why there is noise). E[n] is the mean of
                 the counts at the ends of the rounds
    maxwalksat   E[n] is n of the best world in N flips of MaxWalkSAT (`count_maxwalksat`), as in
                 the paper

Time follows the neighbourhoods of the visited atoms; memory follows the true atoms and the atoms
that differ from the data.

    persistent   the chain continues from the last evaluation; E[n] is the mean of the counts on its
                 path (persistent CD, Tieleman 2008)
    restarted    each evaluation starts in the data, as in the paper, and n − E[n] is
                 Σ over the visited atoms of (g − P(g = 1)) d · A/N

With N steps and A atoms, N < A, a restarted chain makes N/A of a sweep. The factor A/N (1 if N ≥ A)
keeps the gradient on the scale of the log-likelihood, so that a prior keeps its meaning. For short
chains its expectation is the gradient of the pseudo-log-likelihood (Hyvärinen 2006). Using P(g)
instead of the drawn value removes most of the noise if nearly every atom is false.

Deviations. A chain of whole sweeps visits every atom before it visits one again. Shorter chains
alternate between predicates and draw atoms within one: drawn from all atoms, the 30,000 classes of
pages among WebKB's 20 million atoms would hardly be visited. Such a choice does not change the
stationary distribution; sums over visited atoms are weighted by A_r/N_r for the A_r atoms and N_r
visits of a predicate. Blocks are resampled as a whole.

A persistent chain needs a sweep to forget the last weights. Without it the gradient is near zero
where it should not be, and the weights overshoot. (On Cora, ten thousand steps among 300,000 atoms;
on WebKB, one sweep drawn with replacement: held-out CLL −.36 after 14 iterations, against −.262 of
the frequency of true atoms.) So chains are persistent if an evaluation makes `PERSISTENT_SWEEPS`
sweeps, and the first sweep is not averaged; this gives −.251 on the same fold after 20 iterations.
By default an evaluation makes these sweeps up to `MOST_STEPS` steps, which is ten million atoms
with exact counts. Beyond that chains are restarted. Restarted chains learn about the weights of the
pseudo-likelihood, which predict badly if all atoms are asked at once.

The curvature is the covariance of the counts. Worlds less than a sweep apart hardly differ: their
covariance is near zero and Newton steps explode. With fewer than `COVARIANCE_SWEEPS` sweeps the
curvature is Σ_g P(g)(1 − P(g)) d dᵀ over the visited atoms, the covariance of atoms that are
independent given the rest.
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
from lapis.learning.objectives.count_maxwalksat import search_by_counts, undo
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

ROUND_SWEEPS = 2  # sweeps of a search with the same noise, after which its world is counted
PERSISTENT_SWEEPS = 2  # the first forgets the last weights, the second is averaged
COVARIANCE_SWEEPS = 4  # sweeps from which the covariance of recorded counts is used
DEFAULT_SWEEPS = 20
DEFAULT_STEPS = (500, 10_000)  # least and most steps of DEFAULT_SWEEPS
MOST_STEPS = 20_000_000  # steps up to which PERSISTENT_SWEEPS are made: about half a minute
MOST_ESTIMATED_STEPS = 100_000  # the same with estimated counts
MOST_FLIPS = 10_000  # flips of MaxWalkSAT, about a millisecond each
MOST_NEARBY = 256  # sites visited around a most likely world, for the curvature
NUM_BATCHES = 16  # batches of recorded worlds for standard errors
EXACT_RECORDS = 16 * NUM_BATCHES  # worlds of a persistent chain that are counted
ESTIMATED_RECORDS = 8  # the same with estimated counts, which are expensive
MOST_COINS = 20_000  # sites of a world whose random atoms are true with probability ½
BATCH = 1 << 16  # sites randomised at once


class CurvatureFactors(NamedTuple):
    """Curvature as Vᵀ diag(scale) V: rows of V are differences, or counts less their mean."""

    vectors: np.ndarray  # float64[n, num_parameters], a scipy sparse matrix where sparse
    scale: np.ndarray  # float64[n]


def curvature_diagonal(factors: Sequence[CurvatureFactors], size: int) -> np.ndarray:
    """float64[size], the diagonal of the curvature."""
    diagonal = np.zeros(size)
    for vectors, scale in factors:
        squared = vectors**2 if isinstance(vectors, np.ndarray) else vectors.power(2)
        diagonal += squared.T @ scale
    return diagonal


def curvature_product(factors: Sequence[CurvatureFactors], direction: np.ndarray) -> np.ndarray:
    """float64[size], the curvature times a direction float64[size]."""
    result = np.zeros(len(direction))
    for vectors, scale in factors:
        result += vectors.T @ (scale * (vectors @ direction))
    return result


class ChainCounts(NamedTuple):
    """The counts of a chain's worlds at one evaluation."""

    gradient: np.ndarray  # float64[num_weights], n − E[n]
    gradient_variance: np.ndarray  # float64[num_weights], squared standard error of the gradient
    # float64[num_weights], variance of a count if atoms are independent given the rest
    count_variance: np.ndarray


@dataclass
class ExampleChain:
    """The chain of one example."""

    chain: CountedWorld
    sites: tuple[Sites, ...]
    counts: np.ndarray  # float64[num_weights], in the data
    rng: np.random.Generator
    num_steps: int  # at each evaluation
    data: Mapping[str, np.ndarray]  # int32[num_true, arity], sorted, where the chain starts
    last: ChainCounts | None = None  # counts at the last evaluation

    @property
    def num_sites(self) -> int:
        return sum(map(len, self.sites))

    def keep(self) -> dict[str, np.ndarray]:
        """Return the state of the chain: the atoms that differ from the data, and the generator."""
        kept = {each.predicate.name: self._away(each.predicate.name) for each in self.sites}
        return {**kept, "": keep_generator(self.rng)}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        for each in self.sites:
            name = each.predicate.name
            rows = kept[name].reshape(len(kept[name]), each.predicate.arity)
            self.chain.flip([(name, exclusive(self._away(name), rows))])
        resume_generator(self.rng, kept[""])

    def _away(self, name: str) -> np.ndarray:
        """int32[n, arity], the atoms that differ from the data."""
        return exclusive(sorted_unique(self.chain.true_rows(name)), self.data[name])


@dataclass(frozen=True)
class CountObjective:
    """The log-likelihood of the query atoms given the rest; only its gradient is computed."""

    name: str
    parameters: Parameters
    examples: tuple[Example, ...]
    worlds: tuple[ExampleChain, ...]
    expectation: Expectation
    start: ChainStart
    num_records: int  # at most, at each evaluation of a chain that is averaged
    averages: bool = True  # E[n] is the mean of recorded counts, else n less the sum of steps
    ijgp: IjgpSettings = field(default_factory=IjgpSettings)  # of MaxWalkSAT's groundings
    is_exact: bool = False
    is_fixed: bool = False

    @property
    def persistent(self) -> bool:
        """Whether a chain continues from the last evaluation."""
        return self.start == "last"

    @property
    def num_parameters(self) -> int:
        return len(self.parameters)

    @property
    def num_atoms(self) -> int:
        return sum(sites.unknown.num_unknown for world in self.worlds for sites in world.sites)

    @cached_property
    def true_counts(self) -> np.ndarray:
        """float64[num_parameters], n in the data without groundings that evidence decides."""
        total = np.zeros(len(self.parameters))
        for number, each in enumerate(self.examples):
            counts = undecided_counts(each.complete, each.asked)
            total += self.parameters.to_parameters(number, counts)
        return total

    def evaluate(self, weights: np.ndarray) -> Point:
        """Estimate gradient and curvature; there is no value, since log Z is not computed."""
        gradient = np.zeros(len(self.parameters))
        variance = np.zeros(len(self.parameters))
        curvature: list[CurvatureFactors] = []
        for number, world in enumerate(self.worlds):
            world.last, factors = self.visit(number, weights)
            gradient += self.parameters.to_parameters(number, world.last.gradient)
            variance += self.parameters.to_parameters(number, world.last.gradient_variance)
            curvature.append(self._to_parameters(number, factors))
        # The error of the counts of a best world is unknown.
        stderr = None if self.expectation == "maxwalksat" else np.sqrt(variance)
        return Point(
            weights,
            None,
            gradient,
            partial(curvature_diagonal, curvature, len(weights)),
            partial(curvature_product, curvature),
            stderr,
        )

    def visit(self, number: int, weights: np.ndarray) -> tuple[ChainCounts, CurvatureFactors]:
        """Move one world's chain at weights float64[num_parameters]; return counts, curvature."""
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

    def _search(self, number: int, weights: np.ndarray) -> tuple[ChainCounts, CurvatureFactors]:
        """Search a best world by MaxWalkSAT; return n less its counts, and the curvature there."""
        world, problem = self.worlds[number], self.examples[number].complete
        chain, sites, rng = world.chain, world.sites, world.rng
        if self.start == "random":
            randomize_world(world)
        moves = search_by_counts(chain, sites, problem, weights, world.num_steps, rng, self.ijgp)
        gradient = world.counts - chain.counts()
        nearby = min(world.num_sites, MOST_NEARBY)
        visits = walk(chain, sites, weights, nearby, rng, rounds=0, returns=True, records=0)
        if self.start == "data":
            undo(chain, moves)
        draw = np.asarray(visits.vectors.power(2).T @ visits.scale)
        return ChainCounts(gradient, draw, draw), CurvatureFactors(visits.vectors, visits.scale)

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

    def _num_rounds(self, world: ExampleChain) -> int:
        """Return the number of rounds in which a search keeps its noise; 0 for Gibbs chains."""
        if self.expectation == "gibbs":
            return 0
        return max(1, world.num_steps // (ROUND_SWEEPS * max(1, world.num_sites)))

    def num_records_of(self, world: ExampleChain) -> int:
        """Return the number of worlds whose counts are recorded; 1, the best, for MaxWalkSAT."""
        if self.expectation == "maxwalksat":
            return 1
        if not self.averages:
            return 0
        if not world.num_steps:
            return 1
        return min(self._num_rounds(world) or world.num_steps, self.num_records)

    def _summarise(
        self, world: ExampleChain, visits: WalkVisits
    ) -> tuple[ChainCounts, CurvatureFactors]:
        """Return n − E[n] of one world with its variance, and the curvature."""
        sweeps = world.num_steps / max(1, world.num_sites)
        local = CurvatureFactors(visits.vectors, visits.scale)
        draw = np.asarray(visits.vectors.power(2).T @ visits.scale)
        if not self.averages:
            return ChainCounts(visits.pull, visits.pull_variance, draw), local
        mean = visits.counts.mean(axis=0)
        gradient, centred = world.counts - mean, visits.counts - mean
        if not self.persistent:
            # An upper bound: the mean of the walk is nearer to the data than its end.
            return ChainCounts(gradient, draw * min(1.0, sweeps), draw), local
        mixed = sweeps >= COVARIANCE_SWEEPS and len(centred) >= 2 * NUM_BATCHES
        if self.expectation == "map" or not mixed:
            # One independent draw for each sweep, or for each round.
            return ChainCounts(
                gradient, draw / max(1.0, self._num_rounds(world) or sweeps), draw
            ), local
        batches = np.array_split(centred, NUM_BATCHES)
        means = np.array([batch.mean(axis=0) for batch in batches])
        error = means.var(axis=0, ddof=1) / NUM_BATCHES
        covariance = CurvatureFactors(centred, np.full(len(centred), 1.0 / (len(centred) - 1)))
        return ChainCounts(gradient, error, draw), covariance

    def _to_parameters(self, number: int, factors: CurvatureFactors) -> CurvatureFactors:
        from scipy.sparse import csr_matrix

        index = self.parameters.world_index[number]
        size = len(self.parameters)
        entries = np.ones(len(index)), (np.arange(len(index)), index)
        place = csr_matrix(entries, shape=(len(index), size))
        return CurvatureFactors(factors.vectors @ place, factors.scale)


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
    """Build the likelihood of the query atoms by counts: CD (`gibbs`) or VP (`map`, `maxwalksat`).

    Each evaluation makes `num_steps` steps (N of Algorithm 1; by default `default_steps`), divided
    among the examples by their number of query atoms. The counts of `num_records` worlds (K) are
    averaged, at equal distances over the walk; for a persistent chain, over the walk after its
    first sweep. By default, chains are persistent if N makes PERSISTENT_SWEEPS sweeps, and
    restarted otherwise; MaxWalkSAT starts in random worlds if no rule is hard.

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
            hint="give fewer records or more steps",
        )
    hard = next((rule for rule in parameters.model.rules if rule.hard), None)
    if start is None and expectation == "maxwalksat":
        start = "random" if hard is None else "data"
    elif start is None:
        start = "last" if num_steps >= PERSISTENT_SWEEPS * sizes.sum() else "data"
    elif start == "random" and hard is not None:
        raise LapisError(
            "MaxWalkSAT by counts cannot start in a random world: it may break hard rules",
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
        worlds.append(ExampleChain(chain, own, chain.counts(), rng, steps, data))
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
    """Return the steps of an evaluation: DEFAULT_SWEEPS sweeps, in large worlds PERSISTENT_SWEEPS.

    >>> [default_steps(number) for number in (10, 100, 5_000, 20_000, 20_000_000)]
    [500, 2000, 10000, 40000, 20000000]
    """
    some = int(np.clip(DEFAULT_SWEEPS * num_sites, *DEFAULT_STEPS))
    return max(some, min(PERSISTENT_SWEEPS * num_sites, most))


def keep_generator(rng: np.random.Generator) -> np.ndarray:
    """Return the state of a generator, uint64[6].

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
    """Build the world of the data; with `ijgp`, differences are estimated."""
    if example.has_hidden:
        raise LapisError(
            "learning by counts needs complete data, but some atoms are unknown",
            code="incomplete-data",
            hint="use objective 'conditional' or 'likelihood', which sum over unknown atoms",
        )
    problem = example.complete
    true = {name: known.true for name, known in problem.evidence.items()}
    moved = [each.predicate.name for each in sites]
    world = count_world(problem, true, ijgp, moved, sum(map(len, sites)))
    if isinstance(world, ExactWorld) and world.world.violated_rules:
        broken = problem.model.rules[world.world.violated_rules[0]]
        raise LapisError(
            f"the data violate the hard rule {broken.text!r}",
            code="data-breaks-hard-rule",
            span=broken.span,
            hint="correct the data, or give the rule a weight",
        )
    return world


def randomize_world(world: ExampleChain) -> None:
    """Give every site of a world a random value, also where that breaks hard rules."""
    few = sum(map(len, world.sites)) <= MOST_COINS
    for own in world.sites:
        name, size = own.predicate.name, len(own)
        true = sorted_unique(world.chain.true_rows(name))
        if own.shape is None:
            rate = 0.5 if few else len(world.data[name]) / max(1, size)
            flipped = flip_random_atoms(own, true, rate, world.rng)
        else:
            flipped = flip_random_blocks(own, true, world.rng)
        for rows in flipped:
            world.chain.flip([(name, rows)])


def flip_random_atoms(
    own: Sites, true: np.ndarray, rate: float, rng: np.random.Generator
) -> Sequence[np.ndarray]:
    """Draw each atom true with probability `rate`; return those that flip, int32[n, arity] each."""
    found = []
    for begin in range(0, len(own), BATCH):
        rows = own.rows(np.arange(begin, min(begin + BATCH, len(own))))
        found.append(rows[(rng.random(len(rows)) < rate) != contains(true, rows)])
    return found


def flip_random_blocks(
    own: Sites, true: np.ndarray, rng: np.random.Generator
) -> Sequence[np.ndarray]:
    found = []
    for begin in range(0, len(own), BATCH):
        blocks = own.blocks(np.arange(begin, min(begin + BATCH, len(own))))
        number = np.diff(blocks.value_start) - blocks.is_exact  # of values that may be
        taken = np.zeros(blocks.num_values, bool)
        taken[blocks.value_start[:-1] + rng.integers(number)] = True
        found.append(blocks.rows[contains(true, blocks.rows) != taken[blocks.is_atom]])
    return found
