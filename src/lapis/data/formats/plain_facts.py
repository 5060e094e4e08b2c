r"""Bulk reading of plain facts: `Friends(Ann,Bob)`, one a line, a chunk of text at a time.

The idea: no loop over lines. Deleting every name character from a chunk leaves its structure,
`(,)` and a line end for each binary fact; one table look-up for each pair of neighbouring
characters tells which lines are plain. Those are cut at their punctuation into one flat list of
names, interned by one dictionary, and the line ends say where each fact begins. Everything but
the split and the dictionary look-ups is numpy, about 1 µs a fact in all. Within quotes, punctuation
is exchanged for control characters (`mask_quoted`) until the names are cut.

Lines that are not plain (escapes, comments, several facts on a line, mistakes) are handed back by
number, for the exact reader. What did not pay: a regular expression with findall (3 times
slower), sorting fixed-width byte strings (memory), a numba kernel (seconds to compile at first
use, and Python's dictionary is still needed for the names).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-'.:" + bytes(
    range(128, 256)
)
CLOSE = b"\x01"  # stands for ")\n" within a chunk
PUNCTUATION = b" !#$%&()*+,/;<=>?@[]^`{|}~"
MASKS = bytes([*range(2, 9), *range(14, 32), 127])  # stand for punctuation within quotes
DROPPED = b"\x00"  # stands for quotes around a constant, and for cuts
TO_CUTS = bytes.maketrans(b"(,\n" + CLOSE + MASKS, 4 * DROPPED + PUNCTUATION)
WIDE_SPACE = re.compile(r"(?![\x00-\x7f])\s")


def _neighbours() -> np.ndarray:
    """bool[65536]: at 256·a + b, whether b may follow a in the structure of plain lines."""
    allowed = np.zeros((256, 256), np.bool_)
    for before, after in (
        (b"\n" + CLOSE, b"!?(\n"),
        (b"!?", b"(\n"),
        (b"(", b"," + CLOSE),
        (b",", b"," + CLOSE),
    ):
        allowed[np.ix_(list(before), list(after))] = True
    return allowed.ravel()


NEIGHBOURS = _neighbours()


def _byte_table(to: bytes, of: bytes) -> np.ndarray:
    table = np.arange(256, dtype=np.uint8)
    table[list(of)] = list(to)
    return table


MASKED = _byte_table(MASKS, PUNCTUATION)  # uint8[256]
BEFORE_QUOTE = np.isin(np.arange(256), list(b"(, "))  # bool[256]
AFTER_QUOTE = np.isin(np.arange(256), list(b",)"))  # bool[256]


class PlainFacts(NamedTuple):
    names: list[bytes]  # predicates and constants in the order of the text
    codes: np.ndarray  # int32[num_names], the names interned
    head: np.ndarray  # int64[num_lines], position in names of the line's (signed) predicate
    arity: np.ndarray  # int64[num_lines], names after the predicate
    line: np.ndarray  # int64[num_lines], number of the line within the chunk


def may_be_plain(chunk: bytes) -> bool:
    """Whether lines can be judged one by one: no block comment, no braces, only common spaces."""
    if b"/*" in chunk or b"{" in chunk or CLOSE in chunk:
        return False
    return chunk.isascii() or not WIDE_SPACE.search(chunk.decode())


def split_plain(
    chunk: bytes, intern: Callable[[list[bytes]], np.ndarray]
) -> tuple[PlainFacts, np.ndarray] | None:
    """The plain lines of a chunk that ends with a newline, and the numbers of the others.

    None if less than half of the lines are plain: the exact reader is faster on whole chunks.
    Predicates are not checked here and constants may be empty: the caller knows the names.
    """
    name_bytes = NAME_BYTES
    if b'"' in chunk:
        masked = mask_quoted(chunk)
        if masked is None:
            return None
        chunk, name_bytes = masked, NAME_BYTES + MASKS
    text = chunk.replace(b"\r\n", b"\n").replace(b" \n", b"\n").replace(b", ", b",")
    text = text.replace(b")\n", CLOSE)
    structure = np.frombuffer(b"\n" + text.translate(None, name_bytes), np.uint8)
    pairs = structure[:-1].astype(np.uint16)
    pairs <<= 8
    pairs |= structure[1:]
    structure = structure[1:]
    is_end = (structure == CLOSE[0]) | (structure == ord("\n"))
    wrong = np.flatnonzero(~NEIGHBOURS[pairs])
    others = np.empty(0, np.int64)
    lines = np.arange(np.count_nonzero(is_end))
    if len(wrong):
        line_of = np.cumsum(is_end) - is_end
        others = np.unique(line_of[wrong])
        if 2 * len(others) > len(lines):
            return None
        lines = np.delete(lines, others)
        structure = structure[_without(line_of, others)]
        letters = np.frombuffer(text, np.uint8)
        ends = (letters == CLOSE[0]) | (letters == ord("\n"))
        text = letters[_without(np.cumsum(ends) - ends, others)].tobytes()
    separators = structure[(structure != ord("!")) & (structure != ord("?"))]
    names = text.translate(TO_CUTS).split(DROPPED)
    names.pop()
    ends = np.flatnonzero((separators == CLOSE[0]) | (separators == ord("\n")))
    head = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    return PlainFacts(names, intern(names), head, ends - head, lines), others


def mask_quoted(chunk: bytes) -> bytes | None:
    """The chunk without quotes around constants, punctuation between them masked.

    Misplaced quotes and escapes stay as they are, so that their lines are not taken for plain.
    None if a line has an odd number of quotes, or if masks occur in the chunk already.
    """
    if len(chunk) != len(chunk.translate(None, MASKS + DROPPED)):
        return None
    letters = np.frombuffer(chunk, np.uint8)
    signs = letters
    if b"\\" in chunk:
        unescaped = chunk.replace(rb"\\", b"\0\0").replace(rb"\"", b"\0\0")
        signs = np.frombuffer(unescaped, np.uint8)
    is_quote = signs == ord('"')
    inside = np.logical_xor.accumulate(is_quote)
    if inside[letters == ord("\n")].any():
        return None
    quotes = np.flatnonzero(is_quote)
    opening, closing = quotes[::2], quotes[1::2]
    good = BEFORE_QUOTE[letters[opening - 1]] & AFTER_QUOTE[letters[closing + 1]]
    masked = np.where(inside, MASKED[letters], letters)
    masked[opening[good]] = masked[closing[good]] = DROPPED[0]
    return masked.tobytes().translate(None, DROPPED)


def _without(line_of: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which characters stand on none of the lines."""
    keep = np.ones(int(line_of[-1]) + 1, np.bool_)
    keep[others] = False
    return keep[line_of]
