"""Training data: worlds whose query atoms are to be predicted, with the answers.

    given     the evidence predicates, closed where the data is silent
    asked     the query atoms: all atoms of the query predicates, or only those that the data
              mentions (`only_listed`), the others being false. That is how canopies are given:
              candidate pairs as facts and negated facts, everything else known to be different
    hidden    atoms the data marks unknown (?) and all atoms of hidden predicates

Without query predicates everything is asked: learning is generative. Facts that the data states
of a hidden predicate are then explained like all others; with a query they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.data.database import Database, Relation, empty_tuples
from lapis.data.keys import contains, sorted_unique
from lapis.data.lazy_database import LazyDatabase
from lapis.errors import LapisError, issue_warnings, raise_all
from lapis.language.model import Model
from lapis.network.network import Network
from lapis.problem.problem import Evidence, Problem, build_problem, unknown_predicate_error
from lapis.problem.query import warn_closed_queries

HIDDEN = -1


@dataclass(frozen=True)
class Example:
    """One world of training data."""

    complete: Problem  # with the answers: only hidden atoms are unknown
    free: Problem  # without: the asked and the hidden atoms are unknown
    asked: tuple[str, ...]  # the query predicates; all predicates where learning is generative

    @property
    def has_hidden(self) -> bool:
        return any(e.open or len(e.unknown) for e in self.complete.evidence.values())

    def answers(self, network: Network) -> np.ndarray:
        """int8[num_base_atoms]: 1 true, 0 false, HIDDEN, for the atoms of the free network."""
        table = network.atoms
        answers = np.zeros(network.num_base_atoms, np.int8)
        for name, start, rows in zip(table.predicates, table.offset, table.tuples, strict=False):
            if start >= network.num_base_atoms:
                break
            own = answers[int(start) : int(start) + len(rows)]
            known = self.complete.evidence[name]
            own[contains(known.true, rows)] = 1
            if known.open:
                own[~contains(known.true, rows) & ~contains(known.false, rows)] = HIDDEN
            else:
                own[contains(known.unknown, rows)] = HIDDEN
        return answers


def build_examples(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str] = (),
    *,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
) -> list[Example]:
    """The model on each database, with and without the answers.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob)")
    >>> [example] = build_examples(model, [data], ["Cancer"])
    >>> example.free.evidence["Cancer"].open, example.complete.evidence["Cancer"].open
    (True, False)
    """
    names = (*query, *unobserved)
    raise_all(
        [unknown_predicate_error(name, model) for name in names if name not in model.predicates]
    )
    issue_warnings(warn_closed_queries(model, query))
    asked = tuple(dict.fromkeys(query)) or tuple(n for n in model.predicates if n not in unobserved)
    explained = () if query else unobserved

    def build(database: Database) -> Example:
        complete = build_problem(model, database, (), open_predicates=unobserved)
        if isinstance(database, LazyDatabase):
            return stored_example(complete, asked, unobserved or only_listed)
        unsaid = hide(hide(database, explained, listed=False), asked, listed=only_listed)
        free = build_problem(
            model, unsaid, () if only_listed else asked, open_predicates=unobserved
        )
        return Example(complete, replace(free, query=asked), asked)

    return [build(database) for database in databases]


def stored_example(complete: Problem, asked: tuple[str, ...], partial: object) -> Example:
    """An example whose facts stay on a store, where they are all the true ones."""
    if partial:
        raise LapisError(
            "facts on an engine are the true ones: none is hidden, and no false one is listed",
            code="engine-hidden",
            hint="leave out --unobserved and --only-listed",
        )
    none = {name: empty_tuples(complete.model.predicates[name].arity) for name in asked}
    opened = {
        name: Evidence(complete.model.predicates[name], True, rows, rows, rows)
        for name, rows in none.items()
    }
    free = replace(complete, evidence={**complete.evidence, **opened}, query=asked)
    return Example(complete, free, asked)


def hide(database: Database, names: Sequence[str], *, listed: bool) -> Database:
    """The same constants with nothing known of some predicates; or with their facts marked ?."""

    def hidden(relation: Relation) -> Relation:
        none = empty_tuples(relation.arity)
        unknown = none
        if listed:
            unknown = sorted_unique(np.concatenate([rows for _, rows in relation.stated()]))
        return replace(relation, true=none, false=none, unknown=unknown)

    relations = {
        name: hidden(relation) if name in names else relation
        for name, relation in database.relations.items()
    }
    return replace(database, relations=relations)


def is_generative(example: Example) -> bool:
    """Whether nothing is given: every predicate is asked or hidden."""
    hidden = {name for name, known in example.complete.evidence.items() if known.open}
    return {*example.asked, *hidden} >= set(example.complete.evidence)
