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

from lapis.grounding.network import Network
from lapis.inference.tables import row_starts


class Duplicates(NamedTuple):
    first: np.ndarray  # int64[num_components], the first component equal to each
    first_atom: np.ndarray  # int64[num_atoms], the atom in that one which stands for each
    copies: np.ndarray  # float64[num_components], how many a first one stands for; else 0


def no_duplicates(network: Network) -> Duplicates:
    num_components = int(network.component.max(initial=-1)) + 1
    components = np.arange(num_components)
    return Duplicates(components, np.arange(network.num_atoms), np.ones(num_components))


def find_duplicates(network: Network) -> Duplicates:
    label = network.component
    num_components = int(label.max(initial=-1)) + 1
    by_component = np.argsort(label, kind="stable")
    atom_start = row_starts(np.bincount(label, minlength=num_components))
    local = np.empty(network.num_atoms, np.int64)
    local[by_component] = np.arange(network.num_atoms) - np.repeat(
        atom_start[:-1], np.diff(atom_start)
    )
    owner, value = component_words(network, local)
    start = row_starts(np.bincount(owner, minlength=num_components))
    first = first_equal(start, value, np.diff(atom_start))
    return Duplicates(
        first,
        by_component[atom_start[first[label]] + local],
        np.bincount(first, minlength=num_components).astype(np.float64),
    )


def component_words(network: Network, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_words] each: the component that a word belongs to, in order, and the word."""
    label = network.component
    num_components = int(label.max(initial=-1)) + 1
    literal_label = label[np.abs(network.literal) - 1]
    clause_label = literal_label[network.clause_start[:-1]]
    block_label = label[network.block_atom]
    owners: list[np.ndarray] = []
    values: list[np.ndarray] = []
    for labels in (clause_label, literal_label, block_label):
        owners.append(np.arange(num_components))
        values.append(np.bincount(labels, minlength=num_components))

    def add_rows(start: np.ndarray, atom: np.ndarray, entry: np.ndarray) -> np.ndarray:
        owner: np.ndarray = label[atom[start[:-1]]].astype(np.int64)
        length = np.diff(start)
        owners.extend((np.repeat(owner, length), owner))
        values.extend((entry, length))
        return owner

    atom = np.abs(network.literal) - 1
    entry = (local[atom] + 1) * np.sign(network.literal)
    owner = add_rows(network.clause_start, atom, entry)
    owners.extend((owner, owner))
    values.extend((network.weight_id.astype(np.int64), network.coefficient.view(np.int64)))
    owner = add_rows(network.block_start, network.block_atom, local[network.block_atom])
    owners.append(owner)
    values.append(network.block_exact.astype(np.int64))
    all_owners = np.concatenate(owners)
    order = np.argsort(all_owners, kind="stable")
    return all_owners[order], np.concatenate(values)[order]


def first_equal(start: np.ndarray, value: np.ndarray, num_atoms: np.ndarray) -> np.ndarray:
    """int64[num_rows], the first row with the same values (and the same number of atoms)."""
    length = np.diff(start)
    row = np.repeat(np.arange(len(length)), length)
    position = np.arange(len(value)) - start[row]
    word = mix(value.view(np.uint64) + mix(position.astype(np.uint64)))
    summed = np.concatenate((np.zeros(1, np.uint64), np.cumsum(word)))
    digest = summed[start[1:]] - summed[start[:-1]]
    digest = mix(digest + mix(length.astype(np.uint64)) + num_atoms.astype(np.uint64))
    _, where, back = np.unique(digest, return_index=True, return_inverse=True)
    first = where[back]
    same = (length == length[first]) & (num_atoms == num_atoms[first])
    comparable = same[row]
    other = start[first[row[comparable]]] + position[comparable]
    differs = value[comparable] != value[other]
    same[row[comparable][differs]] = False
    return np.where(same, first, np.arange(len(length)))


def mix(word: np.ndarray) -> np.ndarray:
    """A bijection of uint64 that spreads every bit (the finaliser of splitmix64)."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = word ^ (word >> np.uint64(31))
    return mixed
