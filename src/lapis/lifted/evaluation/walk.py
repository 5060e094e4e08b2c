"""The sweeps over a circuit, whatever its values are made of.

Values are arrays over combinations of counting indices (`frames`). The forward sweep writes a tape
of the operations done; the backward sweep reads it in reverse, each operation turning the
derivative of log Z with respect to its result into those of its arguments. So all derivatives cost
about as much as Z. `floats` has values (log, sign) of a fixed precision, `balls` has balls of any.

A sum is evaluated once for each combination of the sizes it depends on, not for each combination
of indices around it: where sizes are equal more than twice as often as they differ, values are
computed for the different ones and gathered.

Combinations of counting indices, listed in a row.

A sum over m = 0 … size(region) lists m once for each combination of the indices around it. A
`Frame` is such a list: each of its combinations extends one of its parent's, those of one parent
stand together. Two nested sums over the parts of n elements have (n + 2 choose 2) combinations,
where a table with an axis for each sum would have (n + 1)².

A number that depends on outer indices only is held in their frame, and spread to an inner one
where the two meet.
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
    child_nodes,
)
from lapis.lifted.compilation.theory import Region, Size, subtract_size

MAX_PROFILES = 64  # of nested sums that are compared with each other


@dataclass(frozen=True, eq=False)
class Frame:
    """`size` combinations of indices."""

    size: int
    parent: Frame | None = None
    start: np.ndarray | None = None  # int64[parent.size], the first of each of the parent's
    depth: int = 0
    known: dict[int, np.ndarray] = field(default_factory=dict)  # by depth: see `index_in`

    @cached_property
    def parent_of(self) -> np.ndarray:
        """int64[size], which of the parent's combinations each one extends."""
        assert self.parent is not None
        assert self.start is not None
        lengths = np.diff(self.start, append=self.size)
        return np.repeat(np.arange(self.parent.size), lengths)

    def branch(self, lengths: np.ndarray) -> Frame:
        """A frame in which each combination is repeated a number of times, at least once."""
        ends = np.cumsum(lengths)
        return Frame(int(ends[-1]), self, ends - lengths, self.depth + 1)

    def index_in(self, outer: Frame) -> np.ndarray:
        """int64[size], which combination of an outer frame each one extends."""
        assert self.parent is not None
        if self.parent is outer:
            return self.parent_of
        if outer.depth not in self.known:
            self.known[outer.depth] = self.parent.index_in(outer)[self.parent_of]
        return self.known[outer.depth]


WHOLE = Frame(1)  # outside all sums


class Number(NamedTuple):
    """A whole number for each combination of a frame."""

    frame: Frame
    value: np.ndarray  # [frame.size], in the dtype of the evaluation


def innermost_frame(frames: Iterable[Frame]) -> Frame:
    """Of frames of which each is within the other."""
    return max(frames, key=lambda frame: (frame.depth, frame.size), default=WHOLE)


def spread_to_frame(array: np.ndarray, own: Frame, frame: Frame) -> np.ndarray:
    """An array over a frame in an inner one; arrays of one entry broadcast by themselves."""
    if own is frame or len(array) == 1:
        return array
    return np.asarray(array[frame.index_in(own)])


def add_within(array: np.ndarray, frame: Frame, own: Frame, length: int) -> np.ndarray:
    """Sums over the combinations that extend the same one of an outer frame."""
    array = np.broadcast_to(array, (frame.size,))
    if length == 1:
        return np.asarray(array.sum()).reshape(1)
    while frame is not own:
        assert frame.parent is not None
        assert frame.start is not None
        array, frame = np.add.reduceat(array, frame.start), frame.parent
    return array


def number_at(size: Size, sizes: Mapping[Region, Number]) -> Number:
    own = [(region, sizes[region]) for region, _ in size.factors]
    frame = innermost_frame(number.frame for _, number in own)
    value = np.asarray(size.at({r: spread_to_frame(n.value, n.frame, frame) for r, n in own}))
    return Number(frame, value if value.ndim else value.reshape(1))


def free_regions(node: Node) -> frozenset[Region]:
    """The regions whose sizes the number of a node depends on."""
    known = FREE.get(node)
    if known is not None:
        return known
    below = frozenset[Region]().union(*map(free_regions, own_children(node)))
    match node:
        case FactorNode(exponent, literals, free):
            sizes = [size for _, size in (*exponent, *free)] + [size for *_, size in literals]
            found = frozenset(region for size in sizes for region, _ in size.factors)
        case PowerNode(_, exponent):
            found = below | {region for region, _ in exponent.factors}
        case CountNode(_, region, plus, minus):
            found = (below - {plus, minus}) | {region}
        case RestNode(_, region, rest):
            found = (below - {rest}) | {region}
        case PairsNode(_, one, other, pairs):
            found = (below - {pairs}) | ({one, other} if pairs in below else set())
        case GuardNode((region, _)):
            found = below | {region}
        case NeverNode(needs):
            found = frozenset(region for region, _ in needs)
        case RecursionNode(regions):
            found = frozenset(regions)
        case CallNode(inner, names):
            own = free_regions(inner)
            found = frozenset(ours for name, ours in names if name in own)
        case _:
            found = below
    FREE[node] = found
    return found


def own_children(node: Node) -> tuple[Node, ...]:
    """Without those of a recursion, whose circuit refers to itself."""
    return () if isinstance(node, RecursionNode) else child_nodes(node)


FREE: WeakKeyDictionary[Node, frozenset[Region]] = WeakKeyDictionary()


Sums = frozenset[tuple[tuple[Region, ...], int]]


class Profile(NamedTuple):
    """Sums within each other on a path through a circuit, each of which depends on those around."""

    sums: Sums  # how many of them are over parts of a region, or of a product of regions
    regions: frozenset[Region]  # whose sizes the outermost depends on


def profiles(node: Node) -> frozenset[Profile]:
    """Of each path from a node downward; those with fewer sums than another are left out."""
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
                else:  # evaluated once for all numbers
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
    """The path with products of regions in place of some regions."""
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
    """How many combinations of counting indices the sums below a node go through, at most.

    k sums within each other over parts of n elements go through (n + k choose k).
    """
    return max(
        (
            prod(comb(prod(int(sizes[r]) for r in own) + k, k) for own, k in path.sums)
            for path in profiles(node)
        ),
        default=1,
    )


def states_within(node: Node, sizes: Mapping[Region, Number], frame: Frame) -> np.ndarray:
    """float64[frame.size], the same for each combination of a frame."""
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
    """Ranges whose states add up to at most a limit, or ranges of a single entry."""
    total = np.cumsum(states)
    ends = [0]
    while ends[-1] < len(states):
        before = total[ends[-1] - 1] if ends[-1] else 0.0
        fits = int(np.searchsorted(total, before + most, side="right"))
        ends.append(max(ends[-1] + 1, fits))
    return list(pairwise(ends))


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


class CircuitSweep(ABC, Generic[V]):
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
                left = Number(own.frame, subtract_size(own.value, taken))
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
        frame = innermost_frame(number.frame for number in own.values())
        rows = {r: spread_to_frame(n.value, n.frame, frame) for r, n in own.items()}
        first, where = different_rows(list(rows.values()), frame)
        if SHARED * len(first) > frame.size:
            return self.count_in(node, own, frame)
        base = Frame(len(first))
        picked = {r: Number(base, row if len(row) == 1 else row[first]) for r, row in rows.items()}
        return self.gather([self.count_in(node, picked, base)], where, frame)

    def count_in(self, node: CountNode, sizes: Numbers, frame: Frame) -> V:
        own = sizes[node.region]
        whole = np.broadcast_to(spread_to_frame(own.value, own.frame, frame), (frame.size,))
        inner = frame.branch(whole.astype(np.int64) + 1)
        assert inner.start is not None
        place = np.arange(inner.size) - spread_to_frame(inner.start, frame, inner)
        return self.count_row(node, sizes, whole, Number(inner, place.astype(self.number_type)))

    def count_row(self, node: CountNode, sizes: Numbers, whole: np.ndarray, number: Number) -> V:
        """The sum over the numbers listed, which extend the frame of `whole`."""
        inner = number.frame
        assert inner.parent is not None
        rest = spread_to_frame(whole, inner.parent, inner) - number.value
        split = {node.plus: number, node.minus: Number(inner, rest)}
        return self.add_choices(self.value(node.part, {**sizes, **split}), whole, number)

    def recursion(self, node: RecursionNode, sizes: Numbers) -> V:
        """Each combination of sizes once, whoever asks for it."""
        own = [sizes[region] for region in node.regions]
        frame = innermost_frame(number.frame for number in own)
        rows = [spread_to_frame(n.value, n.frame, frame) for n in own]
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
    frame = innermost_frame(sizes[region].frame for region, _ in needs)
    all_met: np.ndarray = np.ones(1, bool)
    for region, least in needs:
        own = sizes[region]
        all_met = all_met & np.asarray(spread_to_frame(own.value, own.frame, frame) >= least, bool)
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
