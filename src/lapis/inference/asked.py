"""The atoms of a network that queries ask for, and what they are called."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.data.tuples import contains
from lapis.language.ground_names import ground_name
from lapis.language.names import format_atom
from lapis.language.resolution.instances import substitute
from lapis.network.network import Network
from lapis.problem.query import Query
from lapis.problem.task import World


class Asked(NamedTuple):
    names: tuple[str, ...]
    atom: np.ndarray  # int64[num_asked], of the network; 0 where known
    known: np.ndarray  # float64[num_asked], the value that the data decides; −1 where unknown

    def values(self, found: np.ndarray) -> np.ndarray:
        """float64[num_asked]: the known value where there is one, else what was found."""
        return np.where(self.known < 0, found[self.atom] if len(found) else -1.0, self.known)


def select_atoms(network: Network, world: World) -> Asked:
    """What is asked of a world.

    A predicate asks for its unknown atoms; an atom or formula is answered even if the data
    decides it.
    """
    names: list[str] = []
    atom_ids: list[np.ndarray] = [np.empty(0, np.int64)]
    known: list[np.ndarray] = [np.empty(0)]
    for query in world.queries:
        if query.constants is not None:
            name, atom, value = single_atom(network, world, query)
            names.append(name)
            atom_ids.append(np.array([atom]))
            known.append(np.array([value]))
            continue
        ids = predicate_atoms(network, query.predicate)
        names += formula_names(network, query, ids) if query.formula else network.atom_names(ids)
        atom_ids.append(ids)
        known.append(np.full(len(ids), -1.0))
    return Asked(tuple(names), np.concatenate(atom_ids), np.concatenate(known))


def predicate_atoms(network: Network, predicate: str) -> np.ndarray:
    table = network.atoms
    if predicate not in table.predicates:
        return np.empty(0, np.int64)
    index = table.predicates.index(predicate)
    return np.arange(table.offset[index], table.offset[index + 1])


def formula_names(network: Network, query: Query, ids: np.ndarray) -> list[str]:
    """The formula of each atom that stands for it, its variables replaced by constants."""
    assert query.formula is not None
    assert query.rule is not None
    if not len(ids):
        return []
    table = network.atoms
    index = table.predicates.index(query.predicate)
    rows = table.tuples[index][ids - table.offset[index]]
    variables = [name for name, _ in query.rule.variables]
    domains = [network.domains[type_name].constants for _, type_name in query.rule.variables]
    return [
        ground_name(
            substitute(
                query.formula,
                {
                    name: domain[code]
                    for name, domain, code in zip(variables, domains, row, strict=True)
                },
            )
        )
        for row in rows.tolist()
    ]


def single_atom(network: Network, world: World, query: Query) -> tuple[str, int, float]:
    """Name, atom and known value (−1 if unknown) of a ground atom."""
    from lapis.grounding.evidence import close_blocks

    problem = world.problem
    predicate = problem.model.predicates[query.predicate]
    constants = query.constants or ()
    name = format_atom(predicate.name, constants, predicate.function)
    codes = [
        problem.domains[type_name].index[constant]
        for constant, type_name in zip(constants, predicate.types, strict=True)
    ]
    rows = np.array([codes], np.int32).reshape(1, predicate.arity)
    atom = int(network.atom_index(predicate.name, rows)[0])
    if atom >= 0:
        return name, atom, -1.0
    evidence = close_blocks(problem)[predicate.name]
    return name, 0, float(contains(evidence.true, rows)[0])
