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
from typing import TYPE_CHECKING

from lapis import methods

if TYPE_CHECKING:
    from lapis import circuits, fields, recipes
    from lapis.api import (
        count,
        explain,
        infer,
        infer_to_store,
        learn,
        learn_structure,
        lift,
        map_to_store,
        plan,
        score,
    )
    from lapis.api import (
        map as map,
    )
    from lapis.cli.precompile import warm
    from lapis.data.database import Database
    from lapis.errors import LapisError, TooLarge
    from lapis.evaluation.cross_validation import cross_validate
    from lapis.grounding.bottom_up import ground
    from lapis.language.model import Model
    from lapis.language.resolve import parse_model as parse
    from lapis.learning.fit import Fit
    from lapis.learning.objectives.priors import Prior
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.lifted.lifted_answer import Lifted
    from lapis.logic.clausal import clausal
    from lapis.model_files import read
    from lapis.problem.problem import Problem, build_problem
    from lapis.results.answer import Answer, MostLikelyWorld
    from lapis.results.explanation import Explanation
    from lapis.results.graph import Picture
    from lapis.session.session import Session
    from lapis.stores.stored_answer import StoredAnswer

__version__ = "0.1.0"

# Resolved on first use, so that importing lapis costs next to nothing.
_HOMES = {
    "Answer": "lapis.results.answer",
    "Database": "lapis.data.database",
    "Fit": "lapis.learning.fit",
    "LapisClassifier": "lapis.sklearn",
    "LapisError": "lapis.errors",
    "Lifted": "lapis.lifted.lifted_answer",
    "Model": "lapis.language.model",
    "MostLikelyWorld": "lapis.results.answer",
    "Picture": "lapis.results.graph",
    "Prior": "lapis.learning.objectives.priors",
    "Problem": "lapis.problem.problem",
    "Session": "lapis.session.session",
    "StoredAnswer": "lapis.stores.stored_answer",
    "TooLarge": "lapis.errors",
    "WeightPosterior": "lapis.learning.weight_posterior",
    "build_problem": "lapis.problem.problem",
    "clausal": "lapis.logic.clausal",
    "count": "lapis.api",
    "explain": "lapis.api",
    "Explanation": "lapis.results.explanation",
    "cross_validate": "lapis.evaluation.cross_validation",
    "ground": "lapis.grounding.bottom_up",
    "infer": "lapis.api",
    "infer_to_store": "lapis.api",
    "learn": "lapis.api",
    "learn_structure": "lapis.api",
    "lift": "lapis.api",
    "map": "lapis.api",
    "map_to_store": "lapis.api",
    "parse": "lapis.language.resolve:parse_model",
    "plan": "lapis.api",
    "read": "lapis.model_files",
    "score": "lapis.api",
    "warm": "lapis.cli.precompile",
}

# `map` is left out: `from lapis import *` hides no builtin.
__all__ = [
    "Answer", "Database", "Explanation", "Fit", "LapisError", "Lifted", "Model", "MostLikelyWorld",
    "Picture", "Prior", "Problem", "Session", "StoredAnswer", "TooLarge", "WeightPosterior",
    "build_problem", "circuits", "clausal", "count", "cross_validate", "explain", "fields",
    "ground", "infer", "infer_to_store", "learn", "learn_structure", "lift", "map_to_store",
    "methods", "parse", "plan", "read", "recipes", "score", "warm",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name in ("circuits", "fields", "recipes"):
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'lapis' has no attribute {name!r}")
    home, _, attribute = _HOMES[name].partition(":")
    value = getattr(import_module(home), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
