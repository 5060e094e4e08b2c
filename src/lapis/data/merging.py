"""Several databases as one world: constants with the same name are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.data.database import Database, Domain, Relation
from lapis.data.formats.assembly import build_relation, check_consistent, check_uniform
from lapis.errors import LapisError


def merge(databases: Sequence[Database]) -> Database:
    """The union of all facts. A fact that two databases contradict each other on is an error."""
    if not databases:
        raise LapisError("there is no database to merge", code="no-data")
    origins = tuple(origin for database in databases for origin in database.origins)
    relations_of: dict[str, list[tuple[Database, Relation]]] = {}
    for database in databases:
        for relation in database.relations.values():
            relations_of.setdefault(relation.predicate, []).append((database, relation))
    check_uniform(
        [
            ((relation.predicate, relation.function, relation.arity), len(rows))
            for parts in relations_of.values()
            for _, relation in parts
            for _, rows in relation.stated()
        ],
        origins,
    )
    domains, first_seen = _merge_domains(databases)
    declared: dict[str, tuple[str, ...]] = {}
    for database in databases:
        for name, constants in database.declared.items():
            declared[name] = tuple(dict.fromkeys((*declared.get(name, ()), *constants)))
    merged = Database(
        domains,
        {name: _merge_relations(parts, domains) for name, parts in relations_of.items()},
        name=" + ".join(database.name for database in databases),
        declared=declared,
        origins=origins,
        first_seen=first_seen,
    )
    check_consistent(merged)
    return merged


def translation(source: Domain, target: Domain) -> np.ndarray:
    """int32[len(source)]: the code in the target of each constant of the source."""
    return np.fromiter(map(target.index.__getitem__, source.constants), np.int32, len(source))


def recode(rows: np.ndarray, maps: Sequence[np.ndarray]) -> np.ndarray:
    """Rows with the codes of argument i replaced by maps[i] of them; no longer sorted."""
    new = np.empty_like(rows)
    for argument, codes in enumerate(maps):
        new[:, argument] = codes[rows[:, argument]]
    return new


def seen_order(database: Database, type_name: str) -> np.ndarray:
    """int64[size]: the order in which the data mentions a domain's constants."""
    known = database.first_seen.get(type_name)
    return np.arange(len(database.domains[type_name])) if known is None else known


def _merge_domains(
    databases: Sequence[Database],
) -> tuple[dict[str, Domain], dict[str, np.ndarray]]:
    """Constants of the first database first; each database is seen after those before it."""
    places: dict[str, dict[str, int]] = {}
    offset = 0
    for database in databases:
        last = offset
        for name, domain in database.domains.items():
            seen = (seen_order(database, name) + offset).tolist()
            known = places.setdefault(name, {})
            for constant, place in zip(domain.constants, seen, strict=True):
                known.setdefault(constant, place)
            last = max(last, *seen, last)
        offset = last + 1
    domains = {name: Domain(name, tuple(known)) for name, known in places.items()}
    first_seen = {
        name: np.fromiter(known.values(), np.int64, len(known)) for name, known in places.items()
    }
    return domains, first_seen


def _merge_relations(
    parts: Sequence[tuple[Database, Relation]], domains: dict[str, Domain]
) -> Relation:
    first = parts[0][1]
    rows, truth = [], []
    for database, relation in parts:
        if relation.types != first.types:
            raise LapisError(
                f"{first.predicate} has different types in the databases to merge",
                code="data-types",
                hint="merge databases before binding them to a model",
            )
        maps = [translation(database.domains[name], domains[name]) for name in relation.types]
        for value, stated in relation.stated():
            rows.append(recode(stated, maps))
            truth.append(np.full(len(stated), value))
    return build_relation(
        first.predicate, first.types, np.concatenate(rows), np.concatenate(truth), first.function
    )
