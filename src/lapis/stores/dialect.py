"""The differences between SQL dialects: names of types, ranges, quoting.

`sql.py` writes one text for all engines and takes these parts from a `Dialect`. It uses constructs
that all engines share: CAST for conversions, NOT EXISTS for anti-joins, common table expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

NARROW = 2**62  # sums below this are computed in 64 bits

# Names that are numbers, as in `read_number`. Engines differ in the further texts that they cast,
# and in the order of NaN. The pattern has no backslash, which is an escape in some engines.
_SPACE = "[ \t\n\r\f\v]*"
_DIGITS = "([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"
NUMBER = f"^{_SPACE}[-+]?({_DIGITS}|[iI][nN][fF]([iI][nN][iI][tT][yY])?){_SPACE}$"


@dataclass(frozen=True)
class Dialect:
    """The dialect of one engine. Fields with braces are templates."""

    name: str
    wide: str  # the type of exact integers beyond 64 bits
    widest: int | None  # an exclusive bound of these integers; None if they are unbounded
    text: str  # the type of names
    real: str  # the type of floating-point numbers
    numbers: str  # a source of 0 … {size} − 1, in a column i
    number: str  # a text as a number, NULL if it is none
    materialized: str = ""  # written before an expression that is used more than once
    quote: str = '"'
    distinct: str = "count(DISTINCT {column})"  # the (approximate) number of distinct values
    ordered: str = "{text}"  # the key that orders texts by code points
    joined: str = "string_agg({text}, ',' ORDER BY {text})"  # sorted texts, joined by commas

    def identifier(self, name: str) -> str:
        """Quote any name."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def count_distinct(self, column: str) -> str:
        return self.distinct.format(column=column)

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS {self.text})"

    def as_name(self, real: str) -> str:
        """Write the name of a real number: an integer if it is whole, NULL for NaN."""
        whole = f"{real} = floor({real}) AND abs({real}) < {2**53}"
        known = f"NULLIF({real}, CAST('NaN' AS {self.real}))"
        integer = self.as_text(f"CAST({real} AS BIGINT)")
        return f"CASE WHEN {whole} THEN {integer} ELSE {self.as_text(known)} END"

    def as_number(self, text: str) -> str:
        return self.number.format(text=text)

    def in_order(self, text: str) -> str:
        """Write the sort key of a text, for the same order on every engine."""
        return self.ordered.format(text=text)

    def join_texts(self, text: str) -> str:
        """Write an aggregate that joins the texts of a group in sorted order."""
        return self.joined.format(text=text)

    def integer(self, bound: int) -> str | None:
        """Return the type for exact integers up to a bound; None if no type is wide enough."""
        if bound < NARROW:
            return "BIGINT"
        return self.wide if self.widest is None or bound < self.widest else None


DUCKDB = Dialect(
    name="duckdb",
    wide="HUGEINT",
    widest=2**126,
    text="VARCHAR",
    real="DOUBLE",
    numbers="(SELECT range AS i FROM range({size})) AS numbers",
    number=f"CASE WHEN regexp_matches({{text}}, '{NUMBER}') THEN TRY_CAST({{text}} AS DOUBLE) END",
    materialized="MATERIALIZED ",
    distinct="approx_count_distinct({column})",
)

POSTGRESQL = Dialect(
    name="postgresql",
    wide="NUMERIC",
    widest=None,
    text="TEXT",
    real="DOUBLE PRECISION",
    numbers="generate_series(0, {size} - 1) AS numbers(i)",
    materialized="MATERIALIZED ",
    ordered='{text} COLLATE "C"',
    # A cast to a double fails on overflow, so large exponents take another path. An exponent below
    # 100 never overflows; one of five digits or more is replaced by 9999.
    number=f"CASE WHEN {{text}} !~ '{NUMBER}' OR length({{text}}) > 5000 THEN NULL "
    f"WHEN length({{text}}) < 200 AND {{text}} !~ '[eE][-+]?0*[1-9][0-9][0-9]' "
    f"THEN CAST({{text}} AS DOUBLE PRECISION) "
    f"ELSE (SELECT sign(d) * CASE WHEN abs(d) >= 1.797693134862315807e308 THEN 'Infinity' "
    f"WHEN abs(d) < 2.47032822920623272e-324 THEN 0 ELSE CAST(abs(d) AS DOUBLE PRECISION) END "
    f"FROM (SELECT CAST(regexp_replace({{text}}, '([eE][-+]?)0*[1-9][0-9]{{{{4}}}}[0-9]*', "
    f"'\\19999') AS NUMERIC) AS d) n) END",
)

SPARK = Dialect(
    name="spark",
    wide="DECIMAL(38,0)",
    widest=10**38,
    text="STRING",
    real="DOUBLE",
    numbers="(SELECT id AS i FROM range({size})) AS numbers",
    number=f"CASE WHEN {{text}} RLIKE '{NUMBER}' THEN TRY_CAST({{text}} AS DOUBLE) END",
    quote="`",
    distinct="approx_count_distinct({column})",
    joined="array_join(array_sort(collect_list({text})), ',')",
)
