"""A most likely world: which of the atoms asked are true, and whether that is proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.results.answer import quality_remarks
from lapis.results.atom_result import AtomResult
from lapis.results.atoms import Atoms, Key
from lapis.results.plots import plot_bars
from lapis.results.result import MAX_ROWS, View, new_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class MostLikelyWorld(AtomResult):
    """A most likely truth assignment to the unknown query atoms."""

    method: str
    optimal: bool
    score: float  # Σ w·n over all groundings, evidence included
    asked: Atoms
    value: np.ndarray  # bool[num_atoms]
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the search before it was done."""
        return bool(self.diagnostics.get("interrupted", False))

    @cached_property
    def atoms(self) -> dict[Any, bool]:
        """Truth by name, or by world and name where there are several worlds."""
        return self.by_key(self.value)

    def __getitem__(self, key: Key) -> bool:
        """Whether an atom is true: world["P(A)"], or world["data.db", "P(A)"]."""
        return bool(self.value[self.asked.find(key)])

    @property
    def true_atoms(self) -> list[str]:
        """The names of the true atoms, world after world."""
        return self.asked.take(np.flatnonzero(self.value))

    def measured(self) -> dict[str, np.ndarray]:
        """The truth values of the atoms."""
        return {"value": self.value}

    def document(self) -> dict[str, Any]:
        """The contract of `lapis map --json`."""
        return {
            "method": self.method,
            "optimal": self.optimal,
            "score": self.score,
            "atoms": self.entries(),
            **self.diagnostics,
        }

    def views(self) -> list[View]:
        """The true atoms."""
        true = np.flatnonzero(self.value)
        headings = (*self.name_headings[:-1], "true in the most likely world")
        return [new_view(headings, self.named_rows(true[:MAX_ROWS]), num_rows=len(true))]

    def summary(self) -> str:
        """The world in a line."""
        kind = "proven most likely" if self.optimal else "best found"
        where = f" in {len(self.asked.worlds)} worlds" if self.asked.is_divided else ""
        return (
            f"{int(self.value.sum()):,} of {len(self):,} atoms true{where}, "
            f"score {self.score:.6g}, {kind} (by {self.method})"
        )

    def remarks(self) -> list[str]:
        """Caveats: what the diagnostics say against the world."""
        return quality_remarks(self.diagnostics)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw bars of the share of true atoms of each predicate.

        Parameters
        ----------
        axes
            Matplotlib axes to draw on; new ones if absent.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        chosen = self.asked.by_predicate
        share = np.array(
            [self.value[rows].mean() if len(rows) else 0.0 for rows in chosen.values()]
        )
        return plot_bars(
            list(chosen), share, axes, xlabel="share of atoms true", title=self.summary()
        )
