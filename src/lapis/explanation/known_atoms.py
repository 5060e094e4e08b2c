"""What the data says about ground atoms, looked up for a few of them at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from lapis.data.keys import contains, fits, pack, union
from lapis.errors import LapisError
from lapis.explanation.occurrences import Occurrence, list_occurrences
from lapis.grounding.blocks import BlockShape, block_shape
from lapis.grounding.counters import add_cardinalities
from lapis.language.model import Rule
from lapis.problem.problem import Evidence, LazyEvidence, Problem
from lapis.problem.query import Query
from lapis.relational.interpretation import Extension

FALSE, TRUE, UNKNOWN, SILENT = range(4)  # stated false, stated true, unknown, false by silence


MAX_OTHER_VALUES = 200_000  # values of the blocks of a closed predicate beside those stated


class KnownAtoms:
    """The evidence of a problem as tables for lookups, made once and on first use."""

    def __init__(self, problem: Problem, queries: tuple[Query, ...] = ()) -> None:
        if problem.model.tables:
            raise LapisError(
                f"{problem.model.name} is a network: it has tables, and no formulas to explain by",
                code="network",
                hint="explanations take models of weighted formulas",
            )
        self.problem = problem
        self.asked = {query.predicate for query in queries if query.formula is not None}
        self._codes: dict[tuple[str, str], np.ndarray | None] = {}

    @cached_property
    def rules(self) -> Mapping[int, Rule]:
        """The rules by number, cardinalities among them, without those that define queries."""
        model = add_cardinalities(self.problem.model)
        return {
            number: rule
            for number, rule in enumerate(model.rules)
            if not self.asked
            or not any(each.atom.predicate in self.asked for each in list_occurrences(0, rule))
        }

    @cached_property
    def occurrences(self) -> Mapping[str, list[Occurrence]]:
        """The occurrences of each predicate in the rules; needed are only closed predicates."""
        found: dict[str, dict[Occurrence, None]] = {}
        for number, rule in self.rules.items():
            for each in list_occurrences(number, rule):
                closed = (a for a in each.needed if not self.evidence(a.predicate).open)
                kept = each._replace(needed=tuple(dict.fromkeys(closed)))
                found.setdefault(each.atom.predicate, {})[kept] = None
        return {name: list(each) for name, each in found.items()}

    @cached_property
    def by_rule(self) -> Mapping[int, list[Occurrence]]:
        """The same occurrences by rule."""
        found: dict[int, list[Occurrence]] = {number: [] for number in self.rules}
        for each in (each for group in self.occurrences.values() for each in group):
            found[each.rule].append(each)
        return found

    def evidence(self, predicate: str) -> Evidence:
        return self.problem.evidence[predicate]

    def sizes(self, predicate: str) -> list[int]:
        types = self.problem.model.predicates[predicate].types
        return [len(self.problem.domains[name]) for name in types]

    @cached_property
    def possible(self) -> Mapping[str, Extension]:
        """The atoms that are not false by silence, of each closed predicate that is needed."""
        needed = {a.predicate for each in self.by_rule.values() for o in each for a in o.needed}
        found: dict[str, Extension] = {}
        for name in needed:
            known = self.evidence(name)
            rows = union(known.true, known.unknown) if len(known.unknown) else known.true
            if self.has_other_values(name):
                shape = self.block(name)
                assert shape is not None
                keys, values = shape.keys(known.true), np.arange(shape.num_values, dtype=np.int64)
                whole = shape.rows(np.repeat(keys, len(values)), np.tile(values, len(keys)))
                rows = union(rows, whole)
            found[name] = Extension(known.predicate.types, rows)
        return found

    def has_other_values(self, predicate: str) -> bool:
        """Return whether other values of the blocks of a closed predicate are looked for.

        They are possible without its facts. They are left out where they are very many.
        """
        return self.has_closed_values(predicate) and not self.is_narrow(predicate)

    def has_closed_values(self, predicate: str) -> bool:
        """Return whether a predicate is closed and its blocks have exactly one value."""
        found = self.problem.model.predicates[predicate]
        has_values = bool(found.block) and found.exactly_one and not found.is_number
        return has_values and not self.evidence(predicate).open

    def is_narrow(self, predicate: str) -> bool:
        """Return whether values of a closed predicate that the data does not state are left out."""
        shape = self.block(predicate)
        if shape is None or not self.has_closed_values(predicate):
            return False
        return self.evidence(predicate).num_true * shape.num_values > MAX_OTHER_VALUES

    def may_be_unknown(self, predicate: str) -> bool:
        """Return whether an atom is unknown if its fact is taken away: otherwise it is false."""
        found = self.problem.model.predicates[predicate]
        return self.evidence(predicate).open or bool(found.block and found.exactly_one)

    def block(self, predicate: str) -> BlockShape | None:
        """Return the shape of the blocks of a predicate; None if it has none."""
        found = self.problem.model.predicates[predicate]
        has_blocks = found.block and not found.is_number
        return block_shape(found, self.problem.domains) if has_blocks else None

    def states(self, predicate: str, rows: np.ndarray) -> np.ndarray:
        """Return int8[num_rows]: FALSE, TRUE, UNKNOWN or SILENT, as the data says it."""
        known = self.evidence(predicate)
        found = np.full(len(rows), UNKNOWN if known.open else SILENT, np.int8)
        found[self._among(predicate, "true", rows)] = TRUE
        if known.open:
            found[self._among(predicate, "false", rows)] = FALSE
        else:
            marked = self._among(predicate, "unknown", rows)
            found[marked] = UNKNOWN
        return found

    def holds(self, predicate: str, constants: Sequence[str]) -> bool:
        """Return whether the data states an atom."""
        types = self.problem.model.predicates[predicate].types
        codes = [
            self.problem.domains[kind].index[constant]
            for kind, constant in zip(types, constants, strict=True)
        ]
        row = np.array([codes], np.int32).reshape(1, len(codes))
        return bool(self.states(predicate, row)[0] == TRUE)

    def _among(self, predicate: str, kind: str, rows: np.ndarray) -> np.ndarray:
        """Return bool[num_rows], which rows are in one list of the evidence."""
        listed: np.ndarray = getattr(self.evidence(predicate), kind)
        if not len(listed) or not len(rows):
            return np.zeros(len(rows), bool)
        sizes = self.sizes(predicate)
        if not fits(sizes) or not sizes:
            return contains(listed, rows)
        key = predicate, kind
        if key not in self._codes:
            self._codes[key] = pack(list(listed.T), sizes, len(listed))
        codes = self._codes[key]
        assert codes is not None
        wanted = pack(list(rows.T), sizes, len(rows))
        place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return codes[place] == wanted


def refuse_stored_facts(problem: Problem) -> None:
    """Raise if the facts are on an engine."""
    if any(isinstance(found, LazyEvidence) for found in problem.evidence.values()):
        raise LapisError(
            "explanations need the facts in memory, and these are on an engine",
            code="engine-explain",
            hint="read the data from files, or the part of it that matters",
        )
