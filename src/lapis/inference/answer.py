"""Answers: what was asked, how sure it is, and by which method; tables, frames and plots of it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError
from lapis.language.ground_names import canonical_name

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

MAX_ROWS_SHOWN = 50


@dataclass(frozen=True)
class Answer:
    """Marginal probabilities of the unknown query atoms."""

    method: str
    exact: bool
    log_partition: float | None
    atoms: tuple[str, ...]
    probability: np.ndarray  # float64[num_atoms]
    stderr: np.ndarray | None  # float64[num_atoms]; None where exact
    expected_counts: np.ndarray  # float64[num_weights], E[n_w]
    worlds: tuple[str, ...] = ()  # the data file of each atom, if there are several
    method_ids: np.ndarray | None = None  # int8[num_atoms], of the names that + joins in `method`
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    traced: tuple[str, ...] = ()  # the atoms that mixed slowest
    trace: np.ndarray | None = None  # float32[num_chains, num_draws, num_traced], P(atom | rest)

    @property
    def interrupted(self) -> bool:
        """Whether the user ended sampling before it was done."""
        return bool(self.diagnostics.get("interrupted", False))

    @property
    def errors(self) -> np.ndarray:
        """float64[num_atoms], standard errors; 0 where exact."""
        return np.zeros(len(self)) if self.stderr is None else self.stderr

    def method_of(self, index: int) -> str:
        """The method that answered an atom."""
        if self.method_ids is None:
            return self.method
        return self.method.split("+")[self.method_ids[index]]

    @cached_property
    def marginals(self) -> dict[str, float]:
        return dict(zip(self.atoms, self.probability.tolist(), strict=True))

    def __getitem__(self, atom: str) -> float:
        return self.marginals[atom if atom in self.marginals else canonical_name(atom)]

    def __len__(self) -> int:
        return len(self.atoms)

    def rows(self) -> Iterator[tuple[str, float, float | None]]:
        errors = [None] * len(self) if self.stderr is None else self.stderr.tolist()
        yield from zip(self.atoms, self.probability.tolist(), errors, strict=True)

    def to_json(self) -> dict[str, Any]:
        """The contract of `lapis infer --json`."""
        atoms: list[dict[str, Any]] = [
            {"atom": atom, "probability": probability, "stderr": error}
            for atom, probability, error in self.rows()
        ]
        for entry, world in zip(atoms, self.worlds, strict=bool(self.worlds)):
            entry["world"] = world
        if not self.exact:
            for index, entry in enumerate(atoms):
                entry["method"] = self.method_of(index)
        return {
            "method": self.method,
            "exact": self.exact,
            "log_partition": self.log_partition,
            "atoms": atoms,
            "expected_counts": self.expected_counts.tolist(),
            **self.diagnostics,
        }

    def columns(self) -> dict[str, Sequence[str] | np.ndarray]:
        found: dict[str, Sequence[str] | np.ndarray] = {
            "atom": self.atoms,
            "probability": self.probability,
        }
        found["stderr"] = self.errors
        if self.worlds:
            found["world"] = self.worlds
        return found

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self.columns())

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(
            {name: pyarrow.array(values) for name, values in self.columns().items()}
        )

    def summary(self) -> str:
        if self.exact:
            return f"{len(self):,} atoms, exact (by {self.method})"
        how = f"approximate (by {self.method})"
        if self.stderr is not None:
            how += f", standard errors up to {float(self.stderr.max(initial=0.0)):.2g}"
        return f"{len(self):,} atoms, {how}"

    def __repr__(self) -> str:
        return f"<Answer: {self.summary()}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(atom)}</td><td>{probability:.4f}</td>"
            f"<td style='text-align:left'><div style='background:#4c72b0;height:0.8em;"
            f"width:{100 * probability:.0f}px'></div></td></tr>"
            for atom, probability, _ in list(self.rows())[:MAX_ROWS_SHOWN]
        )
        more = len(self) - MAX_ROWS_SHOWN
        note = f"<p>… and {more:,} more</p>" if more > 0 else ""
        head = "<tr><th>atom</th><th>probability</th><th></th></tr>"
        return f"<table>{head}{rows}</table>{note}<p>{html.escape(self.summary())}</p>"

    def plot(self, axes: Axes | None = None, limit: int = 30) -> Axes:
        """Bars of the most likely atoms, with error bars where the answer is not exact."""
        return plot_bars(self, axes, limit)

    def plot_chains(self, axes: Axes | None = None) -> Axes:
        """The chains of the slowest atoms: they should look alike and wander over one range."""
        return plot_traces(self, axes)

    def to_arviz(self) -> Any:
        """The chains of the slowest atoms as an ArviZ object (needs the package arviz)."""
        import arviz

        require_chains(self)
        assert self.trace is not None
        draws = {name: self.trace[:, :, i] for i, name in enumerate(self.traced)}
        # Called convert_to_datatree from ArviZ 1.0 on.
        old = getattr(arviz, "convert_to_inference_data", None)
        return (old or arviz.convert_to_datatree)(draws)


def require_chains(answer: Answer) -> None:
    if answer.trace is None:
        raise LapisError(
            "this answer has no chains", code="no-chains", hint=f"it is {answer.summary()}"
        )


def plot_traces(answer: Answer, axes: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    require_chains(answer)
    assert answer.trace is not None
    if axes is None:
        _, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for chain, draws in enumerate(answer.trace):
        smooth = np.cumsum(draws[:, 0]) / np.arange(1, len(draws) + 1)
        axes.plot(smooth, lw=1, label=f"chain {chain + 1}")
    axes.set(
        ylim=(0, 1), xlabel="draw", ylabel="running mean", title=f"slowest atom: {answer.traced[0]}"
    )
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def plot_bars(answer: Answer, axes: Axes | None, limit: int) -> Axes:
    import matplotlib.pyplot as plt

    order = np.argsort(-answer.probability, kind="stable")[:limit][::-1]
    if axes is None:
        _, axes = plt.subplots(figsize=(6, 0.8 + 0.28 * len(order)), layout="constrained")
    errors = None if answer.stderr is None else answer.stderr[order]
    axes.barh(
        [answer.atoms[i] for i in order], answer.probability[order], xerr=errors, color="#4c72b0"
    )
    axes.set(xlim=(0, 1), xlabel="probability", title=answer.summary())
    axes.spines[["top", "right"]].set_visible(False)
    return axes


@dataclass(frozen=True)
class MostLikelyWorld:
    """A most likely truth assignment to the unknown query atoms."""

    method: str
    optimal: bool
    score: float  # Σ w·n over all groundings, evidence included
    names: tuple[str, ...]
    value: np.ndarray  # bool[num_atoms]
    worlds: tuple[str, ...] = ()
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether the user ended the search before it was done."""
        return bool(self.diagnostics.get("interrupted", False))

    @cached_property
    def atoms(self) -> dict[str, bool]:
        return dict(zip(self.names, self.value.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def true_atoms(self) -> list[str]:
        return [name for name, value in self.atoms.items() if value]

    def to_json(self) -> dict[str, Any]:
        """The contract of `lapis map --json`."""
        atoms: list[dict[str, Any]] = [
            {"atom": name, "value": value}
            for name, value in zip(self.names, self.value.tolist(), strict=True)
        ]
        for entry, world in zip(atoms, self.worlds, strict=bool(self.worlds)):
            entry["world"] = world
        return {
            "method": self.method,
            "optimal": self.optimal,
            "score": self.score,
            "atoms": atoms,
            **self.diagnostics,
        }

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame({"atom": self.names, "value": self.value})

    def summary(self) -> str:
        kind = "proven most likely" if self.optimal else "best found"
        return (
            f"{int(self.value.sum()):,} of {len(self.names):,} atoms true, score {self.score:.6g}, "
            f"{kind} (by {self.method})"
        )

    def __repr__(self) -> str:
        return f"<MostLikelyWorld: {self.summary()}>"

    def _repr_html_(self) -> str:
        shown = self.true_atoms[:MAX_ROWS_SHOWN]
        rows = "".join(f"<tr><td style='text-align:left'>{html.escape(a)}</td></tr>" for a in shown)
        return f"<table><tr><th>true</th></tr>{rows}</table><p>{html.escape(self.summary())}</p>"
