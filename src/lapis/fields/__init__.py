"""Recursive random fields: every connective and quantifier is soft, not only the outermost.

>>> from lapis import fields
>>> field = fields.parse('''
... Smokes(person)
... Friends(person, person)
... root:
...   -2   lonely(x)
... lonely(x):
...   -4   friend(x, y)
... friend(x, y):
...   5    Friends(x, y)
...   5    Smokes(y)
... ''')
>>> field.order
('friend', 'lonely', 'root')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.fields.field import Field
    from lapis.fields.field_text import draw, print_field
    from lapis.fields.field_text import parse_field as parse
    from lapis.fields.field_text import read_field as read
    from lapis.fields.inference import infer
    from lapis.fields.inference import map as map
    from lapis.fields.learning import FieldFit, learn
    from lapis.fields.markov_logic import from_model, to_model
    from lapis.fields.scoring import FieldScore, score

# Resolved on first use: listing the methods of fields loads this package, and no arrays.
_HOMES = {
    "Field": "lapis.fields.field",
    "FieldFit": "lapis.fields.learning",
    "FieldScore": "lapis.fields.scoring",
    "draw": "lapis.fields.field_text",
    "from_model": "lapis.fields.markov_logic",
    "infer": "lapis.fields.inference",
    "learn": "lapis.fields.learning",
    "map": "lapis.fields.inference",
    "parse": "lapis.fields.field_text:parse_field",
    "print_field": "lapis.fields.field_text",
    "read": "lapis.fields.field_text:read_field",
    "score": "lapis.fields.scoring",
    "to_model": "lapis.fields.markov_logic",
}

# `map` is left out: `from lapis.fields import *` hides no builtin.
__all__ = [
    "Field", "FieldFit", "FieldScore", "draw", "from_model", "infer", "learn", "parse",
    "print_field", "read", "score", "to_model",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lapis.fields' has no attribute {name!r}")
    home, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(home), attribute or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
