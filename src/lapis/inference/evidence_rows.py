"""Answers of a network to rows of evidence: each row is a question of its own.

Rows that observe the same variables have one junction tree, with the observed states cut out of
the tables (`table_tree`). Its arrays have an axis for the rows, so a thousand rows cost few more
numpy calls than one. If nearly every row observes other variables, all rows share the tree of the
whole network instead, and the evidence is multiplied into it as zeros and ones.

If a tree is too large or numbers underflow, there is no answer here, and each row is solved as a
world of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.inference.exact.by_tables import BYTES, drop_barren
from lapis.inference.exact.table_tree import Table, TableTree, Underflow, find_tree, solve_tree
from lapis.inference.marginals import EXACT
from lapis.language.model import Model
from lapis.results.answer import Answer
from lapis.results.atom_groups import AtomGroup, Atoms, variable_group
from lapis.runtime.progress import Stop

PIECE = 1 << 27  # bytes of the arrays of rows that are solved together
PLANNING = 2e-4  # seconds of a tree for each variable, in Python
ENTRY = 5e-9  # seconds for an entry of a clique in a row


class TooWide(ArithmeticError):
    """A junction tree is too large."""


class EvidenceAnswers(NamedTuple):
    """The answers to rows that were solved together."""

    rows: np.ndarray  # int64[num_chosen]
    log_partition: np.ndarray  # float64[num_chosen]
    marginal: Mapping[int, np.ndarray]  # float64[num_chosen, size] of asked variables


class NetworkTables:
    """The tables of a network as numbers."""

    def __init__(self, model: Model) -> None:
        self.names = list(model.predicates)
        number = {name: v for v, name in enumerate(self.names)}
        self.states = [model.types[name] for name in self.names]
        self.sizes = [len(states) for states in self.states]
        self.tables = [
            Table(tuple(number[name] for name in each.variables), np.exp(each.log_value)[None])
            for each in model.tables
        ]
        self.log_scale = sum(each.log_scale for each in model.tables)


def cut_rows(table: Table, states: np.ndarray, observed: np.ndarray) -> Table:
    """Restrict a table to the states that each row observes."""
    seen = [v for v in table.scope if observed[v]]
    if not seen:
        return table
    left = tuple(v for v in table.scope if not observed[v])
    axes = [1 + table.scope.index(v) for v in (*seen, *left)]
    value = table.value[0].transpose([axis - 1 for axis in axes])
    return Table(left, value[tuple(states[:, v] for v in seen)])


def solve_rows(
    model: Model, states: np.ndarray, asked: Sequence[int], max_bytes: float, stop: Stop
) -> Answer | None:
    """Return the marginals of variables in each row; None if rows must be solved apart.

    `states`, int32[num_rows, num_variables], are −1 where unobserved. Observed variables are
    answered by 0 and 1, unless all variables are asked because there is no query (`asked` empty).
    """
    network = NetworkTables(model)
    every = range(len(network.sizes))
    wanted = asked or every
    most = max_bytes / BYTES
    patterns, pattern = np.unique(states >= 0, axis=0, return_inverse=True)
    try:
        whole = shared_tree(network, len(patterns), len(states), most)
        if whole is not None:
            parts = list(solve_together(network, whole, states, wanted, stop))
        else:
            parts = []
            for number in range(len(patterns)):
                chosen = np.flatnonzero(pattern.reshape(-1) == number)
                parts += solve_pattern(network, states, chosen, wanted, most, stop)
    except (Underflow, TooWide):
        return None
    return join_rows(network, states, wanted, parts, shows_observed=len(asked) > 0)


def shared_tree(
    network: NetworkTables, num_patterns: int, num_rows: int, most_entries: float
) -> TableTree | None:
    """Return the tree of all variables if it costs less than a tree for each pattern."""
    if num_patterns == 1:
        return None
    every = [(v,) for v in range(len(network.sizes))]  # the evidence of each variable
    scopes = [*(table.scope for table in network.tables), *every]
    whole = find_tree(network.sizes, scopes, most_entries)
    planning = PLANNING * num_patterns * len(network.sizes)
    return whole if whole and ENTRY * whole.num_entries * num_rows < planning else None


def solve_together(
    network: NetworkTables, tree: TableTree, states: np.ndarray, asked: Sequence[int], stop: Stop
) -> Iterator[EvidenceAnswers]:
    """Solve rows on the tree of all variables, in pieces."""
    for rows in cut_into_pieces(np.arange(len(states)), tree):
        evidence = [
            Table((v,), ((own < 0) | (own == np.arange(size))).astype(np.float64))
            for v, size in enumerate(network.sizes)
            for own in [states[rows, v, None]]
        ]
        found = solve_tree(tree, [*network.tables, *evidence], asked, stop)
        yield EvidenceAnswers(rows, found.log_partition + network.log_scale, found.marginal)


def solve_pattern(
    network: NetworkTables,
    states: np.ndarray,
    chosen: np.ndarray,
    asked: Sequence[int],
    most_entries: float,
    stop: Stop,
) -> Iterator[EvidenceAnswers]:
    """Solve rows, int64[num_chosen], that observe the same variables, in pieces."""
    observed = states[chosen[0]] >= 0
    wanted = [v for v in asked if not observed[v]]
    cut = [cut_rows(table, states[chosen], observed) for table in network.tables]
    decided = [table.value for table in cut if not table.scope]
    if any((value <= 0.0).any() for value in decided):
        raise Underflow  # the row is impossible, which grounding reports
    tables, summed, log_scale = drop_barren(cut, set(wanted))
    tree = find_tree(network.sizes, [table.scope for table in tables], most_entries)
    if tree is None:
        raise TooWide
    log_scale = log_scale + network.log_scale + sum(np.log(value) for value in decided)
    for v in np.flatnonzero((tree.place < 0) & ~observed).tolist():
        log_scale = log_scale + (0.0 if v in summed else np.log(network.sizes[v]))
    inside = [v for v in wanted if tree.place[v] >= 0]
    even = {v: np.full((1, n), 1 / n) for v in wanted if (n := network.sizes[v])}
    for piece in cut_into_pieces(np.arange(len(chosen)), tree):
        own = [
            table if len(table.value) == 1 else Table(table.scope, table.value[piece])
            for table in tables
        ]
        found = solve_tree(tree, own, inside, stop)
        scale = log_scale if len(log_scale) == 1 else log_scale[piece]
        yield EvidenceAnswers(
            chosen[piece], found.log_partition + scale, even | dict(found.marginal)
        )


def cut_into_pieces(rows: np.ndarray, tree: TableTree) -> Iterator[np.ndarray]:
    """Yield runs of rows whose arrays fit `PIECE`."""
    size = max(1, int(PIECE / (BYTES * max(1, tree.num_entries))))
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def join_rows(
    network: NetworkTables,
    states: np.ndarray,
    asked: Sequence[int],
    parts: Sequence[EvidenceAnswers],
    *,
    shows_observed: bool,
) -> Answer:
    """Return one answer whose worlds are the rows, numbered from 1."""
    num_rows = len(states)
    log_partition = np.zeros(num_rows)
    found = {v: np.zeros((num_rows, network.sizes[v])) for v in asked}
    for part in parts:
        log_partition[part.rows] = part.log_partition
        for v, marginal in part.marginal.items():
            found[v][part.rows] = marginal
    for v in asked:
        seen = np.flatnonzero(states[:, v] >= 0)
        found[v][seen] = states[seen, v, None] == np.arange(network.sizes[v])
    names = [str(row + 1) for row in range(num_rows)]
    groups, values = [], []
    kinds = {v: new_group(network.names[v], network.states[v]) for v in asked}
    for row, name in enumerate(names):
        for v in asked:
            if shows_observed or states[row, v] < 0:
                groups.append(replace(kinds[v], world=name))
                values.append(found[v][row])
    each = [
        {"world": name, "method": EXACT, "exact": True, "log_partition": value}
        for name, value in zip(names, log_partition.tolist(), strict=True)
    ]
    return Answer(
        methods=(EXACT,),
        exact=True,
        log_partition=float(log_partition.sum()),
        asked=Atoms(tuple(groups), tuple(names)),
        probability=np.concatenate([*values, np.empty(0)]),
        stderr=None,
        expected_counts=np.empty(0),
        diagnostics={"worlds": each},
    )


def new_group(variable: str, states: Sequence[str]) -> AtomGroup:
    """Return the states of a variable."""
    codes = np.arange(len(states), dtype=np.int32).reshape(-1, 1)
    return variable_group(variable, codes, [Domain(variable, tuple(states))])
