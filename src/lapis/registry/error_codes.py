"""The codes of all errors and warnings, each with its cause and its cure.

They are read from `errors.toml`. `lapis explain-error CODE` and the pages of `docs/reference/` show
them. A test compares the file with the codes in the source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lapis.errors import check_word


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """The code of an error or warning."""

    code: str
    group: str  # a word: language, data, limits …
    title: str  # of the group
    cause: str
    cure: str
    is_warning: bool  # never an error


@cache
def error_codes() -> Mapping[str, ErrorCode]:
    """Return all codes by name, in the order of the pages.

    >>> error_codes()["no-such-file"].cause
    'There is no file of this name.'
    """
    text = files("lapis.registry").joinpath("errors.toml").read_text(encoding="utf-8")
    found = {}
    for group, entries in tomllib.loads(text).items():
        title = entries.pop("title")
        for code, entry in entries.items():
            is_warning = entry.get("is_warning", False)
            found[code] = ErrorCode(code, group, title, entry["cause"], entry["cure"], is_warning)
    return found


def find_error_code(code: str) -> ErrorCode:
    """Return a code by name; raise LapisError with a suggestion if there is none.

    >>> find_error_code("unknown-predicat")
    Traceback (most recent call last):
    lapis.errors.LapisError: unknown error code 'unknown-predicat'
        did you mean 'unknown-predicate'?
    """
    check_word("error code", code, error_codes(), code="unknown-code")
    return error_codes()[code]
