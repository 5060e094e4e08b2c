"""Forward and backward sweeps over a circuit, for any kind of values.

A sum over m = 0 … size(region) lists m once for each combination of the indices of the sums around
it. A `Frame` is such a list: each of its combinations extends one of its parent's, and those of one
parent are consecutive. Two nested sums over the parts of n elements have (n + 2 choose 2)
combinations, while a table with an axis for each sum would have (n + 1)². A number that depends on
outer indices only is stored in their frame, and spread to an inner one where the two meet.

The forward sweep records its operations on a tape. The backward sweep reads the tape in reverse:
each operation turns the derivative of log Z with respect to its result into those of its arguments.
So all derivatives cost about as much as Z. `floats` has values (log, sign) of a fixed precision,
`balls` has balls of any precision.

A sum is evaluated once for each combination of the sizes that it depends on. If there are fewer
than half as many of these as combinations of indices, values are computed for them and gathered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import comb, prod
from typing import Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from lapis.lifted.compilation.lifted_circuit import (
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
    child_nodes,
)
from lapis.lifted.compilation.theory import Region, Size, subtract_size

MAX_PROFILES = 64  # of nested sums that are compared with each other


@dataclass(frozen=True, eq=False)
class Frame:
    """A list of combinations of indices."""

    size: int
    parent: Frame | None = None
    start: np.ndarray | None = None  # int64[parent.size], the first combination of each parent's
    depth: int = 0
    known: dict[int, np.ndarray] = field(default_factory=dict)  # by depth: see `index_in`

    @cached_property
    def parent_of(self) -> np.ndarray:
        """int64[size], the parent's combination that each one extends."""
        assert self.parent is not None
        assert self.start is not None
        lengths = np.diff(self.start, append=self.size)
        return np.repeat(np.arange(self.parent.size), lengths)

    def branch(self, lengths: np.ndarray) -> Frame:
        """Return a frame that repeats each combination a number of times, at least once."""
        ends = np.cumsum(lengths)
        return Frame(int(ends[-1]), self, ends - lengths, self.depth + 1)

    def index_in(self, outer: Frame) -> np.ndarray:
        """Return int64[size], the combination of an outer frame that each one extends."""
        assert self.parent is not None
        if self.parent is outer:
            return self.parent_of
        if outer.depth not in self.known:
            self.known[outer.depth] = self.parent.index_in(outer)[self.parent_of]
        return self.known[outer.depth]


WHOLE = Frame(1)  # outside all sums


class FrameNumber(NamedTuple):
    """An integer for each combination of a frame."""

    frame: Frame
    value: np.ndarray  # [frame.size], in the dtype of the evaluation


def innermost_frame(frames: Iterable[Frame]) -> Frame:
    """Return the innermost of nested frames."""
    return max(frames, key=lambda frame: (frame.depth, frame.size), default=WHOLE)


def spread_to_frame(array: np.ndarray, own: Frame, frame: Frame) -> np.ndarray:
    """Spread an array over a frame to an inner one; arrays of one entry stay, they broadcast."""
    if own is frame or len(array) == 1:
        return array
    return np.asarray(array[frame.index_in(own)])


def add_within(array: np.ndarray, frame: Frame, own: Frame, length: int) -> np.ndarray:
    """Sum over the combinations that extend the same one of an outer frame."""
    array = np.broadcast_to(array, (frame.size,))
    if length == 1:
        return np.asarray(array.sum()).reshape(1)
    while frame is not own:
        assert frame.parent is not None
        assert frame.start is not None
        array, frame = np.add.reduceat(array, frame.start), frame.parent
    return array


def number_at(size: Size, sizes: Mapping[Region, FrameNumber]) -> FrameNumber:
    own = [(region, sizes[region]) for region, _ in size.factors]
    frame = innermost_frame(number.frame for _, number in own)
    value = np.asarray(size.at({r: spread_to_frame(n.value, n.frame, frame) for r, n in own}))
    return FrameNumber(frame, value if value.ndim else value.reshape(1))


def free_regions(node: Node) -> frozenset[Region]:
    """Return the regions whose sizes the value of a node depends on."""
    found = FREE.get(node)
    if found is None:
        found = FREE[node] = find_free_regions(node)
    return found


def find_free_regions(node: Node) -> frozenset[Region]:
    below = frozenset[Region]().union(*map(free_regions, own_children(node)))
    match node:
        case FactorNode(exponent, literals, free):
            sizes = [size for _, size in (*exponent, *free)] + [size for *_, size in literals]
            return frozenset(region for size in sizes for region, _ in size.factors)
        case PowerNode(_, exponent):
            return below | {region for region, _ in exponent.factors}
        case CountNode(_, region, plus, minus):
            return (below - {plus, minus}) | {region}
        case RestNode(_, region, rest):
            return (below - {rest}) | {region}
        case PairsNode(_, one, other, pairs):
            return (below - {pairs}) | ({one, other} if pairs in below else set())
        case GuardNode((region, _)):
            return below | {region}
        case NeverNode(needs):
            return frozenset(region for region, _ in needs)
        case RecursionNode(regions):
            return frozenset(regions)
        case CallNode(inner, names):
            own = free_regions(inner)
            return frozenset(ours for name, ours in names if name in own)
        case _:
            return below


def own_children(node: Node) -> tuple[Node, ...]:
    """Return the children, none for a recursion, whose circuit refers to itself."""
    return () if isinstance(node, RecursionNode) else child_nodes(node)


FREE: WeakKeyDictionary[Node, frozenset[Region]] = WeakKeyDictionary()


Sums = frozenset[tuple[tuple[Region, ...], int]]


class Profile(NamedTuple):
    """Nested sums on a path through a circuit, each of which depends on the outer ones."""

    sums: Sums  # their number by region, or by product of regions, whose parts are summed over
    regions: frozenset[Region]  # whose sizes the outermost sum depends on


def profiles(node: Node) -> frozenset[Profile]:
    """Return the profiles of the paths from a node downward, without dominated ones."""
    known = PROFILES.get(node)
    if known is not None:
        return known
    match node:
        case CallNode(inner, names):
            ours = {own: (region,) for own, region in names}
            found = {rename_profile(path, ours) for path in profiles(inner)}
        case CountNode(part, region, plus, minus):
            whole = {plus: (region,), minus: (region,)}
            found = {Profile(frozenset({((region,), 1)}), free_regions(node))}
            for path in profiles(part):
                if path.regions & {plus, minus}:
                    sums = merge_sums([((region,), 1), *rename_profile(path, whole).sums])
                    found.add(Profile(sums, free_regions(node)))
                else:  # evaluated once for all m
                    found.add(path)
        case RestNode(part, region, rest):
            found = {rename_profile(path, {rest: (region,)}) for path in profiles(part)}
        case PairsNode(part, one, other, pairs):
            found = {rename_profile(path, {pairs: (one, other)}) for path in profiles(part)}
        case _:
            found = {path for child in own_children(node) for path in profiles(child)}
    PROFILES[node] = drop_dominated(found)
    return PROFILES[node]


PROFILES: WeakKeyDictionary[Node, frozenset[Profile]] = WeakKeyDictionary()


def rename_profile(path: Profile, names: Mapping[Region, tuple[Region, ...]]) -> Profile:
    """Replace some regions of a path by products of regions."""
    sums = merge_sums(
        (tuple(sorted(new for r in own for new in names.get(r, (r,)))), number)
        for own, number in path.sums
    )
    return Profile(sums, frozenset(new for r in path.regions for new in names.get(r, (r,))))


def merge_sums(sums: Iterable[tuple[tuple[Region, ...], int]]) -> Sums:
    total: dict[tuple[Region, ...], int] = {}
    for own, number in sums:
        total[own] = total.get(own, 0) + number
    return frozenset(total.items())


def drop_dominated(paths: Iterable[Profile]) -> frozenset[Profile]:
    kept: list[tuple[Profile, dict[tuple[Region, ...], int]]] = []
    for path in sorted(paths, key=lambda p: (-sum(k for _, k in p.sums), sorted(p.sums))):
        if not any(
            path.regions <= other.regions and all(most.get(r, 0) >= k for r, k in path.sums)
            for other, most in kept
        ):
            kept.append((path, dict(path.sums)))
    return frozenset(path for path, _ in kept[:MAX_PROFILES])


def count_index_states(node: Node, sizes: Mapping[Region, int]) -> int:
    """Return the largest number of index combinations of the nested sums below a node.

    k nested sums over parts of n elements have (n + k choose k).
    """
    return max(
        (
            prod(comb(prod(int(sizes[r]) for r in own) + k, k) for own, k in path.sums)
            for path in profiles(node)
        ),
        default=1,
    )


def states_within(node: Node, sizes: Mapping[Region, FrameNumber], frame: Frame) -> np.ndarray:
    """Return `count_index_states` for each combination of a frame, as float64[frame.size]."""
    found = np.ones(frame.size)
    for path in profiles(node):
        states = np.ones(frame.size)
        for own, k in path.sums:
            size = np.ones(1)
            for number in (sizes[region] for region in own):
                size = size * spread_to_frame(number.value, number.frame, frame).astype(float)
            for step in range(1, k + 1):
                states = states * ((size + step) / step)
        found = np.maximum(found, states)
    return found


def cut_ranges(states: np.ndarray, most: int) -> Sequence[tuple[int, int]]:
    """Return ranges whose states add up to at most a limit, or have a single entry."""
    total = np.cumsum(states)
    ends = [0]
    while ends[-1] < len(states):
        before = total[ends[-1] - 1] if ends[-1] else 0.0
        fits = int(np.searchsorted(total, before + most, side="right"))
        ends.append(max(ends[-1] + 1, fits))
    return list(pairwise(ends))


SHARED = 2  # index combinations for each combination of sizes, from which values are gathered
FrameSizes = Mapping[Region, FrameNumber]


class SweepValue(Protocol):
    frame: Frame
    slope: np.ndarray  # the derivative of the result, after the backward sweep

    def add_slope(self, slope: np.ndarray, frame: Frame) -> None: ...


V = TypeVar("V", bound=SweepValue)


@dataclass(frozen=True)
class Weights:
    """The weights at which a circuit is evaluated."""

    value: np.ndarray  # float64[num_weights], or complex128
    literals: Mapping[str, tuple[float, float]]  # of a true and a false atom; absent: 1 and 1

    def of(self, predicate: str) -> tuple[float, float]:
        return self.literals.get(predicate, (1.0, 1.0))


class CircuitSweep(ABC, Generic[V]):
    """One evaluation of a circuit."""

    zero: np.ndarray  # [1], of slopes

    def __init__(self, weights: Weights, dtype: np.dtype) -> None:
        self.weights = weights
        self.number_type = dtype  # of sizes
        self.tape: list[Callable[[], None]] = []
        self.known: dict[tuple[int, tuple[int, ...]], V] = {}  # recursions at sizes

    @abstractmethod
    def factor(self, node: FactorNode, sizes: FrameSizes) -> V: ...
    @abstractmethod
    def product(self, parts: Sequence[V]) -> V: ...
    @abstractmethod
    def sum(self, parts: Sequence[V], signs: Sequence[int]) -> V: ...
    @abstractmethod
    def power(self, part: V, exponent: FrameNumber) -> V: ...
    @abstractmethod
    def add_choices(self, part: V, whole: np.ndarray, number: FrameNumber) -> V:
        """Return Σ (whole choose number) part, in the parent of the number's frame."""

    @abstractmethod
    def select(self, where: np.ndarray, met: V, unmet: V, frame: Frame) -> V:
        """Return `met` where bool[frame.size] is true, else `unmet`."""

    @abstractmethod
    def take(self, values: Sequence[V], places: np.ndarray, frame: Frame) -> V:
        """Concatenate values and take the entries int64[frame.size]."""

    @abstractmethod
    def indicator(self, holds: FrameNumber) -> V:
        """Return 1 where `holds` is true, else 0."""

    def at(self, root: Node, sizes: Mapping[Region, int]) -> V:
        """Return the value of a circuit, an array of one entry."""
        return self.value(root, {r: self.constant(size) for r, size in sizes.items()})

    def constant(self, size: int) -> FrameNumber:
        return FrameNumber(WHOLE, np.array([size]).astype(self.number_type))

    def value(self, node: Node, sizes: FrameSizes) -> V:
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
            case GuardNode():
                return self.guard(node, sizes)
            case NeverNode(needs):
                return self.indicator(holds_nowhere(needs, sizes))
            case RecursionNode():
                return self.recursion(node, sizes)
        return self.value(*resize_part(node, sizes))

    def guard(self, node: GuardNode, sizes: FrameSizes) -> V:
        """Evaluate one or both branches, depending on the size of a region."""
        region, least = node.need
        own = sizes[region]
        is_met = np.asarray(own.value >= least, bool)
        if is_met.all():
            return self.value(node.met, sizes)
        if not is_met.any():
            return self.value(node.unmet, sizes)
        met, unmet = self.value(node.met, sizes), self.value(node.unmet, sizes)
        frame = innermost_frame((own.frame, met.frame, unmet.frame))
        where = np.broadcast_to(spread_to_frame(is_met, own.frame, frame), (frame.size,))
        result = self.select(where, met, unmet, frame)

        def back() -> None:
            met.add_slope(np.where(where, result.slope, self.zero), frame)
            unmet.add_slope(np.where(where, self.zero, result.slope), frame)

        self.tape.append(back)
        return result

    def gather(self, values: Sequence[V], places: np.ndarray, frame: Frame) -> V:
        """Concatenate values and take the entries int64[frame.size]."""
        result = self.take(values, places, frame)

        def back() -> None:
            slope = np.broadcast_to(result.slope, (frame.size,))
            totals = np.repeat(self.zero, sum(value.frame.size for value in values))
            np.add.at(totals, places, slope)
            first = 0
            for value in values:
                last = first + value.frame.size
                value.add_slope(totals[first:last], value.frame)
                first = last

        self.tape.append(back)
        return result

    def count(self, node: CountNode, sizes: FrameSizes) -> V:
        """Sum over the number m of elements of a region that have a property."""
        own = {region: sizes[region] for region in sorted(free_regions(node))}
        frame = innermost_frame(number.frame for number in own.values())
        rows = {r: spread_to_frame(n.value, n.frame, frame) for r, n in own.items()}
        first, where = different_rows(list(rows.values()), frame)
        if SHARED * len(first) > frame.size:
            return self.count_in(node, own, frame)
        base = Frame(len(first))
        picked = {
            r: FrameNumber(base, row if len(row) == 1 else row[first]) for r, row in rows.items()
        }
        return self.gather([self.count_in(node, picked, base)], where, frame)

    def count_in(self, node: CountNode, sizes: FrameSizes, frame: Frame) -> V:
        own = sizes[node.region]
        whole = np.broadcast_to(spread_to_frame(own.value, own.frame, frame), (frame.size,))
        inner = frame.branch(whole.astype(np.int64) + 1)
        assert inner.start is not None
        place = np.arange(inner.size) - spread_to_frame(inner.start, frame, inner)
        return self.count_row(
            node, sizes, whole, FrameNumber(inner, place.astype(self.number_type))
        )

    def count_row(
        self, node: CountNode, sizes: FrameSizes, whole: np.ndarray, number: FrameNumber
    ) -> V:
        """Sum over the numbers listed, which extend the frame of `whole`."""
        inner = number.frame
        assert inner.parent is not None
        rest = spread_to_frame(whole, inner.parent, inner) - number.value
        split = {node.plus: number, node.minus: FrameNumber(inner, rest)}
        return self.add_choices(self.value(node.part, {**sizes, **split}), whole, number)

    def recursion(self, node: RecursionNode, sizes: FrameSizes) -> V:
        """Evaluate a recursion once for each combination of sizes."""
        own = [sizes[region] for region in node.regions]
        frame = innermost_frame(number.frame for number in own)
        rows = [spread_to_frame(n.value, n.frame, frame) for n in own]
        first, where = different_rows(rows, frame)
        chosen = [[int(row[0 if len(row) == 1 else place]) for row in rows] for place in first]
        values = [self.at_sizes(node, tuple(row)) for row in chosen]
        return self.gather(values, where, frame)

    def at_sizes(self, node: RecursionNode, row: tuple[int, ...]) -> V:
        """Evaluate from small sizes to large, so that calls find their values."""
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


def resize_part(node: Node, sizes: FrameSizes) -> tuple[Node, FrameSizes]:
    """Return the part of a node that only changes sizes, and the sizes of the part."""
    match node:
        case GroundingNode(part):
            return part, sizes
        case RestNode(part, region, rest, taken):
            own = sizes[region]
            left = FrameNumber(own.frame, subtract_size(own.value, taken))
            return part, {**sizes, rest: left}
        case PairsNode(part, one, other, pairs):
            return part, {**sizes, pairs: number_at(Size(((one, 0), (other, 0))), sizes)}
        case CallNode(inner, names):
            return inner, {own: sizes[ours] for own, ours in names}
    raise AssertionError(node)


def holds_nowhere(needs: frozenset[tuple[Region, int]], sizes: FrameSizes) -> FrameNumber:
    """Return where not all needs are met."""
    frame = innermost_frame(sizes[region].frame for region, _ in needs)
    all_met: np.ndarray = np.ones(1, bool)
    for region, least in needs:
        own = sizes[region]
        all_met = all_met & np.asarray(spread_to_frame(own.value, own.frame, frame) >= least, bool)
    return FrameNumber(frame, ~all_met)


def different_rows(columns: Sequence[np.ndarray], frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[num_different], first occurrences, and int64[frame.size], the row of each."""
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
