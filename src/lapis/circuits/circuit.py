"""An arithmetic circuit: sums and products over indicators and parameters, as flat arrays.

A circuit is a multilinear function of indicators λ (one for each state of each variable) and
parameters θ. With the indicators that contradict evidence e set to 0 and all others to 1, its root
is the unnormalised probability of e, computed in time linear in its edges (Darwiche, A Differential
Approach to Inference in Bayesian Networks, 2003). Other queries depend on the structure:

    decomposable    the children of a product share no variable
    smooth          the children of a sum mention the same variables
    deterministic   for each sum there is a variable of which its children have disjoint states

Marginals and samples need the first two; most likely states and entropies need all three.
`find_properties` checks them once, with one pass from the leaves up that keeps the variables and
states below each node as bits. Only indicators count: the parameters of a compiled circuit belong
to no variable. A sum with one child is deterministic.

Nodes stand in topological order: children before parents, the root last. The number of a state is
that of its variable's first state plus its index. Parameters are numbered too, so they can be
replaced without touching the nodes, and nodes may share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.runtime.kernels import entry, inner

INDICATOR, PARAMETER, SUM, PRODUCT = range(4)


class Properties(NamedTuple):
    """Structural guarantees of a circuit."""

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
        """int32[num_states], the variable of each state."""
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
        needed = (True, True, deterministic)
        missing = [
            name
            for name, is_needed in zip(Properties._fields, needed, strict=True)
            if is_needed and not getattr(self.properties, name)
        ]
        if missing:
            raise LapisError(
                f"this circuit does not support {task}: it is not {' and not '.join(missing)}",
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
    """Build a circuit from arrays in topological order; find its properties if they are not given.

    >>> coin = new_circuit(
    ...     ["coin"], [["heads", "tails"]],
    ...     kind=np.array([0, 0, 1, 1, 3, 3, 2]), leaf=np.array([0, 1, 0, 1, -1, -1, -1]),
    ...     start=np.array([0, 0, 0, 0, 0, 2, 4, 6]), child=np.array([0, 2, 1, 3, 4, 5]),
    ...     log_parameter=np.log([0.3, 0.7]),
    ... )
    >>> coin.properties
    Properties(decomposable=True, smooth=True, deterministic=True)
    """
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


class NodeList:
    """The nodes of a circuit that is built block by block, children before parents."""

    def __init__(self) -> None:
        self.kind: list[np.ndarray] = []
        self.leaf: list[np.ndarray] = []
        self.degree: list[np.ndarray] = []
        self.child: list[np.ndarray] = []
        self.size = 0

    def add(
        self, kind: np.ndarray | int, leaf: np.ndarray | int, degree: np.ndarray, child: np.ndarray
    ) -> np.ndarray:
        """Append nodes with these numbers of children; return their numbers."""
        self.kind.append(np.broadcast_to(kind, len(degree)))
        self.leaf.append(np.broadcast_to(leaf, len(degree)))
        self.degree.append(degree)
        self.child.append(child.ravel())
        self.size += len(degree)
        return np.arange(self.size - len(degree), self.size)

    def add_leaves(self, kind: int, leaf: np.ndarray) -> np.ndarray:
        """Append indicators or parameters; return the numbers of their nodes."""
        return self.add(kind, leaf, np.zeros(len(leaf), np.int64), np.empty(0, np.int64))

    def add_weighted(self, parameters: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Append one product of two nodes for each pair; return the numbers of the products."""
        pairs = np.column_stack((parameters, parts))
        return self.add(PRODUCT, -1, np.full(len(pairs), 2), pairs)

    def finish(
        self,
        names: Sequence[str],
        states: Sequence[Sequence[str]],
        log_parameter: np.ndarray,
        properties: Properties,
    ) -> Circuit:
        """Return the circuit whose root is the last node."""
        start = np.concatenate(([0], np.cumsum(np.concatenate(self.degree))))
        return new_circuit(
            names, states, np.concatenate(self.kind), np.concatenate(self.leaf), start,
            np.concatenate(self.child), log_parameter, properties,
        )  # fmt: skip


class CircuitArrays(NamedTuple):
    """The arrays of a circuit that kernels read; fields as in `Circuit`."""

    kind: np.ndarray
    leaf: np.ndarray
    start: np.ndarray
    child: np.ndarray
    log_parameter: np.ndarray
    variable_of_state: np.ndarray
    state_start: np.ndarray


def circuit_arrays(circuit: Circuit) -> CircuitArrays:
    """Return the arrays that kernels read."""
    return CircuitArrays(*(getattr(circuit, name) for name in CircuitArrays._fields))


def find_properties(circuit: Circuit) -> Properties:
    """Check every node of a circuit for the three properties."""
    variables = np.zeros((circuit.num_nodes, num_words(circuit.num_variables)), np.uint64)
    states = np.zeros((circuit.num_nodes, num_words(circuit.num_states)), np.uint64)
    seen = np.zeros((2, states.shape[1]), np.uint64)
    found = np.ones(3, np.bool_)
    _check_nodes(circuit_arrays(circuit), variables, states, seen, found)
    return Properties(*found.tolist())


def num_words(bits: int) -> int:
    """Return the number of 64-bit words that hold this many bits."""
    return (bits + 63) // 64


@entry
def _check_nodes(circuit, variables, states, seen, found):  # type: ignore[no-untyped-def]
    """Clear `found` (decomposable, smooth, deterministic) where a node lacks the property."""
    kind, start, child = circuit.kind, circuit.start, circuit.child
    for n in range(len(kind)):
        if kind[n] == INDICATOR:
            s = circuit.leaf[n]
            _set_bit(states[n], s)
            _set_bit(variables[n], circuit.variable_of_state[s])
        for w in range(variables.shape[1]):
            for e in range(start[n], start[n + 1]):
                below = variables[child[e], w]
                if kind[n] == PRODUCT and variables[n, w] & below:
                    found[0] = False
                if kind[n] == SUM and below != variables[child[start[n]], w]:
                    found[1] = False
                variables[n, w] |= below
        _count_states(circuit, n, states, seen)
        if kind[n] == SUM and start[n + 1] - start[n] > 1 and found[2]:
            # In a smooth circuit every child mentions the variables of the first.
            found[2] = _has_split(circuit, variables[child[start[n]]], seen[1])
    if not found[1]:
        found[2] = False


@inner
def _count_states(circuit, n, states, seen):  # type: ignore[no-untyped-def]
    """Write the states below a child of n to seen[0], those below two children to seen[1]."""
    seen[:] = np.uint64(0)
    for e in range(circuit.start[n], circuit.start[n + 1]):
        for w in range(states.shape[1]):
            below = states[circuit.child[e], w]
            seen[1, w] |= seen[0, w] & below
            seen[0, w] |= below
    for w in range(states.shape[1]):
        states[n, w] |= seen[0, w]


@inner
def _has_split(circuit, variables, shared):  # type: ignore[no-untyped-def]
    """Whether one of the variables has no state among the shared ones."""
    for v in range(len(circuit.state_start) - 1):
        if _has_bit(variables, v):
            is_split = True
            for s in range(circuit.state_start[v], circuit.state_start[v + 1]):
                is_split = is_split and not _has_bit(shared, s)
            if is_split:
                return True
    return False


@inner
def _set_bit(bits, at):  # type: ignore[no-untyped-def]
    bits[at >> 6] |= np.uint64(1) << np.uint64(at & 63)


@inner
def _has_bit(bits, at):  # type: ignore[no-untyped-def]
    return (bits[at >> 6] >> np.uint64(at & 63)) & np.uint64(1) != np.uint64(0)
