"""The sweeps over a circuit, whatever its values are made of.

Values are arrays over the counting indices, one axis for each `Count` on the way from the root.
The forward sweep writes a tape of the operations done; the backward sweep reads it in reverse, each
operation turning the derivative of log Z with respect to its result into those of its arguments. So
all derivatives cost about as much as Z. `floats` has values (log, sign) of a fixed precision,
`balls` has balls of any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lapis.lifted.compilation.circuit import (
    Call,
    Count,
    Factor,
    Grounding,
    Guard,
    Never,
    Node,
    Power,
    Product,
    Recursion,
    Rest,
    Sum,
)
from lapis.lifted.compilation.regions import Region, Sizes, fewer

V = TypeVar("V")


@dataclass(frozen=True)
class Weights:
    """What a circuit is evaluated at."""

    value: np.ndarray  # float64[num_weights], or complex128
    literals: Mapping[str, tuple[float, float]]  # of a true and a false atom; absent: 1 and 1

    def of(self, predicate: str) -> tuple[float, float]:
        return self.literals.get(predicate, (1.0, 1.0))


class Walk(ABC, Generic[V]):
    """One evaluation of a circuit."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.tape: list[Callable[[], None]] = []
        self.known: dict[tuple[int, tuple[int, ...]], V] = {}  # recursions at sizes

    @abstractmethod
    def factor(self, node: Factor, sizes: Sizes) -> V: ...
    @abstractmethod
    def product(self, parts: Sequence[V]) -> V: ...
    @abstractmethod
    def sum(self, parts: Sequence[V], signs: Sequence[int]) -> V: ...
    @abstractmethod
    def power(self, part: V, exponent: np.ndarray) -> V: ...
    @abstractmethod
    def count(self, node: Count, sizes: Sizes) -> V: ...
    @abstractmethod
    def choose(self, is_met: np.ndarray, met: V, unmet: V) -> V: ...
    @abstractmethod
    def gather(self, values: Sequence[V], where: np.ndarray) -> V:
        """An array of scalar values, int64[...] saying which stands where."""

    @abstractmethod
    def indicator(self, holds: np.ndarray) -> V:
        """One where it holds, zero elsewhere."""

    def value(self, node: Node, sizes: Sizes) -> V:
        match node:
            case Factor():
                return self.factor(node, sizes)
            case Product(parts):
                return self.product([self.value(part, sizes) for part in parts])
            case Sum(parts, signs):
                return self.sum([self.value(part, sizes) for part in parts], signs)
            case Power(part, exponent):
                return self.power(self.value(part, sizes), exponent.at(sizes))
            case Count():
                return self.count(node, sizes)
            case Grounding(part):
                return self.value(part, sizes)
            case Rest(part, region, rest, taken):
                return self.value(part, {**sizes, rest: fewer(sizes[region], taken)})
            case Guard((region, least), met, unmet):
                is_met = np.asarray(sizes[region] >= least, bool)
                if is_met.all():
                    return self.value(met, sizes)
                if not is_met.any():
                    return self.value(unmet, sizes)
                return self.choose(is_met, self.value(met, sizes), self.value(unmet, sizes))
            case Never(needs):
                all_met: np.ndarray = np.ones((), bool)
                for region, least in needs:
                    all_met = all_met & np.asarray(sizes[region] >= least, bool)
                return self.indicator(~all_met)
            case Recursion():
                return self.recursion(node, sizes)
            case Call(inner, names):
                return self.value(inner, {own: sizes[ours] for own, ours in names})
        raise AssertionError(node)

    def recursion(self, node: Recursion, sizes: Sizes) -> V:
        """Each combination of sizes once, whoever asks for it."""
        own = np.broadcast_arrays(*(np.asarray(sizes[region]) for region in node.regions))
        place: dict[tuple[int, ...], int] = {}
        rows = [tuple(map(int, row)) for row in zip(*(x.ravel() for x in own), strict=True)]
        where = np.array([place.setdefault(row, len(place)) for row in rows], np.int64)
        values = [self.at_sizes(node, row, own[0].dtype) for row in place]
        return self.gather(values, where.reshape(own[0].shape))

    def at_sizes(self, node: Recursion, row: tuple[int, ...], dtype: np.dtype) -> V:
        """From small sizes to large, so that a call finds its value and the stack stays flat."""
        assert node.part is not None
        shrinking = node.regions.index(node.region)
        for size in range(row[shrinking] + 1):
            smaller = (*row[:shrinking], size, *row[shrinking + 1 :])
            if (id(node), smaller) not in self.known:
                own = dict(zip(node.regions, smaller, strict=True))
                found = self.value(node.part, {r: np.asarray(n, dtype) for r, n in own.items()})
                self.known[id(node), smaller] = found
        return self.known[id(node), row]

    def sweep_back(self) -> None:
        for back in reversed(self.tape):
            back()


def split(node: Count, sizes: Sizes, numbers: np.ndarray) -> dict[Region, np.ndarray]:
    """Sizes below a `Count`, with a new last axis for m: as many elements are in its `plus`."""
    whole = np.asarray(sizes[node.region])[..., None]
    inner = {region: np.asarray(size)[..., None] for region, size in sizes.items()}
    inner[node.plus] = np.minimum(numbers, whole)
    inner[node.minus] = np.maximum(whole - numbers, 0)
    return inner


def reduce_to(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the axes along which a value of this shape was broadcast."""
    extra = array.ndim - len(shape)
    array = array.sum(axis=tuple(range(extra))) if extra else array
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and array.shape[i] != 1)
    return array.sum(axis=ones, keepdims=True) if ones else array
