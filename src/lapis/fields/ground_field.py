"""Ground fields as tables: evaluation, derivatives and enumeration.

Predicates, comparisons and parfeatures are nodes. The groundings of a node are the cells of a table
with an axis for each argument; all tables are consecutive parts of one vector. With strides s of
the child's table, the cells of a child are

    cell of the child = base + Σ_parameters s_p value_p + Σ_summed s_v value_v

A variable that occurs twice has the sum of both strides; constants are part of the base. So a field
of eight million groundings needs its values and no pointers. numpy sums over strided views, and the
kernels find the parents of a cell by the inverse (`flips_kernel`).

Evaluation goes from the atoms to the root. With e the exponent minus log Z,

    e_i = Σ_j w_ij (s_ij − [w_ij > 0] n_ij),   s_ij = Σ_g' f_j,     f_i = exp(e_i)

For the root nothing is subtracted: its e is the log of the world's unnormalised probability.
Derivatives go backwards (thesis section 3.4), from ∂/∂e = 1 at the root:

    ∂/∂e_i = ∂/∂f_i · f_i         ∂/∂w_ij = Σ_g ∂/∂e_i (s_ij − [w_ij > 0] n_ij)
    ∂/∂f_j += w_ij · ∂/∂e_i       summed over the groundings that refer to f_j

All groundings of a parfeature share its weights, so a derivative is the sum over them. log Z has a
kink at w = 0; the derivative there is that from below. If the weight of a parfeature in its parent
is optimal, both one-sided derivatives agree, because a factor of the parfeature has no effect then.
A prior on that weight makes them differ, and the maximum may be at the kink; L-BFGS handles that
(`optimisation/lbfgs.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.fields.field import COMPARISONS, Child, Field, Parfeature
from lapis.grounding.blocks import apply_blocks
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.language.syntax import Constant, Variable
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.relational.comparison import COMPARE
from lapis.runtime.limits import format_bytes, memory_limit

BYTES_A_CELL = 88  # values, exponents, changes, and temporary sums


@dataclass(frozen=True, slots=True)
class Node:
    """A predicate, a comparison or a parfeature, with a table of values."""

    name: str
    shape: tuple[int, ...]
    offset: int  # of its first cell

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def cells(self) -> slice:
        return slice(self.offset, self.offset + self.size)


@dataclass(frozen=True, slots=True)
class FieldEdge:
    """A child of a parfeature: one weight."""

    parent: int
    child: int  # nodes
    # For each argument of the child: a constant's code, or −1 − the number of a variable.
    places: tuple[int, ...]
    sizes: tuple[int, ...]  # of the variables: the parent's parameters, then those summed over
    num_parameters: int

    def stride(self, variable: int, child: Node) -> int:
        """Return the stride of a variable in the child's table; 0 if it is not in the child."""
        return sum(
            s for place, s in zip(self.places, child.strides, strict=True) if place == -1 - variable
        )

    def base(self, child: Node) -> int:
        """Return the offset of the child's cell at which all variables are 0."""
        return sum(
            place * s for place, s in zip(self.places, child.strides, strict=True) if place >= 0
        )

    @property
    def num_terms(self) -> int:
        """n_j, the number of terms of the child's sum."""
        return math.prod(self.sizes[self.num_parameters :])


@dataclass(frozen=True)
class GroundField:
    """A field on a world: its tables, and the values of the known atoms."""

    field: Field
    nodes: tuple[Node, ...]  # each after its children; the root last
    edges: tuple[FieldEdge, ...]  # one for each weight of the field, in order
    known: np.ndarray  # float64[num_cells], values of predicates and comparisons; unknown atoms 0
    network: Network  # the unknown atoms; without clauses, weights those of the root
    cell: np.ndarray  # int64[num_unknown], of each unknown atom

    @property
    def num_cells(self) -> int:
        return len(self.known)

    @property
    def root(self) -> int:
        return len(self.nodes) - 1

    @cached_property
    def units(self) -> UnknownUnits:
        return unknown_units(self.network)

    @cached_property
    def first_parfeature(self) -> int:
        """The first parfeature; the nodes before it are predicates and comparisons."""
        return len(self.nodes) - len(self.field.order)

    @cached_property
    def root_edges(self) -> np.ndarray:
        """int64[num_root_weights], the edges into the root."""
        return np.flatnonzero([edge.parent == self.root for edge in self.edges])

    def children(self, node: int) -> list[int]:
        """Return the numbers of a parfeature's edges."""
        return [number for number, edge in enumerate(self.edges) if edge.parent == node]


def ground_field(field: Field, problem: Problem, max_memory: int | None = None) -> GroundField:
    """Ground a field on a problem of its declarations; TooLarge if the tables exceed memory."""
    domains = problem.domains
    nodes: list[Node] = []
    number: dict[str, int] = {}
    offset = 0

    def add(name: str, shape: tuple[int, ...]) -> None:
        nonlocal offset
        number[name] = len(nodes)
        nodes.append(Node(name, shape, offset))
        offset += nodes[-1].size

    for name, predicate in field.declarations.predicates.items():
        add(name, tuple(len(domains[t]) for t in predicate.types))
    comparisons = []
    for index, (parfeature, child) in enumerate(field.edges()):
        if child.target in COMPARISONS:
            comparisons.append((f"{child.target} {index}", parfeature, child))
            type_of = parfeature.types_in(child)
            add(comparisons[-1][0], tuple(len(domains[type_of[v]]) for v in child.variables))
    for name in field.order:
        add(name, tuple(len(domains[t]) for t in field.by_name[name].types))
    require_table_memory(nodes, max_memory)
    known = np.zeros(offset)
    for name, evidence in apply_blocks(problem).items():
        node = nodes[number[name]]
        known[node.offset + evidence.true.astype(np.int64) @ np.array(node.strides, np.int64)] = 1.0
    for name, parfeature, child in comparisons:
        node = nodes[number[name]]
        known[node.cells] = compare_terms(parfeature, child, domains).ravel()
    edges = []
    for index, (parfeature, child) in enumerate(field.edges()):
        target = f"{child.target} {index}" if child.target in COMPARISONS else child.target
        edges.append(make_edge(field, parfeature, child, number, target, domains))
    root_weights = np.array([child.weight for child in field.root.children])
    unknown = unknown_atoms(problem)
    network = replace(unknown, weights=root_weights, constant_count=np.zeros(len(root_weights)))
    cells = [np.empty(0, np.int64)]
    for name, rows in zip(network.atoms.predicates, network.atoms.tuples, strict=True):
        node = nodes[number[name]]
        cells.append(node.offset + rows.astype(np.int64) @ np.array(node.strides, np.int64))
    return GroundField(field, tuple(nodes), tuple(edges), known, network, np.concatenate(cells))


def require_table_memory(nodes: list[Node], max_memory: int | None) -> None:
    num_cells = sum(node.size for node in nodes)
    needed, limit = num_cells * BYTES_A_CELL, memory_limit(max_memory)
    if needed > limit:
        largest = max(nodes, key=lambda node: node.size)
        raise TooLarge(
            f"the field has {num_cells:,} features, {largest.size:,} of them of {largest.name!r}; "
            f"about {format_bytes(needed)} is over the limit of {format_bytes(limit)}",
            code="too-large",
            hint="give parfeatures fewer parameters, or raise max_memory",
        )


def make_edge(
    field: Field,
    parfeature: Parfeature,
    child: Child,
    number: Mapping[str, int],
    target: str,
    domains: Mapping[str, Domain],
) -> FieldEdge:
    names = [*parfeature.parameters, *parfeature.summed(child)]
    if child.target in COMPARISONS:
        places = tuple(-1 - names.index(name) for name in child.variables)
    else:
        types = field.argument_types(child.target)
        places = tuple(
            -1 - names.index(term.name)
            if isinstance(term, Variable)
            else domains[type_name].index[term.name]
            for term, type_name in zip(child.terms, types, strict=True)
        )
    type_of = parfeature.types_in(child)
    sizes = tuple(len(domains[type_of[name]]) for name in names)
    return FieldEdge(
        number[parfeature.name], number[target], places, sizes, len(parfeature.parameters)
    )


def compare_terms(
    parfeature: Parfeature, child: Child, domains: Mapping[str, Domain]
) -> np.ndarray:
    """Return bool[sizes of the variables], where a comparison holds; <, > compare numbers."""
    variables, type_of = child.variables, parfeature.types_in(child)
    sides = []
    for term in child.terms:
        domain = (
            Domain("", (term.name,)) if isinstance(term, Constant) else domains[type_of[term.name]]
        )
        values = domain.names if child.target in ("=", "!=") else domain.numeric
        shape = [1] * len(variables)
        if isinstance(term, Variable):
            shape[variables.index(term.name)] = len(domain)
        sides.append(values.reshape(shape))
    return np.asarray(COMPARE[child.target](*sides), bool)


class UnknownUnits(NamedTuple):
    """The unknown atoms in units of which at most one atom is true: single atoms, and blocks."""

    start: np.ndarray  # int64[num_units + 1]
    atom: np.ndarray  # int64[num_unknown]
    exact: np.ndarray  # bool[num_units], one of them must be true

    @property
    def num_states(self) -> int:
        """The number of joint states of all units."""
        total = 1
        for size, exact in zip(np.diff(self.start).tolist(), self.exact.tolist(), strict=True):
            total *= size + (not exact)
        return total

    def unit_of(self) -> np.ndarray:
        """Return int64[num_unknown], the unit of each atom."""
        found = np.empty(len(self.atom), np.int64)
        found[self.atom] = np.repeat(np.arange(len(self.exact)), np.diff(self.start))
        return found

    def worlds(self, numbers: np.ndarray) -> np.ndarray:
        """Return bool[num_worlds, num_unknown], the worlds with numbers in [0, `num_states`)."""
        worlds = np.zeros((len(numbers), len(self.atom)), bool)
        for unit, exact in enumerate(self.exact.tolist()):
            atoms = self.atom[self.start[unit] : self.start[unit + 1]]
            numbers, state = np.divmod(numbers, len(atoms) + (not exact))
            worlds[:, atoms] = state[:, None] == np.arange(len(atoms)) + (not exact)
        return worlds


def unknown_units(network: Network) -> UnknownUnits:
    """List the units of a network in the order of their first atoms."""
    size = network.num_base_atoms
    single = np.ones(size, bool)
    single[network.block_atom] = False
    alone = np.flatnonzero(single)
    length = np.concatenate([np.ones(len(alone), np.int64), np.diff(network.block_start)])
    atoms = np.concatenate([alone, network.block_atom]).astype(np.int64)
    exact = np.concatenate([np.zeros(len(alone), bool), network.block_exact])
    begin = np.cumsum(length) - length
    order = np.argsort(atoms[begin])
    unit = np.repeat(np.argsort(order), length)
    atoms = atoms[np.argsort(unit, kind="stable")]
    return UnknownUnits(row_starts(length[order]), atoms, exact[order])


CELLS_AT_ONCE = 1 << 21  # of all worlds that are evaluated together


class Values(NamedTuple):
    """Values, exponents and sums of several worlds."""

    value: np.ndarray  # float64[num_worlds, num_cells], f
    exponent: np.ndarray  # float64[num_worlds, num_cells], e; 0 of atoms and comparisons
    sums: tuple[np.ndarray, ...]  # for each edge s − [w > 0] n, axes of the parent or of length 1

    def log_weight(self, ground: GroundField) -> np.ndarray:
        """Return float64[num_worlds], the logs of unnormalised probabilities."""
        return self.exponent[:, ground.nodes[ground.root].offset]


def base_values(ground: GroundField, worlds: np.ndarray) -> np.ndarray:
    """Return float64[num_worlds, num_cells] with the values of atoms and comparisons."""
    value = np.tile(ground.known, (len(worlds), 1))
    value[:, ground.cell] = worlds
    return value


def evaluate_worlds(ground: GroundField, weights: np.ndarray, worlds: np.ndarray) -> Values:
    """Evaluate all parfeatures in worlds bool[num_worlds, num_unknown]."""
    value = base_values(ground, worlds)
    exponent = np.zeros_like(value)
    sums: list[np.ndarray] = [np.empty(0)] * len(ground.edges)
    for number in range(ground.first_parfeature, len(ground.nodes)):
        node = ground.nodes[number]
        total = np.zeros((len(worlds), *node.shape))
        for edge_number in ground.children(number):
            edge, weight = ground.edges[edge_number], float(weights[edge_number])
            found = child_sums(ground, edge, value)
            if weight > 0 and number != ground.root:
                found -= edge.num_terms
            sums[edge_number] = found
            total += weight * found
        exponent[:, node.cells] = total.reshape(len(worlds), -1)
        if number != ground.root:
            # Exponents exceed 0 only by rounding.
            value[:, node.cells] = np.exp(np.minimum(exponent[:, node.cells], 0.0))
    return Values(value, exponent, tuple(sums))


def gradient_of_root(ground: GroundField, weights: np.ndarray, values: Values) -> np.ndarray:
    """Compute ∂ log f_0 / ∂ w, float64[num_worlds, num_weights]."""
    num_worlds = len(values.value)
    gradient = np.zeros((num_worlds, len(weights)))
    by_value = np.zeros_like(values.value)
    for number in range(ground.root, ground.first_parfeature - 1, -1):
        node = ground.nodes[number]
        slope = by_value[:, node.cells] * values.value[:, node.cells]
        if number == ground.root:
            slope = np.ones((num_worlds, 1))
        table = slope.reshape(num_worlds, *node.shape)
        axes = tuple(range(1, table.ndim))
        for edge_number in ground.children(number):
            edge = ground.edges[edge_number]
            gradient[:, edge_number] = (table * values.sums[edge_number]).sum(axis=axes)
            if edge.child >= ground.first_parfeature:
                add_to_cells(ground, edge, weights[edge_number] * table, by_value)
    return gradient


def world_gradients(ground: GroundField, weights: np.ndarray, worlds: np.ndarray) -> np.ndarray:
    """Compute ∂ log f_0 / ∂ w, float64[num_worlds, num_weights], in batches of worlds."""
    at_once = max(1, CELLS_AT_ONCE // max(1, ground.num_cells))
    parts = [worlds[first : first + at_once] for first in range(0, len(worlds), at_once)]
    found = [
        gradient_of_root(ground, weights, evaluate_worlds(ground, weights, part)) for part in parts
    ]
    return np.concatenate(found)


def child_sums(ground: GroundField, edge: FieldEdge, value: np.ndarray) -> np.ndarray:
    """Compute s with axes (worlds, the parent's parameters); length 1 if not in the child."""
    child = ground.nodes[edge.child]
    kept = kept_parameters(edge)
    shape = [size if k in kept else 1 for k, size in enumerate(edge.sizes[: edge.num_parameters])]
    if 0 in edge.sizes or child.size == 0:
        return np.zeros((len(value), *shape))
    cells = child_view(edge, child, kept, value)
    found = cells.sum(axis=tuple(range(1 + len(kept), cells.ndim)))
    return np.ascontiguousarray(found.reshape(len(value), *shape))


def add_to_cells(
    ground: GroundField, edge: FieldEdge, table: np.ndarray, by_value: np.ndarray
) -> None:
    """Add the derivatives with respect to a child's sums to those of its cells."""
    child = ground.nodes[edge.child]
    if 0 in edge.sizes or child.size == 0:
        return
    kept = kept_parameters(edge)
    others = tuple(1 + k for k in range(edge.num_parameters) if k not in kept)
    reduced = table.sum(axis=others)
    cells = child_view(edge, child, kept, by_value)
    # No cell occurs twice in the view: the arguments of a grounding determine its variables.
    cells += reduced.reshape(*reduced.shape, *[1] * (cells.ndim - reduced.ndim))


def kept_parameters(edge: FieldEdge) -> list[int]:
    """Return the parent's parameters that occur in the child."""
    return [k for k in range(edge.num_parameters) if -1 - k in edge.places]


def child_view(edge: FieldEdge, child: Node, kept: list[int], array: np.ndarray) -> np.ndarray:
    """Return a view of the child's cells with axes (worlds, kept parameters, summed variables)."""
    variables = [*kept, *range(edge.num_parameters, len(edge.sizes))]
    rest = array[:, child.offset + edge.base(child) :]
    shape = (len(array), *(edge.sizes[v] for v in variables))
    step = array.strides[1]
    strides = (array.strides[0], *(step * edge.stride(v, child) for v in variables))
    return as_strided(rest, shape, strides)


MAX_STATES = 1 << 20
SMALLEST = 5e-324  # the smallest positive double


class Enumerated(NamedTuple):
    """Exact results from the enumeration of all worlds."""

    log_partition: float
    marginal: np.ndarray  # float64[num_unknown]
    log_odds: np.ndarray  # float64[num_unknown], clipped to the range of doubles
    expected_sums: np.ndarray  # float64[num_root_weights], E Σ f of each child of the root
    gradient: np.ndarray | None  # float64[num_weights], ∂ log Z / ∂ w = E ∂ log f_0 / ∂ w
    best: np.ndarray  # bool[num_unknown], a most likely world
    best_score: float  # the log of its unnormalised probability


def enumerate_field(
    ground: GroundField, weights: np.ndarray, *, with_gradient: bool = False
) -> Enumerated:
    """Enumerate all worlds; raise TooLarge if there are more than 2^20."""
    require_few_worlds(ground, "use method gibbs")
    size, states = len(ground.cell), ground.units.num_states
    at_once = max(1, CELLS_AT_ONCE // max(1, ground.num_cells))
    largest, total = -np.inf, 0.0
    true, false, sums = np.zeros(size), np.zeros(size), np.zeros(len(ground.root_edges))
    gradient = np.zeros(len(weights))
    best, best_score = np.zeros(size, bool), -np.inf
    for first in range(0, states, at_once):
        worlds = ground.units.worlds(np.arange(first, min(first + at_once, states)))
        values = evaluate_worlds(ground, weights, worlds)
        log_weight = values.log_weight(ground)
        top = int(np.argmax(log_weight))
        if log_weight[top] > best_score:
            best, best_score = worlds[top], float(log_weight[top])
        # All sums are divided by the largest weight so far.
        scale = np.exp(largest - max(largest, best_score))
        largest = max(largest, best_score)
        share = np.exp(log_weight - largest)
        total = total * scale + share.sum()
        true, false = true * scale + share @ worlds, false * scale + share @ ~worlds
        found = [values.sums[edge].reshape(len(worlds)) for edge in ground.root_edges]
        sums = sums * scale + np.array([share @ each for each in found])
        if with_gradient:
            gradient = gradient * scale + share @ gradient_of_root(ground, weights, values)
    return Enumerated(
        float(largest + np.log(total)),
        true / (true + false),
        np.log(np.maximum(true, SMALLEST)) - np.log(np.maximum(false, SMALLEST)),
        sums / total,
        gradient / total if with_gradient else None,
        best,
        best_score,
    )


def require_few_worlds(ground: GroundField, hint: str) -> None:
    """Raise TooLarge if there are more than 2^20 worlds."""
    states = ground.units.num_states
    if states > MAX_STATES:
        raise TooLarge(
            f"{len(ground.cell):,} unknown atoms have {'about ' * (states.bit_count() > 1)}"
            f"2^{states.bit_length() - 1} worlds, more than the 2^20 that are enumerated",
            code="too-large",
            hint=hint,
        )
