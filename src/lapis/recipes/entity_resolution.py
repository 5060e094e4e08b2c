"""Entity resolution: finds the records of one table, or of two, that are the same.

    tables → candidate pairs by blocking → levels of similarity → weights → probabilities, clusters

The weights are fitted by EM to the distinct comparison vectors (`match_mixture.py`); labels, if
there are some, are fixed in it. Transitivity is summed exactly in small components
(`transitivity.py`). The result writes an ordinary model with its facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from lapis.errors import LapisError
from lapis.recipes import blocking as blocks
from lapis.recipes.blocking import BlockingRule, CandidatePairs
from lapis.recipes.comparisons import Comparison, check_columns, choose_comparisons, compare_pairs
from lapis.recipes.match_mixture import (
    UNLABELLED,
    MatchModel,
    RuleSets,
    collect_vectors,
    combine,
    extend_levels,
    fit_mixture,
)
from lapis.recipes.records import Records, TableLike, read_records
from lapis.recipes.resolution import Resolution
from lapis.recipes.transitivity import (
    FORBIDDEN,
    JointSolution,
    find_components,
    pairs_within,
    sigmoid,
    solve_jointly,
)
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import ResolveOptions
from lapis.results.result import Table
from lapis.runtime.progress import Progress, Report, report_progress
from lapis.runtime.progress_bars import ProgressOption, as_report

ColumnsLike: TypeAlias = Mapping[str, str] | Sequence[str] | str
MAX_COMPLETED = 60  # records of a component whose pairs are all compared
NOT_LISTED = -2.0  # log-odds of a pair in a larger component that no rule found


@front_door
def resolve(
    left: TableLike,
    right: TableLike | None = None,
    *,
    comparisons: ColumnsLike | None = None,
    blocking: Sequence[str] | str | None = None,
    id_column: str = "id",
    ignore: Sequence[str] = (),
    labels: TableLike | None = None,
    label_column: str | None = None,
    truth_column: str | None = None,
    related: bool = True,
    transitive: bool = True,
    one_to_one: bool = False,
    min_probability: float = 0.1,
    max_pairs: int = 20_000_000,
    num_random_pairs: int = 1_000_000,
    random_state: int | np.random.Generator = 0,
    time_limit: float | None = None,
    max_memory: int | None = None,
    progress: ProgressOption = True,
) -> Resolution:
    """Find the records that are of the same entity, in one table or across two.

    Parameters
    ----------
    left
        A table: a CSV or Parquet file, or a frame of pandas, polars or Arrow.
    right
        A second table; only pairs of one record of each are compared.
    comparisons
        Columns to compare, with a kind or without: {"name": "text", "zip": "exact"}, or names.
        None: all columns. Kinds that are not given are guessed.
    blocking
        Rules that propose pairs: columns that must agree ("surname, zip"), or a condition
        ("l.name = r.name and abs(l.year - r.year) <= 1"); "all": every pair. None: guessed.
    id_column
        The column of the ids.
    ignore
        Columns that are not compared.
    labels
        A table of pairs that are known: the ids `left` and `right`, and `same` (1 or 0).
    label_column
        A column of the tables with known entities; it may be empty in most rows.
    truth_column
        A column with the true entities, for scores only.
    related
        Whether pairs can be of two related entities: a third kind beside same and by chance.
    transitive
        Whether clusters and probabilities obey transitivity.
    one_to_one
        Whether records of one table are of different entities.
    min_probability
        Pairs of at least this probability connect records to components.
    max_pairs
        Candidate pairs at most.
    num_random_pairs
        Random pairs, which show how often values agree by chance.
    random_state
        Seed of the random pairs.
    time_limit
        Seconds for the whole call.
    max_memory
        Bytes of memory at most.
    progress
        True for a progress display, or a function that is called with events.

    Returns
    -------
    Resolution
        Pairs with probabilities, clusters, weights; a model and facts to run again.

    Raises
    ------
    LapisError
        If a table, a column, an id or a rule is wrong.
    TooLarge
        If the rules find more than `max_pairs` pairs.

    Examples
    --------
    >>> import pandas, lapis
    >>> names = [f"{a} {b}" for a in ("anna", "ben", "carl") for b in ("berg", "diaz", "ito")]
    >>> rows = [(f"A{n}", name, n) for n, name in enumerate(names)]
    >>> rows += [(f"B{n}", name.replace("a", "", 1), n) for n, name in enumerate(names)]
    >>> people = pandas.DataFrame(rows, columns=["id", "name", "phone"])
    >>> found = lapis.recipes.resolve(people, blocking="all")
    >>> found.num_clusters
    9
    """
    options = ResolveOptions(
        comparisons=list_columns(comparisons),
        blocking=() if blocking is None else blocking,
        id_column=id_column,
        ignore=ignore,
        label_column=label_column,
        truth_column=truth_column,
        related=related,
        transitive=transitive,
        one_to_one=one_to_one,
        min_probability=min_probability,
        max_pairs=max_pairs,
        num_random_pairs=num_random_pairs,
        random_state=seed_of(random_state),
        time_limit=time_limit,
        max_memory=max_memory,
    )
    check_options(options)
    return run_resolve(left, right, labels, options, as_report(progress))


@front_door
def count_pairs(
    left: TableLike,
    right: TableLike | None = None,
    *,
    blocking: Sequence[str] | str,
    id_column: str = "id",
    max_pairs: int = 20_000_000,
) -> Table:
    """Count the candidate pairs of blocking rules, each alone and beside those before it.

    Parameters
    ----------
    left
        A table: a CSV or Parquet file, or a frame of pandas, polars or Arrow.
    right
        A second table.
    blocking
        Rules as `resolve` takes them.
    id_column
        The column of the ids.
    max_pairs
        Pairs of a rule from which on only its blocks are counted.

    Returns
    -------
    Table
        A row for each rule and one for all together; columns `rule`, `pairs` and `new`.

    Raises
    ------
    LapisError
        If a table, a column or a rule is wrong.

    Examples
    --------
    >>> import pandas, lapis
    >>> people = pandas.DataFrame({"id": [1, 2, 3], "name": ["a", "a", "b"], "zip": [7, 7, 7]})
    >>> print(lapis.recipes.count_pairs(people, blocking=["name", "zip"]))
    rule      pairs  new
    name          1    1
    zip           3    2
    together      3    3
    3 rows
    """
    records = read_records(left, right, id_column=id_column)
    return blocks.tabulate_counts(records, blocks.parse_rules(blocking, records), max_pairs)


def list_columns(given: ColumnsLike | None) -> Sequence[str] | str:
    """Return columns as texts "name=kind" or "name"."""
    if isinstance(given, Mapping):
        return [f"{name}={kind}" for name, kind in given.items()]
    return () if given is None else given


def parse_columns(given: Sequence[str] | str) -> dict[str, str] | None:
    """Return the kind of each column that is given, "" if it is to be guessed."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    pairs = [text.strip().rpartition("=") for text in listed if text.strip()]
    found = {(name or kind).strip(): kind.strip() if sign else "" for name, sign, kind in pairs}
    return found or None


def run_resolve(
    left: TableLike,
    right: TableLike | None,
    labels: TableLike | None,
    options: ResolveOptions,
    progress: Report | None,
) -> Resolution:
    """Resolve records, with options that were checked."""
    report_progress(progress, Progress("reading", 0))
    records = read_records(left, right, id_column=options.id_column)
    truth = entity_codes(records, options.truth_column, "truth_column")
    known = entity_codes(records, options.label_column, "label_column")
    check_columns(records, options.ignore, "ignore")
    hidden = [n for n in (options.truth_column, options.label_column) if n is not None]
    records = records.without(hidden)
    sample = draw_pairs(records, options.num_random_pairs, options.random_state)
    comparisons = choose_comparisons(
        records, parse_columns(options.comparisons), options.ignore, sample
    )
    rules, counts, pairs = propose_pairs(records, comparisons, options, progress)
    sets, comparisons = describe_sets(records, rules, comparisons, pairs)
    plain = compare_pairs(records, comparisons, pairs.left, pairs.right, progress)
    number = sets.index(pairs.found_by)
    extended = extend_levels(plain, number, sets.touched, comparisons)
    label = label_pairs(records, pairs, known, labels)
    vectors = collect_vectors(extended, number, label)
    random = compare_pairs(records, comparisons, *sample).astype(np.int64)
    none = np.full(len(random), UNLABELLED)
    match = fit_mixture(
        vectors,
        collect_vectors(random, np.zeros(len(random), np.int64), none),
        comparisons,
        sets,
        num_records=len(records),
        num_pairs=records.num_pairs,
        with_related=options.related,
        progress=progress,
    )
    num_labels = int((label != UNLABELLED).sum())
    learned = describe_learning(match, len(vectors.count), len(pairs), num_labels)
    return join_records(
        records, rules, match, pairs, extended, options,
        learned=learned, truth=truth, counts=counts, progress=progress,
    )  # fmt: skip


def describe_learning(match: MatchModel, vectors: int, pairs: int, labels: int) -> str:
    """Say how the weights were found."""
    with_labels = f" and {labels:,} labelled pairs" if labels else ", without labels"
    return (
        f"expectation–maximisation on {pairs:,} pairs ({vectors:,} distinct){with_labels}, "
        f"{match.iterations} iterations"
    )


def entity_codes(records: Records, name: str | None, option: str) -> np.ndarray | None:
    """Return int64[num_records], the entity of each record, −1 where it is not known."""
    if name is None:
        return None
    return records.column(name, option).codes.astype(np.int64)


def draw_pairs(records: Records, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random pairs of records: all pairs if there are no more."""
    if records.num_pairs <= number:
        return blocks.make_all_pairs(records)
    rng = np.random.default_rng(seed)
    if records.num_left is not None:
        left = rng.integers(0, records.num_left, number)
        return left, rng.integers(records.num_left, len(records), number)
    left, right = rng.integers(0, len(records), (2, number))
    apart = left != right
    return np.minimum(left, right)[apart], np.maximum(left, right)[apart]


def propose_pairs(
    records: Records,
    comparisons: Sequence[Comparison],
    options: ResolveOptions,
    progress: Report | None,
) -> tuple[tuple[BlockingRule, ...], Table | None, CandidatePairs]:
    """Return the blocking rules, the number of pairs of each, and the pairs."""
    texts: Sequence[str] | str = options.blocking
    listed = [texts] if isinstance(texts, str) else list(texts)
    if listed == ["all"]:
        return (), None, blocks.all_pairs(records, options.max_pairs)
    if not listed:
        if records.num_pairs <= SMALL:
            return (), None, blocks.all_pairs(records, options.max_pairs)
        kinds = {each.column: each.kind for each in comparisons}
        listed = list(blocks.guess_rules(records, kinds, options.max_pairs))
        if not listed:
            raise LapisError(
                "no column and no pair of columns makes blocks that are small enough",
                code="blocking",
                hint='give blocking rules, as in "surname, substr(first_name, 1, 1)"',
            )
    rules = blocks.parse_rules(listed, records)
    pairs = blocks.find_pairs(records, rules, options.max_pairs, progress)
    alone = [int(((pairs.found_by >> n) & 1).sum()) for n in range(len(rules))]
    lowest = pairs.found_by & -pairs.found_by
    new = [int((lowest == 1 << n).sum()) for n in range(len(rules))]
    counts = Table(
        {
            "rule": [*(rule.text for rule in rules), "together"],
            "pairs": [*alone, len(pairs)],
            "new": [*new, len(pairs)],
        }
    )
    return rules, counts, pairs


SMALL = 5_000  # pairs of records, below which all are compared if no rule is given


def describe_sets(
    records: Records,
    rules: Sequence[BlockingRule],
    comparisons: Sequence[Comparison],
    pairs: CandidatePairs,
) -> tuple[RuleSets, tuple[Comparison, ...]]:
    """Return the sets of rules that found pairs, and the comparisons.

    Comparisons of columns that rules read otherwise than for equality have levels of their own for
    pairs that such a rule found.
    """
    bits = np.unique(pairs.found_by)
    equal = np.zeros((len(bits), len(comparisons)), bool)
    touched = np.zeros_like(equal)
    names = [each.column for each in comparisons]
    for number, rule in enumerate(rules):
        within = (bits >> number & 1).astype(bool)
        reads = rule.touched | {n for n in rule.equal if n not in names}
        for column, name in enumerate(names):
            if name in rule.equal:
                equal[within, column] = True
            elif name in reads or any(
                determines(records, name, each) for each in reads if each not in names
            ):
                touched[within, column] = True
    changed = tuple(
        replace(each, by_rule=True) if touched[:, column].any() else each
        for column, each in enumerate(comparisons)
    )
    return RuleSets(bits, equal, touched), changed


def determines(records: Records, name: str, other: str) -> bool:
    """Whether records that agree in a column agree in another: a key that was made of it."""
    one, two = records.columns[name].codes.astype(np.int64), records.columns[other].codes
    known = (one >= 0) & (two >= 0)
    pairs = np.unique(one[known] * (len(records.columns[other].values) + 1) + two[known])
    num_values = len(np.unique(one[known]))
    is_key = len(records.columns[other].values) < 0.98 * num_values
    return is_key and len(pairs) <= 1.001 * num_values


def label_pairs(
    records: Records, pairs: CandidatePairs, known: np.ndarray | None, labels: TableLike | None
) -> np.ndarray:
    """Return int64[num_pairs]: 1 for pairs that are known to be the same, 0 different, −1."""
    found = np.full(len(pairs), UNLABELLED)
    if known is not None:
        both = (known[pairs.left] >= 0) & (known[pairs.right] >= 0)
        found[both] = known[pairs.left[both]] == known[pairs.right[both]]
    if labels is not None:
        rows, same = read_labels(records, labels)
        keys = pairs.left * len(records) + pairs.right
        place = np.minimum(np.searchsorted(keys, rows), len(keys) - 1)
        hit = keys[place] == rows
        found[place[hit]] = same[hit]
    return found


def read_labels(records: Records, labels: TableLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the labelled pairs, each as left · number of records + right, and whether same."""
    from lapis.recipes.label_table import read_label_table

    left, right, same = read_label_table(labels)
    one = np.array([records.row(name) for name in left], np.int64)
    other = np.array([records.row(name) for name in right], np.int64)
    return np.minimum(one, other) * len(records) + np.maximum(one, other), same


def join_records(
    records: Records,
    rules: tuple[BlockingRule, ...],
    match: MatchModel,
    pairs: CandidatePairs,
    extended: np.ndarray,
    options: ResolveOptions,
    *,
    learned: str,
    truth: np.ndarray | None,
    counts: Table | None,
    progress: Report | None,
) -> Resolution:
    """Compute probabilities and clusters from the log-odds of the pairs."""
    report_progress(progress, Progress("clustering", 0))
    odds = match.log_odds(extended, match.sets.index(pairs.found_by))
    likely = sigmoid(combine(odds)) >= options.min_probability
    component = find_components(len(records), pairs.left[likely], pairs.right[likely])
    compared = np.ones(len(pairs), bool)
    if options.transitive:
        pairs, extended, odds, compared = complete_pairs(
            records, match, pairs, extended, odds, component
        )
    total = combine(odds)
    total[~compared] = FORBIDDEN if options.one_to_one else 0.0
    if options.transitive:
        joint = solve_jointly(len(records), pairs.left, pairs.right, total, component, NOT_LISTED)
    else:
        joint = solve_apart(len(records), pairs, total)
    return Resolution(
        records, rules, match, pairs, extended, compared, odds, joint, options.transitive,
        learned, truth, counts, options.one_to_one,
    )  # fmt: skip


def solve_apart(num_records: int, pairs: CandidatePairs, log_odds: np.ndarray) -> JointSolution:
    """Solve all pairs independently; records that pairs above ½ connect are a cluster."""
    same = log_odds > 0
    cluster = find_components(num_records, pairs.left[same], pairs.right[same])
    component = np.arange(num_records)
    return JointSolution(sigmoid(log_odds), cluster, component, np.ones(num_records, int), 0, 0)


def complete_pairs(
    records: Records,
    match: MatchModel,
    pairs: CandidatePairs,
    extended: np.ndarray,
    odds: np.ndarray,
    component: np.ndarray,
) -> tuple[CandidatePairs, np.ndarray, np.ndarray, np.ndarray]:
    """Add the pairs that no rule found of records in one component; compare them.

    The last array is False for pairs within one of two tables, which are not compared.
    """
    size = len(records)
    found = [
        np.minimum(a, b) * size + np.maximum(a, b)
        for a, b in pairs_within(component, MAX_COMPLETED)
    ]
    keys = pairs.left * size + pairs.right
    new = np.setdiff1d(np.concatenate([*found, np.empty(0, np.int64)]), keys)
    left, right = new // size, new % size
    added = match.extend(
        compare_pairs(records, match.comparisons, left, right), np.full(len(new), -1)
    )
    more = match.log_odds(added, np.full(len(new), -1))
    compared = np.ones(len(keys) + len(new), bool)
    if records.num_left is not None:
        compared[len(keys) :] = (left < records.num_left) & (right >= records.num_left)
    joined = CandidatePairs(
        np.concatenate([pairs.left, left]),
        np.concatenate([pairs.right, right]),
        np.concatenate([pairs.found_by, np.zeros(len(new), np.int64)]),
    )
    return joined, np.concatenate([extended, added]), np.concatenate([odds, more]), compared
