"""Extend the evidence by what blocks imply.

In a predicate with a block, `Class(page, topic!)`, at most (or exactly) one atom is true for each
choice of the other arguments. So a true atom makes the rest of its block false, and the last
candidate of an exactly-one block is true. A block implies nothing about other blocks, so one pass
reaches the fixed point. Data with two true values in a block, or with none possible, contradict the
model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.data.database import Domain
from lapis.data.keys import fits, pack, union, unpack
from lapis.errors import LapisError, TooLarge
from lapis.language.model import Predicate
from lapis.problem.problem import Evidence, Problem


def apply_blocks(problem: Problem) -> Mapping[str, Evidence]:
    """Return the problem's evidence extended by what blocks imply.

    Raise `block-violated` for a block with two true atoms, or for an exactly-one block with none
    possible.
    """
    return {
        name: apply_block(evidence, problem.domains) if evidence.predicate.block else evidence
        for name, evidence in problem.evidence.items()
    }


@dataclass(frozen=True)
class BlockShape:
    """The positions of a predicate, split into those that name a block and its values."""

    key: tuple[int, ...]
    value: tuple[int, ...]
    key_sizes: tuple[int, ...]
    value_sizes: tuple[int, ...]

    @property
    def num_keys(self) -> int:
        return math.prod(self.key_sizes)

    @property
    def num_values(self) -> int:
        return math.prod(self.value_sizes)

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return int64[num_rows], the block of each row."""
        return pack([rows[:, i] for i in self.key], self.key_sizes, len(rows))

    def values(self, rows: np.ndarray) -> np.ndarray:
        return pack([rows[:, i] for i in self.value], self.value_sizes, len(rows))

    def rows(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return int32[n, arity], the tuples with these keys and values."""
        rows = np.empty((len(keys), len(self.key) + len(self.value)), np.int32)
        rows[:, self.key] = unpack(keys, self.key_sizes)
        rows[:, self.value] = unpack(values, self.value_sizes)
        return rows

    def sorted_rows(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        rows = self.rows(keys, values)
        return rows[np.lexsort(rows.T[::-1])] if len(rows) > 1 else rows


def block_shape(predicate: Predicate, domains: Mapping[str, Domain]) -> BlockShape:
    sizes = [len(domains[name]) for name in predicate.types]
    if not fits(sizes):
        raise TooLarge(
            f"predicate '{predicate.name}' has more than 2^62 possible ground atoms",
            code="too-large",
            span=predicate.span,
            hint="split it into predicates of fewer arguments",
        )
    key = tuple(i for i in range(predicate.arity) if i not in predicate.block)
    value = tuple(sorted(predicate.block))
    return BlockShape(key, value, tuple(sizes[i] for i in key), tuple(sizes[i] for i in value))


def apply_block(evidence: Evidence, domains: Mapping[str, Domain]) -> Evidence:
    """Return the evidence of a predicate extended by what its blocks imply."""
    predicate = evidence.predicate
    shape = block_shape(predicate, domains)
    true_keys = shape.keys(evidence.true)
    decided, times = np.unique(true_keys, return_counts=True)
    if len(times) and times.max() > 1:
        _refuse_key(evidence, shape, int(decided[times > 1][0]), domains, "two true values")
    if evidence.open:
        return _apply_open_block(evidence, shape, decided, domains)
    unknown_keys = shape.keys(evidence.unknown)
    undecided = ~np.isin(unknown_keys, decided)
    unknown, unknown_keys = evidence.unknown[undecided], unknown_keys[undecided]
    if not predicate.exactly_one:
        return replace(evidence, unknown=unknown)
    candidates, times = np.unique(unknown_keys, return_counts=True)
    possible = np.union1d(decided, candidates)
    if len(possible) < shape.num_keys:
        _refuse_key(evidence, shape, _first_missing(possible), domains, "no possible value")
    forced = np.isin(unknown_keys, candidates[times == 1])
    return replace(
        evidence,
        true=union(evidence.true, unknown[forced]),
        unknown=unknown[~forced],
    )


def _apply_open_block(
    evidence: Evidence, shape: BlockShape, decided: np.ndarray, domains: Mapping[str, Domain]
) -> Evidence:
    predicate = evidence.predicate
    true, false = evidence.true, evidence.false
    if predicate.exactly_one:
        free = false[~np.isin(shape.keys(false), decided)]
        denied, times = np.unique(shape.keys(free), return_counts=True)
        if shape.num_values == 0 and shape.num_keys > 0:
            _refuse_key(evidence, shape, 0, domains, "no possible value")
        if len(times) and times.max() == shape.num_values:
            first = int(denied[times == shape.num_values][0])
            _refuse_key(evidence, shape, first, domains, "no possible value")
        if shape.num_values == 1:
            all_keys = np.arange(shape.num_keys, dtype=np.int64)
            return replace(evidence, true=shape.sorted_rows(all_keys, np.zeros_like(all_keys)))
        forced = denied[times == shape.num_values - 1]
        if len(forced):
            # The values of a block add up to V(V−1)/2; the value not denied is the difference.
            keys, values = shape.keys(free), shape.values(free)
            at = np.searchsorted(forced, keys)
            at[at == len(forced)] = 0
            mine = forced[at] == keys
            total = np.full(len(forced), shape.num_values * (shape.num_values - 1) // 2)
            np.subtract.at(total, at[mine], values[mine])
            true = union(true, shape.sorted_rows(forced, total))
    keys, values = shape.keys(true), shape.values(true)
    others = np.repeat(keys, shape.num_values)
    every = np.tile(np.arange(shape.num_values, dtype=np.int64), len(keys))
    excluded = every != np.repeat(values, shape.num_values)
    implied = shape.sorted_rows(others[excluded], every[excluded])
    return replace(evidence, true=true, false=union(false, implied))


def _first_missing(sorted_keys: np.ndarray) -> int:
    """Return the smallest natural number that is not among sorted distinct ones."""
    gaps = np.flatnonzero(sorted_keys != np.arange(len(sorted_keys)))
    return int(gaps[0]) if len(gaps) else len(sorted_keys)


def _refuse_key(
    evidence: Evidence, shape: BlockShape, key: int, domains: Mapping[str, Domain], what: str
) -> None:
    codes = unpack(np.array([key], np.int64), shape.key_sizes)[0]
    refuse_block(evidence, shape, codes.tolist(), domains, what)


def refuse_block(
    evidence: Evidence,
    shape: BlockShape,
    key: Sequence[int],
    domains: Mapping[str, Domain],
    what: str,
) -> None:
    """Raise the error for data that contradict the block with these codes of its key."""
    predicate = evidence.predicate
    terms = ["_"] * predicate.arity
    for position, code in zip(shape.key, key, strict=True):
        terms[position] = domains[predicate.types[position]].constants[code]
    wanted = "exactly one" if predicate.exactly_one else "at most one"
    hint = "correct the facts, or declare the predicate without '!' or '?'"
    if what == "no possible value" and not evidence.open:
        hint = (
            f"unmentioned atoms of {predicate.name} are false: state a value, mark some as "
            f"unknown (?fact), or open the predicate (-q or --open {predicate.name})"
        )
    raise LapisError(
        f"the data give {what} for {predicate.name}({', '.join(terms)}), "
        f"which is declared to have {wanted}",
        code="block-violated",
        span=predicate.span,
        hint=hint,
    )
