"""Junction trees in elimination order: log Z, beliefs, most likely states and samples.

Eliminating variable v joins all factors with v in one table over its clique {v} ∪ S, with S the
remaining neighbours, and sends a message to the clique of the first variable of S to be eliminated,

    m(S) = log Σ_v exp ψ(v, S)        (max_v instead of log Σ exp for the most likely world)

(bucket elimination, Dechter 1999; junction trees, Lauritzen & Spiegelhalter 1988). Downwards from
the roots, the belief of a clique is b(v, S) = b(S)·exp(ψ(v, S) − m(S)) with b(S) summed out of the
parent's belief; a sample or a maximiser picks v given S. Tables are logarithms, −∞ if forbidden;
beliefs are probabilities.

Axes of a table are sorted by time of elimination, the earliest last. So a message is the sum of the
table's contiguous rows, and has its axes in the same order as the table that receives it. All
components of a network are one forest and one kernel call.

If messages are large, a first pass maximises over the whole parts of scores (`compensated_sums`).
Its tables less their messages, ψ − m ≤ 0, add up exactly to the whole part of a world's score less
that of the best; the tables of the rests start with them.

Variables may be left out of the order. Messages over these only leave the forest; they are the
factors of the core in `reduction`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.compensated_sums import any_large, split_scores
from lapis.inference.exact.junction_tree_kernel import (
    collect_cliques,
    distribute_cliques,
    distribute_logs,
    form_tree,
    pick_states,
    subtract_messages,
)
from lapis.network.csr import narrow_starts, row_starts
from lapis.network.cubes import Cubes
from lapis.runtime.progress import Stop

WORK_NAME = "exact inference"  # in error messages
ROOT = -1  # no neighbours left: the message is a number
CORE = -2  # only neighbours that are never eliminated
MAX_UNIFORMS = 1 << 20  # random numbers in memory at a time
SLICE_ENTRIES = 1 << 22  # table entries between checks of `stop`
UNDERFLOW = 1e-290  # beliefs below this have lost digits
LARGE_SUM = 1e6  # beyond this, sums have fewer than ten decimals


class JunctionTree(NamedTuple):
    """Cliques in order of elimination. Starts are int32 if these are wide enough, else int64."""

    order: np.ndarray  # int32[num_cliques], the variable eliminated
    scope_start: np.ndarray  # int[num_cliques + 1]
    scope_variable: np.ndarray  # int32[...], S of each clique, latest eliminated first
    parent: np.ndarray  # int32[num_cliques], the clique that takes the message, ROOT or CORE
    cube_start: np.ndarray  # int[num_cliques + 1]
    cube: np.ndarray  # int32[...], the cubes that enter each clique
    table_start: np.ndarray  # int[num_cliques + 1]
    message_start: np.ndarray  # int[num_cliques + 1]

    @property
    def num_bytes(self) -> int:
        """The memory of tables and messages."""
        return 8 * (int(self.table_start[-1]) + int(self.message_start[-1]))

    def scope(self, clique: int) -> np.ndarray:
        return self.scope_variable[self.scope_start[clique] : self.scope_start[clique + 1]]


class Potentials(NamedTuple):
    """The upward pass: ψ and m of each clique."""

    table: np.ndarray  # float64[table_start[-1]]
    message: np.ndarray  # float64[message_start[-1]]
    base: np.ndarray  # float64[num_roots], whole parts, not in the messages of roots

    def root_values(self, tree: JunctionTree) -> tuple[np.ndarray, np.ndarray]:
        """Return the root cliques, and log Z, or the best score, of their components."""
        roots = np.flatnonzero(tree.parent == ROOT)
        return roots, self.base + self.message[tree.message_start[roots]]


class CliqueBeliefs(NamedTuple):
    """The downward pass."""

    state: np.ndarray  # float64[num_states], probability of each state of each variable
    cube: np.ndarray  # float64[num_cubes], probability of each cube that entered a clique


def build_tree(cubes: Cubes, order: np.ndarray) -> JunctionTree:
    """Return the cliques of an elimination order; the tables must be small enough to index."""
    order = order.astype(np.int32)
    scope_start, scope_variable, parent, cube_start, cube, messages = form_tree(
        cubes.size, cubes.start, cubes.variable, order
    )
    return JunctionTree(
        order,
        narrow_starts(scope_start),
        scope_variable,
        parent,
        narrow_starts(cube_start),
        cube,
        narrow_starts(row_starts(messages * cubes.size[order])),
        narrow_starts(row_starts(messages)),
    )


def collect_messages(
    tree: JunctionTree,
    cubes: Cubes,
    penalty: np.ndarray,
    maximise: bool = False,
    stop: Stop | None = None,
    work: tuple[np.ndarray, np.ndarray] | None = None,
    split: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None,
) -> Potentials:
    """Run the upward pass, with the score of each cube, float64[num_cubes].

    `work` is work space that the caller may provide. `split` returns whole parts and rests of the
    scores, if the caller has their factors.
    """
    table = np.zeros(tree.table_start[-1])
    message = np.empty(tree.message_start[-1])
    work = work or work_space(tree, cubes.size)

    def pass_up(score: np.ndarray, maximise: bool) -> None:
        for first, last in clique_batches(tree, stop):
            collect_cliques(tree, cubes, score, maximise, table, message, first, last, *work)
            if stop is not None:
                stop.check(WORK_NAME)

    roots = tree.message_start[np.flatnonzero(tree.parent == ROOT)]
    if not any_large(penalty):
        pass_up(penalty, maximise)
        largest = max(message.max(initial=0.0), -message[roots].min(initial=0.0))
        if largest <= LARGE_SUM or largest == np.inf:
            return Potentials(table, message, np.zeros(len(roots)))
        table[:] = 0.0
    whole, rest = split_scores(penalty, 1.0) if split is None else split()
    pass_up(whole, True)
    base = message[roots]
    subtract_messages(tree, cubes.size, table, message)
    pass_up(rest, maximise)
    return Potentials(table, message, base)


def clique_batches(tree: JunctionTree, stop: Stop | None) -> list[tuple[int, int]]:
    """Return batches of cliques between which `stop` is checked."""
    cuts = np.array([0, len(tree.order)])
    if stop is not None:
        inside = np.arange(SLICE_ENTRIES, tree.table_start[-1], SLICE_ENTRIES)
        cuts = np.unique(np.append(cuts, np.searchsorted(tree.table_start[:-1], inside)))
    return list(pairwise(cuts.tolist()))


def distribute_beliefs(
    tree: JunctionTree,
    cubes: Cubes,
    potentials: Potentials,
    core_belief: np.ndarray | None = None,
    overwrite: bool = False,
    stop: Stop | None = None,
) -> CliqueBeliefs:
    """Run the downward pass after `collect_messages` by sums.

    `core_belief`, float64[message_start[-1]], holds P(S) of the cliques whose parent is CORE.
    `overwrite` reuses the memory of the tables, which are lost.
    """
    belief = potentials.table if overwrite else np.empty_like(potentials.table)
    outside = np.empty(0) if core_belief is None else core_belief
    state_start = row_starts(cubes.size)
    state = np.zeros(state_start[-1])
    cube = np.zeros(len(cubes.clause))
    work = (*work_space(tree, cubes.size), np.empty(longest_row(tree.message_start)))
    for first, last in reversed(clique_batches(tree, stop)):
        distribute_cliques(
            tree, cubes, potentials.table, potentials.message, outside, belief, state_start, state,
            cube, first, last, *work,
        )  # fmt: skip
        if stop is not None:
            stop.check(WORK_NAME)
    return CliqueBeliefs(state, cube)


def log_states(
    tree: JunctionTree, size: np.ndarray, potentials: Potentials, beliefs: CliqueBeliefs
) -> np.ndarray:
    """Return the logarithm of each belief, however small, float64[num_states]; the tables are lost.

    States of variables that are not eliminated have 0.
    """
    start = row_starts(size)
    is_solved = np.zeros(len(size), bool)
    is_solved[tree.order] = True
    solved = np.repeat(is_solved, size)
    state = np.zeros(start[-1])
    if (beliefs.state[solved] < UNDERFLOW).any():
        peak, above = np.empty((2, longest_row(tree.message_start)))
        distribute_logs(
            tree, size, potentials.table, potentials.message, start, state,
            *work_space(tree, size), peak, above,
        )  # fmt: skip
    else:
        state[solved] = np.log(beliefs.state[solved])
    return state


def work_space(tree: JunctionTree, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the axis of each variable in one clique, and strides, counts, starts and digits."""
    return np.zeros(len(size), np.int32), np.zeros((8, longest_row(tree.scope_start) + 1), np.int64)


def longest_row(start: np.ndarray) -> int:
    """Return the length of the longest row, at least 1."""
    return int(np.diff(start).max(initial=1))


def maximise_states(
    tree: JunctionTree, size: np.ndarray, potentials: Potentials, state: np.ndarray
) -> None:
    """Set the eliminated variables in `state`, int32[num_variables], to a best choice."""
    pick_states(tree, size, potentials.table, potentials.message, np.empty((0, 0)), state[None])


def sample_states(
    tree: JunctionTree,
    size: np.ndarray,
    potentials: Potentials,
    states: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Draw the eliminated variables in all rows of `states`, int32[num_worlds, num_variables]."""
    at_once = max(1, MAX_UNIFORMS // max(1, len(tree.order)))
    for first in range(0, len(states), at_once):
        rows = states[first : first + at_once]
        uniform = rng.random((len(rows), len(tree.order)))
        pick_states(tree, size, potentials.table, potentials.message, uniform, rows)
