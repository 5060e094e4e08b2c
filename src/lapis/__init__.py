"""Lapis: a Markov logic engine.

Write weighted first-order rules, point them at relational data, and get probabilities, most
likely worlds and learned weights; exact where it can be, approximate where it must, and it always
says which.

>>> import lapis
>>> model = lapis.parse('''
... person = {Anna, Bob}
... Smokes(person)
... Cancer(person)
... 1.5 Smokes(x) => Cancer(x)
... ''')
>>> data = lapis.Database.parse("Smokes(Anna)")
>>> answer = lapis.infer(model, data, query=["Cancer"])
>>> round(answer["Cancer(Anna)"], 4)
0.8176
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lapis.api import count, infer, learn, learn_structure, lift, map, score
    from lapis.data.database import Database
    from lapis.errors import LapisError, TooLarge
    from lapis.evaluation.cross_validation import cross_validate
    from lapis.grounding.bottom_up import ground
    from lapis.language.model import Model
    from lapis.language.resolution.resolve import parse_model as parse
    from lapis.language.resolution.resolve import read_model as read
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.answer import Lifted
    from lapis.logic.clausal import clausal
    from lapis.precompile import warm
    from lapis.problem.problem import Problem, build_problem
    from lapis.results.answer import Answer
    from lapis.results.most_likely_world import MostLikelyWorld

__version__ = "0.1.0"

# Resolved on first use, so that importing lapis costs next to nothing.
_HOMES = {
    "Answer": "lapis.results.answer",
    "Database": "lapis.data.database",
    "Fit": "lapis.learning.fit",
    "LapisError": "lapis.errors",
    "Lifted": "lapis.lifted.answer",
    "Model": "lapis.language.model",
    "MostLikelyWorld": "lapis.results.most_likely_world",
    "Prior": "lapis.learning.objectives.priors",
    "Problem": "lapis.problem.problem",
    "TooLarge": "lapis.errors",
    "WeightPosterior": "lapis.learning.weight_posterior",
    "build_problem": "lapis.problem.problem",
    "clausal": "lapis.logic.clausal",
    "count": "lapis.api",
    "cross_validate": "lapis.evaluation.cross_validation",
    "ground": "lapis.grounding.bottom_up",
    "infer": "lapis.api",
    "learn": "lapis.api",
    "learn_structure": "lapis.api",
    "lift": "lapis.api",
    "map": "lapis.api",
    "parse": "lapis.language.resolution.resolve:parse_model",
    "read": "lapis.language.resolution.resolve:read_model",
    "score": "lapis.api",
    "warm": "lapis.precompile",
}

__all__ = [
    "Answer", "Database", "Fit", "LapisError", "Lifted", "Model", "MostLikelyWorld", "Prior",
    "Problem", "TooLarge", "WeightPosterior", "build_problem", "clausal", "count",
    "cross_validate", "ground", "infer", "learn", "learn_structure", "lift", "map", "parse", "read",
    "score", "warm",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lapis' has no attribute {name!r}")
    home, _, attribute = _HOMES[name].partition(":")
    value = getattr(import_module(home), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
