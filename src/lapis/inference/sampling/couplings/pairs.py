"""What a network says of single atoms and of pairs of them, as couplings and fields.

With s = ±1 for true and false, a soft clause of two literals with signs σ, τ and weight w is

    w·[l₁ ∨ l₂] = const + (w/4)(σ s₁ + τ s₂ − σ τ s₁ s₂)

so all soft clauses of one or two base atoms together are Σ h_i s_i + Σ J_ij s_i s_j, whatever their
signs. Samplers that move many atoms at once walk on these numbers; the clauses they do not cover
(hard, long, or of auxiliary atoms) keep their weights in `rest`, where the others have 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.gibbs import Plan, sweep_work
from lapis.inference.sampling.kernels.clause_graph import ClauseGraph
from lapis.inference.sampling.kernels.cluster import Neighbours, Pairs
from lapis.network.csr import row_starts
from lapis.network.network import Network


class Coupled(NamedTuple):
    """A Gibbs plan, its couplings, and who is resampled by them alone."""

    gibbs: Plan
    pairs: Pairs
    near: Neighbours
    plain: np.ndarray  # int32[...], plain atoms that are units by themselves
    order: np.ndarray  # int32[...], all other units
    freeze: np.ndarray  # float64[num_pairs], 1 − exp(−2|J|); negative where a pair wants to differ

    @property
    def ergodic(self) -> bool | None:
        return self.gibbs.ergodic

    @property
    def sweep_work(self) -> float:
        """In visits of literals; a coupling of a plain atom is a third of one."""
        own = np.diff(self.near.start)[self.plain].sum() / 3 + 2 * len(self.plain)
        units = self.gibbs.units
        atom_unit = units.unit_of_variable[units.variable_of_atom]
        others = np.zeros(len(units.single), bool)
        others[self.order] = True
        return float(own) + sweep_work(self.gibbs, others[atom_unit])


def couple(plan: Plan) -> Coupled:
    """The couplings of a Gibbs sampler's network, under its weights."""
    pairs = find_pairs(plan.network, plan.graph)
    single = plan.units.single
    plain = (single >= 0) & pairs.plain[np.maximum(single, 0)] if len(single) else single >= 0
    order = np.flatnonzero(~plain).astype(np.int32)
    freeze = -np.sign(pairs.coupling) * np.expm1(-2.0 * np.abs(pairs.coupling))
    return Coupled(plan, pairs, find_neighbours(pairs), single[plain], order, freeze)


def find_neighbours(pairs: Pairs) -> Neighbours:
    """Each pair at both of its atoms."""
    atom = np.concatenate((pairs.one, pairs.other))
    order = np.argsort(atom, kind="stable")
    return Neighbours(
        row_starts(np.bincount(atom, minlength=len(pairs.field))),
        np.concatenate((pairs.other, pairs.one))[order],
        np.tile(pairs.coupling, 2)[order],
    )


def find_pairs(network: Network, graph: ClauseGraph) -> Pairs:
    """The couplings and fields of a network under the graph's weights."""
    base = network.num_base_atoms
    length = np.diff(graph.clause_start)
    first = graph.literal[graph.clause_start[:-1]]
    soft = np.isfinite(graph.weight)
    unit = soft & (length == 1) & (np.abs(first) <= base)
    two = np.flatnonzero(soft & (length == 2))
    ends = graph.literal[graph.clause_start[two][:, None] + np.arange(2)]
    inside = (np.abs(ends) <= base).all(axis=1)
    two, ends = two[inside], ends[inside]
    field = find_fields(first[unit], graph.weight[unit], ends, graph.weight[two], base)
    key, coupling = find_couplings(ends, graph.weight[two], base)
    del first, soft, ends, inside

    rest = graph.weight.copy()
    rest[unit] = 0.0
    rest[two] = 0.0
    in_block = np.zeros(base, bool)
    in_block[network.block_atom] = True
    plain = ~in_block & (np.diff(graph.use_start)[:base] == 0)
    atom = np.abs(graph.literal) - 1
    mine = np.repeat(rest != 0, length) & (atom < base)
    plain[atom[mine]] = False
    size = np.where(np.isinf(rest), 0.0, np.abs(rest))
    slack = total(atom[mine], np.repeat(size, length)[mine], base)
    slack[np.diff(graph.use_start)[:base] > 0] = np.inf
    return Pairs(
        (key // max(base, 1)).astype(np.int32), (key % max(base, 1)).astype(np.int32),
        coupling, field, rest, plain, slack, in_block,
    )  # fmt: skip


def find_fields(
    alone: np.ndarray, weight: np.ndarray, ends: np.ndarray, weight_of_two: np.ndarray, base: int
) -> np.ndarray:
    """float64[base], of clauses of one literal and of two, int32[num_clauses, 2]."""
    place = np.concatenate((np.abs(alone) - 1, np.abs(ends).ravel() - 1))
    pull = weight * np.sign(alone) / 2, (weight_of_two[:, None] * np.sign(ends) / 4).ravel()
    return total(place, np.concatenate(pull), base)


def find_couplings(
    ends: np.ndarray, weight: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of clauses of two literals, int64[num_pairs] of low·base + high, and J."""
    atoms = np.abs(ends) - 1
    low, high = atoms.min(axis=1, initial=base), atoms.max(axis=1, initial=0)
    key, place = np.unique(low.astype(np.int64) * base + high, return_inverse=True)
    sign = np.sign(ends)
    coupling = total(place, -weight * sign[:, 0] * sign[:, 1] / 4, len(key))
    real = coupling != 0
    return key[real], coupling[real]


def total(place: np.ndarray, amount: np.ndarray, size: int) -> np.ndarray:
    """float64[size], the amounts added up by place; numpy's own makes integers of nothing."""
    return np.bincount(place, amount, size).astype(np.float64)
