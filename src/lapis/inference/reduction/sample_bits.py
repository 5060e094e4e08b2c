"""Samples of the core as bits, cut into pieces.

An atom's truth in all samples is a row of bits, so a joint state of a few atoms, or a false clause,
is counted 64 samples at a time: the `and` of a few rows and a popcount. A piece is some bits of
some words, so that one row counts in all pieces. Pieces that began with a word of their own took
six times the memory: a million atoms need few samples, and a piece of a chain may be seven of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import popcount
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry


class Pieces(NamedTuple):
    bits: np.ndarray  # uint64[core.num_atoms, num_words], those of all chains
    word: np.ndarray  # int64[num_parts], the words that a piece has bits of, piece after piece
    mask: np.ndarray  # uint64[num_parts], ones at these bits
    start: np.ndarray  # int64[num_pieces + 1], the first of each piece's parts
    size: np.ndarray  # int64[num_pieces], its samples


class Span(NamedTuple):
    """Samples `begin` to `end` of a chain; sample s is bit s mod 64 of row s div 64."""

    bits: np.ndarray  # uint64[num_words, num_atoms]
    begin: int
    end: int


def pack_samples(samples: np.ndarray) -> Pieces:
    """One piece of bool[num_samples, num_atoms]."""
    padded = np.zeros((samples.shape[1], -(-len(samples) // 64) * 64), bool)
    padded[:, : len(samples)] = samples.T
    packed = np.packbits(padded, axis=1, bitorder="little").view(np.dtype("<u8"))
    return join_spans([[Span(packed.astype(np.uint64, copy=False).T, 0, len(samples))]])


def join_spans(pieces: Sequence[Sequence[Span]]) -> Pieces:
    """Pieces, each of one or more spans."""
    chains = {id(span.bits): span.bits for piece in pieces for span in piece}
    first = row_starts(np.array([*map(len, chains.values())]))
    bits = np.empty((len(next(iter(chains.values())).T), int(first[-1])), np.uint64)
    np.concatenate([chain.T for chain in chains.values()], axis=1, out=bits)
    first_of = dict(zip(chains, first.tolist(), strict=False))
    parts = [
        [
            (first_of[id(span.bits)] + row, span.begin - 64 * row, span.end - 64 * row)
            for span in piece
            for row in range(span.begin // 64, -(-span.end // 64))
        ]
        for piece in pieces
    ]
    word, begin, end = np.array([part for piece in parts for part in piece], np.int64).T
    return Pieces(
        bits,
        word.copy(),
        lowest_bits(np.minimum(end, 64)) & ~lowest_bits(np.maximum(begin, 0)),
        row_starts(np.array([*map(len, parts)])),
        np.array([sum(span.end - span.begin for span in piece) for piece in pieces], np.int64),
    )


def lowest_bits(number: np.ndarray) -> np.ndarray:
    """uint64[...], ones at so many bits, 0 to 64."""
    some: np.ndarray = np.right_shift(~np.uint64(0), ((64 - number) % 64).astype(np.uint64))
    some[number == 0] = 0
    return some


def share_true(pieces: Pieces) -> np.ndarray:
    """float64[num_pieces, num_atoms], in how many samples of a piece each atom is true."""
    counts = np.zeros((len(pieces.size), len(pieces.bits)))
    _count_true(pieces, counts)
    return counts / pieces.size[:, None]


@entry
def _count_true(pieces, counts):  # type: ignore[no-untyped-def]
    for atom in range(len(pieces.bits)):
        for piece in range(len(pieces.size)):
            for part in range(pieces.start[piece], pieces.start[piece + 1]):
                held = pieces.bits[atom, pieces.word[part]] & pieces.mask[part]
                counts[piece, atom] += popcount(held)
