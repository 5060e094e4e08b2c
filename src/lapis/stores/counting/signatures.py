"""Signatures of atoms counted by a database: what `argument_classes` does, said in SQL.

A function lives in a table: a column p0, p1, … for each argument position that it depends on, a
column g0, g1, … for each group whose values it holds, and a row wherever one of them is not 0.
Signatures are the combinations of groups' values, and three sentences count them:

- at listed atoms, `count_at`: join the functions to the list and group by the values;
- everywhere, `count_everywhere`, where every function has one position: the classes of a position
  are a GROUP BY, and tuples of classes count as products, which is arithmetic on what came back;
- a function f of several positions is split off by its rows S, as in `argument_classes`,

      H(f) = H(f ≡ 0) − H(f ≡ 0 on S) + H(f on S),

  where "on S" makes the positions of f one block, whose points are the rows of S. A function that
  overlaps the block without lying inside is joined to S and then covers it.

Only distinct signatures come back, never a row for an atom. Their values are numbered here
(`ValueCodes`), 0 for 0, so that integers of any width are told apart by small ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import (
    MAX_SIGNATURES,
    Signatures,
    merge_signatures,
    multiply_counts,
    too_many_classes_error,
)
from lapis.stores.load_to_store import ScratchTables


class StoredFunction(NamedTuple):
    """Values of some groups at the rows of a table, 0 elsewhere."""

    positions: tuple[int, ...]  # argument positions of the atom, increasing
    groups: tuple[int, ...]
    source: str  # a table, or a query in parentheses: p{position} …, g{group} …; unique by p


class ValueCodes:
    """Numbers the values of each group as they are met; 0 is 0."""

    def __init__(self, num_groups: int) -> None:
        self.values: list[list[int]] = [[0] for _ in range(num_groups)]
        self._code: list[dict[int, int]] = [{0: 0} for _ in range(num_groups)]

    def number(self, group: int, value: int) -> int:
        code = self._code[group].setdefault(value, len(self.values[group]))
        if code == len(self.values[group]):
            self.values[group].append(value)
        return code

    def encode(self, group: int, column: np.ndarray) -> np.ndarray:
        """int64[len(column)], the numbers of a group's values."""
        distinct, inverse = np.unique(column, return_inverse=True)
        numbers = [self.number(group, value) for value in distinct.tolist()]
        return np.array(numbers, np.int64)[inverse]


class _Block(NamedTuple):
    """Positions that are told apart together."""

    positions: tuple[int, ...]
    size: int | None  # of its domain, zero where nothing is listed; None where all is listed
    function: StoredFunction | None  # None: all groups are zero


class SignatureCounter:
    """Counts signatures over some groups on one store."""

    def __init__(self, scratch: ScratchTables, num_groups: int) -> None:
        self.scratch = scratch
        self.num_groups = num_groups
        self.codes = ValueCodes(num_groups)
        self._known: dict[str, Signatures] = {}

    def count_at(self, rows: str, arity: int, functions: Sequence[StoredFunction]) -> Signatures:
        """Of the atoms in a table with columns p0 … p{arity − 1}."""
        every = tuple(range(arity))
        return self._group(join_functions(StoredFunction(every, (), rows), functions))

    def look_up(self, rows: str, num_rows: int, functions: Sequence[StoredFunction]) -> np.ndarray:
        """int64[num_rows, num_groups], the codes at atoms in a table, in the order of column i."""
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
        """Of all tuples over positions of these sizes; one function a set of positions."""
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
        """The positions of `split` as one block, whose points are its rows."""
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
        """All combinations of the blocks' classes; counts multiply."""
        result = Signatures(np.zeros((1, self.num_groups), np.int64), np.ones(1, np.int64))
        for block in blocks:
            own = self._classes(block)
            before, after = len(result.multiplicity), len(own.multiplicity)
            if before * after > MAX_SIGNATURES:
                raise too_many_classes_error(before * after)
            value = np.repeat(result.value, after, axis=0) + np.tile(own.value, (before, 1))
            result = Signatures(value, multiply_counts(result.multiplicity, own.multiplicity))
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
        """The distinct values of all rows, and how many rows have them."""
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
    """The values of functions, whose positions are among those of the rows, beside each row.

    `extra` are further columns of the rows.
    """
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
    """Joined to rows called r; a function of no positions has one row or none."""
    matches = " AND ".join(f"f{number}.p{p} = r.p{p}" for p in function.positions) or "TRUE"
    return f" LEFT JOIN {function.source} f{number} ON {matches}"


def _filled(function: StoredFunction, number: int) -> list[str]:
    return [f"coalesce(f{number}.g{group}, 0) AS g{group}" for group in function.groups]


def _cover(function: StoredFunction, joint: StoredFunction) -> StoredFunction:
    """The function over its own positions and all those of the joint block."""
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
    """Functions of the same positions as one."""
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
