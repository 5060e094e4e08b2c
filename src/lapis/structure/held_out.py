"""Parts of the training data that are held out: whole worlds, or parts of a single world.

Several worlds are dealt into parts as they are. A single world is split by the constants of one
type, the type that occurs in most targets. A part is the world over the part's constants and all
constants of other types, with the true atoms among them. Atoms with constants of two parts are in
neither. Where such atoms link the constants into several components, each component stays in one
part; where a component is larger than the smaller part, constants are dealt one by one. The parts
have one and two thirds of the constants, because other worlds have other sizes.

Holding single atoms out of a world would not do, because counts over the other atoms determine
them. If 24 of 48 people are tall, a person who counts 23 other tall people is tall. That is true of
every atom of this world, held out or not, and of no other world. Parts have counts of their own.

A predicate without an argument of the split type is the same in all parts, so it is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.relational.interpretation import Extension, Interpretation
from lapis.structure.training_data import TrainingData, join_interpretations

MAX_PARTS = 4
SHARES = np.array([1, 2]) / 3  # of a single world; other worlds have other sizes too
NUM_DEALS = 2  # of a single world's constants
LEAST = 8  # constants of a part


class Fold(NamedTuple):
    """Training data, and what was held out of it."""

    train: TrainingData
    test: TrainingData


class Parts(NamedTuple):
    """How training data are held out, part by part."""

    folds: tuple[Fold, ...]
    split_by: str  # "worlds", or the type whose constants are dealt
    judged: tuple[str, ...]  # the targets that differ from part to part


def hold_out(data: TrainingData, seed: int) -> Parts | None:
    """Each part of the data once as the test; None where they are too small to be split."""
    generator = np.random.default_rng(seed)
    if data.num_worlds > 1:
        order = generator.permutation(data.num_worlds)
        number = min(MAX_PARTS, data.num_worlds)
        parts = [[data.worlds[w] for w in sorted(order[at::number])] for at in range(number)]
        return Parts(make_folds(data, parts), "worlds", data.targets)
    type_name = choose_type(data)
    if type_name is None:
        return None
    folds: list[Fold] = []
    for _ in range(NUM_DEALS):
        part_of = deal_constants(data, type_name, generator)
        kept = [part_of == part for part in range(len(SHARES))]
        parts = [[restrict_world(data.worlds[0], type_name, own)] for own in kept]
        folds += make_folds(data, parts)
    judged = tuple(n for n in data.targets if type_name in data.predicates[n].types)
    return Parts(tuple(folds), type_name, judged)


def make_folds(data: TrainingData, parts: Sequence[Sequence[Interpretation]]) -> tuple[Fold, ...]:
    """Each part as the test of the others."""
    folds = []
    for held in range(len(parts)):
        rest = [world for number, part in enumerate(parts) if number != held for world in part]
        folds.append(Fold(*(join_interpretations(data, worlds) for worlds in (rest, parts[held]))))
    return tuple(folds)


def choose_type(data: TrainingData) -> str | None:
    """The type of most targets' arguments, the largest of such; None if all are too small."""
    large = [t for t in data.offset if data.worlds[0].size(t) * SHARES.min() >= LEAST]
    targets = [data.predicates[name] for name in data.targets]
    found = [(sum(t in p.types for p in targets), data.worlds[0].size(t), t) for t in large]
    best = max(found, default=(0, 0, ""))
    return best[2] if best[0] else None


def deal_constants(
    data: TrainingData, type_name: str, generator: np.random.Generator
) -> np.ndarray:
    """int64[size], the part of each constant: components whole where none is more than a part."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = data.worlds[0].size(type_name)
    links = [np.zeros((0, 2), np.int32)]
    for predicate in data.predicates.values():
        own = [at for at, t in enumerate(predicate.types) if t == type_name]
        links += [data.tuples[predicate.name][:, pair] for pair in map(list, pairwise(own))]
    left, right = np.concatenate(links).T
    graph = coo_array((np.ones(len(left)), (left, right)), shape=(size, size))
    label = connected_components(graph, directed=False)[1]
    if np.bincount(label).max() > size * SHARES.min():
        label = np.arange(size)
    kinds, unit = np.unique(label, return_inverse=True)
    weight = np.bincount(unit)
    part_of_unit = np.zeros(len(kinds), np.int64)
    filled = np.zeros(len(SHARES))
    shuffled = generator.permutation(len(kinds))
    for number in shuffled[np.argsort(-weight[shuffled], kind="stable")]:
        part = np.argmin((filled + weight[number]) / SHARES)
        part_of_unit[number] = part
        filled[part] += weight[number]
    return part_of_unit[unit]


def restrict_world(world: Interpretation, type_name: str, kept: np.ndarray) -> Interpretation:
    """The world of the constants that are kept, bool[size], of one type and all of the others."""
    number = np.cumsum(kept) - 1
    constants = np.asarray(world.domains[type_name].constants, object)[kept]
    domains = {**world.domains, type_name: Domain(type_name, tuple(constants.tolist()))}
    relations = {}
    for name, extension in world.relations.items():
        rows = extension.tuples
        own = [at for at, t in enumerate(extension.types) if t == type_name]
        rows = rows[kept[rows[:, own]].all(axis=1)]
        rows[:, own] = number[rows[:, own]]
        relations[name] = Extension(extension.types, rows)
    return Interpretation(domains, relations)
