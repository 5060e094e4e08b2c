"""Kernels that flip atoms of a field and update only the parfeatures above them.

Every cell stores its value f and its exponent e. A flip changes the exponents of the atom's parents
by w · (change of the atom), their values by exp(e + Δ) − f, the exponents above by w times that,
and so on up to the root, whose Δ is the change of the log-probability. Nodes are numbered
bottom-up, so the Δ of a cell that is reached on two paths is complete before it is propagated.

`try_flips` computes the changes, `apply_flips` makes them, `discard_flips` drops them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.tally import record_sample
from lapis.runtime.kernels import entry, inner


class FieldCellGraph(NamedTuple):
    """The cells of a ground field, and the edges from children to parents."""

    node_offset: np.ndarray  # int64[num_nodes + 1]
    first_parfeature: np.ndarray  # int64[1]
    up_start: np.ndarray  # int64[num_nodes + 1], edges into each node's parents
    up_edge: np.ndarray  # int64[num_edges]
    parent: np.ndarray  # int64[num_edges], node
    # Arguments of the child of each edge: how to decode a cell, and required constants.
    place_start: np.ndarray  # int64[num_edges + 1]
    place_divisor: np.ndarray  # int64[num_places], stride in the child's table
    place_size: np.ndarray  # int64[num_places]
    place_constant: np.ndarray  # int64[num_places], the required constant, or −1
    same_divisor: np.ndarray  # int64[num_places], of an earlier place of the same variable, or 0
    same_size: np.ndarray  # int64[num_places]
    place_stride: np.ndarray  # int64[num_places], in the parent's table; 0 where summed over
    free_start: np.ndarray  # int64[num_edges + 1]
    free_offset: np.ndarray  # int64[...], over the parent's parameters that the child lacks
    root_slot: np.ndarray  # int64[num_edges], the number of the edge among the root's, or −1


class FieldUnits(NamedTuple):
    """The unknown atoms in units of which at most one atom is true: single atoms, and blocks."""

    start: np.ndarray  # int64[num_units + 1]
    atom: np.ndarray  # int64[num_unknown]
    cell: np.ndarray  # int64[num_unknown], of those atoms
    node: np.ndarray  # int64[num_units], the predicate
    exact: np.ndarray  # bool[num_units], one of them must be true


class Cells(NamedTuple):
    """A world with its cached values, and buffers for the changes of a flip.

    The first five are columns of one table, so that a touched cell costs one cache miss.
    """

    value: np.ndarray  # float64[num_cells], f
    exponent: np.ndarray  # float64[num_cells], e
    change: np.ndarray  # float64[num_cells], Δ
    fresh: np.ndarray  # float64[num_cells], f'
    mark: np.ndarray  # float64[num_cells], 1 if touched
    root_sums: np.ndarray  # float64[num_root_weights], Σ f of each child of the root
    touched: np.ndarray  # int64[num_cells], those of each node from its offset on
    num_touched: np.ndarray  # int64[num_nodes]
    share: np.ndarray  # float64[largest unit + 1], of the states of a unit


@inner
def first_parent(graph, edge, local):  # type: ignore[no-untyped-def]
    """Return the parent's cell with free parameters 0; −1 if the edge excludes the child's cell."""
    begin, end = graph.place_start[edge], graph.place_start[edge + 1]
    found = graph.node_offset[graph.parent[edge]]
    for place in range(begin, end):
        code = local // graph.place_divisor[place] % graph.place_size[place]
        wanted, other = graph.place_constant[place], graph.same_divisor[place]
        if wanted >= 0 and code != wanted:
            return np.int64(-1)
        if other > 0 and code != local // other % graph.same_size[place]:
            return np.int64(-1)
        found += code * graph.place_stride[place]
    return np.int64(found)


@inner
def propagate_change(graph, weight, cells, node, cell, difference):  # type: ignore[no-untyped-def]
    """Add the change of a cell's value to the exponents of its parents."""
    local = cell - graph.node_offset[node]
    for at in range(graph.up_start[node], graph.up_start[node + 1]):
        edge = graph.up_edge[at]
        first = first_parent(graph, edge, local)
        if first < 0:
            continue
        parent, step = graph.parent[edge], weight[edge] * difference
        for free in range(graph.free_start[edge], graph.free_start[edge + 1]):
            above = first + graph.free_offset[free]
            if cells.mark[above] == 0.0:
                cells.mark[above] = 1.0
                cells.change[above] = 0.0
                cells.touched[graph.node_offset[parent] + cells.num_touched[parent]] = above
                cells.num_touched[parent] += 1
            cells.change[above] += step


@inner
def is_underflown(cells, cell):  # type: ignore[no-untyped-def]
    """Test whether the value is 0 by underflow before and after."""
    return cells.fresh[cell] == 0.0 and cells.value[cell] == 0.0


@inner
def flip_cell(graph, weight, cells, node, cell):  # type: ignore[no-untyped-def]
    """Flip an atom and propagate the change to its parents; no-op for cell −1."""
    if cell >= 0:
        cells.fresh[cell] = 1.0 - cells.value[cell]
        propagate_change(graph, weight, cells, node, cell, cells.fresh[cell] - cells.value[cell])


@inner
def try_flips(graph, weight, cells, node, one, other):  # type: ignore[no-untyped-def]
    """Compute the change of the log-probability if these atoms were flipped."""
    flip_cell(graph, weight, cells, node, one)
    flip_cell(graph, weight, cells, node, other)
    root = len(graph.node_offset) - 2
    for above in range(graph.first_parfeature[0], root):
        start = graph.node_offset[above]
        for at in range(start, start + cells.num_touched[above]):
            touched = cells.touched[at]
            exponent = cells.exponent[touched] + cells.change[touched]
            cells.fresh[touched] = np.exp(min(exponent, 0.0))
            if not is_underflown(cells, touched):
                difference = cells.fresh[touched] - cells.value[touched]
                propagate_change(graph, weight, cells, above, touched, difference)
    place = graph.node_offset[root]
    return cells.change[place] if cells.num_touched[root] > 0 else 0.0


@inner
def discard_flips(graph, cells):  # type: ignore[no-untyped-def]
    """Drop the changes of `try_flips`."""
    for node in range(graph.first_parfeature[0], len(graph.node_offset) - 1):
        start = graph.node_offset[node]
        for at in range(start, start + cells.num_touched[node]):
            cells.mark[cells.touched[at]] = 0.0
        cells.num_touched[node] = 0


@inner
def update_root_sums(graph, cells, node, cell, difference):  # type: ignore[no-untyped-def]
    """Update the sums of the root's children."""
    for at in range(graph.up_start[node], graph.up_start[node + 1]):
        edge = graph.up_edge[at]
        slot = graph.root_slot[edge]
        if slot >= 0 and first_parent(graph, edge, cell - graph.node_offset[node]) >= 0:
            cells.root_sums[slot] += difference


@inner
def apply_flips(graph, cells, node, one, other):  # type: ignore[no-untyped-def]
    """Apply the changes of `try_flips`."""
    for cell in (one, other):
        if cell >= 0:
            update_root_sums(graph, cells, node, cell, cells.fresh[cell] - cells.value[cell])
            cells.value[cell] = cells.fresh[cell]
    root = len(graph.node_offset) - 2
    for above in range(graph.first_parfeature[0], root + 1):
        start = graph.node_offset[above]
        for at in range(start, start + cells.num_touched[above]):
            touched = cells.touched[at]
            cells.exponent[touched] += cells.change[touched]
            if above != root:
                difference = cells.fresh[touched] - cells.value[touched]
                update_root_sums(graph, cells, above, touched, difference)
                cells.value[touched] = cells.fresh[touched]
    discard_flips(graph, cells)


@inner
def score_states(graph, weight, cells, units, unit):  # type: ignore[no-untyped-def]
    """Write the log-weights of a unit's states, relative to the present one, to `share`.

    In state 0 no atom is true, in state k the kth. Returns the present state and the last one
    tried, whose changes are still in the buffers.
    """
    begin, end = units.start[unit], units.start[unit + 1]
    node, own, last = units.node[unit], 0, 0
    for at in range(begin, end):
        if cells.value[units.cell[at]] > 0.5:
            own = at - begin + 1
    present = units.cell[begin + own - 1] if own > 0 else np.int64(-1)
    for state in range(end - begin + 1):
        if state == own:
            cells.share[state] = 0.0
        elif state == 0 and units.exact[unit]:
            cells.share[state] = -np.inf
        else:
            discard_flips(graph, cells)
            wanted = units.cell[begin + state - 1] if state > 0 else np.int64(-1)
            cells.share[state] = try_flips(graph, weight, cells, node, present, wanted)
            last = state
    return own, last


@inner
def set_state(graph, weight, cells, units, unit, own, last, state):  # type: ignore[no-untyped-def]
    """Set the state of a unit after `score_states`."""
    if state == own:
        discard_flips(graph, cells)
        return
    begin, node = units.start[unit], units.node[unit]
    present = units.cell[begin + own - 1] if own > 0 else np.int64(-1)
    wanted = units.cell[begin + state - 1] if state > 0 else np.int64(-1)
    if state != last:
        discard_flips(graph, cells)
        try_flips(graph, weight, cells, node, present, wanted)
    apply_flips(graph, cells, node, present, wanted)


@entry
def run_field_gibbs(graph, weight, cells, units, estimate, world, rng, tallies, num_samples):  # type: ignore[no-untyped-def]
    """Run Gibbs sweeps and record each; return the number of changes."""
    changes = 0
    for _ in range(num_samples):
        for unit in range(len(units.node)):
            begin, end = units.start[unit], units.start[unit + 1]
            own, last = score_states(graph, weight, cells, units, unit)
            top, total, share = 0.0, 0.0, cells.share
            for state in range(end - begin + 1):
                top = max(top, share[state])
            for state in range(end - begin + 1):
                share[state] = np.exp(share[state] - top)
                total += share[state]
            left, chosen = uniform(rng) * total, own
            for state in range(end - begin + 1):
                if share[state] > 0.0 and left >= 0.0:
                    chosen = state
                left -= share[state]
            for at in range(begin, end):
                estimate[units.atom[at]] = share[at - begin + 1] / total
                world[units.atom[at]] = 1 if chosen == at - begin + 1 else 0
            changes += chosen != own
            set_state(graph, weight, cells, units, unit, own, last, chosen)
        record_sample(tallies, estimate, cells.root_sums, world)
    return changes


@entry
def sweep_icm(graph, weight, cells, units, order):  # type: ignore[no-untyped-def]
    """Run one sweep of iterated conditional modes; return the number of changes."""
    changes = 0
    for place in range(len(order)):
        unit = order[place]
        own, last = score_states(graph, weight, cells, units, unit)
        best, share = own, cells.share
        for state in range(units.start[unit + 1] - units.start[unit] + 1):
            if share[state] > share[best]:
                best = state
        changes += best != own
        set_state(graph, weight, cells, units, unit, own, last, best)
    return changes
