"""The posterior of the weights as a result: draws, means, credible intervals and diagnostics.

Draws are float64[num_chains, num_draws, num_weights], a weight for each rule and constants of its
plus variables; weights marked @fixed have the same value in every draw. Intervals are equal-tailed:
the quantiles of the draws of `nuts`, those of the normal distribution for `laplace`, whose
means and standard deviations are known without draws.

A file (.npz) holds the draws and their rules. `read` refuses a model with other rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError, suggestion
from lapis.inference.sampling.diagnostics import MAX_RHAT, effective_size, rank_rhat
from lapis.language.model import Model
from lapis.learning.parameters import WeightKey, weighted_model
from lapis.optimisation.checkpoint import read_archive, write_archive
from lapis.results.answer import to_arviz
from lapis.results.columns import as_list
from lapis.results.plots import COLOUR, new_axes, new_figure, shorten_label, style_axes
from lapis.results.result import Columns, Result
from lapis.runtime.views import View, new_view

if TYPE_CHECKING:
    from arviz import InferenceData
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT = "lapis posterior 1"
ENOUGH = 100  # effective draws of each chain (Vehtari et al. 2021, section 4)
MAX_PLOTTED = 30
MAX_DENSITIES = 12
GRID = 200  # places at which a density is drawn


@dataclass(frozen=True, repr=False)
class WeightPosterior(Result):
    """Draws from Pr(weights | data). `model` has the means as its weights."""

    method: str  # "laplace" or "nuts"
    objective: str  # its likelihood
    prior: str
    model: Model = field(repr=False)
    keys: tuple[WeightKey, ...] = field(repr=False)  # of each weight
    formulas: tuple[str, ...] = field(repr=False)  # plus variables replaced by their constants
    fixed: np.ndarray = field(repr=False)  # bool[num_weights]
    mode: np.ndarray = field(repr=False)  # float64[num_weights]
    mean: np.ndarray = field(repr=False)  # float64[num_weights]
    deviation: np.ndarray = field(repr=False)  # float64[num_weights], standard; 0 where fixed
    draws: np.ndarray = field(repr=False)  # float64[num_chains, num_draws, num_weights]
    level: float = 0.9  # probability of the intervals that are shown
    interrupted: bool = False  # fewer draws than requested
    caveats: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def num_chains(self) -> int:
        return int(self.draws.shape[0])

    @property
    def num_draws(self) -> int:
        """Number of draws of each chain."""
        return int(self.draws.shape[1])

    def covariance(self) -> np.ndarray:
        """Return the covariance of the draws.

        Returns
        -------
        numpy.ndarray
            float64[num_weights, num_weights], 0 where a weight is fixed.
        """
        return np.atleast_2d(np.cov(self.draws.reshape(-1, len(self)).T))

    @cached_property
    def free(self) -> np.ndarray:
        """int64[num_free], the weights that vary."""
        return np.flatnonzero(~self.fixed)

    @cached_property
    def effective_sizes(self) -> np.ndarray:
        """float64[num_weights, 2], bulk and tail; NaN for fixed weights."""
        found = np.full((len(self), 2), np.nan)
        for number in self.free.tolist():
            alone = self.draws[:, :, number : number + 1]
            found[number] = alone.size if self.method == "laplace" else effective_size(alone)
        return found

    @cached_property
    def rhat(self) -> np.ndarray:
        """float64[num_weights], rank-normalised split R-hat; NaN for fixed weights."""
        found = np.full(len(self), np.nan)
        found[self.free] = (
            1.0 if self.method == "laplace" else rank_rhat(self.draws[:, :, self.free])
        )
        return found

    @property
    def worst_rhat(self) -> float:
        return float(np.max(self.rhat[self.free], initial=1.0))

    @property
    def least_size(self) -> float:
        """The smallest effective number of draws of a weight, bulk or tail."""
        return float(self.effective_sizes[self.free].min(initial=float(self.draws[..., :1].size)))

    @property
    def reason(self) -> str:
        """Why the draws do not suffice; "" if they do."""
        if not self.worst_rhat <= MAX_RHAT:
            return f"chains disagree (R-hat {self.worst_rhat:.3g})"
        if self.least_size < ENOUGH * self.num_chains:
            wanted = f"{ENOUGH} a chain are wanted"
            return f"few effective draws ({self.least_size:,.0f}; {wanted})"
        return "stopped early" if self.interrupted else ""

    @property
    def converged(self) -> bool:
        return not self.reason

    def interval(self, level: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Find the ends of equal-tailed credible intervals.

        Parameters
        ----------
        level
            Probability of an interval, between 0 and 1; the posterior's own if absent.

        Returns
        -------
        tuple[numpy.ndarray, numpy.ndarray]
            Lower and upper ends, float64[num_weights] each.

        Raises
        ------
        LapisError
            If the level is not between 0 and 1.
        """
        level = self.level if level is None else level
        if not 0.0 < level < 1.0:
            raise LapisError(f"level must be between 0 and 1, not {level!r}", code="option-value")
        tail = (1.0 - level) / 2.0
        if self.method == "laplace":
            reach = NormalDist().inv_cdf(1.0 - tail) * self.deviation
            return self.mean - reach, self.mean + reach
        lower, upper = np.quantile(self.draws, (tail, 1.0 - tail), axis=(0, 1))
        return lower, upper

    def __getitem__(self, formula: str) -> np.ndarray:
        """float64[num_chains, num_draws], the draws of a formula's weight, as it is printed."""
        if formula not in self.formulas:
            raise LapisError(
                f"no weight of {formula!r}",
                code="unknown-formula",
                hint=suggestion(formula, self.formulas, "`formulas` lists them"),
            )
        found: np.ndarray = self.draws[:, :, self.formulas.index(formula)]
        return found

    def thinned(self, number: int) -> np.ndarray:
        """Choose draws at equal distances, the same number from each chain.

        Parameters
        ----------
        number
            Number of draws wanted.

        Returns
        -------
        numpy.ndarray
            float64[about number, num_weights].
        """
        each = min(max(1, number // self.num_chains), self.num_draws)
        chosen = np.linspace(0, self.num_draws - 1, each).round().astype(np.int64)
        found: np.ndarray = self.draws[:, chosen].reshape(-1, len(self))
        return found

    def columns(self) -> Columns:
        """A row for each weight."""
        lower, upper = self.interval()
        return {
            "formula": list(self.formulas),
            "mean": self.mean,
            "deviation": self.deviation,
            "lower": lower,
            "upper": upper,
            "mode": self.mode,
            "ess_bulk": self.effective_sizes[:, 0],
            "ess_tail": self.effective_sizes[:, 1],
            "rhat": self.rhat,
            "fixed": self.fixed,
        }

    def document(self) -> dict[str, Any]:
        """Return the key `posterior` of `lapis learn --json`."""
        names = list(self.columns())
        rows = zip(*map(as_list, self.columns().values()), strict=True)
        return {
            "method": self.method,
            "objective": self.objective,
            "prior": self.prior,
            "chains": self.num_chains,
            "draws": self.num_draws,
            "level": self.level,
            "converged": self.converged,
            "interrupted": self.interrupted,
            "rhat": self.worst_rhat,
            "ess": self.least_size,
            "weights": [dict(zip(names, map(none_if_nan, row), strict=True)) for row in rows],
            "caveats": list(self.caveats),
            **self.details,
        }

    def views(self) -> list[View]:
        """A row for each weight."""
        lower, upper = self.interval()
        rows = [
            (
                f"{self.mean[i]:z.4f}",
                "fixed" if self.fixed[i] else f"± {self.deviation[i]:.3g}",
                "" if self.fixed[i] else f"{lower[i]:z.3f} to {upper[i]:z.3f}",
                "" if self.fixed[i] else f"{self.effective_sizes[i].min():,.0f}",
                "" if self.fixed[i] else f"{self.rhat[i]:.3f}",
                formula,
            )
            for i, formula in enumerate(self.formulas)
        ]
        interval = f"{100 * self.level:g}% interval"
        heads = ("mean", "deviation", interval, "draws", "R-hat", "formula")
        return [new_view(heads, rows, numbers=["mean", "draws", "R-hat"])]

    def summary(self) -> str:
        """Return the posterior in a line."""
        chains = f"{self.num_chains} chain{'' if self.num_chains == 1 else 's'}"
        weights = f"{len(self.free):,} weight{'' if len(self.free) == 1 else 's'}"
        state = "converged" if self.converged else f"not converged, {self.reason}"
        how = "a Gaussian at the mode" if self.method == "laplace" else f"{chains} of nuts"
        return (
            f"posterior of {weights} under {self.objective}, prior {self.prior}, "
            f"by {how}, {self.num_chains * self.num_draws:,} draws: {state}"
        )

    def remarks(self) -> list[str]:
        """Return the caveats of the posterior."""
        return [f"caveat: {caveat}" for caveat in self.caveats]

    def to_arviz(self) -> InferenceData:
        """Convert the draws of the weights that vary to an ArviZ object.

        Returns
        -------
        arviz.InferenceData
            A variable for each weight.

        Raises
        ------
        LapisError
            If the package arviz is not installed.
        """
        return to_arviz({self.formulas[i]: self.draws[:, :, i] for i in self.free.tolist()})

    def plot(self, axes: Axes | None = None, limit: int = MAX_PLOTTED) -> Axes:
        """Draw a forest plot: means with credible intervals, and the modes, of the first weights.

        Parameters
        ----------
        axes
            Matplotlib axes to draw on; new ones if absent.
        limit
            Number of weights at most.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        return plot_forest(self, axes, limit)

    def plot_densities(self, limit: int = MAX_DENSITIES) -> Figure:
        """Draw the density of each of the first weights; mean, mode and interval marked.

        Parameters
        ----------
        limit
            Number of weights at most.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        return plot_densities(self, limit)

    def save(self, path: str | Path) -> None:
        """Write the draws and the rules they belong to.

        Parameters
        ----------
        path
            Path of the file, `.npz`.

        Raises
        ------
        LapisError
            If the file cannot be written.
        """
        rules = [[rule.text, rule.hard] for rule in self.model.rules]
        header = {
            "format": FORMAT, "method": self.method, "objective": self.objective,
            "prior": self.prior, "rules": rules, "keys": self.keys,
            "formulas": self.formulas, "level": self.level,
            "interrupted": self.interrupted, "caveats": self.caveats, "details": self.details,
        }  # fmt: skip
        names = ("fixed", "mode", "mean", "deviation", "draws")
        arrays = {name: getattr(self, name) for name in names}
        write_archive(Path(path), header, arrays, is_result=True)

    @staticmethod
    def read(path: str | Path, model: Model) -> WeightPosterior:
        """Read the posterior of the weights of a model from a file.

        Parameters
        ----------
        path
            A file that `save` or `lapis learn --posterior` wrote.
        model
            The model that was learned, with or without its learned weights.

        Returns
        -------
        WeightPosterior
            With the given model, its weights replaced by the posterior means.

        Raises
        ------
        LapisError
            If the file is missing, damaged, or of a model with other rules.
        """
        return read_posterior(Path(path), model)


def read_posterior(path: Path, model: Model) -> WeightPosterior:
    def build(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> WeightPosterior:
        keys = tuple((int(rule), tuple(map(str, names))) for rule, names in header["keys"])
        draws, size = arrays["draws"], len(keys)
        fields = {name: arrays[name] for name in ("fixed", "mode", "mean", "deviation")}
        if draws.ndim != 3 or 0 in draws.shape or not np.isfinite(draws).all():
            raise ValueError("draws")
        formulas = tuple(map(str, header["formulas"]))
        if any(len(part) != size for part in (*fields.values(), draws[0, 0], formulas)):
            raise ValueError("sizes")
        found = [(str(text), bool(hard)) for text, hard in header["rules"]]
        refuse_other_rules(path, model, found)
        return WeightPosterior(
            header["method"], header["objective"], header["prior"],
            weighted_model(model, keys, fields["mean"]), keys, formulas, draws=draws,
            level=header["level"], interrupted=header["interrupted"],
            caveats=tuple(header["caveats"]), details=header["details"], **fields,
        )  # fmt: skip

    hint = "lapis learn --estimate mean --posterior FILE.npz writes one"
    posterior = read_archive(path, FORMAT, build, "posterior", hint)
    if posterior is None:
        raise LapisError(f"{path}: there is no such file", code="no-posterior", hint=hint)
    return posterior


def refuse_other_rules(path: Path, model: Model, rules: list[tuple[str, bool]]) -> None:
    """Refuse a model whose rules are not those of the posterior, at the first difference."""
    hint = "give the model that learn -o wrote with the posterior"
    for number, rule in enumerate(model.rules):
        if number >= len(rules) or rules[number] != (rule.text, rule.hard):
            beyond = number >= len(rules)
            there = "missing" if beyond else repr(rule_text(*rules[number]))
            raise LapisError(
                f"rule {number + 1} is {rule_text(rule.text, rule.hard)!r}, and that of the "
                f"posterior {path} is {there}",
                code="other-model",
                span=rule.span,
                hint=hint,
            )
    if len(rules) > len(model.rules):
        missing = rule_text(*rules[len(model.rules)])
        raise LapisError(
            f"{path}: the posterior has a rule {missing!r} that {model.name} lacks",
            code="other-model",
            hint=hint,
        )


def none_if_nan(cell: object) -> object:
    """Return the cell of a table, None for a number that is not finite."""
    return None if isinstance(cell, float) and not np.isfinite(cell) else cell


def rule_text(text: str, hard: bool) -> str:
    return f"{text}." if hard else text


def plot_forest(posterior: WeightPosterior, axes: Axes | None, limit: int) -> Axes:
    shown = posterior.free[:limit]
    found = new_axes(axes, (6.4, 1.4 + 0.3 * len(shown)))
    places = np.arange(len(shown))[::-1]
    lower, upper = posterior.interval()
    found.hlines(places, lower[shown], upper[shown], color=COLOUR, lw=2)
    found.plot(posterior.mean[shown], places, "o", color=COLOUR, ms=4, label="mean")
    found.plot(posterior.mode[shown], places, "|", color="black", ms=10, label="mode")
    found.axvline(0.0, color="0.7", lw=1, zorder=0)
    found.set_yticks(places, [shorten_label(posterior.formulas[i]) for i in shown.tolist()])
    found.set_ylim(-0.7, len(shown) - 0.3)
    found.set(xlabel=f"weight, with {100 * posterior.level:g}% credible interval")
    found.legend(frameon=False, fontsize="small", loc="best")
    return style_axes(found)


def plot_densities(posterior: WeightPosterior, limit: int) -> Figure:
    shown = posterior.free[:limit].tolist()
    columns = min(3, max(1, len(shown)))
    rows = max(1, -(-len(shown) // columns))
    figure = new_figure((3.2 * columns, 1.9 * rows + 0.3), shown=True)
    panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    lower, upper = posterior.interval()
    for axes, number in zip(panels, shown, strict=False):
        at, height = density_of(posterior, number)
        inside = (at >= lower[number]) & (at <= upper[number])
        axes.plot(at, height, color=COLOUR)
        axes.fill_between(at, height, where=inside.tolist(), color=COLOUR, alpha=0.25)
        axes.axvline(posterior.mean[number], color=COLOUR, lw=1, label="mean")
        axes.axvline(posterior.mode[number], color="black", lw=1, ls=":", label="mode")
        axes.set(yticks=[], ylim=(0, None), title=shorten_label(posterior.formulas[number]))
        style_axes(axes).title.set_fontsize("small")
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    if shown:
        panels[0].legend(frameon=False, fontsize="x-small")
    return figure


def density_of(posterior: WeightPosterior, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return places and heights, float64[GRID] each: a Gaussian for laplace, or a kernel estimate.

    The kernel has Silverman's width, 0.9 min(s, IQR / 1.34) n^(−1/5).
    """
    values = posterior.draws[:, :, number].ravel()
    spread = posterior.deviation[number]
    at = np.linspace(values.min() - 0.5 * spread, values.max() + 0.5 * spread, GRID)
    if posterior.method == "laplace":
        normal = NormalDist(float(posterior.mean[number]), float(spread))
        return at, np.array([normal.pdf(place) for place in at.tolist()])
    quartiles = np.quantile(values, (0.25, 0.75))
    robust = min(spread, float(quartiles[1] - quartiles[0]) / 1.34) or spread
    width = 0.9 * robust * len(values) ** -0.2
    scores = (at[:, None] - values) / width
    return at, np.exp(-0.5 * scores**2).mean(axis=1) / (width * np.sqrt(2.0 * np.pi))
