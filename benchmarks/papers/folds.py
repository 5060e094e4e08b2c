"""Cross-validation: the folds of the data sets, and settings chosen inside the training folds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

Setting = TypeVar("Setting")

FOLDS: Mapping[str, tuple[str, ...]] = {
    "imdb": ("fold1", "fold2", "fold3", "fold4", "fold5"),
    "uwcse": ("ai", "graphics", "language", "systems", "theory"),
    "cora-er": ("fold1", "fold2", "fold3", "fold4", "fold5"),
    "webkb": ("cornell", "texas", "washington", "wisconsin"),
    "yeast-protein": ("fold1", "fold2", "fold3", "fold4"),
}


class Split(NamedTuple):
    """One fold held out; settings are chosen and weights learned on the others."""

    test: str
    train: tuple[str, ...]

    def inner(self, count: int | None = None) -> list[Split]:
        """Return the splits of the training folds; of the first `count` folds only, if given."""
        return leave_one_out(self.train)[:count]


def leave_one_out(folds: Sequence[str]) -> list[Split]:
    """Return one split for each fold that is held out."""
    return [Split(test, tuple(fold for fold in folds if fold != test)) for test in folds]


def split_of(data: str, test: str) -> Split:
    """Return the split of a data set that holds out a fold."""
    return Split(test, tuple(fold for fold in FOLDS[data] if fold != test))


class Chosen(NamedTuple):
    """A setting and the mean validation score of every candidate."""

    setting: Any
    scores: Mapping[str, float]  # by the candidate as text; NaN if it has no score


def choose_setting(
    candidates: Sequence[Setting],
    splits: Sequence[Split],
    score: Callable[[Setting, Split], float],
) -> Chosen:
    """Return the candidate with the largest mean score over inner splits.

    `score` learns on `split.train` and returns a score on `split.test`, both training folds of the
    outer split. A candidate without a score (NaN) on some split is not chosen. Of equal candidates
    the first one is chosen.
    """
    means = []
    for candidate in candidates:
        scores = [score(candidate, split) for split in splits]
        means.append(sum(scores) / len(scores))
    best = max(
        range(len(candidates)), key=lambda i: -math.inf if math.isnan(means[i]) else means[i]
    )
    return Chosen(
        candidates[best], {str(one): mean for one, mean in zip(candidates, means, strict=True)}
    )
