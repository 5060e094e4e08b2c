"""The units of blocked Gibbs sampling: atoms, blocks and small groups of them.

A variable is a base atom in no block, or a block (its state is the true atom, or none). Variables
in hard clauses must change together: under A ⇔ B no single flip is allowed. So variables that hard
clauses connect become one unit with at most 2^12 joint states, all of which are scored at each
update. A larger connected group is divided into units of at most 2^6 states, shortest clauses
first, and it is unknown whether the sampler reaches every world (`ergodic` None). Such units stay
small because an update costs as many flips as states, and larger ones would not guarantee
ergodicity either.

Strong soft clauses make a chain slow, not wrong. They unite variables up to 2^4 states, nearly hard
ones (weight 8) up to 2^6, strongest first. If every atom occurs with one sign only in all hard
clauses, nothing needs to be united: each atom can be set to that sign by single flips, so every
world is connected with that one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.clause_graph import ClauseGraph
from lapis.network.components import find_root, number_trees
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import Network
from lapis.runtime.kernels import allocating_entry, entry

KNOT_BITS = 12.0  # log2 of the most states of a connected group of hard clauses that is one unit
PIECE_BITS = 6.0  # … of a unit of a larger group
STRONG_BITS = 4.0  # … of a unit of strong soft clauses
STRONG_WEIGHT = 3.0
NEARLY_HARD = 8.0
MAX_CLAUSE_VARIABLES = 12


class GibbsUnits(NamedTuple):
    """Variables (atoms or blocks), and units of variables that are resampled together."""

    variable_start: np.ndarray  # int64[num_variables + 1]
    variable_atom: np.ndarray  # int32[num_base_atoms]
    variable_size: np.ndarray  # int32[num_variables], number of states
    is_block: np.ndarray  # bool[num_variables]
    variable_of_atom: np.ndarray  # int32[num_base_atoms]
    unit_start: np.ndarray  # int64[num_units + 1]
    unit_variable: np.ndarray  # int32[num_variables]
    unit_of_variable: np.ndarray  # int32[num_variables]
    single: np.ndarray  # int32[num_units], the atom of a one-atom unit in no definition, else −1
    max_states: int


def build_units(network: Network, graph: ClauseGraph) -> tuple[GibbsUnits, bool | None]:
    """Build the units; True if resampling them reaches every world, None if unknown."""
    variable_of_atom, start, atom = group_blocks(network, network.num_base_atoms)
    is_block = np.zeros(len(start) - 1, bool)
    is_block[variable_of_atom[network.block_atom]] = True
    size = np.where(is_block, np.diff(start), 2)
    may_be_empty = network.block_atom[network.block_start[:-1][~network.block_exact]]
    size[variable_of_atom[may_be_empty]] += 1

    root = np.arange(len(size), dtype=np.int32)
    bits = np.log2(np.maximum(size, 1))
    decided = _decided(graph, variable_of_atom, is_block)
    hard = np.flatnonzero(np.isinf(graph.weight) & (graph.definition_of < 0))
    hard_start, hard_variable, too_wide = _clause_variables(hard, graph, variable_of_atom, decided)
    pure = is_pure(graph, hard, is_block[variable_of_atom])
    if not pure:
        _unite_hard(root, bits, hard_start, hard_variable)
    strength = np.where(np.isinf(graph.weight), 0.0, np.abs(graph.weight))
    strong = np.flatnonzero(strength >= STRONG_WEIGHT)
    strong = strong[np.argsort(-strength[strong], kind="stable")]
    strong_start, strong_variable, _ = _clause_variables(strong, graph, variable_of_atom, decided)
    nearly_hard = np.arange(int((strength[strong] >= NEARLY_HARD).sum()))
    _unite_rows(root, bits, strong_start, strong_variable, nearly_hard, PIECE_BITS)
    _unite_rows(root, bits, strong_start, strong_variable, np.arange(len(strong)), STRONG_BITS)

    unit_of_variable = number_trees(root)
    unit_variable = np.argsort(unit_of_variable, kind="stable").astype(np.int32)
    length = np.bincount(unit_of_variable)
    unit_start = row_starts(length)
    only = unit_variable[unit_start[:-1]]
    lone_atom = atom[start[:-1]][only]
    is_single = (length == 1) & ~is_block[only]
    is_single &= np.diff(graph.use_start)[lone_atom] == 0
    states = np.exp2(np.bincount(unit_of_variable, weights=np.log2(np.maximum(size, 1))))
    units = GibbsUnits(
        start, atom, size.astype(np.int32), is_block, variable_of_atom,
        unit_start, unit_variable, unit_of_variable,
        np.where(is_single, lone_atom, -1).astype(np.int32),
        int(np.rint(states.max(initial=1.0))),
    )  # fmt: skip
    crosses = too_wide | ~_is_inside(unit_of_variable, hard_start, hard_variable)
    return units, True if pure or not crosses.any() else None


def clause_strength(graph: ClauseGraph) -> np.ndarray:
    """Return int8[num_clauses], the strengths that `build_units` distinguishes; 0 for units."""
    size = np.where(np.isinf(graph.weight), 0.0, np.abs(graph.weight))
    strength = (size >= STRONG_WEIGHT).astype(np.int8) + (size >= NEARLY_HARD)
    strength[np.diff(graph.clause_start) == 1] = 0
    return strength


def group_blocks(network: Network, num_atoms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group the first atoms by block, in order; (variable_of_atom, start, atom)."""
    leader = np.arange(num_atoms)
    first = network.block_atom[network.block_start[:-1]]
    leader[network.block_atom] = np.repeat(first, np.diff(network.block_start))
    _, variable = np.unique(leader, return_inverse=True)
    atom = np.argsort(variable, kind="stable").astype(np.int32)
    return variable.astype(np.int32), row_starts(np.bincount(variable)), atom


def _decided(graph: ClauseGraph, variable_of_atom: np.ndarray, is_block: np.ndarray) -> np.ndarray:
    """Return bool[num_variables], atoms fixed by a hard clause of one literal.

    They never change, and need not be united with other variables.
    """
    alone = np.isinf(graph.weight) & (np.diff(graph.clause_start) == 1)
    atom = np.abs(graph.literal[graph.clause_start[:-1][alone]]) - 1
    decided = np.zeros(len(is_block), bool)
    decided[variable_of_atom[atom[atom < graph.first_auxiliary]]] = True
    return decided & ~is_block


def _unite_hard(
    root: np.ndarray, bits: np.ndarray, start: np.ndarray, variable: np.ndarray
) -> None:
    """Unite connected groups of hard clauses; large groups are divided."""
    rows = np.flatnonzero(np.diff(start) > 0)
    whole_root, whole_bits = root.copy(), bits.copy()
    _unite_rows(whole_root, whole_bits, start, variable, rows, np.inf)
    top = _find_roots(whole_root)
    small = whole_bits[top[variable[start[rows]]]] <= KNOT_BITS
    _unite_rows(root, bits, start, variable, rows[small], KNOT_BITS)
    pieces = rows[~small]
    pieces = pieces[np.argsort(np.diff(start)[pieces], kind="stable")]
    _unite_rows(root, bits, start, variable, pieces, PIECE_BITS)


def _is_inside(unit_of_variable: np.ndarray, start: np.ndarray, variable: np.ndarray) -> np.ndarray:
    """Return bool[num_rows], whether all variables of a row are in one unit."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    unit = unit_of_variable[variable]
    inside = np.ones(len(start) - 1, bool)
    inside[row[unit != unit[start[row]]]] = False
    return inside


def is_pure(graph: ClauseGraph, hard: np.ndarray, in_block: np.ndarray) -> bool:
    """Test whether each atom has one sign in the hard clauses; False with blocks or auxiliaries."""
    atom, positive = clause_literals(graph, hard)
    if (atom >= graph.first_auxiliary).any() or in_block[atom].any():
        return False
    wanted = np.zeros((2, graph.first_auxiliary), bool)
    wanted[positive.astype(np.int64), atom] = True
    return not wanted.all(axis=0).any()


def clause_literals(graph: ClauseGraph, clauses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the atoms and signs of all literals of some clauses."""
    _, literal = take_rows(graph.clause_start, graph.literal, clauses)
    return np.abs(literal) - 1, literal > 0


@allocating_entry
def _clause_variables(clauses, graph, variable_of_atom, decided):  # type: ignore[no-untyped-def]
    """Return each clause's variables as CSR, auxiliary atoms expanded; empty if too many."""
    start = np.zeros(len(clauses) + 1, np.int64)
    variable = np.empty(len(clauses) * MAX_CLAUSE_VARIABLES, np.int32)
    too_wide = np.zeros(len(clauses), np.bool_)
    num_atoms = len(graph.atom_start) - 1
    seen = np.full(num_atoms, -1, np.int64)  # the last row that contains an atom
    used = np.full(len(variable_of_atom), -1, np.int64)  # … or a variable
    stack = np.empty(num_atoms, np.int64)
    end = 0
    for row in range(len(clauses)):
        begin, waiting = end, 0
        for at in range(graph.clause_start[clauses[row]], graph.clause_start[clauses[row] + 1]):
            atom = abs(graph.literal[at]) - 1
            seen[atom] = row
            stack[waiting] = atom
            waiting += 1
        while waiting > 0:
            waiting -= 1
            atom = stack[waiting]
            if atom < graph.first_auxiliary:
                if used[variable_of_atom[atom]] != row and not decided[variable_of_atom[atom]]:
                    used[variable_of_atom[atom]] = row
                    if end - begin == MAX_CLAUSE_VARIABLES:
                        too_wide[row] = True
                        end = begin
                        break
                    variable[end] = variable_of_atom[atom]
                    end += 1
                continue
            index = atom - graph.first_auxiliary
            for at in range(graph.definition_start[index], graph.definition_start[index + 1]):
                other = abs(graph.definition_literal[at]) - 1
                if seen[other] != row:
                    seen[other] = row
                    stack[waiting] = other
                    waiting += 1
        start[row + 1] = end
    return start, variable[:end].copy(), too_wide


@allocating_entry
def _find_roots(root):  # type: ignore[no-untyped-def]
    found = np.empty_like(root)
    for item in range(len(root)):
        found[item] = find_root(root, item)
    return found


@entry
def _unite_rows(root, bits, start, variable, rows, limit):  # type: ignore[no-untyped-def]
    """Unite the variables of each row, in order, if the union has at most 2^limit states."""
    for row in rows:
        total = 0.0
        for at in range(start[row], start[row + 1]):
            top = find_root(root, variable[at])
            known = False
            for before in range(start[row], at):
                known = known or find_root(root, variable[before]) == top
            if not known:
                total += bits[top]
        if total > limit + 1e-9:
            continue
        for at in range(start[row] + 1, start[row + 1]):
            one, other = find_root(root, variable[start[row]]), find_root(root, variable[at])
            if one != other:
                low, high = min(one, other), max(one, other)
                root[high] = low
                bits[low] += bits[high]
