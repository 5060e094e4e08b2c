"""Placing new records in the clusters of a resolution, with its weights as they are.

New records are compared with those of the resolution and with each other, where a blocking rule
proposes it. A new record joins the cluster with the largest sum of log-odds over all its records,
if that is positive; new records that join none form clusters of their own in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.errors import LapisError
from lapis.recipes.blocking import BlockingTables, CandidatePairs, merge_pairs
from lapis.recipes.comparisons import compare_pairs
from lapis.recipes.match_mixture import combine
from lapis.recipes.records import (
    RecordColumn,
    Records,
    TableLike,
    encode_column,
    guess_raw,
    read_records,
)
from lapis.recipes.transitivity import contract, sigmoid
from lapis.results.result import Columns, Result, Table
from lapis.runtime.views import View

if TYPE_CHECKING:
    from lapis.recipes.resolution import Resolution

APART = -1e3  # log-odds between two clusters that are there already
MAX_CLUSTER = 100  # records of a cluster that a new record is compared with


@dataclass(frozen=True, repr=False)
class NewRecords(Result):
    """The cluster of each new record, and its likeliest record among the old ones."""

    ids: np.ndarray  # object[num_new]
    cluster: np.ndarray  # int64[num_new]; numbers from `num_clusters` on are new clusters
    num_clusters: int  # before
    nearest: np.ndarray  # object[num_new], the id of the likeliest old record, or None
    probability: np.ndarray  # float64[num_new], of that pair; NaN if there is none
    pairs: Table  # all compared pairs

    @property
    def is_new(self) -> np.ndarray:
        """Whether each record is in a cluster without old records."""
        found: np.ndarray = self.cluster >= self.num_clusters
        return found

    def columns(self) -> Columns:
        return {
            "id": self.ids,
            "cluster": self.cluster,
            "is_new": self.is_new,
            "nearest": self.nearest,
            "probability": self.probability,
        }

    def views(self) -> list[View]:
        return Table({n: list(values) for n, values in self.columns().items()}).views()

    def summary(self) -> str:
        old = int((~self.is_new).sum())
        return f"{old:,} of {len(self.ids):,} new records are in a cluster that was there"

    def document(self) -> dict[str, Any]:
        return Table({n: list(values) for n, values in self.columns().items()}).document()


def place_records(found: Resolution, table: TableLike, id_column: str) -> NewRecords:
    """Place the records of a table in the clusters of a resolution."""
    if found.records.num_left is not None:
        raise LapisError(
            "predict places records of one table; this resolution is of two",
            code="record-table",
            hint="resolve both tables together with the new records",
        )
    old = found.records
    new = read_records(table, id_column=id_column)
    for each in found.match.comparisons:
        new.column(each.column, "new records")
    joined = join_tables(old, new)
    pairs = find_new_pairs(found, joined, len(old))
    pairs = add_members(found, pairs, joined, len(old))
    number = found.match.sets.index(pairs.found_by)
    levels = compare_pairs(joined, found.match.comparisons, pairs.left, pairs.right)
    log_odds = combine(found.match.log_odds(found.match.extend(levels, number), number))
    cluster = assign(found, pairs, log_odds, len(old), len(new))
    nearest, probability = find_nearest(old, pairs, log_odds, len(new))
    order = np.argsort(-log_odds, kind="stable")
    shown = Table(
        {
            "left": joined.ids[pairs.left[order]],
            "right": joined.ids[pairs.right[order]],
            "probability": sigmoid(log_odds[order]),
        }
    )
    return NewRecords(new.ids, cluster, found.num_clusters, nearest, probability, shown)


def join_tables(old: Records, new: Records) -> Records:
    """Return the records of both tables, the old ones first."""
    known = set(old.ids.tolist())
    twice = [name for name in new.ids.tolist() if name in known]
    if twice:
        raise LapisError(
            f"the id {twice[0]!r} of a new record is that of an old one", code="record-id"
        )
    columns = {
        name: join_codes(column, new.columns.get(name), len(new))
        for name, column in old.columns.items()
    }
    return Records(np.concatenate([old.ids, new.ids]), columns)


def join_codes(old: RecordColumn, new: RecordColumn | None, num_new: int) -> RecordColumn:
    """Join two columns; a column that the new table lacks is missing there."""
    if new is None:
        return replace(old, codes=np.append(old.codes, np.full(num_new, -1, np.int32)))
    if new.kind == "text" and old.kind == "number":
        new = encode_column(new.name, *guess_raw(new.as_texts(), new.codes < 0, numbers=True))
    values, kind = new.values, old.kind
    if kind == "text":
        values = new.texts
    elif new.kind != kind and len(new.values):
        raise LapisError(
            f"new records: column {old.name!r} has {new.kind}s, not {kind}s", code="record-column"
        )
    fresh = np.setdiff1d(values, old.values) if len(values) else old.values[:0]
    merged = np.append(old.values, fresh)
    sorter = np.argsort(merged, kind="stable")
    place = sorter[np.searchsorted(merged, values, sorter=sorter)] if len(values) else values
    codes = np.append(place, -1).astype(np.int32)[new.codes]
    return replace(old, codes=np.append(old.codes, codes), values=merged)


def find_new_pairs(found: Resolution, joined: Records, num_old: int) -> CandidatePairs:
    """Return the candidate pairs with a new record."""
    if not found.rules:
        right = np.arange(num_old, len(joined))
        left = np.concatenate([np.arange(row) for row in right]) if len(right) else right
        ends = np.repeat(right, right)
        return CandidatePairs(left, ends, np.ones(len(left), np.int64))
    keys, bits = [], []
    with BlockingTables(joined) as tables:
        for number, rule in enumerate(found.rules):
            keys.append(tables.fetch_pairs(rule, first_right=num_old))
            bits.append(np.full(len(keys[-1]), 1 << number, np.int64))
    return merge_pairs(np.concatenate(keys), np.concatenate(bits), len(joined))


def add_members(
    found: Resolution, pairs: CandidatePairs, joined: Records, num_old: int
) -> CandidatePairs:
    """Add the pairs of a new record with the other records of the clusters that it touches."""
    cluster = found.joint.cluster
    touched = pairs.left < num_old
    links = np.unique(np.column_stack([cluster[pairs.left[touched]], pairs.right[touched]]), axis=0)
    order = np.argsort(cluster, kind="stable")
    size = np.bincount(cluster)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    keys = [pairs.left * len(joined) + pairs.right]
    for block, record in links.tolist():
        members = order[start[block] : start[block] + min(size[block], MAX_CLUSTER)]
        keys.append(members * len(joined) + record)
    bits = [pairs.found_by, np.zeros(sum(map(len, keys[1:])), np.int64)]
    return merge_pairs(np.concatenate(keys), np.concatenate(bits), len(joined))


def assign(
    found: Resolution, pairs: CandidatePairs, log_odds: np.ndarray, num_old: int, num_new: int
) -> np.ndarray:
    """Return the cluster of each new record."""
    num_clusters = found.num_clusters
    block = np.where(pairs.left < num_old, -1, num_clusters + pairs.left - num_old)
    is_old = pairs.left < num_old
    block[is_old] = found.joint.cluster[pairs.left[is_old]]
    record = num_clusters + pairs.right - num_old
    size = num_clusters + num_new
    keys, inverse = np.unique(block * size + record, return_inverse=True)
    sums = np.bincount(inverse, log_odds, len(keys)) if len(keys) else np.zeros(0)
    left, right = keys // size, keys % size
    start = np.arange(size)
    joined = contract(start, np.ones(size, bool), left, right, sums, APART)
    labels = label_blocks(joined, num_clusters)
    return labels[num_clusters:]


def label_blocks(joined: np.ndarray, num_clusters: int) -> np.ndarray:
    """Return the cluster of each node: that of its old cluster, or a new number."""
    found = joined.copy()
    owner = {int(joined[old]): old for old in range(num_clusters)}
    fresh: dict[int, int] = {}
    for node in range(num_clusters, len(joined)):
        block = int(joined[node])
        found[node] = owner.get(block, -1)
        if found[node] < 0:
            found[node] = fresh.setdefault(block, num_clusters + len(fresh))
    return found


def find_nearest(
    old: Records, pairs: CandidatePairs, log_odds: np.ndarray, num_new: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest old record of each new one, and the probability of the pair."""
    nearest = np.full(num_new, None, object)
    probability = np.full(num_new, np.nan)
    for pair in np.argsort(log_odds, kind="stable").tolist():
        if pairs.left[pair] < len(old):
            record = int(pairs.right[pair]) - len(old)
            nearest[record] = old.ids[pairs.left[pair]]
            probability[record] = sigmoid(log_odds[pair : pair + 1])[0]
    return nearest, probability
