"""What SQL engines do not agree on: names of types, ranges, quoting.

`sql.py` writes one text for all of them and asks a `Dialect` for the rest. It keeps to what they
share where there is a choice: CAST for conversions, NOT EXISTS for anti-joins, common table
expressions for everything that has a name.
"""

from __future__ import annotations

from dataclasses import dataclass

NARROW = 2**62  # sums below this are taken in 64 bits

# Names that are numbers (`read_number`): what engines would cast beside these differs, and NaN is
# the largest number of some. No backslashes, which some take for escapes.
_SPACE = "[ \t\n\r\f\v]*"
_DIGITS = "([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"
NUMBER = f"^{_SPACE}[-+]?({_DIGITS}|[iI][nN][fF]([iI][nN][iI][tT][yY])?){_SPACE}$"


@dataclass(frozen=True)
class Dialect:
    name: str
    wide: str  # the type of exact integers beyond 64 bits
    widest: int | None  # they are below this; None if they have no end
    text: str  # the type of names
    real: str  # the type of floating-point numbers
    numbers: str  # a source of 0 … {size} − 1, in a column i
    number: str  # the number that a text is, or NULL
    materialized: str = ""  # written before an expression that is used more than once
    quote: str = '"'
    distinct: str = "count(DISTINCT {column})"  # about how many values a column has
    ordered: str = "{text}"  # texts by their code points
    joined: str = "string_agg({text}, ',' ORDER BY {text})"  # texts in order, commas between

    def identifier(self, name: str) -> str:
        """Any name, as a statement may hold it."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def count_distinct(self, column: str) -> str:
        return self.distinct.format(column=column)

    def as_text(self, value: str) -> str:
        return f"CAST({value} AS {self.text})"

    def as_name(self, real: str) -> str:
        """The constant that a real number names: the integer where it is whole; NaN is missing."""
        whole = f"{real} = floor({real}) AND abs({real}) < {2**53}"
        known = f"NULLIF({real}, CAST('NaN' AS {self.real}))"
        integer = self.as_text(f"CAST({real} AS BIGINT)")
        return f"CASE WHEN {whole} THEN {integer} ELSE {self.as_text(known)} END"

    def as_number(self, text: str) -> str:
        return self.number.format(text=text)

    def in_order(self, text: str) -> str:
        """What to order by, so that every engine gives the same order."""
        return self.ordered.format(text=text)

    def join_texts(self, text: str) -> str:
        """An aggregate: the texts of a group as one, the same for the same texts."""
        return self.joined.format(text=text)

    def integer(self, bound: int) -> str | None:
        """The type for exact integers up to a bound; None if there is none so wide."""
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
    # A cast of what a double cannot hold fails, so that such numbers are told apart before: an
    # exponent below 100 is no danger, one of five digits and more is as good as 9999.
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
