"""A join plan: what is asked of a relational engine, as an immutable value.

A plan has variables, each ranging over the codes 0 … size − 1, and asks for

    { (outputs, count) : count = number of assignments to all variables with these outputs that
      match a row of every `join`, match no row of any `anti`, and meet every `comparison` }

over the rows with count > 0, sorted by the outputs. Everything grounding needs is of this form:
a negated literal over known facts is a join, a positive one an anti-join, and variables that no
output mentions are counted, not listed.

The variables of a plan fall into components that share no join, anti-join or comparison. The
answer is the product of the components' answers, so engines only ever run one component and the
product is taken here by `cross`: a clause over two unconnected variables costs two scans of a
domain in the engine and one outer product, not a cross join.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.language.syntax import ComparisonOperator

Column = str | int  # a variable, or the code of a constant

OPERATORS: Mapping[ComparisonOperator, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class Source(NamedTuple):
    """A stored relation with a variable or constant in each column."""

    relation: str
    columns: tuple[Column, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for c in self.columns if isinstance(c, str)))


class Comparison(NamedTuple):
    """left operator right + offset, required to hold (or, with holds=False, to fail).

    With `left_values` and `right_values` the codes are looked up in these value tables first; a
    comparison with a NaN never holds. Without them the codes themselves are compared.
    """

    operator: ComparisonOperator
    left: str
    right: str
    offset: float = 0.0
    left_values: str | None = None
    right_values: str | None = None
    holds: bool = True

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.left, self.right) if self.left != self.right else (self.left,)


@dataclass(frozen=True)
class JoinPlan:
    variables: tuple[tuple[str, int], ...]  # (name, size of its domain)
    joins: tuple[Source, ...] = ()
    antis: tuple[Source, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    outputs: tuple[str, ...] = ()

    @cached_property
    def size(self) -> Mapping[str, int]:
        return dict(self.variables)

    @property
    def edges(self) -> Iterator[tuple[str, ...]]:
        """The variables of each join, anti-join and comparison."""
        for source in (*self.joins, *self.antis):
            yield source.variables
        for comparison in self.comparisons:
            yield comparison.variables

    @cached_property
    def listed(self) -> bool:
        """There are outputs and every variable is one, so every count is one."""
        return bool(self.outputs) and set(self.outputs) >= self.size.keys()


@dataclass(frozen=True)
class Bindings:
    """The answer to a plan: one row for each assignment to its outputs."""

    columns: Mapping[str, np.ndarray]  # int32[num_rows] for each output
    count: np.ndarray  # float64[num_rows]

    def __len__(self) -> int:
        return len(self.count)


def split_components(plan: JoinPlan) -> list[JoinPlan]:
    """Independent parts of a plan. Parts without variables hold the sources of constants only."""
    leader = {name: name for name, _ in plan.variables}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for edge in plan.edges:
        for name in edge[1:]:
            leader[find(name)] = find(edge[0])
    members: dict[str, list[tuple[str, int]]] = {}
    for name, size in plan.variables:
        members.setdefault(find(name), []).append((name, size))

    def part(root: str | None, variables: Sequence[tuple[str, int]]) -> JoinPlan:
        def inside(names: tuple[str, ...]) -> bool:
            return (find(names[0]) if names else None) == root

        return JoinPlan(
            tuple(variables),
            tuple(s for s in plan.joins if inside(s.variables)),
            tuple(s for s in plan.antis if inside(s.variables)),
            tuple(c for c in plan.comparisons if inside(c.variables)),
            tuple(o for o in plan.outputs if find(o) == root),
        )

    parts = [part(root, variables) for root, variables in members.items()]
    constants = part(None, ())
    return [constants, *parts] if constants.joins or constants.antis else parts


def cross(plan: JoinPlan, parts: Sequence[Bindings]) -> Bindings:
    """The product of the answers to a plan's components, sorted by its outputs."""
    factor = 1.0
    listed = []
    for part in parts:
        if part.columns:
            listed.append(part)
        else:
            factor *= float(part.count.sum())
    if factor == 0.0:
        return empty_bindings(plan.outputs)
    rows = 1
    for part in listed:
        rows *= len(part)
    columns: dict[str, np.ndarray] = {}
    count = np.full(rows, factor)
    outer, inner = 1, rows
    for part in listed:
        inner //= max(len(part), 1)
        for name, column in part.columns.items():
            columns[name] = _spread(column, outer, inner)
        if not (part.count == 1.0).all():
            count *= _spread(part.count, outer, inner)
        outer *= len(part)
    ordered = {name: columns[name] for name in plan.outputs}
    if [name for part in listed for name in part.columns] == list(plan.outputs) or rows < 2:
        return Bindings(ordered, count)
    order = np.lexsort(list(reversed(list(ordered.values()))))
    return Bindings({name: c[order] for name, c in ordered.items()}, count[order])


def run_by_components(plan: JoinPlan, run: Callable[[JoinPlan], Bindings]) -> Bindings:
    """Run each component and multiply; stops at the first empty one."""
    parts = []
    for part in split_components(plan):
        answer = _whole_domain(part)
        if answer is None:
            answer = run(part)
        if len(answer) == 0:
            return empty_bindings(plan.outputs)
        parts.append(answer)
    return cross(plan, parts)


def empty_bindings(outputs: Sequence[str]) -> Bindings:
    return Bindings({name: np.empty(0, np.int32) for name in outputs}, np.empty(0))


def _whole_domain(part: JoinPlan) -> Bindings | None:
    """The answer for a variable that nothing restricts."""
    if len(part.variables) != 1 or any(True for _ in part.edges):
        return None
    (name, size), *_ = part.variables
    if part.outputs:
        return Bindings({name: np.arange(size, dtype=np.int32)}, np.ones(size))
    return Bindings({}, np.full(1, float(size)) if size else np.empty(0))


def _spread(column: np.ndarray, outer: int, inner: int) -> np.ndarray:
    """Each element `inner` times in a row, the whole `outer` times."""
    if inner > 1:
        column = np.repeat(column, inner)
    return np.tile(column, outer) if outer > 1 else column
