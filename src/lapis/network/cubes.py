"""A network as many-valued variables and the cubes in which its clauses are false.

A variable is an atom outside all blocks (state 0 false, 1 true) or a whole block (a state for
each candidate and, if the block may be empty, a last one for "none"). A clause is false exactly
if each of its variables is in a state that none of its literals accepts. These worlds are a
product of state sets, a *cube*:

    score(world) = constant + Σ_{soft clauses} w·c − Σ_{cubes that contain the world} w·c

and a hard clause's cube costs infinity. Cubes over the same variables are not merged: a conditional
probability table is one cube for each row, and adding a cube to a table changes only its entries.

`cut_long_cubes` replaces a cube over many variables by a chain of cubes over three, since a cube
over k variables needs a table of at least 2^k entries. Its indicator is a product, so it is
computed one variable at a time with new binary variables

    z₂ = [v₁ ∈ S₁]·[v₂ ∈ S₂],   z_i = z_{i−1}·[v_i ∈ S_i],   cube = z_{k−1}·[v_k ∈ S_k]

each defined by three forbidden cubes: z = 1 if a factor is 0 (two of them), z = 0 if both are 1.
Every z is a function of the other variables, so sums, maxima and samples do not change. Bayesian
networks decompose noisy-or in this way. An existential over a thousand atoms then has width three.
A balanced tree instead of a chain gave wider orders, since neighbours in long clauses are often
connected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.csr import narrow_starts, row_starts, take_rows
from lapis.network.network import Network
from lapis.runtime.kernels import allocating_entry, inner


class Variables(NamedTuple):
    size: np.ndarray  # int32[num_variables], number of states
    state_start: np.ndarray  # int32 or int64[num_variables + 1]
    state_atom: np.ndarray  # int32[...], the atom true in a state, −1 for false and for none
    atom_variable: np.ndarray  # int32[num_atoms], −1 for atoms left out
    atom_state: np.ndarray  # int32[num_atoms], the state in which the atom is true
    component: np.ndarray  # int32[num_variables], component of the network

    def place_of_atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the atoms and, for each, the place of its true state among all states."""
        atoms = np.flatnonzero(self.atom_variable >= 0)
        return atoms, self.state_start[self.atom_variable[atoms]] + self.atom_state[atoms]


class Cubes(NamedTuple):
    """Cubes as CSR: in cube c each member variable is in one of its listed states."""

    size: np.ndarray  # int32[num_variables], number of states
    start: np.ndarray  # int64[num_cubes + 1]
    variable: np.ndarray  # int32[num_members], no variable twice in a cube
    state_start: np.ndarray  # int64[num_members + 1]
    state: np.ndarray  # int32[...]
    clause: np.ndarray  # int32[num_cubes], the network's clause; −1 where a chain link is hard


def find_variables(network: Network, wanted: np.ndarray) -> Variables:
    """Return the variables of some atoms, bool[num_atoms]; a block is whole or left out."""
    length = np.diff(network.block_start)
    in_block = np.zeros(network.num_atoms, bool)
    in_block[network.block_atom] = True
    plain = np.flatnonzero(wanted & ~in_block)
    is_wanted = wanted[network.block_atom]
    blocks, member_block = np.unique(
        np.repeat(np.arange(network.num_blocks), length)[is_wanted], return_inverse=True
    )
    candidate = network.block_atom[is_wanted]
    position = np.arange(len(network.block_atom)) - np.repeat(network.block_start[:-1], length)

    atom_variable = np.full(network.num_atoms, -1, np.int32)
    atom_state = np.ones(network.num_atoms, np.int32)
    atom_variable[plain] = np.arange(len(plain))
    atom_variable[candidate] = len(plain) + member_block
    atom_state[candidate] = position[is_wanted]
    block_size = length[blocks] + ~network.block_exact[blocks]
    size = np.concatenate((np.full(len(plain), 2), block_size)).astype(np.int32)
    state_start = narrow_starts(row_starts(size))
    atoms = np.concatenate((plain, candidate)).astype(np.int32)
    state_atom = np.full(state_start[-1], -1, np.int32)
    state_atom[state_start[atom_variable[atoms]] + atom_state[atoms]] = atoms
    component = np.empty(len(size), np.int32)
    component[atom_variable[atoms]] = network.component[atoms]
    return Variables(size, state_start, state_atom, atom_variable, atom_state, component)


def falsifying_cubes(network: Network, variables: Variables, clauses: np.ndarray) -> Cubes:
    """Return the cubes of these clauses; a clause that blocks make always true has none."""
    chosen = np.zeros(network.num_clauses, bool)
    chosen[clauses] = True
    literal = network.literal[np.repeat(chosen, np.diff(network.clause_start))]
    states = variables.size[variables.atom_variable[np.abs(literal) - 1]]
    return Cubes(
        variables.size,
        *_list_falsifying(
            clauses.astype(np.int32),
            network.clause_start,
            network.literal,
            variables,
            len(literal),
            int(np.where(literal > 0, states, 1).sum()),
        ),
    )


def has_plain_clauses(network: Network) -> bool:
    """Return whether there are no blocks and the atoms of each clause ascend.

    Then no clause has an atom twice, and every literal is a cube member with one state.
    """
    first = np.zeros(len(network.literal) + 1, bool)
    first[network.clause_start] = True
    ascends = np.diff(np.abs(network.literal)) > 0
    return network.num_blocks == 0 and bool((ascends | first[1:-1]).all())


def plain_cubes(network: Network, variables: Variables, clauses: np.ndarray) -> Cubes:
    """Return the cubes of some clauses, int32[...], of a network with `has_plain_clauses`."""
    start, literal = take_rows(network.clause_start, network.literal, clauses)
    return Cubes(
        variables.size,
        start,
        variables.atom_variable[np.abs(literal) - 1],
        np.arange(len(literal) + 1, dtype=np.int64),
        (literal < 0).astype(np.int32),
        clauses,
    )


def take_first_cubes(cubes: Cubes, count: int) -> Cubes:
    """Return the first cubes."""
    members = int(cubes.start[count])
    states = int(cubes.state_start[members])
    return Cubes(
        cubes.size,
        cubes.start[: count + 1],
        cubes.variable[:members],
        cubes.state_start[: members + 1],
        cubes.state[:states],
        cubes.clause[:count],
    )


def cube_penalties(network: Network, cubes: Cubes, weights: np.ndarray) -> np.ndarray:
    """Return float64[num_cubes], what each cube adds to the score: −w·c, or −∞ if it is hard."""
    weight_id = cube_weights(network, cubes)
    soft = weight_id >= 0
    penalty = np.full(len(weight_id), -np.inf)
    penalty[soft] = -weights[weight_id[soft]] * network.coefficient[cubes.clause[soft]]
    return penalty


def cube_weights(network: Network, cubes: Cubes) -> np.ndarray:
    """Return int32[num_cubes], the weight id of each cube's clause, −1 if it is hard."""
    weight_id = np.full(len(cubes.clause), -1, np.int32)
    given = cubes.clause >= 0
    weight_id[given] = network.weight_id[cubes.clause[given]]
    return weight_id


def sum_by_weight(network: Network, clause: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return float64[num_weights], Σ coefficient·times over the soft ones of these clauses."""
    soft = network.weight_id[clause] >= 0
    sums = np.bincount(
        network.weight_id[clause[soft]],
        weights=network.coefficient[clause[soft]] * times[soft],
        minlength=len(network.weights),
    )
    return sums.astype(np.float64, copy=False)


@allocating_entry
def _list_falsifying(clauses, clause_start, literal, variables, room, state_room):  # type: ignore[no-untyped-def]
    size, state_start = variables.size, variables.state_start
    atom_variable, atom_state = variables.atom_variable, variables.atom_state
    start = np.zeros(len(clauses) + 1, np.int64)
    kept = np.empty(len(clauses), np.int32)
    variable = np.empty(room, np.int32)
    first = np.zeros(room + 1, np.int64)
    state = np.empty(state_room, np.int32)
    visited = np.full(len(size), -1, np.int64)
    denied = np.empty(len(size), np.int32)  # the state that a negated literal rejects, or −1
    accepted = np.full(state_start[-1], -1, np.int64)
    count = 0
    for clause in clauses:
        begin = start[count]
        end = begin
        always_true = False
        for at in range(clause_start[clause], clause_start[clause + 1]):
            atom = abs(literal[at]) - 1
            v = atom_variable[atom]
            if visited[v] != clause:
                visited[v] = clause
                denied[v] = -1
                variable[end] = v
                end += 1
            if literal[at] > 0:
                accepted[state_start[v] + atom_state[atom]] = clause
            elif denied[v] >= 0 and denied[v] != atom_state[atom]:
                always_true = True
            else:
                denied[v] = atom_state[atom]
        place = first[begin]
        for at in range(begin, end):
            v = variable[at]
            before = place
            for s in range(size[v]):
                rejected = denied[v] < 0 or denied[v] == s
                if rejected and accepted[state_start[v] + s] != clause:
                    state[place] = s
                    place += 1
            first[at + 1] = place
            always_true = always_true or place == before
        if not always_true:
            kept[count] = clause
            count += 1
            start[count] = end
    members = start[count]
    return (
        start[: count + 1].copy(),
        variable[:members].copy(),
        first[: members + 1].copy(),
        state[: first[members]].copy(),
        kept[:count].copy(),
    )


def cut_long_cubes(cubes: Cubes, max_members: int) -> tuple[Cubes, np.ndarray]:
    """Replace cubes with more than `max_members` (≥ 3) members by chains.

    Also return int64[num_new_variables], a member variable of the cube that each z comes from.
    """
    length = np.diff(cubes.start)
    if not (length > max_members).any():
        return cubes, np.empty(0, np.int64)
    size, start, variable, state_start, state, clause, origin = _cut_cubes(
        cubes.size, cubes.start, cubes.variable, cubes.state_start, cubes.state, cubes.clause,
        max_members,
    )  # fmt: skip
    return Cubes(size, start, variable, state_start, state, clause), origin


@allocating_entry
def _cut_cubes(size, start, variable, state_start, state, clause, max_members):  # type: ignore[no-untyped-def]
    links, long_states = 0, 0
    for cube in range(len(clause)):
        members = start[cube + 1] - start[cube]
        if members > max_members:
            links += members - 2
            for at in range(start[cube], start[cube + 1]):
                long_states += 2 * size[variable[at]]
    num_cubes = len(clause) + 3 * links
    new_size = np.concatenate((size, np.full(links, 2, np.int32)))
    origin = np.empty(links, np.int64)
    out = (
        np.zeros(num_cubes + 1, np.int64),
        np.empty(len(variable) + 7 * links, np.int32),
        np.zeros(len(variable) + 7 * links + 1, np.int64),
        np.empty(len(state) + long_states + 7 * links, np.int32),
        np.full(num_cubes, -1, np.int32),
    )
    ends = np.zeros(3, np.int64)  # cubes, members and states written so far
    fresh = len(size)
    for cube in range(len(clause)):
        first, last = start[cube], start[cube + 1] - 1
        if last + 1 - first <= max_members:
            for at in range(first, last + 1):
                _add_listed(out, ends, variable[at], state, state_start[at], state_start[at + 1])
            _end_cube(out, ends, clause[cube])
            continue
        for at in range(first + 1, last):
            z = fresh
            origin[z - len(size)] = variable[first]
            left_is_z = at > first + 1
            # forbid z = 1 with left factor 0
            _add_state(out, ends, z, 1)
            if left_is_z:
                _add_state(out, ends, z - 1, 0)
            else:
                _add_others(out, ends, variable[first], size, state, state_start, first)
            _end_cube(out, ends, -1)
            # forbid z = 1 with right factor 0
            _add_state(out, ends, z, 1)
            _add_others(out, ends, variable[at], size, state, state_start, at)
            _end_cube(out, ends, -1)
            # forbid z = 0 with both factors 1
            _add_state(out, ends, z, 0)
            if left_is_z:
                _add_state(out, ends, z - 1, 1)
            else:
                f = first
                _add_listed(out, ends, variable[f], state, state_start[f], state_start[f + 1])
            _add_listed(out, ends, variable[at], state, state_start[at], state_start[at + 1])
            _end_cube(out, ends, -1)
            fresh += 1
        _add_state(out, ends, fresh - 1, 1)
        _add_listed(out, ends, variable[last], state, state_start[last], state_start[last + 1])
        _end_cube(out, ends, clause[cube])
    new_start, new_variable, new_state_start, new_state, new_clause = out
    return (
        new_size,
        new_start[: ends[0] + 1].copy(),
        new_variable[: ends[1]].copy(),
        new_state_start[: ends[1] + 1].copy(),
        new_state[: ends[2]].copy(),
        new_clause[: ends[0]].copy(),
        origin,
    )


@inner
def _add_state(out, ends, variable, value):  # type: ignore[no-untyped-def]
    out[3][ends[2]] = value
    ends[2] += 1
    _end_member(out, ends, variable)


@inner
def _add_listed(out, ends, variable, state, begin, end):  # type: ignore[no-untyped-def]
    for at in range(begin, end):
        out[3][ends[2]] = state[at]
        ends[2] += 1
    _end_member(out, ends, variable)


@inner
def _add_others(out, ends, variable, size, state, state_start, member):  # type: ignore[no-untyped-def]
    """Add the states that the member does not list; the list is in increasing order."""
    at = state_start[member]
    for value in range(size[variable]):
        if at < state_start[member + 1] and state[at] == value:
            at += 1
        else:
            out[3][ends[2]] = value
            ends[2] += 1
    _end_member(out, ends, variable)


@inner
def _end_member(out, ends, variable):  # type: ignore[no-untyped-def]
    out[1][ends[1]] = variable
    ends[1] += 1
    out[2][ends[1]] = ends[2]


@inner
def _end_cube(out, ends, clause):  # type: ignore[no-untyped-def]
    """End a cube; remove it if a member has no state, since it is empty."""
    begin = out[0][ends[0]]
    for member in range(begin, ends[1]):
        if out[2][member + 1] == out[2][member]:
            ends[1] = begin
            ends[2] = out[2][begin]
            return
    out[4][ends[0]] = clause
    ends[0] += 1
    out[0][ends[0]] = ends[1]
