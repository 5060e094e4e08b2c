"""The result of `link`: predicted facts, ranks, scores, pictures and explanations.

Ranks follow the protocol of the field. For each test fact (h, r, t) the candidates for t are ranked
among all entities, and those for h; other known answers (of training, validation and test) are left
out ("filtered"); ties share the mean of their ranks. MRR is the mean of 1/rank, hits@k the share of
ranks of at most k.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit

from lapis.counting.differences.atom_differences import open_differences
from lapis.data.database import Database
from lapis.errors import LapisError, suggestion
from lapis.evaluation.metrics import average_precision, brier_score, calibration_curve, roc_auc
from lapis.language.model import Model
from lapis.problem.problem import Problem, build_problem
from lapis.recipes.recipe_result import RecipeResult
from lapis.recipes.waterfall import Contribution, describe_contributions, draw_waterfall
from lapis.results.plots import COLOUR, new_figure, save_picture, style_axes
from lapis.results.result import Columns, Figures, Result, Table
from lapis.runtime.views import MAX_ROWS, View, count_noun, new_view
from lapis.structure.learned_rules import LearnedRules

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_CANDIDATES = 20_000_000  # atoms of all relations that are scored at once
OFFSET_WIDTH = 1.0  # of the prior of a relation's offset
SLOPE_WIDTH = 1.0  # of the prior of the common slope, around 1
HITS = (1, 3, 10)


class Triple(NamedTuple):
    """A fact of a relation."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True)
class LinkCalibration:
    """Probabilities from log-odds x: 1 / (1 + exp(−(slope·x + offset of the relation)))."""

    slope: float = 1.0
    offset: Mapping[str, float] = field(default_factory=dict)

    def probability(self, relation: str, log_odds: np.ndarray) -> np.ndarray:
        found: np.ndarray = expit(self.slope * log_odds + self.offset.get(relation, 0.0))
        return found


@dataclass(frozen=True, repr=False)
class LinkPrediction(RecipeResult):
    """Relations completed by learned rules."""

    rules: LearnedRules = field(repr=False)
    facts: Database = field(repr=False)  # that are known
    relations: tuple[str, ...]  # that are completed
    calibration: LinkCalibration
    valid: tuple[Triple, ...] = field(default=(), repr=False)
    test: tuple[Triple, ...] = field(default=(), repr=False)
    limit: int = 100  # predicted facts that are listed

    @property
    def query(self) -> str:
        """The relations that are completed."""
        return ",".join(self.relations)

    @property
    def model(self) -> Model:
        return self.rules.model

    @property
    def data(self) -> Database:
        return self.facts

    @cached_property
    def problem(self) -> Problem:
        return build_problem(self.model, self.facts)

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """All entities, in the order of the rows and columns of `log_odds`."""
        return self.problem.domains["entity"].constants

    @cached_property
    def _row(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.entities)}

    @cached_property
    def _weights(self) -> np.ndarray:
        """float64[num_weights + 1], those of hard rules last."""
        return np.array([rule.weight or 0.0 for rule in self.model.rules] + [0.0])

    @cached_property
    def _scored(self) -> dict[str, np.ndarray]:
        return {}

    def log_odds(self, relation: str) -> np.ndarray:
        """Return the log-odds of every fact of a relation, given all other known facts.

        Parameters
        ----------
        relation
            Name of the relation.

        Returns
        -------
        numpy.ndarray
            float64[num_entities, num_entities], head by tail, before calibration.

        Raises
        ------
        LapisError
            If the relation is not completed.
        """
        self._require(relation)
        if relation not in self._scored:
            size = len(self.entities)
            if size**2 * len(self.relations) > MAX_CANDIDATES:
                from lapis.errors import TooLarge

                raise TooLarge(
                    f"{len(self.relations):,} relations of {size:,} entities have "
                    f"{size**2 * len(self.relations):,} candidates; at most {MAX_CANDIDATES:,} "
                    "are scored",
                    code="too-many-candidates",
                    hint="complete fewer relations",
                )
            rows = np.indices((size, size), np.int32).reshape(2, -1).T
            vectors, _ = open_differences(self.problem, relation).at_rows(
                np.ascontiguousarray(rows)
            )
            terms = vectors.value.astype(np.float64) * self._weights[vectors.column]
            total = np.bincount(vectors.row, terms, len(rows))
            self._scored[relation] = total.reshape(size, size)
        return self._scored[relation]

    def probability(self, relation: str) -> np.ndarray:
        """Return the calibrated probability of every fact of a relation.

        Parameters
        ----------
        relation
            Name of the relation.

        Returns
        -------
        numpy.ndarray
            float64[num_entities, num_entities], head by tail.

        Raises
        ------
        LapisError
            If the relation is not completed.
        """
        return self.calibration.probability(relation, self.log_odds(relation))

    def _known(self, relation: str) -> np.ndarray:
        """Return bool[num_entities, num_entities], the known facts of a relation."""
        size = len(self.entities)
        found = np.zeros((size, size), bool)
        rows = self.problem.evidence[relation].true
        found[rows[:, 0], rows[:, 1]] = True
        return found

    def predict(
        self, head: str | None = None, relation: str = "", tail: str | None = None,
        *, limit: int = 10, new_only: bool = True,
    ) -> Table:  # fmt: skip
        """Rank the tails of a head, the heads of a tail, or give the probability of one fact.

        Parameters
        ----------
        head
            The head, or None to rank heads.
        relation
            Name of the relation.
        tail
            The tail, or None to rank tails.
        limit
            Number of entities at most.
        new_only
            Whether to leave out facts that are known.

        Returns
        -------
        Table
            Facts by decreasing probability: head_entity, relation, tail_entity, probability, known.

        Raises
        ------
        LapisError
            If the relation is not completed, an entity is unknown, or neither end is given.
        """
        self._require(relation)
        if head is None and tail is None:
            raise LapisError("give a head or a tail", code="recipe-relation")
        chance, known = self.probability(relation), self._known(relation)
        heads = np.arange(len(chance)) if head is None else np.array([self._entity(head)])
        tails = np.arange(len(chance)) if tail is None else np.array([self._entity(tail)])
        pairs = np.array([(h, t) for h in heads.tolist() for t in tails.tolist()])
        own, old = chance[pairs[:, 0], pairs[:, 1]], known[pairs[:, 0], pairs[:, 1]]
        order = np.argsort(-own, kind="stable")
        if new_only and (head is None or tail is None):
            order = order[~old[order]]
        return self._table([(relation, *pairs[k], own[k], old[k]) for k in order[:limit].tolist()])

    def _table(self, rows: Sequence[tuple[str, int, int, float, bool]]) -> Table:
        return Table({
            "head_entity": [self.entities[h] for _, h, _, _, _ in rows],
            "relation": [relation for relation, *_ in rows],
            "tail_entity": [self.entities[t] for _, _, t, _, _ in rows],
            "probability": np.array([p for *_, p, _ in rows], np.float64),
            "known": np.array([k for *_, k in rows], bool),
        })  # fmt: skip

    @cached_property
    def predictions(self) -> Table:
        """The likeliest facts that are not known, of all relations."""
        rows: list[tuple[str, int, int, float, bool]] = []
        for relation in self.relations:
            own = np.where(self._known(relation), -1.0, self.probability(relation))
            for place in np.argsort(-own, axis=None, kind="stable")[: self.limit].tolist():
                head, tail = divmod(place, len(self.entities))
                if own[head, tail] >= 0:
                    rows.append((relation, head, tail, float(own[head, tail]), False))
        return self._table(sorted(rows, key=lambda row: -row[3])[: self.limit])

    @cached_property
    def ranks(self) -> Table:
        """The filtered ranks of the head and of the tail of each test fact."""
        if not self.test:
            raise no_test()
        answers = self._answers()
        rows = [(triple, *self._rank(triple, answers[triple.relation])) for triple in self.test]
        return Table({
            "head_entity": [triple.head for triple, *_ in rows],
            "relation": [triple.relation for triple, *_ in rows],
            "tail_entity": [triple.tail for triple, *_ in rows],
            "head_rank": np.array([head for _, head, _ in rows], np.float64),
            "tail_rank": np.array([tail for _, _, tail in rows], np.float64),
        })  # fmt: skip

    def _answers(self) -> dict[str, np.ndarray]:
        """Return bool[num_entities, num_entities] by relation: facts of any part of the data."""
        found = {relation: self._known(relation) for relation in self.relations}
        for triple in (*self.valid, *self.test):
            if triple.relation in found:
                found[triple.relation][self._row[triple.head], self._row[triple.tail]] = True
        return found

    def _rank(self, triple: Triple, answers: np.ndarray) -> tuple[float, float]:
        score = self.log_odds(triple.relation)
        head, tail = self._row[triple.head], self._row[triple.tail]
        return (
            filtered_rank(score[:, tail], answers[:, tail], head),
            filtered_rank(score[head], answers[head], tail),
        )

    @cached_property
    def scores(self) -> Figures:
        """MRR and hits@k of heads and tails, and AP, AUC and calibration of all candidates."""
        table = self.ranks.values
        rank = np.concatenate([np.asarray(table["head_rank"]), np.asarray(table["tail_rank"])])
        probability, truth = self.candidates()
        error = calibration_curve(probability, truth).error
        return Figures({
            "facts": len(self.test),
            "mrr": float((1 / rank).mean()),
            **{f"hits_at_{k}": float((rank <= k).mean()) for k in HITS},
            "ap": average_precision(probability, truth),
            "auc_roc": roc_auc(probability, truth),
            "brier": brier_score(probability, truth),
            "calibration_error": error,
        })  # fmt: skip

    def candidates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return probability and truth of all candidates: facts that are neither known nor valid.

        Returns
        -------
        tuple[numpy.ndarray, numpy.ndarray]
            float64[num_candidates], and bool[num_candidates], whether it is a test fact.

        Raises
        ------
        LapisError
            If no test facts are given.
        """
        if not self.test:
            raise no_test()
        return join_candidates(self, self.test, self.valid)

    def columns(self) -> Columns:
        return self.predictions.columns()

    def frames(self) -> Mapping[str, Columns]:
        found = {"predictions": self.predictions.columns(), "rules": self.rules.columns()}
        return found | ({"ranks": self.ranks.columns()} if self.test else {})

    def views(self) -> list[View]:
        values = self.predictions.values
        chance = np.asarray(values["probability"]).tolist()[:MAX_ROWS]
        names = zip(values["relation"], values["head_entity"], values["tail_entity"], strict=True)
        rows = [(f"{r}({h}, {t})", f"{p:.4f}") for (r, h, t), p in zip(names, chance, strict=False)]
        return [
            new_view(
                ["fact", "probability"], rows, numbers=["probability"],
                num_rows=len(self.predictions), bars=chance,
            )
        ]  # fmt: skip

    def summary(self) -> str:
        text = (
            f"{count_noun(len(self.relations), 'relation')} of {len(self.entities):,} entities "
            f"completed by {count_noun(len(self.rules.rules), 'rule')}"
        )
        if self.test:
            own = self.scores
            names = ("mrr", "hits_at_1", "hits_at_10", "ap", "brier")
            text += "".join(f", {name.replace('_', ' ')} {own[name]:.4g}" for name in names)
        return text

    def about(self) -> list[str]:
        """Return the lines of the comment at the head of the model."""
        return [
            self.summary(),
            "Probabilities of the result are those of a fact given all others, calibrated by a "
            f"slope of {self.calibration.slope:.4g} and an offset for each relation.",
        ]

    def remarks(self) -> list[str]:
        found = [f"warning: {warning}" for warning in self.rules.warnings]
        if not self.calibration.offset:
            found.append("probabilities are not calibrated: too few facts to calibrate by")
        return found

    def document(self) -> dict[str, Any]:
        """Return the document of `lapis recipe link --json`."""
        return {
            "relations": list(self.relations),
            "num_entities": len(self.entities),
            "rules": [
                {"formula": rule.text, "weight": rule.weight, "support": rule.support}
                for rule in self.rules.rules
            ],
            "calibration": {
                "slope": self.calibration.slope,
                "offset": dict(self.calibration.offset),
            },
            "scores": self.scores.document() if self.test else None,
            "predictions": self.predictions.document()["rows"],
        }

    def explain(self, head: str, relation: str, tail: str) -> FactExplanation:
        """Say what each rule adds to the log-odds of a fact, given all other known facts.

        Parameters
        ----------
        head
            The head.
        relation
            Name of the relation.
        tail
            The tail.

        Returns
        -------
        FactExplanation
            The rules and their contributions.

        Raises
        ------
        LapisError
            If the relation is not completed, or an entity is unknown.
        """
        self._require(relation)
        row = np.array([[self._entity(head), self._entity(tail)]], np.int32)
        vectors, _ = open_differences(self.problem, relation).at_rows(row)
        texts = [rule.text for rule in self.model.rules]
        parts = [
            Contribution(texts[column], float(self._weights[column] * value))
            for column, value in zip(vectors.column.tolist(), vectors.value.tolist(), strict=True)
        ]
        parts.sort(key=lambda part: -abs(part.log_odds))
        log_odds = sum(part.log_odds for part in parts)
        probability = float(self.calibration.probability(relation, np.array([log_odds]))[0])
        return FactExplanation(Triple(head, relation, tail), tuple(parts), probability)

    def plot(self, to: str | Path | None = None) -> Figure:
        """Draw the share of test facts by rank, and the calibration of all candidates.

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
            If there are no test facts, or matplotlib is not installed.
        """
        if not self.test:
            raise no_test()
        figure = new_figure((11, 4.4), shown=to is None)
        left, right = figure.subplots(1, 2)
        self.plot_ranks(left)
        self.plot_calibration(right)
        if to is not None:
            save_picture(figure, Path(to))
        return figure

    def plot_ranks(self, axes: Axes | None = None) -> Axes:
        """Draw the share of test facts that are ranked at most k (hits@k).

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
            If there are no test facts, or matplotlib is not installed.
        """
        table = self.ranks.values
        found = axes or new_figure((5.4, 4.4), shown=True).subplots()
        most = max(10, min(100, len(self.entities)))
        steps = np.arange(1, most + 1)
        for name, colour in (("tail_rank", COLOUR), ("head_rank", "#c8553d")):
            rank = np.asarray(table[name])
            label = f"{name.partition('_')[0]}s, MRR {(1 / rank).mean():.3f}"
            share = [(rank <= k).mean() for k in steps]
            found.plot(steps, share, drawstyle="steps-post", color=colour, label=label)
        found.set(
            xscale="log", xlim=(1, most), ylim=(0, 1.02), xlabel="rank k",
            ylabel="share of test facts ranked at most k",
        )  # fmt: skip
        found.xaxis.set_major_formatter("{x:,.0f}")
        found.legend(frameon=False, fontsize="small", loc="lower right")
        return style_axes(found)

    def plot_calibration(self, axes: Axes | None = None) -> Axes:
        """Draw the share of candidates that are test facts against their probability.

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
            If there are no test facts, or matplotlib is not installed.
        """
        curve = calibration_curve(*self.candidates())
        filled = curve.num_atoms > 0
        found = axes or new_figure((5.4, 4.4), shown=True).subplots()
        found.plot([0, 1], [0, 1], color="#9aa5b1", lw=1, ls="--")
        spread = np.sqrt(curve.predicted * (1 - curve.predicted) / np.maximum(1, curve.num_atoms))
        found.errorbar(
            curve.predicted[filled], curve.observed[filled], yerr=spread[filled], fmt="o-", ms=5,
            lw=1.6, elinewidth=1, color=COLOUR,
        )  # fmt: skip
        found.set(
            xlim=(-0.01, 1.01), ylim=(-0.02, 1.03), xlabel="predicted probability",
            ylabel="share of candidates that are test facts",
            title=f"calibration error {curve.error:.4f}",
        )  # fmt: skip
        return style_axes(found)

    def _require(self, relation: str) -> None:
        if relation not in self.relations:
            raise LapisError(
                f"the relation {relation!r} was not completed",
                code="recipe-relation",
                hint=suggestion(relation, self.relations),
            )

    def _entity(self, name: str) -> int:
        if name not in self._row:
            raise LapisError(
                f"{name!r} is no entity of the facts",
                code="recipe-relation",
                hint=suggestion(name, self._row),
            )
        return self._row[name]


@dataclass(frozen=True, repr=False)
class FactExplanation(Result):
    """What each rule adds to the log-odds of a fact, given all other known facts."""

    fact: Triple
    contributions: tuple[Contribution, ...]  # the largest first
    probability: float  # calibrated

    @property
    def log_odds(self) -> float:
        """The sum of the contributions, before calibration."""
        return float(sum(part.log_odds for part in self.contributions))

    @property
    def name(self) -> str:
        return f"{self.fact.relation}({self.fact.head}, {self.fact.tail})"

    @property
    def text(self) -> str:
        """The explanation in words."""
        head = f"{self.name} has probability {self.probability:.3g}"
        return "\n".join([head, *describe_contributions(self.contributions)])

    def columns(self) -> Columns:
        return {
            "because": [part.because for part in self.contributions],
            "log_odds": np.array([part.log_odds for part in self.contributions]),
        }

    def views(self) -> list[View]:
        rows = [(part.because, f"{part.log_odds:+.3f}") for part in self.contributions]
        return [
            new_view(
                ["because", "log-odds"], rows[:MAX_ROWS], numbers=["log-odds"], num_rows=len(rows)
            )
        ]

    def summary(self) -> str:
        return (
            f"{self.name}: probability {self.probability:.4g}, log-odds {self.log_odds:+.2f} "
            "before calibration"
        )

    def document(self) -> dict[str, Any]:
        return {
            **self.fact._asdict(),
            "probability": self.probability,
            "log_odds": self.log_odds,
            "contributions": [part._asdict() for part in self.contributions],
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw a waterfall: how the rules add up to the log-odds.

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
        title = f"{self.name}, probability {self.probability:.3g}"
        xlabel = "log-odds before calibration"
        return draw_waterfall(self.contributions, axes, xlabel=xlabel, title=title)


def filtered_rank(score: np.ndarray, answers: np.ndarray, place: int) -> float:
    """Return the rank of an entity by scores float64[num_entities], without other answers.

    >>> score, answers = np.array([3.0, 2.0, 2.0, 9.0]), np.array([False, True, False, True])
    >>> filtered_rank(score, answers, 1)  # behind entity 0, tied with entity 2
    2.5
    """
    others = ~answers
    others[place] = False
    better = int((score[others] > score[place]).sum())
    equal = int((score[others] == score[place]).sum())
    return 1 + better + equal / 2


def join_candidates(
    found: LinkPrediction, true: Sequence[Triple], left_out: Sequence[Triple], *, raw: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability (or log-odds) and the truth of all facts that are not known."""
    values, truths = [], []
    for _, value, truth in each_candidate(found, true, left_out, raw=raw):
        values.append(value)
        truths.append(truth)
    return np.concatenate(values), np.concatenate(truths)


def each_candidate(
    found: LinkPrediction, true: Sequence[Triple], left_out: Sequence[Triple], *, raw: bool
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield for each relation the values and truths of its candidates."""
    for relation in found.relations:
        is_open = ~found._known(relation)
        truth = np.zeros_like(is_open)
        for triples, target, value in ((left_out, is_open, False), (true, truth, True)):
            for triple in triples:
                if triple.relation == relation:
                    target[found._row[triple.head], found._row[triple.tail]] = value
        values = found.log_odds(relation) if raw else found.probability(relation)
        yield relation, values[is_open], truth[is_open]


def fit_calibration(found: LinkPrediction, true: Sequence[Triple]) -> LinkCalibration:
    """Fit slope and offsets to facts that learning did not have, by logistic regression.

    Maximises Σ log P(candidate = its truth) − (slope − 1)²/2s² − Σ_r (offset_r − mean)²/2s², the
    mean offset free, by Newton's method.
    """
    parts = list(each_candidate(found, true, (), raw=True))
    size = len(parts)
    # Parameters: the slope, the mean offset, and the deviation of each relation.
    start = np.zeros(size + 2)
    start[0] = 1.0
    precision = np.full(size + 2, 1 / OFFSET_WIDTH**2)
    precision[0], precision[1] = 1 / SLOPE_WIDTH**2, 1e-6
    at = start.copy()
    for _ in range(50):
        gradient = -precision * (at - start)
        curvature = np.diag(precision)
        for number, (_, x, truth) in enumerate(parts):
            p = expit(at[0] * x + at[1] + at[2 + number])
            design = np.zeros((size + 2, 2))
            design[0, 0] = design[1, 1] = design[2 + number, 1] = 1.0
            inputs = np.stack([x, np.ones_like(x)])
            gradient = gradient + design @ (inputs @ (truth - p))
            curvature = curvature + design @ ((inputs * (p * (1 - p))) @ inputs.T) @ design.T
        step = np.linalg.solve(curvature, gradient)
        at = at + np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < 1e-8:
            break
    offsets = {relation: float(at[1] + at[2 + n]) for n, (relation, _, _) in enumerate(parts)}
    return LinkCalibration(float(at[0]), offsets)


def no_test() -> LapisError:
    return LapisError(
        "there are no scores without test facts",
        code="recipe-relation",
        hint="give facts to be found (test=…, --test)",
    )
