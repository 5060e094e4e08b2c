"""Join plans on numpy arrays, for work too small to be worth a database.

A component is evaluated by joining its smallest relation with whichever other makes the rows
grow least, as a sort-merge join on packed keys; filters apply as soon as their variables are
bound. (Taking the smallest relation next, whatever it shares, made nine million rows of ten
thousand on a citation database.)
As soon as nothing later needs a variable it is summed out: rows that agree on the rest become
one row with their counts added. A path of joins from which only the ends are asked is thereby
never listed whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.data.keys import pack
from lapis.errors import TooLarge
from lapis.relational.join_plan import (
    OPERATORS,
    Bindings,
    Comparison,
    JoinPlan,
    Source,
    empty_bindings,
    run_by_components,
)
from lapis.relational.relation_store import RelationStore, estimate_rows


class MemoryEngine:
    def __init__(self, store: RelationStore | None = None, max_rows: int = 2**31) -> None:
        self.store = store if store is not None else RelationStore()
        self.max_rows = max_rows

    def create_relation(self, name: str, rows: np.ndarray) -> None:
        self.store.create(name, rows)

    def create_values(self, name: str, values: np.ndarray) -> None:
        self.store.values[name] = values

    def fetch(self, plan: JoinPlan) -> Bindings:
        return run_by_components(plan, self.fetch_component)

    def estimate_rows(self, plan: JoinPlan) -> float:
        return estimate_rows(self.store, plan)

    def close(self) -> None:
        pass

    def fetch_component(self, part: JoinPlan) -> Bindings:
        table = _Table({}, np.ones(1))
        pending = [_restrict(self.store.rows[s.relation], s) for s in part.joins]
        antis = [_restrict(self.store.rows[s.relation], s) for s in part.antis]
        comparisons = list(part.comparisons)
        unbound = dict(part.variables)
        for source in pending:
            for name in source.columns:
                unbound.pop(name, None)
        while True:
            table, antis, comparisons = self._filter(part, table, antis, comparisons)
            needed = {name for other in (*pending, *antis) for name in other.columns}
            needed.update(part.outputs, *(c.variables for c in comparisons))
            table = _project(part, table, [name for name in table.columns if name in needed])
            if len(table.count) == 0:
                return empty_bindings(part.outputs)
            if pending:
                chosen = pending[0]
                if len(pending) > 1:
                    chosen = min(pending, key=lambda source: _growth(table, source))
                pending = [source for source in pending if source is not chosen]
                needed = {name for other in (*pending, *antis) for name in other.columns}
                needed.update(part.outputs, table.columns, *(c.variables for c in comparisons))
                chosen = _project(part, chosen, [n for n in chosen.columns if n in needed])
                table = self._join(part, table, chosen)
            elif unbound:
                name = min(unbound, key=lambda n: unbound[n])
                codes = np.arange(unbound.pop(name), dtype=np.int32)
                domain = _Table({name: codes}, np.ones(len(codes)))
                domain, antis, comparisons = self._filter(part, domain, antis, comparisons)
                table = self._join(part, table, domain)
            else:
                break
        table = _sort(part, table)
        return Bindings({name: table.columns[name] for name in part.outputs}, table.count)

    def _filter(
        self,
        part: JoinPlan,
        table: _Table,
        antis: Sequence[_Table],
        comparisons: Sequence[Comparison],
    ) -> tuple[_Table, list[_Table], list[Comparison]]:
        """Apply the anti-joins and comparisons whose variables are all bound."""
        later_antis, later_comparisons = [], []
        for anti in antis:
            if anti.columns.keys() <= table.columns.keys():
                table = _without(part, table, anti)
            else:
                later_antis.append(anti)
        for comparison in comparisons:
            if set(comparison.variables) <= table.columns.keys():
                table = table.take(_holds(self.store, table, comparison))
            else:
                later_comparisons.append(comparison)
        return table, later_antis, later_comparisons

    def _join(self, part: JoinPlan, left: _Table, right: _Table) -> _Table:
        shared = [name for name in right.columns if name in left.columns]
        sizes = [part.size[name] for name in shared]
        if shared:
            left_key, right_key = _pack_both(left, right, shared, sizes)
            order = np.argsort(right_key, kind="stable")
            right_key = right_key[order]
            first = np.searchsorted(right_key, left_key, "left")
            matches = np.searchsorted(right_key, left_key, "right") - first
            total = int(matches.sum())
            self._check_size(total)
            left_row = np.repeat(np.arange(len(left_key)), matches)
            within = np.arange(total) - np.repeat(np.cumsum(matches) - matches, matches)
            right_row = order[np.repeat(first, matches) + within]
        else:
            self._check_size(len(left.count) * len(right.count))
            left_row = np.repeat(np.arange(len(left.count)), len(right.count))
            right_row = np.tile(np.arange(len(right.count)), len(left.count))
        columns = {name: column[left_row] for name, column in left.columns.items()}
        for name, column in right.columns.items():
            if name not in columns:
                columns[name] = column[right_row]
        return _Table(columns, left.count[left_row] * right.count[right_row])

    def _check_size(self, rows: int) -> None:
        if rows > self.max_rows:
            raise TooLarge(
                f"a join gives {rows:,} rows, more than the {self.max_rows:,} that fit",
                code="too-large",
                hint="raise the memory limit, or give more evidence",
            )


@dataclass(frozen=True)
class _Table:
    columns: dict[str, np.ndarray]  # int32[num_rows] for each bound variable
    count: np.ndarray  # float64[num_rows]

    def take(self, rows: np.ndarray) -> _Table:
        return _Table({name: c[rows] for name, c in self.columns.items()}, self.count[rows])


def _restrict(rows: np.ndarray, source: Source) -> _Table:
    """The rows that match a source's constants and repeated variables, as variable columns."""
    keep: np.ndarray | None = None
    position_of: dict[str, int] = {}
    for position, column in enumerate(source.columns):
        if isinstance(column, str):
            if column not in position_of:
                position_of[column] = position
                continue
            matches = rows[:, position] == rows[:, position_of[column]]
        else:
            matches = rows[:, position] == column
        keep = matches if keep is None else keep & matches
    if keep is not None:
        rows = rows[keep]
    columns = {name: rows[:, position] for name, position in position_of.items()}
    return _Table(columns, np.ones(len(rows)))


def _growth(table: _Table, source: _Table) -> float:
    """Rows of `source` for each value of the columns it shares with `table`, about."""
    rows = len(source.count)
    values = 1
    for name, column in source.columns.items():
        if name in table.columns:
            values *= len(np.unique(column)) if rows > 1 else 1
    return rows / max(1, min(values, rows))


def _pack_both(
    left: _Table, right: _Table, names: Sequence[str], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Keys of both sides in one numbering (they must be packed together, ranks may be used)."""
    both = [np.concatenate((left.columns[name], right.columns[name])) for name in names]
    split = len(left.count)
    code = pack(both, sizes, split + len(right.count))
    return code[:split], code[split:]


def _without(part: JoinPlan, table: _Table, anti: _Table) -> _Table:
    """Rows that match no row of `anti`."""
    names = list(anti.columns)
    sizes = [part.size[name] for name in names]
    if not names:
        return table if len(anti.count) == 0 else table.take(np.empty(0, np.int64))
    left, right = _pack_both(table, anti, names, sizes)
    right = np.sort(right)
    at = np.searchsorted(right, left)
    at[at == len(right)] = 0
    found = right[at] == left if len(right) else np.zeros(len(left), bool)
    return table.take(~found)


def _holds(store: RelationStore, table: _Table, comparison: Comparison) -> np.ndarray:
    left, right = table.columns[comparison.left], table.columns[comparison.right]
    if comparison.left_values is not None:
        left = store.values[comparison.left_values][left]
    if comparison.right_values is not None:
        right = store.values[comparison.right_values][right]
    result = OPERATORS[comparison.operator](left, right + comparison.offset)
    # numpy says NaN != NaN is true; a comparison with something that is no number never holds.
    result &= ~(np.isnan(left) | np.isnan(right))
    return result if comparison.holds else ~result


def _project(part: JoinPlan, table: _Table, names: Sequence[str]) -> _Table:
    """Sum out the variables not in `names`."""
    if len(names) == len(table.columns):
        return table
    columns = [table.columns[name] for name in names]
    code = pack(columns, [part.size[name] for name in names], len(table.count))
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    count = np.bincount(inverse, weights=table.count, minlength=len(first))
    return _Table({name: c[first] for name, c in zip(names, columns, strict=True)}, count)


def _sort(part: JoinPlan, table: _Table) -> _Table:
    names = part.outputs
    if not names:
        return table
    columns = [table.columns[name] for name in names]
    code = pack(columns, [part.size[name] for name in names], len(table.count))
    if len(code) < 2 or (code[1:] > code[:-1]).all():
        return table
    return table.take(np.argsort(code, kind="stable"))
