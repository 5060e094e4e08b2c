"""Whether the hard clauses and blocks of a network leave a world, and if not, which of them.

Unit propagation with reasons, then a search component by component (Davis, Putnam, Logemann &
Loveland 1962), false tried first: the hard rules of models are mostly implications, which that
satisfies at once. A search that takes too many steps ends without an answer; the methods that
need a world find out by themselves. What a refutation used is a first core; rows are taken out of
it, many at a time and then one by one, while the rest is still refuted (deletion-based
minimisation; each refutation leaves only what it used). So every formula of the core is needed
for the contradiction, though another core may be smaller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.network.csr import take_rows
from lapis.network.incidence import index_atoms
from lapis.network.network import Network
from lapis.network.satisfiability_kernel import (
    REFUTED,
    SATISFIED,
    Constraints,
    State,
    search,
)

MAX_STEPS = 20_000_000  # looks at literals, beyond ten for each: well below a second


class HardRows(NamedTuple):
    """Hard clauses, then blocks."""

    num_atoms: int
    start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[...]
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]

    @property
    def num_rows(self) -> int:
        return len(self.start) - 1 + len(self.block_exact)

    def take(self, rows: np.ndarray) -> HardRows:
        """Some of the rows, int64[...] in order, over their atoms only."""
        num_clauses = len(self.start) - 1
        start, literal = take_rows(self.start, self.literal, rows[rows < num_clauses])
        blocks = rows[rows >= num_clauses] - num_clauses
        block_start, block_atom = take_rows(self.block_start, self.block_atom, blocks)
        atoms, place = np.unique(
            np.concatenate((np.abs(literal) - 1, block_atom)), return_inverse=True
        )
        local = place.astype(np.int32)
        return HardRows(
            len(atoms),
            start,
            np.sign(literal) * (local[: len(literal)] + 1),
            block_start,
            local[len(literal) :],
            self.block_exact[blocks],
        )


def find_core(network: Network) -> np.ndarray | None:
    """Hard clauses and blocks (numbered after all clauses) that no world satisfies together.

    int64[...], none of them could be left out; None if there is a world or none was ruled out.
    """
    number, rows = hard_rows(network)
    found = search_world(rows, network.component)
    return number[minimise(rows, found.used)] if found.status == REFUTED else None


def find_world(network: Network) -> np.ndarray | None:
    """bool[num_atoms], a world that satisfies the hard clauses and blocks, if one is found."""
    found = search_world(hard_rows(network)[1], network.component)
    return found.value > 0 if found.status == SATISFIED else None


def hard_rows(network: Network) -> tuple[np.ndarray, HardRows]:
    """The numbers of hard clauses and of blocks, which come after all clauses, and the rows."""
    hard = np.flatnonzero(network.weight_id < 0)
    number = np.concatenate((hard, network.num_clauses + np.arange(network.num_blocks)))
    return number, HardRows(
        network.num_atoms,
        *take_rows(network.clause_start, network.literal, hard),
        network.block_start,
        network.block_atom,
        network.block_exact,
    )


class Searched(NamedTuple):
    status: int  # REFUTED, SATISFIED or UNKNOWN
    used: np.ndarray  # int64[...], the rows of a refutation
    value: np.ndarray  # int8[num_atoms], 1 true, −1 false, 0 either


def search_world(rows: HardRows, component: np.ndarray) -> Searched:
    """A world, a refutation, or neither within the steps allowed."""
    involved = np.zeros(rows.num_atoms, bool)
    involved[np.abs(rows.literal) - 1] = True
    involved[rows.block_atom] = True
    atoms = np.flatnonzero(involved)
    order = atoms[np.argsort(component[atoms], kind="stable")]
    block_of = np.full(rows.num_atoms, -1, np.int32)
    block_of[rows.block_atom] = np.repeat(
        np.arange(len(rows.block_exact), dtype=np.int32), np.diff(rows.block_start)
    )
    constraints = Constraints(
        rows.start,
        rows.literal,
        *index_atoms(rows.start, rows.literal, rows.num_atoms),
        rows.block_start,
        rows.block_atom,
        rows.block_exact,
        block_of,
    )
    used = np.zeros(rows.num_rows, bool)
    limit = MAX_STEPS + 10 * len(rows.literal)
    state = new_state(rows)
    status = search(constraints, state, order.astype(np.int32), component, limit, used)
    return Searched(status, np.flatnonzero(used), state.value)


def new_state(rows: HardRows) -> State:
    return State(
        np.zeros(rows.num_atoms, np.int8),
        np.full(rows.num_atoms, -1, np.int64),
        np.full(rows.num_atoms, -1, np.int32),
        np.empty(rows.num_atoms, np.int32),
        np.zeros(rows.num_rows, np.int64),
        np.zeros(rows.num_rows, np.int64),
        np.empty(rows.num_atoms, np.int32),
        np.zeros(rows.num_atoms, bool),
    )


def minimise(rows: HardRows, core: np.ndarray) -> np.ndarray:
    """A core within this one of which every row is needed."""
    size = max(1, len(core) // 2)
    while True:
        for chunk in [core[at : at + size] for at in range(0, len(core), size)]:
            left = np.setdiff1d(core, chunk)
            part = rows.take(left)
            found = search_world(part, np.zeros(part.num_atoms, np.int32))
            if found.status == REFUTED:
                core = left[found.used]
        if size == 1:
            return core
        size = min(max(1, size // 4), max(1, len(core) // 2))


def contradiction(network: Network, component: int) -> LapisError:
    """The error of a component without a world: it names atoms of a core, if one is found."""
    core = find_core(network)
    if core is None:
        atoms = np.flatnonzero(network.component == component)
    else:
        atoms = row_atoms(network, core)
    base = atoms[atoms < network.num_base_atoms]
    names = ", ".join(network.atom_names(base[:5]))
    more = f" and {len(base) - 5} more" if len(base) > 5 else ""
    return LapisError(
        f"no world satisfies the hard formulas: they contradict each other over {names}{more}",
        code="unsatisfiable",
        hint="lapis check shows the hard formulas; remove the final period of one to make it soft",
    )


def row_atoms(network: Network, core: np.ndarray) -> np.ndarray:
    """int64[...], the atoms of hard clauses and blocks, in order."""
    _, literal = take_rows(network.clause_start, network.literal, core[core < network.num_clauses])
    blocks = core[core >= network.num_clauses] - network.num_clauses
    _, members = take_rows(network.block_start, network.block_atom, blocks)
    return np.unique(np.concatenate((np.abs(literal) - 1, members))).astype(np.int64)
