"""Build databases from coded facts.

Data alone does not determine which arguments share a type. Argument i of predicate P has its own
provisional domain "P.i" until the database is bound to a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.database import FALSE, TRUE, UNKNOWN, Database, Domain, Relation, empty_tuples
from lapis.data.formats.diagnosis import Contradiction, Shape, find_shapes, raise_contradictions
from lapis.data.formats.facts import Origin
from lapis.data.keys import intersection, sorted_unique
from lapis.errors import LapisError, Note, Span, raise_all


class FactGroup(NamedTuple):
    """Facts of one predicate with the same truth."""

    truth: int
    predicate: str
    function: bool
    arity: int
    rows: np.ndarray  # int32[num_facts, arity], codes in a list of names common to all groups
    places: np.ndarray  # int64[num_facts], offsets of the facts; they differ by more than arity

    @property
    def shape(self) -> Shape:
        return self.predicate, self.function, self.arity


def provisional_type(predicate: str, argument: int) -> str:
    """Return a name that no type of a model can have."""
    return f"{predicate}.{argument}"


def is_provisional(type_name: str) -> bool:
    return "." in type_name


def known_types(database: Database) -> dict[str, tuple[str, ...]]:
    """Return the constants of named types: declared in the data, or bound to a model."""
    bound = {
        name: domain.constants
        for name, domain in database.domains.items()
        if not is_provisional(name)
    }
    names = dict.fromkeys((*database.declared, *bound))
    return {
        name: tuple(dict.fromkeys((*database.declared.get(name, ()), *bound.get(name, ()))))
        for name in names
    }


def build_database(
    names: Sequence[str],
    groups: Sequence[FactGroup],
    declared: Mapping[str, tuple[str, ...]],
    origins: tuple[Origin, ...],
) -> Database:
    """Build relations in the order of the groups, constants in the order of first occurrence."""
    check_uniform(((group.shape, len(group.rows)) for group in groups), origins)
    table = np.array(names, object)
    domains = {name: Domain(name, constants) for name, constants in declared.items()}
    first_seen: dict[str, np.ndarray] = {}
    relations: dict[str, Relation] = {}
    for predicate in dict.fromkeys(group.predicate for group in groups):
        parts = [group for group in groups if group.predicate == predicate]
        arity, function = parts[0].arity, parts[0].function
        rows = np.concatenate([part.rows for part in parts])
        places = np.concatenate([part.places for part in parts])
        truth = np.repeat([part.truth for part in parts], [len(part.rows) for part in parts])
        local = np.empty(rows.shape, np.int32)
        types = tuple(provisional_type(predicate, argument) for argument in range(arity))
        for argument, type_name in enumerate(types):
            used, local[:, argument], seen = codes_by_place(
                rows[:, argument], places + argument, len(names)
            )
            domains[type_name] = Domain(type_name, tuple(table[used].tolist()))
            first_seen[type_name] = seen
        relations[predicate] = build_relation(predicate, types, local, truth, function)
    database = Database(
        domains, relations, declared=dict(declared), origins=origins, first_seen=first_seen
    )
    check_consistent(database)
    return database


GroundFact = tuple[str, tuple[str, ...], int]  # predicate, constants, truth


def encode_facts(
    facts: Iterable[GroundFact], declared: Mapping[str, tuple[str, ...]] | None = None
) -> Database:
    """Build a database from facts; constants are numbered in the order of the facts.

    >>> data = encode_facts([("Friends", ("Ann", "Bob"), TRUE), ("Smokes", ("Ann",), FALSE)])
    >>> list(data.facts())
    [('Friends', ('Ann', 'Bob'), True), ('Smokes', ('Ann',), False)]
    """
    code: dict[str, int] = {}
    groups: dict[tuple[str, int, int], tuple[list[list[int]], list[int]]] = {}
    place = 0
    for predicate, constants, truth in facts:
        rows, places = groups.setdefault((predicate, len(constants), truth), ([], []))
        rows.append([code.setdefault(constant, len(code)) for constant in constants])
        places.append(place)
        place += len(constants) + 1
    found = [
        FactGroup(
            truth,
            predicate,
            False,
            arity,
            np.array(rows, np.int32).reshape(len(rows), arity),
            np.array(places, np.int64),
        )
        for (predicate, arity, truth), (rows, places) in groups.items()
    ]
    return build_database(list(code), found, declared or {}, ())


def codes_by_place(
    values: np.ndarray, places: np.ndarray, bound: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct values by first place, each value's position, and the first places."""
    used, codes = dense_codes(values, bound)
    first = np.full(len(used), np.iinfo(np.int64).max)
    np.minimum.at(first, codes, places)
    order = np.argsort(first)
    rank = np.empty(len(used), np.int32)
    rank[order] = np.arange(len(used), dtype=np.int32)
    return used[order], rank[codes], first[order]


def dense_codes(values: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in order, and the position of each value among them."""
    if len(values) * 16 < bound:
        used, position = np.unique(values, return_inverse=True)
        return used, position
    present = np.zeros(bound, np.bool_)
    present[values] = True
    return np.flatnonzero(present), (np.cumsum(present, dtype=np.int32) - 1)[values]


def build_relation(
    predicate: str, types: tuple[str, ...], rows: np.ndarray, truth: np.ndarray, function: bool
) -> Relation:
    """Build a relation from rows with a truth value each."""

    def having(value: int) -> np.ndarray:
        chosen = truth == value
        if not chosen.any():
            return empty_tuples(len(types))
        return sorted_unique(rows if chosen.all() else rows[chosen])

    return Relation(
        predicate, types, having(TRUE), having(FALSE), having(UNKNOWN), function=function
    )


def check_uniform(numbers: Iterable[tuple[Shape, int]], origins: Sequence[Origin]) -> None:
    """Raise if a predicate has facts of several shapes; `numbers` are the facts of each shape."""
    count: dict[str, dict[Shape, int]] = {}
    for shape, number in numbers:
        shapes = count.setdefault(shape[0], {})
        shapes[shape] = shapes.get(shape, 0) + number
    mixed = [shapes for shapes in count.values() if len(shapes) > 1]
    if mixed:
        places = find_shapes(origins, {shape for shapes in mixed for shape in shapes})
        raise_all([_mixed_error(shapes, places) for shapes in mixed])


def _mixed_error(count: Mapping[Shape, int], places: Mapping[Shape, Span]) -> LapisError:
    """Return an error at the rarest shape of a predicate, the most likely mistake."""
    usual, *_, rare = sorted(count, key=count.__getitem__, reverse=True)
    if usual[1] != rare[1]:
        message = f"{rare[0]} is used both as a function and as a predicate"
        code = "data-function"
    else:
        message = (
            f"{rare[0]} has {_arguments(rare)} in {_facts(count[rare])}, "
            f"but {_arguments(usual)} in {_facts(count[usual])}"
        )
        code = "data-arity"
    notes = [Note("the other use is here", places[usual])] if usual in places else []
    return LapisError(message, code=code, span=places.get(rare), notes=notes)


def _arguments(shape: Shape) -> str:
    _, function, arity = shape
    number = arity - function
    return f"{number} argument{'s' * (number != 1)}"


def _facts(number: int) -> str:
    return f"{number} fact{'s' * (number != 1)}"


def check_consistent(database: Database) -> None:
    """Raise if a fact has two truth values, or a function two values for the same arguments."""
    found: list[Contradiction] = []
    for relation in database.relations.values():
        stated = [(truth, rows) for truth, rows in relation.stated() if len(rows)]
        for position, (truth, rows) in enumerate(stated):
            for other, other_rows in stated[position + 1 :]:
                for constants in database.decode(relation, intersection(rows, other_rows)):
                    found.append(
                        Contradiction(
                            relation.predicate,
                            relation.function,
                            (constants, truth),
                            (constants, other),
                        )
                    )
        if relation.function:
            same = (relation.true[1:, :-1] == relation.true[:-1, :-1]).all(axis=1)
            pairs = zip(
                database.decode(relation, relation.true[:-1][same]),
                database.decode(relation, relation.true[1:][same]),
                strict=True,
            )
            found.extend(
                Contradiction(relation.predicate, True, (one, TRUE), (two, TRUE))
                for one, two in pairs
            )
    raise_contradictions(database.origins, found)
