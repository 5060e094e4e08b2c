"""Gibbs sampling and iterated conditional modes (ICM) of a field's unknown atoms.

Thesis section 3.3. `CachedField` holds the arrays that the kernels in `flips_kernel` use.

`FieldGibbs` has the protocol of all samplers (`inference.sampling.sampler`). Its network has atoms
and no clauses; its counts are the sums Σ f of the root's children. Marginals are averages of the
conditional probabilities with which atoms were drawn. Chains start in random worlds. With
`start_at_modes` they start in the local modes that ICM finds from there, which shortens the burn-in
according to the thesis. It is not the default: chains that start in the same mode agree from the
first sample on, even if there are other modes.

ICM moves each atom or block to its most likely state until nothing changes, from several random
worlds (the thesis mentions restarts as a possible improvement). A sweep costs as much as one of
Gibbs sampling. The result is a local optimum.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.fields.field_flips_kernel import (
    Cells,
    FieldCellGraph,
    FieldUnits,
    run_field_gibbs,
    sweep_icm,
)
from lapis.fields.ground_field import FieldEdge, GroundField, Node, evaluate_worlds
from lapis.inference.sampling.starting_worlds import random_world
from lapis.inference.sampling.tally import Tallies, new_tallies
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.runtime.progress import Progress, Report, Stop


@dataclass(frozen=True)
class CachedField:
    """A ground field with the arrays of the kernels."""

    ground: GroundField

    @cached_property
    def graph(self) -> FieldCellGraph:
        nodes, edges = self.ground.nodes, self.ground.edges
        above = [
            [number for number, edge in enumerate(edges) if edge.child == child]
            for child in range(len(nodes))
        ]
        places = [list_edge_places(edge, nodes[edge.child], nodes[edge.parent]) for edge in edges]
        free = [list_free_offsets(edge, nodes[edge.parent]) for edge in edges]
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
        """The sets of atoms that are drawn together, with their cells."""
        ground, units = self.ground, self.ground.units
        cell = ground.cell[units.atom]
        # The last node with cells that begins at or before the cell.
        nodes = np.flatnonzero([node.size for node in ground.nodes])
        begins = np.array([ground.nodes[node].offset for node in nodes], np.int64)
        node = nodes[np.searchsorted(begins, cell[units.start[:-1]], "right") - 1]
        return FieldUnits(units.start, units.atom, cell, node, units.exact)

    def start(self, weights: np.ndarray, world: np.ndarray) -> Cells:
        """Compute all values of a world bool[num_unknown]."""
        ground = self.ground
        values = evaluate_worlds(ground, weights, world[None].astype(bool))
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
        """Compute all values again, so that rounding errors do not accumulate."""
        after = self.start(weights, world)
        for name in ("value", "exponent", "root_sums"):
            getattr(cells, name)[:] = getattr(after, name)


def list_edge_places(edge: FieldEdge, child: Node, parent: Node) -> np.ndarray:
    """Return int64[num_places, 6], the place columns of `FieldCellGraph`.

    Places of variables that occur once and are summed over are left out.
    """
    rows = []
    first: dict[int, int] = {}
    for number, place in enumerate(edge.places):
        variable = -1 - place
        same = first.get(variable, -1) if place < 0 else -1
        first.setdefault(variable, number)
        is_parameter = place < 0 and same < 0 and variable < edge.num_parameters
        if place >= 0 or same >= 0 or is_parameter:
            rows.append(
                (
                    child.strides[number],
                    child.shape[number],
                    place if place >= 0 else -1,
                    child.strides[same] if same >= 0 else 0,
                    child.shape[same] if same >= 0 else 1,
                    parent.strides[variable] if is_parameter else 0,
                )
            )
    return np.array(rows, np.int64).reshape(-1, 6)


def list_free_offsets(edge: FieldEdge, parent: Node) -> np.ndarray:
    """Return the offsets in the parent's table over the parameters that the child lacks."""
    found = np.zeros(1, np.int64)
    for parameter in range(edge.num_parameters):
        if -1 - parameter not in edge.places:
            steps = np.arange(parent.shape[parameter]) * parent.strides[parameter]
            found = (found[:, None] + steps).ravel()
    return found


REFRESH = 1024  # sweeps between recomputations of all values


class FieldGibbsPlan(NamedTuple):
    """The data that all chains share."""

    network: Network
    weights: np.ndarray  # float64[num_weights], of all parfeatures
    ergodic: bool | None


class FieldGibbsState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    cells: Cells
    world: np.ndarray  # uint8[num_unknown]
    estimate: np.ndarray  # float64[num_unknown], P(atom | rest) at its last update
    sweeps: np.ndarray  # int64[1]
    rng: np.ndarray  # uint64[4]


class FieldGibbsInfo(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # atoms or blocks that changed


@dataclass(frozen=True)
class FieldGibbs:
    """One sample is one sweep over all unknown atoms."""

    cached: CachedField
    weights: np.ndarray  # float64[num_weights]
    start_at_modes: bool = False
    name: str = "gibbs"

    def prepare(self, network: Network) -> FieldGibbsPlan:
        """Return the plan; `network` is that of the ground field."""
        return FieldGibbsPlan(network, self.weights, True)

    def start(self, plan: FieldGibbsPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        generator = np.random.default_rng(rng)
        world = random_world(plan.network, chain, generator).astype(bool)
        if self.start_at_modes:
            world, _ = climb_to_mode(self.cached, plan.weights, world, generator)
        return world

    def init(self, plan: FieldGibbsPlan, world: np.ndarray, rng: np.ndarray) -> FieldGibbsState:
        size = len(self.cached.ground.cell)
        return FieldGibbsState(
            self.cached.start(plan.weights, world),
            world[:size].astype(np.uint8),
            np.zeros(size),
            np.zeros(1, np.int64),
            rng,
        )

    def reweigh(
        self, plan: FieldGibbsPlan, state: FieldGibbsState, weights: np.ndarray
    ) -> tuple[FieldGibbsPlan, FieldGibbsState]:
        """Continue a chain with other weights of the root, float64[num_root_weights]."""
        all_weights = plan.weights.copy()
        all_weights[self.cached.ground.root_edges] = weights
        self.cached.refresh(state.cells, all_weights, state.world)
        after = plan._replace(network=plan.network.with_weights(weights), weights=all_weights)
        return after, state

    def step(
        self, plan: FieldGibbsPlan, state: FieldGibbsState, tallies: Tallies, num_samples: int
    ) -> FieldGibbsInfo:
        ground, changes, done = self.cached.ground, 0, 0
        while done < num_samples:
            # Refresh at fixed sweeps, so that results do not depend on `num_samples`.
            now = min(num_samples - done, REFRESH - int(state.sweeps[0]) % REFRESH)
            changes += run_field_gibbs(
                self.cached.graph, plan.weights, state.cells, self.cached.units, state.estimate,
                state.world, state.rng, tallies, now,
            )  # fmt: skip
            state.sweeps[0] += now
            done += now
            if state.sweeps[0] % REFRESH == 0:
                self.cached.refresh(state.cells, plan.weights, state.world)
        return FieldGibbsInfo(num_samples * len(ground.cell), changes)

    def work(self, plan: FieldGibbsPlan, state: FieldGibbsState) -> float:
        return float(plan.network.num_atoms)

    def counts(self, state: FieldGibbsState) -> np.ndarray:
        return state.cells.root_sums

    def world(self, state: FieldGibbsState) -> np.ndarray:
        return state.world.astype(bool)


def run_sweeps(
    cached: CachedField, weights: np.ndarray, world: np.ndarray, rng: np.ndarray, num_sweeps: int
) -> np.ndarray:
    """Return bool[num_unknown], the world after some Gibbs sweeps."""
    after, estimate = world.astype(np.uint8), np.zeros(len(world))
    tallies = new_tallies(len(world), np.zeros(len(cached.ground.root_edges)))
    cells = cached.start(weights, world)
    for _ in range(num_sweeps):  # one call a sweep, so that Ctrl-C and limits come through
        run_field_gibbs(
            cached.graph, weights, cells, cached.units, estimate, after, rng, tallies, 1
        )
    return after.astype(bool)


NUM_STARTS = 20


class IcmResult(NamedTuple):
    world: np.ndarray  # bool[num_unknown]
    score: float  # log of its unnormalised probability
    starts: int
    interrupted: bool


def climb_to_mode(
    cached: CachedField, weights: np.ndarray, world: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Run ICM; return a local optimum bool[num_unknown] and its log unnormalised probability."""
    ground = cached.ground
    cells = cached.start(weights, world)
    order = rng.permutation(len(cached.units.node))
    while sweep_icm(cached.graph, weights, cells, cached.units, order):
        pass
    best = cells.value[ground.cell] > 0.5
    after = cached.start(weights, best)
    return best, float(after.exponent[ground.nodes[ground.root].offset])


def find_mode(
    cached: CachedField,
    weights: np.ndarray,
    *,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> IcmResult:
    """Return the best local optimum from all false, all true and random worlds."""
    rng, network = np.random.default_rng(seed), cached.ground.network
    began, best, best_score = time.monotonic(), np.zeros(network.num_base_atoms, bool), -np.inf
    for number in range(NUM_STARTS):
        if number > 0 and stop is not None and stop.is_over():
            return IcmResult(best, best_score, number, stop())
        start = random_world(network, number, rng).astype(bool)
        try:
            found, score = climb_to_mode(cached, weights, start, rng)
        except KeyboardInterrupt:
            if number == 0:
                raise
            return IcmResult(best, best_score, number, True)
        if score > best_score:
            best, best_score = found, score
        if progress is not None:
            seconds = time.monotonic() - began
            progress(Progress("searching", number + 1, NUM_STARTS, seconds, {"score": best_score}))
    return IcmResult(best, best_score, NUM_STARTS, False)
