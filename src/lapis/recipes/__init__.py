"""Recipes: from tables to an answer, with an ordinary model and data that can be run again.

Each recipe is a function. Its result prints and plots in the words of its task, and `save` writes a
folder with the model, the facts and the result's tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lapis.recipes.classification import ClassExplanation, Classification
    from lapis.recipes.classify import classify
    from lapis.recipes.completion import FactExplanation, LinkPrediction
    from lapis.recipes.entity_resolution import count_pairs, resolve
    from lapis.recipes.link import link
    from lapis.recipes.new_records import NewRecords
    from lapis.recipes.recipe_result import RecipeResult
    from lapis.recipes.resolution import PairExplanation, Resolution
    from lapis.recipes.resolution_scores import ResolutionScores

# The module of each name, imported on first use.
_HOMES = {
    "ClassExplanation": "classification",
    "Classification": "classification",
    "FactExplanation": "completion",
    "LinkPrediction": "completion",
    "NewRecords": "new_records",
    "PairExplanation": "resolution",
    "RecipeResult": "recipe_result",
    "Resolution": "resolution",
    "ResolutionScores": "resolution_scores",
    "classify": "classify",
    "count_pairs": "entity_resolution",
    "link": "link",
    "resolve": "entity_resolution",
}

__all__ = [
    "ClassExplanation", "Classification", "FactExplanation", "LinkPrediction", "NewRecords",
    "PairExplanation", "RecipeResult", "Resolution", "ResolutionScores", "classify", "count_pairs",
    "link", "resolve",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
