"""The network as samplers use it, and its basic move: flip an atom.

`true_literals` counts the true literals of each clause. So a flip costs the number of the atom's
clauses, and a clause changes its truth when its counter reaches or leaves zero. Auxiliary atoms are
not sampled: `definition_true` counts the true literals of their definitions, and a flip changes the
auxiliary atoms that depend on it. The hard clauses that state the definitions are redundant
(`definition_of`) and left out, except for solvers that need plain CNF.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.components import index_atoms
from lapis.network.csr import take_rows
from lapis.network.network import Network
from lapis.runtime.kernels import allocating_entry, inner


class ClauseGraph(NamedTuple):
    """Clauses by atoms and atoms by clauses. A hard clause has weight +inf."""

    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], atom + 1, negative if negated
    atom_start: np.ndarray  # int64[num_atoms + 1]
    atom_clause: np.ndarray  # int32[num_literals], clause + 1, negative if negated there
    weight: np.ndarray  # float64[num_clauses], weights[weight_id] · coefficient
    weight_id: np.ndarray  # int32[num_clauses]
    coefficient: np.ndarray  # float64[num_clauses]
    definition_of: np.ndarray  # int32[num_clauses], the definition stated by a hard clause, or −1
    use_start: np.ndarray  # int64[num_atoms + 1]
    use: np.ndarray  # int32[...], definition + 1 that contains an atom, negative if negated there
    definition_start: np.ndarray  # int64[num_auxiliary + 1]
    definition_literal: np.ndarray  # int32[...]
    first_auxiliary: int  # atoms from here on are auxiliary


class WorldCounters(NamedTuple):
    """One world and its counters; kernels change the arrays in place."""

    value: np.ndarray  # uint8[num_atoms]
    true_literals: np.ndarray  # int32[num_clauses]
    definition_true: np.ndarray  # int32[num_auxiliary]
    count: np.ndarray  # type: ignore[assignment]  # float64[num_weights], true groundings, without those evidence decides
    change: np.ndarray  # float64[2], soft score and violated hard clauses since last set to 0
    stack: np.ndarray  # int32[...], atoms about to flip


def build_graph(network: Network, *, keep_definitional: bool = False) -> ClauseGraph:
    """Build the clause graph of a network; `keep_definitional` is for solvers of plain CNF."""
    start, literal = network.clause_start, network.literal
    weight_id, coefficient = network.weight_id, network.coefficient
    definition_of = np.full(len(weight_id), -1, np.int32)
    atom_start, atom_clause = network.atom_clauses
    if len(network.definition_start) > 1:
        definition_of = _definition_clauses(
            start, literal, weight_id, atom_start, atom_clause,
            network.definition_start, network.definition_literal, network.num_base_atoms,
        )  # fmt: skip
        if not keep_definitional:
            kept = np.flatnonzero(definition_of < 0)
            start, literal = take_rows(start, literal, kept)
            weight_id, coefficient = weight_id[kept], coefficient[kept]
            definition_of = definition_of[kept]
            atom_start, atom_clause = index_atoms(start, literal, network.num_atoms)
    use_start, use = index_atoms(
        network.definition_start, network.definition_literal, network.num_atoms
    )
    return ClauseGraph(
        start, literal, atom_start, atom_clause,
        clause_weights(network.weights, weight_id, coefficient), weight_id, coefficient,
        definition_of, use_start, use, network.definition_start, network.definition_literal,
        network.num_base_atoms,
    )  # fmt: skip


def clause_weights(
    weights: np.ndarray, weight_id: np.ndarray, coefficient: np.ndarray
) -> np.ndarray:
    """Compute float64[num_clauses], weights[weight_id] · coefficient, +inf if hard."""
    found = np.full(len(weight_id), np.inf)
    soft = weight_id >= 0
    found[soft] = weights[weight_id[soft]] * coefficient[soft]
    return found


def make_counters(graph: ClauseGraph, num_weights: int, value: np.ndarray) -> WorldCounters:
    """Build the counters of the world with given base atoms, bool[≥ num_base_atoms]."""
    num_auxiliary = len(graph.definition_start) - 1
    world = WorldCounters(
        np.zeros(graph.first_auxiliary + num_auxiliary, np.uint8),
        np.zeros(len(graph.weight), np.int32),
        np.zeros(num_auxiliary, np.int32),
        np.zeros(num_weights),
        np.zeros(2),
        np.zeros(len(graph.use) + 2, np.int32),
    )
    world.value[: graph.first_auxiliary] = value[: graph.first_auxiliary]
    recount(graph, world)
    return world


def recount(graph: ClauseGraph, world: WorldCounters) -> None:
    """Set auxiliary atoms and all counters from the base atoms."""
    base, definitions = graph.first_auxiliary, graph.definition_start
    if len(definitions) > 1:
        is_stable = False
        while not is_stable:  # definitions may use one another, without cycles
            true = count_true(definitions, graph.definition_literal, world.value)
            is_stable = np.array_equal(world.value[base:], true > 0)
            world.value[base:] = true > 0
        world.definition_true[:] = true
    world.change[:] = 0.0
    world.true_literals[:] = count_true(graph.clause_start, graph.literal, world.value)
    true = (world.true_literals > 0) & (graph.weight_id >= 0)
    world.count[:] = np.bincount(graph.weight_id[true], graph.coefficient[true], len(world.count))


def count_true(start: np.ndarray, literal: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Count the true literals of each row, int32[num_rows]."""
    true = (value[np.abs(literal) - 1] == 1) == (literal > 0)
    before = np.zeros(len(literal) + 1, np.int32)
    np.cumsum(true, dtype=np.int32, out=before[1:])
    return np.diff(before[start])


@inner
def clear_change(world):  # type: ignore[no-untyped-def]
    """Reset the changes of score and violated clauses."""
    world.change[0] = 0.0
    world.change[1] = 0.0


@inner
def flip(graph, weight, world, atom):  # type: ignore[no-untyped-def]
    """Flip a base atom and the auxiliary atoms that depend on it.

    `weight` may differ from the graph's: a clause of weight +inf must be true, of −inf false.
    """
    value, true_literals, stack = world.value, world.true_literals, world.stack
    stack[0] = atom
    waiting = 1
    while waiting > 0:
        waiting -= 1
        atom = stack[waiting]
        now = value[atom] == 0
        value[atom] = now
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            signed = graph.atom_clause[at]
            clause = abs(signed) - 1
            if (signed > 0) == now:
                true_literals[clause] += 1
                if true_literals[clause] == 1:
                    _record_clause(graph, weight, world, clause, 1.0)
            else:
                true_literals[clause] -= 1
                if true_literals[clause] == 0:
                    _record_clause(graph, weight, world, clause, -1.0)
        for at in range(graph.use_start[atom], graph.use_start[atom + 1]):
            signed = graph.use[at]
            index = abs(signed) - 1
            before = world.definition_true[index]
            after = before + 1 if (signed > 0) == now else before - 1
            world.definition_true[index] = after
            if (before == 0) != (after == 0):
                stack[waiting] = graph.first_auxiliary + index
                waiting += 1


@inner
def _record_clause(graph, weight, world, clause, sign):  # type: ignore[no-untyped-def]
    """Record that a clause became true (sign 1) or false (−1)."""
    if np.isinf(weight[clause]):
        world.change[1] -= sign if weight[clause] > 0 else -sign
    else:
        world.change[0] += sign * weight[clause]
    if graph.weight_id[clause] >= 0:
        world.count[graph.weight_id[clause]] += sign * graph.coefficient[clause]


@allocating_entry
def _definition_clauses(
    clause_start, literal, weight_id, atom_start, atom_clause, start, member, first
):  # type: ignore[no-untyped-def]
    """Return int32[num_clauses], the definition that a clause states, or −1.

    The clauses of the definition a ⇔ l₁ ∨ … ∨ l_k are a ∨ ¬l_i and ¬a ∨ l₁ ∨ … ∨ l_k.
    """
    found = np.full(len(weight_id), -1, np.int32)
    num_atoms = len(atom_start) - 1
    marked = np.full(2 * num_atoms + 1, -1, np.int32)  # literal + num_atoms → definition
    for index in range(len(start) - 1):
        own = first + index + 1
        for at in range(start[index], start[index + 1]):
            marked[member[at] + num_atoms] = index
        for at in range(atom_start[own - 1], atom_start[own]):
            signed = atom_clause[at]
            clause = abs(signed) - 1
            begin, end = clause_start[clause], clause_start[clause + 1]
            if weight_id[clause] >= 0:
                continue
            if signed > 0 and end - begin != 2:
                continue
            if signed < 0 and end - begin != start[index + 1] - start[index] + 1:
                continue
            matches = True
            for place in range(begin, end):
                other = literal[place]
                if abs(other) != own:
                    wanted = -other if signed > 0 else other
                    matches = matches and marked[wanted + num_atoms] == index
            if matches:
                found[clause] = index
    return found
