"""Hidden trees: one hidden variable for each variable, joined in a tree and fitted by EM.

    P(x) = Σ_z P(z_root) Π_v P(z_v | z_parent(v)) P(x_v | z_v)

With K states each this is a smooth, decomposable circuit of about 3 n K² edges (Liu and Van den
Broeck, Tractable Regularization of Probabilistic Circuits, 2021). Where rows have no sharp contexts
for LearnAC to split on, as in ratings, it fits far better.

**Structure.** The tree is the spanning tree of the variables with the largest total mutual
information (Chow and Liu, 1968), rooted at its centre so that it is shallow. Pairs are counted from
the rows that show both variables.

**EM** starts where the hidden variables nearly agree, that is, close to a mixture of independent
variables. From random transitions it ended a whole nat lower on plants. Parameters are fitted in
batches (Cappé and Moulines, On-line Expectation-Maximization, 2009): after each batch they move a
step towards those that its expected counts would give. The steps shrink linearly to the share of a
batch in the data; with a power of the step number EM was far from convergence after forty passes.
The pass with the highest held-out likelihood is kept. Then the rarest transitions are removed as
long as the held-out likelihood does not drop: a tenth of them on ratings.

Sums are matrix products in single precision. Beliefs are rescaled after each child, since a node
may have hundreds. A missing state is a factor of 1, so rows may be incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import (
    INDICATOR,
    PARAMETER,
    PRODUCT,
    SUM,
    Circuit,
    NodeList,
    Properties,
    state_starts,
)
from lapis.circuits.learning.mixture import marginal_states
from lapis.runtime.progress import Progress, Report, Stop, stop_on_interrupt

STEPS = 1200  # batches
PASSES = 12  # through the data at least
BATCHES = 30  # in a pass, about
BATCH_SIZES = (100, 2000)
CHUNK = 512  # rows whose beliefs are in memory together
FIRST_STEP = 0.16
NOISE = 0.1  # weight of random transitions at the start
PATIENCE = 4  # passes without a higher held-out likelihood
PRUNED = (0.0, 1e-3, 2e-3, 4e-3)  # shares below which a transition may be left out


class HiddenTree(NamedTuple):
    """Variables from the root down, parents first; lists are by variable."""

    order: np.ndarray  # int64[num_variables]
    parent: np.ndarray  # int64[num_variables], -1 for the root
    transition: list[np.ndarray]  # float32[K, K], P(own state | parent's); of the root [1, K]
    emission: list[np.ndarray]  # float32[K, size], P(state of the variable | own state)

    @property
    def num_hidden(self) -> int:
        return len(self.emission[0])


def learn_hidden_tree(
    data: np.ndarray,
    states: Sequence[Sequence[str]],
    *,
    num_hidden: int,
    valid: np.ndarray | None = None,
    prior: float = 1.0,
    max_edges: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> tuple[HiddenTree, bool]:
    """Fit a tree to rows of states, int[num_rows, num_variables]; and whether EM converged.

    There are fewer hidden states if the circuit would have more than `max_edges` edges.
    """
    stop = stop or Stop()
    rng = np.random.default_rng(seed)
    began = time.monotonic()
    rows, number = np.unique(np.asarray(data, np.int32), axis=0, return_inverse=True)
    sizes = np.array([len(own) for own in states])
    counts = pair_counts(data, states)
    marginal = marginal_states(data, np.ones(len(data)), states)
    order, parent = spanning_tree(mutual_information(counts, states))
    while max_edges is not None and num_hidden > 1:
        if count_tree_edges(parent, states, num_hidden) <= max_edges:
            break
        num_hidden -= 1
    tree = initial_tree(order, parent, marginal, num_hidden, rng)
    size = int(np.clip(len(data) / BATCHES, *BATCH_SIZES))
    num_batches = -(-len(data) // size)
    num_passes = max(PASSES, -(-STEPS // num_batches))
    best, best_value, losses = tree, -np.inf, 0
    with stop_on_interrupt(stop):
        for done in range(num_passes):
            shuffled = rng.permutation(number)
            total = 0.0
            for batch in range(num_batches):
                if stop.is_over():
                    return best if valid is not None and done else tree, False
                part, times = np.unique(shuffled[batch::num_batches], return_counts=True)
                value, expected = expected_counts(tree, rows[part], times, sizes)
                total += value
                left = 1.0 - (done * num_batches + batch) / (num_passes * num_batches)
                step = 1.0 if num_batches == 1 else FIRST_STEP * left + 0.3 / num_batches
                scale = len(data) / times.sum()
                tree = step_parameters(tree, expected, scale, min(1.0, step), prior, marginal)
            figures = {"log-likelihood": total / len(data)}
            if valid is not None:
                value = float(log_likelihoods(tree, valid).mean())
                figures["held out"] = value
                losses = 0 if value > best_value else losses + 1
                if value > best_value:
                    best, best_value = tree, value
            else:
                best = tree
            if progress is not None:
                seconds = time.monotonic() - began
                progress(Progress("passes", done + 1, num_passes, seconds, figures))
            if losses > PATIENCE:
                break
    return (best if valid is None else prune(best, valid)), True


def prune(tree: HiddenTree, valid: np.ndarray) -> HiddenTree:
    """Remove the rarest transitions as long as the held-out likelihood does not drop."""
    values = {}
    for least in PRUNED:
        largest = [one.max(axis=1, keepdims=True) for one in tree.transition]
        kept = [
            np.where(one < np.minimum(least, most), np.float32(0), one)
            for one, most in zip(tree.transition, largest, strict=True)
        ]
        shares = [one / one.sum(axis=1, keepdims=True) for one in kept]
        pruned = tree._replace(transition=shares)
        values[float(log_likelihoods(pruned, valid).mean())] = pruned
    return values[max(values)]


def initial_tree(
    order: np.ndarray,
    parent: np.ndarray,
    marginal: Sequence[np.ndarray],
    num_hidden: int,
    rng: np.random.Generator,
) -> HiddenTree:
    """Return the start of EM: hidden variables that nearly agree, random emissions."""
    transition = []
    for p in parent.tolist():
        noise = rng.dirichlet(np.ones(num_hidden), 1 if p < 0 else num_hidden)
        agreed = np.full((1, num_hidden), 1 / num_hidden) if p < 0 else np.eye(num_hidden)
        transition.append((NOISE * noise + (1 - NOISE) * agreed).astype(np.float32))
    emission = [rng.dirichlet(own + 0.3, num_hidden).astype(np.float32) for own in marginal]
    return HiddenTree(order, parent, transition, emission)


class UpwardMessages(NamedTuple):
    """Messages of rows from the leaves; lists are by variable."""

    belief: list[np.ndarray]  # float32[num_rows, K], P(rows below | own state), up to a factor
    message: list[np.ndarray]  # float32[num_rows, K], the same given the parent's state
    log_likelihood: np.ndarray  # float64[num_rows]


def pass_upward(tree: HiddenTree, rows: np.ndarray) -> UpwardMessages:
    """Compute the messages from the leaves to the root."""
    num_rows, num_variables = rows.shape
    scale = np.zeros(num_rows)
    belief = []
    for v in range(num_variables):
        factor = np.vstack([tree.emission[v].T, np.ones((1, tree.num_hidden), np.float32)])
        belief.append(factor[rows[:, v]])  # a missing state is the last
    message = list(belief)
    for v in tree.order[::-1].tolist():
        message[v] = belief[v] @ tree.transition[v].T
        p = int(tree.parent[v])
        if p >= 0:
            belief[p] *= message[v]
            largest = belief[p].max(axis=1)
            belief[p] /= largest[:, None]
            scale += np.log(largest, dtype=np.float64)
    root = int(tree.order[0])
    return UpwardMessages(belief, message, np.log(message[root][:, 0], dtype=np.float64) + scale)


def log_likelihoods(tree: HiddenTree, rows: np.ndarray) -> np.ndarray:
    """float64[num_rows], log P of rows; negative states are missing."""
    found = np.empty(len(rows))
    for first in range(0, len(rows), CHUNK):
        part = slice(first, first + CHUNK)
        found[part] = pass_upward(tree, np.asarray(rows[part], np.int64)).log_likelihood
    return found


class Expected(NamedTuple):
    """Expected counts, of the shapes of the parameters."""

    transition: list[np.ndarray]
    emission: list[np.ndarray]


def expected_counts(
    tree: HiddenTree, rows: np.ndarray, times: np.ndarray, sizes: np.ndarray
) -> tuple[float, Expected]:
    """Return the log-likelihood of rows with multiplicities, and expected uses of parameters."""
    expected = Expected(
        [np.zeros(one.shape) for one in tree.transition],
        [np.zeros(one.shape) for one in tree.emission],
    )
    total = 0.0
    for first in range(0, len(rows), CHUNK):
        part = slice(first, first + CHUNK)
        total += count_chunk(tree, rows[part].astype(np.int64), times[part], sizes, expected)
    return total, expected


def count_chunk(
    tree: HiddenTree, rows: np.ndarray, times: np.ndarray, sizes: np.ndarray, expected: Expected
) -> float:
    """Add the posteriors of hidden states and of pairs, from the root to the leaves."""
    belief, message, value = pass_upward(tree, rows)
    weight = times.astype(np.float32)[:, None]
    posterior = list(belief)
    for v in tree.order.tolist():
        p = int(tree.parent[v])
        above = (weight if p < 0 else posterior[p]) / message[v]  # given the parent's state
        expected.transition[v][:] += (above.T @ belief[v]) * tree.transition[v]
        posterior[v] = (above @ tree.transition[v]) * belief[v]
        shown = rows[:, v, None] == np.arange(sizes[v])
        expected.emission[v][:] += posterior[v].T @ shown.astype(np.float32)
    return float(times @ value)


def step_parameters(
    tree: HiddenTree,
    expected: Expected,
    scale: float,
    step: float,
    prior: float,
    marginal: Sequence[np.ndarray],
) -> HiddenTree:
    """Move towards (scale · expected + prior · p) / total, p uniform or the variable's marginal."""

    def towards(old: np.ndarray, counts: np.ndarray, start: np.ndarray) -> np.ndarray:
        new = scale * counts + prior * start
        new /= new.sum(axis=1, keepdims=True)
        return ((1.0 - step) * old + step * new).astype(np.float32)

    uniform = [np.full(tree.num_hidden, 1.0 / tree.num_hidden)] * len(marginal)
    return tree._replace(
        transition=list(map(towards, tree.transition, expected.transition, uniform)),
        emission=list(map(towards, tree.emission, expected.emission, marginal)),
    )


def count_tree_edges(parent: np.ndarray, states: Sequence[Sequence[str]], num_hidden: int) -> int:
    """Count the edges of the circuit: three a parameter, and one for each factor of a product."""
    is_inner = np.bincount(parent[parent >= 0], minlength=len(parent)) > 0
    num_sums = (len(parent) - 1) * num_hidden + 1
    num_parameters = num_hidden * (num_sums + sum(map(len, states)))
    return 3 * num_parameters + num_hidden * (len(parent) - 1 + int(is_inner.sum()))


def as_circuit(tree: HiddenTree, names: Sequence[str], states: Sequence[Sequence[str]]) -> Circuit:
    """Return the sum over all hidden states as a circuit."""
    nodes = NodeList()
    parameters: list[np.ndarray] = []

    def add_mixtures(share: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Add Σ_j share_ij · part_j for every i; shares of 0 are left out."""
        share = share / share.sum(axis=1, keepdims=True, dtype=np.float64)
        row, column = np.nonzero(share)
        first = sum(map(len, parameters))
        parameters.append(np.log(share[row, column]))
        weights = nodes.add_leaves(PARAMETER, np.arange(first, first + len(row)))
        products = nodes.add_weighted(weights, parts[column])
        return nodes.add(SUM, -1, np.bincount(row, minlength=len(share)), products)

    first = state_starts(states)
    indicator = nodes.add_leaves(INDICATOR, np.arange(first[-1]))
    parts: list[list[np.ndarray]] = [[] for _ in names]  # messages of the children
    for v in tree.order[::-1].tolist():
        own = add_mixtures(tree.emission[v], indicator[first[v] : first[v + 1]])
        if parts[v]:
            factors = np.stack([own, *parts[v]], axis=1)
            own = nodes.add(PRODUCT, -1, np.full(len(own), factors.shape[1]), factors)
        own = add_mixtures(tree.transition[v], own)
        if tree.parent[v] >= 0:
            parts[int(tree.parent[v])].append(own)
    return nodes.finish(names, states, np.concatenate(parameters), Properties(True, True, False))


CHOW_LIU_CHUNK = 8192  # rows that are counted together


def one_hot(rows: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float32[num_rows, num_states], 1 for the state of each variable that is not missing."""
    first = state_starts(states)
    found = np.zeros((len(rows), first[-1]), np.float32)
    at, variable = np.nonzero(rows >= 0)
    found[at, first[variable] + rows[at, variable]] = 1.0
    return found


def pair_counts(data: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_states, num_states], the number of rows with both states."""
    num_states = int(state_starts(states)[-1])
    found = np.zeros((num_states, num_states))
    for first in range(0, len(data), CHOW_LIU_CHUNK):
        part = one_hot(data[first : first + CHOW_LIU_CHUNK], states)
        found += part.T @ part
    return found


def mutual_information(counts: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_variables, num_variables], mutual information, from rows with both variables."""
    first = state_starts(states)[:-1]
    size = np.array([len(own) for own in states])
    joint = counts + 0.1 / np.outer(np.repeat(size, size), np.repeat(size, size))
    rows = np.add.reduceat(joint, first, axis=1)  # state × variable
    total = np.repeat(np.repeat(np.add.reduceat(rows, first, axis=0), size, 0), size, 1)
    expected = np.repeat(rows, size, axis=1) * np.repeat(rows, size, axis=1).T / total
    parts = joint / total * np.log(joint / expected)
    return np.asarray(np.add.reduceat(np.add.reduceat(parts, first, axis=0), first, axis=1))


def spanning_tree(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the heaviest spanning tree: nodes from its centre outwards, and their parents."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree, shortest_path

    most = float(weight.max(initial=0.0)) + 1.0
    tree = minimum_spanning_tree(csr_matrix(np.triu(most - weight, 1)))
    distance = shortest_path(tree, directed=False, unweighted=True)
    root = int(np.argmin(distance.max(axis=1)))
    order, parent = breadth_first_order(tree, root, directed=False)
    return order.astype(np.int64), np.where(parent < 0, -1, parent).astype(np.int64)
