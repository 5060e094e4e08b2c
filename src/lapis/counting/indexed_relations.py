"""The true atoms of all predicates, with an index for every access pattern in use.

An atom is one number, an offset of its predicate plus the mixed-radix value of its arguments, and
so is a bucket: an offset of the index plus the value of the arguments it is by. One table then
holds all atoms and one all buckets (`counting/kernels/indexed_relations.py`). Rows are shared by
all predicates. A kernel cannot make arrays longer: it stops where there is no room, and `grow`
builds them twice as long.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from math import prod
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from lapis.counting.kernels.indexed_relations import NUM_BUCKETS, load
from lapis.data.keys import LARGEST_KEY

LEAST_ROWS = 32


class Layout(NamedTuple):
    """How atoms and buckets are numbered; `word` is int64, object in wide worlds."""

    offset: np.ndarray  # word[num_predicates], of atoms
    arity: np.ndarray  # int64[num_predicates]
    size: np.ndarray  # word[num_predicates, max_arity], of the arguments' domains
    num_links: np.ndarray  # int64[num_predicates], the indexes of each
    index_offset: np.ndarray  # word[num_predicates, max_links], of buckets
    index_stride: np.ndarray  # word[num_predicates, max_links, max_arity], 0: not indexed by


class Relations(NamedTuple):
    atom: np.ndarray  # word[num_places], −1 where there is none
    row: np.ndarray  # int32[num_places], of the atom there
    bucket: np.ndarray  # word[num_bucket_places], −1 where there is none
    head: np.ndarray  # int32[num_bucket_places], its first row, or −1
    size: np.ndarray  # word[num_bucket_places], its number of rows
    argument: np.ndarray  # int32[num_rows, max_arity], object in wide worlds
    following: np.ndarray  # int32[max_links, num_rows], the next row of a bucket, or −1
    preceding: np.ndarray  # int32[max_links, num_rows]
    free: np.ndarray  # int32[num_rows], a stack of rows
    level: np.ndarray  # int64[2]: free rows, buckets


class Index(NamedTuple):
    """Atoms of a predicate by some of their arguments."""

    link: int
    offset: int
    strides: tuple[int, ...]  # of the arguments that it is by, in their order


class IndexedRelations:
    """Relations over domains of given sizes, with true rows int32[n, arity]."""

    def __init__(
        self, sizes: Mapping[str, tuple[int, ...]], rows: Mapping[str, np.ndarray]
    ) -> None:
        self.sizes = dict(sizes)
        self.number = {name: number for number, name in enumerate(sizes)}
        self.strides = {name: strides_of(each) for name, each in sizes.items()}
        self.offset: dict[str, int] = {}
        end = 0
        for name, each in sizes.items():
            self.offset[name] = end
            end += prod(each)
        self.wide = end > LARGEST_KEY
        self._indexes: dict[str, dict[tuple[int, ...], Index]] = {name: {} for name in sizes}
        self._num_buckets = 0  # that there may be
        self._least_rows, self._least_buckets = LEAST_ROWS, LEAST_ROWS
        self._rows = dict(rows)
        self._arrays: tuple[Layout, Relations] | None = None

    @property
    def word(self) -> Any:
        return object if self.wide else np.int64

    def atoms(self, name: str, rows: np.ndarray) -> np.ndarray:
        """word[n], the numbers of atoms int32[n, arity]."""
        found = np.full(len(rows), self.offset[name], self.word)
        for column, stride in zip(rows.T, self.strides[name], strict=True):
            found += column.astype(self.word) * stride
        return found

    def index(self, name: str, positions: tuple[int, ...]) -> Index:
        """Kept up to date from now on."""
        own = self._indexes[name]
        if positions not in own:
            sizes = [self.sizes[name][position] for position in positions]
            own[positions] = Index(len(own), self._num_buckets, strides_of(sizes))
            self._num_buckets += prod(sizes)
            if self._num_buckets > LARGEST_KEY:
                self.widen()
            self._unbuild()
        return own[positions]

    def widen(self) -> None:
        """Hold all numbers as Python's integers."""
        self._unbuild()
        self.wide = True

    def grow(self) -> None:
        """Make room, where it was little."""
        layout, relations = self.arrays
        few_buckets = (
            relations.level[NUM_BUCKETS] + layout.num_links.max() > len(relations.bucket) // 2
        )
        self._unbuild()
        if few_buckets:
            self._least_buckets *= 2
        else:
            self._least_rows *= 2

    def rows(self, name: str) -> np.ndarray:
        """int32[n, arity], the true atoms, in no order that means anything."""
        if self._arrays is None:
            return self._rows[name]
        relations, sizes = self._arrays[1], self.sizes[name]
        atom, first = relations.atom, self.offset[name]
        inside = (atom >= first) & (atom < first + prod(sizes))
        rest, rows = atom[inside] - first, np.empty((int(inside.sum()), len(sizes)), np.int32)
        for position in range(len(sizes) - 1, -1, -1):  # numpy has no divmod of Python's integers
            rows[:, position], rest = rest % sizes[position], rest // sizes[position]
        return rows

    def _unbuild(self) -> None:
        self._rows = {name: self.rows(name) for name in self.sizes}
        self._arrays = None

    @property
    def arrays(self) -> tuple[Layout, Relations]:
        if self._arrays is None:
            self._arrays = self._build()
        return self._arrays

    def _build(self) -> tuple[Layout, Relations]:
        word, number = self.word, len(self.sizes)
        arity = max(map(len, self.sizes.values()), default=0)
        links = max(map(len, self._indexes.values()), default=0)
        size = np.ones((number, arity), word)
        offset = np.zeros((number, links), word)
        stride = np.zeros((number, links, arity), word)
        for name, at in self.number.items():
            size[at, : len(self.sizes[name])] = self.sizes[name]
            for positions, index in self._indexes[name].items():
                offset[at, index.link] = index.offset
                stride[at, index.link, list(positions)] = index.strides
        layout = Layout(
            np.array(list(self.offset.values()), word),
            np.array(list(map(len, self.sizes.values())), np.int64),
            size,
            np.array(list(map(len, self._indexes.values())), np.int64),
            offset,
            stride,
        )
        num_atoms = sum(map(len, self._rows.values()))
        while self._least_rows < num_atoms + LEAST_ROWS:
            self._least_rows *= 2
        most = sum(len(self._rows[name]) * len(own) for name, own in self._indexes.items())
        while self._least_buckets < min(most, self._num_buckets) + links + 1:
            self._least_buckets *= 2
        num_rows, num_places = self._least_rows, 2 * self._least_buckets
        relations = Relations(
            np.full(2 * num_rows, -1, word),
            np.zeros(2 * num_rows, np.int32),
            np.full(num_places, -1, word),
            np.full(num_places, -1, np.int32),
            np.zeros(num_places, word),
            np.zeros((num_rows, arity), object if self.wide else np.int32),
            np.zeros((links, num_rows), np.int32),
            np.zeros((links, num_rows), np.int32),
            np.arange(num_rows, dtype=np.int32),
            np.array([num_rows, 0], np.int64),
        )
        for name, at in self.number.items():
            atoms = self.atoms(name, self._rows[name])
            run_kernel(load, self.wide, layout, relations, at, atoms)
        return layout, relations


def run_kernel(kernel: Any, wide: bool, *arguments: Any) -> Any:
    """Call a kernel, as a Python function where numbers are wide."""
    if not wide:
        return kernel(*arguments)
    with np.errstate(all="ignore"):
        return as_python(kernel)(*arguments)


@functools.cache
def as_python(kernel: Any) -> FunctionType:
    """The Python function of a kernel: numba has no integers beyond 64 bits.

    The kernels that it calls are Python functions too, whereas `kernel.py_func` calls compiled
    ones.
    """
    function = kernel.py_func
    names = {
        name: as_python(value) if hasattr(value, "py_func") else value
        for name, value in function.__globals__.items()
        if name in function.__code__.co_names
    }
    return FunctionType(function.__code__, names, function.__name__)


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[position + 1 :]) for position in range(len(sizes)))
