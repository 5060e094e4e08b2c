"""The result of `classify`: classes, probabilities, scores, pictures and explanations.

An explanation compares the likeliest class of an item with another. In the likeliest classes of its
neighbours, the log-odds of the two are a sum of contributions, one for each feature, each link and
the frequency of the classes:

    log P(a | rest) − log P(b | rest) = Σ_f (w_fa − w_fb) + Σ_links (u_ac − u_bc) + … + (v_a − v_b)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError, suggestion
from lapis.evaluation.metrics import average_precision, brier_score, calibration_curve
from lapis.language.model import Model
from lapis.learning.fit import Fit
from lapis.recipes.class_model import Trained
from lapis.recipes.item_tables import ItemTables
from lapis.recipes.recipe_result import RecipeResult
from lapis.recipes.waterfall import Contribution, describe_contributions, draw_waterfall
from lapis.results.answer import Answer
from lapis.results.columns import as_array
from lapis.results.plots import COLOUR, new_figure, save_picture, shorten_label, style_axes
from lapis.results.result import Columns, Figures, Result, Table
from lapis.runtime.views import MAX_ROWS, View, count_noun, new_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST = 1e-12  # of a probability in a logarithm


@dataclass(frozen=True, repr=False)
class Classification(RecipeResult):
    """Classes of the items without a label, with probabilities."""

    tables: ItemTables = field(repr=False)
    trained: Trained = field(repr=False)
    answer: Answer = field(repr=False)  # the marginals behind the probabilities
    probability: np.ndarray = field(repr=False)  # float64[num_classified, num_classes]
    # int64[num_items], NO_CLASS where it is not known; len(classes) for a class without a label
    truth: np.ndarray | None = field(default=None, repr=False)

    @property
    def query(self) -> str:
        """The predicate of the classes."""
        return self.tables.target

    @property
    def fit(self) -> Fit:
        """The learned weights."""
        return self.trained.fit

    @property
    def model(self) -> Model:
        return self.trained.fit.model

    @cached_property
    def data(self) -> Database:
        return self.tables.facts()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of the columns of `probability`."""
        return self.tables.classes

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The items that were classified, in the order of the rows of `probability`."""
        rows = np.flatnonzero(~self.tables.is_labelled).tolist()
        return tuple(self.tables.items[row] for row in rows)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The likeliest class of each item that was classified."""
        best = self.probability.argmax(axis=1).tolist()
        return {item: self.classes[k] for item, k in zip(self.items, best, strict=True)}

    @property
    def probabilities(self) -> Table:
        """A row for each item that was classified, with a column for each class."""
        columns: dict[str, Any] = {self.tables.item_type: list(self.items)}
        for number, name in enumerate(self.classes):
            columns[name] = self.probability[:, number]
        return Table(columns)

    @cached_property
    def true_classes(self) -> np.ndarray | None:
        """int64[num_classified], the true classes; None if they are not given for all."""
        if self.truth is None:
            return None
        found: np.ndarray = self.truth[~self.tables.is_labelled]
        return found if (found >= 0).all() else None

    @cached_property
    def scores(self) -> Figures:
        """Accuracy, AP, CLL and calibration on the classified items whose class is known."""
        truth = self.truth
        if truth is None:
            raise no_truth()
        own = truth[~self.tables.is_labelled]
        known = own >= 0
        if not known.any():
            raise no_truth()
        return Figures(score_classes(self.probability[known], own[known]))

    def columns(self) -> Columns:
        best = self.probability.argmax(axis=1)
        found: dict[str, Any] = {
            self.tables.item_type: list(self.items),
            self.tables.class_type: [self.classes[k] for k in best.tolist()],
            "probability": self.probability[np.arange(len(best)), best],
        }
        if self.truth is not None:
            known = self.truth[~self.tables.is_labelled].tolist()
            names = [*self.classes, "(another)"]
            found["truth"] = [None if k < 0 else names[k] for k in known]
        return found

    def frames(self) -> Mapping[str, Columns]:
        return {"classes": self.columns(), "probabilities": self.probabilities.columns()}

    def views(self) -> list[View]:
        columns: dict[str, Any] = {n: as_array(values) for n, values in self.columns().items()}
        best = columns["probability"]
        order = np.argsort(-best, kind="stable")[:MAX_ROWS]
        names = [name for name in columns if name != "probability"]
        rows = []
        for row in order.tolist():
            cells = ["–" if columns[n][row] is None else str(columns[n][row]) for n in names]
            rows.append([*cells[:2], f"{best[row]:.4f}", *cells[2:]])
        headings = [*names[:2], "probability", *names[2:]]
        return [
            new_view(
                headings, rows, numbers=["probability"], num_rows=len(best),
                bars=best[order].tolist(),
            )
        ]  # fmt: skip

    def summary(self) -> str:
        known = int(self.tables.is_labelled.sum())
        how = self.answer.method if self.answer.exact else f"{self.answer.method}, not exact"
        text = (
            f"{count_noun(len(self.items), 'item')} classified from {known:,} labelled ones, "
            f"{len(self.classes):,} classes ({how})"
        )
        if self.truth is not None:
            own = self.scores
            text += "".join(f", {name} {own[name]:.4g}" for name in ("accuracy", "ap", "cll"))
        return text

    def about(self) -> list[str]:
        """Return the lines of the comment at the head of the model."""
        widths = self.trained.widths
        lines = [self.summary(), f"prior of feature weights: gaussian:{widths.feature:g}"]
        if widths.near:
            lines.append(f"prior of features of linked items: gaussian:{widths.near:g}")
        if self.tables.links:
            lines.append(f"prior of link weights: gaussian:{widths.link:g}")
        return lines

    def remarks(self) -> list[str]:
        return self.answer.remarks()

    def document(self) -> dict[str, Any]:
        """Return the document of `lapis recipe classify --json`."""
        columns = self.columns()
        names = ("item", "class", "probability", "truth")
        rows = zip(*(list(column) for column in columns.values()), strict=True)
        entries = (
            {**dict(zip(names, row, strict=False)), "probability": float(row[2])} for row in rows
        )
        return {
            "method": self.answer.method,
            "exact": self.answer.exact,
            "classes": list(self.classes),
            "num_labelled": int(self.tables.is_labelled.sum()),
            "prior": self.trained.widths.feature,
            "near_prior": self.trained.widths.near,
            "link_prior": self.trained.widths.link,
            "scores": None if self.truth is None else self.scores.document(),
            "items": entries,
        }

    def plot(self, to: str | Path | None = None) -> Figure:
        """Draw the calibration and the confusion of classes, where the truth is known.

        Parameters
        ----------
        to
            Path of a picture; a new figure is shown if absent.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        LapisError
            If no truth is given, or matplotlib is not installed.
        """
        if self.truth is None:
            raise no_truth()
        figure = new_figure((11, 4.6), shown=to is None)
        left, right = figure.subplots(1, 2)
        self.plot_calibration(left)
        self.plot_confusion(right)
        if to is not None:
            save_picture(figure, Path(to))
        return figure

    def plot_calibration(self, axes: Axes | None = None) -> Axes:
        """Draw the share of items that are of their likeliest class against its probability.

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
            If no truth is given, or matplotlib is not installed.
        """
        probability, truth = self._scored()
        best = probability.argmax(axis=1)
        top = probability[np.arange(len(best)), best]
        curve = calibration_curve(top, best == truth)
        filled = curve.num_atoms > 0
        found = axes or new_figure((5.4, 4.6), shown=True).subplots()
        found.plot([0, 1], [0, 1], color="#9aa5b1", lw=1, ls="--")
        spread = np.sqrt(curve.predicted * (1 - curve.predicted) / np.maximum(1, curve.num_atoms))
        found.errorbar(
            curve.predicted[filled], curve.observed[filled], yerr=spread[filled], fmt="o-",
            ms=5, lw=1.6, elinewidth=1, color=COLOUR,
        )  # fmt: skip
        for x, y, number in zip(
            curve.predicted[filled], curve.observed[filled], curve.num_atoms[filled], strict=True
        ):
            found.annotate(
                f"{number:,}", (x, y), (4, -11), textcoords="offset points", fontsize="x-small",
                color="#6b7280",
            )  # fmt: skip
        found.set(
            xlim=(0, 1.02), ylim=(0, 1.04), xlabel="probability of the likeliest class",
            ylabel="share that is right", title=f"calibration error {curve.error:.3f}",
        )  # fmt: skip
        return style_axes(found)

    def plot_confusion(self, axes: Axes | None = None) -> Axes:
        """Draw a table of true classes by predicted ones.

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
            If no truth is given, or matplotlib is not installed.
        """
        probability, truth = self._scored()
        size = len(self.classes)
        names = [*self.classes, *(["(another)"] if (truth == size).any() else [])]
        count = np.zeros((len(names), size), np.int64)
        np.add.at(count, (truth, probability.argmax(axis=1)), 1)
        found = axes or new_figure((5.4, 4.6), shown=True).subplots()
        share = count / np.maximum(1, count.sum(axis=1, keepdims=True))
        found.imshow(share, cmap="Blues", vmin=0, vmax=1.2, aspect="auto")
        for row, column in np.ndindex(count.shape):
            if count[row, column]:
                found.text(
                    column, row, f"{count[row, column]:,}", ha="center", va="center",
                    fontsize="small", color="white" if share[row, column] > 0.7 else "#222222",
                )  # fmt: skip
        shown = [shorten_label(name) for name in names]
        found.set_xticks(range(size), shown[:size], rotation=30, ha="right")
        found.set_yticks(range(len(names)), shown)
        right = float(np.trace(count)) / max(1, int(count.sum()))
        found.set(xlabel="predicted", ylabel="true", title=f"accuracy {right:.3f}")
        return style_axes(found)

    def _scored(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities and true classes of items whose truth is known."""
        if self.truth is None:
            raise no_truth()
        own = self.truth[~self.tables.is_labelled]
        return self.probability[own >= 0], own[own >= 0]

    def explain(self, item: object, against: str | None = None) -> ClassExplanation:
        """Compare the likeliest class of an item with another, in the likeliest world.

        Parameters
        ----------
        item
            An item that was classified.
        against
            Another class; the second likeliest if absent.

        Returns
        -------
        ClassExplanation
            What each feature, each link and the frequency of the classes adds to the log-odds.

        Raises
        ------
        LapisError
            If the item was not classified, or the class does not exist.
        """
        name = str(item)
        if name not in self.labels:
            raise LapisError(
                f"{name!r} is no item that was classified",
                code="recipe-items",
                hint=suggestion(name, self.labels),
            )
        if against is not None and against not in self.classes:
            raise LapisError(
                f"{against!r} is no class",
                code="recipe-labels",
                hint=suggestion(against, self.classes, f"they are {', '.join(self.classes)}"),
            )
        own = self.probability[self.items.index(name)]
        order = [self.classes[k] for k in np.argsort(-own, kind="stable").tolist()]
        other = against or order[1]
        chosen = order[0] if order[0] != other else order[1]
        row = self.tables.items.index(name)
        parts = sorted(
            self._contributions(row, self.classes.index(chosen), self.classes.index(other)),
            key=lambda part: -abs(part.log_odds),
        )
        by_name = dict(zip(self.classes, own.tolist(), strict=True))
        return ClassExplanation(name, chosen, other, tuple(parts), by_name[chosen], by_name[other])

    @cached_property
    def _likeliest(self) -> np.ndarray:
        """int64[num_items], the classes of labelled items, the likeliest of the others."""
        found = self.tables.label.copy()
        found[~self.tables.is_labelled] = self.probability.argmax(axis=1)
        return found

    @cached_property
    def _weights(self) -> dict[tuple[int, tuple[str, ...]], float]:
        """The weights by rule and constants."""
        parameters = self.fit.parameters
        return dict(zip(parameters.keys(), self.fit.weights.tolist(), strict=True))

    def _contributions(self, row: int, chosen: int, other: int) -> Iterator[Contribution]:
        """Yield what features and links of an item add to the log-odds of a class to another."""
        tables, weights, one, two = (
            self.tables, self._weights, self.classes[chosen], self.classes[other],
        )  # fmt: skip
        rule = 0
        for own in tables.features:
            gains: dict[str, Contribution] = {}
            for feature in np.sort(own.feature[own.item == row]).tolist():
                name = own.names[feature]
                gain = weights.get((rule, (name, one)), 0.0) - weights.get((rule, (name, two)), 0.0)
                # A number reaches several thresholds of its column, which are shown as the highest.
                column = own.columns[feature] if own.columns else name
                before = gains[column].log_odds if column in gains else 0.0
                text = name if own.columns else f"{own.predicate} {name}"
                gains[column] = Contribution(text, before + gain)
            yield from gains.values()
            rule += 1
        for links in tables.links:
            for pair in links.pairs[(links.pairs == row).any(axis=1)].tolist():
                is_first = pair[0] == row
                neighbour = pair[1] if is_first else pair[0]
                third = self.classes[self._likeliest[neighbour]]
                ends = [(a, third) if is_first else (third, a) for a in (one, two)]
                levels = tuple(links.level_names[links.level[end] - 1] for end in pair)
                same = weights.get((rule + 1, levels), 0.0)
                gain = weights.get((rule, ends[0]), 0.0) - weights.get((rule, ends[1]), 0.0)
                gain += same * ((third == one) - (third == two))
                certain = "" if tables.is_labelled[neighbour] else " (predicted)"
                text = f"{links.predicate} {tables.items[neighbour]}, {third}{certain}"
                yield Contribution(text if is_first else f"{text}, as its target", gain)
            rule += 2
        gain = weights.get((rule, (one,)), 0.0) - weights.get((rule, (two,)), 0.0)
        yield Contribution("frequency of the classes", gain)


@dataclass(frozen=True, repr=False)
class ClassExplanation(Result):
    """Why an item has its class rather than another."""

    item: str
    label: str
    against: str
    contributions: tuple[Contribution, ...]  # the largest first
    probability: float  # of the label
    probability_against: float

    @property
    def log_odds(self) -> float:
        """The sum of the contributions: log-odds of the two classes given all neighbours."""
        return float(sum(part.log_odds for part in self.contributions))

    @property
    def text(self) -> str:
        """The explanation in words."""
        head = (
            f"{self.item} is {self.label} (probability {self.probability:.2f}) rather than "
            f"{self.against} ({self.probability_against:.2f})"
        )
        return "\n".join([head, *describe_contributions(self.contributions)])

    def columns(self) -> Columns:
        return {
            "because": [part.because for part in self.contributions],
            "log_odds": np.array([part.log_odds for part in self.contributions]),
        }

    def views(self) -> list[View]:
        rows = [(part.because, f"{part.log_odds:+.3f}") for part in self.contributions]
        return [new_view(["because", "log-odds"], rows[:MAX_ROWS], numbers=["log-odds"],
                         num_rows=len(rows))]  # fmt: skip

    def summary(self) -> str:
        return (
            f"{self.item}: {self.label} against {self.against}, log-odds {self.log_odds:+.2f} "
            "given the likeliest classes of its neighbours"
        )

    def document(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "class": self.label,
            "against": self.against,
            "probability": self.probability,
            "log_odds": self.log_odds,
            "contributions": [part._asdict() for part in self.contributions],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw a waterfall: how the contributions add up to the log-odds.

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
        return draw_waterfall(
            self.contributions,
            axes,
            xlabel=f"log-odds of {self.label} against {self.against}",
            title=f"{self.item}: {self.label}, probability {self.probability:.2f}",
        )


def score_classes(probability: np.ndarray, truth: np.ndarray) -> dict[str, float | int | None]:
    """Score float64[num_items, num_classes] against int64[num_items] of true classes.

    `cll` is the mean log P(Class(item, class) = its truth) over all pairs of an item and a class,
    as for other atoms; `log_loss` is −log P(the item's class), per item.

    >>> found = score_classes(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0]))
    >>> found["items"], found["accuracy"], round(found["log_loss"], 4)
    (2, 0.5, 0.5697)
    """
    num_items, size = probability.shape
    is_true = np.zeros((num_items, size), bool)
    inside = truth < size
    is_true[np.flatnonzero(inside), truth[inside]] = True
    bounded = np.clip(probability, SMALLEST, 1 - SMALLEST)
    own = np.where(is_true, bounded, 0.0).sum(axis=1)
    return {
        "items": num_items,
        "accuracy": float((probability.argmax(axis=1) == truth).mean()),
        "ap": average_precision(probability.ravel(), is_true.ravel()),
        "cll": float(np.where(is_true, np.log(bounded), np.log1p(-bounded)).mean()),
        "log_loss": float(-np.log(np.maximum(own, SMALLEST)).mean()),
        "brier": brier_score(probability.ravel(), is_true.ravel()),
    }


def no_truth() -> LapisError:
    return LapisError(
        "there are no scores without the true classes",
        code="recipe-labels",
        hint="name their column (truth_column=…, --truth-column)",
    )
