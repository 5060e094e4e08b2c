"""Blocks in classes, counted on a store: a block is known by the candidates that are listed in it.

`block_classes` has the question. A candidate's vector is a product of groups, which are functions
of the block's own arguments, of the marked arguments alone, or of both ("crossing"). Crossing
functions and truth are sparse, so most candidates of a block are in none of their tables, and
differ only in functions of the marked arguments, which are the same for all blocks. On the store

    listed    the candidates in some crossing table, with all values beside them,
    a block   the text of its listed candidates' values and numbers, in order,

so that blocks with the same text and the same own values are one class: a GROUP BY. Which
candidates a class has besides is known without looking: those of the marked arguments' classes
that are not listed. What comes back are classes of blocks.

A crossing function that does not mention all arguments would make every candidate of its rows
listed. The relations of such predicates (three arguments and more) are read and counted in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import MAX_SIGNATURES, too_many_classes
from lapis.counting.differences.atom_differences import differences_in
from lapis.counting.differences.block_classes import Candidates, count_candidates
from lapis.stores.counting.differences import StoredDifferences
from lapis.stores.counting.signatures import (
    StoredFunction,
    join_functions,
    unite_functions,
)


class _Sides(NamedTuple):
    """The functions of a difference by the arguments that they mention."""

    own: list[StoredFunction]  # only unmarked ones
    marked: list[StoredFunction]  # only marked ones
    crossing: list[StoredFunction]  # both


def count_stored_candidates(differences: StoredDifferences) -> Candidates:
    """The candidates of all blocks, blocks merged where they have the same ones."""
    if any(
        len(each.positions) < differences.target.predicate.arity
        for each in _sides(differences).crossing
    ):
        world, target = differences.world.read(), differences.target
        return count_candidates(
            differences_in(world, target, differences.features, differences.keys)
        )
    predicate, sizes = differences.target.predicate, differences.sizes
    unmarked = [place for place in range(predicate.arity) if place not in predicate.block]
    counter, sides = differences.counter, _sides(differences)
    truth = len(differences.groups)
    groups = [group for each in (*sides.crossing, *sides.marked) for group in each.groups]
    groups.append(truth)

    listed = join_functions(_list_candidates(differences, sides.crossing), sides.marked)
    found = _count_blocks(differences, listed, unmarked, groups, sides.own)
    marked = counter.count_everywhere(sides.marked, {p: sizes[p] for p in predicate.block})
    every = counter.count_everywhere(sides.own, {p: sizes[p] for p in unmarked})
    silent = dict(zip(map(tuple, every.value.tolist()), every.multiplicity.tolist(), strict=True))
    for block in found:
        silent[block.own] -= block.number
    found += [_Blocks(own, (), number) for own, number in silent.items() if number]

    values: list[np.ndarray] = []
    owner: list[int] = []
    multiplicity: list[int] = []
    places = [groups.index(g) for each in sides.marked for g in each.groups]
    marked_groups = [groups[place] for place in places]
    for number, block in enumerate(found):
        own = np.array(block.own, np.int64)
        left = dict(
            zip(
                map(tuple, marked.value[:, marked_groups].tolist()),
                marked.multiplicity.tolist(),
                strict=True,
            )
        )
        for codes, count in block.listed:
            value = own.copy()
            value[groups] = codes
            values.append(value)
            multiplicity.append(count)
            left[tuple(codes[place] for place in places)] -= count
        for codes, count in left.items():
            if count:
                value = own.copy()
                value[marked_groups] = codes
                values.append(value)
                multiplicity.append(count)
        owner += [number] * (len(values) - len(owner))
    table = np.array(values, np.int64).reshape(len(values), len(differences.groups) + 1)
    return Candidates(
        np.array(owner, np.int64),
        differences.vectors(differences.when_false).at_signatures(table),
        table[:, truth] > 0,
        np.array(multiplicity, np.int64),
        np.array([block.number for block in found], np.int64),
    )


class _Blocks(NamedTuple):
    """Blocks with the same own values and listed candidates."""

    own: tuple[int, ...]  # codes of all groups, 0 for those that are not own
    listed: tuple[tuple[tuple[int, ...], int], ...]  # codes of the other groups, how many
    number: int


def _sides(differences: StoredDifferences) -> _Sides:
    marked = set(differences.target.predicate.block)
    sides = _Sides([], [], [])
    for function in differences.functions(differences.when_false):
        inside = marked.intersection(function.positions)
        if not inside:
            sides.own.append(function)
        elif len(inside) == len(function.positions):
            # Where nothing is unmarked these mention all there is to mention.
            sides.marked.append(function)
        else:
            sides.crossing.append(function)
    return sides


def _list_candidates(
    differences: StoredDifferences, crossing: Sequence[StoredFunction]
) -> StoredFunction:
    """The candidates that a crossing function or the data lists."""
    places = tuple(range(differences.target.predicate.arity))
    truth = StoredFunction(places, (len(differences.groups),), differences.true_rows)
    return unite_functions(differences.scratch, [*crossing, truth])


def _count_blocks(
    differences: StoredDifferences,
    listed: StoredFunction,
    unmarked: Sequence[int],
    groups: Sequence[int],
    own: Sequence[StoredFunction],
) -> list[_Blocks]:
    """The blocks with listed candidates."""
    dialect, codes = differences.engine.store.dialect, differences.counter.codes
    keys = [f"p{place}" for place in unmarked]
    values = [f"g{group}" for group in groups]
    counted = (
        f"SELECT {', '.join([*keys, *values, 'count(*) AS k'])} FROM {listed.source} t "
        f"GROUP BY {', '.join([*keys, *values])}"
    )
    text = " || ':' || ".join(map(dialect.as_text, [*values, "k"]))
    grouped = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
    written = (
        f"(SELECT {', '.join([*keys, f'{dialect.join_texts(text)} AS v'])} "
        f"FROM ({counted}) t{grouped})"
    )
    columns = [f"g{group}" for each in own for group in each.groups]
    joined = join_functions(StoredFunction(tuple(unmarked), (), written), own, extra=("v",))
    query = (
        f"SELECT {', '.join(['v', *columns, 'count(*) AS num'])} FROM {joined.source} t "
        f"GROUP BY {', '.join(['v', *columns])} LIMIT {MAX_SIGNATURES + 1}"
    )
    found: list[_Blocks] = []
    for batch in differences.engine.store.fetch(query):
        value = np.zeros((len(batch["num"]), len(differences.groups) + 1), np.int64)
        for each in own:
            for group in each.groups:
                value[:, group] = codes.encode(group, batch[f"g{group}"])
        for row, line, number in zip(
            value.tolist(), batch["v"].tolist(), batch["num"].tolist(), strict=True
        ):
            entries = [tuple(map(int, entry.split(":"))) for entry in line.split(",")]
            candidates = tuple(
                (tuple(codes.number(g, v) for g, v in zip(groups, entry, strict=False)), entry[-1])
                for entry in entries
            )
            found.append(_Blocks(tuple(row), candidates, number))
        if len(found) > MAX_SIGNATURES:
            raise too_many_classes(len(found))
    return found
