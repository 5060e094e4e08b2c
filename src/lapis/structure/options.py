"""Options of structure learning."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")


@dataclass(frozen=True, kw_only=True)
class StructureOptions:
    """How rules are sought. None stands for the default of the method."""

    method: str = "lapis"
    given: str | None = None  # "atoms" or "predicates"
    together: tuple[tuple[str, ...], ...] = ()  # groups of targets that are unknown at once
    max_length: int | None = None
    max_variables: int | None = None
    max_clauses: int | None = None
    penalty: float | None = None
    shrinkage: float | None = None
    dangling: str | None = None
    redundant: str | None = None
    final: str | None = None
    sample_share: float = 1.0
    cluster_prior: float | None = None
    min_support: int | None = None
    max_atoms: int | None = None
    max_examples: int | None = None
    first_penalty: float | None = None
    flips: int | None = None
    lifting: str | None = None
    significance: float | None = None
    min_weight: float | None = None
    beam: int | None = None
    seed: int = 0
    jobs: int = 1
    checkpoint: Path | None = None


def own_options(kind: type[T], options: StructureOptions) -> T:
    """The options of one method: its own defaults where none is set."""
    given = {own.name: getattr(options, own.name, None) for own in fields(kind)}
    return kind(**{name: value for name, value in given.items() if value is not None})
