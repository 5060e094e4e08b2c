"""Bind a database to a model, and merge databases.

Binding gives arguments the types of the model, and constants their codes. The constants of a type
are those that the model names, then those that the data declares, then those of its facts in the
order of first occurrence. Merging joins databases into one world: constants with the same name are
the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lapis.data.database import TRUE, Database, Domain, Relation, empty_tuples
from lapis.data.formats.build_database import (
    build_relation,
    check_consistent,
    check_uniform,
    provisional_type,
)
from lapis.data.formats.diagnosis import Shape, find_declaration, find_shapes, find_statements
from lapis.data.keys import sorted_unique
from lapis.data.lazy_database import LazyDatabase
from lapis.errors import LapisError, Note, Span, Warning, did_you_mean, raise_all, suggestion
from lapis.language.model import Model, Predicate
from lapis.language.names import format_atom, format_constant, format_number


def bind(database: Database, model: Model) -> Database:
    """Return the database over the model's types, with a relation for each predicate."""
    if isinstance(database, LazyDatabase):
        raise_all([_unsupported_size(name) for name in model.sizes])
        return database.bind(model)
    raise_all([*_predicate_errors(database, model), *_type_errors(database, model)])
    database = read_numbers(database, model)
    domains = {name: _domain(database, model, name) for name in model.types}
    relations = {
        name: _bind_relation(database, predicate, domains)
        for name, predicate in model.predicates.items()
    }
    bound = replace(database, domains=domains, relations=relations, declared={}, first_seen={})
    check_consistent(bound)
    return bound


def read_numbers(database: Database, model: Model) -> Database:
    """Write the numbers of functions in one way, so that equal numbers are one constant.

    Raises if a value is not a finite number, or a fact is not a value.
    """
    for predicate in model.predicates.values():
        relation = database.relations.get(predicate.name)
        if predicate.is_number and relation is not None:
            database = _read_values(database, relation)
    return database


def _read_values(database: Database, relation: Relation) -> Database:
    """Return the database with the values of one function in canonical form."""
    if len(relation.false) or len(relation.unknown):
        truth, rows = next((t, r) for t, r in relation.stated()[1:] if len(r))
        raise _number_error(database, relation, rows[0], truth, "a number is known: it has a value")
    domain = database.domains[relation.types[-1]]
    values = relation.true[:, -1]
    wrong = np.flatnonzero(~np.isfinite(domain.numeric)[values])
    if len(wrong):
        row = relation.true[wrong[0]]
        word = format_constant(domain.constants[int(row[-1])])
        more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        raise _number_error(database, relation, row, TRUE, f"{word} is not a finite number{more}")
    used = np.zeros(len(domain), bool)
    used[values] = True
    if used.all():
        names = list(map(format_number, domain.numeric.tolist()))
    else:
        names = [
            format_number(number) if is_used else name
            for name, number, is_used in zip(
                domain.constants, domain.numeric.tolist(), used.tolist(), strict=True
            )
        ]
    if tuple(names) == domain.constants:
        return database
    type_name = provisional_type(relation.predicate, relation.arity - 1)
    canonical = Domain(type_name, tuple(dict.fromkeys(names)))
    code = np.fromiter(map(canonical.index.__getitem__, names), np.int32, len(names))
    true = relation.true.copy()
    true[:, -1] = code[values]
    read = replace(relation, types=(*relation.types[:-1], type_name), true=sorted_unique(true))
    seen = np.full(len(canonical), np.iinfo(np.int64).max)
    np.minimum.at(seen, code, seen_order(database, relation.types[-1]))
    return replace(
        database,
        domains={**database.domains, type_name: canonical},
        relations={**database.relations, relation.predicate: read},
        first_seen={**database.first_seen, type_name: seen},
    )


def _number_error(
    database: Database, relation: Relation, row: np.ndarray, truth: int, message: str
) -> LapisError:
    """Return an error for one value of a function."""
    [constants] = database.decode(relation, row[None, :])
    wanted = relation.predicate, constants, truth
    name = format_atom(relation.predicate, constants, function=True)
    return LapisError(
        f"{name}: {message}",
        code="data-number",
        span=find_statements(database.origins, {wanted}).get(wanted),
        hint=f"the values of {relation.predicate} are numbers; leave out a fact whose number is "
        'missing (missing="skip" leaves out its groundings)',
    )


def keep_known(
    databases: Sequence[Database], model: Model, *, strict: bool = False
) -> tuple[list[Database], list[Warning]]:
    """Drop predicates and types that the model does not declare; return a warning that names them.

    Raises if a name is close to one of the model, or, if `strict`, for every dropped name.
    """
    errors: list[LapisError] = []
    num_facts: dict[str, int] = {}  # of predicates left out
    types: dict[str, None] = {}
    kept: list[Database] = []
    for database in databases:
        unknown = [n for n in database.relations if n not in model.predicates]
        wrong = [n for n in unknown if strict or did_you_mean(n, model.predicates)]
        if wrong:
            shapes = {_relation_shape(database.relations[name]) for name in wrong}
            places = find_shapes(database.origins, shapes)
            errors += [
                _unknown_predicate(
                    name, model, places.get(_relation_shape(database.relations[name]))
                )
                for name in wrong
            ]
        untyped = [n for n in database.declared if n not in model.types]
        errors += [
            _unknown_type(database, n, model)
            for n in untyped
            if strict or did_you_mean(n, model.types)
        ]
        for name in unknown:
            stated = database.relations[name].num_stated
            num_facts[name] = num_facts.get(name, 0) + stated
        types |= dict.fromkeys(untyped)
        kept.append(_without(database, unknown, untyped) if unknown or untyped else database)
    raise_all(errors)
    return kept, [*_ignored(num_facts, list(types)), *_too_many(kept, model)]


def _too_many(databases: Sequence[Database], model: Model) -> list[Warning]:
    """Return a warning for each type whose constants are more than its size in the model."""
    found: dict[str, Warning] = {}
    for database in databases:
        if isinstance(database, LazyDatabase):
            continue  # refused when it is bound
        for name, size in model.sizes.items():
            number = len(_domain(database, model, name))
            if number > size:
                message = f"type {name!r} has {number} constants, more than its size {size}"
                found.setdefault(name, Warning(message, "domain-size"))
    return list(found.values())


def _ignored(num_facts: dict[str, int], types: list[str]) -> list[Warning]:
    """Return one warning about all ignored data."""
    parts = [f"{name!r} ({n:,} fact{'s' * (n != 1)})" for name, n in num_facts.items()]
    parts += [f"the type {name!r}" for name in types]
    if not parts:
        return []
    return [
        Warning(
            f"ignored data that the model does not declare: {', '.join(parts)}",
            "ignored-data",
            hint="--strict (strict=True) makes this an error",
        )
    ]


def _without(database: Database, predicates: Sequence[str], types: Sequence[str]) -> Database:
    return replace(
        database,
        relations={n: r for n, r in database.relations.items() if n not in predicates},
        declared={n: constants for n, constants in database.declared.items() if n not in types},
    )


def _relation_shape(relation: Relation) -> Shape:
    return relation.predicate, relation.function, relation.arity


def _domain(database: Database, model: Model, type_name: str) -> Domain:
    known = dict.fromkeys((*model.types[type_name], *database.declared.get(type_name, ())))
    if type_name in database.domains:  # bound before
        known |= dict.fromkeys(database.domains[type_name].constants)
    sources = [
        data_type
        for name, relation in database.relations.items()
        for data_type, own in zip(relation.types, model.predicates[name].types, strict=True)
        if own == type_name
    ]
    if sources:
        names = np.concatenate([database.domains[name].names for name in sources])
        seen = np.concatenate([seen_order(database, name) for name in sources])
        known |= dict.fromkeys(names[np.argsort(seen, kind="stable")].tolist())
    return Domain(type_name, fill_type(type_name, known, model.sizes.get(type_name, 0)))


def fill_type(name: str, known: Mapping[str, None], size: int) -> tuple[str, ...]:
    """Return the known constants, and made-up ones if they are fewer than the size.

    >>> fill_type("person", {"Ann": None, "person0": None}, 3)
    ('Ann', 'person0', 'person1')
    """
    found = dict(known)
    candidates = (f"{name}{number}" for number in itertools.count())
    while len(found) < size:
        found.setdefault(next(candidates))
    return tuple(found)


def _unsupported_size(name: str) -> LapisError:
    return LapisError(
        f"the size of type {name!r} is not supported on an engine",
        code="domain-size",
        hint="list its constants in the model",
    )


def _bind_relation(
    database: Database, predicate: Predicate, domains: dict[str, Domain]
) -> Relation:
    relation = database.relations.get(predicate.name)
    if relation is None:
        silent = empty_tuples(predicate.arity)
        return Relation(
            predicate.name, predicate.types, silent, silent, silent, function=predicate.function
        )
    maps = [
        translation(database.domains[old], domains[new])
        for old, new in zip(relation.types, predicate.types, strict=True)
    ]
    true, false, unknown = (sorted_unique(recode(rows, maps)) for _, rows in relation.stated())
    return Relation(predicate.name, predicate.types, true, false, unknown, predicate.function)


def _predicate_errors(database: Database, model: Model) -> list[LapisError]:
    """Return errors for predicates that the model lacks or declares differently."""
    wrong = {
        _relation_shape(relation): relation
        for relation in database.relations.values()
        if not _fits(relation, model.predicates.get(relation.predicate))
    }
    places = find_shapes(database.origins, set(wrong)) if wrong else {}
    errors = []
    for shape, relation in wrong.items():
        predicate = model.predicates.get(relation.predicate)
        if predicate is None:
            errors.append(_unknown_predicate(relation.predicate, model, places.get(shape)))
        elif relation.function != predicate.function and (relation.function or shape in places):
            errors.append(_wrong_kind(predicate, places.get(shape)))
        elif relation.arity != predicate.arity:
            errors.append(_wrong_arity(predicate, shape, places.get(shape)))
    return errors


def _fits(relation: Relation, predicate: Predicate | None) -> bool:
    return predicate is not None and (relation.arity, relation.function) == (
        predicate.arity,
        predicate.function,
    )


def _unknown_predicate(name: str, model: Model, span: Span | None) -> LapisError:
    close = did_you_mean(name, model.predicates)
    hint = "the model declares no such predicate"
    if close is not None:
        declared = model.predicates[close].span
        hint = f"did you mean {close!r}" + (f", declared at {declared}?" if declared else "?")
    return LapisError(
        f"data for an unknown predicate {name!r}",
        code="unknown-predicate",
        span=_name_span(span, name),
        hint=hint,
    )


def _name_span(span: Span | None, name: str) -> Span | None:
    """Return the span of the predicate's name in a fact; for a function the whole fact."""
    if span is None or "=" in span.source.text[span.start : span.end]:
        return span
    start = span.source.text.index(name, span.start)
    return Span(span.source, start, start + len(name))


def _wrong_kind(predicate: Predicate, span: Span | None) -> LapisError:
    if predicate.function:
        message = f"{predicate.name} is a function, but the data uses it as a predicate"
        hint = f"write its value in front: Value = {predicate.name}(…)"
    else:
        message = f"{predicate.name} is a predicate, but the data gives it a value"
        hint = f"write it as a fact: {predicate.name}(…)"
    return LapisError(
        message, code="data-function", span=span, hint=hint, notes=_declaration_note(predicate)
    )


def _wrong_arity(predicate: Predicate, shape: Shape, span: Span | None) -> LapisError:
    _, function, arity = shape
    # The value of a function is a column of a table, but stands before the = in a text.
    given, expected = arity - function, predicate.arity - (function and predicate.function)
    return LapisError(
        f"{predicate.name} has {expected} argument{'s' * (expected != 1)}, but {given} in the data",
        code="data-arity",
        span=span,
        notes=_declaration_note(predicate),
    )


def _declaration_note(predicate: Predicate) -> list[Note]:
    if predicate.span is None:
        return []
    return [Note(f"{predicate.name} is declared here", predicate.span)]


def _type_errors(database: Database, model: Model) -> list[LapisError]:
    return [
        _unknown_type(database, name, model)
        for name in database.declared
        if name not in model.types
    ]


def _unknown_type(database: Database, name: str, model: Model) -> LapisError:
    return LapisError(
        f"data for an unknown type {name!r}",
        code="unknown-type",
        span=find_declaration(database.origins, name),
        hint=suggestion(name, model.types, "the model has no such type"),
    )


def merge(databases: Sequence[Database]) -> Database:
    """Merge databases into one world; raise if facts contradict each other."""
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
    """Return int32[len(source)]: the code in the target of each constant of the source."""
    return np.fromiter(map(target.index.__getitem__, source.constants), np.int32, len(source))


def recode(rows: np.ndarray, maps: Sequence[np.ndarray]) -> np.ndarray:
    """Replace the codes of argument i by maps[i] of them; the rows are no longer sorted."""
    new = np.empty_like(rows)
    for argument, codes in enumerate(maps):
        new[:, argument] = codes[rows[:, argument]]
    return new


def seen_order(database: Database, type_name: str) -> np.ndarray:
    """Return int64[size]: the order in which the data mentions the constants of a domain."""
    known = database.first_seen.get(type_name)
    return np.arange(len(database.domains[type_name])) if known is None else known


def _merge_domains(
    databases: Sequence[Database],
) -> tuple[dict[str, Domain], dict[str, np.ndarray]]:
    """Merge domains and orders of occurrence; later databases come after earlier ones."""
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
