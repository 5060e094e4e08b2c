"""Blocking: which pairs of records are compared.

A rule is a list of columns or expressions that must agree ("surname, substr(first_name, 1, 1)"), or
a condition on two records l and r ("l.surname = r.surname and abs(l.year - r.year) <= 1"). DuckDB
joins the records by the equalities of a rule. A pair is a candidate if a rule finds it.

The pairs that the equalities of a rule leave are counted from the sizes of the blocks, before a
pair is made. That is the rule's number of pairs if it has no other condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from lapis.data.formats.duckdb_tables import open_duckdb, sql_errors
from lapis.errors import LapisError, TooLarge
from lapis.recipes.records import ROW, Records, no_column, quote
from lapis.results.result import Table
from lapis.runtime.progress import Progress, Report, check_time, report_progress

ALL_PAIRS = "all pairs"
MAX_RULES = 62  # a pair has a bit for each rule
SIDE = re.compile(r"\b([lr])\.(\"[^\"]+\"|\w+)", re.IGNORECASE)
WORD = re.compile(r"\"([^\"]+)\"|'[^']*'|([A-Za-z_]\w*)")
JOINED = 20  # times the limit: the pairs that the equalities of a rule may leave


@dataclass(frozen=True)
class BlockingRule:
    """A rule: expressions that must agree, and a further condition."""

    text: str
    keys: tuple[str, ...]  # SQL on one record
    condition: str | None  # SQL on l and r
    equal: frozenset[str]  # columns that must agree as they are
    touched: frozenset[str]  # columns that the rule reads otherwise


@dataclass(frozen=True)
class CandidatePairs:
    """Pairs of rows, left < right, and the rules that found them."""

    left: np.ndarray  # int64[num_pairs]
    right: np.ndarray  # int64[num_pairs]
    found_by: np.ndarray  # int64[num_pairs], a bit for each rule

    def __len__(self) -> int:
        return len(self.left)


def parse_rules(texts: Sequence[str] | str, records: Records) -> tuple[BlockingRule, ...]:
    """Parse rules; several in one text are separated by semicolons."""
    listed = [texts] if isinstance(texts, str) else list(texts)
    found = [part.strip() for text in listed for part in text.split(";") if part.strip()]
    if len(found) > MAX_RULES:
        raise LapisError(
            f"{len(found)} blocking rules; at most {MAX_RULES} are supported", code="blocking"
        )
    return tuple(parse_rule(text, records) for text in dict.fromkeys(found))


def parse_rule(text: str, records: Records) -> BlockingRule:
    """Parse one rule: a list of columns, or a condition on l and r."""
    if SIDE.search(text):
        return parse_condition(text, records)
    keys = [part.strip() for part in split_outside(text, ",")]
    return new_rule(text, keys, [], records)


def parse_condition(text: str, records: Records) -> BlockingRule:
    """Parse a condition: equalities of the same expression of l and r, and the rest."""
    keys, rest = [], []
    for part in split_outside(text, " and "):
        sides = [one.strip() for one in split_outside(part, "=")]
        plain = [SIDE.sub(lambda found: found[2], one) for one in sides]
        letters = [{found[1].lower() for found in SIDE.finditer(one)} for one in sides]
        if len(sides) == 2 and plain[0] == plain[1] and letters in ([{"l"}, {"r"}], [{"r"}, {"l"}]):
            keys.append(plain[0])
        else:
            rest.append(part.strip())
    return new_rule(text, keys, rest, records)


def new_rule(text: str, keys: Sequence[str], rest: Sequence[str], records: Records) -> BlockingRule:
    """Create a rule from its equalities and its other conditions."""
    names = {name.lower(): name for name in records.columns}
    equal, touched, expressions = set(), set(), []
    for key in keys:
        if key in records.columns or key.strip('"') in records.columns:
            name = key if key in records.columns else key.strip('"')
            equal.add(name)
            expressions.append(quote(name))
            continue
        if re.fullmatch(r"\w+", key) and key.lower() not in names:
            raise no_column(key, f"blocking rule {text!r}", records.columns)
        touched |= {names[word.lower()] for word in words_of(key) if word.lower() in names}
        expressions.append(key)
    for part in rest:
        touched |= {names[word.lower()] for word in words_of(part) if word.lower() in names}
    return BlockingRule(
        text, tuple(expressions), " AND ".join(f"({part})" for part in rest) or None,
        frozenset(equal), frozenset(touched - equal),
    )  # fmt: skip


def words_of(expression: str) -> Iterator[str]:
    """Yield the identifiers of an expression."""
    for found in WORD.finditer(expression):
        name = found[1] or found[2]
        if name is not None:
            yield name


def split_outside(text: str, mark: str) -> list[str]:
    """Split a text where a mark stands outside parentheses and quotes.

    >>> split_outside("surname, substr(first, 1, 1)", ",")
    ['surname', ' substr(first, 1, 1)']
    """
    parts, depth, start, inside = [], 0, 0, ""
    lower = re.sub(r"\s", " ", text.lower())
    place = 0
    while place < len(text):
        letter = text[place]
        if inside or letter in "'\"":
            inside = "" if letter == inside else inside or letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif depth == 0 and lower.startswith(mark, place) and is_alone(lower, mark, place):
            parts.append(text[start:place])
            start = place = place + len(mark)
            continue
        place += 1
    return [*parts, text[start:]]


def is_alone(text: str, mark: str, place: int) -> bool:
    """Whether "=" at a place is no part of another operator."""
    around = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
    return mark != "=" or not set(around) & set("=<>!")


class BlockingTables:
    """The records in DuckDB, as they are joined."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.connection = open_duckdb()
        records.register(self.connection, "lapis_records")

    def __enter__(self) -> BlockingTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def keyed(self, rule: BlockingRule, side: str) -> str:
        """Return SQL for the records of a side with the rule's keys."""
        keys = "".join(f", {key} AS lapis_key{n}" for n, key in enumerate(rule.keys))
        split = self.records.num_left
        where = ""
        if split is not None:
            where = f" WHERE {ROW} {'<' if side == 'l' else '>='} {split}"
        return f"(SELECT *{keys} FROM lapis_records{where})"

    def join(self, rule: BlockingRule) -> str:
        """Return SQL for the pairs of a rule, without the columns to select."""
        tests = [f"l.lapis_key{n} = r.lapis_key{n}" for n in range(len(rule.keys))]
        tests.append(f"l.{ROW} < r.{ROW}")
        if rule.condition is not None:
            tests.append(rule.condition)
        return f"{self.keyed(rule, 'l')} l JOIN {self.keyed(rule, 'r')} r ON {' AND '.join(tests)}"

    def count_blocks(self, rule: BlockingRule) -> int:
        """Count the pairs that the equalities of a rule leave, from the sizes of the blocks."""
        if not rule.keys:
            return self.records.num_pairs
        keys = ", ".join(f"lapis_key{n}" for n in range(len(rule.keys)))
        known = " AND ".join(f"lapis_key{n} IS NOT NULL" for n in range(len(rule.keys)))
        sides = ["l"] if self.records.num_left is None else ["l", "r"]
        counts = [
            f"(SELECT {keys}, count(*)::HUGEINT AS size FROM {self.keyed(rule, side)} "
            f"WHERE {known} GROUP BY ALL)"
            for side in sides
        ]
        query = f"SELECT sum(size * (size - 1) // 2) FROM {counts[0]}"
        if len(counts) == 2:
            query = (
                f"SELECT sum(a.size * b.size) FROM {counts[0]} a JOIN {counts[1]} b USING ({keys})"
            )
        return int(self.fetch_number(rule, query))

    def count_pairs(self, rule: BlockingRule, limit: int) -> int:
        """Count the pairs of a rule; those of the blocks alone are counted without a join."""
        blocks = self.count_blocks(rule)
        if rule.condition is None or blocks > JOINED * limit:
            return blocks
        return int(self.fetch_number(rule, f"SELECT count(*) FROM {self.join(rule)}"))

    def fetch_number(self, rule: BlockingRule, query: str) -> int:
        with rule_errors(rule):
            row = self.connection.execute(query).fetchone()
        return 0 if row is None or row[0] is None else row[0]

    def fetch_pairs(self, rule: BlockingRule, first_right: int = 0) -> np.ndarray:
        """Return int64[num_pairs], each pair as left · number of records + right.

        Right records before row `first_right` are left out.
        """
        size = len(self.records)
        query = f"SELECT l.{ROW}::BIGINT * {size} + r.{ROW} AS pair FROM {self.join(rule)}"
        if first_right:
            query += f" WHERE r.{ROW} >= {first_right}"
        with rule_errors(rule):
            found: np.ndarray = self.connection.execute(query).fetchnumpy()["pair"]
        return np.asarray(found, np.int64)


def rule_errors(rule: BlockingRule) -> AbstractContextManager[None]:
    """Convert errors of DuckDB to LapisError with the text of the rule."""
    return sql_errors(f"blocking rule {rule.text!r}")


def check_counts(rules: Sequence[BlockingRule], counts: Sequence[int], limit: int) -> None:
    """Raise if the rules find no pair, or more than the limit."""
    if sum(counts) == 0:
        found = "; ".join(f"{r.text!r} finds {n:,}" for r, n in zip(rules, counts, strict=True))
        raise LapisError(
            "the blocking rules find no pair",
            code="blocking",
            hint=f"use columns whose values repeat: {found}",
        )
    if sum(counts) > limit:
        largest = max(range(len(rules)), key=lambda number: counts[number])
        raise TooLarge(
            f"the blocking rules find {sum(counts):,} pairs, more than the limit of {limit:,}",
            code="blocking",
            hint=f"{counts[largest]:,} are of {rules[largest].text!r}: add a column to it, or "
            "raise max_pairs",
        )


def find_pairs(
    records: Records, rules: Sequence[BlockingRule], limit: int, progress: Report | None = None
) -> CandidatePairs:
    """Find the candidate pairs of all rules; refuse more than `limit` before they are made."""
    with BlockingTables(records) as tables:
        counts = [tables.count_pairs(rule, limit) for rule in rules]
        check_counts(rules, counts, limit)
        keys, bits = [], []
        for number, rule in enumerate(rules):
            report_progress(progress, Progress("blocking", number, len(rules), text=rule.text))
            check_time("blocking")
            keys.append(tables.fetch_pairs(rule))
            bits.append(np.full(len(keys[-1]), 1 << number, np.int64))
    return merge_pairs(np.concatenate(keys), np.concatenate(bits), len(records))


def merge_pairs(keys: np.ndarray, bits: np.ndarray, num_records: int) -> CandidatePairs:
    """Merge the pairs of several rules; their bits are joined."""
    order = np.argsort(keys, kind="stable")
    keys, bits = keys[order], bits[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    found_by = np.bitwise_or.reduceat(bits, first) if len(first) else bits
    keys = keys[first]
    return CandidatePairs(keys // num_records, keys % num_records, found_by)


def all_pairs(records: Records, limit: int) -> CandidatePairs:
    """Return every pair of records; refuse more than `limit`."""
    if records.num_pairs > limit:
        raise TooLarge(
            f"there are {records.num_pairs:,} pairs of records, more than the limit of {limit:,}",
            code="blocking",
            hint="give blocking rules, or raise max_pairs",
        )
    left, right = make_all_pairs(records)
    return CandidatePairs(left, right, np.ones(len(left), np.int64))


def make_all_pairs(records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of every pair that could be compared."""
    if records.num_left is None:
        left, right = np.triu_indices(len(records), 1)
        return left.astype(np.int64), right.astype(np.int64)
    num_right = len(records) - records.num_left
    left = np.repeat(np.arange(records.num_left), num_right)
    return left, records.num_left + np.tile(np.arange(num_right), records.num_left)


def tabulate_counts(records: Records, rules: Sequence[BlockingRule], limit: int) -> Table:
    """Return a table of the pairs that each rule finds, and that no rule before it finds."""
    with BlockingTables(records) as tables:
        alone = [tables.count_pairs(rule, limit) for rule in rules]
        if max(alone, default=0) > limit:
            new: list[int | None] = [None] * len(rules)
        else:
            new = list(count_new(tables, rules))
    together = None if None in new else sum(filter(None, new))
    return Table(
        {
            "rule": [*(rule.text for rule in rules), "together"],
            "pairs": [*alone, together if together is not None else f"at most {sum(alone):,}"],
            "new": [*new, together],
        }
    )


def count_new(tables: BlockingTables, rules: Sequence[BlockingRule]) -> Iterator[int]:
    """Yield the number of pairs that each rule adds to those before it."""
    seen = np.empty(0, np.int64)
    for rule in rules:
        keys = np.unique(np.concatenate([seen, tables.fetch_pairs(rule)]))
        yield len(keys) - len(seen)
        seen = keys


def guess_rules(records: Records, kinds: Mapping[str, str], limit: int) -> tuple[str, ...]:
    """Choose rules of one key or two whose blocks have few pairs.

    Keys are columns, and the starts of texts of several words. Rules are taken in the order of
    their number of pairs, single keys first, at most `MAX_GUESSED`, while all of them have at most
    `PAIRS_PER_RECORD` pairs a record.
    """
    budget = min(limit, max(1000, PAIRS_PER_RECORD * len(records)))
    keys = [(name, key) for name, kind in kinds.items() for key in list_keys(name, kind)]
    chosen: list[tuple[str, ...]] = []
    used = 0
    with BlockingTables(records) as tables:
        for size in (1, 2):
            joint = [
                tuple(key for _, key in several)
                for several in combinations(keys, size)
                if len({name for name, _ in several}) == size
            ]
            counted = [
                (tables.count_blocks(parse_rule(", ".join(several), records)), several)
                for several in joint
                if not any(set(known) <= set(several) for known in chosen)
            ]
            for count, several in sorted(counted):
                is_small = used + count <= budget * size // 2
                if count > 0 and is_small and len(chosen) < MAX_GUESSED * size // 2:
                    chosen.append(several)
                    used += count
    return tuple(map(", ".join, chosen))


def list_keys(name: str, kind: str) -> list[str]:
    """Return the keys of a column: itself, and the start of a text of several words."""
    column = quote_if_needed(name)
    return [column, f"substr({column}, 1, 8)"] if kind in ("words", "phrase") else [column]


MAX_GUESSED = 10
PAIRS_PER_RECORD = 20


def quote_if_needed(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else quote(name)
