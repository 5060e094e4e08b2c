"""Scores of a resolution against the truth.

AP        average precision of the candidate pairs; true pairs that blocking missed count as
          never found
pairs     precision, recall and F1 of the pairs within clusters
B-cubed   mean over records: the share of its cluster that is of its entity, and of its entity
          that is in its cluster
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.evaluation.metrics import rank_atoms
from lapis.recipes.blocking import CandidatePairs
from lapis.results.result import Columns, Result
from lapis.runtime.views import View, format_measure, new_view


@dataclass(frozen=True, repr=False)
class ResolutionScores(Result):
    """Scores of pairs and clusters, of records whose entity is known."""

    average_precision: float | None
    blocking_recall: float | None  # share of the true pairs that are candidates
    precision: float | None
    recall: float | None
    f1: float | None
    b_cubed: float
    num_true_pairs: int
    points: tuple[np.ndarray, np.ndarray]  # recall and precision at each probability

    def figures(self) -> dict[str, float | None]:
        """Return the scores by name."""
        return {
            "average_precision": self.average_precision,
            "blocking_recall": self.blocking_recall,
            "cluster_precision": self.precision,
            "cluster_recall": self.recall,
            "cluster_f1": self.f1,
            "b_cubed_f1": self.b_cubed,
        }

    def columns(self) -> Columns:
        return {name: [value] for name, value in self.figures().items()}

    def views(self) -> list[View]:
        rows = [(n.replace("_", " "), format_measure(v)) for n, v in self.figures().items()]
        return [new_view(["measure", "value"], rows, numbers=["value"])]

    def summary(self) -> str:
        return (
            f"AP {format_measure(self.average_precision)}, F1 of clusters "
            f"{format_measure(self.f1)}, B-cubed {format_measure(self.b_cubed)}, "
            f"{self.num_true_pairs:,} true pairs"
        )

    def document(self) -> dict[str, Any]:
        return {**self.figures(), "true_pairs": self.num_true_pairs}


def pairs_of_sizes(sizes: np.ndarray) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def count_pairs(groups: np.ndarray, num_left: int | None, rows: np.ndarray) -> int:
    """Count the pairs of records in one group, across the tables if there are two."""
    total = pairs_of_sizes(np.unique(groups, return_counts=True)[1])
    if num_left is None:
        return total
    left = rows < num_left
    return total - sum(
        pairs_of_sizes(np.unique(groups[side], return_counts=True)[1]) for side in (left, ~left)
    )


def score_resolution(
    truth: np.ndarray,
    cluster: np.ndarray,
    pairs: CandidatePairs,
    log_odds: np.ndarray,
    probability: np.ndarray,
    num_left: int | None,
) -> ResolutionScores:
    """Score pairs and clusters on the records whose entity is known."""
    rows = np.flatnonzero(truth >= 0)
    num_true = count_pairs(truth[rows], num_left, rows)
    known = (truth[pairs.left] >= 0) & (truth[pairs.right] >= 0) & (pairs.found_by != 0)
    hit = truth[pairs.left[known]] == truth[pairs.right[known]]
    average = recall = precision = None
    points = np.zeros(0), np.zeros(0)
    # Ties of probabilities near 0 and 1 are broken by the log-odds of the pair alone.
    score = probability[known] + 1e-9 / (1 + np.exp(-np.clip(log_odds[known] / 10, -50, 50)))
    if hit.any():
        _, hits, called = rank_atoms(score, hit)
        average = float(np.diff(hits, prepend=0) @ (hits / called)) / num_true
        points = hits / num_true, hits / called
    joined = np.unique(np.column_stack([cluster[rows], truth[rows]]), axis=0, return_inverse=True)[
        1
    ]
    both = count_pairs(np.ravel(joined), num_left, rows)
    claimed = count_pairs(cluster[rows], num_left, rows)
    precision = both / claimed if claimed else None
    recall = both / num_true if num_true else None
    f1 = 2 * both / (claimed + num_true) if claimed + num_true else None
    found = float(hit.sum()) / num_true if num_true else None
    cubed = b_cubed(np.ravel(joined), cluster[rows], truth[rows])
    return ResolutionScores(
        average, found, precision, recall, f1, cubed,
        num_true, points,
    )  # fmt: skip


def b_cubed(joined: np.ndarray, cluster: np.ndarray, truth: np.ndarray) -> float:
    """Compute the harmonic mean of B-cubed precision and recall.

    >>> b_cubed(np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([5, 5, 6]))
    0.7142857142857143
    """
    size = [
        np.bincount(found)[found]
        for found in (
            np.unique(group, return_inverse=True)[1] for group in (joined, cluster, truth)
        )
    ]
    precision, recall = float((size[0] / size[1]).mean()), float((size[0] / size[2]).mean())
    return 2 * precision * recall / (precision + recall)
