"""Upper bounds of log Z by forests: tree-reweighted sums.

log Z is convex in the terms of the score (Wainwright, Jaakkola and Willsky, A new class of upper
bounds on the log partition function, IEEE Trans. Information Theory 2005). Spread the score over
forests,

    score = Σ_t ρ_t · score_t      ⇒      log Z ≤ Σ_t ρ_t · log Z_t

with the terms of each forest free of cycles, so that log Z_t is one pass from its leaves to its
roots. However the score is spread, this is a bound: the spreading is only improved, by moving each
forest's terms towards what all forests together believe of an atom or a table, with steps that are
halved where they do not help. Wainwright's message passing finds the same optimum from
probabilities of edges; but its messages are a bound only where they have converged, and forests
that are written out are one at any time.

Forests are greedy: each takes first what no earlier one has, then whatever else makes no cycle, so
that all terms occur and most occur often. All have the same ρ. Terms over three or four
atoms are tables like pairs (`clause_tables`), longer ones are left out at their largest value. What
the forests fall short of the score by rounding is added to the bound.

In each forest P_t(x) is known for every atom, and log Z_t(x) = log Z_t + log P_t(x): the same
forests bound the clamped sums, log Z(x) ≤ bound + Σ_t ρ_t log P_t(x), and with a lower bound of
log Z these are bounds of marginals. They are worth something in small components: the gap between
an upper and a lower bound of log Z grows with the number of atoms.

Clauses that tell of the same few atoms as one table, for methods that walk on trees.

A table over a set of atoms takes in every clause whose atoms are among them: two clauses of one
pair would be a cycle, where one table is an edge. Clauses of more than `MAX_SCOPE` atoms are left
out: in a sum over worlds that is at most their largest value, max(0, w), and 0 where they are hard.
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
MAX_NUMBERS = 20_000_000  # of all forests: fields and entries
GAINED = 1e-4  # of the bound in a round, for each atom: less is not worth another
FIRST_STEP = 0.5
ROUNDING = 2.0**-51


class UpperBound(NamedTuple):
    value: np.ndarray  # float64[num_components], without the constant
    true: np.ndarray  # float64[num_atoms], Σ_t ρ_t log P_t(atom true)
    false: np.ndarray  # float64[num_atoms]


class ForestSpread(NamedTuple):
    """How the score is spread: what each forest has of it, times 1/ρ."""

    field: np.ndarray  # float64[num_forests, num_atoms]
    score: np.ndarray  # float64[num_entries of all copies]


class ForestSums(NamedTuple):
    """What the forests say together."""

    value: np.ndarray  # float64[num_components]
    loud: np.ndarray  # float64[num_components], the sizes of all numbers that were added
    atoms: np.ndarray  # float64[num_forests, num_atoms, 2], logarithms of chances
    belief: np.ndarray  # float64[num_entries of all copies]


def bound_by_forests(
    terms: ScoreTerms, component: np.ndarray, num_components: int, stop: Stop | None
) -> UpperBound | None:
    """The bound by forests; None where there would be too many."""
    tables = find_tables(terms)
    forests = find_forests(tables, terms.num_atoms)
    if forests is None:
        return None
    number = len(forests.start) - 1
    copies = np.bincount(forests.table, minlength=len(tables.scope_start) - 1)
    entry = copied_entries(tables, forests)
    share = np.repeat(number / copies[forests.table], np.diff(forests.entry_start))
    spread = ForestSpread(np.tile(terms.field, (number, 1)), tables.entry[entry] * share)
    best, look = lower_bound_by_moves(tables, forests, spread, component, num_components, stop)

    lacking = np.zeros(num_components)
    np.add.at(lacking, component, shortfall(terms.field, best.field.mean(axis=0)))
    missing = shortfall(tables.entry, np.bincount(entry, best.score, len(tables.entry)) / number)
    owner = component[tables.scope[tables.scope_start[:-1]]]
    np.add.at(lacking, np.repeat(owner, np.diff(tables.entry_start)), missing)
    left_out = np.where(np.isinf(terms.weight), 0.0, np.maximum(terms.weight, 0.0))
    first = np.abs(terms.literal[terms.start[tables.left_out]]) - 1
    np.add.at(lacking, component[first], left_out[tables.left_out])
    # The differences above are themselves rounded, by less than this of what was added.
    count = 16 + number + np.bincount(component, minlength=num_components)
    value = look.value + lacking + ROUNDING * count * (look.loud + np.abs(look.value) + lacking)
    true, false = mean_log_marginals(look.atoms)
    return UpperBound(value, true, false)


def shortfall(wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
    """|wanted − found| where that is finite; what is certain or forbidden is so in all forests."""
    known = np.isfinite(wanted)
    return np.abs(np.subtract(wanted, found, where=known, out=np.zeros(len(wanted))))


def find_forests(tables: ScopeTables, num_atoms: int) -> Forests | None:
    """Forests until each table is in one; None where that takes too many."""
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
    """int64[num_entries of all copies], the entry of `tables` that each is a copy of."""
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
    """Move the spread towards agreement while that lowers the bound."""
    entry = copied_entries(tables, forests)
    copies = np.bincount(forests.table, minlength=len(tables.scope_start) - 1)
    each = np.repeat(np.maximum(copies, 1), np.diff(tables.entry_start))
    number, step = len(forests.start) - 1, FIRST_STEP
    best = sum_forests(tables, forests, spread, component, num_components)
    for _ in range(MAX_ROUNDS if number > 1 else 0):
        if step < FIRST_STEP / 64 or (stop is not None and stop.is_over()):
            break
        with np.errstate(invalid="ignore"):  # what is certain stays as it is
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
            if gain < GAINED * spread.field.shape[1]:
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
    """The bound of a spread, and what each forest believes."""
    number, num_atoms = spread.field.shape
    value, loud = np.zeros((2, num_components))
    atoms = np.zeros((number, num_atoms, 2))
    belief, message = np.zeros(len(spread.score)), np.zeros((len(forests.table), 2))
    for forest in range(number):
        collect_forest(
            tables, forests, forest, spread.field[forest], spread.score, component, value, loud,
            atoms[forest], message, belief,
        )  # fmt: skip
        distribute_forest(tables, forests, forest, atoms[forest], message, belief)
    return ForestSums(value / number, loud / number, atoms, belief)


def mean_log_marginals(atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ_t ρ_t log P_t of true and of false, rounded up, float64[num_atoms] each."""
    total = np.logaddexp(atoms[:, :, 0], atoms[:, :, 1])
    loud = np.where(np.isfinite(atoms), np.abs(atoms), 0.0).max(axis=(0, 2), initial=0.0)
    doubt = 64 * ROUNDING * (1.0 + loud) * len(atoms)
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
    """The tables of all clauses of at most `MAX_SCOPE` atoms."""
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
    """int64[num_rows], a larger scope that holds each row of atoms, −1 where there is none."""
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
    """Add clauses of one length to their tables, by the length of these."""
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
