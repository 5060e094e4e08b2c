"""The asked atoms of an example, drawn at random without listing them.

A site is what Gibbs sampling resamples at once: an atom, or a whole block. Where nothing is known
of a predicate its sites are numbered by the mixed-radix value of their arguments, so that twenty
million atoms take no memory at all; where evidence decides some, the undecided ones are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.counting.differences.sparse_vectors import gather_ranges
from lapis.data.keys import unpack
from lapis.grounding.atoms import PredicateAtoms, number_atoms
from lapis.grounding.evidence import BlockShape, block_shape, close_blocks
from lapis.inference.sampling.counted_world import Blocks
from lapis.language.model import Predicate
from lapis.problem.problem import Problem


@dataclass(frozen=True)
class Sites:
    """The undecided atoms or blocks of one predicate."""

    predicate: Predicate
    unknown: PredicateAtoms
    shape: BlockShape | None  # of a predicate with blocks

    def __len__(self) -> int:
        if self.shape is None:
            return self.unknown.num_unknown
        if self.unknown.unknown_codes is None:
            return self.shape.num_keys
        return len(self._block_start) - 1

    def rows(self, sites: np.ndarray) -> np.ndarray:
        """int32[n, arity], the atoms that are the sites with these numbers; not for blocks."""
        codes = self.unknown.unknown_codes
        return unpack(sites if codes is None else codes[sites], self.unknown.sizes)

    def blocks(self, sites: np.ndarray) -> Blocks:
        """The undecided atoms of the blocks with these numbers."""
        assert self.shape is not None
        if self.unknown.unknown_codes is None:
            number, size = len(sites), self.shape.num_values
            values = np.tile(np.arange(size, dtype=np.int64), number)
            rows = self.shape.rows(np.repeat(sites, size), values)
            start = size * np.arange(number + 1)
        else:
            start, places = gather_ranges(self._block_start[sites], self._block_start[sites + 1])
            rows = self._block_rows[places]
        is_exact = np.full(len(sites), self.predicate.exactly_one)
        return Blocks(self.predicate.name, rows, start, is_exact)

    @cached_property
    def _block_rows(self) -> np.ndarray:
        """int32[num_unknown, arity], the undecided atoms, block by block."""
        assert self.shape is not None
        rows = self.unknown.unknown
        return rows[np.argsort(self.shape.keys(rows), kind="stable")]

    @cached_property
    def _block_start(self) -> np.ndarray:
        """int64[num_blocks + 1], where each block begins."""
        assert self.shape is not None
        keys = self.shape.keys(self._block_rows)
        return np.append(np.flatnonzero(np.diff(keys, prepend=-1)), len(keys))


def asked_sites(free: Problem) -> tuple[Sites, ...]:
    """The sites of all predicates with undecided atoms."""
    numbered = number_atoms(close_blocks(free), free.domains)
    found = []
    for name, atoms in numbered.items():
        predicate = free.model.predicates[name]
        if atoms.num_unknown:
            shape = block_shape(predicate, free.domains) if predicate.block else None
            found.append(Sites(predicate, atoms, shape))
    return tuple(found)
