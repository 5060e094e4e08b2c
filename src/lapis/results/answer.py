"""Results of counting, inference and MAP: `Counts`, `Answer` and `MostLikelyWorld`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

import numpy as np

from lapis.errors import LapisError, check_word
from lapis.registry.options import FactsWithout
from lapis.results.atom_groups import Atoms, Key
from lapis.results.atom_result import AtomResult, rank_by
from lapis.results.columns import Coded, as_list, as_objects
from lapis.results.plan_report import PlanReport
from lapis.results.plots import new_axes, plot_bars, shorten_label, style_axes
from lapis.results.result import Columns, Result, Table
from lapis.runtime.views import MAX_ROWS, View, new_view

if TYPE_CHECKING:
    from arviz import InferenceData
    from matplotlib.axes import Axes

    from lapis.results.explanation import Explanation

WorldValues: TypeAlias = "Mapping[str, bool] | Sequence[str] | MostLikelyWorld"


class LearnedWeights(Protocol):
    """A fit, as far as explanations read it."""

    def entries(self) -> list[tuple[str, float, float | None, bool, bool]]:
        """Return (formula, weight, standard error, fixed, bounded) for each weight."""

    def weight_covariance(self) -> np.ndarray | None:
        """Return float64[num_weights, num_weights]; None if only standard errors are known."""


class AnswerSource(Protocol):
    """What an answer was found from, kept so that it can be explained."""

    def explain(
        self, key: Key, answer: Answer | MostLikelyWorld | None, options: Mapping[str, Any]
    ) -> Explanation:
        """Explain one atom or formula."""


ESTIMATED = ("estimate", "relative_error")


@dataclass(frozen=True, slots=True)
class RuleCount:
    """True groundings of one weight's formula in the data."""

    formula: str
    weight: float | None
    true: float  # an integer, rounded if it is an estimate; the sum of the formula's numbers
    groundings: int
    exact: bool = True
    estimate: float | None = None  # unrounded
    relative_error: float | None = None  # of the estimate, if it was measured

    def to_json(self) -> dict[str, Any]:
        """Return the fields; an exact count has none of estimates."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {k: v for k, v in found.items() if k not in ESTIMATED or v is not None}


@dataclass(frozen=True, repr=False)
class Counts(Result, Sequence[RuleCount]):
    """Counts of each weight in the order of the model, summed over worlds."""

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
    def estimated(self) -> bool:
        """Whether a count was estimated, also if the estimate is exact."""
        return any(row.estimate is not None for row in self.rows)

    @property
    def measured(self) -> bool:
        """Whether estimates were compared with exact counts."""
        return any(row.relative_error is not None for row in self.rows)

    def columns(self) -> Columns:
        names = ["formula", "weight", "true", "groundings", "exact"]
        names += ["estimate"] * self.estimated + ["relative_error"] * self.measured
        return {name: [getattr(row, name) for row in self.rows] for name in names}

    def views(self) -> list[View]:
        numbers = ["weight", "true", "groundings", *(["relative error"] * self.measured)]
        cells = [
            (
                "" if row.weight is None else f"{row.weight:g}",
                row.formula,
                f"{'' if row.exact else '≈ '}{format_count(row.true)}",
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
        """Return the document of `lapis count --json`."""
        return {"formulas": (row.to_json() for row in self.rows)}

    def plot(self, axes: Axes | None = None, limit: int = 30) -> Axes:
        """Draw bars of the share of true groundings."""
        shown = self.rows[:limit]
        share = np.array([row.true / max(1, row.groundings) for row in shown])
        return plot_bars(
            [row.formula for row in shown], share, axes,
            xlabel="share of groundings true", title=self.summary(),
        )  # fmt: skip


def format_count(count: float) -> str:
    """Format a count: an integer, or a sum of numbers to six digits.

    >>> format_count(12000), format_count(3.3000000000000003)
    ('12,000', '3.3')
    """
    return f"{count:,}" if isinstance(count, int) else f"{count:,.6g}"


@dataclass(frozen=True, repr=False)
class ExpectedCountTable(Table):
    """The expected number of true groundings of each weight's formula, a row each."""

    def __getitem__(self, formula: str) -> float:
        """Return the expected count of a formula, as it is printed."""
        names, counts = as_list(self.values["formula"]), as_list(self.values["expected_count"])
        check_word("formula", formula, names, code="unknown-formula")
        return float(counts[names.index(formula)])


def expected_rows(formulas: Sequence[str], counts: np.ndarray, **more: np.ndarray) -> Columns:
    """Return columns of formulas and their expected counts; none if they are not named."""
    if len(formulas) != len(counts):
        formulas, counts, more = (), counts[:0], {name: all[:0] for name, all in more.items()}
    return {"formula": formulas, "expected_count": counts, **more}


MIN_ESS_PER_CHAIN = 100  # effective samples
MAX_BROKEN = 10  # hard formulas shown that were relaxed


@dataclass(frozen=True, repr=False)
class Answer(AtomResult):
    """Marginal probabilities of the unknown query atoms."""

    methods: tuple[str, ...]  # that answered
    exact: bool
    log_partition: float | None
    asked: Atoms
    probability: np.ndarray  # float64[num_atoms]
    stderr: np.ndarray | None  # float64[num_atoms]; None if exact or by bp
    expected_counts: np.ndarray  # float64[num_weights], E[n_w]
    method_id: np.ndarray | None = None  # int8[num_atoms], which of `methods`; None: the first
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    traced: tuple[str, ...] = ()  # the atoms that mixed slowest, "world: atom" if several
    trace: np.ndarray | None = None  # float32[num_chains, num_draws, num_traced], P(atom | rest)
    lower: np.ndarray | None = None  # float64[num_atoms], certified; None if not requested
    upper: np.ndarray | None = None  # float64[num_atoms]
    plan: PlanReport | None = None  # as it was executed
    with_plan: bool = False  # whether tables and JSON include it
    formulas: Sequence[str] = ()  # of each weight; the constants of + variables are filled in
    source: AnswerSource | None = field(default=None, compare=False)

    def explain(
        self,
        atom: Key,
        *,
        world: WorldValues | None = None,
        change_to: float | None = None,
        facts: FactsWithout = "removed",
        fit: LearnedWeights | None = None,
    ) -> Explanation:
        """Explain why an atom or a ground formula has its probability.

        Parameters
        ----------
        atom
            An atom ("Smokes(Anna)"), a formula over atoms ("Smokes(Anna) ^ !Cancer(Anna)"), or the
            name of its data and its text if there are several worlds.
        world
            The world that contributions refer to: truth values of atoms, the true atoms, or a most
            likely world; the most likely one if absent.
        change_to
            A probability: find a smallest set of facts whose change moves the atom across it.
        facts
            What becomes of a fact that is taken away: "removed" (as if the data were silent),
            "unknown" or "false".
        fit
            The `Fit` that the weights are from: its standard errors give one of the probability.

        Returns
        -------
        Explanation
            What ground formulas add, what holds without facts and rules, and derivatives.

        Raises
        ------
        LapisError
            If the text is not a ground atom or formula, or the answer has no model.
        TooLarge
            If too many ground formulas touch the atom.
        """
        given = {"world": world, "change_to": change_to, "facts": facts, "fit": fit}
        return require_source(self).explain(atom, self, given)

    def explore(self) -> Any:  # noqa: ANN401  (a widget)
        """Show the answer as a widget in a notebook: sorted, filtered, explained row by row.

        Returns
        -------
        anywidget.AnyWidget
            The widget.

        Raises
        ------
        LapisError
            If anywidget is not installed.
        """
        from lapis.results.widgets import explore_answer

        return explore_answer(self)

    @property
    def method(self) -> str:
        """The names of all methods, as in "exact+gibbs"."""
        return "+".join(self.methods)

    @property
    def atoms(self) -> tuple[str, ...]:
        """The names of the atoms, in order."""
        return self.names

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped sampling early."""
        return bool(self.diagnostics.get("interrupted", False))

    @property
    def errors(self) -> np.ndarray:
        """float64[num_atoms], standard errors: 0 if exact, NaN if unknown."""
        if self.stderr is not None:
            return self.stderr
        return np.full(len(self), 0.0 if self.exact else np.nan)

    def method_of(self, index: int) -> str:
        """Name the method that answered an atom.

        Parameters
        ----------
        index
            Place of the atom in the answer.

        Returns
        -------
        str
            The name of the method.
        """
        return self.methods[0 if self.method_id is None else self.method_id[index]]

    @cached_property
    def marginals(self) -> dict[Any, float]:
        """Probabilities by name, or by world and name if there are several worlds."""
        return self._by_key(self.probability)

    def __getitem__(self, key: Key) -> float:
        """Return the probability of an atom: answer["P(A)"], or answer["world", "P(A)"]."""
        return float(self.probability[self.asked.find(key)])

    @property
    def expected(self) -> ExpectedCountTable:
        """The expected count of each weight's formula, with its standard error (NaN if exact)."""
        errors = self.diagnostics.get("expected_counts_stderr")
        stderr = np.full(len(self.expected_counts), np.nan) if errors is None else np.array(errors)
        return ExpectedCountTable(expected_rows(self.formulas, self.expected_counts, stderr=stderr))

    def measured(self) -> dict[str, np.ndarray | Coded]:
        """Return probabilities, standard errors, bounds if there are any, methods if not exact.

        An exact answer has no standard errors (NaN). Of one that is exact in part, the exact atoms
        have 0.
        """
        stderr = np.full(len(self), np.nan) if self.stderr is None else self.stderr
        found: dict[str, np.ndarray | Coded] = {"probability": self.probability, "stderr": stderr}
        if self.lower is not None and self.upper is not None:
            found |= {"lower": self.lower, "upper": self.upper}
        if not self.exact:
            ids = np.zeros(len(self), np.int8) if self.method_id is None else self.method_id
            found["method"] = Coded(ids, as_objects(list(self.methods)))
        return found

    def rows(self) -> Iterator[tuple[str, float, float | None]]:
        """Yield the name, probability and standard error of each atom."""
        errors = [None] * len(self) if self.stderr is None else self.stderr.tolist()
        yield from zip(self.asked, self.probability.tolist(), errors, strict=True)

    def document(self) -> dict[str, Any]:
        """Return the document of `lapis infer --json`."""
        return {
            "method": self.method,
            "exact": self.exact,
            "log_partition": self.log_partition,
            "atoms": self._entries(),
            "expected_counts": self.expected_counts.tolist(),
            "expected": self.expected.document()["rows"],
            **self.diagnostics,
            **({"plan": self.plan.document()} if self.with_plan and self.plan else {}),
        }

    def views(self) -> list[View]:
        """Return the table of atoms by decreasing probability."""
        order = rank_by(self.probability, MAX_ROWS)
        cells = [f"{p:.4f}" for p in self.probability[order]]
        if self.stderr is not None and not self.exact:
            errors = self.stderr[order].tolist()
            cells = [
                cell if math.isnan(error) else f"{cell} ± {error:.4f}"
                for cell, error in zip(cells, errors, strict=True)
            ]
        columns = {"probability": cells}
        if self.lower is not None and self.upper is not None:
            ends = zip(self.lower[order].tolist(), self.upper[order].tolist(), strict=True)
            columns["certified"] = [format_bounds(lower, upper) for lower, upper in ends]
        plans = self.plan.views() if self.with_plan and self.plan else []
        return [*plans, self._ranked_view(order, columns, self.probability)]

    def summary(self) -> str:
        """Return the answer in one line."""
        where = f" of {len(self.asked.worlds)} worlds" if self.asked.is_divided else ""
        number = f"{len(self):,} atom{'' if len(self) == 1 else 's'}{where}"
        total = "" if self.log_partition is None else f"; log partition {self.log_partition:.6g}"
        if self.exact:
            return f"{number}, exact (by {self.method}){total}"
        how = f"approximate (by {self.method})"
        if self.stderr is not None:
            how += f", standard errors up to {float(np.fmax.reduce(self.stderr, initial=0.0)):.2g}"
        return f"{number}, {how}{total}"

    def remarks(self) -> list[str]:
        """Return caveats from the diagnostics."""
        found = []
        if not len(self):
            found.append("no queried atom is unknown (lapis check MODEL DATA may show why)")
        has_formulas = any(not group.is_atom for group in self.asked.groups)
        if has_formulas and not self.exact and "bp" in self.methods:
            found.append(
                "a formula query connects its atoms, which can change their marginals by bp: "
                "query formulas separately from atoms, or use another method"
            )
        return [*found, *quality_remarks(self.diagnostics)]

    def plot(self, axes: Axes | None = None, limit: int = 30) -> Axes:
        """Draw bars of the most likely atoms, with error bars where the answer is not exact.

        Parameters
        ----------
        axes
            Matplotlib axes to draw on; new ones if absent.
        limit
            Number of atoms at most.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        order = rank_by(self.probability, limit)
        errors = None if self.stderr is None else self.stderr[order]
        names = [": ".join(row) for row in self._named_rows(order)]
        return plot_bars(
            names, self.probability[order], axes,
            xlabel="probability", title=self.summary(), errors=errors,
        )  # fmt: skip

    def plot_chains(self, axes: Axes | None = None) -> Axes:
        """Draw the running means of the slowest atom in each chain, which should agree.

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
            If the answer has no chains, or matplotlib is not installed.
        """
        found = new_axes(axes, (7, 3))
        for chain, draws in enumerate(self._require_chains()):
            smooth = np.cumsum(draws[:, 0]) / np.arange(1, len(draws) + 1)
            found.plot(smooth, lw=1, label=f"chain {chain + 1}")
        title = f"slowest atom: {shorten_label(self.traced[0])}"
        found.set(ylim=(0, 1), xlabel="draw", ylabel="running mean", title=title)
        found.legend(frameon=False, fontsize="small")
        return style_axes(found)

    def to_arviz(self) -> InferenceData:
        """Convert the chains of the slowest atoms to an ArviZ object.

        Returns
        -------
        arviz.InferenceData
            A variable for each atom.

        Raises
        ------
        LapisError
            If the answer has no chains, or the package arviz is not installed.
        """
        trace = self._require_chains()
        return to_arviz({name: trace[:, :, i] for i, name in enumerate(self.traced)})

    def _require_chains(self) -> np.ndarray:
        """Return the chains, float64[num_chains, num_draws, num_traced]; raise if none."""
        if self.trace is None:
            raise LapisError(
                "this answer has no chains", code="no-chains", hint=f"it is {self.summary()}"
            )
        return self.trace


def require_source(answer: Answer | MostLikelyWorld) -> AnswerSource:
    """Return what an answer was found from; raise if it was not kept."""
    if answer.source is None:
        raise LapisError(
            "this answer cannot be explained: it has no model of formulas in memory",
            code="no-source",
            hint="call lapis.explain with the model and the data",
        )
    return answer.source


def format_bounds(lower: float, upper: float) -> str:
    """Format bounds, rounded outward.

    >>> format_bounds(0.31249, 0.3377), format_bounds(0.5, 0.5)
    ('between .312 and .338', 'exactly .500')
    """
    if lower == upper:
        return f"exactly {lower:.3f}".replace(" 0.", " .")
    low, high = math.floor(lower * 1000) / 1000, math.ceil(upper * 1000) / 1000
    return f"between {low:.3f} and {high:.3f}".replace(" 0.", " .")


def quality_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    """Return caveats of a sampled or searched answer."""
    return [
        *average_remarks(diagnostics),
        *fitted_remarks(diagnostics),
        *relaxed_remarks(diagnostics),
        *convergence_remarks(diagnostics),
        *mode_remarks(diagnostics),
        *diagnostics.get("notes", ()),
    ]


def average_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    """Describe an average over draws of the weights."""
    if "draw_methods" not in diagnostics:
        return []
    how = "exactly" if diagnostics["draws_exact"] else "approximately"
    by = ", ".join(diagnostics["draw_methods"])
    return [
        f"averaged over {diagnostics['draws']:,} draws of the weights "
        f"({diagnostics['posterior_method']}), each answered {how} (by {by}); standard errors are "
        "those of the average",
        *(f"caveat of the posterior: {caveat}" for caveat in diagnostics["caveats"]),
    ]


def fitted_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    """Describe how well stated probabilities are fitted."""
    lines: list[str] = []
    for name in ("prior", "posterior"):
        if f"{name}_rounds" not in diagnostics:
            continue
        rounds, deviation = diagnostics[f"{name}_rounds"], diagnostics[f"{name}_deviation"]
        how = "" if diagnostics[f"{name}_fitted"] else "not "
        lines.append(
            f"{name} constraints {how}fitted in {rounds:,} round{'' if rounds == 1 else 's'}, "
            f"largest deviation {deviation:.0e}"
        )
    return lines


def relaxed_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    """List the hard formulas that were violated because they contradict each other or the data."""
    if "relaxed" not in diagnostics:
        return []
    broken, number = diagnostics["relaxed"], diagnostics["relaxed_groundings"]
    few = "the fewest possible"
    if not diagnostics["relaxed_fewest"]:
        least = diagnostics["relaxed_at_least"]
        few = f"the fewest found (every world breaks at least {least:,})"
    lines = [f"{number:,} hard ground formula{'' if number == 1 else 's'} broken, {few}:"]
    lines += [f"  {found['place']}: {found['formula']}" for found in broken[:MAX_BROKEN]]
    if len(broken) > MAX_BROKEN:
        lines.append(f"  and {len(broken) - MAX_BROKEN:,} more (all of them with --json)")
    return lines


def convergence_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    if diagnostics.get("interrupted"):
        return ["stopped early: the result is partial"]
    if diagnostics.get("stuck_atoms"):
        return [
            f"not converged: the chains do not move ({diagnostics['stuck_atoms']:,} sampled atoms "
            "keep the values that a chain started with), so these probabilities depend on the "
            "starting points; try --method auto or tempering, more samples will not help"
        ]
    if diagnostics.get("converged") is False:
        if "residual" in diagnostics:
            return [f"not converged: messages still change by {diagnostics['residual']:.2g}"]
        rhat, left = diagnostics.get("rhat"), diagnostics.get("seconds_left", math.inf)
        reasons = [] if rhat is None else [f"worst R-hat {rhat:.3f}"]
        if 0 < left < math.inf:
            reasons.append(f"about {format_time(left)} more for the precision asked")
        reason = f" ({'; '.join(reasons)})" if reasons else ""
        return [
            f"not converged{reason}: allow more --max-samples or --time-limit, "
            "or try --method tempering"
        ]
    worth = min(diagnostics.get(name, math.inf) for name in ("ess", "ess_bulk", "ess_tail"))
    if "chains" in diagnostics and worth < MIN_ESS_PER_CHAIN * diagnostics.get("chains", 1):
        return [
            f"few effective samples ({worth:,.0f} in {diagnostics['chains']} chains, 100 a chain "
            "are wanted): the standard errors are rough; a smaller --precision samples more"
        ]
    return []


def mode_remarks(diagnostics: Mapping[str, Any]) -> list[str]:
    """Name the modes in which chains stayed apart: those that are mixed, and those left out."""
    modes = diagnostics.get("modes", ())
    kept, dropped = [row for row in modes if row["kept"]], [row for row in modes if not row["kept"]]
    lines = []
    if len(kept) > 1:
        weights = ", ".join(f"{row['weight']:.3g} ± {row['stderr']:.1g}" for row in kept)
        lines.append(
            f"chains stay apart in {len(kept)} modes, which are weighed and mixed: {weights} "
            f"({kept[-1]['atom']} tells them apart)"
        )
    if dropped:
        row = max(dropped, key=lambda row: row["stderr"])
        number = "1 mode weighs" if len(dropped) == 1 else f"{len(dropped)} modes weigh"
        lines.append(
            f"{number} at most {sum(row['stderr'] for row in dropped):.1g} and "
            f"{'is' if len(dropped) == 1 else 'are'} left out ({row['atom']} is "
            f"{row['probability']:.3g} there)"
        )
    return lines


def format_time(seconds: float) -> str:
    """Format a predicted time: 344 s, 40 min, 3 h."""
    if seconds < 600:
        return f"{max(seconds, 1):,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7_200 else f"{seconds / 3600:,.0f} h"


def to_arviz(draws: Mapping[str, np.ndarray]) -> InferenceData:
    """Convert draws by name, float[num_chains, num_draws] each, to an ArviZ object."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that ArviZ 1.0 is coming
            import arviz
    except ImportError:
        raise LapisError(
            "this needs arviz, which is not installed",
            code="missing-package",
            hint="pip install arviz",
        ) from None
    # Called convert_to_datatree from ArviZ 1.0 on.
    old = getattr(arviz, "convert_to_inference_data", None)
    return (old or arviz.convert_to_datatree)(dict(draws))


@dataclass(frozen=True, repr=False)
class MostLikelyWorld(AtomResult):
    """A most likely truth assignment to the unknown query atoms."""

    method: str
    optimal: bool
    score: float  # Σ w·n over all groundings, evidence included
    asked: Atoms
    value: np.ndarray  # bool[num_atoms]
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    source: AnswerSource | None = field(default=None, compare=False)

    def explain(
        self,
        atom: Key,
        *,
        change_to: float | None = None,
        facts: FactsWithout = "removed",
        fit: LearnedWeights | None = None,
    ) -> Explanation:
        """Explain an atom's value in this world, and its probability.

        Parameters
        ----------
        atom
            An atom ("Smokes(Anna)"), a formula over atoms ("Smokes(Anna) ^ !Cancer(Anna)"), or the
            name of its data and its text if there are several worlds.
        change_to
            A probability: find a smallest set of facts whose change moves the atom across it.
        facts
            What becomes of a fact that is taken away: "removed" (as if the data were silent),
            "unknown" or "false".
        fit
            The `Fit` that the weights are from: its standard errors give one of the probability.

        Returns
        -------
        Explanation
            What ground formulas add in this world, what holds without facts and rules, and
            derivatives.

        Raises
        ------
        LapisError
            If the text is not a ground atom or formula, or the answer has no model.
        TooLarge
            If too many ground formulas touch the atom.
        """
        given = {"world": self, "change_to": change_to, "facts": facts, "fit": fit}
        return require_source(self).explain(atom, self, given)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the search early."""
        return bool(self.diagnostics.get("interrupted", False))

    @cached_property
    def atoms(self) -> dict[Any, bool]:
        """Truth values by name, or by world and name if there are several worlds."""
        return self._by_key(self.value)

    def __getitem__(self, key: Key) -> bool:
        """Return whether an atom is true: world["P(A)"], or world["data.db", "P(A)"]."""
        return bool(self.value[self.asked.find(key)])

    @property
    def true_atoms(self) -> list[str]:
        """The names of the true atoms, world by world."""
        return self.asked.take(np.flatnonzero(self.value))

    def measured(self) -> dict[str, np.ndarray | Coded]:
        """Return the truth values of the atoms."""
        return {"value": self.value}

    def document(self) -> dict[str, Any]:
        """Return the document of `lapis map --json`."""
        return {
            "method": self.method,
            "optimal": self.optimal,
            "score": self.score,
            "atoms": self._entries(),
            **self.diagnostics,
        }

    def views(self) -> list[View]:
        """Return the table of true atoms."""
        true = np.flatnonzero(self.value)
        headings = (*self._name_headings[:-1], "true in the most likely world")
        return [new_view(headings, self._named_rows(true[:MAX_ROWS]), num_rows=len(true))]

    def summary(self) -> str:
        """Return the world in one line."""
        kind = "proven most likely" if self.optimal else "best found"
        where = f" in {len(self.asked.worlds)} worlds" if self.asked.is_divided else ""
        return (
            f"{int(self.value.sum()):,} of {len(self):,} atoms true{where}, "
            f"score {self.score:.6g}, {kind} (by {self.method})"
        )

    def remarks(self) -> list[str]:
        """Return caveats from the diagnostics."""
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
