"""Bayesian networks whose conditional distributions are decision trees.

A circuit learned by splits is equivalent to such a network; with an edge cost of 0 only the network
is learned, as in WinMine (Lowd, thesis 2010, section 5.7.2). A tree node is a distribution of its
variable. It is a leaf, or has one child for each state of the variable on which it is split. The
first nodes are the roots, one for each variable. On complete rows the network is faster than its
circuit: one walk down each tree.

Children are numbered in the order of the splits, on which the size of a circuit made by the same
splits depends (`compile_network.py`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import min_fill_width
from lapis.inference.random_numbers import random_states, uniform
from lapis.network.csr import row_starts
from lapis.runtime.kernels import allocating_entry, entry, inner
from lapis.runtime.views import count_noun, short_repr


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TreeNetwork:
    names: tuple[str, ...]  # of variables
    states: tuple[tuple[str, ...], ...]  # of each variable
    variable: np.ndarray  # int32[num_distributions]
    split_on: np.ndarray  # int32[num_distributions], -1 for a leaf
    first_child: np.ndarray  # int32[num_distributions], that of state 0; -1 for a leaf
    first_parameter: np.ndarray  # int64[num_distributions], -1 unless it is a leaf
    log_parameter: np.ndarray  # float64[num_parameters]

    def __repr__(self) -> str:
        counts = [
            count_noun(len(self.names), "variable"),
            count_noun(self.num_leaves, "distribution"),
        ]
        return short_repr("TreeNetwork", "", counts)

    def log_likelihoods(self, rows: np.ndarray) -> np.ndarray:
        """Score complete rows.

        Parameters
        ----------
        rows
            int[num_rows, num_variables], states.

        Returns
        -------
        numpy.ndarray
            float64[num_rows], log P.
        """
        return _log_likelihoods(tree_arrays(self), np.ascontiguousarray(rows, np.int32))

    def parents(self) -> list[set[int]]:
        """The variables on which each variable's tree is split."""
        found: list[set[int]] = [set() for _ in self.names]
        for own, parent in zip(self.variable.tolist(), self.split_on.tolist(), strict=True):
            if parent >= 0:
                found[own].add(parent)
        return found

    @property
    def num_leaves(self) -> int:
        """The leaves of all trees."""
        return int((self.split_on < 0).sum())

    @property
    def num_parameters(self) -> int:
        return len(self.log_parameter)

    def given(self, row: np.ndarray) -> TreeNetwork:
        """Condition on the observed states of a row.

        A node that is split on an observed variable is replaced by its child. The other states of
        an observed variable get the parameter 0, so the sum over all worlds is P(row).

        Parameters
        ----------
        row
            int[num_variables], states; negative where unobserved.

        Returns
        -------
        TreeNetwork
            The network given these states.
        """
        if (row < 0).all():
            return self
        trees = [self._condition_tree(v, v, row) for v in range(len(self.names))]
        return join_trees(self.names, self.states, trees)

    def _condition_tree(self, own: int, node: int, row: np.ndarray) -> DecisionTree:
        """Return the tree of a variable below a node, given the observed states of a row."""
        while self.split_on[node] >= 0 and row[self.split_on[node]] >= 0:
            node = int(self.first_child[node] + row[self.split_on[node]])
        parent, first = int(self.split_on[node]), int(self.first_child[node])
        if parent < 0:
            at, state = int(self.first_parameter[node]), np.arange(len(self.states[own]))
            is_possible = (row[own] < 0) | (state == row[own])
            return DecisionTree(
                table=np.where(is_possible, self.log_parameter[at + state], -np.inf)
            )
        children = range(first, first + len(self.states[parent]))
        cases = [self._condition_tree(own, child, row) for child in children]
        return DecisionTree(parent, cases, number=first)

    def order(self) -> np.ndarray:
        """int32[num_variables], parents before their children; CycleError if they form a cycle."""
        sorter = TopologicalSorter(dict(enumerate(self.parents())))
        return np.array([*sorter.static_order()], np.int32)

    def is_cyclic(self) -> bool:
        """Whether the parents form a cycle."""
        try:
            self.order()
        except CycleError:
            return True
        return False

    def draw_samples(self, num_samples: int, seed: int) -> np.ndarray:
        """Draw independent samples; parents are drawn first.

        Parameters
        ----------
        num_samples
            Number of samples.
        seed
            Seed of the random numbers.

        Returns
        -------
        numpy.ndarray
            int32[num_samples, num_variables], states.
        """
        found = np.empty((num_samples, len(self.names)), np.int32)
        _sample_rows(tree_arrays(self), self.order(), random_states(seed, 1)[0], found)
        return found

    def treewidth(self) -> int:
        """Bound the treewidth of the moral graph from above, by a min-fill elimination order."""
        scopes = [[own, *sorted(parents)] for own, parents in enumerate(self.parents())]
        return min_fill_width(
            len(self.names), row_starts([*map(len, scopes)]), np.concatenate(scopes)
        )


UNNUMBERED = 1 << 60  # number of a split after all numbered ones


class DecisionTree(NamedTuple):
    parent: int = -1  # the variable on which it is split; -1 for a leaf
    cases: Sequence[DecisionTree] = ()  # one for each state of the parent
    table: np.ndarray | None = None  # float64[size], logarithms, of a leaf
    number: int = UNNUMBERED  # place of the split in the order of splits


def join_trees(
    names: Sequence[str], states: Sequence[Sequence[str]], trees: Sequence[DecisionTree]
) -> TreeNetwork:
    """Number the nodes of trees: the roots, then the children of the splits in their order."""
    nodes = list(enumerate(trees))
    first_child = [-1] * len(nodes)
    waiting = [(tree.number, node) for node, (_, tree) in enumerate(nodes)]
    heapq.heapify(waiting)
    while waiting:
        _, node = heapq.heappop(waiting)
        own, tree = nodes[node]
        first_child[node] = len(nodes) if tree.cases else -1
        for case in tree.cases:
            heapq.heappush(waiting, (case.number, len(nodes)))
            nodes.append((own, case))
            first_child.append(-1)
    tables = [tree.table for _, tree in nodes if tree.table is not None]
    used = np.array([0 if tree.table is None else len(tree.table) for _, tree in nodes])
    return TreeNetwork(
        tuple(names), tuple(map(tuple, states)), np.array([own for own, _ in nodes], np.int32),
        np.array([tree.parent for _, tree in nodes], np.int32), np.array(first_child, np.int32),
        np.where(used > 0, np.cumsum(used) - used, -1), np.concatenate(tables),
    )  # fmt: skip


class TreeArrays(NamedTuple):
    """The arrays of a network that kernels read; fields as in `TreeNetwork`."""

    split_on: np.ndarray
    first_child: np.ndarray
    first_parameter: np.ndarray
    log_parameter: np.ndarray
    size: np.ndarray  # int32[num_variables], numbers of states


def tree_arrays(network: TreeNetwork) -> TreeArrays:
    """Return the arrays that kernels read."""
    size = np.array([len(states) for states in network.states], np.int32)
    return TreeArrays(
        network.split_on, network.first_child, network.first_parameter, network.log_parameter, size
    )


@inner
def leaf_parameter(trees, row, v):  # type: ignore[no-untyped-def]
    """Return the first parameter of the leaf that a row reaches in the tree of a variable."""
    node = v
    while trees.split_on[node] >= 0:
        node = trees.first_child[node] + row[trees.split_on[node]]
    return trees.first_parameter[node]


@allocating_entry
def _log_likelihoods(trees, rows):  # type: ignore[no-untyped-def]
    found = np.zeros(len(rows))
    for r in range(len(rows)):
        for v in range(rows.shape[1]):
            found[r] += trees.log_parameter[leaf_parameter(trees, rows[r], v) + rows[r, v]]
    return found


@entry
def _sample_rows(trees, order, rng, found):  # type: ignore[no-untyped-def]
    for r in range(len(found)):
        for v in order:
            first = leaf_parameter(trees, found[r], v)
            rest = uniform(rng)
            found[r, v] = 0
            for s in range(trees.size[v]):
                if trees.log_parameter[first + s] > -math.inf:
                    found[r, v] = s  # the last possible one, if rounding leaves a rest
                    rest -= math.exp(trees.log_parameter[first + s])
                    if rest < 0.0:
                        break
