"""An arithmetic circuit: sums and products over indicators and parameters, as flat arrays.

A circuit is a multilinear function of indicators λ (one for each state of each variable) and
parameters θ. With the indicators that contradict some evidence e set to 0 and all others to 1 its
root is the (unnormalised) probability of e, in time linear in its edges (Darwiche, A Differential
Approach to Inference in Bayesian Networks, 2003). What else it can tell depends on its structure:

    decomposable    the children of a product share no variable
    smooth          the children of a sum mention the same variables
    deterministic   for each sum there is a variable of which its children have disjoint states

Marginals and samples need the first two, most likely states and entropies the third too. The
properties are found once, by `new_circuit`, and carried; `require` refuses what they do not
support.

Nodes stand in topological order, children before parents, the root last. A state has a number,
that of its variable's first state plus its own; a parameter has a number too, so that parameters
are replaced without touching the nodes, and nodes may share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError

INDICATOR, PARAMETER, SUM, PRODUCT = range(4)


class Properties(NamedTuple):
    """What the structure of a circuit guarantees."""

    decomposable: bool
    smooth: bool
    deterministic: bool


@dataclass(frozen=True, slots=True, eq=False)
class Circuit:
    names: tuple[str, ...]  # of variables
    states: tuple[tuple[str, ...], ...]  # of each variable
    kind: np.ndarray  # int8[num_nodes], INDICATOR, PARAMETER, SUM or PRODUCT
    leaf: np.ndarray  # int32[num_nodes], number of an indicator's state or of a parameter; else -1
    start: np.ndarray  # int64[num_nodes + 1], where the children of each node begin
    child: np.ndarray  # int32[num_edges], nodes before their parent
    log_parameter: np.ndarray  # float64[num_parameters], -inf for 0
    properties: Properties

    @property
    def num_nodes(self) -> int:
        return len(self.kind)

    @property
    def num_edges(self) -> int:
        return len(self.child)

    @property
    def num_parameters(self) -> int:
        return len(self.log_parameter)

    @property
    def num_variables(self) -> int:
        return len(self.names)

    @property
    def num_states(self) -> int:
        return sum(map(len, self.states))

    @property
    def state_start(self) -> np.ndarray:
        """int32[num_variables + 1], the number of each variable's first state."""
        return state_starts(self.states)

    @property
    def variable_of_state(self) -> np.ndarray:
        """int32[num_states]"""
        return np.repeat(np.arange(self.num_variables, dtype=np.int32), np.diff(self.state_start))

    def with_parameters(self, log_parameter: np.ndarray) -> Circuit:
        """Replace the parameters.

        Parameters
        ----------
        log_parameter
            float64[num_parameters], logarithms.

        Returns
        -------
        Circuit
            The same nodes with these parameters.
        """
        return replace(self, log_parameter=np.asarray(log_parameter, np.float64))

    def require(self, task: str, *, deterministic: bool = False) -> None:
        """Refuse a task that the structure does not support.

        Parameters
        ----------
        task
            The task, as messages name it.
        deterministic
            Whether the task also needs determinism.

        Raises
        ------
        LapisError
            If the circuit is not decomposable, smooth and, where needed, deterministic.
        """
        found = self.properties
        missing = [
            name
            for name, needed in zip(Properties._fields, (True, True, deterministic), strict=True)
            if needed and not getattr(found, name)
        ]
        if missing:
            raise LapisError(
                f"{task} cannot be read off this circuit: it is not {' and not '.join(missing)}",
                code="circuit-property",
            )

    def __repr__(self) -> str:
        return (
            f"<Circuit: {self.num_variables:,} variables, {self.num_nodes:,} nodes, "
            f"{self.num_edges:,} edges, {self.num_parameters:,} parameters>"
        )


def new_circuit(
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    kind: np.ndarray,
    leaf: np.ndarray,
    start: np.ndarray,
    child: np.ndarray,
    log_parameter: np.ndarray,
    properties: Properties | None = None,
) -> Circuit:
    """A circuit from arrays in topological order; its properties are found unless they are known.

    >>> coin = new_circuit(
    ...     ["coin"], [["heads", "tails"]],
    ...     kind=np.array([0, 0, 1, 1, 3, 3, 2]), leaf=np.array([0, 1, 0, 1, -1, -1, -1]),
    ...     start=np.array([0, 0, 0, 0, 0, 2, 4, 6]), child=np.array([0, 2, 1, 3, 4, 5]),
    ...     log_parameter=np.log([0.3, 0.7]),
    ... )
    >>> coin.properties
    Properties(decomposable=True, smooth=True, deterministic=True)
    """
    from lapis.circuits.properties import find_properties

    circuit = Circuit(
        tuple(names),
        tuple(map(tuple, states)),
        np.ascontiguousarray(kind, np.int8),
        np.ascontiguousarray(leaf, np.int32),
        np.ascontiguousarray(start, np.int64),
        np.ascontiguousarray(child, np.int32),
        np.ascontiguousarray(log_parameter, np.float64),
        properties or Properties(False, False, False),
    )
    if properties is None:
        circuit = replace(circuit, properties=find_properties(circuit))
    return circuit


def state_starts(states: Sequence[Sequence[str]]) -> np.ndarray:
    """int32[num_variables + 1], the number of each variable's first state, and of all states."""
    return np.cumsum([0, *map(len, states)], dtype=np.int32)
