"""A component too large for a task: how large, and what would split it.

Two things can be done about it, and both are tried on the component's rows: to know the atoms of a
predicate, which takes them out of the network, and to do without a rule, which takes its clauses.
For each the components that would be left are found as they were before, and the best are said.
"""

from __future__ import annotations

from typing import NamedTuple

from lapis.errors import TooLarge
from lapis.grounding.assembly import HARD
from lapis.grounding.limits import describe_bytes
from lapis.problem.problem import Problem
from lapis.stores.components.contraction import connect
from lapis.stores.grounding.session import GroundTables
from lapis.stores.store import Store, Table, fetch_all, fetch_number

BYTES_A_LITERAL = 400  # of a component's network, its incidences and what inference keeps
MOST_TRIED = 8  # predicates, and as many rules
ENOUGH = 4  # by which a split has to make it smaller


class Largest(NamedTuple):
    """Where the largest component is."""

    sizes: Table  # component, literals
    rows: Table  # component, weight, piece, n, l0 …
    literals: int


class ComponentSplit(NamedTuple):
    """What would split a component, and the atoms of the largest one that would be left."""

    text: str
    left: int


def refuse_large(
    store: Store, ground: GroundTables, problem: Problem, largest: Largest, memory: int
) -> None:
    """Refuse a component that needs more than so many bytes."""
    name = fetch_number(
        store,
        f"SELECT min(component) AS n FROM {largest.sizes} WHERE literals = {largest.literals}",
    )
    rows = store.create("largest", f"SELECT * FROM {largest.rows} WHERE component = {name}")
    columns = [f"l{i}" for i in range(ground.width)]
    every = " UNION ".join(
        f"SELECT abs({column}) AS atom FROM {rows} WHERE {column} <> 0" for column in columns
    )
    num_atoms = fetch_number(store, f"SELECT count(*) AS n FROM ({every}) a")
    long = f"SELECT DISTINCT weight, piece FROM {rows} WHERE piece >= 0"
    num_clauses = fetch_number(
        store,
        f"SELECT (SELECT count(*) FROM {rows} WHERE piece < 0) + "
        f"(SELECT count(*) FROM ({long}) l) AS n",
    )
    splits = find_splits(store, ground, problem, rows)
    best = sorted(splits, key=lambda split: split.left)[:2]
    helpful = [split for split in best if split.left * ENOUGH <= num_atoms]
    told = [
        f"{split.text} would leave components of at most {split.left:,} atom"
        f"{'' if split.left == 1 else 's'}"
        for split in helpful
    ]
    raise TooLarge(
        f"a connected component has {num_atoms:,} unknown atoms and {num_clauses:,} ground "
        f"clauses; about {describe_bytes(largest.literals * BYTES_A_LITERAL)} of memory, over the "
        f"limit of {describe_bytes(memory)} for a task",
        code="component-too-large",
        hint="; ".join([*told, "or raise --max-memory" if told else "raise --max-memory"]),
    )


def find_splits(
    store: Store, ground: GroundTables, problem: Problem, rows: Table
) -> list[ComponentSplit]:
    """What each predicate's evidence, and each rule's absence, would leave."""
    found: list[ComponentSplit] = []
    for name, listing in list(ground.unknown.items())[:MOST_TRIED]:
        first, last = listing.numbers.start + 1, listing.numbers.stop
        left = largest_left(store, ground, rows, f"abs({{}}) NOT BETWEEN {first} AND {last}", "")
        found.append(ComponentSplit(f"evidence on '{name}'", left))
    offset = problem.weight_table.offset
    soft = [number for number, rule in enumerate(problem.model.rules) if not rule.hard]
    for number in soft[:MOST_TRIED]:
        own = f" AND weight NOT BETWEEN {offset[number]} AND {offset[number + 1] - 1}"
        left = largest_left(store, ground, rows, "{} <> 0", own)
        found.append(ComponentSplit(f"leaving out '{problem.model.rules[number].text}'", left))
    return found


def largest_left(store: Store, ground: GroundTables, rows: Table, is_left: str, where: str) -> int:
    """Atoms of the largest component of the literals that are left in some rows."""
    selects = [
        f"SELECT abs(l{i}) AS v, abs(l{j}) AS w FROM {rows} WHERE l{i} <> 0 AND l{j} <> 0 "
        f"AND {is_left.format(f'l{i}')} AND {is_left.format(f'l{j}')}{where}"
        for i in range(ground.width)
        for j in range(i + 1, ground.width)
    ]
    selects.append(
        f"SELECT piece + 1 AS v, abs(l0) AS w FROM {rows} WHERE weight < {HARD} "
        f"AND {is_left.format('l0')}{where}"
    )
    if ground.in_pieces:
        left = f"SELECT * FROM {rows} WHERE {is_left.format('l0')}{where}"
        selects.append(join_pieces(left))
    edges = store.create("edges left", " UNION ALL ".join(selects))
    labels = connect(store, edges, "labels left")
    found = fetch_all(
        store,
        "SELECT coalesce(max(size), 1) AS n FROM "
        f"(SELECT count(*) AS size FROM {labels} GROUP BY component) s",
    )
    store.drop(labels.name)
    return int(found["n"][0])


def join_pieces(rows: str) -> str:
    """A SELECT of pairs (v, w), atom + 1: the first literals of the pieces of one clause."""
    pieces = (
        f"SELECT weight, piece, abs(l0) AS w FROM ({rows}) r WHERE piece >= 0 AND weight >= {HARD}"
    )
    first = f"SELECT w, min(w) OVER (PARTITION BY weight, piece) AS v FROM ({pieces}) q"
    return f"SELECT v, w FROM ({first}) f WHERE v <> w"
