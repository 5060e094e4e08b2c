"""Items to classify: their features and links as arrays, and as facts.

    HasWord(paper, word)          a feature of a table of pairs (item, feature)
    HasWordNear(paper, word)      a feature that a linked item has
    Feature(paper, feature)       a feature that a column of the items' table gives
    Cites(paper, paper)           links
    CitesCount(paper, count)      the number of an item's links: "1", "2", "3-4", "5-8", …, "33+"
    Topic(paper, topic)           the class, if it is known

A column of the items' table becomes features by its values: `city=Rome` for texts, `smokes` for
truths that hold, `age>=31.5` for each threshold that a number reaches. Thresholds are quantiles of
the labelled items, at most `levels - 1` of them. Each then has a weight of its own, so that a
number's effect is a step function, and the prior keeps the steps small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from lapis.data.database import TRUE, UNKNOWN, Database
from lapis.data.formats.build_database import FactGroup, build_database
from lapis.data.formats.graphs import as_constant
from lapis.errors import LapisError

FEATURE = "Feature"  # the predicate of features from columns
NEAR = "Near"  # suffix of the predicate of features of linked items
MAX_NEAR = 5_000_000  # pairs of an item and a feature of linked items
COUNT = "Count"  # suffix of the predicate of numbers of links
COUNT_STEPS = (1, 2, 3, 5, 9, 17, 33)  # where the levels of numbers of links begin
NO_CLASS = -1


@dataclass(frozen=True)
class FeaturePairs:
    """Which items have which features."""

    predicate: str
    type_name: str
    names: tuple[str, ...]
    item: np.ndarray  # int64[num_pairs]
    feature: np.ndarray  # int64[num_pairs]
    columns: tuple[str, ...] = ()  # of each feature its column, if they come from columns
    is_near: bool = False  # whether they are features of linked items


@dataclass(frozen=True)
class LinkPairs:
    """Pairs of linked items, without those of an item with itself."""

    predicate: str
    pairs: np.ndarray  # int64[num_links, 2]
    level: np.ndarray  # int64[num_items], of the number of neighbours: 0 for none, else from 1

    @property
    def count_predicate(self) -> str:
        return self.predicate + COUNT

    @property
    def level_names(self) -> list[str]:
        """The constants of the levels, from 1."""
        return [level_name(number) for number in range(1, int(self.level.max(initial=0)) + 1)]


@dataclass(frozen=True)
class ItemTables:
    """Items with their classes, features and links."""

    items: tuple[str, ...]
    classes: tuple[str, ...]
    label: np.ndarray  # int64[num_items], a class or NO_CLASS
    item_type: str = "item"
    class_type: str = "class"
    target: str = "Class"  # the predicate of classes
    features: tuple[FeaturePairs, ...] = ()
    links: tuple[LinkPairs, ...] = ()

    @property
    def is_labelled(self) -> np.ndarray:
        """bool[num_items]."""
        return self.label != NO_CLASS

    def hide_labels(self, hidden: np.ndarray) -> ItemTables:
        """Return the tables without the classes of some items, bool[num_items]."""
        return replace(self, label=np.where(hidden, NO_CLASS, self.label))

    def take(self, kept: np.ndarray) -> ItemTables:
        """Return the tables of some items, bool[num_items], with the links among them.

        Levels of numbers of links stay those of all links.
        """
        position = np.cumsum(kept) - 1
        chosen = np.flatnonzero(kept)

        def take_features(own: FeaturePairs) -> FeaturePairs:
            mask = kept[own.item]
            return replace(own, item=position[own.item[mask]], feature=own.feature[mask])

        def take_links(own: LinkPairs) -> LinkPairs:
            mask = kept[own.pairs].all(axis=1)
            return replace(own, pairs=position[own.pairs[mask]], level=own.level[chosen])

        return replace(
            self,
            items=tuple(self.items[i] for i in chosen.tolist()),
            label=self.label[chosen],
            features=tuple(map(take_features, self.features)),
            links=tuple(map(take_links, self.links)),
        )

    def without(self, *, near: bool = False, links: bool = False) -> ItemTables:
        """Return the tables without features of linked items, or without links."""
        features = tuple(own for own in self.features if not (near and own.is_near))
        return replace(self, features=features, links=() if links else self.links)

    def facts(self) -> Database:
        """Return the facts; the class of an item without a label is marked unknown."""
        return item_facts(self)


def item_facts(tables: ItemTables) -> Database:
    names: dict[str, int] = {}
    groups: list[FactGroup] = []
    place = 0

    def intern(constants: Iterable[str]) -> np.ndarray:
        codes = [names.setdefault(constant, len(names)) for constant in constants]
        return np.array(codes, np.int32)

    def add(predicate: str, first: np.ndarray, second: np.ndarray, truth: int = TRUE) -> None:
        nonlocal place
        rows = np.column_stack([first, second]).astype(np.int32)
        places = place + 3 * np.arange(len(rows), dtype=np.int64)
        groups.append(FactGroup(truth, predicate, False, 2, rows, places))
        place += 3 * len(rows)

    items, classes = intern(tables.items), intern(tables.classes)
    known = np.flatnonzero(tables.is_labelled)
    hidden = np.flatnonzero(~tables.is_labelled)
    add(tables.target, items[known], classes[tables.label[known]])
    cells = np.repeat(items[hidden], len(classes)), np.tile(classes, len(hidden))
    add(tables.target, *cells, truth=UNKNOWN)
    for own in tables.features:
        add(own.predicate, items[own.item], intern(own.names)[own.feature])
    for links in tables.links:
        add(links.predicate, items[links.pairs[:, 0]], items[links.pairs[:, 1]])
        linked = np.flatnonzero(links.level)
        levels = intern(links.level_names)
        add(links.count_predicate, items[linked], levels[links.level[linked] - 1])
    return build_database(list(names), groups, {}, ())


def new_links(predicate: str, pairs: np.ndarray, num_items: int) -> LinkPairs:
    """Return links int64[num_links, 2] without repetition, with the levels of their numbers.

    >>> links = new_links("Cites", np.array([[0, 1], [0, 2], [1, 0], [2, 2]]), 4)
    >>> links.pairs.tolist(), links.level.tolist(), links.level_names
    ([[0, 1], [0, 2], [1, 0]], [2, 1, 1, 0], ['1', '2'])
    """
    pairs = pairs.reshape(-1, 2)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    between = np.unique(np.sort(pairs, axis=1), axis=0)
    number = np.bincount(between.ravel(), minlength=num_items)
    return LinkPairs(predicate, pairs, np.searchsorted(COUNT_STEPS, number, side="right"))


def add_near_features(tables: ItemTables) -> ItemTables:
    """Add the features that linked items have, of all kinds of links and both directions.

    Nothing is added if there are more than `MAX_NEAR` of them.
    """
    size = len(tables.items)
    pairs = np.concatenate([np.empty((0, 2), np.int64), *(links.pairs for links in tables.links)])
    both = np.concatenate([pairs, pairs[:, ::-1]])
    linked = sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), (size, size))
    found = []
    for own in tables.features:
        shape = (size, len(own.names))
        has = sparse.csr_array((np.ones(len(own.item)), (own.item, own.feature)), shape)
        near = (linked @ has).tocoo()
        if not near.nnz or near.nnz > MAX_NEAR:
            continue
        found.append(
            replace(
                own,
                predicate=own.predicate + NEAR,
                type_name=f"{own.type_name}_near",
                item=near.row.astype(np.int64),
                feature=near.col.astype(np.int64),
                columns=(),
                is_near=True,
            )
        )
    return replace(tables, features=(*tables.features, *found))


def level_name(level: int) -> str:
    """Return the constant of a level of numbers of links.

    >>> [level_name(level) for level in (1, 2, 3, 7)]
    ['1', '2', '3-4', '33+']
    """
    low = COUNT_STEPS[level - 1]
    if level == len(COUNT_STEPS):
        return f"{low}+"
    high = COUNT_STEPS[level] - 1
    return str(low) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class ColumnCoding:
    """How the values of a column become features."""

    name: str
    thresholds: tuple[float, ...] | None = None  # of a column of numbers
    values: tuple[str, ...] = ()  # of a column of texts
    is_truth: bool = False

    @property
    def features(self) -> list[str]:
        if self.thresholds is not None:
            return [f"{self.name}>={as_constant(float(value))}" for value in self.thresholds]
        return [self.name] if self.is_truth else [f"{self.name}={value}" for value in self.values]

    def encode(self, column: np.ndarray) -> np.ndarray:
        """bool[num_items, num_features]."""
        if self.thresholds is not None:
            numbers = column.astype(np.float64)
            return numbers[:, None] >= np.array(self.thresholds)[None, :]
        if self.is_truth:
            return np.array([bool(value) and value == value for value in column])[:, None]
        codes = {value: code for code, value in enumerate(self.values)}
        found = np.zeros((len(column), len(self.values)), bool)
        for row, value in enumerate(column.tolist()):
            code = None if is_missing(value) else codes.get(as_constant(value))
            if code is not None:
                found[row, code] = True
        return found


def code_column(name: str, column: np.ndarray, levels: int) -> ColumnCoding:
    """Choose the features of a column by its values of training; missing ones have none.

    >>> code_column("age", np.array([20, 30, 40, 50]), 4).features
    ['age>=25', 'age>=35', 'age>=45']
    >>> code_column("city", np.array(["Rome", None, "Bonn"], object), 4).features
    ['city=Rome', 'city=Bonn']
    """
    present = [value for value in column.tolist() if not is_missing(value)]
    if column.dtype.kind == "b" or (present and all(isinstance(v, bool) for v in present)):
        return ColumnCoding(name, is_truth=True)
    if is_numeric(column, present):
        return ColumnCoding(name, thresholds=cut_points(np.array(present, np.float64), levels))
    return ColumnCoding(name, values=tuple(dict.fromkeys(map(as_constant, present))))


def is_numeric(column: np.ndarray, present: Sequence[object]) -> bool:
    if column.dtype.kind in "iuf":
        return True
    return bool(present) and all(isinstance(value, int | float) for value in present)


def cut_points(values: np.ndarray, levels: int) -> tuple[float, ...]:
    """Return thresholds between distinct values that cut them into parts of similar size."""
    distinct = np.unique(values[np.isfinite(values)])
    if len(distinct) <= 1:
        return ()
    middle = distinct[:-1] + np.diff(distinct) / 2
    middle = np.where(middle <= distinct[:-1], distinct[1:], middle)  # numbers next to each other
    if len(middle) < levels:
        return tuple(middle.tolist())
    share = np.searchsorted(np.sort(values), middle) / len(values)
    wanted = np.arange(1, levels) / levels
    nearest = np.abs(share[None, :] - wanted[:, None]).argmin(axis=1)
    return tuple(middle[np.unique(nearest)].tolist())


def is_missing(value: object) -> bool:
    return value is None or value != value


def join_columns(
    codings: Sequence[ColumnCoding], columns: Mapping[str, np.ndarray]
) -> FeaturePairs:
    """Return the features that the columns of items give."""
    names: list[str] = []
    origin: list[str] = []
    items, features = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for coding in codings:
        has = coding.encode(columns[coding.name])
        item, feature = np.nonzero(has)
        items.append(item)
        features.append(feature + len(names))
        names += coding.features
        origin += [coding.name] * len(coding.features)
    return FeaturePairs(
        FEATURE,
        FEATURE.lower(),
        tuple(names),
        np.concatenate(items),
        np.concatenate(features),
        tuple(origin),
    )


def as_name(text: str, taken: Iterable[str] = ()) -> str:
    """Return a name of a predicate or type from the name of a column or table.

    >>> as_name("has word"), as_name("2nd"), as_name("topic", ["topic"])
    ('has_word', 'x2nd', 'topic_2')
    """
    name = re.sub(r"\W", "_", str(text)) or "x"
    name = name if re.match(r"[^\W\d]", name) else f"x{name}"
    taken, number, found = set(taken), 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def refuse_empty(tables: ItemTables) -> None:
    """Raise if there is nothing to learn from."""
    if len(tables.classes) < 2:
        found = f"only the class {tables.classes[0]}" if tables.classes else "no class"
        raise LapisError(
            f"two classes are needed to learn from, and the labels have {found}",
            code="recipe-labels",
        )
    if not tables.features and not tables.links:
        raise LapisError(
            "there are neither features nor links to classify by",
            code="recipe-features",
            hint="give the items further columns, a table of features, or links",
        )
