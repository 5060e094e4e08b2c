"""Which databases are learned from and which are tested on, in each round.

Several databases are independent worlds, so whole databases are held out. One database is a
world in which everything may depend on everything; it can be cut only where nothing holds it
together (`split_database.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.evaluation.split_database import split_database
from lapis.language.model import Model


@dataclass(frozen=True)
class Folds:
    """Databases, and the positions of those that each round holds out."""

    databases: tuple[Database, ...]
    test: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.test)

    def train(self, fold: int) -> tuple[int, ...]:
        held_out = set(self.test[fold])
        return tuple(i for i in range(len(self.databases)) if i not in held_out)


def make_folds(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str],
    *,
    folds: int | None = None,
    leave_one_out: bool = False,
    random_state: int = 0,
) -> Folds:
    """Hold out each database once, or one of `folds` groups of them drawn at random.

    Neither given: leave one out. One database is split into `folds` parts if nothing connects
    them.

    >>> data = [Database.parse(f"P({name})", name) for name in "ABCDE"]
    >>> from lapis.language import parse_model
    >>> make_folds(parse_model("P(t)"), data, ["P"], folds=2, random_state=1).test
    ((0, 2), (1, 3, 4))
    """
    if folds is not None and leave_one_out:
        raise LapisError(
            "either a number of folds or leave one out, not both", code="cross-validation"
        )
    if folds is not None and folds < 2:
        raise LapisError(f"{folds} folds leave nothing to learn from", code="cross-validation")
    if len(databases) == 1 and folds is not None:
        parts = split_database(model, databases[0], query, folds, random_state)
        return Folds(tuple(parts), tuple((i,) for i in range(len(parts))))
    if len(databases) < 2:
        raise LapisError(
            "cross-validation needs several databases",
            code="cross-validation",
            hint="give several data files, or a number of folds to split one file into",
        )
    if folds is None or folds == len(databases):
        return Folds(tuple(databases), tuple((i,) for i in range(len(databases))))
    if folds > len(databases):
        raise LapisError(
            f"{folds} folds need as many databases, but there are {len(databases)}",
            code="cross-validation",
            hint=f"use at most {len(databases)} folds, or leave one out",
        )
    order = np.random.default_rng(random_state).permutation(len(databases))
    groups = [tuple(sorted(order[start::folds].tolist())) for start in range(folds)]
    return Folds(tuple(databases), tuple(sorted(groups)))
