"""Whether a circuit is decomposable, smooth and deterministic (thesis, definition 3).

One pass from the leaves up keeps for each node the variables and the states that indicators below
it are of, as bits. The thesis asks the same of the variables that parameters belong to; a compiled
circuit's parameters belong to none, so here only indicators count. Determinism is found in the
form that learning and compilation make it: each sum has a variable whose states split its children.
A sum with one child is deterministic.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM, Circuit, Properties
from lapis.circuits.evaluation import structure_of
from lapis.runtime.kernels import entry


def find_properties(circuit: Circuit) -> Properties:
    """What holds at every node, checked node by node."""
    num_nodes = circuit.num_nodes
    variables = np.zeros((num_nodes, words(circuit.num_variables)), np.uint64)
    states = np.zeros((num_nodes, words(circuit.num_states)), np.uint64)
    found = np.ones(3, np.bool_)
    seen = np.zeros((2, states.shape[1]), np.uint64)
    _check(structure_of(circuit), variables, states, seen, found)
    return Properties(*found.tolist())


def words(bits: int) -> int:
    """How many words of 64 bits hold them."""
    return (bits + 63) // 64


@entry
def _check(circuit, variables, states, seen, found):  # type: ignore[no-untyped-def]
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    state_start, one = circuit.state_start, np.uint64(1)
    for n in range(len(kind)):
        if kind[n] == INDICATOR:
            s = leaf[n]
            v = circuit.variable_of_state[s]
            states[n, s >> 6] |= one << np.uint64(s & 63)
            variables[n, v >> 6] |= one << np.uint64(v & 63)
        for w in range(variables.shape[1]):
            for e in range(start[n], start[n + 1]):
                below = variables[child[e], w]
                if kind[n] == PRODUCT and variables[n, w] & below:
                    found[0] = False
                if kind[n] == SUM and below != variables[child[start[n]], w]:
                    found[1] = False
                variables[n, w] |= below
        seen[:] = np.uint64(0)  # states of a child; of two children
        for e in range(start[n], start[n + 1]):
            for w in range(states.shape[1]):
                seen[1, w] |= seen[0, w] & states[child[e], w]
                seen[0, w] |= states[child[e], w]
        for w in range(states.shape[1]):
            states[n, w] |= seen[0, w]
        if kind[n] == SUM and start[n + 1] - start[n] > 1 and found[2]:
            splits = False
            for v in range(len(state_start) - 1):
                # In a smooth circuit every child mentions a variable that one mentions.
                if variables[child[start[n]], v >> 6] >> np.uint64(v & 63) & one:
                    splits = True
                    for s in range(state_start[v], state_start[v + 1]):
                        if seen[1, s >> 6] >> np.uint64(s & 63) & one:
                            splits = False
                            break
                    if splits:
                        break
            found[2] = splits
    if not found[1]:
        found[2] = False
