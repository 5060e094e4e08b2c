"""Frequencies in samples of the core, with the samples as bits.

An atom's truth in all samples is a row of bits, so a joint state of a scope, or a false clause,
is counted 64 samples at a time: the `and` of a few rows and a popcount. A thousand samples of a
million scopes take a fraction of a second instead of a few.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lapis.inference.exact.elimination_order import popcount
from lapis.inference.exact.junction_tree import CORE, Tree
from lapis.network.cubes import Variables
from lapis.network.network import Network


def pack_samples(samples: np.ndarray) -> np.ndarray:
    """uint64[num_atoms, num_words] from bool[num_samples, num_atoms]."""
    num_words = -(-len(samples) // 64)
    padded = np.zeros((samples.shape[1], 64 * num_words), bool)
    padded[:, : len(samples)] = samples.T
    packed = np.packbits(padded, axis=1, bitorder="little")
    return packed.view(np.dtype("<u8")).astype(np.uint64, copy=False)


def count_true(bits: np.ndarray) -> np.ndarray:
    """float64[num_atoms], in how many samples each atom is true."""
    counts: np.ndarray = _count_rows(bits)
    return counts


def count_scopes(
    tree: Tree, variables: Variables, bits: np.ndarray, num_samples: int
) -> np.ndarray:
    """float64[message_start[-1]], how often each state of the scopes in the core occurs."""
    counts = np.zeros(tree.message_start[-1])
    leaving = np.flatnonzero(tree.parent == CORE)
    _count_scopes(
        leaving, tree.scope_start, tree.scope_variable, tree.message_start, variables.size,
        variables.state_start, variables.state_atom, bits, last_words(bits.shape[1], num_samples),
        counts,
    )  # fmt: skip
    return counts


def count_false(
    network: Network, clauses: np.ndarray, bits: np.ndarray, num_samples: int
) -> np.ndarray:
    """float64[num_clauses asked], in how many samples each clause is false."""
    used = last_words(bits.shape[1], num_samples)
    counts: np.ndarray = _count_false(network.clause_start, network.literal, clauses, bits, used)
    return counts


def last_words(num_words: int, num_samples: int) -> np.ndarray:
    """uint64[num_words], ones at the bits that are samples."""
    return pack_samples(np.ones((num_samples, 1), bool)).reshape(num_words)


@njit(cache=True)
def _count_rows(bits):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(bits))
    for atom in range(len(bits)):
        counts[atom] = _ones(bits[atom])
    return counts


@njit(cache=True)
def _count_false(clause_start, literal, clauses, bits, used):  # type: ignore[no-untyped-def]
    counts = np.zeros(len(clauses))
    for index in range(len(clauses)):
        begin, end = clause_start[clauses[index]], clause_start[clauses[index] + 1]
        for word in range(len(used)):
            false = used[word]
            for at in range(begin, end):
                held = bits[abs(literal[at]) - 1, word]
                false &= ~held if literal[at] > 0 else held
            counts[index] += popcount(false)
    return counts


@njit(cache=True)
def _count_scopes(  # type: ignore[no-untyped-def]
    leaving, scope_start, scope_variable, message_start, size, state_start, state_atom, bits, used,
    counts,
):  # fmt: skip
    agree = np.empty_like(used)
    for i in leaving:
        for t in range(message_start[i + 1] - message_start[i]):
            agree[:] = used
            rest = t
            for at in range(scope_start[i + 1] - 1, scope_start[i] - 1, -1):
                v = scope_variable[at]
                first = state_start[v]
                atom = state_atom[first + rest % size[v]]
                rest //= size[v]
                if atom >= 0:
                    agree &= bits[atom]
                else:
                    # False, or none of a block: no atom of the variable is true.
                    for place in range(first, state_start[v + 1]):
                        if state_atom[place] >= 0:
                            agree &= ~bits[state_atom[place]]
            counts[message_start[i] + t] = _ones(agree)


@njit(cache=True)
def _ones(row):  # type: ignore[no-untyped-def]
    total = 0
    for word in row:
        total += popcount(word)
    return total
