"""`TrainingData`: several complete worlds as one world of disjoint parts.

The constants of each world are numbered after those of the world before. So a join over all worlds
never mixes them, and the constants of a row identify its world. Quantities that depend on domain
sizes are computed world by world, and so are the values of predicates without arguments (`holds`).

Atoms are conditioned on all other atoms, or on the other predicates. In the second case the
predicates that are unknown together form a group, and a clause with two atoms of a group couples
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from lapis.counting.complete_world import base_world
from lapis.language.model import Model, Predicate
from lapis.problem.problem import Problem
from lapis.relational.interpretation import Interpretation
from lapis.structure.candidates import Path


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Complete worlds with disjoint constants."""

    predicates: Mapping[str, Predicate]
    offset: Mapping[str, np.ndarray]  # by type: int64[num_worlds + 1], first constant of each world
    tuples: Mapping[str, np.ndarray]  # int32[num_true, arity], sorted, constants of all worlds
    targets: tuple[str, ...]  # predicates whose atoms are to be explained
    worlds: tuple[Interpretation, ...]  # one by one
    groups: tuple[tuple[str, ...], ...] = ()  # targets that are unknown together; () for no group

    @property
    def num_worlds(self) -> int:
        return len(self.worlds)

    def sizes(self, predicate: str, world: int) -> tuple[int, ...]:
        """Return the number of constants at each argument."""
        return tuple(
            int(self.offset[t][world + 1] - self.offset[t][world])
            for t in self.predicates[predicate].types
        )

    @cached_property
    def num_atoms(self) -> dict[str, int]:
        """Ground atoms of each predicate, in all worlds."""
        return {
            name: sum(prod(self.sizes(name, world)) for world in range(self.num_worlds))
            for name in self.predicates
        }

    @cached_property
    def atom_share(self) -> dict[str, float]:
        """c_r of each target's atoms: 1 / their number, or |G| / that of its group G."""
        found = {name: 1.0 / max(1, self.num_atoms[name]) for name in self.targets}
        for group in self.groups:
            total = sum(self.num_atoms[name] for name in group)
            found.update((name, len(group) / max(1, total)) for name in group)
        return found

    @cached_property
    def group_of(self) -> dict[str, tuple[str, ...]]:
        return {name: group for group in self.groups for name in group}

    def couples(self, path: Path, predicate: str) -> bool:
        """Return whether the path has several atoms of the predicate's group."""
        group = self.group_of.get(predicate, ())
        return sum(atom.predicate in group for atom in path) > 1

    def couples_any(self, path: Path) -> bool:
        return any(self.couples(path, atom.predicate) for atom in path)

    def holds(self, proposition: str) -> np.ndarray:
        """Return float64[num_worlds], 1 where a predicate without arguments is true."""
        return np.array([float(len(w.relations[proposition].tuples) > 0) for w in self.worlds])

    def true_rows(self, predicate: str, world: int) -> np.ndarray:
        """Return int32[n, arity], the true tuples of one world."""
        if not self.predicates[predicate].arity:
            return self.worlds[world].relations[predicate].tuples
        rows, first = self.tuples[predicate], self.predicates[predicate].types[0]
        begin, end = np.searchsorted(rows[:, 0], self.offset[first][world : world + 2])
        return rows[begin:end]

    def constant_names(self, types: Sequence[str], codes: Sequence[int]) -> list[str]:
        """Return the name of each constant, given its type and its number in the joined worlds."""
        found = []
        for type_name, code in zip(types, codes, strict=True):
            world = int(np.searchsorted(self.offset[type_name], code, side="right")) - 1
            domain = self.worlds[world].domains[type_name]
            found.append(domain.constants[code - int(self.offset[type_name][world])])
        return found


def join_worlds(
    model: Model,
    problems: Sequence[Problem],
    targets: Sequence[str],
    groups: Sequence[Sequence[str]] = (),
) -> TrainingData:
    """Join the closed worlds of the problems."""
    empty = TrainingData(model.predicates, {}, {}, tuple(targets), (), tuple(map(tuple, groups)))
    return join_interpretations(empty, [base_world(problem) for problem in problems])


def join_interpretations(data: TrainingData, worlds: Sequence[Interpretation]) -> TrainingData:
    """Join other worlds, with the predicates, targets and groups of the data."""
    types = {name: None for p in data.predicates.values() for name in p.types}
    offset = {
        name: np.concatenate([[0], np.cumsum([world.size(name) for world in worlds])])
        for name in types
    }
    tuples: dict[str, np.ndarray] = {}
    for name, predicate in data.predicates.items():
        parts = [
            world.relations[name].tuples
            + np.array([offset[t][number] for t in predicate.types], np.int32)
            for number, world in enumerate(worlds)
        ]
        tuples[name] = np.concatenate(parts).astype(np.int32)
    return replace(data, offset=offset, tuples=tuples, worlds=tuple(worlds))
