"""The objective of MAP methods: a network's clauses with effective weights, merged.

A clause's effective weight w is weights[weight_id]·coefficient. It is *violated* if it is false and
w > 0, or true and w < 0, and then costs |w|. Hard clauses and blocks may not be violated. So

    score(world) = constant − cost(world)

over the worlds that satisfy these, and a most likely world has the least cost. Methods and proofs
use costs: the constant contains the decided groundings, may exceed 10^12, and a sum with it would
lose digits. Clauses with the same literals are merged, a unit clause and its negation too, and
clauses of weight 0 are dropped, so costs agree with Tuffy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.network.csr import row_starts, row_sums, take_rows
from lapis.network.network import Network

MAX_DECIMALS = 6  # of weights that are tested for a common unit
RESOLUTION = 1e-12  # of the largest weight: smaller differences are rounding


@dataclass(frozen=True)
class MapObjective:
    """Minimise Σ |weight|·1[clause violated] subject to hard clauses and blocks."""

    num_atoms: int
    clause_start: np.ndarray  # int64[num_clauses + 1]; no clause is empty
    literal: np.ndarray  # int32[num_literals], atom + 1, negative if negated
    weight: np.ndarray  # float64[num_clauses], +inf where hard
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]

    @property
    def num_clauses(self) -> int:
        return len(self.weight)

    @cached_property
    def hard(self) -> np.ndarray:
        """bool[num_clauses], the hard clauses."""
        return np.isinf(self.weight)

    @cached_property
    def length(self) -> np.ndarray:
        """int64[num_clauses], the number of literals."""
        return np.diff(self.clause_start)

    @cached_property
    def unit(self) -> float:
        """All costs are multiples of this; 0 if the weights have no such unit."""
        return common_unit(np.abs(self.weight[~self.hard]))

    @cached_property
    def scale(self) -> float:
        """A power of two that scales the largest soft weight into [1/2, 1)."""
        largest = float(np.abs(self.weight[~self.hard]).max(initial=0.0))
        return 2.0 ** min(-math.frexp(largest)[1], 1000)

    @property
    def resolution(self) -> float:
        """Costs that differ by less are equal in float arithmetic."""
        return RESOLUTION / self.scale

    def least_cost(self, bound: float) -> float:
        """Return a lower bound of all costs, given a bound found in float arithmetic."""
        bound -= self.resolution
        if self.unit > 1e3 * self.resolution:
            bound = self.unit * math.ceil(bound / self.unit - 1e-6)
        return max(0.0, bound)

    def is_proven(self, cost: float, bound: float) -> bool:
        """Return whether the bound proves the cost to be least, up to rounding."""
        return cost < math.inf and cost - bound <= 2.0 * self.resolution + RESOLUTION * cost

    def component_of_clauses(self, component: np.ndarray) -> np.ndarray:
        """Return the component of each clause, given that of each atom, int32[num_clauses]."""
        return component[np.abs(self.literal[self.clause_start[:-1]]) - 1]

    def component_precision(self, component: np.ndarray) -> np.ndarray:
        """Return the differences of costs that doubles do not show, float64[num_components].

        A sum of n weights in pairs errs by at most u (log2 n + 1) Σ |w|, with u = 2^−53. A weight
        alone is known to RESOLUTION.
        """
        own, count = self.component_of_clauses(component), int(component.max(initial=-1)) + 1
        size = np.abs(np.where(self.hard, 0.0, self.weight))
        largest = np.zeros(count)
        np.maximum.at(largest, own, size)
        terms = np.maximum(1, np.bincount(own, minlength=count))
        rounding = 2.0**-53 * (np.log2(terms) + 1) * np.bincount(own, size, count)
        return np.maximum(rounding, RESOLUTION * largest)

    @cached_property
    def block_of(self) -> np.ndarray:
        """int32[num_atoms], the block of each atom, −1 for none."""
        block_of = np.full(self.num_atoms, -1, np.int32)
        number = np.arange(len(self.block_exact), dtype=np.int32)
        block_of[self.block_atom] = np.repeat(number, np.diff(self.block_start))
        return block_of

    def rows_of(self, clauses: np.ndarray, size: int) -> np.ndarray:
        """Return the literals of clauses of this length, int32[num_chosen, size]."""
        return self.literal[self.clause_start[clauses][:, None] + np.arange(size)]

    def is_satisfied(self, world: np.ndarray) -> np.ndarray:
        """Return bool[num_clauses] for a world bool[num_atoms]."""
        holds = world[np.abs(self.literal) - 1] == (self.literal > 0)
        return row_sums(self.clause_start, holds) > 0

    def cost(self, world: np.ndarray) -> float:
        """Return Σ |weight| of violated soft clauses.

        +inf if a hard clause or block is violated.
        """
        satisfied = self.is_satisfied(world)
        if not satisfied[self.hard].all():
            return np.inf
        true = row_sums(self.block_start, world[self.block_atom])
        if (true > 1).any() or (true[self.block_exact] != 1).any():
            return np.inf
        violated = ~self.hard & (satisfied != (self.weight > 0))
        return float(np.abs(self.weight[violated]).sum())


@dataclass(frozen=True)
class ComponentResult:
    """A world of an objective, and its bound."""

    world: np.ndarray | None  # bool[num_atoms]; None if no feasible world was found
    cost: float  # +inf without a world
    method: str
    bound: float = 0.0  # no world costs less
    possible: bool = True  # False if proven that the hard clauses contradict each other
    flips: int = 0  # of local search
    rounds: int = 0  # of cutting planes


class MapComponent(NamedTuple):
    """A connected component of an objective."""

    atom: np.ndarray  # int64[objective.num_atoms], the atom of the whole that each one is
    objective: MapObjective


def objective_of(network: Network) -> MapObjective:
    """Return the objective of a network, equal clauses merged."""
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    start, literal, weight = merge_equal_clauses(network.clause_start, network.literal, weight)
    unit = (np.diff(start) == 1) & ~np.isinf(weight)
    atom, gain = merge_units_of_atoms(literal[start[:-1][unit]], weight[unit])
    rest = np.flatnonzero(~unit)
    rest_start, rest_literal = take_rows(start, literal, rest)
    return MapObjective(
        network.num_atoms,
        np.concatenate((np.arange(len(atom)), rest_start + len(atom))),
        np.concatenate((np.where(gain > 0, atom + 1, -atom - 1), rest_literal)).astype(np.int32),
        np.concatenate((np.abs(gain), weight[rest])),
        network.block_start,
        network.block_atom,
        network.block_exact,
    )


def merge_units_of_atoms(literal: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return atoms with soft unit clauses and the gain of each if true: w·1[a] − v·1[¬a]."""
    atom, inverse = np.unique(np.abs(literal) - 1, return_inverse=True)
    gain = np.bincount(inverse, np.where(literal > 0, weight, -weight), len(atom))
    kept = gain != 0
    return atom[kept], gain[kept]


def split_components(objective: MapObjective, component: np.ndarray) -> list[MapComponent]:
    """Return the objective's components, given the label of each atom."""
    first_atom = np.abs(objective.literal[objective.clause_start[:-1]]) - 1
    block_first = objective.block_atom[objective.block_start[:-1]]
    count = int(component.max(initial=-1)) + 1
    position = np.empty(objective.num_atoms, np.int32)
    parts = []
    for atoms, clauses, blocks in zip(
        rows_by_label(component, count),
        rows_by_label(component[first_atom], count),
        rows_by_label(component[block_first], count),
        strict=True,
    ):
        position[atoms] = np.arange(len(atoms))
        start, literal = take_rows(objective.clause_start, objective.literal, clauses)
        block_start, block_atom = take_rows(objective.block_start, objective.block_atom, blocks)
        part = MapObjective(
            len(atoms),
            start,
            (np.sign(literal) * (position[np.abs(literal) - 1] + 1)).astype(np.int32),
            objective.weight[clauses],
            block_start,
            position[block_atom],
            objective.block_exact[blocks],
        )
        parts.append(MapComponent(atoms, part))
    return parts


def rows_by_label(label: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the positions of each label 0 … count − 1, in order."""
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=count))
    return np.split(order, ends[:-1]) if count else []


def merge_equal_clauses(
    start: np.ndarray, literal: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add the weights of clauses with the same literals; drop those with weight 0."""
    length = np.diff(start)
    empty = length == 0
    if np.isinf(weight[empty]).any():
        raise LapisError(
            "no world satisfies the hard formulas: one is false under the evidence alone",
            code="unsatisfiable",
        )
    lengths, rows, totals = [], [], []
    for size in np.unique(length[~empty]):
        chosen = np.flatnonzero(length == size)
        unique, inverse = distinct_rows(np.sort(literal[start[chosen][:, None] + np.arange(size)]))
        is_hard = np.isinf(weight[chosen])
        total = np.bincount(inverse, np.where(is_hard, 0.0, weight[chosen]), len(unique))
        must = np.bincount(inverse, is_hard, len(unique)) > 0
        total[must] = np.inf
        kept = total != 0
        rows.append(unique[kept].reshape(-1))
        totals.append(total[kept])
        lengths.append(np.full(int(kept.sum()), size))
    return (
        row_starts(np.concatenate([np.empty(0, np.int64), *lengths])),
        np.concatenate([*rows, np.empty(0, np.int32)]).astype(np.int32),
        np.concatenate([*totals, np.empty(0)]),
    )


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows, and the number of each row's."""
    if rows.shape[1] <= 2:  # packed in one integer, which sorts ten times faster
        wide = rows.astype(np.int64)
        key = wide[:, 0] * (1 << 32) + wide[:, -1]
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return rows[first], inverse
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return unique, inverse.reshape(-1)


def literal_code(literal: np.ndarray) -> np.ndarray:
    """Map literals ±(atom + 1) to codes 2·atom, and 2·atom + 1 if negated."""
    code: np.ndarray = 2 * (np.abs(literal) - 1) + (literal < 0)
    return code.astype(np.int32)


def common_unit(values: np.ndarray) -> float:
    """Return the greatest number that divides all values if they have few decimals; else 0.

    >>> common_unit(np.array([0.5, 0.75])), common_unit(np.array([6.0, 4.0]))
    (0.25, 2.0)
    >>> common_unit(np.array([2**0.5]))
    0.0
    """
    if len(values) == 0:
        return 0.0
    for decimals in range(MAX_DECIMALS + 1):
        scaled = values * 10.0**decimals
        whole = np.rint(scaled)
        if np.abs(scaled - whole).max() <= 1e-13 * float(scaled.max()):
            if whole.max() >= 2**53 or not whole.any():
                return 0.0
            return float(np.gcd.reduce(whole.astype(np.int64))) / 10.0**decimals
    return 0.0
