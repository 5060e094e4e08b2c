"""Comparisons: how alike two values of a column are, in levels.

Each kind of comparison has a measure, and thresholds that cut it into levels. The levels of a
column are numbered: 0 is missing, then equal values, by how often the value occurs (a shared rare
value says more than a shared frequent one), then falling similarity.

Only distinct pairs of values are measured, by rapidfuzz for texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError, check_word
from lapis.recipes.records import RecordColumn, Records, no_column
from lapis.runtime.progress import Progress, Report, check_time, report_progress

if TYPE_CHECKING:
    from types import ModuleType

MISSING = 0
CHUNK = 1 << 18  # pairs of values that are measured at a time
FREQUENCY_BANDS = (4, 16, 64, 256, 1024, 4096)
MIN_BAND_RECORDS = 2000  # with a value; in small tables frequencies follow the entities
MIN_BAND_SHARE = 0.05  # of the records, on each side of a limit of frequencies

KINDS: Mapping[str, str] = {
    "text": "name or words, whichever the values look like",
    "name": "Jaro-Winkler similarity",
    "words": "similarity of the sorted words",
    "phrase": "similarity of the shared words",
    "code": "edits (insert, delete, replace, swap neighbours)",
    "exact": "equal or not",
    "number": "difference",
    "date": "typing errors and difference in days",
}
ALIASES = {"numeric": "number"}

SIMILARITIES: Mapping[str, tuple[float, ...]] = {
    "name": (0.95, 0.9, 0.85, 0.8, 0.7, 0.6),
    "words": (0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4),
    "phrase": (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5),
}
DATE_LEVELS = ("one typing error", "at most 31 days apart", "at most a year apart", "different")
DATE_NAMES = ("Typo", "Month", "Year", "Different")
MAX_EDITS = 2


@dataclass(frozen=True)
class Comparison:
    """How a column is compared, and what its levels are."""

    column: str
    kind: str  # a key of KINDS, not "text"
    reason: str  # why this kind
    limits: tuple[float, ...] = ()  # of similarities (falling) or of differences (rising)
    bands: tuple[int, ...] = ()  # limits of the frequency of an equal value
    by_rule: bool = False  # levels are apart for pairs whose blocking rule reads this column

    @property
    def num_exact(self) -> int:
        return len(self.bands) + 1

    @property
    def num_plain(self) -> int:
        """The number of levels, with missing and without those of rules."""
        return 1 + self.num_exact + len(self.other_levels())

    @property
    def num_levels(self) -> int:
        return self.num_plain * (2 if self.by_rule else 1)

    def other_levels(self) -> list[tuple[str, str]]:
        """Return the constant and the words of each level of values that differ."""
        match self.kind:
            case "exact":
                return [("Different", "different")]
            case "code":
                edits = [(f"Edits_{n}", f"{n} edit{'s' * (n > 1)}") for n in (1, 2)]
                return [*edits, ("Different", "different")]
            case "date":
                return list(zip(DATE_NAMES, DATE_LEVELS, strict=True))
            case "number":
                near = [(f"Within_{as_name(x)}", f"at most {x:g} apart") for x in self.limits]
                return [*near, ("Different", "further apart")]
        over = [(f"Over_{as_name(x * 100)}", f"similarity ≥ {x:g}") for x in self.limits]
        last = self.limits[-1]
        return [*over, (f"Under_{as_name(last * 100)}", f"similarity < {last:g}")]

    def levels(self) -> list[tuple[str, str]]:
        """Return the constant and the words of each level but missing."""
        plain = [*self.exact_levels(), *self.other_levels()]
        if not self.by_rule:
            return plain
        blocked = [(f"{n}_key", f"{words}, same key") for n, words in plain]
        return [*plain, ("", ""), *blocked]  # "": missing again

    def exact_levels(self) -> list[tuple[str, str]]:
        """Return the constant and the words of the levels of equal values."""
        if not self.bands:
            return [("Exact", "equal")]
        first = [(f"Exact_1_to_{self.bands[0]}", f"equal, in at most {self.bands[0]} records")]
        middle = [
            (f"Exact_{a + 1}_to_{b}", f"equal, in {a + 1} to {b} records")
            for a, b in zip(self.bands, self.bands[1:], strict=False)
        ]
        last = self.bands[-1]
        return [*first, *middle, (f"Exact_over_{last}", f"equal, in over {last} records")]


def as_name(number: float) -> str:
    return f"{number:g}".replace(".", "_").replace("-", "minus_").replace("+", "")


def choose_comparisons(
    records: Records,
    given: Mapping[str, str] | None,
    ignored: Sequence[str],
    random_pairs: tuple[np.ndarray, np.ndarray],
) -> tuple[Comparison, ...]:
    """Return the comparisons that are given, or guess one for each column."""
    if given is None:
        given = {name: "" for name in records.columns if name not in ignored}
    found = []
    for name, kind in given.items():
        column = records.column(name, "comparisons")
        found.append(
            complete(column, new_comparison(column, ALIASES.get(kind, kind)), random_pairs)
        )
    if not found:
        raise LapisError("there is no column to compare", code="comparison")
    return tuple(found)


def new_comparison(column: RecordColumn, kind: str) -> Comparison:
    """Return a comparison of a kind; guess the kind if it is empty."""
    if not kind:
        return Comparison(column.name, *guess_kind(column))
    check_word("kind of comparison", kind, [*KINDS, *ALIASES], code="unknown-comparison")
    if kind == "text":
        return Comparison(column.name, *guess_text(column))
    if kind in ("number", "date") and column.kind != kind:
        raise LapisError(
            f"column {column.name!r} has no {kind}s to compare, but {column.kind}s",
            code="comparison",
            hint="dates are written 2001-12-31, numbers without leading zeros"
            if column.kind == "text" else None,
        )  # fmt: skip
    return Comparison(column.name, kind, "as given")


def guess_kind(column: RecordColumn) -> tuple[str, str]:
    """Return the kind of a column's values, and why."""
    num_values, num_known = len(column.values), int((column.codes >= 0).sum())
    if column.kind == "date":
        return "date", "its values are dates"
    if column.kind == "number":
        digits = {len(text) for text in column.texts[:1000]}
        if len(digits) == 1 and min(digits) >= 5 and num_values > MIN_CODES:
            return "code", f"its numbers have {min(digits)} digits each"
        return "number", "its values are numbers"
    if num_values <= max(2, min(MAX_CATEGORIES, num_known // 20)):
        return "exact", f"it has {num_values} distinct values only"
    return guess_text(column)


MIN_CODES, MAX_CATEGORIES = 20, 20
SAMPLE = 2000  # values that a guess looks at


def guess_text(column: RecordColumn) -> tuple[str, str]:
    """Return the kind of a column of texts, and why."""
    sample = column.texts[:: max(1, len(column.texts) // SAMPLE)]
    words = np.array([len(text.split()) for text in sample]) if len(sample) else np.zeros(1)
    digits = np.array([sum(c.isdigit() for c in t) / max(1, len(t)) for t in sample] or [0.0])
    if np.median(digits) > 0.6 and words.mean() < 1.5:
        return "code", "most of its characters are digits"
    if words.mean() >= 1.8:
        return "words", f"its texts have {words.mean():.1f} words on average"
    return "name", "its texts are short"


def complete(
    column: RecordColumn, comparison: Comparison, random_pairs: tuple[np.ndarray, np.ndarray]
) -> Comparison:
    """Add the limits between levels, and those of frequencies."""
    limits = SIMILARITIES.get(comparison.kind, ())
    if comparison.kind == "number":
        limits = number_limits(column, random_pairs)
    frequency = column.frequency
    known = frequency.sum()
    bands = tuple(
        limit
        for limit in (FREQUENCY_BANDS if known >= MIN_BAND_RECORDS else ())
        if min(frequency[frequency > limit].sum(), frequency[frequency <= limit].sum())
        > MIN_BAND_SHARE * known
    )
    return replace(comparison, limits=limits, bands=bands)


NUMBER_QUANTILES = (0.02, 0.05, 0.1, 0.2, 0.4)  # of differences of random pairs


def number_limits(
    column: RecordColumn, random_pairs: tuple[np.ndarray, np.ndarray]
) -> tuple[float, ...]:
    """Return limits of differences: small quantiles of those of random pairs, rounded."""
    left, right = (column.codes[rows] for rows in random_pairs)
    known = (left >= 0) & (right >= 0)
    apart = np.abs(column.values[left[known]] - column.values[right[known]])
    apart = apart[apart > 0]
    if not len(apart):
        return ()
    found = [float(f"{limit:.1g}") for limit in np.quantile(apart, NUMBER_QUANTILES)]
    return tuple(sorted({limit for limit in found if limit > 0}))


def compare_pairs(
    records: Records,
    comparisons: Sequence[Comparison],
    left: np.ndarray,
    right: np.ndarray,
    progress: Report | None = None,
) -> np.ndarray:
    """Return uint8[num_pairs, num_comparisons], the level of each pair in each column."""
    found = np.zeros((len(left), len(comparisons)), np.uint8)
    for number, comparison in enumerate(comparisons):
        report_progress(
            progress, Progress("comparing", number, len(comparisons), text=comparison.column)
        )
        column = records.columns[comparison.column]
        found[:, number] = column_levels(column, comparison, left, right)
    return found


def column_levels(
    column: RecordColumn, comparison: Comparison, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Return uint8[num_pairs]: the levels of a column, without those of rules."""
    one, other = column.codes[left].astype(np.int64), column.codes[right].astype(np.int64)
    known = (one >= 0) & (other >= 0)
    found = np.zeros(len(left), np.uint8)
    equal = known & (one == other)
    bands = np.searchsorted(comparison.bands, column.frequency)
    found[equal] = 1 + bands[one[equal]]
    differ = np.flatnonzero(known & ~equal)
    low, high = np.minimum(one[differ], other[differ]), np.maximum(one[differ], other[differ])
    pairs, inverse = np.unique(low * len(column.values) + high, return_inverse=True)
    measured = np.empty(len(pairs), np.uint8)
    measure = MEASURES[comparison.kind]
    for start in range(0, len(pairs), CHUNK):
        check_time("comparing")
        part = pairs[start : start + CHUNK]
        measured[start : start + CHUNK] = measure(
            column, comparison, part // len(column.values), part % len(column.values)
        )
    found[differ] = 1 + comparison.num_exact + measured[inverse]
    return found


Measure = Callable[[RecordColumn, Comparison, np.ndarray, np.ndarray], np.ndarray]


def by_similarity(
    column: RecordColumn, comparison: Comparison, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs of different texts, by a similarity from 0 to 1."""
    rapidfuzz = import_rapidfuzz()
    scorer = {
        "name": rapidfuzz.distance.JaroWinkler.normalized_similarity,
        "words": rapidfuzz.fuzz.token_sort_ratio,
        "phrase": rapidfuzz.fuzz.token_set_ratio,
    }[comparison.kind]
    found = rapidfuzz.process.cpdist(
        column.texts[one], column.texts[other], scorer=scorer, dtype=np.float32
    )
    scale = 1 if comparison.kind == "name" else 100
    falling = -np.array(comparison.limits, np.float32) * scale
    levels: np.ndarray = np.searchsorted(falling, -found, side="left")
    return levels


def by_edits(
    column: RecordColumn, comparison: Comparison, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs of different codes: one edit, two, or more."""
    edits = count_edits(column.texts[one], column.texts[other], MAX_EDITS)
    found: np.ndarray = edits - 1
    return found


def count_edits(one: np.ndarray, other: np.ndarray, limit: int) -> np.ndarray:
    """Return int32[num_pairs], the edits between texts; `limit` + 1 for more."""
    rapidfuzz = import_rapidfuzz()
    found: np.ndarray = rapidfuzz.process.cpdist(
        one, other, scorer=rapidfuzz.distance.OSA.distance, score_cutoff=limit, dtype=np.int32
    )
    return found


def by_date(
    column: RecordColumn, comparison: Comparison, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs of different dates."""
    days = np.abs((column.values[one] - column.values[other]).astype(np.int64))
    levels = np.select([days <= 31, days <= 366], [1, 2], 3)
    typo = count_edits(column.texts[one], column.texts[other], 1) <= 1
    parts = [split_date(column.values[codes]) for codes in (one, other)]
    (year, month, day), (other_year, other_month, other_day) = parts
    swapped = (year == other_year) & (month == other_day) & (day == other_month)
    levels[typo | swapped] = 0
    return levels


def split_date(dates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return years, months and days."""
    months = dates.astype("M8[M]")
    years = dates.astype("M8[Y]")
    return (
        years.astype(np.int64),
        (months - years.astype("M8[M]")).astype(np.int64),
        (dates - months.astype("M8[D]")).astype(np.int64),
    )


def by_difference(
    column: RecordColumn, comparison: Comparison, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return the levels of pairs of different numbers."""
    apart = np.abs(column.values[one] - column.values[other])
    levels: np.ndarray = np.searchsorted(np.array(comparison.limits), apart - 1e-9, side="left")
    return levels


def always_different(
    column: RecordColumn, comparison: Comparison, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Return level 0 for all pairs of different values."""
    return np.zeros(len(one), np.int64)


MEASURES: Mapping[str, Measure] = {
    "name": by_similarity,
    "words": by_similarity,
    "phrase": by_similarity,
    "code": by_edits,
    "exact": always_different,
    "number": by_difference,
    "date": by_date,
}


def import_rapidfuzz() -> ModuleType:
    """Import rapidfuzz; raise LapisError if it is not installed."""
    try:
        import rapidfuzz
        import rapidfuzz.distance
        import rapidfuzz.fuzz
        import rapidfuzz.process
    except ImportError:
        raise LapisError(
            "similarities of texts need rapidfuzz, which is not installed",
            code="missing-package",
            hint="pip install 'lapis-mln[er]'",
        ) from None
    return rapidfuzz


def check_columns(records: Records, names: Sequence[str], purpose: str) -> None:
    """Raise if a column is not there."""
    for name in names:
        if name not in records.columns:
            raise no_column(name, purpose, records.columns)
