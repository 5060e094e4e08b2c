"""Count the signatures of atoms by SQL, as `argument_classes` does in memory.

A function is a table: a column p0, p1, … for each argument position that it depends on, a column
g0, g1, … for each group whose values it holds, and a row for each point where one of them is not 0.
A signature is a combination of the groups' values. Three queries count signatures:

- at listed atoms (`count_at`): join the functions to the list and group by the values;
- everywhere (`count_everywhere`), if every function has one position: the classes of a position are
  a GROUP BY, and the counts of tuples of classes are products, computed in memory;
- a function f of several positions is split off by its rows S, as in `argument_classes`,

      H(f) = H(f ≡ 0) − H(f ≡ 0 on S) + H(f on S),

  where "on S" makes the positions of f one block, whose points are the rows of S. A function that
  overlaps the block, but is not inside it, is joined to S and then covers it.

Only distinct signatures are fetched. Their values, integers of any width, get small codes
(`ValueCodes`); 0 has the code 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import (
    MAX_SIGNATURES,
    Signatures,
    merge_signatures,
    multiply_class_sizes,
    too_many_classes_error,
)
from lapis.stores.store import ScratchTables


class StoredFunction(NamedTuple):
    """Values of some groups at the rows of a table, 0 elsewhere."""

    positions: tuple[int, ...]  # argument positions of the atom, increasing
    groups: tuple[int, ...]
    source: str  # a table, or a query in parentheses: p{position} …, g{group} …; unique by p


class ValueCodes:
    """Codes of the values of each group, in the order of first use; 0 has the code 0."""

    def __init__(self, num_groups: int) -> None:
        self.values: list[list[int]] = [[0] for _ in range(num_groups)]
        self._code: list[dict[int, int]] = [{0: 0} for _ in range(num_groups)]

    def number(self, group: int, value: int) -> int:
        """Return the code of a value."""
        code = self._code[group].setdefault(value, len(self.values[group]))
        if code == len(self.values[group]):
            self.values[group].append(value)
        return code

    def encode(self, group: int, column: np.ndarray) -> np.ndarray:
        """Return int64[len(column)], the codes of a group's values."""
        distinct, inverse = np.unique(column, return_inverse=True)
        numbers = [self.number(group, value) for value in distinct.tolist()]
        return np.array(numbers, np.int64)[inverse]


class _Block(NamedTuple):
    """Positions whose values form one point."""

    positions: tuple[int, ...]
    size: int | None  # of its domain, 0 at points without a row; None if all points have rows
    function: StoredFunction | None  # None: all groups are zero


class SignatureCounter:
    """Counts signatures over some groups on one store."""

    def __init__(self, scratch: ScratchTables, num_groups: int) -> None:
        self.scratch = scratch
        self.num_groups = num_groups
        self.codes = ValueCodes(num_groups)
        self._known: dict[str, Signatures] = {}

    def count_at(self, rows: str, arity: int, functions: Sequence[StoredFunction]) -> Signatures:
        """Count the signatures of the atoms in a table with columns p0 … p{arity − 1}."""
        every = tuple(range(arity))
        return self._group(join_functions(StoredFunction(every, (), rows), functions))

    def fetch_codes(
        self, rows: str, num_rows: int, functions: Sequence[StoredFunction]
    ) -> np.ndarray:
        """Return int64[num_rows, num_groups], codes at the atoms of a table by its column i."""
        value = np.zeros((num_rows, self.num_groups), np.int64)
        columns, source = ["r.i"], f"{rows} r"
        for number, function in enumerate(functions):
            source += _left_join(function, number)
            columns += _filled(function, number)
        for batch in self.scratch.store.fetch(f"SELECT {', '.join(columns)} FROM {source}"):
            for function in functions:
                for group in function.groups:
                    value[batch["i"], group] = self.codes.encode(group, batch[f"g{group}"])
        return value

    def count_everywhere(
        self, functions: Sequence[StoredFunction], sizes: Mapping[int, int]
    ) -> Signatures:
        """Count signatures of all tuples over positions of these sizes.

        There is at most one function for each set of positions.
        """
        blocks = [_Block((place,), size, None) for place, size in sizes.items()]
        return merge_signatures([self._count(blocks, functions)])

    def _count(self, blocks: Sequence[_Block], functions: Sequence[StoredFunction]) -> Signatures:
        homes = {block.positions: number for number, block in enumerate(blocks)}
        blocks = list(blocks)
        wide: list[StoredFunction] = []
        for function in functions:
            home = homes.get(function.positions)
            if home is None:
                wide.append(function)
            else:
                blocks[home] = blocks[home]._replace(function=function)
        if not wide:
            return self._multiply(blocks)
        split = max(wide, key=lambda function: len(function.positions))
        wide.remove(split)
        outside = self._count(blocks, wide)
        inside = self._count(*self._restrict(blocks, wide, split))
        erased = inside.value.copy()
        erased[:, list(split.groups)] = 0
        return merge_signatures([outside, Signatures(erased, -inside.multiplicity), inside])

    def _restrict(
        self, blocks: Sequence[_Block], functions: Sequence[StoredFunction], split: StoredFunction
    ) -> tuple[list[_Block], list[StoredFunction]]:
        """Make the positions of `split` one block, whose points are its rows."""
        inside = set(split.positions)
        held = [
            block.function
            for block in blocks
            if block.function is not None and inside.issuperset(block.positions)
        ]
        covered = [each for each in functions if inside.issuperset(each.positions)]
        apart = [each for each in functions if inside.isdisjoint(each.positions)]
        crossing = [each for each in functions if each not in covered and each not in apart]
        joint = join_functions(split, [*held, *covered])
        if crossing:
            table = self.scratch.create(f"SELECT * FROM {joint.source} t")
            joint = joint._replace(source=str(table))
        moved = [_cover(each, joint) for each in crossing]
        rest = [block for block in blocks if inside.isdisjoint(block.positions)]
        return [*rest, _Block(split.positions, None, joint)], [*apart, *moved]

    def _multiply(self, blocks: Sequence[_Block]) -> Signatures:
        """Return all combinations of the blocks' classes. Counts are multiplied."""
        result = Signatures(np.zeros((1, self.num_groups), np.int64), np.ones(1, np.int64))
        for block in blocks:
            own = self._classes(block)
            before, after = len(result.multiplicity), len(own.multiplicity)
            if before * after > MAX_SIGNATURES:
                raise too_many_classes_error(before * after)
            value = np.repeat(result.value, after, axis=0) + np.tile(own.value, (before, 1))
            result = Signatures(value, multiply_class_sizes(result.multiplicity, own.multiplicity))
        return result

    def _classes(self, block: _Block) -> Signatures:
        nothing = np.zeros((1, self.num_groups), np.int64)
        if block.function is None:
            return Signatures(nothing, np.array([block.size], np.int64))
        found = self._group(block.function)
        if block.size is None:
            return found
        rest = block.size - int(found.multiplicity.sum())
        return merge_signatures([found, Signatures(nothing, np.array([rest], np.int64))])

    def _group(self, function: StoredFunction) -> Signatures:
        """Return the distinct values of all rows with their multiplicities."""
        if function.source in self._known:
            return self._known[function.source]
        columns = [f"g{group}" for group in function.groups]
        grouped = f" GROUP BY {', '.join(columns)}" if columns else ""
        query = (
            f"SELECT {', '.join([*columns, 'count(*) AS num'])} "
            f"FROM {function.source} t{grouped} LIMIT {MAX_SIGNATURES + 1}"
        )
        parts: list[Signatures] = []
        fetched = 0
        for batch in self.scratch.store.fetch(query):
            count = batch["num"].astype(np.int64)
            fetched += len(count)
            if fetched > MAX_SIGNATURES:
                raise too_many_classes_error(fetched)
            value = np.zeros((len(count), self.num_groups), np.int64)
            for group, name in zip(function.groups, columns, strict=True):
                value[:, group] = self.codes.encode(group, batch[name])
            parts.append(Signatures(value, count))
        nothing = Signatures(np.zeros((0, self.num_groups), np.int64), np.zeros(0, np.int64))
        self._known[function.source] = merge_signatures([nothing, *parts])
        return self._known[function.source]


def join_functions(
    rows: StoredFunction, functions: Sequence[StoredFunction], extra: tuple[str, ...] = ()
) -> StoredFunction:
    """Join rows with functions of some of their positions; `extra` are further columns of rows."""
    if not functions:
        return rows
    columns = [f"r.p{place}" for place in rows.positions] + [f"r.{name}" for name in extra]
    columns += [f"r.g{group}" for group in rows.groups]
    source = f"{rows.source} r"
    for number, function in enumerate(functions):
        source += _left_join(function, number)
        columns += _filled(function, number)
    groups = (*rows.groups, *(group for function in functions for group in function.groups))
    return StoredFunction(rows.positions, groups, f"(SELECT {', '.join(columns)} FROM {source})")


def _left_join(function: StoredFunction, number: int) -> str:
    """Write a join with rows `r`. A function without positions has at most one row."""
    matches = " AND ".join(f"f{number}.p{p} = r.p{p}" for p in function.positions) or "TRUE"
    return f" LEFT JOIN {function.source} f{number} ON {matches}"


def _filled(function: StoredFunction, number: int) -> list[str]:
    return [f"coalesce(f{number}.g{group}, 0) AS g{group}" for group in function.groups]


def _cover(function: StoredFunction, joint: StoredFunction) -> StoredFunction:
    """Extend a function to all positions of the joint block."""
    shared = [place for place in function.positions if place in joint.positions]
    own = [place for place in function.positions if place not in joint.positions]
    columns = [f"r.p{place}" for place in joint.positions] + [f"f.p{place}" for place in own]
    columns += [f"f.g{group}" for group in function.groups]
    matches = " AND ".join(f"f.p{place} = r.p{place}" for place in shared)
    return StoredFunction(
        tuple(sorted((*joint.positions, *own))),
        function.groups,
        f"(SELECT {', '.join(columns)} FROM {function.source} f "
        f"JOIN {joint.source} r ON {matches})",
    )


def unite_functions(scratch: ScratchTables, functions: Sequence[StoredFunction]) -> StoredFunction:
    """Join functions of the same positions into one."""
    if len(functions) == 1:
        return functions[0]
    positions = functions[0].positions
    keys = [f"p{place}" for place in positions]
    groups = [group for function in functions for group in function.groups]
    selects = []
    for function in functions:
        values = [f"g{n}" if n in function.groups else f"0 AS g{n}" for n in groups]
        selects.append(f"SELECT {', '.join([*keys, *values])} FROM {function.source} t")
    values = [f"max(g{number}) AS g{number}" for number in groups]
    table = scratch.create(
        f"SELECT {', '.join([*keys, *values])} FROM ({' UNION ALL '.join(selects)}) t "
        f"GROUP BY {', '.join(keys)}"
    )
    return StoredFunction(positions, tuple(groups), str(table))
