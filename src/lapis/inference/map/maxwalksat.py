"""MaxWalkSAT and iterated conditional modes: local search for a most likely world.

Kautz, Selman & Jiang (A General Stochastic Approach to Solving Problems with Hard and Soft
Constraints, 1997): repair one violated clause at a time, by the best flip of one of its atoms or,
sometimes, by a random one. A clause of negative weight is violated if true, and repaired by making
a true literal false. A block moves as one variable.

Deviations, after SATLike (Lei & Cai, IJCAI 2018). Atoms whose flip reduces the cost are kept in a
list; while it is not empty, the best of a dozen of them flips, the oldest on ties. Atoms flipped
within the last `tabu` flips are skipped. Only in a local minimum a violated clause is repaired at a
loss, hard ones first. The weight of hard clauses starts at the mean soft weight and grows in every
local minimum that violates them.

What failed: hard clauses heavier than all soft ones and chosen equally often (no feasible world on
maximum clique); repairing random violated clauses throughout, as the original does (80 times the
distance to the optimum on Tuffy's paper classification after a million flips); restarts from random
worlds, which lose the hard clauses: we restart from the best world with some atoms redrawn. Chains
of counters (satellite02ac) stay hard: few seeds find a feasible world.

Iterated conditional modes (Besag, On the Statistical Analysis of Dirty Pictures, 1986): set each
variable in turn to its best value given the others, until nothing changes. Hard clauses outweigh
all soft ones, so a feasible world stays feasible; an infeasible start is repaired by MaxWalkSAT
first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lapis.inference.map.map_objective import ComponentResult, MapObjective
from lapis.runtime.progress import Stop

if TYPE_CHECKING:
    from lapis.inference.map.maxwalksat_kernel import Clauses, MaxWalkSatState


CHUNK = 100_000  # flips between checks of the time
NOISE = 0.1
TABU = 4
REDRAWN = 0.1  # share of atoms redrawn at a restart


def search_world(
    objective: MapObjective,
    *,
    seed: int = 0,
    max_flips: int = 1_000_000,
    restarts: int = 3,
    start: np.ndarray | None = None,
    first_feasible: bool = False,
    stop: Stop | None = None,
) -> ComponentResult:
    """Return the best world found within `restarts` tries of `max_flips` flips each.

    `first_feasible` ends the search at the first world without a violated hard clause.
    """
    from lapis.inference.map.maxwalksat_kernel import advance_walk, begin_walk
    from lapis.inference.random_numbers import random_states

    stop = stop or Stop()
    clauses, walk = prepare(objective, initial_world(objective) if start is None else start)
    step = pressure_step(objective)
    state = random_states(seed, 1)[0]
    rng = np.random.default_rng(seed)
    tabu = min(TABU, objective.num_atoms // 4)
    done = False
    for _ in range(restarts):
        begin_walk(clauses, walk, step)
        last = walk.flips[0] + max_flips
        while not done and walk.flips[0] < last:
            chunk = min(CHUNK, last - walk.flips[0])
            done = advance_walk(clauses, walk, chunk, NOISE, tabu, step, first_feasible, state)
            if stop.is_over():
                break
        if done or stop.is_over():
            break
        best = walk.best if walk.cost[1] < np.inf else walk.world
        walk.world[:] = redraw_some(objective, best, rng)
    flips = int(walk.flips[0])
    if walk.cost[1] == np.inf:
        return ComponentResult(None, np.inf, "maxwalksat", flips=flips)
    return ComponentResult(walk.best, objective.cost(walk.best), "maxwalksat", flips=flips)


def initial_world(objective: MapObjective) -> np.ndarray:
    """Return the world of false atoms, with the first atom of each exactly-one block true."""
    world = np.zeros(objective.num_atoms, bool)
    world[objective.block_atom[objective.block_start[:-1][objective.block_exact]]] = True
    return world


def prepare(objective: MapObjective, start: np.ndarray) -> tuple[Clauses, MaxWalkSatState]:
    """Return the kernels' arrays for a world that respects the blocks."""
    from lapis.inference.map.maxwalksat_kernel import Clauses, MaxWalkSatState
    from lapis.network.components import index_atoms

    atoms, count = objective.num_atoms, objective.num_clauses
    clauses = Clauses(
        objective.clause_start,
        objective.literal,
        np.where(objective.hard, 0.0, objective.weight * objective.scale),
        objective.hard,
        *index_atoms(objective.clause_start, objective.literal, atoms),
        objective.block_start,
        objective.block_atom.astype(np.int32),
        objective.block_exact,
        objective.block_of,
    )
    walk = MaxWalkSatState(
        start.astype(bool),
        start.astype(bool),
        np.zeros(count, np.int32),
        np.zeros(count),
        np.zeros(atoms),
        np.zeros((2, count), np.int32),
        np.zeros(count, np.int32),
        np.zeros(2, np.int64),
        np.zeros(atoms, np.int64),
        np.zeros(atoms, np.int32),
        np.zeros(atoms, np.int32),
        np.zeros(1, np.int64),
        np.zeros(atoms, np.int32),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.array([0.0, np.inf]),
    )
    return clauses, walk


def pressure_step(objective: MapObjective) -> float:
    """Return the initial weight of hard clauses and its increment: the mean soft weight."""
    soft = np.abs(objective.weight[~objective.hard])
    return float(soft.mean()) * objective.scale if len(soft) else 1.0


def redraw_some(objective: MapObjective, world: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Redraw a share of the atoms outside blocks, and of the blocks."""
    changed = world.copy()
    chosen = (rng.random(len(world)) < REDRAWN) & (objective.block_of < 0)
    changed[chosen] = rng.random(int(chosen.sum())) < 0.5
    for block in np.flatnonzero(rng.random(len(objective.block_exact)) < REDRAWN):
        first, last = objective.block_start[block : block + 2]
        atoms = objective.block_atom[first:last]
        choice = rng.integers(len(atoms) + (not objective.block_exact[block]))
        changed[atoms] = np.arange(len(atoms)) == choice
    return changed


def iterate_modes(
    objective: MapObjective,
    *,
    seed: int = 0,
    max_flips: int = 1_000_000,
    start: np.ndarray | None = None,
    stop: Stop | None = None,
) -> ComponentResult:
    """Return a local optimum near `start`; no world if no feasible start was found."""
    from lapis.inference.map.maxwalksat_kernel import begin_walk, sweep_downhill

    world = initial_world(objective) if start is None else start
    flips = 0
    if objective.cost(world) == np.inf:
        found = search_world(
            objective, seed=seed, max_flips=max_flips, first_feasible=True, start=world, stop=stop
        )
        if found.world is None:
            return found
        world, flips = found.world, found.flips
    clauses, walk = prepare(objective, world)
    begin_walk(clauses, walk, 1.0 + float(np.abs(clauses.weight).sum()))
    while sweep_downhill(clauses, walk) and not (stop and stop.is_over()):
        pass
    flips += int(walk.flips[0])
    return ComponentResult(walk.world, objective.cost(walk.world), "icm", flips=flips)
