"""Order the joins of a sum-product so that intermediate results stay small.

A term Σ_{x not in keep} Π_i f_i(x) is contracted pair by pair: join the two factors whose join is
estimated cheapest, and sum out every variable that nothing else needs. This is variable elimination
(Dechter 1999, "Bucket Elimination: A Unifying Framework for Reasoning") with two factors at a time,
as tensor networks are contracted. Factors over a subset of another's variables are joined first and
private variables summed out first, since both only shrink. A filter (a comparison, or tuples that
must be absent) is applied as soon as one factor has all its variables. An order comparison of two
otherwise unconnected factors joins them by ranges.

The order depends on estimates only, so a plan can be made, printed and its cost estimated before
it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, TypeVar

from lapis.relational.algebra import (
    Expression,
    Filter,
    Join,
    Project,
    RangeJoin,
    Restrict,
    Test,
    Without,
)
from lapis.relational.query_plan import OVERHEAD, FactorSize, estimate_join, estimate_projection

T = TypeVar("T")
Name = TypeVar("Name")


def group_connected(items: Iterable[T], names: Callable[[T], Set[Name]]) -> list[list[T]]:
    """Group items so that different groups share no name.

    >>> group_connected([(1, 2), (3,), (2, 4)], set)
    [[(3,)], [(1, 2), (2, 4)]]
    """
    groups: list[tuple[Set[Name], list[T]]] = []
    for item in items:
        own, members, others = names(item), [item], []
        for group in groups:
            if own & group[0]:
                own, members = own | group[0], group[1] + members
            else:
                others.append(group)
        groups = [*others, (own, members)]
    return [members for _, members in groups]


class Contraction(NamedTuple):
    """An expression, the estimated shape of its result, and the estimated rows touched."""

    expression: Expression
    shape: FactorSize
    cost: float

    @property
    def variables(self) -> tuple[str, ...]:
        return self.expression.variables


def plan_contraction(
    leaves: Sequence[Contraction], filters: Sequence[Filter], keep: tuple[str, ...]
) -> Contraction:
    """Join the leaves, apply the filters and sum out all but `keep`.

    Every variable of `filters` and of `keep` must occur in a leaf.
    """
    parts = list(leaves)
    pending = list(filters)
    while True:
        parts = [_apply_filters(part, pending) for part in parts]
        needs = _Needs(parts, pending, keep)
        parts = [_project_part(part, needs.outside(part)) for part in parts]
        if len(parts) == 1:
            break
        step = _cheapest_step(parts, needs)
        parts = [part for at, part in enumerate(parts) if at not in step.pair]
        parts.append(step.result)
        if step.used is not None:
            pending.remove(step.used)
    return _project_part(parts[0], keep)


class _Step(NamedTuple):
    """A join of two parts, and the test that it applied."""

    pair: tuple[int, int]
    result: Contraction
    used: Test | None


class _Needs:
    """The variables that are needed outside a given set of parts."""

    def __init__(
        self, parts: Sequence[Contraction], pending: Sequence[Filter], keep: tuple[str, ...]
    ) -> None:
        self.uses: dict[str, int] = {}
        for part in parts:
            for name in part.variables:
                self.uses[name] = self.uses.get(name, 0) + 1
        self.keep = frozenset(keep)
        self.pending = pending
        self.wanted = self._without(None)

    def outside(self, *group: Contraction, used: Test | None = None) -> tuple[str, ...]:
        """List the variables of the group that other parts, filters or the result need."""
        inside: dict[str, int] = {}
        for part in group:
            for name in part.variables:
                inside[name] = inside.get(name, 0) + 1
        wanted = self.wanted if used is None else self._without(used)
        uses = self.uses
        return tuple(
            [name for name, count in inside.items() if name in wanted or uses[name] > count]
        )

    def _without(self, used: Test | None) -> frozenset[str]:
        """Return the kept variables and those of all filters but one."""
        return self.keep.union(*[found.variables for found in self.pending if found != used])

    def are_apart(self) -> bool:
        """Return whether neither variables nor filters connect any two parts.

        The smallest two are joined first then, without ranking all pairs.
        """
        return not self.pending and max(self.uses.values(), default=1) == 1

    def link(self, names: frozenset[str]) -> Filter | None:
        """Find a filter over these variables."""
        return next((found for found in self.pending if names.issuperset(found.variables)), None)


def _apply_filters(part: Contraction, pending: list[Filter]) -> Contraction:
    """Apply the pending filters over the part's variables, and remove them from `pending`."""
    if not pending:
        return part
    names = frozenset(part.variables)
    for condition in [found for found in pending if names.issuperset(found.variables)]:
        pending.remove(condition)
        expression: Expression
        if isinstance(condition, Test):
            expression = Restrict(part.expression, condition)
        else:
            expression = Without(part.expression, condition)
        cost = part.cost + part.shape.rows + OVERHEAD
        part = Contraction(expression, part.shape, cost)
    return part


def _project_part(part: Contraction, keep: tuple[str, ...]) -> Contraction:
    if keep == part.variables:
        return part
    shape = estimate_projection(part.shape, keep)
    cost = part.cost + part.shape.rows + shape.rows + OVERHEAD
    if isinstance(part.expression, Join | RangeJoin):
        # The join sums out variables while it multiplies.
        return Contraction(replace(part.expression, keep=keep), shape, part.cost)
    return Contraction(Project(part.expression, keep), shape, cost)


def _cheapest_step(parts: Sequence[Contraction], needs: _Needs) -> _Step:
    """Choose the next join: absorbing if possible, else connected, then the least work."""
    if len(parts) == 2:
        return _join_pair(parts, (0, 1), needs)
    if needs.are_apart():
        first, second = sorted(sorted(range(len(parts)), key=lambda at: parts[at].shape.rows)[:2])
        return _join_pair(parts, (first, second), needs)
    names = [frozenset(part.variables) for part in parts]
    ranked = [
        (_rank_pair(names[first], names[second], needs), (first, second))
        for first, second in combinations(range(len(parts)), 2)
    ]
    best = min(rank for rank, _ in ranked)
    steps = [_join_pair(parts, pair, needs) for rank, pair in ranked if rank == best]

    def work(step: _Step) -> tuple[float, float]:
        spent = sum(parts[at].cost for at in step.pair)
        return step.result.cost - spent, step.result.shape.rows

    return min(steps, key=work)


def _rank_pair(left: frozenset[str], right: frozenset[str], needs: _Needs) -> int:
    """Return 0 if one part absorbs the other, 1 if something connects them, else 2."""
    if left & right:
        return 0 if left <= right or right <= left else 1
    return 1 if needs.link(left | right) is not None else 2


def _join_pair(parts: Sequence[Contraction], pair: tuple[int, int], needs: _Needs) -> _Step:
    left, right = parts[pair[0]], parts[pair[1]]
    shared = set(left.variables).intersection(right.variables)
    test = None if shared else needs.link(frozenset((*left.variables, *right.variables)))
    if isinstance(test, Test) and test.orders:
        return _join_range(pair, left, right, test, needs)
    keep = needs.outside(left, right)
    pairs = estimate_join(left.shape, right.shape)
    shape = estimate_projection(pairs, keep)
    work = left.shape.rows + right.shape.rows + pairs.rows + shape.rows
    cost = left.cost + right.cost + work + OVERHEAD
    result = Contraction(Join(left.expression, right.expression, keep), shape, cost)
    return _Step(pair, result, None)


def _join_range(
    pair: tuple[int, int], left: Contraction, right: Contraction, test: Test, needs: _Needs
) -> _Step:
    """Join two unconnected parts by an order comparison."""
    if test.condition.left.name not in left.variables:
        left, right = right, left
    keep = needs.outside(left, right, used=test)
    shape = estimate_projection(estimate_join(left.shape, right.shape), keep)
    work = 2 * left.shape.rows + 2 * right.shape.rows + shape.rows
    if set(keep) & set(left.variables) and set(keep) & set(right.variables):
        work += left.shape.rows * right.shape.rows
    cost = left.cost + right.cost + work + OVERHEAD
    expression = RangeJoin(left.expression, right.expression, test, keep)
    return _Step(pair, Contraction(expression, shape, cost), test)
