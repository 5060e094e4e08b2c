"""Change the facts of a database that is bound to a model.

Facts are given as in data files, "Smokes(Anna)", "!Smokes(Bob)", "?Smokes(Carl)", or as a database.
Constants stay: a removed fact leaves its constants, and a new constant follows those of its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from lapis.data.binding import bind, keep_known
from lapis.data.database import FALSE, TRUE, UNKNOWN, Database, Domain, Relation
from lapis.data.files import read_fact_text
from lapis.errors import LapisError, Source
from lapis.grounding.live_atoms import AtomRow
from lapis.grounding.live_grounding import delete_row, find_sorted_row, insert_row
from lapis.language.model import Model
from lapis.language.names import format_atom

FactsLike = str | Sequence[str] | Database
Action = Literal["add", "remove", "unknown"]
SIGNS = {TRUE: "", FALSE: "!", UNKNOWN: "?"}


class StatedFact(NamedTuple):
    """A fact as stated: TRUE, FALSE or UNKNOWN."""

    predicate: str
    constants: tuple[str, ...]
    truth: int


class ChangedFacts(NamedTuple):
    """A database after a change."""

    database: Database
    atoms: Mapping[str, list[AtomRow]]  # by predicate, those whose statement changed
    constants: list[tuple[str, str]]  # new ones: type and name


def read_facts(facts: FactsLike, model: Model) -> list[StatedFact]:
    """Read facts over a model's predicates; raise for others."""
    if isinstance(facts, Database):
        given = facts
    else:
        lines = [facts] if isinstance(facts, str) else facts
        given_types = (
            {type(each) for each in lines} if isinstance(lines, Sequence) else {type(lines)}
        )
        if wrong := given_types - {str}:
            raise LapisError(
                f"facts must be texts or a database, not {min(each.__name__ for each in wrong)}",
                code="no-data",
                hint='as in session.add("Smokes(Anna)")',
            )
        given = read_fact_text(Source("<facts>", "\n".join(lines)))
    [known], _ = keep_known([given], model, strict=True)
    bound = bind(known, model)
    return [
        StatedFact(relation.predicate, constants, truth)
        for relation in bound.relations.values()
        for truth, rows in relation.stated()
        for constants in bound.decode(relation, rows)
    ]


def change_facts(
    database: Database, model: Model, facts: Sequence[StatedFact], action: Action
) -> ChangedFacts:
    """Return the database after some facts are added, removed or made unknown."""
    editor = FactEditor(database, model)
    for fact in facts:
        editor.apply(fact, action)
    return editor.result()


@dataclass
class FactEditor:
    """The relations and domains while facts change."""

    database: Database
    model: Model

    def __post_init__(self) -> None:
        self.relations = dict(self.database.relations)
        self.domains = dict(self.database.domains)
        self.added: dict[str, dict[str, int]] = {}
        self.atoms: dict[str, list[AtomRow]] = {}

    def apply(self, fact: StatedFact, action: Action) -> None:
        """Apply one change."""
        match action:
            case "add":
                self.add(fact)
            case "remove":
                self.remove(fact)
            case "unknown":
                self.state(fact._replace(truth=UNKNOWN), self.find_row(fact))

    def add(self, fact: StatedFact) -> None:
        row = self.find_row(fact)
        known = stated_truth(self.relations[fact.predicate], row)
        if known is not None and UNKNOWN not in (known, fact.truth) and known != fact.truth:
            other = self.show(fact._replace(truth=known))
            raise LapisError(
                f"{self.show(fact)} contradicts the fact {other}",
                code="contradiction",
                hint=f"remove it first: session.remove({other!r})",
            )
        if fact.truth == TRUE and known != TRUE:
            self.refuse_second_value(fact, row)
        self.state(fact, row)

    def refuse_second_value(self, fact: StatedFact, row: AtomRow) -> None:
        """Raise if a function has another value for the same arguments."""
        relation = self.relations[fact.predicate]
        if not relation.function:
            return
        same = (relation.true[:, :-1] == np.array(row[:-1], np.int32)).all(axis=1)
        for value in relation.true[same, -1].tolist():
            name = self.domains[relation.types[-1]].constants[value]
            other = self.show(fact._replace(constants=(*fact.constants[:-1], name)))
            raise LapisError(
                f"{self.show(fact)} contradicts the fact {other}",
                code="contradiction",
                hint=f"remove it first: session.remove({other!r})",
            )

    def remove(self, fact: StatedFact) -> None:
        row = self.known_row(fact)
        relation = self.relations[fact.predicate]
        known = None if row is None else stated_truth(relation, row)
        if row is None or known != fact.truth:
            stated = "does not mention it"
            if known is not None:
                stated = f"states {self.show(fact._replace(truth=known))}"
            raise LapisError(
                f"there is no fact {self.show(fact)} to remove: the data {stated}",
                code="no-fact",
                hint="session.data has the facts",
            )
        self.replace(relation, row, None)

    def state(self, fact: StatedFact, row: AtomRow) -> None:
        relation = self.relations[fact.predicate]
        if stated_truth(relation, row) != fact.truth:
            self.replace(relation, row, fact.truth)

    def replace(self, relation: Relation, row: AtomRow, truth: int | None) -> None:
        """State an atom as true, false or unknown, or not at all."""
        known = [delete_row(rows, row) for _, rows in relation.stated()]
        if truth is not None:
            known[truth] = insert_row(known[truth], row)
        self.relations[relation.predicate] = Relation(  # in memory, also if it was in a store
            relation.predicate, relation.types, known[TRUE], known[FALSE], known[UNKNOWN],
            relation.function,
        )  # fmt: skip
        self.atoms.setdefault(relation.predicate, []).append(row)

    def find_row(self, fact: StatedFact) -> AtomRow:
        """Return the codes of a fact's constants; new constants get the next codes."""
        types = self.model.predicates[fact.predicate].types
        return tuple(
            self.code(type_name, name)
            for type_name, name in zip(types, fact.constants, strict=True)
        )

    def code(self, type_name: str, name: str) -> int:
        domain = self.domains[type_name]
        found = domain.index.get(name)
        if found is not None:
            return found
        added = self.added.setdefault(type_name, {})
        return added.setdefault(name, len(domain) + len(added))

    def known_row(self, fact: StatedFact) -> AtomRow | None:
        """Return the codes of a fact's constants, None if one is new."""
        types = self.model.predicates[fact.predicate].types
        pairs = list(zip(types, fact.constants, strict=True))
        codes = [self.domains[type_name].index.get(name) for type_name, name in pairs]
        return None if None in codes else tuple(code for code in codes if code is not None)

    def show(self, fact: StatedFact) -> str:
        predicate = self.model.predicates[fact.predicate]
        name = format_atom(fact.predicate, fact.constants, predicate.function)
        return SIGNS[fact.truth] + name

    def result(self) -> ChangedFacts:
        """Return the database with all changes."""
        for type_name, added in self.added.items():
            domain = self.domains[type_name]
            self.domains[type_name] = Domain(type_name, (*domain.constants, *added))
        database = replace(self.database, domains=self.domains, relations=self.relations)
        atoms = {name: list(dict.fromkeys(rows)) for name, rows in self.atoms.items()}
        new = [(name, constant) for name, added in self.added.items() for constant in added]
        return ChangedFacts(database, atoms, new)


def stated_truth(relation: Relation, row: AtomRow) -> int | None:
    """Return what the data states of an atom, None if nothing."""
    for truth, rows in relation.stated():
        if find_sorted_row(rows, row)[1]:
            return truth
    return None


def list_facts(database: Database) -> Iterator[StatedFact]:
    """Yield the facts of a bound database."""
    for name, constants, value in database.facts():
        yield StatedFact(name, constants, UNKNOWN if value is None else TRUE if value else FALSE)
