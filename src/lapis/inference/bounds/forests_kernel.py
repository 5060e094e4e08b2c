"""The kernels of `forests`: choosing forests, and sums over their worlds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.components import find_root
from lapis.runtime.kernels import allocating_entry, entry, inner


class Forests(NamedTuple):
    """Tables without cycles; those of a forest from roots to leaves."""

    start: np.ndarray  # int64[num_forests + 1]
    table: np.ndarray  # int32[num_copies]
    above: np.ndarray  # int8[num_copies], the axis of the atom towards the root
    entry_start: np.ndarray  # int64[num_copies + 1]


@entry
def choose_forest(tables, covered, leader, chosen):  # type: ignore[no-untyped-def]
    """Mark tables that form no cycle in `chosen`: first those not covered, then others.

    `leader`, int32[num_atoms], is work space for the trees.
    """
    for atom in range(len(leader)):
        leader[atom] = atom
    for turn in range(2):
        for table in range(len(covered)):
            if chosen[table] or covered[table] != (turn == 1):
                continue
            begin, end = tables.scope_start[table], tables.scope_start[table + 1]
            free = True
            for at in range(begin, end):
                one = find_root(leader, tables.scope[at])
                for other in range(begin, at):
                    if find_root(leader, tables.scope[other]) == one:
                        free = False
            if free:
                root = find_root(leader, tables.scope[begin])
                for at in range(begin + 1, end):
                    leader[find_root(leader, tables.scope[at])] = root
                chosen[table] = True
    for table in range(len(covered)):
        covered[table] = covered[table] or chosen[table]


@entry
def order_forest(tables, near_start, near, chosen, seen, queue, table, above):  # type: ignore[no-untyped-def]
    """Order the chosen tables breadth first; `near` lists the tables of each atom."""
    count = 0
    for atom in range(len(seen)):
        seen[atom] = False
    for root in range(len(seen)):
        if seen[root]:
            continue
        seen[root] = True
        queue[0] = root
        head, tail = 0, 1
        while head < tail:
            atom = queue[head]
            head += 1
            for place in range(near_start[atom], near_start[atom + 1]):
                own = near[place]
                if not chosen[own]:
                    continue
                begin, end = tables.scope_start[own], tables.scope_start[own + 1]
                axis, done = 0, 0
                for at in range(begin, end):
                    if tables.scope[at] == atom:
                        axis = at - begin
                    if seen[tables.scope[at]]:
                        done += 1
                if done > 1:
                    continue  # the table that led here
                table[count], above[count] = own, axis
                count += 1
                for at in range(begin, end):
                    if not seen[tables.scope[at]]:
                        seen[tables.scope[at]] = True
                        queue[tail] = tables.scope[at]
                        tail += 1
    return count


@allocating_entry
def collect_forest(  # type: ignore[no-untyped-def]
    tables, forests, number, field, score, component, value, total_size, inside, message, belief
):
    """Add log Σ over the worlds of a forest to `value` by component.

    `field`, float64[num_atoms], is that of the forest, `score`, float64[num_entries], that of all
    copies. Fill inside[num_atoms, 2] with the log-sums of the subtree below each atom's values (of
    the whole tree at a root), message[num_copies, 2] with the messages of tables to the atoms above
    them, belief[num_entries] with the summed scores, and `total` with Σ |terms| by component.
    """
    first, last = forests.start[number], forests.start[number + 1]
    is_root = np.ones(len(field), np.bool_)
    for atom in range(len(field)):
        odds = field[atom]
        inside[atom, 0] = -np.inf if odds == np.inf else 0.0
        inside[atom, 1] = 0.0 if odds == np.inf else odds
    for copy in range(last - 1, first - 1, -1):
        begin, width, axis = _table_shape(tables, forests, copy)
        at = forests.entry_start[copy]
        peak = -np.inf
        for state in range(1 << width):
            total = score[at + state]
            for member in range(width):
                if member != axis:
                    atom = tables.scope[begin + member]
                    total += inside[atom, (state >> (width - 1 - member)) & 1]
                    is_root[atom] = False
            belief[at + state] = total
            peak = max(peak, total)
        own = component[tables.scope[begin]]
        value[own] += peak
        if peak == -np.inf:
            continue
        total_size[own] += abs(peak) + 1.0
        top = tables.scope[begin + axis]
        for side in range(2):
            total = 0.0
            for state in range(1 << width):
                if (state >> (width - 1 - axis)) & 1 == side:
                    total += np.exp(belief[at + state] - peak)
            message[copy, side] = np.log(total) if total > 0 else -np.inf
            inside[top, side] += message[copy, side]
            if total > 0:
                total_size[own] += abs(message[copy, side])
    for atom in range(len(field)):
        if is_root[atom]:
            high, low = max(inside[atom, 0], inside[atom, 1]), min(inside[atom, 0], inside[atom, 1])
            total = high + np.log1p(np.exp(low - high)) if high > -np.inf else high
            value[component[atom]] += total
            if total > -np.inf:
                total_size[component[atom]] += abs(total) + 1.0


@entry
def distribute_forest(tables, forests, number, inside, message, belief):  # type: ignore[no-untyped-def]
    """Turn `inside` and `belief` of `collect_forest` into log-probabilities, roots first."""
    for copy in range(forests.start[number], forests.start[number + 1]):
        begin, width, axis = _table_shape(tables, forests, copy)
        at = forests.entry_start[copy]
        top = tables.scope[begin + axis]
        peak = -np.inf
        for state in range(1 << width):
            side = (state >> (width - 1 - axis)) & 1
            if message[copy, side] == -np.inf:
                belief[at + state] = -np.inf
            else:
                # The message from above: all beliefs about the atom, less this table's message.
                belief[at + state] += inside[top, side] - message[copy, side]
            peak = max(peak, belief[at + state])
        total = 0.0
        for state in range(1 << width):
            total += np.exp(belief[at + state] - peak)
        total = peak + np.log(total)
        for state in range(1 << width):
            belief[at + state] -= total
        for member in range(width):
            if member != axis:
                for side in range(2):
                    chance = 0.0
                    for state in range(1 << width):
                        if (state >> (width - 1 - member)) & 1 == side:
                            chance += np.exp(belief[at + state])
                    inside[tables.scope[begin + member], side] = np.log(chance)


@inner
def _table_shape(tables, forests, copy):  # type: ignore[no-untyped-def]
    """Return first scope place, width and upward axis of a copy."""
    table = forests.table[copy]
    begin = tables.scope_start[table]
    return begin, tables.scope_start[table + 1] - begin, forests.above[copy]
