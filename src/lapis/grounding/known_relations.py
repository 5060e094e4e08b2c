"""What is known of each predicate, as relations that plans can name."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lapis.data.database import Domain
from lapis.grounding.atoms import PredicateAtoms
from lapis.logic.clauses import SimpleTerm
from lapis.relational.answers import list_rows
from lapis.relational.conjunction import Atom
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.memory import run_plans
from lapis.relational.plan import Plan


@dataclass(frozen=True)
class GroundedWorld:
    """The predicates' atoms; their relations are added to `relations` when first asked for.

    A predicate without an entry in `atoms` is derived and undecided: its atoms all count as
    unknown.
    """

    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each base and derived predicate's arguments
    atoms: dict[str, PredicateAtoms]
    max_memory: int  # bytes that the rows of a query may take
    relations: dict[str, Extension] = field(default_factory=dict)
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    def atom_numbers(self, predicate: str) -> PredicateAtoms | None:
        return self.atoms.get(predicate)

    def known_atom(self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]) -> Atom | None:
        """An atom of the relation of a predicate's true, false, unknown, possible (true or
        unknown) or known (true or false) tuples; None if there are none."""
        key = (predicate, kind)
        if key not in self._created:
            rows = self._rows(self.atoms[predicate], kind)
            types = self.types[predicate]
            self._created[key] = self.add_rows(rows, types) if len(rows) else None
        name = self._created[key]
        return None if name is None else Atom(name, terms)

    def add_rows(self, rows: np.ndarray, types: tuple[str, ...]) -> str:
        """The name of a new relation of these distinct rows."""
        name = f"relation {next(self._number)}"
        self.relations[name] = Extension(types, rows)
        return name

    def fetch(self, plan: Plan) -> Factor:
        """The rows of a plan and their counts, sorted by the kept variables."""
        world = Interpretation(self.domains, self.relations)
        [answers] = run_plans([plan], world, self.max_memory)
        return list_rows(plan, answers)

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
