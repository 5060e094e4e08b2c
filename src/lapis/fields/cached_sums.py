"""The arrays that kernels walk: a ground field as a `FieldCellGraph`, a world of it as `Cells`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.fields.flips_kernel import Cells, FieldCellGraph, FieldUnits
from lapis.fields.ground import FieldEdge, GroundField, Node
from lapis.fields.passes import evaluate
from lapis.network.csr import row_starts


@dataclass(frozen=True)
class CachedField:
    """A ground field with what its flips need."""

    ground: GroundField

    @cached_property
    def graph(self) -> FieldCellGraph:
        nodes, edges = self.ground.nodes, self.ground.edges
        above = [
            [number for number, edge in enumerate(edges) if edge.child == child]
            for child in range(len(nodes))
        ]
        places = [edge_places(edge, nodes[edge.child], nodes[edge.parent]) for edge in edges]
        free = [free_offsets(edge, nodes[edge.parent]) for edge in edges]
        root_slot = np.full(len(edges), -1, np.int64)
        root_slot[self.ground.root_edges] = np.arange(len(self.ground.root_edges))
        columns = np.ascontiguousarray(np.concatenate([np.empty((0, 6), np.int64), *places]).T)
        arrays = [
            np.array([*(node.offset for node in nodes), self.ground.num_cells], np.int64),
            np.array([self.ground.first_parfeature], np.int64),
            row_starts([*map(len, above)]),
            np.array([number for group in above for number in group], np.int64),
            np.array([edge.parent for edge in edges], np.int64),
            row_starts([*map(len, places)]),
            *columns,
            row_starts([*map(len, free)]),
            np.concatenate([np.empty(0, np.int64), *free]),
            root_slot,
        ]
        return FieldCellGraph._make(arrays)

    @cached_property
    def units(self) -> FieldUnits:
        """What flips together."""
        ground, units = self.ground, self.ground.units
        cell = ground.cell[units.atom]
        # Of the nodes that have cells, the last that begins there or before.
        nodes = np.flatnonzero([node.size for node in ground.nodes])
        begins = np.array([ground.nodes[node].offset for node in nodes], np.int64)
        node = nodes[np.searchsorted(begins, cell[units.start[:-1]], "right") - 1]
        return FieldUnits(units.start, units.atom, cell, node, units.exact)

    def start(self, weights: np.ndarray, world: np.ndarray) -> Cells:
        """A world bool[num_unknown] with everything computed afresh."""
        ground = self.ground
        values = evaluate(ground, weights, world[None].astype(bool))
        table = np.zeros((ground.num_cells, 5))
        table[:, 0], table[:, 1] = values.value[0], values.exponent[0]
        sums = [values.sums[edge][0] for edge in ground.root_edges]
        return Cells(
            table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4],
            np.array(sums, np.float64).reshape(-1),
            np.zeros(ground.num_cells, np.int64),
            np.zeros(len(ground.nodes), np.int64),
            np.zeros(1 + int(np.diff(ground.units.start).max(initial=0))),
        )  # fmt: skip

    def refresh(self, cells: Cells, weights: np.ndarray, world: np.ndarray) -> None:
        """Compute everything afresh, so that rounding does not add up over millions of flips."""
        after = self.start(weights, world)
        for name in ("value", "exponent", "root_sums"):
            getattr(cells, name)[:] = getattr(after, name)


def edge_places(edge: FieldEdge, child: Node, parent: Node) -> np.ndarray:
    """int64[num_places, 6]: the columns of `FieldCellGraph`, without places that add nothing."""
    rows = []
    first: dict[int, int] = {}
    for number, place in enumerate(edge.places):
        variable = -1 - place
        same = first.get(variable, -1) if place < 0 else -1
        first.setdefault(variable, number)
        told = place < 0 and same < 0 and variable < edge.num_parameters
        if place >= 0 or same >= 0 or told:
            rows.append(
                (
                    child.strides[number],
                    child.shape[number],
                    place if place >= 0 else -1,
                    child.strides[same] if same >= 0 else 0,
                    child.shape[same] if same >= 0 else 1,
                    parent.strides[variable] if told else 0,
                )
            )
    return np.array(rows, np.int64).reshape(-1, 6)


def free_offsets(edge: FieldEdge, parent: Node) -> np.ndarray:
    """int64[...], offsets in the parent's table over the parameters that the child has not."""
    found = np.zeros(1, np.int64)
    for parameter in range(edge.num_parameters):
        if -1 - parameter not in edge.places:
            steps = np.arange(parent.shape[parameter]) * parent.strides[parameter]
            found = (found[:, None] + steps).ravel()
    return found
