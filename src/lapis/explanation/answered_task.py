"""The task of an answer, kept by reference so that the answer can be explained later.

Nothing is copied: the model, the databases and the problems are those of the answer. The ground
network is not kept; an explanation grounds the few formulas around its atom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lapis.errors import LapisError, check_word
from lapis.problem.task import Task, World
from lapis.results.atom_groups import Key

if TYPE_CHECKING:
    from lapis.explanation.known_atoms import KnownAtoms
    from lapis.results.answer import Answer, MostLikelyWorld
    from lapis.results.explanation import Explanation


@dataclass(frozen=True)
class AnsweredTask:
    """The task of an answer."""

    task: Task
    seed: int = 0
    # By world: tables of its facts, made by the first explanation.
    known: dict[str, KnownAtoms] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"task": self.task, "seed": self.seed, "known": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def explain(
        self, key: Key, answer: Answer | MostLikelyWorld | None, options: Mapping[str, Any]
    ) -> Explanation:
        """Explain an atom or ground formula, given by its text, or by its data and its text."""
        from lapis.explanation.explain import ExplanationRequest, explain_in_world
        from lapis.inference.marginals import InferenceOptions
        from lapis.inference.worlds import infer_task

        world, text = self.find_world(key)
        if answer is None and any(each.constraints for each in self.task.worlds):
            answer = infer_task(self.task, "auto", InferenceOptions(seed=self.seed))
        chosen = ExplanationRequest(**{"seed": self.seed, **options})
        known = self.known_atoms(with_fitted_weights(self.task, world, answer))
        named = world.name if len(self.task.worlds) > 1 else None
        return explain_in_world(known, text, named, answer, chosen)

    def known_atoms(self, world: World) -> KnownAtoms:
        """Return the facts of a world."""
        from lapis.explanation.known_atoms import KnownAtoms, refuse_stored_facts

        found = self.known.get(world.name)
        if found is None or found.problem is not world.problem:
            refuse_stored_facts(world.problem)
            found = self.known[world.name] = KnownAtoms(world.problem, world.queries)
        return found

    def find_world(self, key: Key) -> tuple[World, str]:
        """Return the world and the text that a key names."""
        worlds = {world.name: world for world in self.task.worlds}
        if isinstance(key, str):
            if len(worlds) > 1:
                raise LapisError(
                    f"{key!r} is in {len(worlds)} worlds: {', '.join(worlds)}",
                    code="several-worlds",
                    hint=f'give the world: ("{next(iter(worlds))}", {key!r})',
                )
            return self.task.worlds[0], key
        if not (isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, str) for k in key)):
            raise LapisError(
                f"explain an atom or formula by its text, not by {key!r}",
                code="explain",
                hint='as in explain("P(A)"), or explain(("data.db", "P(A)"))',
            )
        check_word("world", key[0], list(worlds), code="unknown-world")
        return worlds[key[0]], key[1]


def with_fitted_weights(task: Task, world: World, answer: Answer | MostLikelyWorld | None) -> World:
    """Return the world with the weights that inference fitted to stated probabilities."""
    if not world.constraints or answer is None:
        return world
    figures: Mapping[str, Any] = answer.diagnostics
    if len(task.worlds) > 1:
        figures = next(each for each in figures["worlds"] if each["world"] == world.name)
    rows = figures.get("constraints", ())
    ordered = sorted(world.constraints, key=lambda each: each.posterior)
    weights = world.problem.weight_table.value.copy()
    for constraint, row in zip(ordered, rows, strict=True):
        weights[constraint.weight_id] += row["weight"]
    return world._replace(problem=world.problem.with_weights(weights))
