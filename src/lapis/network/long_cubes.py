"""Cubes over many variables, cut into chains of cubes over three.

A cube over k variables would force a table of at least 2^k entries. Its indicator is a product,
so it can be built up one variable at a time with new binary variables

    z₂ = [v₁ ∈ S₁]·[v₂ ∈ S₂],   z_i = z_{i−1}·[v_i ∈ S_i],   cube = z_{k−1}·[v_k ∈ S_k]

each fixed by three forbidden cubes: z = 1 where a factor is 0 (two of them), z = 0 where both
are 1. Every z is a function of the other variables, so sums, maxima and samples stay the same.
This is the divide and conquer that Bayesian networks use for noisy-or; an existential over a
thousand atoms then has width three. A balanced tree instead of a chain gave wider orders, as the
members of long clauses tend to be linked to their neighbours in the list.
"""

from __future__ import annotations

import numpy as np

from lapis.network.cubes import Cubes
from lapis.runtime.kernels import allocating_entry, inner


def cut_long_cubes(cubes: Cubes, max_members: int) -> tuple[Cubes, np.ndarray]:
    """The cubes with those above `max_members` (≥ 3) as chains, and whose chain each z is in.

    The second result, int64[num_new_variables], holds a member variable of each z's own cube.
    """
    length = np.diff(cubes.start)
    if not (length > max_members).any():
        return cubes, np.empty(0, np.int64)
    size, start, variable, state_start, state, clause, origin = _cut(
        cubes.size, cubes.start, cubes.variable, cubes.state_start, cubes.state, cubes.clause,
        max_members,
    )  # fmt: skip
    return Cubes(size, start, variable, state_start, state, clause), origin


@allocating_entry
def _cut(size, start, variable, state_start, state, clause, max_members):  # type: ignore[no-untyped-def]
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
            _close(out, ends, clause[cube])
            continue
        for at in range(first + 1, last):
            z = fresh
            origin[z - len(size)] = variable[first]
            left_is_z = at > first + 1
            # z = 1 although the left factor is 0
            _add_state(out, ends, z, 1)
            if left_is_z:
                _add_state(out, ends, z - 1, 0)
            else:
                _add_others(out, ends, variable[first], size, state, state_start, first)
            _close(out, ends, -1)
            # z = 1 although the right factor is 0
            _add_state(out, ends, z, 1)
            _add_others(out, ends, variable[at], size, state, state_start, at)
            _close(out, ends, -1)
            # z = 0 although both are 1
            _add_state(out, ends, z, 0)
            if left_is_z:
                _add_state(out, ends, z - 1, 1)
            else:
                f = first
                _add_listed(out, ends, variable[f], state, state_start[f], state_start[f + 1])
            _add_listed(out, ends, variable[at], state, state_start[at], state_start[at + 1])
            _close(out, ends, -1)
            fresh += 1
        _add_state(out, ends, fresh - 1, 1)
        _add_listed(out, ends, variable[last], state, state_start[last], state_start[last + 1])
        _close(out, ends, clause[cube])
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
    """The states that the member does not list; the list is in increasing order."""
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
def _close(out, ends, clause):  # type: ignore[no-untyped-def]
    """End a cube; one with a member without states holds nowhere and is taken back."""
    begin = out[0][ends[0]]
    for member in range(begin, ends[1]):
        if out[2][member + 1] == out[2][member]:
            ends[1] = begin
            ends[2] = out[2][begin]
            return
    out[4][ends[0]] = clause
    ends[0] += 1
    out[0][ends[0]] = ends[1]
