"""Weigh the modes between which chains do not move.

A *mode* is a region of worlds in which chains stay. The probability of region k is Z_k / Σ_j Z_j,
with Z_k the sum of exp(score) over its worlds. The marginals of the network are the mixture

    P(a) = Σ_k (Z_k / Σ_j Z_j) · P(a | region k)

**Paths.** Z_k is estimated along a path that crosses no other mode. It starts from independent
atoms with the mean values of the mode's chains, q_k(x) ∝ exp(Σ_a θ_a x_a), whose partition
function is a product, and ends at the model:

    p_t(x) ∝ exp(t · score(x) + (1 − t) · Σ_a θ_a x_a),     t from 0 to 1

In mean-field theory the mean values of the mode are a fixed point at every t, and it is stable if
it is stable at t = 1. A path along fields through both modes would meet the transition between
them. The method is the Einstein crystal of Frenkel and Ladd (1984, "New Monte Carlo method to
compute the free energy of arbitrary solids") with annealed importance sampling (Neal 2001) in place
of thermodynamic integration.

**Both directions.** A forward path from q_k has a weight F with E[F · 1(ends in region k)] = Z_k. A
backward path starts at a world of a chain, visits the units in reverse order, and has a weight G
with E[1 / G] ≤ 1 / Z_k. So by Markov's inequality

    P(F > e^s Z) ≤ e^−s,          P(G < e^−s Z_k) ≤ e^−s        (Z: of all worlds)

which bounds the weights whatever the length of the paths. A mode whose upper bound is far below the
lower bound of another one is dropped after a few sweeps: differences between modes grow with the
number of atoms, and so does the distance of the bounds, but it also falls with the sweeps. The
other modes get longer paths, and both directions are combined by Bennett's acceptance ratio (1976,
"Efficient estimation of free energy differences from Monte Carlo data"), which is the z with
mean σ(log F − z) = mean σ(z − log G). Where the two directions do not overlap, half of their
distance is the error.

**Regions.** A world belongs to the mode whose q_k gives it the largest probability. Regions are
disjoint, so no world is counted twice if two groups of chains are in the same mode.

Hard clauses have the finite weight `HARD_WEIGHT` at t = 1 as in `annealed`; a path that ends with a
violated one has weight 0.

What did not work. Parallel tempering, which `auto` ran before if chains stayed apart, crosses the
transition at every exchange: it was not done in ten minutes with 100,000 people. Bethe's
approximation at the fixed points of belief propagation was not built: it has no error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.diagnostics import ChainAverages, Summary
from lapis.inference.sampling.gibbs import HARD_WEIGHT, Gibbs, GibbsPlan, soften_hard_clauses
from lapis.inference.sampling.gibbs_kernel import run_path
from lapis.inference.sampling.tally import Tallies, Worlds
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool

PERSISTENT = 4.0  # squared distance of two chains, relative to their own movement
SMALLEST = 0.01  # squared distance of two chains in different modes, per atom of the component
FEW_ATOMS = 100.0  # …, more by this over the atoms of a component
FIRST_STEPS, MIN_PATHS, MAX_PATHS = 8, 2, 64
WANTED_GAP = 1.0  # between the mean logarithms of forward and backward weights
SLACK = 9.0  # of the bounds by Markov's inequality: wrong with probability e^−9
ENOUGH_OVERLAP = 4.0  # accepted paths of both directions
DROPPED = 0.1  # of the precision: the weight of a mode that is dropped
PATH_STREAM = 7_919  # of random numbers, other than those of chains
TELLING = 0.5  # difference of probabilities of an atom that tells modes apart
DRAWS = 2_000  # of log Z, for the errors of weights
PIECE = 1 << 16  # atoms compared together


class Mode(NamedTuple):
    """A region of worlds in which chains stay."""

    mean: np.ndarray  # float64[num_base_atoms], over its chains
    worlds: np.ndarray  # bool[num_worlds, num_atoms], of its chains
    chains: tuple[int, ...]  # that are in it
    num_samples: int  # behind `mean`


class ModeRow(NamedTuple):
    """A mode as it is reported, compared with the heaviest mode (that one with the next)."""

    size: int  # atoms whose probability differs by more than `TELLING`
    weight: float
    stderr: float  # of the weight; of a dropped mode an upper bound of it
    atom: int  # whose probability differs most
    probability: float  # of this atom in the mode
    chains: int  # that found the mode
    kept: bool  # in the answer: not negligible


class Reference(NamedTuple):
    """Independent atoms and blocks, ∝ exp(Σ fields of true atoms)."""

    field: np.ndarray  # float64[num_base_atoms]
    log_partition: float


@dataclass(frozen=True)
class WeighedMode:
    """The estimate of a mode's log Z, and what its paths found."""

    log_partition: float
    stderr: float
    lower: float  # bound of log Z of the network by the forward paths
    upper: float  # bound of log Z of the mode by the backward paths
    ends: tuple[np.ndarray, ...]  # bool[num_atoms], forward paths that ended in the mode


@dataclass(frozen=True)
class ModeWeights:
    """The weights of modes; negligible modes are dropped."""

    weight: np.ndarray  # float64[num_modes], sum 1
    covariance: np.ndarray  # float64[num_modes, num_modes], of the weights
    upper: np.ndarray  # float64[num_modes], upper bounds of the weights
    kept: np.ndarray  # bool[num_modes]
    modes: tuple[Mode, ...]
    references: tuple[Reference, ...]
    found: tuple[WeighedMode, ...]

    @property
    def stderr(self) -> np.ndarray:
        """float64[num_modes]: that of the weight, or the upper bound of a dropped mode."""
        own = np.sqrt(np.diag(self.covariance))
        return np.where(self.kept, own, self.upper)

    @property
    def dropped(self) -> float:
        """The upper bound of the weight of all dropped modes."""
        return float(self.upper[~self.kept].sum())

    def error(self) -> float:
        """Return the largest standard error of a probability due to the weights."""
        mean = np.array(
            [mode.mean for mode, kept in zip(self.modes, self.kept, strict=True) if kept]
        )
        if len(mean) < 2:
            return self.dropped
        own = self.covariance[np.ix_(self.kept, self.kept)]
        variance = np.einsum("ka,kj,ja->a", mean, own, mean)
        return float(np.sqrt(max(0.0, variance.max(initial=0.0)))) + self.dropped

    def share_found_once(self) -> float:
        """Return the share of chains whose mode is not negligible and has no other chain.

        It estimates the probability that one more start leads to a mode that was not found (Good
        1953, "The population frequencies of species and the estimation of population parameters").
        """
        sizes = [len(mode.chains) for mode in self.modes]
        once = [size == 1 and kept for size, kept in zip(sizes, self.kept, strict=True)]
        return sum(once) / sum(sizes)

    def rows(self) -> tuple[ModeRow, ...]:
        """Describe the modes, the heaviest first."""
        order = np.argsort(-self.weight, kind="stable").tolist()
        mean = [self.modes[place].mean for place in order]
        found = []
        for rank, place in enumerate(order):
            apart = np.abs(mean[rank] - mean[0 if rank else 1])
            atom = int(apart.argmax())
            found.append(
                ModeRow(
                    int((apart > TELLING).sum()),
                    float(self.weight[place]),
                    float(self.stderr[place]),
                    atom,
                    float(mean[rank][atom]),
                    len(self.modes[place].chains),
                    bool(self.kept[place]),
                )
            )
        return tuple(found)

    def region(self, worlds: np.ndarray) -> np.ndarray:
        """Return int64[num_worlds], the mode of each world bool[num_worlds, ≥ num_base_atoms]."""
        return region_of(self.references, worlds)


def group_chains(tallies: Sequence[Tallies], component: np.ndarray) -> list[list[int]]:
    """Group chains that are in the same mode, by the means of the two halves of their samples.

    With d and e the differences of two chains in the first and the second half, chains that stay
    apart have d·e ≈ |d|², others d·e ≈ 0. This is compared with the chains' own movement between
    the halves, for each component; small components by chance have little movement.
    """
    number = len(tallies)
    pairs = [(one, other) for one in range(number) for other in range(one + 1, number)]
    count = int(component.max(initial=-1)) + 1
    dot, moved = np.zeros((2, len(pairs), count))
    full, length, _ = tallies[0].atoms.cursor.tolist()
    half = full // 2
    for begin in range(0, len(component) if half else 0, PIECE):
        piece = slice(begin, begin + PIECE)
        sums = [tally.atoms.batch_sum[:full, piece] for tally in tallies]
        first = np.array([each[:half].sum(axis=0) for each in sums]) / (half * length)
        last = np.array([each[full - half :].sum(axis=0) for each in sums]) / (half * length)
        drift = (first - last) ** 2
        own = component[piece]
        for row, (one, other) in enumerate(pairs):
            product = (first[one] - first[other]) * (last[one] - last[other])
            dot[row] += np.bincount(own, product, count)
            moved[row] += np.bincount(own, drift[one] + drift[other], count)
    size = np.bincount(component, minlength=count)
    least = np.maximum(SMALLEST * size, (PERSISTENT + FEW_ATOMS / np.maximum(size, 1)) * moved)
    apart = (dot > least).any(axis=1).tolist()
    together = [pair for pair, is_apart in zip(pairs, apart, strict=True) if not is_apart]
    return join_pairs(number, together)


def join_pairs(number: int, pairs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected groups of range(number), largest first."""
    label = list(range(number))
    for one, other in pairs:
        low, high = sorted((label[one], label[other]))
        label = [low if each == high else each for each in label]
    groups = [[item for item in range(number) if label[item] == top] for top in sorted(set(label))]
    return sorted(groups, key=len, reverse=True)


def describe_mode(tallies: Sequence[Tallies], chains: Sequence[int], limit: int) -> Mode:
    """Return the mode of some chains, from the second half of their samples."""
    own = [tallies[chain] for chain in chains]
    full, length, _ = own[0].atoms.cursor.tolist()
    half = full - full // 2
    total = sum(tally.atoms.batch_sum[full - half : full].sum(axis=0) for tally in own)
    samples = half * length * len(own)
    worlds = [late_worlds(tally.worlds, -(-limit // len(own))) for tally in own]
    return Mode(total / samples, np.concatenate(worlds), tuple(chains), samples)


def late_worlds(kept: Worlds, number: int) -> np.ndarray:
    """Return bool[≤ number, num_atoms], evenly spaced samples of the second half."""
    size = int(kept.size[0])
    places = np.unique(np.linspace(size // 2, size - 1, number).astype(np.int64))[::-1]
    bits = [(kept.bits[place // 64] >> np.uint64(place % 64)) & np.uint64(1) for place in places]
    return np.array(bits).astype(bool)


def make_reference(network: Network, mode: Mode) -> Reference:
    """Return the independent atoms and blocks with the mean values of a mode."""
    samples = float(mode.num_samples)
    mean = np.clip(mode.mean, 0.0, 1.0)
    share = (samples * mean + 0.5) / (samples + 1.0)
    field = np.log(share) - np.log1p(-share)
    alone = np.ones(len(field), bool)
    alone[network.block_atom] = False
    total = float(np.logaddexp(0.0, field[alone]).sum())
    if network.num_blocks:
        start, atom = network.block_start, network.block_atom
        none = np.maximum(1.0 - np.add.reduceat(mean[atom], start[:-1]), 0.0)
        none = np.where(network.block_exact, 1.0, (samples * none + 0.5) / (samples + 1.0))
        field[atom] = np.log(share[atom]) - np.repeat(np.log(none), np.diff(start))
        states = np.add.reduceat(np.exp(field[atom]), start[:-1]) + ~network.block_exact
        total += float(np.log(states).sum())
    return Reference(field, total)


def draw_world(network: Network, reference: Reference, rng: np.random.Generator) -> np.ndarray:
    """Return bool[num_atoms], a draw of the independent atoms and blocks."""
    field = reference.field
    base = rng.random(len(field)) < 1.0 / (1.0 + np.exp(-field))
    if network.num_blocks:
        start, atom = network.block_start, network.block_atom
        base[atom] = False
        key = field[atom] + rng.gumbel(size=len(atom))
        best = np.maximum.reduceat(key, start[:-1])
        none = np.where(network.block_exact, -np.inf, rng.gumbel(size=network.num_blocks))
        size = np.diff(start)
        base[atom[(key == np.repeat(best, size)) & np.repeat(best > none, size)]] = True
    return network.complete(base)


def region_of(references: Sequence[Reference], worlds: np.ndarray) -> np.ndarray:
    """Return int64[num_worlds], the reference under which each world is likeliest."""
    score = [worlds[:, : len(each.field)] @ each.field - each.log_partition for each in references]
    return np.argmax(score, axis=0)


class PathRunner:
    """Paths between the references of modes and the model."""

    def __init__(
        self, plan: GibbsPlan, references: Sequence[Reference], modes: Sequence[Mode], seed: int,
        pool: ThreadPool,
    ) -> None:  # fmt: skip
        graph = plan.graph
        self.num_hard = int(np.isinf(graph.weight).sum())
        self.network = plan.network
        self.plan = soften_hard_clauses(plan) if self.num_hard else plan
        self.references, self.modes, self.pool = references, modes, pool
        self.seed, self.number = seed, 0

    def run(
        self, modes: Sequence[int], paths: Sequence[int], steps: Sequence[int]
    ) -> list[tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]]:
        """Return log F, log G and the ends of forward paths, for each of some modes."""
        sent = []
        for mode, number, length in zip(modes, paths, steps, strict=True):
            rows = np.arange(number) % len(self.modes[mode].worlds)
            forth = [self.send(self.go_forward, mode, length, None) for _ in range(number)]
            back = [
                self.send(self.go_backward, mode, length, self.modes[mode].worlds[row])
                for row in rows
            ]
            sent.append((mode, forth, back))
        found = []
        for mode, forth, back in sent:
            ends = [future.result() for future in forth]
            inside = [weight > -np.inf and self.is_in(mode, world) for weight, world in ends]
            weight = [each[0] if ok else -np.inf for each, ok in zip(ends, inside, strict=True)]
            worlds = tuple(each[1] for each, ok in zip(ends, inside, strict=True) if ok)
            found.append((np.array(weight), np.array([f.result() for f in back]), worlds))
        return found

    def send(self, path, mode: int, steps: int, world: np.ndarray | None):  # type: ignore[no-untyped-def]
        self.number += 1
        return self.pool.submit(path, mode, steps, (self.seed, self.number), world)

    def is_in(self, mode: int, world: np.ndarray) -> bool:
        return int(region_of(self.references, world[None])[0]) == mode

    def go_forward(
        self, mode: int, steps: int, seed: tuple[int, int], _: None
    ) -> tuple[float, np.ndarray]:
        rng = np.random.default_rng((PATH_STREAM, *seed))
        world = draw_world(self.network, self.references[mode], rng)
        found, count, end = self.go(mode, np.linspace(0.0, 1.0, steps + 1), world, rng)
        if self.num_hard and count < self.num_hard:
            return -np.inf, end
        return self.references[mode].log_partition + found - HARD_WEIGHT * self.num_hard, end

    def go_backward(self, mode: int, steps: int, seed: tuple[int, int], world: np.ndarray) -> float:
        rng = np.random.default_rng((PATH_STREAM, *seed))
        found, _, _ = self.go(mode, np.linspace(1.0, 0.0, steps + 1), world, rng)
        return self.references[mode].log_partition - found - HARD_WEIGHT * self.num_hard

    def go(
        self, mode: int, position: np.ndarray, world: np.ndarray, rng: np.random.Generator
    ) -> tuple[float, float, np.ndarray]:
        """Return the path's Σ, the hard clauses true at its end, and its end."""
        plan = self.plan
        stream = rng.integers(1 << 63, size=4, dtype=np.uint64)
        state = Gibbs().init(plan, world, stream)
        order = state.order if position[-1] > position[0] else state.order[::-1].copy()
        total = run_path(
            plan.graph, plan.units, plan.network.weights, self.references[mode].field, position,
            state.world, order, state.estimate, state.rng, state.score, state.digit,
            np.zeros(len(state.estimate)),
        )  # fmt: skip
        return float(total), float(state.world.count[-1]), state.world.value.astype(bool)


def weigh_modes(
    plan: GibbsPlan,
    modes: Sequence[Mode],
    *,
    budget: int,
    precision: float,
    seed: int,
    pool: ThreadPool,
) -> ModeWeights:
    """Estimate the weights of modes by paths of at most `budget` sweeps, beyond the first ones.

    Modes that weigh less than a tenth of the precision are dropped.
    """
    references = tuple(make_reference(plan.network, mode) for mode in modes)
    runner = PathRunner(plan, references, modes, seed, pool)
    every = range(len(modes))
    first = runner.run(every, [MIN_PATHS] * len(modes), [FIRST_STEPS] * len(modes))
    found = [combine_paths(*paths) for paths in first]
    kept = np.flatnonzero(upper_weights(found) > DROPPED * precision).tolist()
    if len(kept) > 1:
        share = budget // (2 * len(kept))
        gaps = [float(np.mean(first[mode][1])) - mean_finite(first[mode][0]) for mode in kept]
        steps = [choose_steps(gap, share) for gap in gaps]
        paths = [int(np.clip(share // each, MIN_PATHS, MAX_PATHS)) for each in steps]
        for mode, more in zip(kept, runner.run(kept, paths, steps), strict=True):
            found[mode] = combine_paths(*more)
    return mix_modes(modes, references, found, precision)


def mean_finite(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else -np.inf


def choose_steps(gap: float, share: int) -> int:
    """Return the steps of a path such that its dissipation is about `WANTED_GAP`."""
    most = max(FIRST_STEPS, share // MIN_PATHS)
    return int(np.clip(FIRST_STEPS * gap / WANTED_GAP, FIRST_STEPS, most))


def combine_paths(
    forward: np.ndarray, backward: np.ndarray, ends: tuple[np.ndarray, ...]
) -> WeighedMode:
    """Combine log weights float64[num_paths] of both directions."""
    lower = log_mean(forward) - SLACK
    upper = SLACK - log_mean(-backward)
    if not np.isfinite(forward).any():
        return WeighedMode(float(backward.mean()), np.inf, lower, upper, ends)
    z = solve_acceptance(forward, backward)
    one, other = logistic(forward - z), logistic(z - backward)
    overlap = min(float(one.mean()), float(other.mean()))
    gap = float(backward.mean()) - mean_finite(forward)
    slope = float((one * (1.0 - one)).mean() + (other * (1.0 - other)).mean())
    spread = one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other)
    error = math.sqrt(float(spread)) / max(slope, 1e-12)
    if overlap * len(forward) < ENOUGH_OVERLAP:
        # few paths meet: the estimate is between the two directions
        z = (float(backward.mean()) + mean_finite(forward)) / 2.0
        error = max(abs(gap) / 2.0, 1.0)
    else:
        lower, upper = max(lower, z - 5.0 * error), min(upper, z + 5.0 * error)
    return WeighedMode(z, error, lower, upper, ends)


def solve_acceptance(forward: np.ndarray, backward: np.ndarray) -> float:
    """Solve mean σ(forward − z) = mean σ(z − backward) by bisection."""
    finite = np.concatenate((forward[np.isfinite(forward)], backward))
    low, high = float(finite.min()) - 50.0, float(finite.max()) + 50.0
    for _ in range(100):
        z = (low + high) / 2.0
        if logistic(forward - z).mean() > logistic(z - backward).mean():
            low = z
        else:
            high = z
    return (low + high) / 2.0


def logistic(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.exp(-np.logaddexp(0.0, -x))
    return found


def log_mean(values: np.ndarray) -> float:
    """Return log mean exp(values)."""
    return float(np.logaddexp.reduce(values)) - math.log(len(values))


def upper_weights(found: Sequence[WeighedMode]) -> np.ndarray:
    """Return float64[num_modes], upper bounds of the weights."""
    lower = float(np.logaddexp.reduce([each.lower for each in found]))
    bound = np.array([each.upper for each in found]) - lower
    return np.exp(np.minimum(bound, 0.0))


def mix_modes(
    modes: Sequence[Mode],
    references: Sequence[Reference],
    found: Sequence[WeighedMode],
    precision: float,
) -> ModeWeights:
    """Return the weights; their errors by drawing log Z of each mode."""
    upper = upper_weights(found)
    kept = upper > DROPPED * precision
    value = np.array([each.log_partition for each in found])
    error = np.array([min(each.stderr, 1e6) for each in found])
    best = np.exp(value - np.logaddexp.reduce(value))
    weight, covariance = best, np.zeros((len(found), len(found)))
    if kept.sum() > 1:
        rng = np.random.default_rng(PATH_STREAM)
        drawn = value[kept] + error[kept] * rng.standard_t(5, (DRAWS, int(kept.sum())))
        drawn = np.exp(drawn - np.logaddexp.reduce(drawn, axis=1)[:, None])
        covariance[np.ix_(kept, kept)] = np.cov(drawn.T)
        weight = np.where(kept, 0.0, best)
        weight[kept] = drawn.mean(axis=0)
    elif kept.sum() == 1:
        weight = np.where(kept, 1.0, np.minimum(best, upper))
    return ModeWeights(
        weight, covariance, upper, kept, tuple(modes), tuple(references), tuple(found)
    )


def mix_summaries(
    found: Sequence[Summary], modes: ModeWeights | None, span: np.ndarray | None = None
) -> Summary:
    """Return the averages over modes that are not negligible; `span` is as for `summarize`.

    With w the weights, C their covariance and m the values' means in the modes:

        mean = Σ w_k m_k,     stderr² = Σ (w_k stderr_k)² + m·C·m + (span · dropped weight)²
    """
    if modes is None:
        return found[0]
    mean, stderr = mix_means([(each.mean, each.stderr) for each in found], modes, span)
    weight = modes.weight[modes.kept]
    return Summary(
        mean,
        stderr,
        np.max([each.rhat for each in found], axis=0),
        np.min([each.ess for each in found], axis=0),
        weight @ np.array([each.missed for each in found]),
        np.all([each.still for each in found], axis=0),
    )


def mix_averages(found: Sequence[ChainAverages], modes: ModeWeights) -> ChainAverages:
    """Return the averages over modes that are not negligible."""
    return ChainAverages(
        *mix_means([(each.mean, each.stderr) for each in found], modes, None),
        max(each.worst_rhat for each in found),
        max(each.worst_missed for each in found),
    )


def mix_means(
    found: Sequence[tuple[np.ndarray, np.ndarray]], modes: ModeWeights, span: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard errors over modes."""
    weight, covariance = modes.weight[modes.kept], modes.covariance[np.ix_(modes.kept, modes.kept)]
    means = np.array([mean for mean, _ in found])
    variance = (modes.dropped * (1.0 if span is None else span)) ** 2
    variance = variance + weight**2 @ np.array([stderr for _, stderr in found]) ** 2
    if len(found) > 1:
        variance += np.maximum(0.0, np.einsum("ka,kj,ja->a", means, covariance, means))
    return weight @ means, np.sqrt(variance)
