"""The relations an engine holds, and textbook estimates of join sizes over them.

The estimate is the one of Selinger et al. (1979): the product of the relations' sizes, divided,
for each variable shared by several columns, by all but the smallest of the columns' numbers of
distinct values. It is off on skewed data, which is why engines also check while they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lapis.relational.join_plan import JoinPlan, split_components


@dataclass(frozen=True)
class RelationStore:
    rows: dict[str, np.ndarray] = field(default_factory=dict)  # int32[num_rows, arity], unique
    values: dict[str, np.ndarray] = field(default_factory=dict)  # float64[domain size]
    _distinct: dict[tuple[str, int], int] = field(default_factory=dict)

    def create(self, name: str, rows: np.ndarray) -> None:
        if name in self.rows:
            raise ValueError(f"relation {name!r} exists already")
        self.rows[name] = rows

    def num_distinct(self, name: str, column: int) -> int:
        key = (name, column)
        if key not in self._distinct:
            self._distinct[key] = len(np.unique(self.rows[name][:, column]))
        return self._distinct[key]


def estimate_join(store: RelationStore, part: JoinPlan) -> float:
    """Assignments that a component's joins leave before grouping, unbound domains multiplied."""
    rows = 1.0
    distinct: dict[str, list[int]] = {}
    for source in part.joins:
        rows *= len(store.rows[source.relation])
        for position, column in enumerate(source.columns):
            values = store.num_distinct(source.relation, position)
            if isinstance(column, str):
                distinct.setdefault(column, []).append(values)
            else:
                rows /= max(values, 1)
    for counts in distinct.values():
        for values in sorted(counts)[1:]:
            rows /= max(values, 1)
    for name, size in part.variables:
        if name not in distinct:
            rows *= size
    return rows


def estimate_rows(store: RelationStore, plan: JoinPlan) -> float:
    """Rows of the answer: no more than the outputs have values."""
    rows = 1.0
    for part in split_components(plan):
        outputs = 1.0
        for name in part.outputs:
            outputs *= part.size[name]
        rows *= min(estimate_join(store, part), outputs)
    return rows


def total_rows(store: RelationStore, names: Sequence[str]) -> int:
    return sum(len(store.rows[name]) for name in names)
