"""Answers with other weights and other facts, by sessions; explanations of an answer.

The evidence of a question replaces what the data states about the same atoms.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import lapis
from lapis.results.columns import replace_infinite

if TYPE_CHECKING:
    from lapis.data.database import Database, Relation
    from lapis.language.model import Model
    from lapis.results.answer import Answer
    from lapis.session.session import Session
    from lapis.web.inspection import Kept

PRECISION, MAX_SAMPLES = 0.02, 4000  # of an answer at once


def explain_atom(answer: object, atom: str) -> dict[str, Any]:
    """Explain an atom of an answer; say so if answers of this kind have no explanation."""
    explain = getattr(answer, "explain", None)
    if explain is None:
        message = "only answers of infer and map are explained"
        return {"available": False, "message": message, "explanation": None}
    found = replace_infinite(explain(atom).to_json())
    return {"available": True, "message": None, "explanation": found}


def as_texts(texts: Sequence[str] | str) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def with_changes(database: Database, evidence: Sequence[str]) -> tuple[Database, bool]:
    """Return data in which the evidence replaces facts, and whether it replaced any."""
    from lapis.data.binding import merge
    from lapis.data.database import Database as Facts

    changes = Facts.parse("\n".join(evidence), "<evidence>")
    relations, replaced = dict(database.relations), False
    for relation in changes.relations.values():
        old = relations.get(relation.predicate)
        if old is None or old.arity != relation.arity:
            continue
        stated = [row for _, rows in relation.stated() for row in changes.decode(relation, rows)]
        kept = without_rows(database, old, stated)
        replaced = replaced or kept.num_stated < old.num_stated
        relations[relation.predicate] = kept
    if not replaced:
        return database, False
    rest = replace(database, relations=relations)
    return replace(merge([rest, changes]), name=database.name), True


def without_rows(
    database: Database, relation: Relation, stated: Sequence[tuple[str, ...]]
) -> Relation:
    """Return a relation without facts about some atoms."""
    domains = [database.domains[name] for name in relation.types]
    true, false, unknown = relation.true, relation.false, relation.unknown
    for constants in stated:
        codes = [d.index.get(c, -1) for d, c in zip(domains, constants, strict=True)]
        true, false, unknown = (
            rows[(rows != codes).any(axis=1)] for rows in (true, false, unknown)
        )
    return replace(relation, true=true, false=false, unknown=unknown)


@dataclass
class KeptSession:
    """A session on a question, and the weights that are changed in it."""

    session: Session
    weights: dict[int, float] = field(default_factory=dict)

    def ask(self, weights: Mapping[int, float]) -> Answer:
        """Answer with changed weights; those of the last question are undone first."""
        if weights != self.weights:
            for _ in self.weights:
                self.session.undo()
            self.weights = {}
            for rule, weight in weights.items():
                self.session.set_weight(rule, weight)
                self.weights[rule] = weight
        return self.session.ask()


def ask(
    kept: Kept,
    key: Hashable,
    model: Model,
    data: Database | None,
    query: Sequence[str],
    evidence: Sequence[str],
    weights: Mapping[int, float],
) -> Answer:
    """Answer a question with changed weights, by rule, and further facts."""
    wanted = {
        rule: weight
        for rule, weight in weights.items()
        if rule < len(model.rules) and not model.rules[rule].hard
    }

    def start() -> KeptSession:
        facts, given = data, list(evidence)
        if facts is not None and given and not model.has_variables:
            facts, is_replaced = with_changes(facts, given)
            given = [] if is_replaced else given
        session = lapis.Session(
            model, facts, list(query), evidence=given, precision=PRECISION,
            max_samples=MAX_SAMPLES, progress=None,
        )  # fmt: skip
        return KeptSession(session)

    question = (key, tuple(query), tuple(evidence))
    return kept.find(question, start).ask(wanted)
