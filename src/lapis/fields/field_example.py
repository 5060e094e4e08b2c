"""A world of training data as fields learn from it: what is asked, its answers, what is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.errors import LapisError
from lapis.fields.cached_sums import CachedField
from lapis.fields.field import Field
from lapis.fields.ground import UnknownUnits, ground_field, unknown_units
from lapis.fields.lifted_counts import FlipGroups, Flips, PseudoClasses, take_census
from lapis.grounding.blocks import apply_blocks
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.learning.examples import HIDDEN, Example
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.runtime.progress import Report


@dataclass(frozen=True)
class FieldExample:
    """The asked atoms are unknown, with their answers; hidden ones have none."""

    field: Field
    example: Example
    network: Network  # the unknown atoms, without clauses
    answer: np.ndarray  # int8[num_unknown]: 1 true, 0 false, HIDDEN
    max_memory: int | None = None
    progress: Report | None = None

    @property
    def world(self) -> np.ndarray:
        """bool[num_unknown], what is true of it; hidden atoms are not."""
        return self.answer == 1

    @property
    def has_hidden(self) -> bool:
        return bool((self.answer == HIDDEN).any())

    @cached_property
    def cached(self) -> CachedField:
        """The ground field in tables, for chains and enumeration."""
        return CachedField(ground_field(self.field, self.example.free, self.max_memory))

    @cached_property
    def given(self) -> CachedField:
        """The same with the answers known: only hidden atoms are unknown."""
        return CachedField(ground_field(self.field, self.example.complete, self.max_memory))

    @cached_property
    def classes(self) -> PseudoClasses:
        """What its pseudo-likelihood needs; raises LapisError where atoms are hidden."""
        if self.has_hidden:
            raise LapisError(
                "a pseudo-likelihood needs complete data, but some atoms are hidden",
                code="incomplete-data",
                hint="learn by objective likelihood, or conditional with a query",
            )
        atoms, units = self.network.atoms, unknown_units(self.network)
        evidence = apply_blocks(self.example.free)
        true = {name: known.true for name, known in evidence.items()}
        flips, starts = [], []
        for name, first, rows in zip(atoms.predicates, atoms.offset, atoms.tuples, strict=False):
            truth = self.world[int(first) : int(first) + len(rows)]
            true[name] = np.concatenate([true[name], rows[truth]])
            moves, start = list_moves(name, int(first), rows, truth, units)
            flips.append(moves)
            starts.append(start)
        domains = self.example.free.domains
        census = take_census(self.field, domains, true, flips, self.max_memory, self.progress)
        groups = [
            group_flips(each.predicate, classes, start)
            for each, classes, start in zip(flips, census.classes, starts, strict=True)
        ]
        return PseudoClasses(census, tuple(groups))


def make_field_example(
    field: Field,
    example: Example,
    max_memory: int | None = None,
    progress: Report | None = None,
) -> FieldExample:
    """Raises LapisError where the data contradict a block."""
    apply_blocks(example.complete)
    network = unknown_atoms(example.free)
    return FieldExample(field, example, network, example.answers(network), max_memory, progress)


def list_moves(
    name: str, first: int, rows: np.ndarray, truth: np.ndarray, units: UnknownUnits
) -> tuple[Flips, np.ndarray]:
    """All other states of the units of a predicate, unit by unit, and where each unit's start.

    A unit moves to any of its false atoms, from the true one if there is one; or to none.
    """
    unit_of = units.unit_of()[first : first + len(rows)]
    own, unit = np.unique(unit_of, return_inverse=True)
    present = np.full(len(own), -1, np.int64)
    present[unit[truth]] = np.flatnonzero(truth)
    leaves = np.flatnonzero((present >= 0) & ~units.exact[own])
    others = np.flatnonzero(~truth)
    to = np.concatenate([others, np.full(len(leaves), -1, np.int64)])
    mover = np.concatenate([unit[others], leaves])
    order = np.argsort(mover, kind="stable")
    to, mover = to[order], mover[order]
    pairs = np.stack([present[mover], to], axis=1).ravel()
    flip = np.repeat(np.arange(len(to)), 2)[pairs >= 0]
    atom = pairs[pairs >= 0]
    start = np.searchsorted(mover, np.arange(len(own) + 1))
    return Flips(name, len(to), flip, rows[atom], truth[atom]), start


def group_flips(predicate: str, classes: np.ndarray, start: np.ndarray) -> FlipGroups:
    """Units with one other state are counted by its class; those with more are kept as they are."""
    length = np.diff(start)
    kinds, times = np.unique(classes[start[:-1][length == 1]], return_counts=True)
    inside = np.repeat(length > 1, length)
    several = length[length > 1]
    return FlipGroups(
        predicate,
        row_starts(np.concatenate([np.ones_like(kinds), several])),
        np.concatenate([kinds, classes[inside]]),
        np.concatenate([times.astype(np.float64), np.ones(len(several))]),
        len(length),
    )
