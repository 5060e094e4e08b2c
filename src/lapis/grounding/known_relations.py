"""What is known of each predicate, as relations an engine can join."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lapis.data.database import Domain
from lapis.grounding.atoms import PredicateAtoms
from lapis.relational.engines.engine import Engine


@dataclass(frozen=True)
class GroundedWorld:
    """The predicates' atoms, with their relations created in the engine when first asked for.

    A predicate without an entry in `atoms` is derived and undecided: its atoms all count as
    unknown.
    """

    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each base and derived predicate's arguments
    atoms: dict[str, PredicateAtoms]
    engine: Engine
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    def relation(self, predicate: str, kind: str) -> str | None:
        """The name of the relation of a predicate's true, false, unknown, possible (true or
        unknown) or known (true or false) tuples; None if there are none."""
        key = (predicate, kind)
        if key not in self._created:
            rows = self._rows(self.atoms[predicate], kind)
            self._created[key] = self.add_rows(rows) if len(rows) else None
        return self._created[key]

    def add_rows(self, rows: np.ndarray) -> str:
        name = f"relation {next(self._number)}"
        self.engine.create_relation(name, rows)
        return name

    def add_values(self, values: np.ndarray) -> str:
        name = f"values {next(self._number)}"
        self.engine.create_values(name, values)
        return name

    def _rows(self, atoms: PredicateAtoms, kind: str) -> np.ndarray:
        match kind:
            case "true":
                return atoms.true
            case "false":
                return atoms.false
            case "unknown":
                return atoms.unknown
            case "possible":
                return np.concatenate((atoms.true, atoms.unknown))
            case _:
                return np.concatenate((atoms.true, atoms.false))
