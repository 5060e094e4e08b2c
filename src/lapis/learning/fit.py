"""What learning gives back: the model with its weights, and how far they can be trusted."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.whole_path import whole_path
from lapis.language.model import InstanceWeights, Model
from lapis.language.model_text import print_model
from lapis.learning.parameters import Parameters

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from lapis.optimisation.logbook import CurvePoint

MAX_ROWS = 60
MAX_NAMED = 5  # weights without bound that are named in a file's heading


@dataclass(frozen=True)
class Unbounded:
    """A weight that the data drives to infinity, and why."""

    parameter: int
    formula: str
    sign: int  # 1: towards +∞, −1: towards −∞
    reason: str


@dataclass(frozen=True)
class Fit:
    """Learned weights. `value` is the objective at them, without the prior's part."""

    objective: str
    optimizer: str
    prior: str
    value: float | None  # None where the objective has no value that could be had
    log_prior: float
    exact: bool  # values and gradients were exact
    converged: bool
    interrupted: bool
    reason: str  # why it stopped
    iterations: int
    gradient_norm: float  # the largest component, prior included
    parameters: Parameters = field(repr=False)
    weights: np.ndarray = field(repr=False)  # float64[num_parameters]
    # float64[num_parameters] from the curvature at the weights, NaN where it says nothing
    standard_errors: np.ndarray | None = field(repr=False)
    curve: tuple[CurvePoint, ...] = field(repr=False)
    seconds: Mapping[str, float]  # by phase
    unbounded: tuple[Unbounded, ...] = ()
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def model(self) -> Model:
        """The model with the learned weights."""
        return with_weights(self.parameters, self.weights)

    @property
    def text(self) -> str:
        """The learned model as a file, with standard errors as comments."""
        return print_model(self.model, title=self.title(), notes=self.notes())

    def save(self, path: str | Path) -> None:
        with whole_path(Path(path)) as place:
            place.write_text(self.text, encoding="utf-8")

    def title(self) -> str:
        value = "" if self.value is None else f", value {self.value:.6g}"
        lines = [
            f"weights learned by {self.objective}, {self.optimizer}, prior {self.prior}{value}"
        ]
        if not self.converged:
            lines.append(f"not converged: {self.reason}")
        lines += [f"{u.formula}: {u.reason}" for u in self.unbounded[:MAX_NAMED]]
        if len(self.unbounded) > MAX_NAMED:
            lines.append(f"… and {len(self.unbounded) - MAX_NAMED:,} more weights without bound")
        return "\n".join(lines)

    def notes(self) -> list[list[str]]:
        """For each rule, a comment for each of its weights."""
        if self.standard_errors is None:
            return [[""] * max(1, size) for size in np.diff(self.parameters.offset)]
        spelled = [f"± {e:.3g}" if np.isfinite(e) else "" for e in self.standard_errors]
        offset = self.parameters.offset
        return [
            spelled[offset[i] : offset[i + 1]] or [""]
            for i in range(len(self.parameters.model.rules))
        ]

    def rows(self) -> list[tuple[str, float, float | None, bool]]:
        """(formula, weight, standard error, fixed) for each weight."""
        errors: Sequence[float] = (
            [np.nan] * len(self.weights)
            if self.standard_errors is None
            else self.standard_errors.tolist()
        )
        found = zip(
            self.parameters.names(),
            self.weights.tolist(),
            errors,
            self.parameters.fixed.tolist(),
            strict=True,
        )
        return [(name, w, e if np.isfinite(e) else None, f) for name, w, e, f in found]

    @cached_property
    def by_formula(self) -> dict[str, float]:
        return dict(zip(self.parameters.names(), self.weights.tolist(), strict=True))

    def __getitem__(self, formula: str) -> float:
        """The weight of a formula, as it is printed."""
        return self.by_formula[formula]

    def to_json(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "optimizer": self.optimizer,
            "prior": self.prior,
            "value": self.value,
            "log_prior": self.log_prior,
            "exact": self.exact,
            "converged": self.converged,
            "interrupted": self.interrupted,
            "reason": self.reason,
            "iterations": self.iterations,
            "gradient_norm": self.gradient_norm,
            "weights": [
                {"formula": name, "weight": weight, "stderr": error, "fixed": fixed}
                for name, weight, error, fixed in self.rows()
            ],
            "unbounded": [
                {"formula": u.formula, "sign": u.sign, "reason": u.reason} for u in self.unbounded
            ],
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
            "curve": [point._asdict() for point in self.curve],
            **self.details,
        }

    def to_pandas(self) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame(self.rows(), columns=["formula", "weight", "stderr", "fixed"])

    def summary(self) -> str:
        value = "" if self.value is None else f"; value {self.value:.6g}"
        how = "exact" if self.exact else "sampled or estimated"
        state = "converged" if self.converged else "not converged"
        steps = "" if self.reason.endswith("iterations") else f", {self.iterations} iterations"
        return (
            f"{self.objective} ({how}), {self.optimizer}, prior {self.prior}: {state}, "
            f"{self.reason}{steps}, {sum(self.seconds.values()):.2f} s{value}"
        )

    def _repr_html_(self) -> str:
        from html import escape

        cells = "".join(
            f"<tr><td style='text-align:right'>{weight:.4f}</td>"
            f"<td>{'' if error is None else f'± {error:.3g}'}</td>"
            f"<td style='text-align:left'><code>{escape(name)}</code></td></tr>"
            for name, weight, error, _ in self.rows()[:MAX_ROWS]
        )
        more = len(self.weights) - MAX_ROWS
        rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
        head = "<tr><th>weight</th><th></th><th>formula</th></tr>"
        return f"<p>{escape(self.summary())}</p><table>{head}{cells}</table>{rest}"

    def plot(self, axes: Axes | None = None) -> Axes:
        """The learning curve: the objective, or the gradient where it has no value."""
        return plot_curve(self, axes)


def with_weights(parameters: Parameters, weights: np.ndarray) -> Model:
    """The model whose rules have these weights, float64[num_parameters]."""
    rules = []
    for number, rule in enumerate(parameters.model.rules):
        own = weights[parameters.offset[number] : parameters.offset[number + 1]]
        if rule.hard:
            rules.append(rule)
        elif rule.plus:
            names = [domain.constants for domain in parameters.domains[number]]
            table = InstanceWeights(tuple(itertools.product(*names)), tuple(own.tolist()))
            rules.append(replace(rule, weight=0.0, instance_weights=table))
        else:
            rules.append(replace(rule, weight=float(own[0])))
    return parameters.model.with_rules(tuple(rules))


def plot_curve(fit: Fit, axes: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    seconds = [point.seconds for point in fit.curve]
    values = [point.value for point in fit.curve if point.value is not None]
    if len(values) == len(seconds):
        axes.plot(seconds, values, color="#4c72b0")
        axes.set(ylabel=f"{fit.objective} with prior")
    else:
        axes.plot(seconds, [point.gradient_norm for point in fit.curve], color="#4c72b0")
        axes.set(yscale="log", ylabel="largest component of the gradient")
    axes.set(xlabel="seconds", title=f"{fit.optimizer}: {fit.reason}")
    axes.spines[["top", "right"]].set_visible(False)
    return axes
