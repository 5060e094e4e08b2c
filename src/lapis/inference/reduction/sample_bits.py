"""Samples of the core as bits, cut into pieces.

An atom's truth in all samples is a row of bits, so a joint state of a few atoms, or a false clause,
is counted 64 samples at a time: the `and` of a few rows and a popcount. Every piece begins with a
word of its own, so that one walk over the words counts in all pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.compiled import entry
from lapis.inference.exact.elimination_order import popcount
from lapis.network.csr import row_starts


class Pieces(NamedTuple):
    """Pieces, and in a piece each of its parts, begin with a word of their own."""

    bits: np.ndarray  # uint64[core.num_atoms, num_words], 0 at bits that are no samples
    used: np.ndarray  # uint64[num_words], ones at the bits that are samples
    start: np.ndarray  # int64[num_pieces + 1], the first word of each piece
    size: np.ndarray  # int64[num_pieces], its samples


class Piece(NamedTuple):
    """Samples one after another; sample s is bit s mod 64 of row s div 64."""

    bits: np.ndarray  # uint64[num_words, num_atoms], 0 at bits that are no samples
    size: int


class Span(NamedTuple):
    """Samples `begin` to `end` of a chain; sample s is bit s mod 64 of row s div 64."""

    bits: np.ndarray  # uint64[num_words, num_atoms]
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    @property
    def num_words(self) -> int:
        return -(-self.size // 64)


def pack_samples(samples: np.ndarray) -> Pieces:
    """One piece of bool[num_samples, num_atoms]."""
    padded = np.zeros((samples.shape[1], -(-len(samples) // 64) * 64), bool)
    padded[:, : len(samples)] = samples.T
    packed = np.packbits(padded, axis=1, bitorder="little").view(np.dtype("<u8"))
    return join_spans([[Span(packed.astype(np.uint64, copy=False).T, 0, len(samples))]])


def cut_samples(bits: np.ndarray, begin: int, end: int) -> Piece:
    """Samples `begin` to `end` of uint64[num_words, num_atoms]."""
    first, shift = divmod(begin, 64)
    num_words = -(-(end - begin) // 64)
    words = bits[first : first + num_words] >> np.uint64(shift)
    if shift:
        later = bits[first + 1 : first + 1 + num_words]
        words[: len(later)] |= later << np.uint64(64 - shift)
    words &= used_bits(end - begin)[:, None]
    return Piece(words, end - begin)


def join_spans(pieces: Sequence[Sequence[Span]]) -> Pieces:
    """Pieces, each of one or more spans, which are cut one by one: all of them take much memory."""
    spans = [span for piece in pieces for span in piece]
    start = row_starts(np.array([sum(span.num_words for span in piece) for piece in pieces]))
    bits = np.empty((spans[0].bits.shape[1], int(start[-1])), np.uint64)
    at = 0
    for span in spans:
        bits[:, at : at + span.num_words] = cut_samples(*span).bits.T
        at += span.num_words
    return Pieces(
        bits,
        np.concatenate([used_bits(span.size) for span in spans]),
        start,
        np.array([sum(span.size for span in piece) for piece in pieces], np.int64),
    )


def used_bits(num_samples: int) -> np.ndarray:
    """uint64[num_words], ones at the first bits."""
    used = np.full(-(-num_samples // 64), np.iinfo(np.uint64).max, np.uint64)
    if num_samples % 64:
        used[-1] >>= np.uint64(64 - num_samples % 64)
    return used


def share_true(pieces: Pieces) -> np.ndarray:
    """float64[num_pieces, num_atoms], in how many samples of a piece each atom is true."""
    counts = np.zeros((len(pieces.size), len(pieces.bits)))
    _count_true(pieces, counts)
    shares: np.ndarray = counts / pieces.size[:, None]
    return shares


@entry
def _count_true(pieces, counts):  # type: ignore[no-untyped-def]
    for atom in range(len(pieces.bits)):
        for piece in range(len(pieces.size)):
            for word in range(pieces.start[piece], pieces.start[piece + 1]):
                counts[piece, atom] += popcount(pieces.bits[atom, word])
