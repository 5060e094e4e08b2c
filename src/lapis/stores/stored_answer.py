"""The answer to a query that was left on an engine or written to a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lapis.results.answer import ExpectedCountTable, expected_rows, quality_remarks
from lapis.results.result import Columns, Result
from lapis.runtime.views import View


@dataclass(frozen=True, repr=False)
class StoredAnswer(Result):
    """Marginals or a most likely world in a table, with one row for each atom."""

    target: str  # table:NAME or a path
    num_atoms: int
    method: str
    proven: bool  # exact, or optimal
    total: float | None  # log partition, or score
    is_world: bool  # a most likely world, not marginals
    counts: tuple[float, ...]  # (expected) true groundings of each weight
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    formulas: Sequence[str] = ()  # of each weight

    @property
    def expected(self) -> ExpectedCountTable:
        """The expected count of each weight's formula."""
        return ExpectedCountTable(expected_rows(self.formulas, np.array(self.counts)))

    def columns(self) -> Columns:
        return {name: [value] for name, value in self.document().items() if _is_plain(value)}

    def views(self) -> list[View]:
        return []

    def summary(self) -> str:
        words = ("optimal", "not proven") if self.is_world else ("exact", "approximate")
        name = "score" if self.is_world else "log partition"
        total = "" if self.total is None else f"; {name} {self.total:.6g}"
        atoms = f"{self.num_atoms:,} atom{'' if self.num_atoms == 1 else 's'}"
        return f"{atoms} in {self.target}, {words[not self.proven]} (by {self.method}){total}"

    def remarks(self) -> list[str]:
        return quality_remarks(self.diagnostics)

    def document(self) -> dict[str, Any]:
        """Return the JSON of the command, with `output` and `num_atoms` in place of the atoms."""
        proven, total = ("optimal", "score") if self.is_world else ("exact", "log_partition")
        counts = {} if self.is_world else {
            "expected_counts": list(self.counts),
            "expected": list(self.expected.document()["rows"]),
        }  # fmt: skip
        return {
            "method": self.method,
            proven: self.proven,
            total: self.total,
            "output": self.target,
            "num_atoms": self.num_atoms,
            **counts,
            **self.diagnostics,
        }


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
