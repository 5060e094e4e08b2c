"""The atoms of a network that queries ask for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.data.keys import contains
from lapis.grounding.evidence import close_blocks
from lapis.language.printer import print_formula
from lapis.language.resolution.instances import ground_name, substitute
from lapis.language.syntax import Formula
from lapis.network.network import Network
from lapis.problem.query import Query
from lapis.problem.task import World
from lapis.results.atoms import AtomGroup, Atoms, predicate_group


class Asked(NamedTuple):
    atoms: Atoms
    atom: np.ndarray  # int64[num_asked], of the network; 0 where known
    known: np.ndarray  # float64[num_asked], the value that the data decides; −1 where unknown

    def values(self, found: np.ndarray) -> np.ndarray:
        """float64[num_asked]: the known value where there is one, else what was found."""
        return np.where(self.known < 0, found[self.atom] if len(found) else -1.0, self.known)


def select_atoms(network: Network, world: World) -> Asked:
    """What is asked of a world.

    A predicate asks for its unknown atoms; an atom or formula is answered even if the data
    decides it. What is asked twice is answered once.
    """
    whole = {query.predicate for query in world.queries if query.constants is None}
    groups: list[AtomGroup] = []
    atom_ids: list[np.ndarray] = [np.empty(0, np.int64)]
    known: list[np.ndarray] = [np.empty(0)]
    for query in dict.fromkeys(world.queries):
        if query.constants is None:
            ids, codes = predicate_atoms(network, world, query.predicate)
            values = np.full(len(ids), -1.0)
        else:
            ids, codes, values = single_atom(network, world, query)
            if query.predicate in whole and values[0] < 0:
                continue
        groups.append(name_group(world, query, codes))
        atom_ids.append(ids)
        known.append(values)
    atoms = Atoms(tuple(groups), (world.name,))
    return Asked(atoms, np.concatenate(atom_ids), np.concatenate(known))


def predicate_atoms(
    network: Network, world: World, predicate: str
) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_atoms] and int32[num_atoms, arity]: the unknown atoms, and their constants."""
    table = network.atoms
    if predicate not in table.predicates:
        arity = world.problem.model.predicates[predicate].arity
        return np.empty(0, np.int64), np.empty((0, arity), np.int32)
    index = table.predicates.index(predicate)
    return np.arange(table.offset[index], table.offset[index + 1]), table.tuples[index]


def name_group(world: World, query: Query, codes: np.ndarray) -> AtomGroup:
    """How atoms are called: as facts are written, or as the formula that they stand for."""
    problem = world.problem
    predicate = problem.model.predicates[query.predicate]
    domains = tuple(problem.domains[name] for name in predicate.types)
    if query.formula is None or query.rule is None:
        return predicate_group(
            predicate.name, codes, domains, predicate.types,
            function=predicate.function, world=world.name,
        )  # fmt: skip
    variables = tuple(name for name, _ in query.rule.variables)
    spell = partial(spell_formula, query.formula, variables)
    label = print_formula(query.formula)
    return AtomGroup(label, codes, domains, variables, spell, is_atom=False, world=world.name)


def spell_formula(formula: Formula, variables: Sequence[str], constants: Sequence[str]) -> str:
    """The formula with its variables replaced by constants."""
    return ground_name(substitute(formula, dict(zip(variables, constants, strict=True))))


def single_atom(
    network: Network, world: World, query: Query
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atom, codes and known value (−1 if unknown) of a ground atom, each a row."""
    problem = world.problem
    predicate = problem.model.predicates[query.predicate]
    codes = [
        problem.domains[type_name].index[constant]
        for constant, type_name in zip(query.constants or (), predicate.types, strict=True)
    ]
    rows = np.array([codes], np.int32).reshape(1, predicate.arity)
    atom = network.atom_index(predicate.name, rows)
    if atom[0] >= 0:
        return atom, rows, np.array([-1.0])
    evidence = close_blocks(problem)[predicate.name]
    return np.zeros(1, np.int64), rows, contains(evidence.true, rows).astype(float)
