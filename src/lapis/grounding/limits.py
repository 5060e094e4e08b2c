"""Refuse groundings that exceed the memory limit, before they start.

Every query is estimated before any of them runs. A row needs its bindings, its literals before and
after merging, its coefficient, weight and hash-table slots: about 64 bytes, and 16 for each literal
and variable. An atom needs its tuple and the numbers that inference stores for it.
"""

from __future__ import annotations

import math

from lapis.errors import Span, TooLarge
from lapis.grounding.templates import GroundingQuery
from lapis.problem.problem import Problem
from lapis.runtime.limits import format_bytes


def check_atoms(problem: Problem, max_memory: int) -> None:
    """Refuse a problem whose unknown atoms alone exceed the limit."""
    total = 0
    for name, evidence in problem.evidence.items():
        predicate = evidence.predicate
        atoms = len(evidence.unknown)
        if evidence.open:
            possible = math.prod(len(problem.domains[t]) for t in predicate.types)
            atoms = possible - len(evidence.true) - len(evidence.false)
        total += atoms * (4 * predicate.arity + 32)
        if total > max_memory:
            raise TooLarge(
                f"'{name}' has {atoms:,} unknown atoms; "
                f"about {format_bytes(total)} of memory, over the limit of "
                f"{format_bytes(max_memory)}",
                code="too-large",
                span=predicate.span,
                hint=f"do not query or open '{name}', give more evidence, or raise --max-memory",
            )


class QueryBudget:
    """Sums the estimated memory of queries and refuses the one that exceeds the limit."""

    def __init__(self, max_memory: int) -> None:
        self._max_memory = max_memory
        self._bytes = 0.0

    def admit(self, query: GroundingQuery, text: str, span: Span | None = None) -> None:
        """Add a query to the sum."""
        self._bytes = self.check(query, text, span)

    def check(self, query: GroundingQuery, text: str, span: Span | None = None) -> float:
        """Return the bytes of all admitted queries and this one; refuse it beyond the limit."""
        return self._check_rows(
            query.plan.rows, len(query.literals) + len(query.plan.keep), text, span
        )

    def admit_rows(self, rows: float, width: float, text: str) -> None:
        """Add clauses of `width` literals on average to the sum."""
        self._bytes = self._check_rows(rows, width, text, None)

    def _check_rows(self, rows: float, width: float, text: str, span: Span | None) -> float:
        needed = self._bytes + rows * (64 + 16 * width)
        if needed > self._max_memory:
            raise TooLarge(
                f"grounding '{text}' would give about {rows:,.0f} clauses; "
                f"about {format_bytes(needed)} of memory, over the limit of "
                f"{format_bytes(self._max_memory)}",
                code="too-large",
                span=span,
                hint="give more evidence, query fewer predicates, shorten the formula, "
                "or raise --max-memory",
            )
        return needed
