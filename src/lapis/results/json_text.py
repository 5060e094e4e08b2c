"""JSON of results, written piece by piece: a million atoms are never one text in memory."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lapis.results.columns import Entries

ROW = json.JSONEncoder(allow_nan=False)


def json_pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of a document; entries that are iterators are written row by row.

    >>> print("".join(json_pieces({"a": 1, "rows": iter([{"x": float("nan")}, {"x": 2}])})))
    {
     "a": 1,
     "rows": [
      {"x": null},
      {"x": 2}
     ]
    }
    """
    before = "{\n"
    for name, value in document.items():
        yield f"{before} {json.dumps(name)}: "
        if isinstance(value, Entries):
            yield from block_pieces(value.json_blocks(",\n  "))
        elif isinstance(value, Iterator):
            yield from row_pieces(value)
        else:
            yield json.dumps(finite(value), indent=1, allow_nan=False).replace("\n", "\n ")
        before = ",\n"
    yield "{}" if before == "{\n" else "\n}"


def row_pieces(rows: Iterable[Any]) -> Iterator[str]:
    return block_pieces(map(row_text, rows))


def block_pieces(blocks: Iterable[str]) -> Iterator[str]:
    """A list of texts of one entry or more."""
    before = "["
    for block in blocks:
        yield f"{before}\n  {block}"
        before = ","
    yield "[]" if before == "[" else "\n ]"


def row_text(row: Any) -> str:
    try:
        return ROW.encode(row)
    except ValueError:  # a number that is not finite
        return ROW.encode(finite(row))


def finite(value: Any) -> Any:
    """The value with null where a number is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [finite(inner) for inner in value]
    return value
