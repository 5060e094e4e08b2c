"""Visit blocks one after the other: each is emptied, its values are weighed, and it gets one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.counting.kernels.flips import clear, follow, keep, note, undo, weigh
from lapis.counting.kernels.indexed_relations import contains
from lapis.counting.kernels.nested_loops import SHORTAGE
from lapis.runtime.kernels import entry, inner


class Blocks(NamedTuple):
    """Blocks in the order of visits, and what was seen; the last value of each is to be empty."""

    start: np.ndarray  # int64[num_blocks + 1], of their atoms
    is_exact: np.ndarray  # bool[num_blocks], may not be empty
    noise: np.ndarray  # float64[num_atoms + num_blocks], of values
    taken: np.ndarray  # int64[num_blocks], values
    score: np.ndarray  # float64[num_atoms + num_blocks], −inf where hard rules forbid it
    hard: np.ndarray  # word[num_atoms + num_blocks], hard groundings that hold, less those if empty


@entry
def visit_blocks(layout, relations, program, state, weights, visits, blocks, begin, end, resumes):  # type: ignore[no-untyped-def]
    """Visit blocks from `begin` on; returns where it stopped, `end` unless something is short.

    The block where it stopped may have lost its value: to go on there, `resumes` is to be true. Of
    the visits, `truth` is that before, and differences are those from the empty block.
    """
    for block in range(begin, end):
        first, last = blocks.start[block], blocks.start[block + 1]
        if block > begin or not resumes:
            for at in range(first, last):
                visits.truth[at] = contains(relations, visits.atom[at])
        for at in range(first, last):
            if contains(relations, visits.atom[at]):
                _flip(layout, relations, program, state, visits, at)
        for at in range(first, last):
            if state.level[SHORTAGE] == 0:
                follow(layout, relations, program, state, visits.predicate[at], visits.atom[at])
            if state.level[SHORTAGE] == 0 and len(visits.start) > 0:
                note(state, visits, at, 1)
            blocks.score[at + block], blocks.hard[at + block] = weigh(state, weights)
            undo(layout, relations, state)
            clear(state)
        if state.level[SHORTAGE] == 0:
            taken = _choose(blocks, block)
            blocks.taken[block] = taken
            if first + taken < last:
                _flip(layout, relations, program, state, visits, first + taken)
        if state.level[SHORTAGE] != 0:
            return block
    return end


@inner
def _flip(layout, relations, program, state, visits, at):  # type: ignore[no-untyped-def]
    """Flip an atom for good; or nothing, where something is short."""
    predicate, atom = visits.predicate[at], visits.atom[at]
    if state.level[SHORTAGE] == 0:
        follow(layout, relations, program, state, predicate, atom)
        if state.level[SHORTAGE] == 0:
            keep(layout, relations, program, state, predicate, atom)
        else:
            undo(layout, relations, state)
        clear(state)


@inner
def _choose(blocks, block):  # type: ignore[no-untyped-def]
    """The value with the best noisy score of those that break the fewest hard groundings."""
    first, last = blocks.start[block] + block, blocks.start[block + 1] + block
    blocks.score[last], blocks.hard[last] = 0.0, 0
    if not blocks.is_exact[block]:
        last += 1
    else:
        blocks.score[last] = -math.inf
    most = blocks.hard[first]
    for at in range(first, last):
        most = max(most, blocks.hard[at])
    best, taken = -math.inf, first
    for at in range(first, last):
        if blocks.hard[at] < most:
            blocks.score[at] = -math.inf
        elif blocks.score[at] + blocks.noise[at] > best:
            best, taken = blocks.score[at] + blocks.noise[at], at
    return taken - first
