"""Bayesian networks whose conditional distributions are decision trees.

A learned circuit is equivalent to one of these. A tree node is a distribution of its variable; it
is a leaf, or has one child for each state of the variable that it is split on. The first nodes are
the roots, one for each variable. On complete rows the network is faster than its circuit: one walk
down each tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lapis.compiled import allocating_entry, inner


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
        """float64[num_rows], log P of complete rows, int[num_rows, num_variables]."""
        return _log_likelihoods(
            np.ascontiguousarray(rows, np.int32), self.split_on, self.first_child,
            self.first_parameter, self.log_parameter,
        )  # fmt: skip

    def parents(self) -> list[set[int]]:
        """The variables that each variable's tree asks for."""
        found: list[set[int]] = [set() for _ in self.names]
        for own, asked in zip(self.variable.tolist(), self.split_on.tolist(), strict=True):
            if asked >= 0:
                found[own].add(asked)
        return found

    def format(self) -> str:
        """The network as text, in the manner of .bif, with trees in the place of tables."""
        lines = ["network learned {", "}"]
        for name, states in zip(self.names, self.states, strict=True):
            lines += [
                f"variable {name} {{",
                f"  type discrete [ {len(states)} ] {{ {', '.join(states)} }};",
                "}",
            ]
        for own, parents in enumerate(self.parents()):
            given = ", ".join(self.names[p] for p in sorted(parents))
            lines.append(f"probability ( {self.names[own]}{' | ' if given else ''}{given} ) {{")
            lines += self.format_tree(own, "  ")
            lines.append("}")
        return "\n".join([*lines, ""])

    def format_tree(self, node: int, indent: str) -> list[str]:
        asked = int(self.split_on[node])
        if asked < 0:
            first = int(self.first_parameter[node])
            size = len(self.states[int(self.variable[node])])
            numbers = (math.exp(p) for p in self.log_parameter[first : first + size])
            return [f"{indent}table {', '.join(f'{number:.6g}' for number in numbers)};"]
        lines = []
        for state, name in enumerate(self.states[asked]):
            lines.append(f"{indent}case {self.names[asked]} = {name}:")
            lines += self.format_tree(int(self.first_child[node]) + state, indent + "  ")
        return lines


@inner
def leaf_of(row, own, split_on, first_child):  # type: ignore[no-untyped-def]
    """The leaf of a variable's tree that a row comes to."""
    node = own
    while split_on[node] >= 0:
        node = first_child[node] + row[split_on[node]]
    return node


@allocating_entry
def _log_likelihoods(rows, split_on, first_child, first_parameter, log_parameter):  # type: ignore[no-untyped-def]
    found = np.zeros(len(rows))
    for r in range(len(rows)):
        for v in range(rows.shape[1]):
            leaf = leaf_of(rows[r], v, split_on, first_child)
            found[r] += log_parameter[first_parameter[leaf] + rows[r, v]]
    return found
