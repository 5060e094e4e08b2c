"""Components that are copies of each other, atom by atom and clause by clause, found by hashing.

Each component is written as a row of numbers: how many clauses, literals and blocks it has, then
its clauses (weight, coefficient, literals) and blocks in order, atoms numbered from 0 within the
component. Rows are hashed by position, and a
component whose hash was met before is compared number by number with the first one that had it.
Grounding numbers atoms and clauses the same way for each tuple of constants, so copies come out
equal without a search for isomorphisms, which this is not: components equal up to renumbering
may be missed, and then cost their time again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import mix_all
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import Network


class Duplicates(NamedTuple):
    first: np.ndarray  # int64[num_components], the first component equal to each
    first_atom: np.ndarray  # int64[num_atoms], the atom in that one which stands for each
    copies: np.ndarray  # float64[num_components], how many a first one stands for; else 0


def no_duplicates(network: Network) -> Duplicates:
    components = np.arange(network.num_components)
    return Duplicates(components, np.arange(network.num_atoms), np.ones(len(components)))


def find_duplicates(network: Network, ignored: np.ndarray) -> Duplicates:
    """Copies among the components of atoms that are not ignored, bool[num_atoms]."""
    label, num_components = network.component, network.num_components
    considered = have_twins(network, ignored)
    if not considered.any():
        return no_duplicates(network)
    by_component = np.argsort(label, kind="stable")
    atom_start = row_starts(np.bincount(label, minlength=num_components))
    local = np.empty(network.num_atoms, np.int64)
    local[by_component] = np.arange(network.num_atoms) - np.repeat(
        atom_start[:-1], np.diff(atom_start)
    )
    owner, value = component_words(network, local, considered)
    start = row_starts(np.bincount(owner, minlength=num_components))
    first = np.where(considered, first_equal(start, value), np.arange(num_components))
    return Duplicates(
        first,
        by_component[atom_start[first[label]] + local],
        np.bincount(first, minlength=num_components).astype(np.float64),
    )


def have_twins(network: Network, ignored: np.ndarray) -> np.ndarray:
    """bool[num_components], whether another has as many atoms and clauses; only these compare."""
    label = network.component
    clause_label = label[network.first_atom]
    num_components = network.num_components
    shape = np.bincount(label, minlength=num_components) * (network.num_clauses + 1)
    shape += np.bincount(clause_label, minlength=num_components)
    shape[label[ignored]] = -1
    _, back, times = np.unique(shape, return_inverse=True, return_counts=True)
    return (times[back] > 1) & (shape >= 0)


def component_words(
    network: Network, local: np.ndarray, considered: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_words] each: the component that a word belongs to, in order, and the word."""
    label = network.component
    owners: list[np.ndarray] = []
    values: list[np.ndarray] = []

    def add_rows(
        start: np.ndarray, literal: np.ndarray, rows: np.ndarray, features: list[np.ndarray]
    ) -> None:
        """The number of rows and literals of each component, then the rows themselves."""
        start, literal = take_rows(start, literal, rows)
        atom = np.abs(literal) - 1
        owner: np.ndarray = label[atom[start[:-1]]].astype(np.int64)
        literal_owner = label[atom].astype(np.int64)
        for labels in (owner, literal_owner):
            owners.append(np.flatnonzero(considered))
            values.append(np.bincount(labels, minlength=len(considered))[considered])
        owners.extend([literal_owner, owner] + [owner] * len(features))
        values.extend([(local[atom] + 1) * np.sign(literal), np.diff(start)])
        values.extend(feature[rows].astype(np.int64) for feature in features)

    add_rows(
        network.clause_start,
        network.literal,
        np.flatnonzero(considered[label[network.first_atom]]),
        [network.weight_id, network.coefficient.view(np.int64)],
    )
    first = network.block_atom[network.block_start[:-1]]
    add_rows(
        network.block_start,
        network.block_atom + 1,
        np.flatnonzero(considered[label[first]]),
        [network.block_exact],
    )
    all_owners = np.concatenate(owners)
    order = np.argsort(all_owners, kind="stable")
    return all_owners[order], np.concatenate(values)[order]


def first_equal(start: np.ndarray, value: np.ndarray) -> np.ndarray:
    """int64[num_rows], the first row with the same values."""
    length = np.diff(start)
    row = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(value)) - start[row]
    word = mix_all(value.view(np.uint64) + mix_all(position.astype(np.uint64)))
    summed = np.concatenate((np.zeros(1, np.uint64), np.cumsum(word)))
    digest = summed[start[1:]] - summed[start[:-1]]
    digest = mix_all(digest + mix_all(length.astype(np.uint64)))
    _, where, back = np.unique(digest, return_index=True, return_inverse=True)
    first = where[back]
    same = length == length[first]
    comparable = same[row]
    other = start[first[row[comparable]]] + position[comparable]
    differs = value[comparable] != value[other]
    same[row[comparable][differs]] = False
    return np.where(same, first, np.arange(len(length)))
