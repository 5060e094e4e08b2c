"""The sweeps over a circuit, whatever its values are made of.

Values are arrays over combinations of counting indices (`frames`). The forward sweep writes a tape
of the operations done; the backward sweep reads it in reverse, each operation turning the
derivative of log Z with respect to its result into those of its arguments. So all derivatives cost
about as much as Z. `floats` has values (log, sign) of a fixed precision, `balls` has balls of any.

A sum is evaluated once for each combination of the sizes it depends on, not for each combination
of indices around it: where sizes are equal more than twice as often as they differ, values are
computed for the different ones and gathered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from lapis.lifted.compilation.circuit import (
    CallNode,
    CountNode,
    FactorNode,
    GroundingNode,
    GuardNode,
    NeverNode,
    Node,
    PairsNode,
    PowerNode,
    ProductNode,
    RecursionNode,
    RestNode,
    SumNode,
)
from lapis.lifted.compilation.theory import Region, Size, fewer
from lapis.lifted.evaluation.frames import (
    WHOLE,
    Frame,
    Number,
    free_regions,
    innermost,
    number_at,
    spread,
)

SHARED = 2  # index combinations for each combination of sizes, for values to be gathered
Numbers = Mapping[Region, Number]


class Framed(Protocol):
    @property
    def frame(self) -> Frame: ...


V = TypeVar("V", bound=Framed)


@dataclass(frozen=True)
class Weights:
    """What a circuit is evaluated at."""

    value: np.ndarray  # float64[num_weights], or complex128
    literals: Mapping[str, tuple[float, float]]  # of a true and a false atom; absent: 1 and 1

    def of(self, predicate: str) -> tuple[float, float]:
        return self.literals.get(predicate, (1.0, 1.0))


class CircuitWalk(ABC, Generic[V]):
    """One evaluation of a circuit."""

    def __init__(self, weights: Weights, dtype: np.dtype) -> None:
        self.weights = weights
        self.number_type = dtype  # of sizes
        self.tape: list[Callable[[], None]] = []
        self.known: dict[tuple[int, tuple[int, ...]], V] = {}  # recursions at sizes

    @abstractmethod
    def factor(self, node: FactorNode, sizes: Numbers) -> V: ...
    @abstractmethod
    def product(self, parts: Sequence[V]) -> V: ...
    @abstractmethod
    def sum(self, parts: Sequence[V], signs: Sequence[int]) -> V: ...
    @abstractmethod
    def power(self, part: V, exponent: Number) -> V: ...
    @abstractmethod
    def add_choices(self, part: V, whole: np.ndarray, number: Number) -> V:
        """Σ (whole choose number) part, in the parent of the number's frame."""

    @abstractmethod
    def choose(self, is_met: Number, met: V, unmet: V) -> V: ...
    @abstractmethod
    def gather(self, values: Sequence[V], where: np.ndarray, frame: Frame) -> V:
        """The entries of values, put in a row, that int64[frame.size] says."""

    @abstractmethod
    def indicator(self, holds: Number) -> V:
        """One where it holds, zero elsewhere."""

    def at(self, root: Node, sizes: Mapping[Region, int]) -> V:
        """The value of a circuit, an array of one entry."""
        return self.value(root, {r: self.constant(size) for r, size in sizes.items()})

    def constant(self, size: int) -> Number:
        return Number(WHOLE, np.array([size]).astype(self.number_type))

    def value(self, node: Node, sizes: Numbers) -> V:
        match node:
            case FactorNode():
                return self.factor(node, sizes)
            case ProductNode(parts):
                return self.product([self.value(part, sizes) for part in parts])
            case SumNode(parts, signs):
                return self.sum([self.value(part, sizes) for part in parts], signs)
            case PowerNode(part, exponent):
                return self.power(self.value(part, sizes), number_at(exponent, sizes))
            case CountNode():
                return self.count(node, sizes)
            case GroundingNode(part):
                return self.value(part, sizes)
            case RestNode(part, region, rest, taken):
                own = sizes[region]
                left = Number(own.frame, fewer(own.value, taken))
                return self.value(part, {**sizes, rest: left})
            case PairsNode(part, one, other, pairs):
                product = number_at(Size(((one, 0), (other, 0))), sizes)
                return self.value(part, {**sizes, pairs: product})
            case GuardNode((region, least), met, unmet):
                own = sizes[region]
                is_met = np.asarray(own.value >= least, bool)
                if is_met.all():
                    return self.value(met, sizes)
                if not is_met.any():
                    return self.value(unmet, sizes)
                both = self.value(met, sizes), self.value(unmet, sizes)
                return self.choose(Number(own.frame, is_met), *both)
            case NeverNode(needs):
                return self.indicator(holds_nowhere(needs, sizes))
            case RecursionNode():
                return self.recursion(node, sizes)
            case CallNode(inner, names):
                return self.value(inner, {own: sizes[ours] for own, ours in names})
        raise AssertionError(node)

    def count(self, node: CountNode, sizes: Numbers) -> V:
        """Σ_m over how many elements of a region have a property."""
        own = {region: sizes[region] for region in sorted(free_regions(node))}
        frame = innermost(number.frame for number in own.values())
        rows = {r: spread(n.value, n.frame, frame) for r, n in own.items()}
        first, where = different_rows(list(rows.values()), frame)
        if SHARED * len(first) > frame.size:
            return self.count_in(node, own, frame)
        base = Frame(len(first))
        picked = {r: Number(base, row if len(row) == 1 else row[first]) for r, row in rows.items()}
        return self.gather([self.count_in(node, picked, base)], where, frame)

    def count_in(self, node: CountNode, sizes: Numbers, frame: Frame) -> V:
        own = sizes[node.region]
        whole = np.broadcast_to(spread(own.value, own.frame, frame), (frame.size,))
        inner = frame.branch(whole.astype(np.int64) + 1)
        assert inner.start is not None
        place = np.arange(inner.size) - spread(inner.start, frame, inner)
        return self.count_row(node, sizes, whole, Number(inner, place.astype(self.number_type)))

    def count_row(self, node: CountNode, sizes: Numbers, whole: np.ndarray, number: Number) -> V:
        """The sum over the numbers listed, which extend the frame of `whole`."""
        inner = number.frame
        assert inner.parent is not None
        rest = spread(whole, inner.parent, inner) - number.value
        split = {node.plus: number, node.minus: Number(inner, rest)}
        return self.add_choices(self.value(node.part, {**sizes, **split}), whole, number)

    def recursion(self, node: RecursionNode, sizes: Numbers) -> V:
        """Each combination of sizes once, whoever asks for it."""
        own = [sizes[region] for region in node.regions]
        frame = innermost(number.frame for number in own)
        rows = [spread(n.value, n.frame, frame) for n in own]
        first, where = different_rows(rows, frame)
        chosen = [[int(row[0 if len(row) == 1 else place]) for row in rows] for place in first]
        values = [self.at_sizes(node, tuple(row)) for row in chosen]
        return self.gather(values, where, frame)

    def at_sizes(self, node: RecursionNode, row: tuple[int, ...]) -> V:
        """From small sizes to large, so that a call finds its value and the stack stays flat."""
        assert node.part is not None
        shrinking = node.regions.index(node.region)
        for size in range(row[shrinking] + 1):
            smaller = (*row[:shrinking], size, *row[shrinking + 1 :])
            if (id(node), smaller) not in self.known:
                found = self.at(node.part, dict(zip(node.regions, smaller, strict=True)))
                self.known[id(node), smaller] = found
        return self.known[id(node), row]

    def sweep_back(self) -> None:
        for back in reversed(self.tape):
            back()


def holds_nowhere(needs: frozenset[tuple[Region, int]], sizes: Numbers) -> Number:
    """Where not all needs are met."""
    frame = innermost(sizes[region].frame for region, _ in needs)
    all_met: np.ndarray = np.ones(1, bool)
    for region, least in needs:
        own = sizes[region]
        all_met = all_met & np.asarray(spread(own.value, own.frame, frame) >= least, bool)
    return Number(frame, ~all_met)


def different_rows(columns: Sequence[np.ndarray], frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_different] and int64[frame.size]: where rows occur first, and which each one is."""
    key = np.zeros(frame.size, np.int64)
    most = 1
    for column in columns:
        if len(column) > 1:
            whole = column.astype(np.int64)
            key = key * (int(whole.max()) + 1) + whole
            most *= int(whole.max()) + 1
    if most >= 1 << 62:  # the key would overflow
        return np.arange(frame.size), np.arange(frame.size)
    _, first, where = np.unique(key, return_index=True, return_inverse=True)
    return first, where.ravel()
