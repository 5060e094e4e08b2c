"""Combinations of counting indices, listed in a row.

A sum over m = 0 … size(region) lists m once for each combination of the indices around it. A
`Frame` is such a list: each of its combinations extends one of its parent's, those of one parent
stand together. Two nested sums over the parts of n elements have (n + 2 choose 2) combinations,
where a table with an axis for each sum would have (n + 1)².

A number that depends on outer indices only is held in their frame, and spread to an inner one
where the two meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import comb, prod
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lapis.lifted.compilation.circuit import (
    CallNode,
    CountNode,
    FactorNode,
    GuardNode,
    NeverNode,
    Node,
    PairsNode,
    PowerNode,
    RecursionNode,
    RestNode,
    children,
)
from lapis.lifted.compilation.theory import Region, Size

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


def innermost(frames: Iterable[Frame]) -> Frame:
    """Of frames of which each is within the other."""
    return max(frames, key=lambda frame: (frame.depth, frame.size), default=WHOLE)


def spread(array: np.ndarray, own: Frame, frame: Frame) -> np.ndarray:
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
    frame = innermost(number.frame for _, number in own)
    value = np.asarray(size.at({r: spread(n.value, n.frame, frame) for r, n in own}))
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
    return () if isinstance(node, RecursionNode) else children(node)


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
            found = {rename(path, ours) for path in profiles(inner)}
        case CountNode(part, region, plus, minus):
            whole = {plus: (region,), minus: (region,)}
            found = {Profile(frozenset({((region,), 1)}), free_regions(node))}
            for path in profiles(part):
                if path.regions & {plus, minus}:
                    sums = merge([((region,), 1), *rename(path, whole).sums])
                    found.add(Profile(sums, free_regions(node)))
                else:  # evaluated once for all numbers
                    found.add(path)
        case RestNode(part, region, rest):
            found = {rename(path, {rest: (region,)}) for path in profiles(part)}
        case PairsNode(part, one, other, pairs):
            found = {rename(path, {pairs: (one, other)}) for path in profiles(part)}
        case _:
            found = {path for child in own_children(node) for path in profiles(child)}
    PROFILES[node] = without_smaller(found)
    return PROFILES[node]


PROFILES: WeakKeyDictionary[Node, frozenset[Profile]] = WeakKeyDictionary()


def rename(path: Profile, names: Mapping[Region, tuple[Region, ...]]) -> Profile:
    """The path with products of regions in place of some regions."""
    sums = merge(
        (tuple(sorted(new for r in own for new in names.get(r, (r,)))), number)
        for own, number in path.sums
    )
    return Profile(sums, frozenset(new for r in path.regions for new in names.get(r, (r,))))


def merge(sums: Iterable[tuple[tuple[Region, ...], int]]) -> Sums:
    total: dict[tuple[Region, ...], int] = {}
    for own, number in sums:
        total[own] = total.get(own, 0) + number
    return frozenset(total.items())


def without_smaller(paths: Iterable[Profile]) -> frozenset[Profile]:
    kept: list[tuple[Profile, dict[tuple[Region, ...], int]]] = []
    for path in sorted(paths, key=lambda p: (-sum(k for _, k in p.sums), sorted(p.sums))):
        if not any(
            path.regions <= other.regions and all(most.get(r, 0) >= k for r, k in path.sums)
            for other, most in kept
        ):
            kept.append((path, dict(path.sums)))
    return frozenset(path for path, _ in kept[:MAX_PROFILES])


def num_states(node: Node, sizes: Mapping[Region, int]) -> int:
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
                size = size * spread(number.value, number.frame, frame).astype(float)
            for step in range(1, k + 1):
                states = states * ((size + step) / step)
        found = np.maximum(found, states)
    return found


def cut(states: np.ndarray, most: int) -> Sequence[tuple[int, int]]:
    """Ranges whose states add up to at most a limit, or ranges of a single entry."""
    total = np.cumsum(states)
    ends = [0]
    while ends[-1] < len(states):
        before = total[ends[-1] - 1] if ends[-1] else 0.0
        fits = int(np.searchsorted(total, before + most, side="right"))
        ends.append(max(ends[-1] + 1, fits))
    return list(pairwise(ends))
