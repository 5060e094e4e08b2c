"""Blocks of unknown atoms, of which at most one, or exactly one, is true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lapis.grounding.atoms import PredicateAtoms
from lapis.grounding.evidence import block_shape
from lapis.network.csr import row_starts
from lapis.problem.problem import Problem


class Blocks(NamedTuple):
    start: np.ndarray  # int64[num_blocks + 1]
    atom: np.ndarray  # int32[...]
    exact: np.ndarray  # bool[num_blocks]


def network_blocks(problem: Problem, atoms: Mapping[str, PredicateAtoms]) -> Blocks:
    """Unknown atoms grouped by their arguments outside the block positions.

    After `close_blocks` no other atom of such a block is true. An at-most-one block of one atom
    restricts nothing and is left out.
    """
    lengths, members, exact = [np.empty(0, np.int64)], [np.empty(0, np.int32)], []
    for name, predicate in problem.model.predicates.items():
        if not predicate.block or atoms[name].num_unknown == 0:
            continue
        keys = block_shape(predicate, problem.domains).keys(atoms[name].unknown)
        order = np.argsort(keys, kind="stable")
        _, length = np.unique(keys, return_counts=True)
        atom = (atoms[name].first + order).astype(np.int32)
        if not predicate.exactly_one:
            atom = atom[np.repeat(length > 1, length)]
            length = length[length > 1]
        lengths.append(length)
        members.append(atom)
        exact.append(np.full(len(length), predicate.exactly_one))
    return Blocks(
        row_starts(np.concatenate(lengths)),
        np.concatenate(members),
        np.concatenate([np.empty(0, bool), *exact]),
    )
