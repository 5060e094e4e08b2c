"""Answers with other weights and other facts, by a session if there is one.

The evidence of a question replaces what the data states about the same atoms.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import lapis
from lapis.results.columns import replace_infinite

if TYPE_CHECKING:
    from lapis.data.database import Database, Relation
    from lapis.language.model import Model
    from lapis.results.answer import Answer
    from lapis.web.inspection import Kept

PRECISION, MAX_SAMPLES = 0.02, 4000  # of an answer at once


def has_sessions() -> bool:
    return hasattr(lapis, "Session")


def has_explanations() -> bool:
    from lapis.results.answer import Answer

    return hasattr(Answer, "explain")


def explain_atom(answer: object, atom: str) -> dict[str, Any]:
    """Explain the probability of an atom; say so if this version has no explanations."""
    explain = getattr(answer, "explain", None)
    if explain is None:
        return {
            "available": False,
            "message": "this answer cannot be explained: explanations are of marginals, and of "
            "versions of Lapis that have answer.explain",
            "explanation": None,
        }
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


def ask(
    kept: Kept,
    key: Hashable,
    model: Model,
    data: Database | None,
    query: Sequence[str],
    evidence: Sequence[str],
    weights: Mapping[int, float],
) -> tuple[Answer, Literal["session", "inference"]]:
    """Answer a question with changed weights, by rule, and further facts."""
    from lapis.api import infer

    rules = tuple(
        replace(rule, weight=weights[n]) if n in weights and not rule.hard else rule
        for n, rule in enumerate(model.rules)
    )
    changed = model.with_rules(rules)
    if data is not None and evidence and not model.has_variables:
        data, is_replaced = with_changes(data, evidence)
        evidence = () if is_replaced else evidence
    answer = infer(
        changed, data, query=list(query), evidence=list(evidence), precision=PRECISION,
        max_samples=MAX_SAMPLES, progress=None,
    )  # fmt: skip
    return answer, "inference"
