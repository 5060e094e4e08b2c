"""Training data: worlds whose query atoms are predicted, with their true values.

    given     the evidence predicates, false for atoms that the data does not mention
    asked     the query atoms: all atoms of the query predicates, or only those that the data
              mentions (`only_listed`), the others being false. Canopies are given this way:
              candidate pairs as facts and negated facts
    hidden    atoms the data marks unknown (?) and all atoms of unobserved predicates

Without query predicates everything is asked: learning is generative. Stated facts of an unobserved
predicate are asked then; with a query they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.data.binding import merge
from lapis.data.database import Database, Relation, empty_tuples
from lapis.data.keys import contains, sorted_unique
from lapis.data.lazy_database import LazyDatabase
from lapis.errors import LapisError, issue_warnings, raise_all
from lapis.language.model import Model
from lapis.network.network import Network
from lapis.problem.problem import Evidence, Problem, build_problem, unknown_predicate_error
from lapis.problem.query import warn_closed_queries, warn_many_open

HIDDEN = -1


@dataclass(frozen=True)
class Example:
    """One world of training data."""

    complete: Problem  # with the answers; only hidden atoms are unknown
    free: Problem  # without the answers; the asked and the hidden atoms are unknown
    asked: tuple[str, ...]  # the query predicates; all predicates where learning is generative

    @property
    def has_hidden(self) -> bool:
        return any(e.open or len(e.unknown) for e in self.complete.evidence.values())

    def answers(self, network: Network) -> np.ndarray:
        """int8[num_base_atoms], of the free network: 1 true, 0 false, or HIDDEN."""
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
    shown: Sequence[Database] = (),
) -> list[Example]:
    """Bind the model to each database, with and without the answers.

    `shown` has for each database the facts of the query that are evidence, if there are any.

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
    asked = tuple(dict.fromkeys(query)) or tuple(
        name for name in model.uncertain_predicates if name not in unobserved
    )
    explained = () if query else unobserved

    def build(database: Database, number: int) -> Example:
        complete = build_problem(model, database, (), open_predicates=unobserved)
        if isinstance(database, LazyDatabase):
            return stored_example(complete, asked, bool(unobserved or only_listed))
        hidden = hide_facts(database, explained, keep_listed=False)
        hidden = hide_facts(hidden, asked, keep_listed=only_listed)
        if shown:
            hidden = replace(merge([hidden, shown[number]]), name=database.name)
        free = build_problem(
            model, hidden, () if only_listed else asked, open_predicates=unobserved
        )
        return Example(complete, replace(free, query=asked), asked)

    examples = [build(database, number) for number, database in enumerate(databases)]
    if query and not only_listed:
        domains = [example.free.domains for example in examples]
        worlds = list(zip(databases, domains, strict=True))
        issue_warnings(warn_many_open(model, worlds, query, "predicts these alone"))
    return examples


def stored_example(complete: Problem, asked: tuple[str, ...], is_partial: bool) -> Example:
    """Build an example whose facts stay on a store; these are all the true atoms."""
    if is_partial:
        raise LapisError(
            "an engine stores true facts only: atoms can be neither unobserved nor listed as false",
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


def hide_facts(database: Database, names: Sequence[str], *, keep_listed: bool) -> Database:
    """Remove the facts of some predicates, or with `keep_listed` mark them unknown."""

    def hide(relation: Relation) -> Relation:
        none = empty_tuples(relation.arity)
        unknown = none
        if keep_listed:
            unknown = sorted_unique(np.concatenate([rows for _, rows in relation.stated()]))
        return replace(relation, true=none, false=none, unknown=unknown)

    relations = {
        name: hide(relation) if name in names else relation
        for name, relation in database.relations.items()
    }
    return replace(database, relations=relations)


def is_generative(example: Example) -> bool:
    """Whether nothing is given: every predicate is asked or hidden."""
    hidden = {name for name, known in example.complete.evidence.items() if known.open}
    return {*example.asked, *hidden} >= set(example.complete.evidence)
