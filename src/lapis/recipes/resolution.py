"""The result of resolve: pairs with probabilities, clusters, weights, explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.language.model import Model
from lapis.recipes.blocking import BlockingRule, CandidatePairs
from lapis.recipes.comparisons import compare_pairs
from lapis.recipes.match_mixture import RELATED, SAME, MatchModel, combine
from lapis.recipes.recipe_result import RecipeResult
from lapis.recipes.records import Records
from lapis.recipes.resolution_scores import ResolutionScores, score_resolution
from lapis.recipes.transitivity import JointSolution
from lapis.results.result import Columns, Result, Table
from lapis.runtime.views import View, format_number, new_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lapis.recipes.new_records import NewRecords
    from lapis.recipes.records import TableLike

SHOWN_PAIRS = 20


@dataclass(frozen=True, repr=False)
class Resolution(RecipeResult):
    """Pairs of records with the probability that they are the same, and clusters.

    The frame (`to_pandas` and others) has a row for each candidate pair, the likeliest first.
    `clusters`, `weights` and `blocking` are further tables.
    """

    records: Records
    rules: tuple[BlockingRule, ...]
    match: MatchModel
    pairs: CandidatePairs  # candidates, then pairs that transitivity needs
    levels: np.ndarray  # int64[num_pairs, num_columns], extended
    compared: np.ndarray  # bool[num_pairs]: False within one of two tables
    log_odds: np.ndarray  # float64[num_pairs, 2], of same and related against chance
    joint: JointSolution
    transitive: bool
    learned: str  # how the weights were found, in words
    truth: np.ndarray | None = None  # int64[num_records], −1: not known
    counts: Table | None = None  # pairs of each blocking rule
    one_to_one: bool = False  # whether pairs within a table are false

    @property
    def query(self) -> str:
        return "Same,Related" if self.match.with_related else "Same"

    @property
    def only_listed(self) -> bool:
        return True

    @property
    def probability(self) -> np.ndarray:
        """The probability of each pair to be the same entity."""
        return self.joint.probability

    @cached_property
    def linked(self) -> np.ndarray:
        """Which pairs are among those of transitivity."""
        if not self.transitive:
            return np.zeros(len(self.pairs), bool)
        return self.joint.is_joint(self.pairs.left, self.pairs.right)

    @cached_property
    def written(self) -> tuple[Model, list[list[str]]]:
        """The model, and notes on its weights."""
        from lapis.language.resolve import parse_model
        from lapis.recipes.resolution_model import write_model

        text, notes = write_model(self.match, transitive=bool(self.linked.any()))
        return parse_model(text, name="resolve.mln"), notes

    @property
    def model(self) -> Model:
        return self.written[0]

    @cached_property
    def data(self) -> Database:
        from lapis.recipes.resolution_model import build_facts

        linked = self.linked if self.linked.any() else None
        unknown = self.compared if self.one_to_one else np.ones(len(self.pairs), bool)
        return build_facts(
            self.records, self.match, self.pairs, self.levels, self.compared, unknown, linked
        )

    def model_text(self) -> str:
        """Return the text of the model; every level has a note in words.

        Returns
        -------
        str
            Declarations and weighted formulas, as `lapis.parse` reads them.
        """
        from lapis.language.printer import print_model

        model, notes = self.written
        lines = [*self.about(), f"To run it again: {self.command()}"]
        return print_model(model, title="\n".join(lines), notes=notes)

    def about(self) -> list[str]:
        """Return the lines of the comment at the head of the model."""
        lines = ["Which records are the same? " + self.summary(), f"Weights: {self.learned}."]
        lines += [
            f"{each.column}: {each.kind}, because {each.reason}." if each.reason != "as given"
            else f"{each.column}: {each.kind}."
            for each in self.match.comparisons
        ]  # fmt: skip
        lines += [f"Rule_{n}: {rule.text}" for n, rule in enumerate(self.rules, start=1)]
        return lines

    def frames(self) -> Mapping[str, Columns]:
        return {
            "pairs": self.columns(),
            "clusters": self.clusters.columns(),
            "weights": self.weights.columns(),
        }

    @cached_property
    def order(self) -> np.ndarray:
        """int64[num_shown]: the compared pairs, the likeliest first."""
        rows = np.flatnonzero(self.compared)
        keys = (-combine(self.log_odds[rows]), -self.probability[rows])
        found: np.ndarray = rows[np.lexsort(keys)]
        return found

    def columns(self) -> Columns:
        rows = self.order
        left, right = self.pairs.left[rows], self.pairs.right[rows]
        cluster = self.joint.cluster
        return {
            "left": self.records.ids[left],
            "right": self.records.ids[right],
            "probability": self.probability[rows],
            "match_weight": combine(self.log_odds[rows]),
            "same_cluster": cluster[left] == cluster[right],
        }

    @property
    def clusters(self) -> Table:
        """The cluster of each record."""
        columns: dict[str, Any] = {"id": self.records.ids, "cluster": self.joint.cluster}
        if self.records.num_left is not None:
            side = np.where(np.arange(len(self.records)) < self.records.num_left, "left", "right")
            columns = {"table": side.astype(object), **columns}
        return Table(columns)

    @property
    def weights(self) -> Table:
        """The weight of each level, and its probability in pairs of each kind."""
        rows = []
        for column, comparison in enumerate(self.match.comparisons):
            weights = self.match.level_weights[column]
            kinds = (self.match.same, self.match.related, self.match.chance)
            for level, (constant, words) in enumerate(comparison.levels(), start=1):
                if constant:
                    shares = [float(kind[column][level]) for kind in kinds]
                    row = (comparison.column, words, float(weights[SAME][level]), *shares)
                    rows.append((*row[:3], float(weights[RELATED][level]), *row[3:]))
        names = ["column", "level", "weight", "weight_related", "same", "related", "chance"]
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        if not self.match.with_related:
            del columns["weight_related"], columns["related"]
        return Table(columns)

    @property
    def num_same(self) -> int:
        """The number of pairs that are more likely the same than not."""
        return int((self.probability[self.compared] > 0.5).sum())

    @property
    def num_clusters(self) -> int:
        return int(self.joint.cluster.max(initial=-1)) + 1

    @property
    def exact(self) -> bool:
        """Whether transitivity was summed exactly in all components."""
        return self.joint.num_greedy == 0

    def views(self) -> list[View]:
        """Return the likeliest pairs, with the first columns of both records."""
        found = []
        if self.counts is not None:
            found += self.counts.views()
        columns = [each.column for each in self.match.comparisons[:3]]
        rows = []
        for row in self.order[:SHOWN_PAIRS].tolist():
            left, right = int(self.pairs.left[row]), int(self.pairs.right[row])
            cells = [self._pair_cell(name, left, right) for name in columns]
            ids = (str(self.records.ids[left]), str(self.records.ids[right]))
            rows.append((*ids, f"{self.probability[row]:.4f}", *cells))
        headings = ["left", "right", "probability", *columns]
        found.append(new_view(headings, rows, numbers=["probability"], num_rows=len(self.order)))
        return found

    def _pair_cell(self, column: str, left: int, right: int) -> str:
        """Return the values of two records in a column: one text if they are equal."""
        one, other = (self.records.columns[column].cell(row) or "–" for row in (left, right))
        return one if one == other else f"{one} / {other}"

    def summary(self) -> str:
        return (
            f"{len(self.records):,} records in {self.num_clusters:,} clusters; "
            f"{self.num_same:,} of {int(self.compared.sum()):,} pairs are probably the same"
        )

    def remarks(self) -> list[str]:
        """Return caveats of the result."""
        found = []
        if not self.match.converged:
            found.append(f"EM did not converge in {self.match.iterations} iterations")
        if self.joint.num_greedy:
            found.append(
                f"transitivity: {self.joint.num_exact:,} components are exact; in "
                f"{self.joint.num_greedy:,} of over 7 records pairs are independent, and clusters "
                "are a local optimum"
            )
        return found

    def document(self) -> dict[str, Any]:
        names = list(self.columns())
        rows = zip(
            *(np.asarray(column).tolist() for column in self.columns().values()), strict=True
        )
        clusters = self.clusters.columns()
        scores = self.scores()
        return {
            "records": len(self.records),
            "num_clusters": self.num_clusters,
            "exact": self.exact,
            "weights_from": self.learned,
            "scores": None if scores is None else scores.document(),
            "blocking": [] if self.counts is None else list(self.counts.document()["rows"]),
            "weights": list(self.weights.document()["rows"]),
            "clusters": (
                dict(zip(clusters, row, strict=True))
                for row in zip(*(np.asarray(c).tolist() for c in clusters.values()), strict=True)
            ),
            "pairs": (dict(zip(names, row, strict=True)) for row in rows),
        }

    def scores(self) -> ResolutionScores | None:
        """Return the scores against the truth; None if no truth was given.

        Returns
        -------
        ResolutionScores or None
            Average precision of the pairs, F1 of the clusters' pairs, B-cubed F1.
        """
        if self.truth is None:
            return None
        return score_resolution(
            self.truth, self.joint.cluster, self.pairs, combine(self.log_odds), self.probability,
            self.records.num_left,
        )  # fmt: skip

    def _find_pair(self, left: object, right: object) -> tuple[int, int, int | None]:
        """Return the rows of two records, in the order of the tables, and their pair."""
        one, other = sorted((self.records.row(left), self.records.row(right)))
        if one == other:
            raise LapisError(f"{left!r} is one record, not a pair", code="record-id")
        found = np.flatnonzero((self.pairs.left == one) & (self.pairs.right == other))
        return one, other, int(found[0]) if len(found) else None

    def explain(self, left: object, right: object) -> PairExplanation:
        """Explain the probability of a pair: what each column adds to its log-odds.

        Parameters
        ----------
        left
            The id of a record.
        right
            The id of another record.

        Returns
        -------
        PairExplanation
            A table whose contributions add up to the log-odds of the pair, with a waterfall plot.

        Raises
        ------
        LapisError
            If an id is unknown.
        """
        one, other, pair = self._find_pair(left, right)
        match = self.match
        if pair is None:
            plain = compare_pairs(
                self.records, match.comparisons, np.array([one]), np.array([other])
            )
            sets = np.array([-1])
            levels, bits = match.extend(plain, sets)[0], 0
        else:
            levels, bits = self.levels[pair], int(self.pairs.found_by[pair])
            sets = match.sets.index(np.array([bits]))
        odds = match.log_odds(levels[None], sets)
        rows = [("prior odds", self._rule_words(bits), float(odds[0, SAME]))]
        for column, comparison in enumerate(match.comparisons):
            weight = float(match.level_weights[column][SAME][levels[column]])
            words = dict(enumerate((w for _, w in comparison.levels()), start=1))
            shown = self._pair_cell(comparison.column, one, other)
            level = words.get(int(levels[column]), "") or "missing"
            rows.append((comparison.column, f"{shown} ({level})", weight))
        start = rows[0][2] - sum(weight for _, _, weight in rows[1:])
        rows[0] = (*rows[0][:2], start)
        own = float(combine(odds)[0])
        if match.with_related:
            rows.append(("or only related", "", own - float(odds[0, SAME])))
        total = own
        if pair is not None and self.linked[pair]:
            probability = float(np.clip(self.probability[pair], 1e-300, 1 - 1e-16))
            total = float(np.log(probability) - np.log1p(-probability))
            rows.append(("other records", "transitivity", total - own))
        ids = (str(self.records.ids[one]), str(self.records.ids[other]))
        return PairExplanation(*ids, tuple(rows), total)

    def _rule_words(self, bits: int) -> str:
        """Return the blocking rules of a set, in words."""
        if not self.rules:
            return "all pairs are compared" if bits else "no rule found this pair"
        found = [rule.text for number, rule in enumerate(self.rules) if bits >> number & 1]
        return f"found by {'; '.join(found)}" if found else "no rule found this pair"

    def predict(self, records: TableLike, *, id_column: str = "id") -> NewRecords:
        """Find the clusters of records that were not there, without learning anew.

        Parameters
        ----------
        records
            A table with the columns that are compared.
        id_column
            The column of the ids.

        Returns
        -------
        NewRecords
            The cluster of each new record, and its pairs.

        Raises
        ------
        LapisError
            If a column is missing or an id is not new.
        """
        from lapis.recipes.new_records import place_records

        return place_records(self, records, id_column)

    def with_truth(
        self, truth: TableLike, *, id_column: str = "id", column: str = "entity"
    ) -> Resolution:
        """Return the result with the true entities, for scores.

        Parameters
        ----------
        truth
            A table with the id of each record and its entity.
        id_column
            The column of the ids.
        column
            The column of the entities.

        Returns
        -------
        Resolution
            The same result with a truth.

        Raises
        ------
        LapisError
            If an id is unknown or a column is missing.
        """
        from lapis.recipes.records import read_records

        table = read_records(truth, id_column=id_column)
        codes = table.column(column, "truth").codes
        found = np.full(len(self.records), -1, np.int64)
        found[[self.records.row(name) for name in table.ids]] = codes
        return replace(self, truth=found)

    def plot_weights(self, axes: Axes | None = None) -> Axes:
        """Plot the weight of each level of each column.

        Parameters
        ----------
        axes
            Axes to draw on; new ones if None.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        from lapis.recipes.resolution_plots import plot_weights

        return plot_weights(self, axes)

    def plot_probabilities(self, axes: Axes | None = None) -> Axes:
        """Plot a histogram of the probabilities of the pairs.

        Parameters
        ----------
        axes
            Axes to draw on; new ones if None.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        from lapis.recipes.resolution_plots import plot_probabilities

        return plot_probabilities(self, axes)

    def plot_precision_recall(self, axes: Axes | None = None) -> Axes:
        """Plot precision and recall of the pairs against the truth.

        Parameters
        ----------
        axes
            Axes to draw on; new ones if None.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        LapisError
            If there is no truth, or matplotlib is not installed.
        """
        from lapis.recipes.resolution_plots import plot_precision_recall

        scores = self.scores()
        if scores is None:
            raise LapisError(
                "precision and recall need the truth", code="no-truth",
                hint="give truth_column=, or use with_truth",
            )  # fmt: skip
        return plot_precision_recall(scores, axes)

    def plot(self, path: str | Path | None = None) -> None:
        """Plot weights, probabilities and, with a truth, precision and recall in one picture.

        Parameters
        ----------
        path
            A file to write; None for a notebook or a window.

        Raises
        ------
        LapisError
            If matplotlib is not installed or the file cannot be written.
        """
        from lapis.recipes.resolution_plots import plot_resolution

        plot_resolution(self, None if path is None else Path(path))


@dataclass(frozen=True, repr=False)
class PairExplanation(Result):
    """What adds up to the log-odds that two records are the same."""

    left: str
    right: str
    rows: tuple[tuple[str, str, float], ...]  # what, the values in words, what it adds
    log_odds: float

    @property
    def probability(self) -> float:
        """The probability that the two records are the same."""
        return float(np.exp(-np.logaddexp(0.0, -self.log_odds)))

    def columns(self) -> Columns:
        names, values, weights = (list(part) for part in zip(*self.rows, strict=True))
        return {"what": names, "values": values, "contribution": weights}

    def views(self) -> list[View]:
        rows = [(name, words, f"{weight:+.2f}") for name, words, weight in self.rows]
        total = [("in all", f"probability {self.probability:.4f}", f"{self.log_odds:+.2f}")]
        return [
            new_view(
                ["what", "values", "contribution"], rows, numbers=["contribution"], totals=total
            )
        ]

    def summary(self) -> str:
        return (
            f"{self.left} and {self.right} are the same with probability "
            f"{format_number(self.probability)} (log-odds {self.log_odds:+.2f})"
        )

    def document(self) -> dict[str, Any]:
        return {
            "left": self.left,
            "right": self.right,
            "probability": self.probability,
            "log_odds": self.log_odds,
            "contributions": [
                {"what": name, "values": words, "contribution": weight}
                for name, words, weight in self.rows
            ],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot a waterfall: each contribution begins where the one before ends.

        Parameters
        ----------
        axes
            Axes to draw on; new ones if None.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        from lapis.recipes.resolution_plots import plot_waterfall

        return plot_waterfall(self, axes)
