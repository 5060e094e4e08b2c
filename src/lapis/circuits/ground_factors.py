"""A ground Markov logic network as tables.

Variables and cubes are those of `network/cubes.py`: a variable is an atom, or a block of which one
atom is true; a clause is a table that differs from 1 in the cube where it is false. Clauses over
the same variables share a table. The constant is the score of all soft clauses if they were true,
so the product of the tables is exp(score) of a world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.circuits.factor_graph import FactorGraph, graph_of_tables
from lapis.grounding.bottom_up import ground
from lapis.inference.worlds import group_atoms, predicate_atoms
from lapis.network.cubes import (
    Cubes,
    Variables,
    cube_penalties,
    cut_long_cubes,
    falsifying_cubes,
    find_variables,
    sum_by_weight,
)
from lapis.network.network import Network
from lapis.problem.task import World
from lapis.results.atom_groups import Atoms

MAX_MEMBERS = 10  # variables of a table; longer clauses become chains of link variables


@dataclass(frozen=True, slots=True)
class GroundFactors:
    """The tables of a ground network, and the cubes of clauses in them."""

    graph: FactorGraph
    network: Network
    variables: Variables
    cubes: Cubes
    factor: np.ndarray  # int32[num_cubes], the table of each cube

    def atom_states(self) -> np.ndarray:
        """int64[num_atoms], the number of the state that makes an atom true."""
        atoms, place = self.variables.place_of_atoms()
        found = np.zeros(self.network.num_atoms, np.int64)
        found[atoms] = place
        return found

    def cube_probabilities(self, entry: np.ndarray) -> np.ndarray:
        """float64[num_cubes], from the probabilities of all entries of the tables."""
        found = np.empty(len(self.cubes.clause))
        for cube, factor in enumerate(self.factor.tolist()):
            begin, end = self.graph.table_start[factor : factor + 2]
            shape = self.graph.table(factor).shape
            found[cube] = (
                entry[begin:end].reshape(shape)[np.ix_(*held_states(self.cubes, cube)[1])].sum()
            )
        return found

    def fill_links(self, rows: np.ndarray) -> None:
        """Set the link variables in rows of states from the others.

        Three forbidden cubes define a link. In one of them the link is false; where the rest of
        that cube holds, the link is true. Links are in order, so each finds the one before set.
        """
        first = len(self.variables.size)
        for cube in np.flatnonzero(self.cubes.clause < 0).tolist():
            scope, states = held_states(self.cubes, cube)
            link = scope[-1]
            if link >= first and states[-1].tolist() == [0]:
                inside = np.ones(len(rows), bool)
                for v, held in zip(scope[:-1], states[:-1], strict=True):
                    inside &= np.isin(rows[:, v], held)
                rows[inside, link] = 1

    def expected_count(self, probability: np.ndarray) -> np.ndarray:
        """float64[num_weights], the expected counts, given the probability of each cube."""
        network = self.network
        soft = np.flatnonzero(network.weight_id >= 0)
        own = self.cubes.clause >= 0
        lost = sum_by_weight(network, self.cubes.clause[own], probability[own])
        true = network.constant_count + sum_by_weight(network, soft, np.ones(len(soft)))
        return true - lost


def ground_factors(network: Network) -> GroundFactors:
    """Return the tables of a network."""
    variables = find_variables(network, np.ones(network.num_atoms, bool))
    clauses = np.arange(network.num_clauses)
    cubes, origin = cut_long_cubes(falsifying_cubes(network, variables, clauses), MAX_MEMBERS)
    penalty = cube_penalties(network, cubes, network.weights)
    soft = np.flatnonzero(network.weight_id >= 0)
    all_true = sum_by_weight(network, soft, np.ones(len(soft)))
    constant = network.constant_score + float(network.weights @ all_true)
    tables: dict[tuple[int, ...], np.ndarray] = {}
    number: dict[tuple[int, ...], int] = {}
    factor = np.empty(len(cubes.clause), np.int32)
    for cube in range(len(cubes.clause)):
        members, held = held_states(cubes, cube)
        scope = tuple(members)
        if scope not in tables:
            tables[scope] = np.zeros([cubes.size[v] for v in scope])
            number[scope] = len(tables)  # after the constant
        tables[scope][np.ix_(*held)] += penalty[cube]
        factor[cube] = number[scope]
    names, states = name_variables(network, variables)
    names += [f"link {number + 1}" for number in range(len(origin))]
    states += [("false", "true")] * len(origin)
    listed = [((), np.array(constant)), *tables.items()]
    return GroundFactors(graph_of_tables(names, states, listed), network, variables, cubes, factor)


def world_factors(world: World) -> tuple[FactorGraph, list[str]]:
    """Return the tables of a world, and the names of the variables in the model or the query.

    Auxiliary atoms and links are omitted. Queried formulas keep their text as name.
    """
    network = ground(world.problem)
    factors = ground_factors(network)
    table, own = network.atoms, world.problem.model.predicates
    owner = [table.predicates[p] for p in table.predicate_of(np.arange(network.num_atoms)).tolist()]
    atom_name = network.atom_names(np.arange(network.num_atoms))
    added = {name for name, p in zip(atom_name, owner, strict=True) if p not in own}
    new_name: dict[str, str] = {}
    for query in world.queries:
        if query.formula is not None:
            atoms, codes = predicate_atoms(network, world, query.predicate)
            queried = Atoms((group_atoms(world, query, codes),))
            new_name |= zip(network.atom_names(atoms), queried, strict=True)
    graph = factors.graph
    shown = [name for name in graph.names[: len(factors.variables.size)] if name not in added]
    graph = replace(graph, names=tuple(new_name.get(name, name) for name in graph.names))
    return graph, [new_name.get(name, name) for name in shown]


def held_states(cubes: Cubes, cube: int) -> tuple[list[int], list[np.ndarray]]:
    """Return the variables of a cube in order, and the states of each in the cube."""
    members = range(cubes.start[cube], cubes.start[cube + 1])
    by_variable = sorted(members, key=lambda member: int(cubes.variable[member]))
    held = [cubes.state[cubes.state_start[m] : cubes.state_start[m + 1]] for m in by_variable]
    return [int(cubes.variable[member]) for member in by_variable], held


def name_variables(
    network: Network, variables: Variables
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Name variables and states: false and true of an atom, the atoms of a block, or none."""
    atom_name = network.atom_names(np.arange(network.num_atoms))
    names: list[str] = []
    states: list[tuple[str, ...]] = []
    for v in range(len(variables.size)):
        atoms = variables.state_atom[variables.state_start[v] : variables.state_start[v + 1]]
        true = [atom_name[atom] for atom in atoms if atom >= 0]
        if len(atoms) == 2 and atoms[0] < 0:
            names.append(true[0])
            states.append(("false", "true"))
        else:
            names.append(" or ".join(true) if len(true) < 3 else f"{true[0]} or … {true[-1]}")
            states.append(tuple(atom_name[atom] if atom >= 0 else "none" for atom in atoms))
    return names, states
