"""Transitivity: probabilities and clusters of records whose pairs are not independent.

Same(x, y) and Same(y, z) imply Same(x, z). So a world is a partition of the records, with

    P(partition) ∝ exp(Σ of the log-odds of the pairs within its blocks).

Records fall into components: those that pairs with a probability of at least `min_probability`
connect. A component of at most `MAX_EXACT` records is solved exactly, by all its partitions: Bell
numbers, 877 for 7 records. All components of one size are one product of matrices. In a larger
component pairs keep their own probabilities, and its most likely partition is approximated: joining
the two blocks with the largest sum of log-odds while there is a positive one (greedy additive edge
contraction; Keuper et al. 2015), then moving single records while that gains.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from lapis.runtime.progress import check_time

MAX_EXACT = 7
CHUNK = 2000  # components at a time
MAX_ROUNDS = 20  # of moving single records
FORBIDDEN = -1e6  # log-odds of a pair that cannot be the same


@dataclass(frozen=True)
class JointSolution:
    """Clusters of records, and probabilities of pairs, under transitivity."""

    probability: np.ndarray  # float64[num_pairs]
    cluster: np.ndarray  # int64[num_records]
    component: np.ndarray  # int64[num_records]
    size: np.ndarray  # int64[num_components]
    num_exact: int  # components of three and more records that were solved exactly
    num_greedy: int  # components that were not

    def is_joint(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return which pairs are within a component of three or more that was solved exactly."""
        own = self.component[left]
        size = self.size[own]
        inside: np.ndarray = (own == self.component[right]) & (size >= 3) & (size <= MAX_EXACT)
        return inside


def sigmoid(log_odds: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.exp(-np.logaddexp(0.0, -log_odds))
    return found


def find_components(num_records: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return int64[num_records], the component of each record that pairs connect."""
    graph = coo_matrix((np.ones(len(left), np.int8), (left, right)), (num_records, num_records))
    return connected_components(graph, directed=False)[1].astype(np.int64)


@cache
def partitions_of(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all partitions of `size` records: the block of each, and which pairs are together.

    >>> blocks, together = partitions_of(3)
    >>> blocks.tolist(), together[:, 0].tolist()
    ([[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]], [1.0, 1.0, 0.0, 0.0, 0.0])
    """
    found = [[0]]
    for _ in range(size - 1):
        found = [[*blocks, new] for blocks in found for new in range(max(blocks) + 2)]
    blocks = np.array(found)
    one, other = np.triu_indices(size, 1)
    return blocks, (blocks[:, one] == blocks[:, other]).astype(np.float64)


def solve_jointly(
    num_records: int,
    left: np.ndarray,
    right: np.ndarray,
    log_odds: np.ndarray,
    component: np.ndarray,
    missing: float,
) -> JointSolution:
    """Solve all components; `missing` is the log-odds of pairs that are not listed."""
    size = np.bincount(component, minlength=1)
    probability = sigmoid(log_odds)
    order = np.argsort(component, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    place = np.empty(num_records, np.int64)
    place[order] = np.arange(num_records) - start[component[order]]
    cluster = np.arange(num_records)
    inside = np.flatnonzero(component[left] == component[right])
    for records in range(2, MAX_EXACT + 1):
        chosen = np.flatnonzero(size == records)
        if not len(chosen):
            continue
        check_time("clustering")
        number = np.full(len(size), -1)
        number[chosen] = np.arange(len(chosen))
        pairs = inside[number[component[left[inside]]] >= 0]
        own = number[component[left[pairs]]]
        weights = np.full((len(chosen), records, records), missing)
        weights[own, place[left[pairs]], place[right[pairs]]] = log_odds[pairs]
        weights[own, place[right[pairs]], place[left[pairs]]] = log_odds[pairs]
        together, best = solve_exactly(weights)
        if records > 2:
            probability[pairs] = together[own, place[left[pairs]], place[right[pairs]]]
        rows = order[start[chosen][:, None] + np.arange(records)]
        cluster[rows] = np.take_along_axis(rows, best, axis=1)
    large = size[component] > MAX_EXACT
    if large.any():
        pairs = inside[large[left[inside]]]
        cluster = contract(cluster, large, left[pairs], right[pairs], log_odds[pairs], missing)
    return JointSolution(
        probability,
        np.unique(cluster, return_inverse=True)[1].astype(np.int64),
        component,
        size,
        int(((size >= 3) & (size <= MAX_EXACT)).sum()),
        int((size > MAX_EXACT).sum()),
    )


def solve_exactly(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of pairs, and in the best partition each record's first fellow.

    `weights` is float64[num_components, size, size].
    """
    size = weights.shape[1]
    blocks, indicator = partitions_of(size)
    one, other = np.triu_indices(size, 1)
    first = np.array([[row.tolist().index(block) for block in row] for row in blocks])
    together = np.zeros_like(weights)
    best = np.empty(weights.shape[:2], np.int64)
    for begin in range(0, len(weights), CHUNK):
        part = slice(begin, begin + CHUNK)
        score = weights[part][:, one, other] @ indicator.T
        best[part] = first[score.argmax(axis=1)]
        score -= score.max(axis=1, keepdims=True)
        share = np.exp(score)
        share /= share.sum(axis=1, keepdims=True)
        found = share @ indicator
        together[part, one, other] = found
        together[part, other, one] = found
    return np.clip(together, 0.0, 1.0), best


class BlockGraph:
    """Blocks of records with the sums of the log-odds between them."""

    def __init__(
        self, left: list[int], right: list[int], weight: list[float], missing: float
    ) -> None:
        self.missing = missing
        self.between: dict[int, dict[int, list[float]]] = {}  # sum and number of listed pairs
        for one, other, log_odds in zip(left, right, weight, strict=True):
            entry = [log_odds, 1.0]
            self.between.setdefault(one, {})[other] = entry
            self.between.setdefault(other, {})[one] = entry
        self.members = {record: [record] for record in self.between}

    def gain(self, one: int, other: int) -> float:
        """Return what joining two blocks adds to the score."""
        total, listed = self.between[one][other]
        unlisted = len(self.members[one]) * len(self.members[other]) - listed
        return total + (self.missing * unlisted if unlisted else 0.0)

    def join(self, one: int, other: int) -> int:
        """Join two blocks; return the number of the new one, that of the one with more pairs."""
        if len(self.between[one]) < len(self.between[other]):
            one, other = other, one
        del self.between[one][other]
        self.members[one] += self.members.pop(other)
        for third, entry in self.between.pop(other).items():
            if third == one:
                continue
            del self.between[third][other]
            known = self.between[one].get(third)
            if known is not None:
                entry = [known[0] + entry[0], known[1] + entry[1]]
            self.between[one][third] = self.between[third][one] = entry
        return one


def contract(
    cluster: np.ndarray,
    large: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_odds: np.ndarray,
    missing: float,
) -> np.ndarray:
    """Cluster the records of large components; the others keep their cluster."""
    graph = BlockGraph(left.tolist(), right.tolist(), log_odds.tolist(), missing)
    heap = [
        (-w, a, b)
        for w, a, b in zip(log_odds.tolist(), left.tolist(), right.tolist(), strict=True)
        if w > 0
    ]
    heapq.heapify(heap)
    while heap:
        negative, one, other = heapq.heappop(heap)
        if other not in graph.between.get(one, {}) or graph.gain(one, other) != -negative:
            continue
        joined = graph.join(one, other)
        for third in graph.between[joined]:
            gain = graph.gain(joined, third)
            if gain > 0:
                heapq.heappush(heap, (-gain, joined, third))
    found = cluster.copy()
    for block, members in graph.members.items():
        found[members] = block
    return move_records(found, large, left, right, log_odds, missing)


def move_records(
    cluster: np.ndarray,
    large: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    log_odds: np.ndarray,
    missing: float,
) -> np.ndarray:
    """Move single records to other clusters, or to one of their own, while that gains."""
    around = neighbours(left, right, log_odds)
    sizes = np.bincount(cluster, minlength=len(cluster)).tolist()
    label = cluster.tolist()
    fresh = (block for block, size in enumerate(sizes) if size == 0)
    for _ in range(MAX_ROUNDS):
        check_time("clustering")
        moved = 0
        for record, pairs in around.items():
            sums: dict[int, list[float]] = {}
            for other, weight in pairs:
                entry = sums.setdefault(label[other], [0.0, 0.0])
                entry[0] += weight
                entry[1] += 1
            own = label[record]
            scores = {
                block: total + missing * (sizes[block] - (block == own) - listed)
                for block, (total, listed) in sums.items()
            }
            stay = scores.get(own, missing * (sizes[own] - 1) if sizes[own] > 1 else 0.0)
            best = max(scores, key=lambda block: scores[block])
            target, gain = (best, scores[best]) if scores[best] > 0 else (-1, 0.0)
            if gain <= stay + 1e-9:
                continue
            if target == -1:
                target = next(fresh, -1)
                if target == -1:
                    continue
            sizes[own] -= 1
            sizes[target] += 1
            label[record] = target
            moved += 1
        if not moved:
            break
    return np.array(label)


def neighbours(
    left: np.ndarray, right: np.ndarray, log_odds: np.ndarray
) -> dict[int, list[tuple[int, float]]]:
    """Return the listed pairs of each record."""
    found: dict[int, list[tuple[int, float]]] = {}
    for one, other, weight in zip(left.tolist(), right.tolist(), log_odds.tolist(), strict=True):
        found.setdefault(one, []).append((other, weight))
        found.setdefault(other, []).append((one, weight))
    return found


def pairs_within(component: np.ndarray, max_size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the pairs of records of one component, for each size of 3 up to `max_size`."""
    size = np.bincount(component, minlength=1)
    order = np.argsort(component, kind="stable")
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    for records in np.unique(size[(size >= 3) & (size <= max_size)]).tolist():
        chosen = np.flatnonzero(size == records)
        rows = order[start[chosen][:, None] + np.arange(records)]
        one, other = np.triu_indices(records, 1)
        yield rows[:, one].ravel(), rows[:, other].ravel()
