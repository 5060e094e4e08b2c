"""Costs as fields on atoms and couplings of pairs, in whole numbers.

A violated clause is a product of literals: with u = ¬l, the clause l₁ ∨ … ∨ l_k of weight w costs

    w · u₁ ⋯ u_k  where w > 0,      |w| − |w| · u₁ ⋯ u_k  where w < 0.

One literal is a field, two are a coupling: x·ȳ and x̄·y attract, x·y and x̄·ȳ repel, and where a pair
has both they cancel to fields, x·y + x·ȳ = x. Longer products with a minus need one auxiliary atom,

    −a · u₁ ⋯ u_k = min_z  a · (Σ z·ū_i − z)

(Freedman & Drineas 2005), and three literals with a plus have one with a minus beside a pair,
a·u₁u₂u₃ = a·u₁u₂ − a·u₁u₂ū₃ (Fix et al. 2011), where u₃ is the literal whose sign the others do not
have: so the clauses of a weighted conjunction of up to three atoms come out attractive. Components
with other clauses, or with blocks, are left to other methods.

Weights become multiples of a power of two, 2^58 of them at the atom with the most: doubles within
five bits of that are kept exactly, and what is lost of others is added up in `error`. From there on
nothing is rounded, so a cut is minimal or it is not. (Where there are hard clauses, flows add up
along them, and it is 2^58 for all atoms together.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.map.objective import Objective
from lapis.inference.map.probing import literal_code

BITS = 58  # of sums of soft weights
INFINITE = 1 << 61  # hard


@dataclass(frozen=True)
class Couplings:
    """Σ field·x over true nodes, and what pairs of nodes pay; atoms first, then auxiliary nodes.

    A pair that attracts pays `forward` for x·ȳ and `backward` for x̄·y, one that repels `forward`
    for x·y and `backward` for x̄·ȳ.
    """

    field: np.ndarray  # int64[num_nodes], cost of true less cost of false; ±INFINITE where hard
    first: np.ndarray  # int32[num_pairs], nodes
    second: np.ndarray  # int32[num_pairs], nodes after the first
    repels: np.ndarray  # bool[num_pairs]
    forward: np.ndarray  # int64[num_pairs], INFINITE where hard
    backward: np.ndarray  # int64[num_pairs]
    taken: np.ndarray  # bool[num_atoms], those of the components that can be written so
    error: float  # Σ |w − rounded w|: no world's cost is further away from its true one


class Terms(NamedTuple):
    """Products of two literals, as codes, and what they cost."""

    one: np.ndarray  # int64[num_terms]
    other: np.ndarray  # int64[num_terms]
    cost: np.ndarray  # int64[num_terms]


def find_couplings(objective: Objective, component: np.ndarray) -> Couplings:
    """The components, int32[num_atoms] labels, that are fields and couplings."""
    taken = writable_atoms(objective, component)
    mine = taken[np.abs(objective.literal[objective.clause_start[:-1]]) - 1]
    weight, error = whole_weights(objective, mine)
    long = np.flatnonzero(mine & (objective.length > 2))
    field = np.zeros(objective.num_atoms + len(long), np.int64)
    terms = [pair_terms(objective, np.flatnonzero(mine & (objective.length == 2)), weight, field)]
    auxiliary = objective.num_atoms + np.arange(len(long))
    for length in np.unique(objective.length[long]):
        here = objective.length[long] == length
        chosen = literal_code(-objective.rows_of(long[here], length)).astype(np.int64)
        terms += long_terms(chosen, weight[long[here]], 2 * auxiliary[here], field)
    unit = np.flatnonzero(mine & (objective.length == 1))
    code = literal_code(-objective.literal[objective.clause_start[unit]])
    add_cost(field, code, np.where(objective.hard[unit], 0, weight[unit]))
    joined = Terms(*(np.concatenate(columns) for columns in zip(*terms, strict=True)))
    pairs = merge_terms(joined, field)
    must = code[objective.hard[unit]]
    field[must >> 1] = np.where(must & 1, -INFINITE, INFINITE)
    return Couplings(field, *pairs, taken, error)


def writable_atoms(objective: Objective, component: np.ndarray) -> np.ndarray:
    """bool[num_atoms], atoms of components whose clauses all have a form above, and no blocks."""
    length = objective.length
    clause = (length <= 2) | (objective.weight < 0) | ((length == 3) & ~objective.hard)
    bad = np.zeros(int(component.max(initial=-1)) + 1, bool)
    first_atom = np.abs(objective.literal[objective.clause_start[:-1]]) - 1
    bad[component[first_atom[~clause]]] = True
    bad[component[objective.block_atom]] = True
    clash = objective.literal[objective.clause_start[:-1][objective.hard & (length == 1)]]
    bad[component[np.abs(clash[np.isin(-clash, clash)]) - 1]] = True  # contradictions of two units
    return ~bad[component]


def whole_weights(objective: Objective, mine: np.ndarray) -> tuple[np.ndarray, float]:
    """int64[num_clauses], rounded multiples of a power of two; INFINITE where hard."""
    soft = mine & ~objective.hard
    # Of 2^−60 of the weights, whose sum is finite where theirs is not.
    share = np.where(soft, objective.weight, 0.0) * 2.0**-60 * (objective.length + 1)
    if (mine & objective.hard).any():
        most = float(np.abs(share).sum())
    else:
        by_literal = np.repeat(np.abs(share), objective.length)
        most = float(np.bincount(np.abs(objective.literal) - 1, by_literal).max(initial=0.0))
    scale = 2.0 ** min(BITS - 60 - math.frexp(most)[1], 1000) if most > 0 else 1.0
    scaled = np.where(soft, objective.weight, 0.0) * scale
    whole = np.rint(scaled)
    error = float(np.abs(scaled - whole).sum()) / scale
    return np.where(objective.hard, INFINITE, whole.astype(np.int64)), error


def add_cost(field: np.ndarray, code: np.ndarray, cost: np.ndarray) -> None:
    """A cost of literals that hold; ¬x costs c as −c·x does."""
    np.add.at(field, code >> 1, np.where(code & 1, -cost, cost))


def pair_terms(
    objective: Objective, clauses: np.ndarray, weight: np.ndarray, field: np.ndarray
) -> Terms:
    """w·u·v, and −a·u·v = a·u·v̄ − a·u."""
    one, other = literal_code(-objective.rows_of(clauses, 2)).T.astype(np.int64)
    cost = weight[clauses]
    minus = cost < 0
    add_cost(field, one[minus], cost[minus])
    return Terms(one, other ^ minus, np.abs(cost))


def long_terms(
    chosen: np.ndarray, weight: np.ndarray, auxiliary: np.ndarray, field: np.ndarray
) -> list[Terms]:
    """Products of three or more literals, int64[num_clauses, length], each with its auxiliary."""
    plus = weight > 0
    terms = []
    if plus.any():
        literal = chosen[plus]
        odd = literal & 1
        sign = odd.sum(axis=1)
        alone = np.where(sign == 1, odd.argmax(axis=1), np.where(sign == 2, odd.argmin(axis=1), 0))
        row = np.arange(len(literal))
        terms.append(
            Terms(literal[row, (alone + 1) % 3], literal[row, (alone + 2) % 3], weight[plus])
        )
        literal[row, alone] ^= 1
        chosen[plus] = literal
    cost = np.abs(weight)
    add_cost(field, auxiliary, -cost)
    terms += [Terms(auxiliary, column ^ 1, cost) for column in chosen.T]
    return terms


def merge_terms(
    terms: Terms, field: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, repels, forward, backward), the pairs; what cancels goes to the fields."""
    low = np.minimum(terms.one, terms.other)
    high = np.maximum(terms.one, terms.other)
    key, pair = np.unique((low >> 1) * len(field) + (high >> 1), return_inverse=True)
    first, second = np.divmod(key, max(1, len(field)))
    cost = np.zeros((4, len(key)), np.int64)  # of x·y, x·ȳ, x̄·y, x̄·ȳ
    np.add.at(cost, (2 * (low & 1) + (high & 1), pair), terms.cost)
    np.minimum(cost, INFINITE, out=cost)
    mixed = np.flatnonzero((cost[1] + cost[2] > 0) & (cost[0] + cost[3] > 0))
    if len(mixed):
        cost[:, mixed] = cancel(cost[:, mixed], first[mixed], second[mixed], field)
    pieces = []
    for repels, forward, backward in ((False, cost[1], cost[2]), (True, cost[0], cost[3])):
        here = np.flatnonzero((forward > 0) | (backward > 0))
        pieces.append((
            first[here].astype(np.int32), second[here].astype(np.int32),
            np.full(len(here), repels), forward[here], backward[here],
        ))  # fmt: skip
    one, other = pieces
    joined = [np.concatenate(columns) for columns in zip(one, other, strict=True)]
    return joined[0], joined[1], joined[2], joined[3], joined[4]


def cancel(
    cost: np.ndarray, first: np.ndarray, second: np.ndarray, field: np.ndarray
) -> np.ndarray:
    """What attracts against what repels: x·y + x·ȳ = x, and so on; two hard ones stay."""
    x, y = 2 * first, 2 * second
    for attracts, repels, literal in ((1, 0, x), (1, 3, y + 1), (2, 0, y), (2, 3, x + 1)):
        both = np.minimum(cost[attracts], cost[repels])
        both[both >= INFINITE] = 0
        for kind in (attracts, repels):
            cost[kind] -= np.where(cost[kind] < INFINITE, both, 0)
        add_cost(field, literal, both)
    return cost
