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
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import min_fill_width
from lapis.inference.random_numbers import random_states, uniform
from lapis.network.csr import row_starts
from lapis.runtime.kernels import allocating_entry, entry, inner


@dataclass(frozen=True, slots=True, eq=False)
class TreeNetwork:
    names: tuple[str, ...]  # of variables
    states: tuple[tuple[str, ...], ...]  # of each variable
    variable: np.ndarray  # int32[num_distributions]
    split_on: np.ndarray  # int32[num_distributions], -1 for a leaf
    first_child: np.ndarray  # int32[num_distributions], that of state 0; -1 for a leaf
    first_parameter: np.ndarray  # int64[num_distributions], -1 unless it is a leaf
    log_parameter: np.ndarray  # float64[num_parameters]

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
        num_variables = len(self.names)
        source = [self._skip_observed(v, row) for v in range(num_variables)]  # of new nodes
        waiting = [(int(self.first_child[old]), new) for new, old in enumerate(source)]
        waiting.sort()  # a heap; leaves have -1
        variable = [*range(num_variables)]
        split_on = self.split_on[source].tolist()
        first_child = [-1] * num_variables
        while waiting:
            first, node = heapq.heappop(waiting)
            if first < 0:
                continue
            first_child[node] = len(source)
            for state in range(len(self.states[split_on[node]])):
                old = self._skip_observed(first + state, row)
                heapq.heappush(waiting, (int(self.first_child[old]), len(source)))
                source.append(old)
                variable.append(variable[node])
                split_on.append(int(self.split_on[old]))
                first_child.append(-1)
        first_parameter: list[int] = []
        log_parameter: list[float] = []
        for node, old in enumerate(source):
            first_parameter.append(len(log_parameter) if split_on[node] < 0 else -1)
            if split_on[node] < 0:
                own, at = variable[node], int(self.first_parameter[old])
                for state in range(len(self.states[own])):
                    is_possible = row[own] in (-1, state)
                    log_parameter.append(self.log_parameter[at + state] if is_possible else -np.inf)
        return TreeNetwork(
            self.names, self.states, np.array(variable, np.int32), np.array(split_on, np.int32),
            np.array(first_child, np.int32), np.array(first_parameter, np.int64),
            np.array(log_parameter),
        )  # fmt: skip

    def _skip_observed(self, node: int, row: np.ndarray) -> int:
        """Go down from a node as long as it is split on an observed variable."""
        while self.split_on[node] >= 0 and row[self.split_on[node]] >= 0:
            node = int(self.first_child[node] + row[self.split_on[node]])
        return node

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
