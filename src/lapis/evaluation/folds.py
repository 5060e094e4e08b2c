"""Folds of a cross-validation: the training and test databases of each round.

Several databases are independent worlds, so whole databases are held out. One database can be split
only into parts that no fact connects.

Two constants are connected if a fact mentions both. Shared constants do not connect: those the
model names, and those of types that have a weight for each constant (`+word`). Each connected
component of the other constants belongs to one part, so no fact is lost and none is in two parts.
Facts about shared constants only belong to every part.

Atoms between parts are dropped. In the whole database they are false by the closed world; counting
them in training or test would leak information between parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lapis.data.binding import bind, recode
from lapis.data.database import Database, Domain, Relation
from lapis.errors import LapisError
from lapis.language.model import Model


@dataclass(frozen=True)
class Folds:
    """Databases, and the positions of the test databases of each round."""

    databases: tuple[Database, ...]
    test: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.test)

    def train(self, fold: int) -> tuple[int, ...]:
        held_out = set(self.test[fold])
        return tuple(i for i in range(len(self.databases)) if i not in held_out)


def make_folds(
    model: Model,
    databases: Sequence[Database],
    query: Sequence[str],
    *,
    folds: int | None = None,
    leave_one_out: bool = False,
    random_state: int = 0,
) -> Folds:
    """Hold out each database once, or each of `folds` random groups; by default leave one out.

    One database is split into `folds` parts if nothing connects them.

    >>> data = [Database.parse(f"P({name})", name) for name in "ABCDE"]
    >>> from lapis.language import parse_model
    >>> make_folds(parse_model("P(t)"), data, ["P"], folds=2, random_state=1).test
    ((0, 2), (1, 3, 4))
    """
    if folds is not None and leave_one_out:
        raise LapisError(
            "either a number of folds or leave one out, not both", code="cross-validation"
        )
    if folds is not None and folds < 2:
        raise LapisError(f"{folds} folds leave nothing to learn from", code="cross-validation")
    if len(databases) == 1 and folds is not None:
        parts = split_database(model, databases[0], query, folds, random_state)
        return Folds(tuple(parts), tuple((i,) for i in range(len(parts))))
    if len(databases) < 2:
        raise LapisError(
            "cross-validation needs several databases",
            code="cross-validation",
            hint="give several data files, or a number of folds to split one file into",
        )
    if folds is None or folds == len(databases):
        return Folds(tuple(databases), tuple((i,) for i in range(len(databases))))
    if folds > len(databases):
        raise LapisError(
            f"{folds} folds need as many databases, but there are {len(databases)}",
            code="cross-validation",
            hint=f"use at most {len(databases)} folds, or leave one out",
        )
    order = np.random.default_rng(random_state).permutation(len(databases))
    groups = [tuple(sorted(order[start::folds].tolist())) for start in range(folds)]
    return Folds(tuple(databases), tuple(sorted(groups)))


SHARED = -1


def split_database(
    model: Model, database: Database, query: Sequence[str], num_parts: int, random_state: int = 0
) -> list[Database]:
    """Split a database into `num_parts` worlds of similar numbers of facts.

    >>> from lapis.language import parse_model
    >>> model = parse_model("Friends(person, person)\\nSmokes(person)")
    >>> data = Database.parse("Friends(Ann,Bob) Smokes(Bob) Friends(Cid,Dan) Smokes(Eve)")
    >>> for part in split_database(model, data, ["Smokes"], 2):
    ...     print(sorted(part.domains["person"].constants))
    ['Ann', 'Bob']
    ['Cid', 'Dan', 'Eve']
    """
    bound = bind(database, model)
    shared = shared_constants(model, bound)
    refuse_shared_query(model, shared, query)
    component = connect_constants(bound, shared)
    owner = {name: find_owners(relation, component) for name, relation in bound.relations.items()}
    num_facts = count_facts(owner, component)
    num_connected = int(np.count_nonzero(num_facts))
    if num_connected < num_parts:
        raise LapisError(
            f"the data cannot be split into {num_parts} parts: "
            + (
                "facts connect all of its constants"
                if num_connected < 2
                else f"facts connect its constants into {num_connected} groups"
            ),
            code="cross-validation",
            hint="give several databases, one for each independent world",
        )
    part_of = assign_parts(num_facts, num_parts, random_state)
    return [take_part(bound, component, owner, part_of, part) for part in range(num_parts)]


def shared_constants(model: Model, bound: Database) -> dict[str, np.ndarray]:
    """bool[domain size] for each type, the shared constants, which do not connect others."""
    with_weights = {dict(rule.variables)[name] for rule in model.rules for name in rule.plus}
    shared: dict[str, np.ndarray] = {}
    for name, domain in bound.domains.items():
        named = set(domain.constants if name in with_weights else model.types[name])
        shared[name] = np.array([constant in named for constant in domain.constants], bool)
    return shared


def connect_constants(bound: Database, shared: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """int64[domain size] for each type, the component of each constant, or SHARED."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    sizes = [len(domain) for domain in bound.domains.values()]
    start = dict(zip(bound.domains, np.cumsum([0, *sizes]).tolist(), strict=False))
    edges = [np.empty((0, 2), np.int64)]
    for relation in bound.relations.values():
        for _, rows in relation.stated():
            places = [
                np.where(
                    shared[name][rows[:, i]], SHARED, rows[:, i].astype(np.int64) + start[name]
                )
                for i, name in enumerate(relation.types)
            ]
            edges += join_neighbours(places)
    pairs = np.concatenate(edges)
    total = sum(sizes)
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), (total, total))
    _, label = connected_components(graph, directed=False)
    return {
        name: np.where(shared[name], SHARED, label[first : first + len(shared[name])])
        for name, first in start.items()
    }


def join_neighbours(places: Sequence[np.ndarray]) -> list[np.ndarray]:
    """int64[_, 2], pairs of consecutive arguments of a fact that are not shared."""
    found = []
    last = None
    for place in places:
        if last is None:
            last = place
            continue
        both = (last != SHARED) & (place != SHARED)
        found.append(np.stack([last[both], place[both]], axis=1))
        last = np.where(place == SHARED, last, place)
    return found


def find_owners(relation: Relation, component: dict[str, np.ndarray]) -> list[np.ndarray]:
    """int64[num_rows] for true, false and unknown facts, their component, or SHARED."""
    found = []
    for _, rows in relation.stated():
        own = np.full(len(rows), SHARED)
        for position, name in enumerate(relation.types):
            own = np.maximum(own, component[name][rows[:, position]])
        found.append(own)
    return found


def refuse_shared_query(model: Model, shared: dict[str, np.ndarray], query: Sequence[str]) -> None:
    """Refuse query atoms of shared constants, which would be in training and test."""
    for name in query:
        if all(shared[type_name].any() for type_name in model.predicates[name].types):
            raise LapisError(
                f"the data cannot be split: atoms of {name!r} have constants that all parts "
                "share, so they would be both learned from and tested on",
                code="cross-validation",
                hint="give several databases, one for each independent world",
            )


def count_facts(owner: dict[str, list[np.ndarray]], component: dict[str, np.ndarray]) -> np.ndarray:
    """int64[num_components], the number of facts of each."""
    size = max((int(labels.max(initial=-1)) for labels in component.values()), default=-1) + 1
    every = np.concatenate([np.empty(0, np.int64), *(o for group in owner.values() for o in group)])
    return np.bincount(every[every != SHARED], minlength=size)


def assign_parts(num_facts: np.ndarray, num_parts: int, random_state: int) -> np.ndarray:
    """int64[num_components], the part of each: the largest first, to the part of fewest facts."""
    shuffled = np.random.default_rng(random_state).permutation(len(num_facts))
    order = shuffled[np.argsort(-num_facts[shuffled], kind="stable")]
    part = np.empty(len(num_facts), np.int64)
    load = np.zeros(num_parts)
    for component in order:
        part[component] = np.argmin(load)
        # Constants without facts count a little, so that they are distributed too.
        load[part[component]] += max(float(num_facts[component]), 1e-6)
    return part


def take_part(
    bound: Database,
    component: dict[str, np.ndarray],
    owner: dict[str, list[np.ndarray]],
    part_of: np.ndarray,
    part: int,
) -> Database:
    """Return the constants and facts of one part, and all shared ones."""
    domains: dict[str, Domain] = {}
    new_code: dict[str, np.ndarray] = {}
    for name, domain in bound.domains.items():
        kept = belongs(component[name], part_of, part)
        domains[name] = Domain(name, tuple(domain.names[kept].tolist()))
        new_code[name] = (np.cumsum(kept) - 1).astype(np.int32)
    relations = {}
    for name, relation in bound.relations.items():
        maps = [new_code[type_name] for type_name in relation.types]
        true, false, unknown = (
            recode(rows[belongs(own, part_of, part)], maps)
            for (_, rows), own in zip(relation.stated(), owner[name], strict=True)
        )
        relations[name] = replace(relation, true=true, false=false, unknown=unknown)
    name = f"{bound.name} part {part + 1}"
    return Database(domains, relations, name=name)


def belongs(own: np.ndarray, part_of: np.ndarray, part: int) -> np.ndarray:
    """bool[...], whether owners are the part or shared."""
    return (own == SHARED) | (np.append(part_of, -1)[own] == part)
