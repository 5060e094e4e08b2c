"""Atoms that no clause or block ties to another: a logistic function each, all of them at once.

    P(a) = e¹ / (e⁰ + e¹),   e¹ and e⁰ the exponentiated scores of the unit clauses a and ¬a

There may be millions of them (every cell of an open relation that the rules only weigh), so
they are answered by array operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.exact.whole_parts import any_large, split_scores
from lapis.network.network import Network


class SingleAtoms(NamedTuple):
    atom: np.ndarray  # int64[num_single]
    base: np.ndarray  # float64[num_single], whole parts that were taken out of log_partition
    log_partition: np.ndarray  # float64[num_single], −∞ where the hard clauses contradict
    probability: np.ndarray  # float64[num_single], that the atom is true
    score: np.ndarray  # float64[num_single, 2], of false and true, up to a number
    clause: np.ndarray  # int64[num_units], the unit clauses over them
    falsified: np.ndarray  # float64[num_units], probability that each is false


def single_atoms(network: Network) -> np.ndarray:
    """bool[num_atoms]: in no block, and only in clauses of one literal."""
    single = np.ones(network.num_atoms, bool)
    length = np.diff(network.clause_start)
    single[np.abs(network.literal[np.repeat(length > 1, length)]) - 1] = False
    single[network.block_atom] = False
    return single


def solve_single_atoms(network: Network, single: np.ndarray, weights: np.ndarray) -> SingleAtoms:
    atom = np.flatnonzero(single)
    units = np.flatnonzero(np.diff(network.clause_start) == 1)
    units = units[single[np.abs(network.literal[network.clause_start[units]]) - 1]]
    literal = network.literal[network.clause_start[units]]
    place = np.searchsorted(atom, np.abs(literal) - 1)
    lost_when = (literal < 0).astype(np.int64)  # the value that makes the clause false
    weight_id = network.weight_id[units]
    hard = weight_id < 0
    weight = np.append(-weights, 0.0)[weight_id]
    loss = weight * network.coefficient[units]
    score, base = np.zeros((len(atom), 2)), np.zeros(len(atom))
    if any_large(loss):
        whole, loss = split_scores(weight, network.coefficient[units])
        np.add.at(score, (place, lost_when), whole)
        base = score.max(axis=1)
        score -= base[:, np.newaxis]
    np.add.at(score, (place, lost_when), loss)
    score[place[hard], lost_when[hard]] = -np.inf
    log_partition = np.logaddexp(score[:, 0], score[:, 1])
    possible = np.where(log_partition > -np.inf, log_partition, 0.0)
    probability = np.exp(score - possible[:, np.newaxis])
    return SingleAtoms(
        atom, base, log_partition, probability[:, 1], score, units, probability[place, lost_when]
    )
