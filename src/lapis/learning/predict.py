"""Predict records that were not in the training data, with the weights of a fit.

New data brings its own constants. Two kinds of types keep their constants of training, also if the
new data does not mention them:

    types of + variables      the words, whose weights were learned one by one
    marked arguments (!, ?)   the classes, of which a record has one

A constant of a + variable that training did not have has the weight 0, as in the model; the answer
has a note of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lapis.data.database import Database
from lapis.language.model import Model
from lapis.learning.parameters import union_domain
from lapis.problem.task import DataLike, Task, build_task
from lapis.runtime.views import count_noun

if TYPE_CHECKING:
    from lapis.data.formats.table_files import Frame
    from lapis.inference.marginals import InferenceOptions
    from lapis.learning.examples import Example
    from lapis.results.answer import Answer

MAX_NAMED = 3  # new constants that a note names


def training_constants(
    model: Model, examples: Sequence[Example], query: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the constants of training of the types that keep theirs, over all worlds."""
    kept = plus_types(model)
    for name in query:
        predicate = model.predicates[name]
        kept |= {predicate.types[place] for place in predicate.block}
    problems = [example.complete for example in examples]
    return {name: union_domain(name, problems).constants for name in model.types if name in kept}


def plus_types(model: Model) -> set[str]:
    """Return the types of + variables."""
    return {dict(rule.variables)[name] for rule in model.rules for name in rule.plus}


def predict_records(
    model: Model,
    constants: Mapping[str, Sequence[str]],
    data: DataLike | Mapping[str, Frame],
    query: Sequence[str],
    method: str,
    options: InferenceOptions,
    only_listed: bool = False,
) -> Answer:
    """Infer the query in new data, over the constants of training and those of the data."""
    from lapis.inference.worlds import infer_task

    kept = {
        name: tuple(dict.fromkeys((*own, *constants.get(name, ()))))
        for name, own in model.types.items()
    }
    worlds = Database.from_frames(data) if isinstance(data, Mapping) else data
    task = build_task(replace(model, types=kept), worlds, query, only_listed=only_listed)
    notes = (*task.notes, *describe_new(model, constants, task))
    return infer_task(replace(task, notes=notes), method, options)


def describe_new(model: Model, constants: Mapping[str, Sequence[str]], task: Task) -> list[str]:
    """Return a note for each type with constants that training did not have."""
    weighted = plus_types(model)
    notes = []
    for name, known in constants.items():
        seen = {*known, *model.types[name]}
        new = {
            constant: None
            for world in task.worlds
            for constant in world.problem.domains[name].constants
            if constant not in seen
        }
        if not new:
            continue
        named = ", ".join(list(new)[:MAX_NAMED]) + (", …" if len(new) > MAX_NAMED else "")
        were, their = ("was", "its") if len(new) == 1 else ("were", "their")
        zero = f"; {their} weights are 0" if name in weighted else ""
        notes.append(
            f"{count_noun(len(new), 'constant')} of type {name} {were} not in training "
            f"({named}){zero}"
        )
    return notes
