"""Frequencies in samples of the core, with the samples as bits.

An atom's truth in all samples is a row of bits, so a joint state of a scope, or a false clause,
is counted 64 samples at a time: the `and` of a few rows and a popcount. A thousand samples of a
million scopes take a fraction of a second instead of a few.
"""

from __future__ import annotations

import numpy as np

from lapis.compiled import entry, inner
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
    counts = np.zeros(len(bits))
    _count_rows(bits, counts)
    return counts


def count_scopes(
    tree: Tree, variables: Variables, bits: np.ndarray, num_samples: int
) -> np.ndarray:
    """float64[message_start[-1]], how often each state of the scopes in the core occurs."""
    counts = np.zeros(tree.message_start[-1])
    leaving = np.flatnonzero(tree.parent == CORE)
    used = last_words(bits.shape[1], num_samples)
    _count_scopes(
        leaving, tree.scope_start, tree.scope_variable, tree.message_start, variables.size,
        variables.state_start, variables.state_atom, bits, used, np.empty_like(used),
        counts,
    )  # fmt: skip
    return counts


def count_false(
    network: Network, clauses: np.ndarray, bits: np.ndarray, num_samples: int
) -> np.ndarray:
    """float64[num_clauses asked], in how many samples each clause is false."""
    used = last_words(bits.shape[1], num_samples)
    counts = np.zeros(len(clauses))
    _count_false(network.clause_start, network.literal, clauses, bits, used, counts)
    return counts


def last_words(num_words: int, num_samples: int) -> np.ndarray:
    """uint64[num_words], ones at the bits that are samples."""
    return pack_samples(np.ones((num_samples, 1), bool)).reshape(num_words)


@entry
def _count_rows(bits, counts):  # type: ignore[no-untyped-def]
    for atom in range(len(bits)):
        counts[atom] = _ones(bits[atom])


@entry
def _count_false(clause_start, literal, clauses, bits, used, counts):  # type: ignore[no-untyped-def]
    for index in range(len(clauses)):
        begin, end = clause_start[clauses[index]], clause_start[clauses[index] + 1]
        for word in range(len(used)):
            false = used[word]
            for at in range(begin, end):
                held = bits[abs(literal[at]) - 1, word]
                false &= ~held if literal[at] > 0 else held
            counts[index] += popcount(false)


@entry
def _count_scopes(  # type: ignore[no-untyped-def]
    leaving, scope_start, scope_variable, message_start, size, state_start, state_atom, bits, used,
    agree, counts,
):  # fmt: skip
    for i in leaving:
        for t in range(message_start[i + 1] - message_start[i]):
            for word in range(len(used)):
                agree[word] = used[word]
            rest = t
            for at in range(scope_start[i + 1] - 1, scope_start[i] - 1, -1):
                v = scope_variable[at]
                first = state_start[v]
                atom = state_atom[first + rest % size[v]]
                rest //= size[v]
                if atom >= 0:
                    for word in range(len(used)):
                        agree[word] &= bits[atom, word]
                else:
                    # False, or none of a block: no atom of the variable is true.
                    for place in range(first, state_start[v + 1]):
                        if state_atom[place] >= 0:
                            for word in range(len(used)):
                                agree[word] &= ~bits[state_atom[place], word]
            counts[message_start[i] + t] = _ones(agree)


@inner
def _ones(row):  # type: ignore[no-untyped-def]
    total = 0
    for word in row:
        total += popcount(word)
    return total
