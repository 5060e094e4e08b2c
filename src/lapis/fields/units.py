"""Atoms that are drawn together: single ones, and blocks of which one or none is true."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.csr import row_starts
from lapis.network.network import Network


class UnknownUnits(NamedTuple):
    """The unknown atoms of a network; a single atom is a set of which at most one is true."""

    start: np.ndarray  # int64[num_units + 1]
    atom: np.ndarray  # int64[num_unknown]
    exact: np.ndarray  # bool[num_units], one of them must be true

    @property
    def num_states(self) -> int:
        """Of all units together."""
        total = 1
        for size, exact in zip(np.diff(self.start).tolist(), self.exact.tolist(), strict=True):
            total *= size + (not exact)
        return total

    def unit_of(self) -> np.ndarray:
        """int64[num_unknown], of each atom."""
        found = np.empty(len(self.atom), np.int64)
        found[self.atom] = np.repeat(np.arange(len(self.exact)), np.diff(self.start))
        return found

    def worlds(self, numbers: np.ndarray) -> np.ndarray:
        """bool[num_worlds, num_unknown], of numbers from 0 to `num_states` − 1."""
        worlds = np.zeros((len(numbers), len(self.atom)), bool)
        for unit, exact in enumerate(self.exact.tolist()):
            atoms = self.atom[self.start[unit] : self.start[unit + 1]]
            numbers, state = np.divmod(numbers, len(atoms) + (not exact))
            worlds[:, atoms] = state[:, None] == np.arange(len(atoms)) + (not exact)
        return worlds


def unknown_units(network: Network) -> UnknownUnits:
    """In the order of their first atoms."""
    size = network.num_base_atoms
    single = np.ones(size, bool)
    single[network.block_atom] = False
    alone = np.flatnonzero(single)
    length = np.concatenate([np.ones(len(alone), np.int64), np.diff(network.block_start)])
    atoms = np.concatenate([alone, network.block_atom]).astype(np.int64)
    exact = np.concatenate([np.zeros(len(alone), bool), network.block_exact])
    begin = np.cumsum(length) - length
    order = np.argsort(atoms[begin])
    unit = np.repeat(np.argsort(order), length)
    atoms = atoms[np.argsort(unit, kind="stable")]
    return UnknownUnits(row_starts(length[order]), atoms, exact[order])
