"""Equal parts of a circuit made one, and parts that are nearly equal where held-out rows allow it.

Learning copies: SplitAC copies what depends on a split, mixtures and hidden trees learn components
side by side. Bottom up, nodes of one kind with the same children are one node, as are parameters of
one value; a sum or product of one child is that child. The function is the same.

Two weighted sums Σ_i θ_i c_i over the same c, whose weights differ by at most a tolerance each, can
share the weights of the first as well. That is another distribution, of fewer parameters; the
largest of several tolerances is taken at which held-out rows are not less likely than before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, Circuit, new_circuit
from lapis.circuits.evaluation import log_values

TOLERANCES = (0.05, 0.02, 0.01, 0.005)
NORMALISED = 1e-9  # how far the weights of a sum may be from 1 in total

Key = tuple[int, ...]


def merge_nodes(circuit: Circuit, tolerance: float = 0.0) -> Circuit:
    """The circuit with equal nodes joined; with a tolerance, also sums with close weights."""
    made = _Nodes(tolerance)
    number = np.empty(circuit.num_nodes, np.int64)
    start = circuit.start.tolist()
    for node, (kind, leaf) in enumerate(
        zip(circuit.kind.tolist(), circuit.leaf.tolist(), strict=True)
    ):
        if kind == INDICATOR:
            number[node] = made.leaf(INDICATOR, leaf)
        elif kind == PARAMETER:
            number[node] = made.parameter(float(circuit.log_parameter[leaf]))
        else:
            below = number[circuit.child[start[node] : start[node + 1]]].tolist()
            number[node] = made.inner(kind, tuple(sorted(below)))
    return made.finish(circuit, int(number[-1]))


def merge_close(circuit: Circuit, valid: np.ndarray) -> Circuit:
    """The smallest of several circuits that make held-out rows no less likely than the first."""
    best = merge_nodes(circuit)
    rows, times = np.unique(valid, axis=0, return_counts=True)
    least = times @ log_values(best, rows)
    for tolerance in TOLERANCES:
        merged = merge_nodes(circuit, tolerance)
        if merged.num_edges < best.num_edges and times @ log_values(merged, rows) >= least:
            return merged
    return best


class _Nodes:
    """Nodes made so far, each once."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.kind: list[int] = []
        self.leaf_number: list[int] = []
        self.children: list[Key] = []
        self.log_parameter: list[float] = []
        self.known: dict[tuple[int, Key], int] = {}
        self.of_value: dict[float, int] = {}
        self.sums: dict[tuple[Key, ...], list[tuple[list[float], int]]] = {}

    def add(self, kind: int, leaf: int, children: Key) -> int:
        self.kind.append(kind)
        self.leaf_number.append(leaf)
        self.children.append(children)
        return len(self.kind) - 1

    def leaf(self, kind: int, leaf: int) -> int:
        key = kind, (leaf,)
        if key not in self.known:
            self.known[key] = self.add(kind, leaf, ())
        return self.known[key]

    def parameter(self, log_value: float) -> int:
        if log_value not in self.of_value:
            self.log_parameter.append(log_value)
            self.of_value[log_value] = self.add(PARAMETER, len(self.log_parameter) - 1, ())
        return self.of_value[log_value]

    def inner(self, kind: int, children: Key) -> int:
        if len(children) == 1:
            return children[0]
        key = kind, children
        if key in self.known:
            return self.known[key]
        found = self.close_sum(children) if kind == SUM and self.tolerance else None
        if found is None:
            found = self.add(kind, -1, children)
            if kind == SUM and self.tolerance:
                self.keep_sum(children, found)
        self.known[key] = found
        return found

    def weights(self, children: Sequence[int]) -> tuple[tuple[Key, ...], list[float]] | None:
        """The parts of a sum without their weights, in order, and these; None if it has others."""
        parts: list[tuple[Key, float]] = []
        for child in children:
            below = self.children[child]
            own = [c for c in below if self.kind[c] == PARAMETER]
            if self.kind[child] != PRODUCT or len(own) != 1:
                return None
            chance = math.exp(self.log_parameter[self.leaf_number[own[0]]])
            parts.append((tuple(c for c in below if c != own[0]), chance))
        parts.sort()
        weight = [chance for _, chance in parts]
        if abs(sum(weight) - 1.0) > NORMALISED:
            return None
        return tuple(part for part, _ in parts), weight

    def close_sum(self, children: Key) -> int | None:
        found = self.weights(children)
        if found is not None:
            for weight, node in self.sums.get(found[0], ()):
                if all(abs(a - b) <= self.tolerance for a, b in zip(weight, found[1], strict=True)):
                    return node
        return None

    def keep_sum(self, children: Key, node: int) -> None:
        found = self.weights(children)
        if found is not None:
            self.sums.setdefault(found[0], []).append((found[1], node))

    def finish(self, circuit: Circuit, root: int) -> Circuit:
        """What is below the root, as a circuit."""
        used = np.zeros(root + 1, bool)
        used[root] = True
        for node in range(root, -1, -1):
            if used[node]:
                used[list(self.children[node])] = True
        kept = np.flatnonzero(used).tolist()
        number = np.cumsum(used) - 1
        parameters = [n for n in kept if self.kind[n] == PARAMETER]
        place = {node: at for at, node in enumerate(parameters)}
        children = [number[list(self.children[n])] for n in kept]
        values = [self.log_parameter[self.leaf_number[n]] for n in parameters]
        return new_circuit(
            circuit.names, circuit.states, np.array([self.kind[n] for n in kept]),
            np.array([place.get(n, self.leaf_number[n]) for n in kept]),
            np.cumsum([0, *map(len, children)]),
            np.concatenate([*children, np.empty(0, np.int64)]), np.array(values),
            circuit.properties,
        )  # fmt: skip
