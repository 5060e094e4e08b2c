"""One flip and all it changes, from cached sums: only the features above the atom are touched.

Every cell keeps its value f and its exponent e. A flip changes the exponents of the parfeatures
that refer to the atom by w · change, their values by exp(e + Δ) − f, the exponents above by w times
that, and so on up to the root, whose Δ is the change of the log-probability. Nodes are numbered
bottom-up, so that a cell reached on two paths has all of its Δ before it passes anything on.

Nothing is committed until `commit`; `forget` takes it back. For pseudo-likelihood the same touched
cells are walked top-down (`learn_flip`): with a(u) the derivative with respect to Δ_u,

    a(root) = −σ(Δ_root),   a(u) = f'(u) · Σ_parents w a(parent)
    ∂/∂w_pu += a(p) (f'(u) − f(u)),   ∂/∂e_u += a(u),   ∂/∂f_u −= Σ_parents w a(parent)

where f' are the values after the flip. The last two are with respect to the data's own values,
which all flips share; one ordinary back-propagation then carries them down to the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.compiled import entry, inner
from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.kernels.tally import record_sample


class Graph(NamedTuple):
    """Where cells are and who refers to them."""

    node_offset: np.ndarray  # int64[num_nodes + 1]
    first_parfeature: np.ndarray  # int64[1]
    up_start: np.ndarray  # int64[num_nodes + 1], edges into each node's parents
    up_edge: np.ndarray  # int64[num_edges]
    parent: np.ndarray  # int64[num_edges], node
    # Arguments of the child of each edge: how to decode them and what they must be.
    place_start: np.ndarray  # int64[num_edges + 1]
    place_divisor: np.ndarray  # int64[num_places], stride in the child's table
    place_size: np.ndarray  # int64[num_places]
    place_constant: np.ndarray  # int64[num_places], the constant that must stand here, or −1
    same_divisor: np.ndarray  # int64[num_places], of an earlier place of the same variable, or 0
    same_size: np.ndarray  # int64[num_places]
    place_stride: np.ndarray  # int64[num_places], in the parent's table; 0 where summed over
    free_start: np.ndarray  # int64[num_edges + 1]
    free_offset: np.ndarray  # int64[...], over the parent's parameters that the child has not
    root_slot: np.ndarray  # int64[num_edges], the number of the edge among the root's, or −1


class Cells(NamedTuple):
    """A world with its cached values, and room for what a flip changes.

    The first eight are columns of one table, a cache line a cell: a flip that touches thousands of
    cells far apart waits for each of them once.
    """

    value: np.ndarray  # float64[num_cells], f
    exponent: np.ndarray  # float64[num_cells], e
    change: np.ndarray  # float64[num_cells], Δ
    fresh: np.ndarray  # float64[num_cells], f'
    slope: np.ndarray  # float64[num_cells], a
    by_exponent: np.ndarray  # float64[num_cells], derivatives with respect to e, of all flips
    by_value: np.ndarray  # float64[num_cells], and with respect to f
    mark: np.ndarray  # float64[num_cells], 1 where touched
    root_sums: np.ndarray  # float64[num_root_weights], Σ f of each child of the root
    touched: np.ndarray  # int64[num_cells], those of each node from its offset on
    num_touched: np.ndarray  # int64[num_nodes]


@inner
def first_parent(graph, edge, local):  # type: ignore[no-untyped-def]
    """The parent's cell of a child's, free parameters 0; −1 where the edge does not refer to it."""
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
def raise_parents(graph, weight, cells, node, cell, difference):  # type: ignore[no-untyped-def]
    """Pass the change of a cell's value on to the exponents above it."""
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
def is_gone(cells, cell):  # type: ignore[no-untyped-def]
    """Whether a value has underflown before and after: it changes nothing, nor do its weights."""
    return cells.fresh[cell] == 0.0 and cells.value[cell] == 0.0


@inner
def try_flip(graph, weight, cells, node, cell):  # type: ignore[no-untyped-def]
    """The change of the log-probability if the atom were flipped; nothing is committed."""
    cells.fresh[cell] = 1.0 - cells.value[cell]
    raise_parents(graph, weight, cells, node, cell, cells.fresh[cell] - cells.value[cell])
    root = len(graph.node_offset) - 2
    for above in range(graph.first_parfeature[0], root):
        start = graph.node_offset[above]
        for at in range(start, start + cells.num_touched[above]):
            touched = cells.touched[at]
            exponent = cells.exponent[touched] + cells.change[touched]
            cells.fresh[touched] = np.exp(min(exponent, 0.0))
            if not is_gone(cells, touched):
                difference = cells.fresh[touched] - cells.value[touched]
                raise_parents(graph, weight, cells, above, touched, difference)
    place = graph.node_offset[root]
    return cells.change[place] if cells.num_touched[root] > 0 else 0.0


@inner
def forget(graph, cells):  # type: ignore[no-untyped-def]
    """Take back what a flip would have changed."""
    for node in range(graph.first_parfeature[0], len(graph.node_offset) - 1):
        start = graph.node_offset[node]
        for at in range(start, start + cells.num_touched[node]):
            cells.mark[cells.touched[at]] = 0.0
        cells.num_touched[node] = 0


@inner
def count_root(graph, cells, node, cell, difference):  # type: ignore[no-untyped-def]
    """Keep the sums of the root's children."""
    for at in range(graph.up_start[node], graph.up_start[node + 1]):
        edge = graph.up_edge[at]
        slot = graph.root_slot[edge]
        if slot >= 0 and first_parent(graph, edge, cell - graph.node_offset[node]) >= 0:
            cells.root_sums[slot] += difference


@inner
def commit(graph, cells, node, cell):  # type: ignore[no-untyped-def]
    """Make the flip that was tried."""
    count_root(graph, cells, node, cell, cells.fresh[cell] - cells.value[cell])
    cells.value[cell] = cells.fresh[cell]
    root = len(graph.node_offset) - 2
    for above in range(graph.first_parfeature[0], root + 1):
        start = graph.node_offset[above]
        for at in range(start, start + cells.num_touched[above]):
            touched = cells.touched[at]
            cells.exponent[touched] += cells.change[touched]
            if above != root:
                difference = cells.fresh[touched] - cells.value[touched]
                count_root(graph, cells, above, touched, difference)
                cells.value[touched] = cells.fresh[touched]
    forget(graph, cells)


@inner
def pull_slope(graph, weight, cells, node, cell, difference, gradient):  # type: ignore[no-untyped-def]
    """Σ_parents w a(parent), and the parents' weights' share in the gradient."""
    local, total = cell - graph.node_offset[node], 0.0
    for at in range(graph.up_start[node], graph.up_start[node + 1]):
        edge = graph.up_edge[at]
        first = first_parent(graph, edge, local)
        if first < 0:
            continue
        own = 0.0
        for free in range(graph.free_start[edge], graph.free_start[edge + 1]):
            own += cells.slope[first + graph.free_offset[free]]
        gradient[edge] += own * difference
        total += weight[edge] * own
    return total


@inner
def learn_flip(graph, weight, cells, node, cell, slope, gradient):  # type: ignore[no-untyped-def]
    """Derivatives of `slope` · Δ_root, the flip having been tried."""
    root = len(graph.node_offset) - 2
    cells.slope[graph.node_offset[root]] = slope
    for below in range(root - 1, graph.first_parfeature[0] - 1, -1):
        start = graph.node_offset[below]
        for at in range(start, start + cells.num_touched[below]):
            touched = cells.touched[at]
            cells.slope[touched] = 0.0
            if is_gone(cells, touched):
                continue
            difference = cells.fresh[touched] - cells.value[touched]
            by_fresh = pull_slope(graph, weight, cells, below, touched, difference, gradient)
            cells.slope[touched] = by_fresh * cells.fresh[touched]
            cells.by_exponent[touched] += cells.slope[touched]
            cells.by_value[touched] -= by_fresh
    difference = cells.fresh[cell] - cells.value[cell]
    pull_slope(graph, weight, cells, node, cell, difference, gradient)


@entry
def pseudo_likelihood(graph, weight, cells, atom, atom_node, gradient):  # type: ignore[no-untyped-def]
    """Σ log P(atom as it is | all others), and its derivatives, added to `gradient` and `cells`."""
    total = 0.0
    for number in range(len(atom)):
        node, cell = np.int64(atom_node[number]), np.int64(atom[number])
        change = try_flip(graph, weight, cells, node, cell)
        if change > 0:
            total -= change + np.log1p(np.exp(-change))
            flipped = 1.0 / (1.0 + np.exp(-change))
        else:
            total -= np.log1p(np.exp(change))
            flipped = np.exp(change) / (1.0 + np.exp(change))
        learn_flip(graph, weight, cells, node, cell, -flipped, gradient)
        forget(graph, cells)
    return total


@entry
def run_gibbs(graph, weight, cells, atom, atom_node, estimate, world, rng, tallies, num_samples):  # type: ignore[no-untyped-def]
    """Sweeps over the atoms in order, each tallied; the number of flips."""
    flips = 0
    for _ in range(num_samples):
        for number in range(len(atom)):
            node, cell = np.int64(atom_node[number]), np.int64(atom[number])
            change = try_flip(graph, weight, cells, node, cell)
            probability = 1.0 / (1.0 + np.exp(-change))  # of the flip
            is_true = cells.value[cell] > 0.5
            estimate[number] = 1.0 - probability if is_true else probability
            if uniform(rng) < probability:
                commit(graph, cells, node, cell)
                world[number] = 0 if is_true else 1
                flips += 1
            else:
                forget(graph, cells)
        record_sample(tallies, estimate, cells.root_sums, world)
    return flips


@entry
def climb(graph, weight, cells, atom, atom_node, order):  # type: ignore[no-untyped-def]
    """One sweep of iterated conditional modes in an order; the number of flips."""
    flips = 0
    for place in range(len(order)):
        number = order[place]
        node, cell = np.int64(atom_node[number]), np.int64(atom[number])
        if try_flip(graph, weight, cells, node, cell) > 0.0:
            commit(graph, cells, node, cell)
            flips += 1
        else:
            forget(graph, cells)
    return flips
