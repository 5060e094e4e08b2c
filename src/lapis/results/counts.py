"""Counts of formulas: true groundings of each weight's formula in the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from lapis.results.plots import plot_bars
from lapis.results.result import Columns, Result, View, new_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ESTIMATED = ("estimate", "relative_error")


@dataclass(frozen=True, slots=True)
class RuleCount:
    """True groundings of one weight's formula in the data."""

    formula: str
    weight: float | None
    true: int  # rounded where it is an estimate
    groundings: int
    exact: bool = True
    estimate: float | None = None  # unrounded, where it is one
    relative_error: float | None = None  # of the estimate, where it was measured

    def to_json(self) -> dict[str, Any]:
        """Of an exact count nothing is said of estimates."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {k: v for k, v in found.items() if k not in ESTIMATED or v is not None}


@dataclass(frozen=True, repr=False)
class Counts(Result, Sequence[RuleCount]):
    """A row for each weight, in the order of the model; added up over worlds."""

    rows: tuple[RuleCount, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RuleCount]:
        return iter(self.rows)

    @overload
    def __getitem__(self, index: int) -> RuleCount: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RuleCount, ...]: ...
    def __getitem__(self, index: int | slice) -> RuleCount | tuple[RuleCount, ...]:
        return self.rows[index]

    @property
    def exact(self) -> bool:
        return all(row.exact for row in self.rows)

    @property
    def measured(self) -> bool:
        """Whether estimates were compared with exact counts."""
        return any(row.relative_error is not None for row in self.rows)

    def columns(self) -> Columns:
        names = ["formula", "weight", "true", "groundings", "exact"]
        names += ["estimate"] * (not self.exact) + ["relative_error"] * self.measured
        return {name: [getattr(row, name) for row in self.rows] for name in names}

    def views(self) -> list[View]:
        numbers = ["weight", "true", "groundings", *(["relative error"] * self.measured)]
        cells = [
            (
                "" if row.weight is None else f"{row.weight:g}",
                row.formula,
                f"{'' if row.exact else '≈ '}{row.true:,}",
                f"{row.groundings:,}",
                *([f"{row.relative_error or 0.0:.2e}"] * self.measured),
            )
            for row in self.rows
        ]
        return [new_view(["weight", "formula", *numbers[1:]], cells, numbers=numbers)]

    def summary(self) -> str:
        number = f"{len(self):,} formula{'' if len(self) == 1 else 's'}"
        return f"{number}, {'exact' if self.exact else 'estimated'}"

    def document(self) -> dict[str, Any]:
        """The contract of `lapis count --json`."""
        return {"formulas": (row.to_json() for row in self.rows)}

    def plot(self, axes: Axes | None = None, limit: int = 30) -> Axes:
        """Bars of the share of true groundings."""
        shown = self.rows[:limit]
        share = np.array([row.true / max(1, row.groundings) for row in shown])
        return plot_bars(
            [row.formula for row in shown], share, axes,
            xlabel="share of groundings true", title=self.summary(),
        )  # fmt: skip
