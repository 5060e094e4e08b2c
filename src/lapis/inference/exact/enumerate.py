"""Exact inference by enumeration of the joint states of each connected component.

    Z = exp(Σ_w weights[w]·constant_count[w]) · Π_components Σ_states exp(score) 1[hard clauses]

Components are independent: log Z adds up, and marginals, expected counts and most likely worlds are
computed for each component. Components with more than `MAX_STATES` states are refused.

The joint states of a component are a tensor with one axis for each unknown: an atom (false, true),
or a block (one index for each candidate, and a last one for "none" if it may be empty). An atom's
truth is a Boolean array that varies along its axis only; a clause is the `or` of its literals by
broadcasting, an auxiliary atom the `or` of its definition. Atoms in no clause and no block are
answered together, since there may be millions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from lapis.errors import TooLarge
from lapis.inference.exact.compensated_sums import LARGE, split_scores
from lapis.inference.marginals import state_log_odds
from lapis.network.network import Network
from lapis.network.satisfiability import contradiction_error
from lapis.runtime.progress import Stop


@dataclass(frozen=True)
class Axis:
    """One unknown of a component."""

    atoms: np.ndarray  # int64[k], one atom, or the candidates of a block
    is_block: bool
    may_be_empty: bool = False  # a block with at most one true atom

    @property
    def size(self) -> int:
        return len(self.atoms) + self.may_be_empty if self.is_block else 2


def component_axes(
    atoms: np.ndarray, block_of: np.ndarray, blocks: Sequence[np.ndarray], exact: np.ndarray
) -> list[Axis]:
    """Return the unknowns among the given base atoms: blocks, and atoms outside blocks."""
    axes = [Axis(atoms[i : i + 1], False) for i in np.flatnonzero(block_of[atoms] < 0)]
    for block in np.unique(block_of[atoms[block_of[atoms] >= 0]]):
        axes.append(Axis(blocks[block], True, not exact[block]))
    return axes


def count_states(axes: Sequence[Axis]) -> int:
    """Return Π sizes."""
    return prod(axis.size for axis in axes)


def atom_truths(axes: Sequence[Axis]) -> dict[int, np.ndarray]:
    """Return the truth of each base atom as an array that varies along its axis only."""
    truths: dict[int, np.ndarray] = {}
    for position, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[position] = axis.size
        for index, atom in enumerate(axis.atoms):
            value = np.arange(axis.size) == (index if axis.is_block else 1)
            truths[int(atom)] = value.reshape(shape)
    return truths


def add_auxiliary_truths(
    network: Network, auxiliaries: np.ndarray, truths: dict[int, np.ndarray]
) -> None:
    """Add the truth of auxiliary atoms, in the network's order of definitions."""
    start, literal = network.definition_start, network.definition_literal
    for atom in auxiliaries:
        index = int(atom) - network.num_base_atoms
        truths[int(atom)] = clause_truth(literal[start[index] : start[index + 1]], truths)


def clause_truth(literals: np.ndarray, truths: Mapping[int, np.ndarray]) -> np.ndarray:
    """Return the truth of a ground clause."""
    parts = [
        truths[literal - 1] if literal > 0 else ~truths[-literal - 1]
        for literal in literals.tolist()
    ]
    return reduce(np.logical_or, parts)


MAX_STATES = 1 << 20  # 20 binary atoms


@dataclass(frozen=True)
class Enumeration:
    """Exact answers about a network."""

    log_partition: float
    marginal: np.ndarray  # float64[num_base_atoms]
    log_odds: np.ndarray  # float64[num_base_atoms]
    expected_count: np.ndarray  # float64[num_weights]
    map_score: float
    map_world: np.ndarray  # bool[num_base_atoms]
    num_components: int
    largest_states: int


def enumerate_worlds(network: Network, stop: Stop | None = None) -> Enumeration:
    """Sum and maximise over all worlds; TooLarge if a component has too many states."""
    marginal = np.full(network.num_base_atoms, 0.5)
    log_odds = np.zeros(network.num_base_atoms)
    expected = network.constant_count.astype(np.float64).copy()
    world = np.zeros(network.num_base_atoms, dtype=bool)
    taken = (network.weights * network.constant_count).tolist()  # of scores; they may cancel
    components = list(find_components(network))
    free = network.num_base_atoms - sum(len(c.base_atoms) for c in components)
    log_totals = [free * float(np.log(2.0))]
    require_few_states(components)
    for component in components:
        if stop is not None:
            stop.check("enumeration")
        part = Component(network, component)
        taken += part.taken
        log_totals.append(part.log_total)
        for position, (axis, best) in enumerate(
            zip(component.axes, part.best_state(), strict=True)
        ):
            states = np.arange(len(axis.atoms)) if axis.is_block else np.array([1])
            marginal[axis.atoms] = part.axis_marginal(position)[states]
            log_odds[axis.atoms] = part.axis_log_odds(position)[states]
            world[axis.atoms] = states == best
        part.add_expected_counts(expected)
    largest = max((count_states(c.axes) for c in components), default=1)
    return Enumeration(
        math.fsum(taken + log_totals),
        marginal,
        log_odds,
        expected,
        math.fsum(taken),
        world,
        len(components) + free,
        largest,
    )


@dataclass(frozen=True)
class ComponentParts:
    """The atoms and clauses of one connected component."""

    base_atoms: np.ndarray
    auxiliaries: np.ndarray
    clauses: np.ndarray
    axes: list[Axis]


def find_components(network: Network) -> Iterator[ComponentParts]:
    """Return the components with a clause or a block."""
    block_of = np.full(network.num_atoms, -1, dtype=np.int64)
    blocks = [
        network.block_atom[network.block_start[i] : network.block_start[i + 1]]
        for i in range(len(network.block_exact))
    ]
    for index, atoms in enumerate(blocks):
        block_of[atoms] = index
    label = network.component
    clause_label = label[network.first_atom]
    busy = np.zeros(network.num_components, dtype=bool)
    busy[clause_label] = True
    busy[label[block_of >= 0]] = True
    atoms = np.flatnonzero(busy[label]) if len(label) else np.empty(0, np.int64)
    for chosen, clauses in zip(
        split_by_label(atoms, label[atoms], busy),
        split_by_label(np.arange(network.num_clauses), clause_label, busy),
        strict=True,
    ):
        base = chosen[chosen < network.num_base_atoms]
        axes = component_axes(base, block_of, blocks, network.block_exact)
        yield ComponentParts(base, chosen[chosen >= network.num_base_atoms], clauses, axes)


def split_by_label(items: np.ndarray, labels: np.ndarray, used: np.ndarray) -> list[np.ndarray]:
    """Return the items of each used label, in order of labels."""
    order = np.argsort(labels, kind="stable")
    position = np.searchsorted(labels[order], np.flatnonzero(used))
    return np.split(items[order], position[1:]) if len(position) else []


def require_few_states(components: list[ComponentParts]) -> None:
    """Raise TooLarge if a component has more than `MAX_STATES` states."""
    sizes = [count_states(component.axes) for component in components]
    if not sizes or max(sizes) <= MAX_STATES:
        return
    largest = components[sizes.index(max(sizes))]
    atoms, states = len(largest.base_atoms), format_state_count(max(sizes))
    raise TooLarge(
        f"a connected component has {atoms:,} unknown atoms with {states} joint states; "
        f"enumeration stops at {MAX_STATES:,} (20 atoms)",
        code="too-many-states",
        hint="give more evidence, query less, or use another method",
    )


def format_state_count(number: int) -> str:
    """Return a number as text, by order of magnitude if large."""
    return f"{number:,}" if number < 10**9 else f"about 10^{len(str(number)) - 1}"


class Component:
    """The scores of all states of one component."""

    def __init__(self, network: Network, parts: ComponentParts) -> None:
        self.network, self.parts = network, parts
        self.shape = tuple(axis.size for axis in parts.axes)
        truths = atom_truths(parts.axes)
        add_auxiliary_truths(network, parts.auxiliaries, truths)
        start, literal = network.clause_start, network.literal
        self.truth = [clause_truth(literal[start[c] : start[c + 1]], truths) for c in parts.clauses]
        self.score = np.zeros(self.shape)  # less the sums in `taken`
        weight_id = network.weight_id[parts.clauses]
        for truth, hard in zip(self.truth, weight_id < 0, strict=True):
            if hard:
                self.score += np.where(truth, 0.0, -np.inf)
        if self.score.max(initial=-np.inf) == -np.inf:
            raise contradiction_error(network, int(network.component[parts.base_atoms[0]]))
        weight, times = (
            np.append(network.weights, 0.0)[weight_id],
            network.coefficient[parts.clauses],
        )
        scores: Sequence[np.ndarray] = [weight * times]
        if np.abs(scores[0]).sum() > LARGE:
            scores = split_scores(weight, times)
        self.taken = [self.add_up(part) for part in scores]
        weight = np.exp(self.score)
        total = float(weight.sum())
        self.log_total = float(np.log(total))
        self.probability = weight / total

    def add_up(self, weights: np.ndarray) -> float:
        """Add the weights of true clauses; subtract the largest sum and return it."""
        for truth, weight in zip(self.truth, weights.tolist(), strict=True):
            if weight:
                self.score += weight * truth
        best = float(self.score.max())
        self.score -= best
        return best

    def axis_marginal(self, position: int) -> np.ndarray:
        """Return the marginal of an axis, normalised again so that certain states are exactly 1."""
        others = tuple(axis for axis in range(len(self.shape)) if axis != position)
        found: np.ndarray = self.probability.sum(axis=others)
        return found / found.sum()

    def axis_log_odds(self, position: int) -> np.ndarray:
        """Return the log-odds of an axis by log Σ exp: unlikely probabilities would round to 0."""
        rows = np.moveaxis(self.score, position, 0).reshape(self.shape[position], -1)
        peak = rows.max(axis=1)
        finite = np.where(peak > -np.inf, peak, 0.0)
        with np.errstate(divide="ignore"):
            total = finite + np.log(np.exp(rows - finite[:, np.newaxis]).sum(axis=1))
        return state_log_odds(total - self.log_total, np.array([0, len(total)]))

    def best_state(self) -> tuple[int, ...]:
        """Return the first most likely state."""
        return tuple(map(int, np.unravel_index(int(np.argmax(self.score)), self.shape)))

    def add_expected_counts(self, expected: np.ndarray) -> None:
        """Add Σ coefficient·P(clause true), by the marginal over each clause's axes."""
        marginals: dict[tuple[int, ...], np.ndarray] = {}
        for clause, truth in zip(self.parts.clauses, self.truth, strict=True):
            weight_id = self.network.weight_id[clause]
            if weight_id < 0:
                continue
            others = tuple(a for a, size in enumerate(truth.shape) if size == 1)
            if others not in marginals:
                marginals[others] = self.probability.sum(axis=others, keepdims=True)
            probability = float(marginals[others][truth].sum())
            expected[weight_id] += self.network.coefficient[clause] * probability
