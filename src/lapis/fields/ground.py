"""A field on the constants of a world, without listing its groundings.

Predicates, comparisons and parfeatures are nodes; the groundings of a node are the cells of a table
with an axis for each argument, and all tables stand one after another in one vector. Which cells a
child refers to is then arithmetic: with strides s of the child's table,

    cell of the child = base + Σ_parameters s_p value_p + Σ_summed s_v value_v

where a variable that stands in two places has the sum of both strides and constants go into the
base. So a field of eight million groundings costs its values and no pointers, numpy sums over
strided views (`passes`), and kernels find the parents of a cell by the inverse (`flips`).

Atoms that are drawn together: single ones, and blocks of which one or none is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.fields.field import COMPARISONS, Child, Field, Parfeature
from lapis.grounding.blocks import apply_blocks
from lapis.grounding.limits import format_bytes, memory_limit
from lapis.inference.sampling.count_gibbs import unknown_atoms
from lapis.language.syntax import Constant, Variable
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.relational.comparison import COMPARE

BYTES_A_CELL = 88  # values, exponents and changes, and what sums need


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
        """How far the child's cell moves with a variable; 0 where it is not in the child."""
        return sum(
            s for place, s in zip(self.places, child.strides, strict=True) if place == -1 - variable
        )

    def base(self, child: Node) -> int:
        """The child's cell, from its node's first, where all variables are 0."""
        return sum(
            place * s for place, s in zip(self.places, child.strides, strict=True) if place >= 0
        )

    @property
    def num_terms(self) -> int:
        """n_j, what the child sums over."""
        return math.prod(self.sizes[self.num_parameters :])


@dataclass(frozen=True)
class GroundField:
    """A field on a world: where everything is, and what is known."""

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
        """The nodes before it have values that are given."""
        return len(self.nodes) - len(self.field.order)

    @cached_property
    def root_edges(self) -> np.ndarray:
        """int64[num_root_weights], the edges into the root."""
        return np.flatnonzero([edge.parent == self.root for edge in self.edges])

    def children(self, node: int) -> list[int]:
        """The edges of a parfeature."""
        return [number for number, edge in enumerate(self.edges) if edge.parent == node]


def ground_field(field: Field, problem: Problem, max_memory: int | None = None) -> GroundField:
    """The field on a problem of its declarations.

    Raises TooLarge where the tables do not fit the memory.
    """
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
    require_memory(nodes, max_memory)
    known = np.zeros(offset)
    for name, evidence in apply_blocks(problem).items():
        node = nodes[number[name]]
        known[node.offset + evidence.true.astype(np.int64) @ np.array(node.strides, np.int64)] = 1.0
    for name, parfeature, child in comparisons:
        node = nodes[number[name]]
        known[node.cells] = compare(parfeature, child, domains).ravel()
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


def require_memory(nodes: list[Node], max_memory: int | None) -> None:
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


def compare(parfeature: Parfeature, child: Child, domains: Mapping[str, Domain]) -> np.ndarray:
    """bool[sizes of the variables], where a comparison holds; an order compares numbers."""
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
    """The unknown atoms of a network; a single atom is a set of which at most one is true."""

    start: np.ndarray  # int64[num_units + 1]
    atom: np.ndarray  # int64[num_unknown]
    exact: np.ndarray  # bool[num_units], one of them must be true

    @property
    def num_states(self) -> int:
        """Of all units together."""
        total = 1
        for size, exact in zip(np.diff(self.start).tolist(), self.exact.tolist(), strict=True):
            total *= size + (not exact)
        return total

    def unit_of(self) -> np.ndarray:
        """int64[num_unknown], of each atom."""
        found = np.empty(len(self.atom), np.int64)
        found[self.atom] = np.repeat(np.arange(len(self.exact)), np.diff(self.start))
        return found

    def worlds(self, numbers: np.ndarray) -> np.ndarray:
        """bool[num_worlds, num_unknown], of numbers from 0 to `num_states` − 1."""
        worlds = np.zeros((len(numbers), len(self.atom)), bool)
        for unit, exact in enumerate(self.exact.tolist()):
            atoms = self.atom[self.start[unit] : self.start[unit + 1]]
            numbers, state = np.divmod(numbers, len(atoms) + (not exact))
            worlds[:, atoms] = state[:, None] == np.arange(len(atoms)) + (not exact)
        return worlds


def unknown_units(network: Network) -> UnknownUnits:
    """In the order of their first atoms."""
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
