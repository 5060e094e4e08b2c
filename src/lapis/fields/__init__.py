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

from lapis.fields.drawing import draw
from lapis.fields.field import Field
from lapis.fields.field_text import parse_field as parse
from lapis.fields.field_text import print_field
from lapis.fields.field_text import read_field as read
from lapis.fields.infer import infer, map
from lapis.fields.learn import learn
from lapis.fields.logic.from_logic import from_model
from lapis.fields.logic.to_logic import extract
from lapis.fields.score import score

__all__ = [
    "Field",
    "draw",
    "extract",
    "from_model",
    "infer",
    "learn",
    "map",
    "parse",
    "print_field",
    "read",
    "score",
]
