"""Tables of discrete values: files (CSV, Parquet, NumPy), arrays and frames.

A column is a variable, its values are states. An empty cell, `?`, `*`, a null, NaN or (in a NumPy
array) a negative number is missing. The states of a variable are the values of its column, numbers
in their order and other values alphabetically. A column of zeros and ones has both states even if
only one occurs, so such data can be split into files.

Files of single digits, as in most benchmarks, are read as one block of bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union

import numpy as np

from lapis.data.archives import DamagedFile, read_single_array
from lapis.errors import LapisError, suggestion
from lapis.registry.options import Header
from lapis.runtime.text_files import READ_ERRORS, read_error

if TYPE_CHECKING:
    from lapis.data.formats.table_files import Frame

RowsLike: TypeAlias = Union[str, Path, np.ndarray, "Frame"]
MISSING_CELLS = ("", "?", "*")
BOOLEAN = ("0", "1")
MAX_SHOWN_NAMES = 6  # of a first row


class RowTable(NamedTuple):
    """Columns as codes of their own values."""

    source: str  # path or keyword, for messages
    names: tuple[str, ...] | None  # None without a header
    values: list[tuple[str, ...]]  # of each column
    codes: np.ndarray  # int32[num_rows, num_columns], -1 for missing
    note: str = ""  # how the first row is read, if that is a guess


def open_rows(
    rows: RowsLike, keyword: str, names: Sequence[str] | None = None, header: Header = "auto"
) -> RowTable:
    """Read rows from a path, an array or a frame; `names` name columns without a header."""
    if isinstance(rows, str | Path):
        table = read_table(rows, header)
    elif isinstance(rows, np.ndarray):
        table = from_array(keyword, rows)
    else:
        table = from_frame(keyword, rows)
    if names is None:
        return table
    if table.names is not None:
        raise LapisError(f"names: {table.source} already has names", code="option-value")
    if len(set(names)) != table.codes.shape[1]:
        raise LapisError(
            f"names: {len(set(names))} different ones for the {table.codes.shape[1]} columns of "
            f"{table.source}",
            code="option-value",
        )
    return table._replace(names=tuple(names))


def read_table(path: str | Path, header: Header = "auto") -> RowTable:
    """Read the table in a file; the suffix determines the format."""
    path = Path(path)
    try:
        if path.name.endswith(".npy"):
            return from_array(str(path), read_single_array(path))
        if path.name.endswith(".parquet"):
            return read_parquet(path)
        content = path.read_bytes()
        text = gzip.decompress(content) if path.name.endswith(".gz") else content
    except (*READ_ERRORS, DamagedFile) as error:
        raise read_error(path, error) from None
    return read_digits(path, text, header) or read_csv(path, text, header)


def read_digits(path: Path, text: bytes, header: Header) -> RowTable | None:
    """Read a table of single digits separated by commas; None if it has other content."""
    end = text.find(b"\n") + 1
    width = end or len(text)
    if header == "yes" or not end or len(text) % width or width % 2:
        return None
    block = np.frombuffer(text, np.uint8).reshape(-1, width)
    cells = block[:, 0::2] - ord("0")
    separators = np.full(width // 2, ord(","), np.uint8)
    separators[-1] = ord("\n")
    if cells.max(initial=0) > 9 or (block[:, 1::2] != separators).any():
        return None
    return from_array(str(path), cells)


def read_csv(path: Path, text: bytes, header: Header) -> RowTable:
    try:
        rows = list(csv.reader(io.StringIO(text.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise LapisError(f"{path}: this is not a table: {error}", code="data-table") from None
    rows = [row for row in rows if row]
    if not rows:
        raise LapisError(f"{path}: the file is empty", code="data-table")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise LapisError(
                f"{path}: row {number} has {len(row)} column{'s' * (len(row) != 1)}, "
                f"the first has {len(rows[0])}",
                code="data-table",
            )
    guess = guess_header(rows) if header == "auto" else HeaderGuess(header == "yes", False)
    note = describe_guess(path, rows[0], guess) if guess.is_uncertain else ""
    names = None
    if guess.is_header:
        names, rows = tuple(name.strip() for name in rows[0]), rows[1:]
        if len(set(names)) < len(names):
            raise LapisError(f"{path}: two columns have the same name", code="data-table")
    columns = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]
    table = encode_columns(str(path), names, columns or [[] for _ in names or ()])
    return table._replace(note=note)


class HeaderGuess(NamedTuple):
    """Whether the first row has the names of the columns."""

    is_header: bool
    is_uncertain: bool


def guess_header(rows: Sequence[Sequence[str]]) -> HeaderGuess:
    """Guess whether the first row has names, from its cells and those below them.

    A number or a missing value is no name, and names are different. A name rarely is a value of its
    own column, and most values of a row occur in other rows, too.

    >>> guess_header([["rain", "wet"], ["no", "wet"], ["yes", "dry"]])
    HeaderGuess(is_header=True, is_uncertain=True)
    >>> guess_header([["no", "wet"], ["no", "wet"], ["yes", "dry"]])
    HeaderGuess(is_header=False, is_uncertain=False)
    """
    first = [cell.strip() for cell in rows[0]]
    if any(is_decimal(cell) or cell in MISSING_CELLS for cell in first):
        return HeaderGuess(False, False)
    if len(rows) > 1 and all(is_decimal(cell) for row in rows[1:] for cell in row):
        return HeaderGuess(True, False)
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ((),) * len(first)
    known = [cell in map(str.strip, column) for cell, column in zip(first, columns, strict=True)]
    if len(set(first)) < len(first) or all(known):
        return HeaderGuess(False, False)
    return HeaderGuess(2 * sum(known) <= len(known), True)


def describe_guess(path: Path, first: Sequence[str], guess: HeaderGuess) -> str:
    """Return a note on the first row: the choice, and how to make the other."""
    shown = ", ".join(first[:MAX_SHOWN_NAMES]) + ", …" * (len(first) > MAX_SHOWN_NAMES)
    read, other, is_other = ("names", "no", "it is data") if guess.is_header else (
        "data", "yes", "they are names",
    )  # fmt: skip
    return f"{path}: first row read as {read}: {shown} (--header {other} if {is_other})"


def read_parquet(path: Path) -> RowTable:
    from lapis.data.formats.duckdb_tables import open_duckdb, select_file, sql_errors

    with open_duckdb() as connection, sql_errors(str(path)):
        return encode_arrays(str(path), connection.execute(select_file(path)).fetchnumpy())


def from_frame(source: str, frame: Frame) -> RowTable:
    """Read a frame of pandas, polars or Arrow."""
    from lapis.data.formats.duckdb_tables import open_duckdb, sql_errors

    if type(frame).__module__ == "builtins":
        raise LapisError(
            f"{source}: expected a path, an array or a frame, not a {type(frame).__name__}",
            code="data-table",
        )
    with open_duckdb() as connection, sql_errors(source):
        connection.register("lapis_rows", frame)
        return encode_arrays(source, connection.execute("SELECT * FROM lapis_rows").fetchnumpy())


def encode_arrays(source: str, found: Mapping[str, np.ndarray]) -> RowTable:
    """Encode named columns; masked values and NaN are missing."""
    columns = []
    for given in found.values():
        column = np.ma.asarray(given)
        masked = np.ma.getmaskarray(column)
        values = ((value, gone) for value, gone in zip(column.data.tolist(), masked, strict=True))
        columns.append(["" if gone else cell_text(value) for value, gone in values])
    return encode_columns(source, tuple(found), columns)


def cell_text(value: object) -> str:
    """Format a value as in CSV; Booleans and integral floats as integers."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return "" if value is None or value != value else str(value)


def from_array(source: str, array: np.ndarray) -> RowTable:
    """Read an array of integers or texts."""
    if array.ndim == 2 and array.dtype.kind in "OU":
        return encode_columns(
            source, None, [[cell_text(cell) for cell in column] for column in array.T]
        )
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise LapisError(
            f"{source}: expected rows and columns of numbers or texts, not {array.dtype} of shape "
            f"{array.shape}",
            code="data-table",
        )
    missing = np.isnan(array) if array.dtype.kind == "f" else array != array
    numbers = np.where(missing, -1, array)
    with np.errstate(invalid="ignore"):  # infinity is not whole
        whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        raise LapisError(f"{source}: the numbers are not integers", code="data-table")
    values, codes = [], np.empty(whole.shape, np.int32)
    for column in range(whole.shape[1]):
        known = np.unique(whole[:, column])
        known = known[known >= 0]
        codes[:, column] = np.where(
            whole[:, column] < 0, -1, np.searchsorted(known, whole[:, column])
        )
        values.append(tuple(str(value) for value in known.tolist()))
    return RowTable(source, None, values, codes)


def encode_columns(
    source: str, names: tuple[str, ...] | None, columns: Sequence[Sequence[str]]
) -> RowTable:
    values, codes = [], []
    for column in columns:
        known = {value: code for code, value in enumerate(sorted_values(set(column)))}
        for cell in MISSING_CELLS:
            known[cell] = -1
        codes.append([known[cell] for cell in column])
        values.append(tuple(value for value, code in known.items() if code >= 0))
    return RowTable(source, names, values, np.array(codes, np.int32).reshape(len(columns), -1).T)


def sorted_values(values: set[str]) -> list[str]:
    """Sort numbers by size, other values alphabetically; drop missing ones."""
    known = sorted(values - set(MISSING_CELLS))
    return sorted(known, key=float) if all(map(is_decimal, known)) else known


def is_decimal(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def merge_variables(
    tables: Sequence[RowTable],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the names and states of the variables of tables with the same columns."""
    first = tables[0]
    num_columns = first.codes.shape[1]
    for table in tables[1:]:
        if table.codes.shape[1] != num_columns:
            raise LapisError(
                f"{table.source} has {table.codes.shape[1]} columns, "
                f"{first.source} has {num_columns}",
                code="data-table",
            )
    names = first.names or tuple(f"x{column}" for column in range(num_columns))
    states = []
    for column, name in enumerate(names):
        seen = {
            value for table in tables for value in table.values[find_column(table, name, column)]
        }
        if not seen and any(len(table.codes) for table in tables):
            raise LapisError(
                f"{first.source}: the column {name} has no values",
                code="data-table",
                hint="leave the column out",
            )
        states.append(BOOLEAN if seen <= set(BOOLEAN) else tuple(sorted_values(seen)))
    return names, tuple(states)


def find_column(table: RowTable, name: str, column: int) -> int:
    """Return the column with a name; without such a name, the column at the same place."""
    return table.names.index(name) if table.names and name in table.names else column


def code_rows(table: RowTable, names: Sequence[str], states: Sequence[Sequence[str]]) -> np.ndarray:
    """int32[num_rows, num_variables], the table's rows as states of these variables.

    Columns are matched by name, without a header by position.
    """
    given = table.names or tuple(names)
    if table.names is None and table.codes.shape[1] != len(names):
        raise LapisError(
            f"{table.source} has {table.codes.shape[1]} columns, the model {len(names)} variables",
            code="data-table",
        )
    number = {name: variable for variable, name in enumerate(names)}
    rows = np.full((len(table.codes), len(names)), -1, np.int32)
    for column, name in enumerate(given):
        if name not in number:
            is_header = any(other in number for other in given)
            values = None if is_header else 'header "no" takes the first row for values, not names'
            raise LapisError(
                f"{table.source}: the model has no variable {name!r}",
                code="unknown-variable",
                hint=suggestion(name, names, values),
            )
        known = {state: code for code, state in enumerate(states[number[name]])}
        translated = np.array([known.get(v, -2) for v in table.values[column]] + [-1], np.int32)
        rows[:, number[name]] = translated[table.codes[:, column]]
        if (rows[:, number[name]] == -2).any():
            row = int(np.argmax(rows[:, number[name]] == -2))
            value = table.values[column][table.codes[row, column]]
            raise LapisError(
                f"{table.source}: row {row + 1}: {name} has no state {value!r}",
                code="unknown-state",
                hint=f"it has {', '.join(states[number[name]])}",
            )
    return rows
