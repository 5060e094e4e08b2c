"""Upper bounds of log Z by forests: tree-reweighted sums.

Wainwright, Jaakkola and Willsky, A new class of upper bounds on the log partition function, IEEE
Trans. Information Theory 2005. log Z is convex in the terms of the score, so if these are divided
between forests,

    score = Σ_t ρ_t · score_t      ⇒      log Z ≤ Σ_t ρ_t · log Z_t

where log Z_t is one pass from leaves to roots. Any division gives a bound. It is improved by moving
each forest's terms towards the mean belief of all forests, with steps that are halved when they do
not help. Wainwright's message passing finds the same optimum, but its messages are a bound only
after convergence.

Forests are chosen greedily: first tables that no earlier forest has, then others that close no
cycle. All have the same ρ. The tables are over up to four atoms; a table takes every clause over a
subset of its atoms, since two clauses over one pair would form a cycle. Longer clauses are replaced
by their maximum, max(0, w) (0 if hard). Rounding of the division is added to the bound.

The same forests bound clamped sums, log Z(x) ≤ bound + Σ_t ρ_t log P_t(x). With a lower bound of
log Z these bound marginals. That helps in small components only: the gap between upper and lower
bound of log Z grows with the number of atoms.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.forests_kernel import (
    Forests,
    choose_forest,
    collect_forest,
    distribute_forest,
    order_forest,
)
from lapis.inference.bounds.terms import ScoreTerms
from lapis.network.csr import row_starts
from lapis.runtime.progress import Stop

MAX_ROUNDS = 60
MAX_NUMBERS = 20_000_000  # fields and entries of all forests
MIN_GAIN = 1e-4  # of the bound in a round, for each atom
FIRST_STEP = 0.5
ROUNDING = 2.0**-51


class UpperBound(NamedTuple):
    """An upper bound of log Z, and mean log-marginals of the forests."""

    value: np.ndarray  # float64[num_components], without the constant
    true: np.ndarray  # float64[num_atoms], Σ_t ρ_t log P_t(atom true)
    false: np.ndarray  # float64[num_atoms]


class ForestSpread(NamedTuple):
    """The division of the score: each forest's terms, times 1/ρ."""

    field: np.ndarray  # float64[num_forests, num_atoms]
    score: np.ndarray  # float64[num_entries of all copies]


class ForestSums(NamedTuple):
    """The sums and beliefs of all forests."""

    value: np.ndarray  # float64[num_components]
    total: np.ndarray  # float64[num_components], Σ |terms| that were added
    atoms: np.ndarray  # float64[num_forests, num_atoms, 2], log-probabilities
    belief: np.ndarray  # float64[num_entries of all copies]


def bound_by_forests(
    terms: ScoreTerms, component: np.ndarray, num_components: int, stop: Stop | None
) -> UpperBound | None:
    """Bound log Z by forests; None if they would be too large."""
    tables = find_tables(terms)
    forests = find_forests(tables, terms.num_atoms)
    if forests is None:
        return None
    number = len(forests.start) - 1
    copies = np.bincount(forests.table, minlength=len(tables.scope_start) - 1)
    entry = copied_entries(tables, forests)
    share = np.repeat(number / copies[forests.table], np.diff(forests.entry_start))
    spread = ForestSpread(np.tile(terms.field, (number, 1)), tables.entry[entry] * share)
    best, sums = lower_bound_by_moves(tables, forests, spread, component, num_components, stop)

    lacking = np.zeros(num_components)
    np.add.at(lacking, component, shortfall(terms.field, best.field.mean(axis=0)))
    missing = shortfall(tables.entry, np.bincount(entry, best.score, len(tables.entry)) / number)
    owner = component[tables.scope[tables.scope_start[:-1]]]
    np.add.at(lacking, np.repeat(owner, np.diff(tables.entry_start)), missing)
    left_out = np.where(np.isinf(terms.weight), 0.0, np.maximum(terms.weight, 0.0))
    first = np.abs(terms.literal[terms.start[tables.left_out]]) - 1
    np.add.at(lacking, component[first], left_out[tables.left_out])
    # Bounds the rounding errors of the differences above.
    count = 16 + number + np.bincount(component, minlength=num_components)
    value = sums.value + lacking + ROUNDING * count * (sums.total + np.abs(sums.value) + lacking)
    true, false = mean_log_marginals(sums.atoms)
    return UpperBound(value, true, false)


def shortfall(terms: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return how far the divided terms fall short of the terms, rounded up."""
    known = np.isfinite(terms)
    return np.abs(np.subtract(terms, found, where=known, out=np.zeros(len(terms))))


def find_forests(tables: ScopeTables, num_atoms: int) -> Forests | None:
    """Choose forests that cover all tables; None if they would be too large."""
    count = len(tables.scope_start) - 1
    near = np.argsort(tables.scope, kind="stable")
    owner = np.repeat(np.arange(count, dtype=np.int32), np.diff(tables.scope_start))
    near_start = row_starts(np.bincount(tables.scope, minlength=num_atoms))
    covered, leader = np.zeros(count, bool), np.zeros(num_atoms, np.int32)
    seen, queue = np.zeros(num_atoms, bool), np.zeros(num_atoms, np.int32)
    room = np.zeros(count, np.int32), np.zeros(count, np.int8)
    members: list[np.ndarray] = []
    above: list[np.ndarray] = []
    size = 0
    while not members or not covered.all():
        chosen = np.zeros(count, bool)
        choose_forest(tables, covered, leader, chosen)
        length = order_forest(tables, near_start, owner[near], chosen, seen, queue, *room)
        members.append(room[0][:length].copy())
        above.append(room[1][:length].copy())
        size += num_atoms + 4 * length + count
        if size > MAX_NUMBERS:
            return None
    table = np.concatenate(members)
    width = tables.entry_start[table + 1] - tables.entry_start[table]
    lengths = np.array([len(part) for part in members])
    return Forests(row_starts(lengths), table, np.concatenate(above), row_starts(width))


def copied_entries(tables: ScopeTables, forests: Forests) -> np.ndarray:
    """Return the entry of `tables` of each copied entry, int64[num_entries of all copies]."""
    width = np.diff(forests.entry_start)
    begin = np.repeat(tables.entry_start[forests.table] - forests.entry_start[:-1], width)
    return begin + np.arange(forests.entry_start[-1])


def lower_bound_by_moves(
    tables: ScopeTables,
    forests: Forests,
    spread: ForestSpread,
    component: np.ndarray,
    num_components: int,
    stop: Stop | None,
) -> tuple[ForestSpread, ForestSums]:
    """Move the division towards agreement while that lowers the bound."""
    entry = copied_entries(tables, forests)
    copies = np.bincount(forests.table, minlength=len(tables.scope_start) - 1)
    each = np.repeat(np.maximum(copies, 1), np.diff(tables.entry_start))
    number, step = len(forests.start) - 1, FIRST_STEP
    best = sum_forests(tables, forests, spread, component, num_components)
    for _ in range(MAX_ROUNDS if number > 1 else 0):
        if step < FIRST_STEP / 64 or (stop is not None and stop.is_over()):
            break
        with np.errstate(invalid="ignore"):  # certain entries do not change
            odds = best.atoms[:, :, 1] - best.atoms[:, :, 0]
            away = odds - odds.mean(axis=0)
            mean = np.bincount(entry, best.belief, len(tables.entry)) / each
            apart = best.belief - mean[entry]
        away[:, ~np.isfinite(away).all(axis=0)] = 0.0
        apart[~np.isfinite(mean)[entry] | ~np.isfinite(spread.score)] = 0.0
        moved = ForestSpread(spread.field - step * away, spread.score - step * apart)
        found = sum_forests(tables, forests, moved, component, num_components)
        gain = float(best.value.sum() - found.value.sum())
        if gain > 0:
            spread, best = moved, found
            if gain < MIN_GAIN * spread.field.shape[1]:
                break
        else:
            step /= 2
    return spread, best


def sum_forests(
    tables: ScopeTables,
    forests: Forests,
    spread: ForestSpread,
    component: np.ndarray,
    num_components: int,
) -> ForestSums:
    """Return the bound of a division, and the beliefs of each forest."""
    number, num_atoms = spread.field.shape
    value, total_size = np.zeros((2, num_components))
    atoms = np.zeros((number, num_atoms, 2))
    belief, message = np.zeros(len(spread.score)), np.zeros((len(forests.table), 2))
    for forest in range(number):
        collect_forest(
            tables, forests, forest, spread.field[forest], spread.score, component, value,
            total_size, atoms[forest], message, belief,
        )  # fmt: skip
        distribute_forest(tables, forests, forest, atoms[forest], message, belief)
    return ForestSums(value / number, total_size / number, atoms, belief)


def mean_log_marginals(atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ_t ρ_t log P_t of true and of false, rounded up, float64[num_atoms] each."""
    total = np.logaddexp(atoms[:, :, 0], atoms[:, :, 1])
    largest = np.where(np.isfinite(atoms), np.abs(atoms), 0.0).max(axis=(0, 2), initial=0.0)
    doubt = 64 * ROUNDING * (1.0 + largest) * len(atoms)
    false, true = ((atoms[:, :, side] - total).mean(axis=0) + doubt for side in range(2))
    return true, false


MAX_SCOPE = 4


class ScopeTables(NamedTuple):
    """Scores of the states of sets of atoms; the first atom of a scope is the highest bit."""

    scope_start: np.ndarray  # int64[num_tables + 1]
    scope: np.ndarray  # int32[...], atoms
    entry_start: np.ndarray  # int64[num_tables + 1]
    entry: np.ndarray  # float64[...], −inf where forbidden
    left_out: np.ndarray  # int64[...], clauses in no table


def find_tables(terms: ScoreTerms) -> ScopeTables:
    """Build the tables of all clauses of at most `MAX_SCOPE` atoms."""
    length = np.diff(terms.start)
    scopes: list[np.ndarray] = []  # of each length from MAX_SCOPE down, int32[..., length]
    home = np.full(len(length), -1, np.int64)  # the table that takes a clause
    offset = 0
    for size in range(MAX_SCOPE, 1, -1):
        mine = np.flatnonzero(length == size)
        atoms = np.sort(np.abs(terms.literal[terms.start[mine][:, None] + np.arange(size)]) - 1)
        taken = find_larger_scope(atoms, scopes)
        home[mine] = taken
        own = taken < 0
        rows, place = np.unique(atoms[own], axis=0, return_inverse=True)
        home[mine[own]] = offset + place.ravel()
        scopes.append(rows.astype(np.int32))
        offset += len(rows)
    sizes = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in scopes])
    scope = np.concatenate([rows.ravel() for rows in scopes])
    scope_start, entry_start = row_starts(sizes), row_starts(1 << sizes)
    entry = np.zeros(entry_start[-1])
    for size in range(2, MAX_SCOPE + 1):
        clauses = np.flatnonzero(length == size)
        add_clauses(terms, clauses, size, home, scope_start, scope, entry_start, entry)
    return ScopeTables(scope_start, scope, entry_start, entry, np.flatnonzero(home < 0))


def find_larger_scope(atoms: np.ndarray, scopes: list[np.ndarray]) -> np.ndarray:
    """Return a larger scope that contains each row of atoms, int64[num_rows]; −1 if none."""
    found = np.full(len(atoms), -1, np.int64)
    offset = 0
    for rows in scopes:
        for chosen in combinations(range(rows.shape[1]), atoms.shape[1]):
            part, first = np.unique(rows[:, chosen], axis=0, return_index=True)
            both = np.concatenate((part, atoms.astype(np.int32)))
            _, place = np.unique(both, axis=0, return_inverse=True)
            place = place.ravel()
            owner = np.full(int(place.max(initial=0)) + 1, -1, np.int64)
            owner[place[: len(part)]] = offset + first
            found = np.where(found < 0, owner[place[len(part) :]], found)
        offset += len(rows)
    return found


def add_clauses(
    terms: ScoreTerms, clauses: np.ndarray, size: int, home: np.ndarray, scope_start: np.ndarray,
    scope: np.ndarray, entry_start: np.ndarray, entry: np.ndarray,
) -> None:  # fmt: skip
    """Add clauses of one length to their tables."""
    literal = terms.literal[terms.start[clauses][:, None] + np.arange(size)]
    table = home[clauses]
    width = scope_start[table + 1] - scope_start[table]
    for wide in np.unique(width).tolist():
        here = width == wide
        rows, own, weight = literal[here], table[here], terms.weight[clauses[here]]
        members = scope[scope_start[own][:, None] + np.arange(wide)]
        state = np.arange(1 << wide)
        bit = (state[:, None] >> np.arange(wide - 1, -1, -1)) & 1  # [state, axis]
        axis = (np.abs(rows)[:, :, None] - 1 == members[:, None, :]).argmax(axis=2)
        holds = (bit[:, axis] == (rows > 0)).any(axis=2)  # [state, clause]
        score = np.where(holds, np.where(np.isinf(weight), 0.0, weight),
                         np.where(np.isinf(weight), -np.inf, 0.0))  # fmt: skip
        np.add.at(entry, entry_start[own] + state[:, None], score)
