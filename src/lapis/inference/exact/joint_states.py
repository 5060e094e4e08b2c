"""The joint states of one connected component, as a tensor with one axis for each unknown.

An axis is a single atom (false, true) or a block of mutually exclusive atoms (one index for each
candidate, and a last one for "none" if the block may be empty). An atom's truth is a Boolean
array that varies along its axis only; everything else follows by broadcasting: a clause is the
`or` of its literals and has the few axes of its atoms, an auxiliary atom is the `or` of its
definition. No state is ever visited one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from lapis.network.network import Network


@dataclass(frozen=True)
class Axis:
    """One unknown of a component."""

    atoms: np.ndarray  # int64[k], one atom, or the candidates of a block
    is_block: bool
    may_be_empty: bool = False  # a block with at most one true atom

    @property
    def size(self) -> int:
        return len(self.atoms) + self.may_be_empty if self.is_block else 2


def component_axes(
    atoms: np.ndarray, block_of: np.ndarray, blocks: Sequence[np.ndarray], exact: np.ndarray
) -> list[Axis]:
    """The unknowns among the base atoms given: their blocks, and the atoms in none."""
    axes = [Axis(atoms[i : i + 1], False) for i in np.flatnonzero(block_of[atoms] < 0)]
    for block in np.unique(block_of[atoms[block_of[atoms] >= 0]]):
        axes.append(Axis(blocks[block], True, not exact[block]))
    return axes


def num_states(axes: Sequence[Axis]) -> int:
    """Π sizes, exactly."""
    return prod(axis.size for axis in axes)


def atom_truths(axes: Sequence[Axis]) -> dict[int, np.ndarray]:
    """For each base atom, its truth as an array that varies along its axis only."""
    truths: dict[int, np.ndarray] = {}
    for position, axis in enumerate(axes):
        shape = [1] * len(axes)
        shape[position] = axis.size
        for index, atom in enumerate(axis.atoms):
            value = np.arange(axis.size) == (index if axis.is_block else 1)
            truths[int(atom)] = value.reshape(shape)
    return truths


def define_auxiliaries(
    network: Network, auxiliaries: np.ndarray, truths: dict[int, np.ndarray]
) -> None:
    """Add the truth of auxiliary atoms, in the network's order of definitions."""
    start, literal = network.definition_start, network.definition_literal
    for atom in auxiliaries:
        index = int(atom) - network.num_base_atoms
        truths[int(atom)] = disjunction(literal[start[index] : start[index + 1]], truths)


def disjunction(literals: np.ndarray, truths: Mapping[int, np.ndarray]) -> np.ndarray:
    """The truth of a ground clause."""
    parts = [
        truths[literal - 1] if literal > 0 else ~truths[-literal - 1]
        for literal in literals.tolist()
    ]
    return reduce(np.logical_or, parts)
