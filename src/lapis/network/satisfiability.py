"""Check whether a world satisfies the hard clauses and blocks, and find a contradictory core.

Glucose searches by conflict-driven clause learning (Audemard and Simon 2009, "Predicting Learnt
Clauses Quality in Modern SAT Solvers"; through PySAT). It tries false first, which satisfies most
hard rules immediately, since they are implications. A search beyond its budget of propagations ends
without a result.

For a core, each row (clause or block) gets a selector variable that activates it, and all selectors
are assumed: those in the refutation form a first core. Rows are removed, many at a time and then
one by one, as long as the rest is still refuted (deletion-based minimisation; each refutation keeps
only the rows it used). So every row of the core is needed, though another core may be smaller. If
the budget for minimisation ends early, some rows may not be needed.

What did not work: a search without clause learning in our own kernels read a million clauses half a
second faster, but did not finish 150 atoms with clauses of three, which clause learning refutes in
0.02 s. CaDiCaL is as strong, and takes twice as long as Glucose to read a large network.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.network.csr import take_rows
from lapis.network.network import Network

if TYPE_CHECKING:
    from pysat.solvers import Glucose42

MAX_PROPAGATIONS = 5_000_000  # of a search, beyond ten for each atom: three seconds on 350 atoms
MAX_CONFLICTS = 30_000  # of a search: about a second where propagation is slow
MAX_MINIMISING = 20_000_000  # propagations of all searches for a smaller core


class HardRows(NamedTuple):
    """Hard clauses, then blocks."""

    num_atoms: int
    start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[...]
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]


class Propositional(NamedTuple):
    """Rows encoded as clauses over the atoms, numbered from 1, and further variables."""

    clause: list[list[int]]
    row: np.ndarray  # int64[num_clauses], the row of each clause
    num_variables: int


def find_core(network: Network) -> np.ndarray | None:
    """Find hard clauses and blocks (numbered after all clauses) that no world satisfies together.

    Return int64[...], in order; None if a world exists or the search ended without a result.
    """
    number, rows = collect_hard_rows(network)
    clauses = encode_rows(rows)
    if solve_within_budget(new_solver(clauses.clause), network.num_atoms) is not False:
        return None
    return number[minimise_core(clauses)]


def find_world(network: Network, near: np.ndarray | None = None) -> np.ndarray | None:
    """Find a world bool[num_atoms] that satisfies the hard clauses and blocks.

    The search tries the values of `near`, bool[num_atoms], first.
    """
    solver = new_solver(encode_rows(collect_hard_rows(network)[1]).clause)
    if near is not None:
        atom = np.arange(1, network.num_atoms + 1)
        solver.set_phases(np.where(near, atom, -atom).tolist())
    if not solve_within_budget(solver, network.num_atoms):
        return None
    value = np.array(solver.get_model()[: network.num_atoms], np.int64) > 0
    world = np.zeros(network.num_atoms, bool)  # atoms after the last one of a row are in no model
    world[: len(value)] = value
    return world


def collect_hard_rows(network: Network) -> tuple[np.ndarray, HardRows]:
    """Return the hard clauses and blocks with their numbers; blocks follow all clauses."""
    hard = np.flatnonzero(network.weight_id < 0)
    number = np.concatenate((hard, network.num_clauses + np.arange(network.num_blocks)))
    return number, HardRows(
        network.num_atoms,
        *take_rows(network.clause_start, network.literal, hard),
        network.block_start,
        network.block_atom,
        network.block_exact,
    )


def encode_rows(rows: HardRows) -> Propositional:
    """Encode the rows as clauses, such that unit propagation is complete on blocks.

    "At most one of a₁ … a_n" uses a ladder of variables s_i, "one of a₁ … a_i is true":
    a_i ⇒ s_i, s_i ⇒ s_{i+1} and s_i ⇒ ¬a_{i+1}.
    """
    literal, atom = rows.literal.tolist(), rows.block_atom.astype(np.int64) + 1
    member, ends = atom.tolist(), list(pairwise(rows.block_start.tolist()))
    exact = np.flatnonzero(rows.block_exact)
    block = np.repeat(np.arange(len(ends)), np.diff(rows.block_start))
    step = np.flatnonzero(block[1:] == block[:-1])  # atoms with another of their block after them
    ladder = rows.num_atoms + 1 + np.arange(len(step))
    on = np.flatnonzero(np.diff(step) == 1)
    pairs = np.concatenate(
        (
            np.column_stack((-atom[step], ladder)),
            np.column_stack((-ladder, -atom[step + 1])),
            np.column_stack((-ladder[on], ladder[on + 1])),
        )
    )
    owner, count = np.concatenate((step, step, step[on])), len(rows.start) - 1
    return Propositional(
        [literal[first:last] for first, last in pairwise(rows.start.tolist())]
        + [member[slice(*ends[number])] for number in exact.tolist()]
        + pairs.tolist(),
        np.concatenate((np.arange(count), count + exact, count + block[owner])),
        rows.num_atoms + len(step),
    )


def new_solver(clauses: Iterable[list[int]]) -> Glucose42:
    """Create a solver with these clauses."""
    from pysat.solvers import Glucose42

    return Glucose42(bootstrap_with=clauses)


def solve_within_budget(
    solver: Glucose42, num_atoms: int, assumed: Iterable[int] = ()
) -> bool | None:
    """Return whether a world satisfies the assumed literals; None if the budget ends."""
    solver.prop_budget(MAX_PROPAGATIONS + 10 * num_atoms)
    solver.conf_budget(MAX_CONFLICTS)
    found: bool | None = solver.solve_limited(assumptions=list(assumed))
    return found


def minimise_core(clauses: Propositional) -> np.ndarray:
    """Return int64[...], a minimal set of contradictory rows, given that all rows contradict."""
    first = clauses.num_variables + 1
    selected = zip(clauses.clause, (-first - clauses.row).tolist(), strict=True)
    solver = new_solver([selector, *clause] for clause, selector in selected)
    core = np.unique(clauses.row)

    def refute(rows: np.ndarray) -> np.ndarray | None:
        if solve_within_budget(solver, clauses.num_variables, (first + rows).tolist()) is not False:
            return None
        return np.sort(np.array(solver.get_core() or [], np.int64)) - first

    core = core if (found := refute(core)) is None else found
    size = max(1, len(core) // 2)
    while True:
        for chunk in [core[at : at + size] for at in range(0, len(core), size)]:
            if solver.accum_stats()["propagations"] > MAX_MINIMISING:
                return core
            if (found := refute(np.setdiff1d(core, chunk))) is not None:
                core = found
        if size == 1:
            return core
        size = min(max(1, size // 4), max(1, len(core) // 2))


def contradiction_error(network: Network, component: int) -> LapisError:
    """Create the error for a component without a world, with atoms of a core if one is found."""
    core = find_core(network)
    if core is None:
        return contradiction_over(network, np.flatnonzero(network.component == component))
    return contradiction_over(network, row_atoms(network, core))


def contradiction_over(network: Network, atoms: np.ndarray) -> LapisError:
    """The error of hard formulas that no assignment of these atoms satisfies."""
    base = atoms[atoms < network.num_base_atoms]
    names = ", ".join(network.atom_names(base[:5]))
    more = f" and {len(base) - 5} more" if len(base) > 5 else ""
    return LapisError(
        f"no world satisfies the hard formulas: they contradict each other over {names}{more}",
        code="unsatisfiable",
        hint="lapis check shows the hard formulas; remove the final period of one to make it soft",
    )


def row_atoms(network: Network, core: np.ndarray) -> np.ndarray:
    """Return int64[...], the atoms of hard clauses and blocks, in order."""
    _, literal = take_rows(network.clause_start, network.literal, core[core < network.num_clauses])
    blocks = core[core >= network.num_clauses] - network.num_clauses
    _, members = take_rows(network.block_start, network.block_atom, blocks)
    return np.unique(np.concatenate((np.abs(literal) - 1, members))).astype(np.int64)
