"""Formulas → clauses: rewriting, disjoint cubes, quantifiers."""

from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Definition,
    Feature,
    Literal,
    NormalForm,
)
from lapis.logic.normalize import normalize

__all__ = [
    "Clause",
    "Condition",
    "Cube",
    "Definition",
    "Feature",
    "Literal",
    "NormalForm",
    "normalize",
]
