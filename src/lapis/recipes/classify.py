"""Collective classification: from tables of items, features and links to a class for each item.

    items      a row for each item: its id, its class where it is known, further columns
    features   pairs of an item and a feature, such as a paper and a word
    links      pairs of items

Labelled items are learned from, and are evidence for those without a label, which are inferred
jointly. The model is described in `class_model.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from lapis.data.formats.graphs import as_constant
from lapis.errors import LapisError
from lapis.recipes.class_model import ClassSettings, infer_classes, train
from lapis.recipes.classification import Classification
from lapis.recipes.item_tables import (
    NO_CLASS,
    FeaturePairs,
    ItemTables,
    LinkPairs,
    as_name,
    code_column,
    join_columns,
    new_links,
    refuse_empty,
)
from lapis.recipes.table_columns import (
    TableLike,
    pair_columns,
    read_columns,
    refuse_gaps,
    require_column,
)
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import ClassifyOptions
from lapis.runtime.progress import Progress, Report, report_progress
from lapis.runtime.progress_bars import ProgressOption, as_report
from lapis.runtime.views import count_noun

if TYPE_CHECKING:
    import networkx

PairTables: TypeAlias = TableLike | Mapping[str, TableLike] | Sequence[str | Path]
LinkTables: TypeAlias = Union[PairTables, "networkx.Graph"]
DEFAULT_FEATURES, DEFAULT_LINKS = "Has", "Linked"


@front_door
def classify(
    items: TableLike,
    features: PairTables | None = None,
    links: LinkTables | None = None,
    *,
    id_column: str = "id",
    label_column: str = "label",
    truth_column: str | None = None,
    ignore: Sequence[str] = (),
    levels: int = 8,
    prior: float | None = None,
    near_prior: float | None = None,
    link_prior: float | None = None,
    folds: int = 3,
    method: str = "auto",
    precision: float = 0.01,
    max_iterations: int | None = None,
    random_state: int | np.random.Generator = 0,
    time_limit: float | None = None,
    max_memory: int | None = None,
    progress: ProgressOption = True,
) -> Classification:
    """Predict the classes of items from labelled items, features and links.

    Parameters
    ----------
    items
        A table with a row for each item: a CSV or Parquet file, or a frame of pandas, polars or
        Arrow. Columns that are not named below are features.
    features
        Tables of pairs, an item and a feature, by name of their predicate: {"HasWord": frame}. A
        single table is called Has, a file by its name.
    links
        Tables of pairs of items, by name of their predicate: {"Cites": frame}. A single table is
        called Linked, a file by its name. A graph of networkx is a table of its edges.
    id_column
        The column of the ids.
    label_column
        The column of the classes; it is empty for items that are to be classified.
    truth_column
        A column of true classes, for scores only.
    ignore
        Columns of the items that are no features.
    levels
        Parts of similar size that a column of numbers is cut into.
    prior
        Width of the Gaussian prior of feature weights; chosen by cross-validation if absent.
    near_prior
        Width of the prior of features of linked items, 0 to leave them out; by cross-validation if
        absent.
    link_prior
        Width of the prior of link weights; chosen by cross-validation if absent.
    folds
        Parts of the labelled items in cross-validation.
    method
        Name of a method of inference; "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled probability.
    max_iterations
        Upper limit of the iterations of learning.
    random_state
        Seed of everything random, or a generator to draw one from.
    time_limit
        Seconds for the whole call.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    progress
        True for a display once the work takes a second; a function that is called with events;
        None for neither.

    Returns
    -------
    Classification
        Classes with probabilities, scores where the truth is given; a model and facts to run again.

    Raises
    ------
    LapisError
        If a table or a column is wrong, an id occurs twice, or fewer than two classes are labelled.
    TooLarge
        If the work does not fit its limits.

    Examples
    --------
    >>> import pandas
    >>> people = pandas.DataFrame({
    ...     "id": ["Ann", "Bob", "Cid", "Dora", "Eve"],
    ...     "job": ["chef", "nurse", "chef", "nurse", "nurse"],
    ...     "label": ["red", "blue", "red", "blue", None],
    ... })
    >>> friends = pandas.DataFrame({"a": ["Ann", "Bob"], "b": ["Cid", "Eve"]})
    >>> classify(people, links={"Friends": friends}, prior=1, near_prior=0, link_prior=1).labels
    {'Eve': 'blue'}
    """
    options = ClassifyOptions(
        id_column=id_column,
        label_column=label_column,
        truth_column=truth_column,
        ignore=ignore,
        levels=levels,
        prior=prior,
        near_prior=near_prior,
        link_prior=link_prior,
        folds=folds,
        method=method,
        precision=precision,
        max_iterations=max_iterations,
        random_state=seed_of(random_state),
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    return run_classify(items, features, links, options, as_report(progress))


def run_classify(
    items: TableLike,
    features: PairTables | None,
    links: LinkTables | None,
    options: ClassifyOptions,
    progress: Report | None = None,
) -> Classification:
    report_progress(progress, Progress("reading", 0))
    tables, truth = read_items(items, features, links, options)
    refuse_empty(tables)
    if tables.is_labelled.all():
        raise LapisError(
            f"every item has a label in column {options.label_column!r}: nothing to classify",
            code="recipe-labels",
            hint="leave the column empty for the items to be classified",
        )
    settings = ClassSettings(
        prior=options.prior,
        near_prior=options.near_prior,
        link_prior=options.link_prior,
        folds=options.folds,
        max_iterations=options.max_iterations,
        precision=options.precision,
        method=options.method,
        max_memory=options.max_memory,
        seed=options.seed,
        progress=progress,
    )
    trained = train(tables, settings)
    probability, answer = infer_classes(trained.fit.model, trained.tables, settings)
    return Classification(trained.tables, trained, answer, probability, truth)


def read_items(
    items: TableLike,
    features: PairTables | None,
    links: LinkTables | None,
    options: ClassifyOptions,
) -> tuple[ItemTables, np.ndarray | None]:
    """Read the tables; return them, and int64[num_items] of true classes if there is a column."""
    columns = read_columns(items, "items")
    names = item_names(require_column(columns, options.id_column, "items"), options.id_column)
    label_texts = class_texts(require_column(columns, options.label_column, "items"))
    truth_texts: Sequence[str | None] = ()
    if options.truth_column is not None:
        truth_texts = class_texts(require_column(columns, options.truth_column, "items"))
    classes = {text: None for text in label_texts if text is not None}
    number = {text: code for code, text in enumerate(sorted(classes))}
    target, class_type = class_names(options.label_column)
    tables = ItemTables(
        names,
        tuple(number),
        np.array([NO_CLASS if text is None else number[text] for text in label_texts], np.int64),
        item_type=item_type_name(options.id_column, class_type),
        class_type=class_type,
        target=target,
    )
    tables = add_columns(tables, columns, options)
    place = {name: row for row, name in enumerate(names)}
    taken = [target]
    for name, table in named_tables(features, DEFAULT_FEATURES).items():
        predicate = as_name(name, taken)
        taken.append(predicate)
        types = [tables.item_type, class_type, *(own.type_name for own in tables.features)]
        own = read_features(predicate, read_columns(table, predicate), place, types)
        tables = replace(tables, features=(*tables.features, own))
    for name, table in named_tables(as_pairs(links), DEFAULT_LINKS).items():
        predicate = as_name(name, taken)
        taken.append(predicate)
        found = read_links(predicate, read_columns(table, predicate), place)
        tables = replace(tables, links=(*tables.links, found))
    if options.truth_column is None:
        return tables, None
    # A class that no label has is never predicted: it is counted as wrong.
    truth = [number.get(text, len(number)) if text else NO_CLASS for text in truth_texts]
    return tables, np.array(truth, np.int64)


def class_names(label_column: str) -> tuple[str, str]:
    """Return the predicate and the type of classes.

    >>> class_names("topic"), class_names("Label")
    (('Topic', 'topic'), ('Label', 'label'))
    """
    name = as_name(label_column)
    predicate = name[0].upper() + name[1:]
    lower = name[0].lower() + name[1:]
    return predicate, lower if lower != predicate else f"{lower}_value"


def item_type_name(id_column: str, class_type: str) -> str:
    """Return the type of items: the name of their column, unless that says nothing."""
    name = as_name(id_column).lower()
    return as_name("item" if name in ("id", "item_id") else name, [class_type])


def item_names(column: np.ndarray, name: str) -> tuple[str, ...]:
    refuse_gaps(column, name, "items")
    names = tuple(map(as_constant, column.tolist()))
    seen: dict[str, int] = {}
    for row, item in enumerate(names):
        first = seen.setdefault(item, row)
        if first != row:
            raise LapisError(
                f"items: {item!r} is the id of rows {first + 1} and {row + 1}",
                code="recipe-items",
                hint="every item needs an id of its own",
            )
    return names


def class_texts(column: np.ndarray) -> list[str | None]:
    return [None if v is None or v != v else as_constant(v) for v in column.tolist()]


def add_columns(
    tables: ItemTables, columns: Mapping[str, np.ndarray], options: ClassifyOptions
) -> ItemTables:
    """Add the features of the other columns; thresholds are those of labelled items."""
    for name in options.ignore:
        require_column(columns, name, "items")
    others = {options.id_column, options.label_column, options.truth_column, *options.ignore}
    own = {name: column for name, column in columns.items() if name not in others}
    known = tables.is_labelled
    codings = [code_column(name, column[known], options.levels) for name, column in own.items()]
    found = join_columns(codings, own)
    return replace(tables, features=(found,)) if found.names else tables


def named_tables(given: PairTables | None, default: str) -> dict[str, TableLike]:
    """Return tables by the names of their predicates."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str | Path):
        return {file_name(given): given}
    if isinstance(given, Sequence):
        return {file_name(path): path for path in given}
    return {default: given}


def file_name(path: str | Path) -> str:
    return Path(path).name.partition(".")[0]


def as_pairs(links: LinkTables | None) -> PairTables | None:
    """Return the edges of a graph as a table; other links as they are."""
    if links is None or not hasattr(links, "edges"):
        return links
    from lapis.results.result import import_package

    ends = [tuple(map(as_constant, edge[:2])) for edge in links.edges()]
    return import_package("pyarrow").table(
        {"source": [a for a, _ in ends], "target": [b for _, b in ends]}
    )


def read_features(
    predicate: str,
    columns: Mapping[str, np.ndarray],
    place: Mapping[str, int],
    types: Sequence[str],
) -> FeaturePairs:
    items, values = pair_columns(columns, predicate)
    rows = known_items(items, place, predicate)
    texts = list(map(as_constant, values))
    number = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    second = list(columns)[1]
    pairs = np.unique(np.column_stack([rows, [number[text] for text in texts]]), axis=0)
    kept = pairs[pairs[:, 0] >= 0]
    type_name = as_name(second.lower() or f"{predicate}_value".lower(), types)
    return FeaturePairs(predicate, type_name, tuple(number), kept[:, 0], kept[:, 1])


def read_links(
    predicate: str, columns: Mapping[str, np.ndarray], place: Mapping[str, int]
) -> LinkPairs:
    first, second = pair_columns(columns, predicate)
    pairs = np.column_stack(
        [known_items(first, place, predicate), known_items(second, place, predicate)]
    )
    return new_links(predicate, pairs[(pairs >= 0).all(axis=1)], len(place))


def known_items(names: Iterable[object], place: Mapping[str, int], label: str) -> np.ndarray:
    """int64[num_rows], the rows of items; −1 for other names. Raises if no name is an item."""
    found = np.array([place.get(as_constant(name), -1) for name in names], np.int64)
    if len(found) and (found < 0).all():
        raise LapisError(
            f"{label}: none of its {count_noun(len(found), 'row')} names an item",
            code="recipe-items",
            hint="the first column has ids of items",
        )
    return found
