"""Random circuits, and the tables of the functions that they compute."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, Circuit, new_circuit


class Builder:
    """Builder of circuits; each method returns a node and its table over `sizes`."""

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        self.sizes, self.rng = sizes, rng
        self.kind: list[int] = []
        self.leaf: list[int] = []
        self.start, self.child = [0], list[int]()
        self.parameters: list[float] = []
        first = np.cumsum([0, *sizes])
        self.indicator = [
            [self.add(INDICATOR, int(first[v]) + s) for s in range(size)]
            for v, size in enumerate(sizes)
        ]

    def add(self, kind: int, leaf: int = -1, children: Sequence[int] = ()) -> int:
        self.kind.append(kind)
        self.leaf.append(leaf)
        self.child += children
        self.start.append(len(self.child))
        return len(self.kind) - 1

    def parameter(self) -> tuple[int, float]:
        value = 0.0 if self.rng.random() < 0.1 else float(self.rng.random())
        self.parameters.append(value)
        return self.add(PARAMETER, len(self.parameters) - 1), value

    def build(self, variables: list[int]) -> tuple[int, np.ndarray]:
        """Build a circuit over some variables: independent halves, or cases of one of them."""
        if len(variables) > 1 and self.rng.random() < 0.4:
            cut = int(self.rng.integers(1, len(variables)))
            left, one = self.build(variables[:cut])
            right, other = self.build(variables[cut:])
            return self.add(PRODUCT, children=[left, right]), one * other
        v, rest = variables[0], variables[1:]
        cases, table = [], np.zeros(self.sizes)
        shared = self.build(rest) if rest and self.rng.random() < 0.3 else None
        for s in range(self.sizes[v]):
            node, value = self.parameter()
            below = shared or (self.build(rest) if rest else None)
            here = np.zeros(self.sizes)
            here[(slice(None),) * v + (s,)] = value
            table += here if below is None else here * below[1]
            children = [self.indicator[v][s], node] + ([] if below is None else [below[0]])
            cases.append(self.add(PRODUCT, children=children))
        return self.add(SUM, children=cases), table

    def finish(self) -> Circuit:
        with np.errstate(divide="ignore"):
            log_parameter = np.log(self.parameters)
        return new_circuit(
            [f"x{v}" for v in range(len(self.sizes))],
            [[f"s{s}" for s in range(size)] for size in self.sizes],
            *map(np.array, (self.kind, self.leaf, self.start, self.child)),
            log_parameter=log_parameter,
        )


def random_circuit(seed: int) -> tuple[Circuit, np.ndarray]:
    """Return a circuit of up to four variables with a possible world, and its table."""
    rng = np.random.default_rng(seed)
    while True:
        sizes = tuple(int(n) for n in rng.integers(2, 4, rng.integers(1, 5)))
        builder = Builder(sizes, rng)
        _, table = builder.build([int(v) for v in rng.permutation(len(sizes))])
        if table.sum() > 0:
            return builder.finish(), table


def partial_rows(sizes: Sequence[int]) -> np.ndarray:
    """Return every row of evidence, -1 for missing."""
    return np.array(list(itertools.product(*(range(-1, size) for size in sizes))), np.int32)


def restrict(table: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Set the table to 0 where a world contradicts the row."""
    agrees = np.ones(table.shape, bool)
    for axis, state in enumerate(row):
        if state >= 0:
            shape = [1] * table.ndim
            shape[axis] = -1
            agrees &= (np.arange(table.shape[axis]) == state).reshape(shape)
    return np.where(agrees, table, 0.0)
